"""Corpora that come as tables: every row of a JSON Lines or Parquet file is a document.

Its text is the column that is plainly the text, or the one asked for. Where there is none the row is a record: all its
fields, a line `name: value` each (nested ones as JSON); short ones are metadata as well.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa
import pyarrow.parquet as pq

from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers import Parsed, unique_names
from chunkmill.io.parsers.text import Canonical, decode, mend, paragraphs, told

TEXTS = ("text", "content", "body", "page_content", "document")
IDS = ("id", "doc_id", "_id", "url")
_LARGEST = 2 << 30
_BATCH_ROWS = 1024
_LOOK_AHEAD = 100
_SHORT = 200


def parse(data: bytes, name: str, options: Mapping[str, object]) -> Iterator[Parsed]:
    """A document per row. `text_column` and `id_column` say where they are, if not under a usual name."""
    rows = _parquet if data[:4] in (b"PAR1", b"PARE") or name.lower().endswith((".parquet", ".pq")) else _jsonl
    unique = unique_names()
    for parsed in rows(data, options):
        yield parsed._replace(member=f"#{unique(parsed.member)}")


def _jsonl(data: bytes, options: Mapping[str, object]) -> Iterator[Parsed]:
    columns: tuple[str, str] | None = None
    source, decoding = data, dict[str, str]()
    if not _is_utf8(data):
        text, decoding = decode(data)
        source = text.encode()
    for number, row, read in _rows(source.removeprefix(b"\xef\xbb\xbf")):
        if isinstance(row, DocumentError):
            yield Parsed("", member=str(number), error=row, read=read)
            continue
        if columns is None:
            columns = _columns(_first_rows(source), options)
        yield _document(row, columns, str(number), decoding)._replace(read=read)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)[:500] or "none"


def _rows(data: bytes) -> Iterator[tuple[int, dict[str, object] | DocumentError, float]]:
    """Row number (the line's, from 1), the object on it or what is wrong with it, and the share of the data up to its end.

    Blank lines are passed over.
    """
    start, number = 0, 0
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        line, start, number = data[start:end].strip(), end + 1, number + 1
        if line:
            yield number, _row(line, number), end / len(data)


def _row(line: bytes, number: int) -> dict[str, object] | DocumentError:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        what = (
            "nested too deeply"
            if isinstance(error, RecursionError)
            else f"not JSON ({error.msg} at column {error.colno})"
            if isinstance(error, json.JSONDecodeError)
            else "not JSON"
        )
        return DocumentError("corrupt", f"line {number}: {what}")
    if not isinstance(row, dict):
        return DocumentError("corrupt", f"line {number}: a JSON object is expected, this is {type(row).__name__}")
    return row


def _first_rows(data: bytes) -> dict[str, bool]:
    """The names of the fields of the first rows, and whether they hold strings."""
    names: dict[str, bool] = {}
    for (_, row, _), _ in zip(_rows(data), range(_LOOK_AHEAD), strict=False):
        if isinstance(row, dict):
            for key, value in row.items():
                if value is not None:
                    names[key] = names.get(key, True) and isinstance(value, str)
                else:
                    names.setdefault(key, True)
    return names


def _columns(names: Mapping[str, bool], options: Mapping[str, object]) -> tuple[str, str]:
    """The columns of the text ("": all of them) and of the id ("": the row's number). `names` says which hold strings."""
    asked, asked_id = options.get("text_column"), options.get("id_column")
    strings = [name for name, is_string in names.items() if is_string]
    only = [name for name in strings if name not in IDS]
    text = str(asked) if asked else next((n for n in TEXTS if n in names), only[0] if len(only) == 1 else "")
    if asked and text not in names:
        raise DocumentError(
            "unsupported",
            f"no column {asked!r}; there are: {_listed(names)}; set text_column under formats in a job file",
        )
    if asked_id and asked_id not in names:
        raise DocumentError(
            "unsupported",
            f"no column {asked_id!r}; there are: {_listed(names)}; set id_column under formats in a job file",
        )
    return text, str(asked_id) if asked_id else next((n for n in IDS if n in names and n != text), "")


def _document(row: Mapping[str, object], columns: tuple[str, str], number: str, decoding: Mapping[str, str]) -> Parsed:
    text_column, id_column = columns
    name = _scalar(row.get(id_column)) if id_column else ""
    member = name if name else number
    if not text_column:
        return _record({key: value for key, value in row.items() if key != id_column}, member, decoding)
    value = row.get(text_column)
    if value is not None and not isinstance(value, str):
        return Parsed(
            "",
            member=member,
            error=DocumentError("corrupt", f"row {number}: {text_column!r} is {type(value).__name__}, not a string"),
        )
    if value is None and text_column not in row:
        return Parsed(
            "",
            member=member,
            error=DocumentError("corrupt", f"row {number}: no {text_column!r}; it has: {', '.join(row)[:300]}"),
        )
    text, repaired = mend(value or "")
    others = {key: _told(v) for key, v in row.items() if key not in (text_column, id_column)}
    metadata = {mend(key)[0]: said for key, said in others.items() if said}
    if repaired:
        metadata["repaired"] = str(repaired)
    return Parsed(text, paragraphs(text), metadata | dict(decoding), member)


def _record(row: Mapping[str, object], member: str, decoding: Mapping[str, str]) -> Parsed:
    """A row without a text of its own: its fields, a line each."""
    lines: list[str] = []
    metadata: dict[str, str] = {}
    repaired = 0
    for key, value in row.items():
        name, said = mend(key)[0], _said(value)
        line, lone = mend(f"{key}: {said}".strip())
        repaired += lone
        if said.strip():
            lines.append(line)
        if len(said) <= _SHORT and "\n" not in said and (scalar := _scalar(value)):
            metadata[name] = scalar
    if repaired:
        metadata["repaired"] = str(repaired)
    record = Canonical()
    if lines:
        record.add("record", lines, seams=list(range(len(lines))))
    return record.document(metadata | dict(decoding))._replace(member=member)


def _said(value: object) -> str:
    """A value in words; "" for null and for bytes that are no text."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode() if _is_utf8(value) and b"\0" not in value else ""
    if isinstance(value, list | dict | tuple):
        return json.dumps(value, ensure_ascii=False, default=_said) if value else ""
    return _scalar(value)


def _told(value: object) -> str:
    """A value as metadata: a scalar, a list or a mapping; "" for null and bytes."""
    return told(value, _scalar) if isinstance(value, list | dict | tuple) else _scalar(value)


def _scalar(value: object) -> str:
    """A scalar as metadata; "" for null and for anything nested."""
    if value is None or isinstance(value, list | dict | tuple | bytes):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    try:
        return mend(str(value))[0]
    except ValueError:  # an integer of thousands of digits
        return ""


def _is_utf8(data: bytes) -> bool:
    if b"\0" in data[:4]:
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _parquet(data: bytes, options: Mapping[str, object]) -> Iterator[Parsed]:
    if data.startswith(b"PARE") or data.endswith(b"PARE"):
        raise DocumentError("encrypted", "a Parquet file with an encrypted footer")
    try:
        file = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        _refuse_bombs(file)
        names = {field.name: _is_string(field.type) for field in file.schema_arrow}
        columns = _columns(names, options)
        wanted = [f.name for f in file.schema_arrow if not columns[0] or f.name in columns or not _is_vector(f.type)]
        number = 0
        for batch in file.iter_batches(_BATCH_ROWS, columns=wanted):
            for row in _python(batch):
                number += 1
                yield _document(row, columns, str(number), {})._replace(read=number / file.metadata.num_rows)
    except (pa.ArrowException, OSError, OverflowError, ValueError) as error:
        kind = "encrypted" if "encrypt" in str(error).lower() else "corrupt"
        raise DocumentError(kind, f"not readable as Parquet: {error}"[:500]) from error


def _python(batch: pa.RecordBatch) -> list[dict[str, object]]:
    """The rows as values of Python; what it has no value for (a day in the year 12026) as Arrow writes it."""
    try:
        return batch.to_pylist()  # type: ignore[no-any-return]  # pyarrow has no types
    except (ValueError, OverflowError):
        columns = [[_value(scalar) for scalar in column] for column in batch.columns]
        return [dict(zip(batch.schema.names, values, strict=True)) for values in zip(*columns, strict=True)]


def _value(scalar: pa.Scalar) -> object:
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        if isinstance(scalar, pa.StructScalar):
            return {name: _value(scalar[name]) for name in scalar}
        if isinstance(scalar, pa.ListScalar):
            return [_value(item) for item in scalar]
        return scalar.cast(pa.string()).as_py()


def _is_vector(kind: pa.DataType) -> bool:
    """Whether it is a list of floats, which is worth no reading."""
    return bool(pa.types.is_nested(kind) and kind.num_fields == 1 and pa.types.is_floating(kind.field(0).type))


def _is_string(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _refuse_bombs(file: pq.ParquetFile) -> None:
    groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
    size = sum(max(0, group.total_byte_size) for group in groups)
    if size > _LARGEST:
        raise DocumentError("too_large", f"{size} bytes uncompressed by its footer; the limit is {_LARGEST}")
