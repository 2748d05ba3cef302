"""Where things are: one reading of a location for boto3, pyarrow and deltalake.

The three libraries differ in the variables, endpoints and credentials they honour. Here boto3's rules decide
(environment, profiles, roles; `AWS_REGION` too), and the other two are told the outcome.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote, unquote, urlsplit
from uuid import uuid4

import pyarrow.fs as pafs
from botocore import exceptions as boto

from chunkmill.chunkers.errors import ConfigError, RunError

ATTEMPTS = 5
CONNECT_S, ANSWER_S = 10, 60  # how long a try may take to connect, and to hear anything
DELETE_BATCH = 1000  # what one DeleteObjects request may name
AMAZON = re.compile(r"s3([.-][a-z0-9-]+)?\.amazonaws\.com(\.cn)?")
PERCENT_CODE = re.compile("%[0-9A-Fa-f]{2}")

S3_ERRORS = (boto.ClientError, boto.BotoCoreError, RecursionError)  # botocore's, where a redirect names no region
S3Error: TypeAlias = boto.ClientError | boto.BotoCoreError | RecursionError
NO_CREDENTIALS = (
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.CredentialRetrievalError,
    boto.TokenRetrievalError,
    boto.SSOError,
)
WRITING = ", for an output also s3:PutObject and s3:DeleteObject"
WRITTEN = "can't be written"
NO_ANSWER = (boto.ConnectionError, boto.HTTPClientError)
EXPIRED = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired"}
BAD_CREDENTIALS = {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", *EXPIRED}
OTHER_REGION = {"PermanentRedirect", "AuthorizationHeaderMalformed", "301", "IllegalLocationConstraintException"}
DENIED = {"AccessDenied", "AllAccessDisabled", "Forbidden", "403"}
BUSY = {"InternalError", "InternalFailure", "SlowDown", "ServiceUnavailable", "RequestTimeout", "500", "502", "503", "504"}
# As pyarrow and deltalake pass a code on: <Code>AccessDenied</Code>, AWS Error ACCESS_DENIED, ExceptionName: ExpiredToken
PASSED_ON = re.compile(r"<Code>(\w+)</Code>|ExceptionName: (\w+)|AWS Error (?!UNKNOWN)([A-Z_]+)")
SILENCE = re.compile(r"AWS Error NETWORK_CONNECTION|error sending request|timed out", re.IGNORECASE)
REDIRECTED = "redirect without LOCATION"  # deltalake's word for another region
COLOUR = re.compile(r"\x1b\[\d+m")
NOISE = re.compile(rf"{COLOUR.pattern}|\u21b3|<\?xml.*?</Error>", re.DOTALL)  # what a message has none of on its way to a user
TRY_CREDENTIALS = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run where a role gives them"


class Place(NamedTuple):
    """A file, folder, object or key prefix: an absolute path where `bucket` is empty, else a raw key."""

    bucket: str
    path: str

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.path}" if self.bucket else self.path

    def child(self, name: str) -> Place:
        """The place with this name inside the folder."""
        folder = self.path.rstrip("/")
        return Place(self.bucket, name if self.bucket and not folder else f"{folder}/{name}")


class Access(NamedTuple):
    """What a library must be told to reach S3; `endpoint` is empty for Amazon's own."""

    key: str
    secret: str
    token: str
    region: str
    endpoint: str


def locate(location: str) -> Place:
    """A local path, `file://` or `s3://` location as a place; nothing is opened."""
    if not location or "\0" in location:
        raise ConfigError(f"{location!r} is not a location; give a local path or s3://bucket/prefix")
    if location.startswith("s3://"):
        bucket, _, key = location.removeprefix("s3://").partition("/")
        if not bucket:
            raise ConfigError(f"{location!r} names no bucket; write s3://bucket/prefix")
        return Place(bucket, key)
    if location.startswith("file://"):
        host, slash, rest = location.removeprefix("file://").partition("/")
        if host not in ("", "localhost") or not slash:
            raise ConfigError(f"{location!r} names the host {host!r}; write file:///absolute/path")
        location = "/" + unquote(rest, errors="surrogateescape")
    elif scheme := re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", location):
        raise ConfigError(f"{location!r} has the scheme {scheme[1]!r}; use a local path, file:// or s3://")
    return Place("", os.path.abspath(location))


def client() -> Any:
    """The process's S3 client (thread-safe): standard retries, 5 attempts unless `AWS_MAX_ATTEMPTS` says otherwise."""
    return _connect(*_settings())[1]


def filesystem(place: Place) -> tuple[pafs.FileSystem, str]:
    """What pyarrow needs to read the place: its filesystem and the path in it."""
    if not place.bucket:
        return pafs.LocalFileSystem(), place.path
    return _s3_filesystem(access(place.bucket)), f"{place.bucket}/{place.path}"


def storage_options(place: Place) -> dict[str, str]:
    """What deltalake (and Polars) must be told to open the place."""
    if not place.bucket:
        return {}
    key, secret, token, region, endpoint = access(place.bucket)
    options = {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": secret, "AWS_REGION": region}
    if token:
        options["AWS_SESSION_TOKEN"] = token
    if endpoint:
        options |= {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": str(endpoint.startswith("http://")).lower()}
    return options


def delta_uri(place: Place) -> str:
    """How deltalake names the place. It decodes paths twice, so one that holds a percent code can't be a table."""
    if found := PERCENT_CODE.search(place.path):
        raise ConfigError(f"the output {str(place)!r} holds {found[0]!r}, which Delta tables misread; rename the folder")
    return f"s3://{place.bucket}/{quote(place.path)}" if place.bucket else place.path


def access(bucket: str) -> Access:
    """Credentials (as of now: they are renewed where they expire), region and endpoint for a bucket."""
    settings = _settings()
    session, s3 = _connect(*settings)
    try:
        found = session.get_credentials()
        keys = found.get_frozen_credentials() if found else None
    except S3_ERRORS as error:
        raise trouble(error, Place(bucket, "")) from error
    if keys is None:
        raise ConfigError(f"no credentials for s3://{bucket}; {TRY_CREDENTIALS}")
    url: str = s3.meta.endpoint_url
    endpoint = "" if AMAZON.fullmatch(urlsplit(url).hostname or "") else url
    return Access(keys.access_key, keys.secret_key, keys.token or "", _region(bucket, *settings), endpoint)


def trouble(error: S3Error, place: Place, what: str = "") -> ConfigError | RunError:
    """What S3's refusal means for a user, and what to do; a RunError where trying again later may help. `what`: what failed."""
    code = error_code(error)
    if isinstance(error, NO_CREDENTIALS):
        return ConfigError(f"no credentials for {place}: {error}; {TRY_CREDENTIALS}")
    if isinstance(error, (boto.ParamValidationError, boto.InvalidRegionError)) or code == "InvalidBucketName":
        return ConfigError(f"{place} can't be asked for: {one_line(error)}")
    if isinstance(error, NO_ANSWER):
        return _silent(place, str(error))
    return _refused(code, place, what, _region_of(error)) or RunError(f"{_about(place, what)}: {one_line(error)}")


def passed_on(error: Exception, place: Place, what: str) -> ConfigError | RunError:
    """The same of an error of pyarrow or deltalake, which pass on what S3 said as a text.

    Only a bucket that isn't there is a ConfigError: the others are met at work too.
    """
    said = str(error)
    if place.bucket and SILENCE.search(said):
        why = one_line(error).rpartition("error sending request ")[2].rpartition(": ")[2]
        return RunError(str(_silent(place, why)))
    code = "".join(filter(None, found.groups())) if (found := PASSED_ON.search(said)) else ""
    if code.isupper():
        code = code.title().replace("_", "")
    known = _refused("PermanentRedirect" if REDIRECTED in said else code, place, what) if place.bucket else None
    if known and code == "NoSuchBucket":
        return known
    return RunError(str(known) if known else f"{_about(place, what)}: {one_line(error)}{f' ({code})' * bool(code)}")


def _about(place: Place, what: str) -> str:
    return f"{place} {what}".rstrip()


def _refused(code: str, place: Place, what: str = "", region: str = "") -> ConfigError | RunError | None:
    """What S3's name for a refusal means; None for one that has no meaning for a user."""
    about = _about(place, what)
    endpoint = f" at {url}" if (url := _endpoint()) else ""
    if code == "NoSuchBucket":
        return ConfigError(f"there is no bucket {place.bucket!r}{endpoint}; check its name and AWS_ENDPOINT_URL")
    if code in EXPIRED:
        return ConfigError(f"{about}: the credentials have expired ({code}); renew them, or run where a role gives them")
    if code in BAD_CREDENTIALS:
        return ConfigError(f"{about}: the credentials are not accepted{endpoint} ({code}); {TRY_CREDENTIALS}")
    if code in OTHER_REGION:
        where = f"in the region {region}; set AWS_REGION={region}" if region else "in another region; set AWS_REGION to it"
        return ConfigError(f"{about}: the bucket is {where} ({code})")
    if code in DENIED:
        return ConfigError(
            f"{about}: access denied{endpoint}; the credentials need s3:ListBucket and s3:GetObject there{WRITING}"
        )
    return RunError(f"{about}: S3 is in trouble{endpoint} ({code}); run it again later") if code in BUSY else None


def _silent(place: Place, why: str) -> ConfigError:
    endpoint = f" at {url}" if (url := _endpoint()) else ""
    return ConfigError(f"no answer{endpoint} for {place}: {why}; check AWS_ENDPOINT_URL and the network")


def one_line(error: Exception) -> str:
    """The message on one line, without terminal colours and mark-up."""
    return " ".join(NOISE.sub(" ", str(error)).split())


def error_code(error: S3Error) -> str:
    """S3's own name for the refusal (`NoSuchKey`), or an empty string if S3 didn't answer."""
    if isinstance(error, RecursionError):
        return "PermanentRedirect"
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, boto.ClientError) else ""


def _region_of(error: S3Error) -> str:
    """The region of the bucket, if the refusal says it."""
    answer: Any = getattr(error, "response", {})
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    return str(headers.get("x-amz-bucket-region") or answer.get("Error", {}).get("Region") or "")


@contextmanager
def new_file(place: Place) -> Iterator[str]:
    """A local path to write to; the place holds the whole file once the block ends well, and nothing if it fails."""
    if place.bucket:
        with tempfile.TemporaryDirectory(prefix="chunkmill-") as folder:
            yield (path := os.path.join(folder, "new"))
            _upload(path, place)
        return
    folder, name = os.path.split(place.path)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f".{uuid4().hex}.{name}.tmp")  # another run may be at the same file
    try:
        yield path
        _sync(path)
        os.replace(path, place.path)
    except BaseException as error:
        with suppress(OSError):
            os.remove(path)
        if isinstance(error, OSError):
            raise RunError(f"{place} can't be written: {error.strerror or error}") from error
        raise


@contextmanager
def answered(place: Place) -> Iterator[None]:
    """What pyarrow raises of a place that can't be read just now, as a RunError."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise passed_on(error, place, "can't be read") from error


def writable(location: str) -> None:
    """ConfigError if nothing can be written below the location, before any work is done for it."""
    place = locate(location)
    try:
        if place.bucket:
            # Unlike the answer to a HEAD, this one says what is wrong.
            client().list_objects_v2(Bucket=place.bucket, Prefix=place.path, MaxKeys=1)
            return
        os.makedirs(place.path, exist_ok=True)
        with tempfile.TemporaryFile(dir=place.path):
            return
    except (FileExistsError, NotADirectoryError) as error:
        raise ConfigError(f"output {location!r} can't be written: a file is in the way; give a folder") from error
    except OSError as error:
        raise ConfigError(f"output {location!r} can't be written: {error.strerror}; give a folder that can") from error
    except S3_ERRORS as error:
        raise trouble(error, place) from error


def delete(folder: Place, paths: Sequence[str]) -> None:
    """Delete these files of a folder; one that is gone already is no error."""
    if not folder.bucket:
        for path in paths:
            with suppress(FileNotFoundError):
                os.remove(folder.child(path).path)
        return
    for start in range(0, len(paths), DELETE_BATCH):
        keys = [{"Key": folder.child(path).path} for path in paths[start : start + DELETE_BATCH]]
        try:
            answer = client().delete_objects(Bucket=folder.bucket, Delete={"Objects": keys, "Quiet": True})
        except S3_ERRORS as error:
            raise RunError(str(trouble(error, folder))) from error
        if failed := answer.get("Errors"):
            raise RunError(f"{folder}: {len(failed)} files can't be deleted, the first is {failed[0]}")


def _upload(path: str, place: Place) -> None:
    from boto3.exceptions import S3UploadFailedError

    try:
        client().upload_file(path, place.bucket, place.path)
    except S3UploadFailedError as error:
        why = error.__context__ if isinstance(error.__context__, S3_ERRORS) else None
        raise RunError(str(trouble(why, place, WRITTEN) if why else f"{place} {WRITTEN}: {one_line(error)}")) from error
    except S3_ERRORS as error:
        raise RunError(str(trouble(error, place, WRITTEN))) from error


def _sync(path: str) -> None:
    """Have the content on disk before the name: a power cut leaves the old state or the new one."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def _settings() -> tuple[int, tuple[tuple[str, str], ...]]:
    """What a client is cached by: sockets don't survive a fork, and tests change the environment."""
    return os.getpid(), tuple(sorted((k, v) for k, v in os.environ.items() if k.startswith("AWS_")))


@lru_cache(maxsize=4)
def _connect(pid: int, settings: tuple[tuple[str, str], ...]) -> tuple[Any, Any]:
    import boto3
    from botocore.config import Config

    environment = dict(settings)
    retries: dict[str, Any] = {} if "AWS_RETRY_MODE" in environment else {"mode": "standard"}
    if "AWS_MAX_ATTEMPTS" not in environment:
        retries["total_max_attempts"] = ATTEMPTS
    try:
        session = boto3.Session()
        region = environment.get("AWS_REGION") or session.region_name or "us-east-1"
        config = Config(retries=retries, connect_timeout=CONNECT_S, read_timeout=ANSWER_S, max_pool_connections=64)
        return session, session.client("s3", region_name=region, config=config)
    except (boto.BotoCoreError, ValueError) as error:  # an unknown profile, an endpoint that is no URL
        raise ConfigError(f"S3 can't be reached: {error}; check AWS_PROFILE, AWS_REGION and AWS_ENDPOINT_URL") from error


@lru_cache(maxsize=64)
def _region(bucket: str, *settings: Any) -> str:
    """The bucket's own region: boto3 follows redirects to it, the other libraries don't."""
    s3 = _connect(*settings)[1]
    configured: str = s3.meta.region_name
    try:
        return str(s3.head_bucket(Bucket=bucket).get("BucketRegion") or configured)
    except S3_ERRORS:  # HeadBucket is not allowed to everyone; whatever else is wrong shows with the real request
        return configured


@lru_cache(maxsize=4)
def _s3_filesystem(given: Access) -> pafs.S3FileSystem:
    url = urlsplit(given.endpoint)
    return pafs.S3FileSystem(
        access_key=given.key,
        secret_key=given.secret,
        session_token=given.token or None,
        region=given.region,
        scheme=url.scheme or "https",
        endpoint_override=f"{url.netloc}{url.path}".rstrip("/") or None,
        connect_timeout=CONNECT_S,
        request_timeout=ANSWER_S,
        retry_strategy=pafs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
    )


def _endpoint() -> str:
    try:
        return str(client().meta.endpoint_url)
    except ConfigError:
        return ""
