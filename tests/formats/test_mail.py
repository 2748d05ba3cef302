"""Mail: the message a reader sees, its attachments as documents of their own, and a document per message of a mailbox."""

from __future__ import annotations

import base64
import binascii
import contextlib
import random
import time
from email.message import EmailMessage
from pathlib import Path

import pytest

from chunkmill.chunkers.errors import DocumentError
from chunkmill.chunkers.turns import turns
from chunkmill.io.parsers import Parsed, parse
from sound import assert_sound

CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason=f"the shared corpus is not at {CORPUS}")


def documents(data: str | bytes, name: str = "a.eml", **options: object) -> list[Parsed]:
    found = list(parse(data if isinstance(data, bytes) else data.encode(), name, {"email": options, "mbox": options}))
    for parsed in found:
        assert_sound(parsed)
    return found


def body(data: str | bytes) -> list[tuple[str, str]]:
    """The blocks behind the subject and the header lines."""
    parsed = documents(data)[0]
    found = [(b.kind, parsed.text[slice(*b.span)]) for b in parsed.blocks]
    return [block for block in found if not block[1].startswith(("From:", "Subject here"))]


def mixed(*parts: str, type: str = "mixed") -> str:
    return (
        f"From: a@b.c\nSubject: Subject here\nContent-Type: multipart/{type}; boundary=XX\n\n"
        + "".join(f"--XX\n{p}\n" for p in parts)
        + "--XX--\n"
    )


PLAIN = """From: =?utf-8?q?J=C3=B6rg_M?= <j@x.org>
To: Ann <ann@x.org>,
 Bo <bo@x.org>
Subject: =?iso-8859-1?q?Caf=E9?= today
Date: Mon, 6 Jun 2005 22:21:22 +0200
Message-ID: <1@x>

Yes.

On Sunday, Ann wrote:
> Shall we go?
>
> to the caf=E9
Fine

--
Jörg
"""


def test_a_message_reads_as_a_mail_program_shows_it():
    (parsed,) = documents(PLAIN)

    assert [(b.kind, parsed.text[slice(*b.span)]) for b in parsed.blocks] == [
        ("heading", "Café today"),
        ("paragraph", "From: Jörg M <j@x.org>\nTo: Ann <ann@x.org>, Bo <bo@x.org>\nDate: Mon, 6 Jun 2005 22:21:22 +0200"),
        ("paragraph", "Yes."),
        ("paragraph", "On Sunday, Ann wrote:"),
        ("quote", "> Shall we go?\n>\n> to the caf=E9"),
        ("paragraph", "Fine"),
        ("paragraph", "--\nJörg"),
    ]


def test_the_headers_are_metadata():
    metadata = documents(PLAIN)[0].metadata

    expected = {"title": "Café today", "author": "Jörg M", "date": "2005-06-06T22:21:22+02:00", "message_id": "<1@x>"}
    assert expected == {key: metadata[key] for key in expected}


def test_the_turns_of_a_thread_are_found_in_it():
    assert [turn.label for turn in turns(documents(PLAIN)[0].text)][:2] == ["Jörg M", "Ann (Sunday)"]


def test_html_is_read_where_it_says_more_and_plain_text_where_it_says_the_same():
    html = "Content-Type: text/html\n\n<p>{}</p>"

    assert body(mixed("\nthe same words", html.format("the <b>same</b> words"), type="alternative")) == [
        ("paragraph", "the same words")
    ]
    assert body(mixed("\nsee HTML", html.format("far more than a stub says"), type="alternative")) == [
        ("paragraph", "far more than a stub says")
    ]
    assert body(mixed(html.format("only HTML"), type="alternative")) == [("paragraph", "only HTML")]
    table = "<table><tr><td>a</td><td>b</td></tr><tr><td>1</td><td>2</td></tr></table>"
    assert body(mixed("\na b\n1 2", html.format(table), type="alternative")) == [("table", "a | b\n1 | 2")]


def test_all_of_an_alternative_of_several_parts_is_kept():
    part = "--YY\nContent-Type: text/html\n\n<p>{} of the two</p>\n"
    rich = "Content-Type: multipart/mixed; boundary=YY\n\n" + part.format("first") + part.format("second") + "--YY--"

    assert body(mixed("\nstub", rich, type="alternative")) == [
        ("paragraph", "first of the two"),
        ("paragraph", "second of the two"),
    ]


def test_attachments_are_documents_and_inline_text_belongs_to_the_message():
    message = EmailMessage()
    message["Subject"] = "s"
    message.set_content("hello")
    message.add_attachment("a,b\n1,2\n", subtype="csv", filename="../../etc/t\u00e4ble.csv")
    message.add_attachment(b"PK\x05\x06" + bytes(18), maintype="application", subtype="zip", filename="empty.zip")
    forwarded = EmailMessage()
    forwarded["Subject"] = "inner"
    forwarded.set_content("forwarded words")
    message.add_attachment(forwarded)
    first, *others = documents(bytes(message))

    assert first.text == "s\n\nhello"
    assert [p.member for p in others if p.text] == ["!täble.csv", "!attachment-4.eml"]
    assert others[-1].text == "inner\n\nforwarded words"
    assert first.metadata["attachments"] == "täble.csv, empty.zip, attachment-4.eml"
    assert len(documents(bytes(message), attachments=False)) == 1


def test_signatures_and_pictures_shown_in_the_message_are_no_documents():
    picture = "Content-Type: image/png\nContent-ID: <1>\nContent-Transfer-Encoding: base64\n\niVBORw0KGgo="
    signature = "Content-Type: application/pgp-signature; name=s.asc\n\n-----BEGIN"

    assert len(documents(mixed("\nhello", picture, signature))) == 1


def test_winmail_is_reported_and_encrypted_mail_is_encrypted():
    (_, winmail) = documents(mixed("\nhello", "Content-Type: application/ms-tnef; name=winmail.dat\n\nxx"))
    with pytest.raises(DocumentError) as error:
        documents(mixed("Content-Type: application/pgp-encrypted\n\nVersion: 1", type="encrypted"))

    assert (winmail.error and winmail.error.kind, error.value.kind) == ("unsupported", "encrypted")


def test_softly_broken_lines_are_whole_again():
    flowed = (
        "Subject: Subject here\nContent-Type: text/plain; format=flowed\n\nA line that \ngoes on.\n> quoted \n> too\n-- \nme\n"
    )

    assert body(flowed) == [("paragraph", "A line that goes on."), ("quote", "> quoted too"), ("paragraph", "--\nme")]


def test_a_file_written_into_the_text_is_an_attachment():
    written = (binascii.b2a_uu(b"hel") + binascii.b2a_uu(b"lo")).decode()
    data = f"Subject: s\n\nsee\n\nbegin 644 a.txt\n{written}`\nend\n\nbye\n"

    first, attached = documents(data)

    assert (first.text, attached.member, attached.text) == ("s\n\nsee\n\n\n\nbye", "!a.txt", "hello")


@pytest.mark.parametrize(
    ("charset", "codec", "text"),
    [
        ("iso-2022-jp", "iso2022_jp", "すみません。"),
        ("ks_c_5601-1987", "cp949", "스티해 안녕하세요"),
        ("koi8-r", "koi8_r", "Привет, мир"),
        ("utf-8", "cp1252", "déjà vu ici"),
    ],
)
def test_text_is_decoded_by_its_charset_or_by_what_it_is(charset, codec, text):
    data = f"Subject: Subject here\nContent-Type: text/plain; charset={charset}\n\n".encode() + text.encode(codec)

    assert [("paragraph", text)] == body(data)


def test_a_header_that_cannot_be_decoded_stays_as_it_is():
    assert documents("Subject: =?utf-8?b?a?= x\n\nhi")[0].metadata["title"] == "=?utf-8?b?a?= x"


def test_damaged_base64_and_an_unknown_charset_give_a_warning():
    head = "Subject: Subject here\nContent-Type: text/plain; charset=made-up\nContent-Transfer-Encoding: base64\n\n"
    (parsed,) = documents(head + base64.encodebytes(b"Hello world, " * 9).decode() + "_____ a list's footer\n")

    assert parsed.text.endswith("Hello world, " * 8 + "Hello world,")
    assert "damaged base64" in parsed.metadata["warning"]
    assert "'made-up'" in parsed.metadata["warning"]


def test_a_boundary_that_never_comes_leaves_the_text():
    data = "Subject: Subject here\nContent-Type: multipart/mixed; boundary=XX\n\njust text\n"

    assert body(data) == [("paragraph", "just text")]
    assert "read as text" in documents(data)[0].metadata["warning"]


def test_many_nested_parts_are_opened_or_refused():
    def nested(depth: int) -> str:
        return "".join(f"Content-Type: multipart/mixed; boundary=b{i}\n\n--b{i}\n" for i in range(depth)) + "\ninnermost"

    assert body("From: a\n" + nested(300)) == [("paragraph", "innermost")]
    with pytest.raises(DocumentError) as error:
        documents("From: a\n" + nested(2000))
    assert error.value.kind == "too_deep"


def test_parts_without_end_are_read_up_to_a_number():
    parsed = documents("Subject: s\nContent-Type: multipart/mixed; boundary=b\n\n" + "--b\n\nx\n" * 12_000)[0]

    assert (parsed.text.count("x"), "10000 parts" in parsed.metadata["warning"]) == (10_000, True)


MBOX = """From a@b.c Tue May 10 11:28:07 2005
Message-ID: <one@x>
Subject: One

first
>From here on
>>From there

From a@b.c Tue May 10 11:28:08 2005
Message-ID: <one@x>
Subject: Two
Content-Type: multipart/mixed; boundary=B

--B

second
From now on 1999 is over
--B
Content-Type: text/plain; name=n.txt

attached
--B--

From a@b.c Tue May 10 11:28:09 2005
Subject: Three
Content-Type: multipart/encrypted; boundary=B

--B--
"""


def test_a_mailbox_gives_a_document_per_message_and_attachments_named_after_theirs():
    found = documents(MBOX, "a.mbox")

    assert [p.member for p in found] == ["#one@x", "#one@x~2", "!one@x~2/n.txt", "#3"]
    assert [p.text for p in found] == [
        "One\n\nfirst\nFrom here on\n>From there",
        "Two\n\nsecond\nFrom now on 1999 is over",
        "attached",
        "",
    ]
    assert found[3].error
    assert found[3].error.kind == "encrypted"


def test_a_message_that_begins_with_a_from_line_is_one_message():
    assert [p.metadata["title"] for p in documents(MBOX.split("\n\nFrom")[0], "a.eml")] == ["One"]


@pytest.mark.parametrize(
    "hostile",
    [
        "Subject: " + "=?a?q?" * 200_000,
        "Content-Type: multipart/mixed; boundary=" + '";' * 500_000,
        "Content-Type: text/plain" + ";a*0*=x" * 200_000,
        "From 1" + "1" * 1_000_000,
        "Content-Type: multipart/mixed; boundary=b\n\n" + "--b\n" * 100_000,
        "X: y\n" * 100_000,
        "A: b\n\n" + "begin 644 a\n" * 100_000 + "end",
        "A: b\n\n" + "> " * 500_000,
        "A: b\nContent-Type: text/plain; format=flowed\n\n" + "x \n" * 100_000,
    ],
)
def test_no_header_or_body_takes_long(hostile):
    begin = time.process_time()
    with contextlib.suppress(DocumentError):
        documents(hostile, "x.mbox")

    assert time.process_time() - begin < 8


@pytest.mark.long
def test_time_grows_with_the_size_of_the_mailbox():
    def seconds(times: int) -> float:
        begin = time.process_time()
        list(parse((MBOX * times).encode(), "a.mbox"))
        return time.process_time() - begin

    seconds(10)
    assert seconds(800) < 12 * max(0.02, seconds(200))


@pytest.mark.parametrize("charset", ["latin-1", "idna", "undefined", "a\0b", '"\xe9"'])
def test_lines_among_the_headers_are_read_like_the_body_whatever_charset_is_named(charset):
    head = f"From: a@b.org\nContent-Type: text/plain; charset={charset}\nstray \xe9 line\n\nbody \xe9\n"

    (parsed,) = parse(head.encode("latin-1"), "a.eml")

    assert "stray é line\n\nbody é" in parsed.text


def test_any_damage_gives_sound_blocks_or_a_document_error():
    rng = random.Random(4)
    seeds = [
        PLAIN.encode(),
        MBOX.encode(),
        mixed(
            "\na", "Content-Type: text/html; charset=x\nContent-Transfer-Encoding: base64\n\nPGI+", type="alternative"
        ).encode(),
    ]
    for _ in range(400):
        data = bytearray(rng.choice(seeds))
        for _ in range(rng.randint(1, 6)):
            at = rng.randrange(len(data))
            data[at : at + rng.choice((0, 1, 20))] = rng.choice(
                (b"\n", b"=?x?b?", b"--B", b"\xff\xfe", b"\0", b";", b'"', b":", b"\r")
            )
        try:
            for parsed in parse(bytes(data), rng.choice(("a.eml", "a.mbox")), format=rng.choice(("email", "mbox"))):
                assert_sound(parsed)
        except DocumentError:
            pass


@needs_corpus
def test_every_message_of_the_open_corpus_is_read():
    for path in sorted((CORPUS / "open" / "eml").rglob("*")):
        if path.is_file():
            (first, *_) = list(parse(path.read_bytes(), path.name, format="email"))
            assert_sound(first)
            assert first.text
            assert first.metadata["from"]
            assert "boundary=" not in first.text


def test_a_boundary_that_is_cut_off_is_no_text():
    message = b'Subject: s\nContent-Type: multipart/mixed; boundary="==abc123"\n\n--==abc123\n\nHello there\n\n--==abc'

    (parsed,) = parse(message, "a.eml")

    assert parsed.text == "s\n\nHello there"
