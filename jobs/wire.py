"""What the endpoints of embeddings and of language models have in common: the key, the proxy, and what a status means."""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3

from chunkmill.chunkers.errors import ConfigError

AGAIN = (408, 409, 425, 429, 500, 502, 503, 504, *range(520, 531))  # statuses that may be others the next time
REFUSED = (400, 413, 422)  # may be one text's fault
BACKOFF_S, LONGEST_S = 0.5, 60.0  # before the second try, and before any: doubled each time, in part at random
SAID = 300  # characters of an error that are passed on
FIT = re.compile(r"[!-~]*")  # to be in a header


def secret(variable: str, setting: str) -> str:
    """The key that a variable of the environment holds, or nothing. Raises ConfigError where no key looks so."""
    key = os.environ.get(variable, "").strip()
    if not FIT.fullmatch(key):  # the client would say it in its error
        raise ConfigError(f"{variable} holds white space or characters beyond ASCII, which no key has ({setting})")
    return key


def headers(key: str) -> dict[str, str]:
    """Of a request, with the key if there is one."""
    return {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})


def pool(url: str, **options: Any) -> urllib3.PoolManager:
    """Connections to an endpoint, through the proxy of the environment where there is one."""
    parts = urlsplit(url)
    proxy = None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)
    return urllib3.ProxyManager(proxy, **options) if proxy else urllib3.PoolManager(**options)
