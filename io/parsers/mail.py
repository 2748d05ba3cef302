"""Mail messages and mailboxes: what a reader sees of a message, and its attachments as documents of their own.

The text is the subject (a heading), the lines From, To, Cc and Date, and the message: plain text, or HTML where that says
more or is built of headings or tables. Lines quoted with `>` are `quote` blocks, signatures stay. Parts that are text and have
no file name belong to the message. Attachments are members (`attachments: false` leaves them out), attached messages too;
signatures, and pictures shown inside an HTML message, are not. winmail.dat is `unsupported`, encrypted mail `encrypted`.

Of the standard library's `email` only the decoding of headers and of transfer encodings is used: parts are cut here, without
recursion. A mailbox gives a document per message, `#<Message-ID>`; its attachments are `!<Message-ID>/name`.
"""

from __future__ import annotations

import binascii
import codecs
import contextlib
import re
from collections.abc import Iterator, Mapping
from copy import copy
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message
from email.parser import BytesHeaderParser
from email.policy import compat32
from email.utils import collapse_rfc2231_value, parsedate_to_datetime
from typing import NamedTuple

from chunkmill.chunkers.base import Block, Span
from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers import Member, Parsed, html, unique_names
from chunkmill.io.parsers.formats import named
from chunkmill.io.parsers.joined import joined, moved, words
from chunkmill.io.parsers.text import Canonical, decode, mend, paragraphs

_BLANK = re.compile(rb"\A\r?\n|\r?\n\r?\n|\r\r")
_FROM = re.compile(rb"^From \S[^\n]{0,200}\d{4}[^\n]{0,200}\n(?=>?[!-9;-~]{1,100}:)", re.M)
_ILLEGAL = re.compile(rb"[^A-Za-z0-9+/=\s]")
_ESCAPED = re.compile(rb"^>(>*From )", re.M)
_QUOTED = re.compile(r"(?:^[ \t]?>[^\n]*(?:\n|\Z))+", re.M)
_UUENCODED = re.compile(r"^begin(?:-base64)? [0-7]{3,4} ([^\n]{1,200})\n((?:[ -`]{1,62}[ \t]*\n)*?)(?:`| )?\n?end[ \t]*$", re.M)
_SHOWN = ("From", "To", "Cc", "Date")
_HEADER_LIMIT = 8000  # of one value: the standard library's patterns take quadratic time on it
_DEPTH, _MOST_PARTS = 400, 10_000
_WORK = 40  # times the size of a message that may be searched for boundaries
_SUFFIXES = {
    "message/rfc822": ".eml",
    "text/html": ".html",
    "text/csv": ".csv",
    "text/calendar": ".ics",
    "application/pdf": ".pdf",
}
_LEFT_OUT = [
    "application/pkcs7-signature",
    "application/x-pkcs7-signature",
    "application/pgp-signature",
    "application/pgp-keys",
    "message/external-body",
    "message/partial",
    "text/rfc822-headers",
]


class Part(NamedTuple):
    """A leaf of a message: its headers, its raw body and its type.

    `choice` is the set of alternatives it belongs to (0: none) and which of them; `related` says that another part shows it.
    """

    headers: Message
    body: bytes
    type: str
    choice: tuple[int, int] = (0, 0)
    related: bool = False


class Attached(NamedTuple):
    """A file in a message."""

    name: str
    data: bytes
    error: DocumentError | None = None


def parse(data: bytes, name: str, options: Mapping[str, object]) -> Iterator[Parsed | Member]:
    """A message, or the messages of a mailbox, each followed by its attachments."""
    with_files = options.get("attachments") is not False
    if named(name) != "mbox" and (named(name) == "email" or not _FROM.match(data)):
        message, files = _message(data)
        yield message
        yield from (Member(f.name, f.data, error=f.error) for f in files if with_files)
        return
    unique = unique_names()
    for number, (source, read) in enumerate(_messages(data), 1):
        own = unique(_message_id(source) or str(number))
        try:
            message, files = _message(source)
        except DocumentError as error:
            yield Parsed("", member=f"#{own}", error=error, read=read)
            continue
        yield message._replace(member=f"#{own}", read=read)
        yield from (Member(f"{own}/{f.name}", f.data, error=f.error, read=read) for f in files if with_files)


def _messages(data: bytes) -> Iterator[tuple[bytes, float]]:
    """The messages of a mailbox, `>From ` unescaped, and the share of it up to the end of each. Linear."""
    starts = [m.start() for m in _FROM.finditer(data)]
    if not starts or data[: starts[0]].strip():
        starts = [0, *starts]
    for start, end in zip(starts, [*starts[1:], len(data)], strict=True):
        yield _ESCAPED.sub(rb"\1", data[start:end]), end / len(data)


def _message_id(data: bytes) -> str:
    return words(_header(_entity(data)[0], "Message-ID")).strip("<>")[:200]


def _message(data: bytes) -> tuple[Parsed, list[Attached]]:
    """The message as one document, and what is attached to it."""
    headers, body = _entity(data)
    shown, files, warnings = list[Part](), list[Attached](), list[str]()
    for number, part in enumerate(_parts(headers, body, warnings), 1):
        if _is_text(part):
            shown.append(part)
        elif part.type not in _LEFT_OUT and not _is_decoration(part):
            files.append(_attached(part, number))
    pages, facts = _pages(shown, warnings, files)
    unique = unique_names()
    files = [file._replace(name=unique(file.name)) for file in files]
    metadata = _metadata(headers)
    if files:
        metadata["attachments"] = ", ".join(f.name for f in files)
    if warnings:
        metadata["warning"] = "; ".join(dict.fromkeys(warnings))[:500]
    return joined([_head(headers), *pages])._replace(metadata=metadata | facts), files


def _entity(data: bytes) -> tuple[Message, bytes]:
    """The headers, and the body as it was sent. Lines among the headers that are none begin the body."""
    blank = _BLANK.search(data)
    head, body = (data[: blank.start()], data[blank.end() :]) if blank else (data, b"")
    headers = BytesHeaderParser(policy=compat32).parsebytes(head + b"\n\n")
    for name in ("Content-Type", "Content-Disposition"):
        if len(str(headers.get(name) or "")) > _HEADER_LIMIT:
            headers.replace_header(name, str(headers.get(name))[:_HEADER_LIMIT])
    stray = _stray(headers)
    return headers, stray + b"\n\n" + body if stray else body


def _stray(headers: Message) -> bytes:
    """The lines behind the headers, as they were sent: `get_payload` would decode them by whatever charset is named."""
    plain = copy(headers)
    del plain["Content-Type"]
    plain["Content-Type"] = "text/plain; charset=latin-1"
    return str(plain.get_payload() or "").encode("latin-1").strip()


def _parts(headers: Message, body: bytes, warnings: list[str]) -> Iterator[Part]:
    """The leaves of a message in order. Parts within parts are opened with a stack, as deep as the work stays linear."""
    work = _WORK * len(body) + (1 << 24)
    stack = [(Part(headers, body, headers.get_content_type()), 0)]
    sets = leaves = 0
    while stack:
        part, depth = stack.pop()
        boundary = _boundary(part.headers) if part.type.startswith("multipart/") else b""
        work -= len(part.body) if boundary else 0
        if depth > _DEPTH or work < 0:
            raise DocumentError("too_deep", f"a message of parts within parts, {depth} deep")
        if _is_encrypted(part):
            raise DocumentError("encrypted", f"an encrypted message ({part.type})")
        if found := _cut(part.body, boundary) if boundary else []:
            sets += part.type == "multipart/alternative"
            stack += [(inner, depth + 1) for inner in reversed(list(_inner(part, found, sets)))]
            continue
        leaves += 1
        if leaves > _MOST_PARTS:
            warnings.append(f"only the first {_MOST_PARTS} parts are read")
            return
        if part.type.startswith("multipart/"):
            warnings.append(f"a {part.type} message without its parts is read as text")
            part = part._replace(type="text/plain")
        yield part


def _inner(part: Part, found: list[bytes], sets: int) -> Iterator[Part]:
    """The parts of a part."""
    default = "message/rfc822" if part.type == "multipart/digest" else "text/plain"
    for number, piece in enumerate(found[: _MOST_PARTS + 1]):
        headers, content = _entity(piece)
        choice = (sets, number) if part.type == "multipart/alternative" else part.choice
        related = part.related or (part.type == "multipart/related" and number > 0)
        yield Part(headers, content, headers.get_content_type() if headers.get("Content-Type") else default, choice, related)


def _is_encrypted(part: Part) -> bool:
    """PGP, or S/MIME that is more than signed."""
    smime = (
        part.type.endswith("pkcs7-mime") and "signed" not in str(part.headers.get_param("smime-type") or "enveloped").lower()
    )
    return smime or part.type == "multipart/encrypted"


def _boundary(headers: Message) -> bytes:
    boundary = headers.get_boundary()
    return boundary.encode("utf-8", "surrogateescape") if boundary else b""


def _cut(body: bytes, boundary: bytes) -> list[bytes]:
    """What stands between the boundaries, whose line end before them is theirs; the last part may lack its end."""
    lines = list(re.finditer(rb"(?:\A|\r?\n|(?<=\n))--" + re.escape(boundary) + rb"(--)?[ \t]*\r?(?=\n|\Z)", body))
    last = next((i for i, line in enumerate(lines) if line[1]), len(lines))
    end = len(body)
    if last == len(lines) and len(tail := body[body.rfind(b"\n") + 1 :]) > 2 and (b"--%b--" % boundary).startswith(tail):
        end -= len(tail)  # a boundary that is cut off
    ends = [*(line.start() for line in lines), end]
    return [body[line.end() + 1 : end] for line, end in zip(lines[:last], ends[1:], strict=False)]


def _is_text(part: Part) -> bool:
    """Whether the part is shown in the message."""
    if part.headers.get_content_disposition() == "attachment" or _filename(part):
        return False
    if part.type in _LEFT_OUT or part.type in ("text/csv", "text/calendar"):
        return False
    return part.type.startswith("text/") or part.type == "message/delivery-status"


def _is_decoration(part: Part) -> bool:
    """Whether it is a picture that an HTML message shows."""
    kind = part.type.partition("/")[0]
    inline = part.related or part.headers.get_content_disposition() == "inline" or part.headers.get("Content-ID")
    return kind == "image" and bool(inline) and part.headers.get_content_disposition() != "attachment"


def _filename(part: Part) -> str:
    """The part's file name, without any path."""
    found = part.headers.get_filename()
    name = _unfolded(collapse_rfc2231_value(found)) if found else ""
    return mend(words(re.sub(r"[\0-\x1f]", "", re.split(r"[/\\]", name)[-1])))[0][-200:].strip(". ")


def _attached(part: Part, number: int) -> Attached:
    name = _filename(part) or f"attachment-{number}{_SUFFIXES.get(part.type, '')}"
    if part.type == "message/rfc822":
        data = (
            _bytes(part)[0]
            if part.headers.get("Content-Transfer-Encoding", "").strip().lower() in ("base64", "quoted-printable")
            else part.body
        )
        return Attached(name if name.lower().endswith(".eml") else name + ".eml", data.lstrip(b"\r\n"))
    data = _bytes(part)[0]
    if part.type in ("application/ms-tnef", "application/vnd.ms-tnef") or name.lower() == "winmail.dat":
        return Attached(
            name, data, DocumentError("unsupported", f"{name} holds Outlook's own format (TNEF), which is not read")
        )
    if part.type.startswith(("audio/", "video/")):
        return Attached(name, data, DocumentError("unsupported", f"{name} is {part.type}"))
    return Attached(name, data)


def _bytes(part: Part) -> tuple[bytes, bool]:
    """The part's content, and whether its transfer encoding was damaged."""
    encoding = str(part.headers.get("Content-Transfer-Encoding") or "").strip().lower()
    if encoding not in ("base64", "quoted-printable", "x-uuencode", "uuencode", "uue"):
        return part.body, False
    body, damaged = _legal(part.body) if encoding == "base64" else (part.body, False)
    leaf = Message()
    leaf["Content-Transfer-Encoding"] = encoding
    leaf.set_payload(body.decode("ascii", "surrogateescape"))
    content = leaf.get_payload(decode=True)
    return (content if isinstance(content, bytes) else body), damaged or bool(leaf.defects)


def _legal(body: bytes) -> tuple[bytes, bool]:
    """Base64 without what is none: of a line with other characters in it (a footer, noise) only what stands before them."""
    if not _ILLEGAL.search(body):
        return body, False
    lines = (_ILLEGAL.split(line, maxsplit=1) for line in body.splitlines())
    return b"\n".join(line[0] if len(line) == 1 else line[0][: len(line[0]) // 4 * 4] for line in lines), True


def _pages(shown: list[Part], warnings: list[str], files: list[Attached]) -> tuple[list[Parsed], dict[str, str]]:
    """The parts that are shown as pages, the best of each set of alternatives; how they were decoded."""
    sets: dict[object, dict[int, list[Parsed]]] = {}
    rich: set[tuple[int, int]] = set()
    facts: dict[str, str] = {}
    for number, part in enumerate(shown):
        page, found = _page(part, warnings, files)
        facts = found | facts
        key = part.choice[0] or f"part {number}"
        sets.setdefault(key, {}).setdefault(part.choice[1], []).append(page)
        if part.type == "text/html":
            rich.add(part.choice)
    return [_best(key, choices, rich) for key, choices in sets.items()], facts


def _best(key: object, choices: dict[int, list[Parsed]], rich: set[tuple[int, int]]) -> Parsed:
    """Of alternatives the one that tells most: HTML with headings or tables, or with more words; else plain text."""
    pages = [((key, number) in rich, joined(parts)) for number, parts in choices.items()]
    best = next((page for is_html, page in pages if not is_html and page.text.strip()), pages[0][1])
    for is_html, page in pages:
        if is_html and _is_richer(page, best):
            best = page
    return best


def _is_richer(page: Parsed, plain: Parsed) -> bool:
    here, there = len(page.text.split()), len(plain.text.split())
    tables = (b for b in page.blocks if b.kind == "table" and len(b.parts) > 1)
    structured = any(b.kind == "heading" for b in page.blocks) or any(" | " in page.text[slice(*b.span)] for b in tables)
    return there < 0.6 * here or (structured and here >= 0.8 * there)


def _page(part: Part, warnings: list[str], files: list[Attached]) -> tuple[Parsed, dict[str, str]]:
    """One part as text and blocks."""
    data, damaged = _bytes(part)
    if damaged:
        warnings.append(f"damaged {part.headers.get('Content-Transfer-Encoding')} was decoded as far as it goes")
    text, facts = _decoded(data, part.headers, warnings)
    if part.type == "text/html":
        return _without_layout(next(html.parse(text.encode("utf-8", "replace"), "", {}))), facts
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if str(part.headers.get_param("format")).lower() == "flowed":
        text = _unflowed(text, str(part.headers.get_param("delsp")).lower() == "yes")
    text = _without_files("\n".join(line.rstrip(" \t") for line in text.split("\n")), files).strip("\n").rstrip()
    return Parsed(text, _blocks(text)), facts


def _without_layout(page: Parsed) -> Parsed:
    """The page without tables of one row: they hold the paragraphs of a newsletter in place."""
    blocks = (b._replace(kind="paragraph", parts=()) if b.kind == "table" and len(b.parts) < 2 else b for b in page.blocks)
    return Parsed(page.text, tuple(blocks))


def _decoded(data: bytes, headers: Message, warnings: list[str]) -> tuple[str, dict[str, str]]:
    """The text in the charset it claims, or the one it is in."""
    charset = headers.get_param("charset")
    declared = words(collapse_rfc2231_value(charset)) if charset else ""
    try:
        codecs.lookup(declared or "ascii")
    except (LookupError, ValueError):
        warnings.append(f"unknown charset {declared[:40]!r}")
    try:
        return decode(data, declared)
    except DocumentError:
        text = data.decode("utf-8", "replace")
        return text, {"encoding": "utf-8", "repaired": str(text.count("\ufffd"))}


def _unflowed(text: str, without_space: bool) -> str:
    """Lines that a mail program broke softly, whole again (RFC 3676)."""
    found: list[str] = []
    open_depth = -1  # of quoting, of a line that goes on
    for line in text.split("\n"):
        depth = len(line) - len(line.lstrip(">"))
        content = line[depth:].removeprefix(" ")
        flows = content.endswith(" ") and content != "-- "
        if open_depth == depth and content != "-- ":
            found[-1] += content
        else:
            found.append(">" * depth + (" " if depth and content else "") + content)
        if flows and without_space:
            found[-1] = found[-1][:-1]
        open_depth = depth if flows else -1
    return "\n".join(found)


def _without_files(text: str, files: list[Attached]) -> str:
    """The text without files that were written into it in letters (uuencode)."""
    if "\nend" not in text:
        return text

    def lifted(found: re.Match[str]) -> str:
        try:
            data = b"".join(binascii.a2b_uu(line) for line in found[2].splitlines())
        except (binascii.Error, ValueError):
            return found.group()
        files.append(Attached(re.split(r"[/\\]", found[1])[-1].strip() or "attachment", data))
        return ""

    return _UUENCODED.sub(lifted, text)


def _blocks(text: str) -> tuple[Block, ...]:
    """Quoted stretches and the paragraphs between them."""
    blocks: list[Block] = []
    last = 0
    for quote in _QUOTED.finditer(text):
        blocks += (moved(b, last) for b in paragraphs(text[last : quote.start()]))
        trimmed = quote.group().strip()
        start = quote.start() + quote.group().index(trimmed)
        blocks.append(Block("quote", Span(start, start + len(trimmed))))
        last = quote.end()
    return (*blocks, *(moved(b, last) for b in paragraphs(text[last:])))


def _head(headers: Message) -> Parsed:
    """The subject, and who wrote to whom and when, as the message says it."""
    out = Canonical()
    if subject := _header(headers, "Subject"):
        out.add("heading", [subject], level=1)
    lines = [f"{name}: {value}" for name in _SHOWN if (value := _header(headers, name))]
    if lines:
        out.add("paragraph", lines)
    return out.document({})


def _metadata(headers: Message) -> dict[str, str]:
    """The headers a reader asks for. `date` is ISO 8601 where it can be read."""
    names = {
        "title": "Subject",
        "from": "From",
        "to": "To",
        "cc": "Cc",
        "date": "Date",
        "message_id": "Message-ID",
        "in_reply_to": "In-Reply-To",
    }
    names |= {"list_id": "List-Id", "newsgroups": "Newsgroups", "language": "Content-Language"}
    found = {key: _header(headers, name) for key, name in names.items()}
    found["author"] = re.sub(r"\s*<[^<>]*>\s*$", "", found["from"]).strip("\"' ") or found["from"].strip("<> ")
    with contextlib.suppress(TypeError, ValueError, IndexError, OverflowError):
        found["date"] = parsedate_to_datetime(found["date"]).isoformat()
    return {key: value for key, value in found.items() if value}


def _header(headers: Message, name: str) -> str:
    """A header's value as people read it: unfolded, its encoded words decoded; raw bytes as UTF-8 or Windows-1252."""
    raw = next((value for key, value in headers.raw_items() if key.lower() == name.lower()), "")
    return _unfolded(str(raw))


def _unfolded(raw: str) -> str:
    raw = _raw_text(raw[:_HEADER_LIMIT])
    if "=?" not in raw:
        return words(mend(raw)[0])
    try:
        pieces = decode_header(raw)
    except (ValueError, HeaderParseError):
        return words(mend(raw)[0])
    return words(mend("".join(_piece(piece, charset) for piece, charset in pieces))[0])


def _raw_text(value: str) -> str:
    data = value.encode("utf-8", "surrogateescape")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def _piece(piece: bytes | str, charset: str | None) -> str:
    if isinstance(piece, str):
        return piece
    if charset is None:
        return piece.decode("raw-unicode-escape", "replace")
    try:
        return decode(piece, charset)[0] if piece else ""
    except DocumentError:
        return piece.decode("cp1252", "replace")
