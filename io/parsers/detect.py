"""What a source is: its first bytes say it, its name is asked after them."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Collection

from chunkmill.chunkers.errors import DocumentError
from chunkmill.io.parsers.formats import extension, named

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF87a", "a GIF image"),
    (b"GIF89a", "a GIF image"),
    (b"II*\0", "a TIFF image"),
    (b"MM\0*", "a TIFF image"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"\x7fELF", "an ELF program"),
    (b"MZ\x90\0", "a Windows program"),
    (b"\xca\xfe\xba\xbe", "a Java class or a Mach-O program"),
    (b"\xcf\xfa\xed\xfe", "a Mach-O program"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"OggS", "Ogg audio"),
    (b"ID3\3", "MP3 audio"),
    (b"ID3\4", "MP3 audio"),
    (b"fLaC", "FLAC audio"),
    (b"wOFF", "a WOFF font"),
    (b"wOF2", "a WOFF font"),
    (b"ARROW1\0\0", "an Arrow file"),
)
_COMPRESSED = (
    b"\x1f\x8b",
    b"\xfd7zXZ\0",
    b"\x28\xb5\x2f\xfd",
    *(b"BZh%d1AY&SY" % level for level in range(1, 10)),
    *(b"BZh%d\x17rE8P\x90" % level for level in range(1, 10)),
)
_OOXML = (("word/", "docx"), ("ppt/", "pptx"), ("xl/", "xlsx"))
_MIMETYPES = (
    (b"application/epub", "epub"),
    (b"application/vnd.oasis.opendocument.text", "odt"),
    (b"application/vnd.oasis.opendocument.presentation", "odp"),
    (b"application/vnd.oasis.opendocument.spreadsheet", "ods"),
)
_PACKAGES = frozenset(["docx", "pptx", "xlsx", "odt", "odp", "ods", "epub"])
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_HTML = re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)[\s>]", re.I | re.S)
_XML = re.compile(rb"(?:\xef\xbb\xbf)?\s*<\?xml\s")
_MAIL = re.compile(
    rb"(?:From |>?(?:Return-Path|Received|Delivered-To|Message-ID|MIME-Version|From|Date|Subject):[ \t]).*\r?\n[\w-]+:[ \t]",
    re.I,
)
_MBOX = re.compile(rb"From \S.*\d{4}.*\r?\n[\w-]+:")
_ATX = re.compile(rb"(?:\A|\n[ \t]*\r?\n)(#{1,6}) [^\s#].*\r?\n[ \t]*\r?\n")
_NOTEBOOK = re.compile(rb'\s*\{\s*"(?:cells|metadata|nbformat)"')
_BOMS = (b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\0\0\xfe\xff")
_CONTROLS = bytes({*range(1, 32)} - set(b"\t\n\r\f\v\b\x1a\x1b"))
_TEXTUAL = frozenset(
    [
        "text",
        "markdown",
        "html",
        "xml",
        "rst",
        "asciidoc",
        "latex",
        "csv",
        "json",
        "jsonl",
        "email",
        "mbox",
        "subtitles",
        "code",
        "notebook",
    ]
)
_SNIFF = 1 << 16
_HALVES = bytes({*range(9), *range(14, 32)} - {0x1A, 0x1B})
_PLAIN = b" ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_MARKS = re.compile("[\t\n\r -@\u3000-\u303f\uff00-\uff20]")
_USUAL = re.compile(  # letters and signs of the scripts in wide use
    "[\t\n\r -~\xa0-\u017f\u0370-\u0556\u0590-\u06ff\u0900-\u0e5b\u10a0-\u10ff\u1e00-\u1eff"
    "\u2010-\u203a\u20ac\u2116\u2122\u3000-\u30ff\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff9f]"
)


def detect(name: str, data: bytes, own: Collection[str] = ()) -> str:
    """The name of the format of these bytes. `own`: formats of the user's, which are told by the extension of the same name.

    Raises DocumentError: `unsupported` says what else they look like; `binary` does where the name claims a text,
    `type_mismatch` where it claims an office format, `encrypted` for office files under a password.
    """
    if extension(name) in own:
        return extension(name)
    claimed = named(name)
    if not data:
        return claimed if claimed in _TEXTUAL else "text"
    head = data[:_SNIFF]
    if found := _by_magic(head, data, claimed):
        return found
    _refuse_binary(head, claimed)
    if extension(name) == "xls" and not _HTML.match(head[:4096]) and (_XML.match(head) or _is_table(head)):
        return "xml" if _XML.match(head) else "csv"
    return _textual(head, claimed)


def _by_magic(head: bytes, data: bytes, claimed: str) -> str:
    """The format of bytes that are no text; "" where they may be one."""
    if head.startswith((b"PAR1", b"PARE")):
        return "parquet"
    if head.startswith(b"%PDF-") or (b"%PDF-" in head[:1024] and claimed in ("pdf", "")):
        return "pdf"
    if head.startswith(b"{\\rtf"):
        return "rtf"
    if head.startswith((b"PK\3\4", b"PK\5\6")):
        return _zipped(data, claimed)
    if head.startswith(_COMPRESSED):
        return "compressed"
    if head[257:262] == b"ustar":
        return "archive"
    if head.startswith(_OLE):
        return _ole(data)
    return ""


def _zipped(data: bytes, claimed: str) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = [info.filename for info in archive.infolist()]
            mimetype = (
                archive.read("mimetype")[:200] if "mimetype" in names and archive.getinfo("mimetype").file_size < 1000 else b""
            )
    except Exception:
        # Whatever is wrong with the archive, the parser that opens it says it better.
        return claimed if claimed in _PACKAGES else "archive"
    for mark, format in _MIMETYPES:
        if mimetype.startswith(mark):
            return format
    if "META-INF/container.xml" in names:
        return "epub"
    office = next((format for folder, format in _OOXML if any(n.startswith(folder) for n in names)), "")
    if "[Content_Types].xml" in names or (office and office == claimed):
        return office or claimed or "archive"
    if claimed in _PACKAGES:
        raise DocumentError("type_mismatch", f"named like {claimed}, but a ZIP archive of something else")
    return "archive"


def _ole(data: bytes) -> str:
    if "EncryptedPackage".encode("utf-16-le") in data:
        raise DocumentError("encrypted", "an Office document under a password")
    if (
        any(name.encode("utf-16-le") in data for name in ("Workbook", "Book"))
        and "WordDocument".encode("utf-16-le") not in data
    ):
        return "xlsx"  # a legacy workbook (.xls), which the same library reads
    raise DocumentError("unsupported", "looks like an OLE file (legacy .doc, .ppt, .msg)")


def _refuse_binary(head: bytes, claimed: str) -> None:
    """Raise where the bytes are no text. NULs are allowed where they may be halves of UTF-16, or are few."""
    looks = _media(head)
    if not looks and (head.startswith(_BOMS) or utf16_without_mark(head)):
        return
    if not looks:
        nul, controls = head.count(0), len(head) - len(head.translate(None, _CONTROLS))
        if nul > len(head) * 0.2 or controls > len(head) * 0.05:
            looks = f"binary data ({nul} NULs, {controls} controls in {len(head)} bytes)"
    if looks:
        raise DocumentError("binary" if claimed in _TEXTUAL else "unsupported", f"looks like {looks}")


def _media(head: bytes) -> str:
    if head[:4] == b"RIFF" and head[8:12] in (b"WEBP", b"WAVE", b"AVI "):
        return f"{head[8:12].decode().strip()} media"
    if head[:3] == b"\0\0\0" and head[4:8] == b"ftyp":
        return "MP4 media"
    return next((what for magic, what in _MAGIC if head.startswith(magic)), "")


def _textual(head: bytes, claimed: str) -> str:
    """The format of what may be text: what the name claims, unless the beginning contradicts it."""
    if claimed in ("", "text", "xml", "pdf", "parquet", *_PACKAGES) and _HTML.match(head[:4096]):
        return "html"
    if claimed in ("", "text") and _is_markdown(head):
        return "markdown"
    if claimed in ("compressed", "archive"):
        return "text" if claimed == "compressed" else claimed
    if claimed:
        return claimed
    if head.startswith((b"#!/", b"#! /")):
        return "code"
    if _XML.match(head):
        return "xml"
    if _MBOX.match(head):
        return "mbox"
    if _MAIL.match(head):
        return "email"
    return "notebook" if _NOTEBOOK.match(head) and b'"cell_type"' in head else "text"


def _is_table(head: bytes) -> bool:
    """Whether the first lines have equally many tabs, semicolons or commas, as what programs export under a name of Excel's."""
    lines = [line for line in head[:4096].replace(b"\0", b"").splitlines()[:4] if line.strip()][:3]
    return len(lines) > 1 and any(
        lines[0].count(mark) and len({line.count(mark) for line in lines}) == 1 for mark in (b"\t", b";", b",")
    )


def _is_markdown(head: bytes) -> bool:
    """Whether a text uses headings of two levels or more, each after a blank line, as only Markdown does."""
    marks = _ATX.findall(head)
    return len(marks) >= 3 and len(set(marks)) > 1


def utf16_without_mark(head: bytes) -> str:
    """The byte order of a text in UTF-16 that has no mark; "" where it is none.

    In Latin text every second byte is (nearly) always NUL. Others have the halves of spaces, line ends or punctuation, which
    are controls in no other encoding, and in one order all characters are of the usual scripts.
    """
    pairs = len(head) // 2
    even, odd = head[: pairs * 2 : 2].count(0), head[1 : pairs * 2 : 2].count(0)
    if max(even, odd) >= max(2, pairs * 0.4) and min(even, odd) <= pairs * 0.05:
        return "utf-16-le" if odd > even else "utf-16-be"
    if pairs < 3 or len(head) == len(head.translate(None, _HALVES)) or len(head.translate(None, _PLAIN)) < len(head) * 0.4:
        return ""  # the halves of no text, or plain words with a few controls
    texts = [(order, head[: pairs * 2].decode(order, "replace")) for order in ("utf-16-le", "utf-16-be")]
    sound = [(len(_MARKS.findall(text)), order) for order, text in texts if len(_USUAL.findall(text)) >= len(text) * 0.95]
    return max(sound)[1] if sound else ""
