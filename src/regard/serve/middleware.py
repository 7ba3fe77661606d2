"""Middleware around all routes: limits, security headers, metrics and the log of requests.

The application gets a request when its whole body has arrived: a client that sends slowly uses no model and no thread,
and does not count as a request in progress. If a client closes its connection, its request is cancelled and leaves the
queues.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serve.errors import ErrorResponses, Problem, ServiceError
from regard.serve.metrics import Metrics
from regard.serve.service import Service
from regard.viz.document import SERVED_POLICY

LOG = logging.getLogger("regard.serve")
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
ALWAYS_ANSWERED = ("/healthz", "/readyz", "/metrics")
"""Paths that a server with too many requests still responds to."""
CLIENT_DISCONNECTED = 499
"""The status in log and metrics of a request whose client closed the connection, as nginx writes it."""
BUFFERED_BODIES, BUFFERED_BYTES = 16, 16_000_000
"""The bodies of all requests that are received or in progress may have this many times the size of the largest body
that is allowed, or this many bytes if that is more."""
HEADERS = {
    "content-security-policy": f"{SERVED_POLICY}; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
"""Headers of every response that does not set them itself."""


class ClientDisconnectedError(Exception):
    """The client closed the connection before its request was complete."""


@dataclass
class ResponseSender:
    """Passes a response on to the client, with the headers added, and remembers its status and size."""

    send: Send
    close: Callable[[], bool]
    """Asked at the beginning of the response: True tells the client to close the connection."""
    status: int = 0
    size: int = 0
    complete: bool = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = list(message.get("headers", ()))
            present = {name.lower() for name, _ in headers}
            headers += [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in present]
            if self.close():
                headers = [(name, value) for name, value in headers if name.lower() != b"connection"]
                headers.append((b"connection", b"close"))
            message = {**message, "headers": headers}
        elif message["type"] == "http.response.body":
            self.size += len(message.get("body", b""))
            self.complete = not message.get("more_body", False)
        await self.send(message)


class RequestMiddleware:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, service: Service, metrics: Metrics, respond: ErrorResponses) -> None:
        self.app, self.service, self.settings, self.metrics = app, service, service.settings, metrics
        self.buffered, self.respond = 0, respond

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, result = time.perf_counter(), ResponseSender(send, lambda: self.service.stopping)
        try:
            await self._receive(scope, receive, result)
        except ClientDisconnectedError:
            result.status = CLIENT_DISCONNECTED
        except ServiceError as error:
            result.close = lambda: True  # the rest of the body is not read
            await self.respond(scope["path"], Problem.of(error))(scope, receive, result)
        except Exception:
            LOG.exception("an error in regard while responding to a request")
            if not result.status:  # otherwise a part of the response is sent already
                result.close = lambda: True
                problem = Problem(500, "internal", "an error in the server")
                await self.respond(scope["path"], problem)(scope, receive, result)
        finally:
            self._record(scope, result, time.perf_counter() - started)

    async def _receive(self, scope: Scope, receive: Receive, result: ResponseSender) -> None:
        body = await self._read_body(scope, receive)
        full = self.metrics.in_progress >= self.settings.max_requests
        self.metrics.in_progress += 1
        try:
            if full and scope["path"] not in ALWAYS_ANSWERED:
                raise ServiceError("queue-full", "too many requests are in progress", "try again later", retry_after=1)
            await self._run(scope, receive, result, body)
        finally:
            self.metrics.in_progress -= 1
            self.buffered -= len(body)

    async def _read_body(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body; a ServiceError if it is too large or comes too slowly. Its size is added to `buffered`."""
        limit, parts, size = self.settings.max_body, [], 0
        lengths = [value for name, value in scope["headers"] if name == b"content-length"]
        if any(is_more(value, limit) for value in lengths):
            raise too_large(limit)
        try:
            async with asyncio.timeout(self.settings.timeout):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnectedError
                    part = message.get("body", b"")
                    parts.append(part)
                    size, self.buffered = size + len(part), self.buffered + len(part)
                    if size > limit:
                        raise too_large(limit)
                    if self.buffered > max(BUFFERED_BODIES * limit, BUFFERED_BYTES):
                        raise ServiceError("queue-full", "too many large requests are in progress", retry_after=2)
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except BaseException as error:
            self.buffered -= size
            if isinstance(error, TimeoutError):
                raise ServiceError("slow-request", "the request arrived too slowly") from error
            raise

    async def _run(self, scope: Scope, receive: Receive, result: ResponseSender, body: bytes) -> None:
        """Call the application; cancel it if the client closes the connection."""
        gone = asyncio.Event()
        bodies = iter([body])

        async def replay() -> Message:
            for content in bodies:
                return {"type": "http.request", "body": content, "more_body": False}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            gone.set()

        handler = asyncio.ensure_future(self.app(scope, replay, result))
        watcher = asyncio.ensure_future(watch())
        try:
            await asyncio.wait({handler, watcher}, return_when=asyncio.FIRST_COMPLETED)
            if not handler.done() and not result.complete:
                handler.cancel()
                with suppress(asyncio.CancelledError):
                    await handler
                raise ClientDisconnectedError
            await handler
        finally:
            handler.cancel()
            watcher.cancel()

    def _record(self, scope: Scope, result: ResponseSender, seconds: float) -> None:
        """Count the request and log one line without any text of the client."""
        route = getattr(scope.get("route"), "path", "(unknown)")
        method = scope["method"] if scope["method"] in METHODS else "(other)"
        status = result.status or 500
        self.metrics.count(method, route, status, seconds)
        LOG.info("%s %s %d %.1f ms %d bytes", method, route, status, 1000 * seconds, result.size)


def is_more(length: bytes, limit: int) -> bool:
    """True if the header Content-Length is a number above the limit; Python refuses to read numbers of 5,000 digits."""
    digits = length.lstrip(b"0")
    return digits.isdigit() and (len(digits) > len(str(limit)) or int(digits) > limit)


def too_large(limit: int) -> ServiceError:
    """The error for a body that is too large."""
    return ServiceError("too-long", f"the body of the request has more than {limit} bytes")
