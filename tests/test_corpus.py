from __future__ import annotations

import os
import socket
import threading
import time
import unicodedata
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pytest

from chunkmill.chunkers.errors import ConfigError, DocumentError, RunError
from chunkmill.io.corpus import fetch, list_sources
from chunkmill.io.schema import LISTING

ODD_NAMES = [
    "plain.txt",
    "with space.txt",
    "100%.txt",
    "a%20b.txt",
    "a+b.txt",
    "a#b?c=d&e.txt",
    "new\nline.txt",
    "-rf.txt",
    ".hidden",
    "_underscore.txt",
    "it's [brackets] {*}.txt",
    'quote".txt',
    "back\\slash.txt",
    unicodedata.normalize("NFC", "é.txt"),
    unicodedata.normalize("NFD", "é.txt"),
    "文書 😀.txt",
]


def listing(location: object, **options: list[str]) -> pa.Table:
    return pa.concat_tables(list(list_sources(str(location), **options)) or [LISTING.empty_table()])


def uris(location: object, **options: list[str]) -> list[str]:
    return listing(location, **options)["uri"].to_pylist()


def names(root: Path, **options: list[str]) -> list[str]:
    return [uri.removeprefix(f"{root}/") for uri in uris(root, **options)]


def troubles(root: object) -> dict[str, str]:
    rows = listing(root).to_pylist()
    return {os.path.basename(row["uri"]): row["error_kind"] for row in rows if row["error_kind"]}


def tree(root: Path, *files: str) -> Path:
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_bytes(file.encode())
    return root


# Local disk


def test_a_folder_lists_every_file_with_size_and_time(tmp_path: Path) -> None:
    tree(tmp_path, "a.txt", "sub/b.txt")
    os.utime(tmp_path / "a.txt", ns=(0, 1_700_000_000_123_456_789))

    table = listing(tmp_path)

    assert table.schema == LISTING
    assert table["uri"].to_pylist() == [f"{tmp_path}/a.txt", f"{tmp_path}/sub/b.txt"]
    assert table["size"].to_pylist() == [5, 9]
    assert table["etag"].to_pylist() == ["", ""]
    assert table["modified"].cast(pa.int64())[0].as_py() == 1_700_000_000_123_456
    assert table["error_kind"].null_count == 2


def test_files_come_in_the_order_of_their_uris(tmp_path: Path) -> None:
    tree(tmp_path, "b", "a/z", "a!", "a.txt", "a/é", "ab", "A", "a-b/c")

    assert sorted(names(tmp_path)) == names(tmp_path)


def test_large_folders_come_in_several_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, *(f"{i:03}" for i in range(25)))
    monkeypatch.setattr("chunkmill.io.corpus.TABLE_ROWS", 10)

    assert [table.num_rows for table in list_sources(str(tmp_path))] == [10, 10, 5]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_any_local_name_is_listed_and_fetched(tmp_path: Path, name: str) -> None:
    tree(tmp_path, name)

    [uri] = uris(tmp_path)

    assert uri == f"{tmp_path}/{name}"
    assert fetch(uri) == name.encode()


def test_a_location_may_be_one_file_a_file_uri_or_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(tmp_path, "my docs/a%20b.txt")
    monkeypatch.chdir(tmp_path)
    expected = [f"{tmp_path}/my docs/a%20b.txt"]

    assert uris(tmp_path / "my docs/a%20b.txt") == expected
    assert uris(f"file://{tmp_path}/my%20docs/a%2520b.txt") == expected
    assert uris("my docs") == expected
    assert uris(f"{tmp_path}/my docs/") == expected


def test_an_empty_folder_lists_nothing(tmp_path: Path) -> None:
    assert uris(tmp_path) == []


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["*.pdf"], ["a.pdf", "docs/b.pdf", "docs/old/c.pdf"]),
        (["/*.pdf"], ["a.pdf"]),
        (["docs/*.pdf"], ["docs/b.pdf"]),
        (["docs/**/*.pdf"], ["docs/b.pdf", "docs/old/c.pdf"]),
        (["**/c.pdf"], ["docs/old/c.pdf"]),
        (["docs/"], ["docs/b.pdf", "docs/b.txt", "docs/old/c.pdf"]),
        (["old"], ["docs/old/c.pdf"]),
        (["[ab].pdf"], ["a.pdf", "docs/b.pdf"]),
        (["[!a].pdf"], ["docs/b.pdf", "docs/old/c.pdf"]),
        (["?.txt"], ["docs/b.txt"]),
        (["*.PDF"], []),
        (["a.pdf", "*.txt"], ["a.pdf", "docs/b.txt"]),
    ],
)
def test_include_and_exclude_are_opposites(tmp_path: Path, patterns: list[str], expected: list[str]) -> None:
    root = tree(tmp_path, "a.pdf", "docs/b.pdf", "docs/b.txt", "docs/old/c.pdf", "x.md")

    assert names(root, include=patterns) == expected
    assert names(root, exclude=patterns) == [name for name in names(root) if name not in expected]


def test_exclude_wins_over_include(tmp_path: Path) -> None:
    tree(tmp_path, "a.txt", ".git/a.txt")

    assert names(tmp_path, include=["*.txt"], exclude=[".git/"]) == ["a.txt"]


@pytest.mark.parametrize("pattern", ["", "/", "[z-a]"])
def test_a_pattern_that_means_nothing_is_refused(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(ConfigError, match="pattern"):
        listing(tmp_path, include=[pattern])


def test_links_to_files_are_followed_only_inside(tmp_path: Path) -> None:
    root = tree(tmp_path / "root", "real.txt", "sub/b.txt")
    tree(tmp_path, "outside.txt", "root2/c.txt")
    (root / "inside").symlink_to("sub/b.txt")
    (root / "escape").symlink_to(tmp_path / "outside.txt")
    (root / "sibling").symlink_to(tmp_path / "root2/c.txt")
    (root / "away").symlink_to(tmp_path / "root2")
    (root / "dangling").symlink_to("none")
    (root / "itself").symlink_to("itself")
    (root / "sub/up").symlink_to("..")
    (root / "again").symlink_to("sub")

    readable = [row for row in listing(root).to_pylist() if row["error_kind"] is None]

    assert [os.path.relpath(row["uri"], root) for row in readable] == ["inside", "real.txt", "sub/b.txt"]
    assert readable[0]["size"] == len("sub/b.txt")
    assert troubles(root) == dict.fromkeys(["away", "dangling", "escape", "itself", "sibling", "up"], "bad_path")


def test_a_location_that_is_a_link_keeps_its_own_name(tmp_path: Path) -> None:
    tree(tmp_path, "2024/a.txt", "2024/b/c.txt")
    (tmp_path / "2024/link").symlink_to("a.txt")
    (tmp_path / "latest").symlink_to("2024")

    assert names(tmp_path / "latest") == ["a.txt", "b/c.txt", "link"]


def test_names_that_are_not_utf8_are_rows_of_trouble(tmp_path: Path) -> None:
    os.makedirs(os.fsencode(tmp_path) + b"/f\xfc")
    for name in (b"caf\xe9.txt", b"f\xfc/a.txt"):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_bytes(b"x")

    assert troubles(tmp_path) == {r"caf\xe9.txt": "bad_path", "a.txt": "bad_path"}
    assert uris(tmp_path)[1] == rf"{tmp_path}/f\xfc/a.txt"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_folders_that_cannot_be_read_are_rows_of_trouble(tmp_path: Path) -> None:
    tree(tmp_path, "open/a", "closed/b")
    (tmp_path / "closed").chmod(0)

    found = troubles(tmp_path), uris(tmp_path)
    (tmp_path / "closed").chmod(0o700)

    assert found == ({"closed": "unreadable"}, [f"{tmp_path}/closed", f"{tmp_path}/open/a"])


def test_a_folder_the_system_refuses_is_a_row_and_a_broken_disk_ends_the_listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, "open/a", "closed/b")
    real, error = os.scandir, PermissionError(13, "Permission denied")

    def scandir(path: str) -> object:
        if path.endswith("closed"):
            raise error
        return real(path)

    monkeypatch.setattr("os.scandir", scandir)
    assert troubles(tmp_path) == {"closed": "unreadable"}
    error = OSError(5, "Input/output error")  # type: ignore[assignment]
    with pytest.raises(RunError, match="Input/output error"):
        uris(tmp_path)


def test_pipes_and_sockets_are_rows_of_trouble_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(tmp_path / "socket"))

    assert troubles(tmp_path) == {"pipe": "unsupported", "socket": "unsupported"}
    with pytest.raises(DocumentError, match="unsupported"):
        fetch(str(tmp_path / "pipe"))


def test_a_missing_location_names_the_near_misses(tmp_path: Path) -> None:
    tree(tmp_path, "Documents/a", "other/b")

    with pytest.raises(ConfigError, match=r"documnts' does not exist; .* holds 'Documents'"):
        listing(tmp_path / "documnts")
    with pytest.raises(ConfigError, match="holds 'Documents'"):
        listing(tmp_path / "documnts" / "deep" / "er")


@pytest.mark.parametrize("location", ["", "gs://bucket/x", "s3://", "file://host/x", "a\0b", "/dev/null"])
def test_a_location_of_the_wrong_kind_is_a_config_error(location: str) -> None:
    with pytest.raises(ConfigError):
        listing(location)


def test_a_file_that_is_gone_or_a_folder_has_vanished_or_is_unsupported(tmp_path: Path) -> None:
    tree(tmp_path, "file")

    for uri, kind in [("none", "vanished"), ("file/below", "vanished"), (".", "unsupported"), ("a\0b", "unreadable")]:
        with pytest.raises(DocumentError) as caught:
            fetch(f"{tmp_path}/{uri}")
        assert caught.value.kind == kind


def test_a_file_over_the_limit_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "huge", "wb") as file:
        file.truncate(1 << 42)
    tree(tmp_path, "exact")

    assert fetch(str(tmp_path / "exact"), limit_bytes=5) == b"exact"
    for name, limit in [("huge", 1 << 20), ("exact", 4)]:
        with pytest.raises(DocumentError) as caught:
            fetch(str(tmp_path / name), limit_bytes=limit)
        assert caught.value.kind == "too_large"


def test_twenty_thousand_files_are_listed_in_a_second(tmp_path: Path) -> None:
    for folder in range(20):
        (tmp_path / str(folder)).mkdir()
        for file in range(1000):
            os.close(os.open(f"{tmp_path}/{folder}/{file}", os.O_CREAT))

    start = time.process_time()
    found = sum(table.num_rows for table in list_sources(str(tmp_path), exclude=["*.tmp"]))

    assert found == 20_000
    assert time.process_time() - start < 1


# S3


def test_a_prefix_is_a_folder_and_its_own_key_but_no_namesake(s3) -> None:
    bucket = s3.bucket(dict.fromkeys(["docs", "docs!", "docs/a", "docs/b/c", "docs2/d", "other"], b"x"))

    assert uris(f"s3://{bucket}/docs") == [f"s3://{bucket}/{key}" for key in ["docs", "docs/a", "docs/b/c"]]
    assert uris(f"s3://{bucket}/docs/") == [f"s3://{bucket}/{key}" for key in ["docs/a", "docs/b/c"]]
    assert uris(f"s3://{bucket}/docs/a") == [f"s3://{bucket}/docs/a"]
    assert len(uris(f"s3://{bucket}")) == len(uris(f"s3://{bucket}/")) == 6


def test_an_object_is_listed_with_etag_size_and_time(s3) -> None:
    bucket = s3.bucket({"a.txt": b"hello"})
    head = s3.client.head_object(Bucket=bucket, Key="a.txt")

    [row] = listing(f"s3://{bucket}").to_pylist()

    assert row["etag"] == "5d41402abc4b2a76b9719d911017c592"
    assert row["size"] == 5
    assert row["modified"] == head["LastModified"]


# moto's server has no route for a line break in a key.
@pytest.mark.parametrize("name", [*(n for n in ODD_NAMES if "\n" not in n), "double//slash", "/leading", "trailing/"])
def test_any_key_is_listed_and_fetched(s3, name: str) -> None:
    bucket = s3.bucket({f"the docs/{name}": name.encode()})

    assert uris(f"s3://{bucket}") == uris(f"s3://{bucket}/the docs/") == [f"s3://{bucket}/the docs/{name}"]
    assert fetch(f"s3://{bucket}/the docs/{name}") == name.encode()


def test_folder_marks_are_no_documents_but_empty_files_are(s3) -> None:
    bucket = s3.bucket({"docs/": b"", "docs/empty": b"", "docs/sub/": b""})

    assert uris(f"s3://{bucket}/docs") == [f"s3://{bucket}/docs/empty"]
    assert uris(f"s3://{bucket}/docs/sub") == []


def test_patterns_see_keys_relative_to_the_location(s3) -> None:
    bucket = s3.bucket(dict.fromkeys(["docs/docs/a.txt", "docs/b.txt", "docs/c.md"], b"x"))

    assert uris(f"s3://{bucket}/docs", include=["/*.txt"]) == [f"s3://{bucket}/docs/b.txt"]
    assert uris(f"s3://{bucket}/docs", exclude=["docs/"]) == [f"s3://{bucket}/docs/b.txt", f"s3://{bucket}/docs/c.md"]
    assert uris(f"s3://{bucket}/docs/c.md", include=["c.*"]) == [f"s3://{bucket}/docs/c.md"]


@pytest.fixture(scope="module")
def two_pages(s3) -> str:
    return s3.bucket({f"{i:04}": b"" for i in range(1001)})


def test_a_listing_goes_over_many_pages(two_pages: str) -> None:
    assert uris(f"s3://{two_pages}") == [f"s3://{two_pages}/{i:04}" for i in range(1001)]


def test_what_is_wrong_with_an_s3_location_is_said(s3, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = s3.bucket({"documents/a": b"x"})

    with pytest.raises(ConfigError, match=r"nothing at s3://.*/documnts/; s3://.* holds 'documents'"):
        listing(f"s3://{bucket}/documnts/")
    with pytest.raises(ConfigError, match=r"there is no bucket 'no-such-bucket' at http://127"):
        listing("s3://no-such-bucket/x")
    with pytest.raises(ConfigError, match="can't be asked for"):
        listing("s3://Not a bucket/x")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    with pytest.raises(ConfigError, match=r"no answer at http://127.0.0.1:1 .*AWS_ENDPOINT_URL"):
        listing(f"s3://{bucket}")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "not a url")
    with pytest.raises(ConfigError, match="AWS_ENDPOINT_URL"):
        listing(f"s3://{bucket}")


def test_missing_credentials_say_what_to_set(s3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")

    with pytest.raises(ConfigError, match=r"no credentials .*AWS_ACCESS_KEY_ID"):
        listing("s3://bucket-0")
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(ConfigError, match="AWS_PROFILE"):
        listing("s3://bucket-0")


def test_an_object_is_vanished_or_too_large(s3) -> None:
    bucket = s3.bucket({"a": b"hello"})

    assert fetch(f"s3://{bucket}/a", limit_bytes=5) == b"hello"
    for uri, limit, kind in [
        (f"{bucket}/none", None, "vanished"),
        ("no-such-bucket/a", None, "vanished"),
        (f"{bucket}/a", 4, "too_large"),
        ("Not a bucket/a", None, "unreadable"),
    ]:
        with pytest.raises(DocumentError) as caught:
            fetch(f"s3://{uri}", limit_bytes=limit)
        assert caught.value.kind == kind


@contextmanager
def faulty(endpoint: str, *answers: int) -> Iterator[str]:
    """A front to the store whose first answers are these: a status, 0 for half a body, 1 for the store's own answer."""
    left = list(answers)

    class Front(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status = left.pop(0) if left else 1
            if status > 1:
                body = f"<Error><Code>{'AccessDenied' if status == 403 else 'SlowDown'}</Code></Error>".encode()
                self.reply(status, {}, body, len(body))
                return
            try:
                request = urllib.request.Request(endpoint + self.path, headers=dict(self.headers))
                with urllib.request.urlopen(request) as answer:
                    body = answer.read()
                    self.reply(200, dict(answer.headers), body if status else body[: len(body) // 2], len(body))
            except urllib.error.HTTPError as error:
                self.reply(error.code, {}, body := error.read(), len(body))

        def reply(self, status: int, headers: dict[str, str], body: bytes, length: int) -> None:
            self.send_response_only(status)
            for name in ("ETag", "Last-Modified", "Content-Type"):
                if name in headers:
                    self.send_header(name, headers[name])
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Front)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_a_busy_store_and_a_broken_body_are_tried_again(s3, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = s3.bucket({"a": b"hello world"})

    with faulty(s3.endpoint, 503, 0, 1) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        assert fetch(f"s3://{bucket}/a") == b"hello world"


@pytest.mark.parametrize("answers", [(403,), (503, 503), (0, 0, 0)])
def test_an_object_that_cannot_be_read_is_unreadable(s3, monkeypatch: pytest.MonkeyPatch, answers: list[int]) -> None:
    bucket = s3.bucket({"a": b"hello world"})
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")

    with faulty(s3.endpoint, *answers) as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        with pytest.raises(DocumentError) as caught:
            fetch(f"s3://{bucket}/a")
        assert fetch(f"s3://{bucket}/a") == b"hello world"

    assert caught.value.kind == "unreadable"


def test_a_listing_that_breaks_off_is_never_a_short_one(s3, two_pages: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")

    for answers, error in [((403,), ConfigError), ((503,), RunError), ((1, 403), RunError), ((1, 503), RunError)]:
        with faulty(s3.endpoint, *answers) as endpoint:
            monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
            with pytest.raises(error, match="access denied" if 403 in answers else "SlowDown"):
                uris(f"s3://{two_pages}")
