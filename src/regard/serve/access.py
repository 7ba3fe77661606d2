"""Who may send how many requests: API keys, and a limit for each key or address.

Each line of a file of keys is a key or its sha256 (64 hexadecimal digits). `#` at the beginning of a line or after a
blank starts a comment. The server keeps only sha256 sums, compares them in constant time, and never logs a key.
"""

import hashlib
import hmac
import os
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path

from starlette.requests import HTTPConnection

from regard.errors import UserError
from regard.reading import read_text
from regard.serve.errors import ServiceError
from regard.serve.settings import KEYS_VARIABLE, ServeSettings
from regard.serve.worker import CLIENT

DIGEST = re.compile(r"[0-9a-fA-F]{64}")
COMMENT = re.compile(r"(?:^|\s)#.*")
MAX_CLIENTS = 10_000
"""Clients whose requests are counted. Of more, those with the oldest requests are forgotten."""


class ApiKeys:
    """The sha256 sums of the keys that are allowed; without any, no key is needed."""

    def __init__(self, digests: Sequence[bytes]) -> None:
        self.digests = tuple(digests)

    @classmethod
    def read(cls, file: Path | None, environment: str = "") -> "ApiKeys":
        """The keys of a file and of an environment variable; a UserError if the file has no key."""
        lines = read_text(file).splitlines() if file is not None else []
        values = [value for line in lines if (value := COMMENT.sub("", line).strip())]
        if file is not None and not values:
            remedy = "add one key per line, or leave out `--api-keys` to serve without keys"
            raise UserError(f"{file} has no API key", remedy, code="no-data", where=file)
        values += environment.replace(",", " ").split()
        sums = (key if DIGEST.fullmatch(key) else hashlib.sha256(key.encode()).hexdigest() for key in values)
        return cls([bytes.fromhex(digest) for digest in sums])

    @property
    def required(self) -> bool:
        """True if a request needs a key."""
        return bool(self.digests)

    def owner(self, key: str) -> bytes | None:
        """The sha256 sum of a key that is allowed, else None; it takes the same time for every key."""
        given, found = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest(), None
        for allowed in self.digests:
            if hmac.compare_digest(given, allowed):
                found = allowed
        return found


class RateLimit:
    """At most `per_minute` requests of a client in a minute, refilled evenly (a token bucket)."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_minute, self.clock = per_minute, clock
        self._clients: OrderedDict[bytes, tuple[float, float]] = OrderedDict()  # tokens left, and when

    def check(self, client: bytes) -> None:
        """Count a request; a ServiceError if there were too many."""
        if not self.per_minute:
            return
        now = self.clock()
        left, before = self._clients.pop(client, (float(self.per_minute), now))
        left = min(float(self.per_minute), left + (now - before) * self.per_minute / 60)
        allowed = left >= 1
        self._clients[client] = (left - 1 if allowed else left, now)
        if len(self._clients) > MAX_CLIENTS:
            self._clients.popitem(last=False)
        if not allowed:
            wait = int((1 - left) * 60 / self.per_minute) + 1
            problem = f"more than {self.per_minute} requests in a minute"
            raise ServiceError("too-many-requests", problem, f"try again in {wait} s", retry_after=wait)


class Access:
    """Checks the key of a request, and counts it."""

    def __init__(self, settings: ServeSettings) -> None:
        self.keys = ApiKeys.read(settings.api_keys, os.environ.get(KEYS_VARIABLE, ""))
        self.limit = RateLimit(settings.requests_per_minute)

    def check(self, request: HTTPConnection, key: str | None = None) -> None:
        """Raise a ServiceError (missing-key, wrong-key, too-many-requests) if a request is not allowed.

        `key` is the key that an API read from its own place; otherwise it is that of the header `Authorization: Bearer
        KEY`, or `DeepL-Auth-Key KEY`, or `X-API-Key: KEY`.
        """
        scheme, _, header = request.headers.get("authorization", "").partition(" ")
        bearer = header if scheme.lower() in ("bearer", "deepl-auth-key") else request.headers.get("x-api-key", "")
        key = key or bearer.strip()
        owner = self.keys.owner(key) if key else None
        address = request.client.host if request.client else ""
        client = owner or address.encode()
        self.limit.check(client)  # wrong keys count too, against trying many keys
        if self.keys.required and owner is None:
            code, problem = ("wrong-key", "the API key is wrong") if key else ("missing-key", "an API key is needed")
            raise ServiceError(code, problem, "send the header Authorization: Bearer KEY")
        CLIENT.set(client)


def access_of(request: HTTPConnection) -> Access:
    """The access of the application that answers a request."""
    access: Access = request.app.state.access
    return access


async def check_access(request: HTTPConnection) -> None:
    """A dependency of routes: the key of the header and the limit of requests.

    It is a coroutine, so that requests are counted in one thread: FastAPI calls other functions in several threads.
    """
    access_of(request).check(request)
