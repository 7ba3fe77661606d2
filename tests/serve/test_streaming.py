"""Streams of events: the end of a connection is the end of its translation, also before the first event."""

import asyncio
import json
import threading
from typing import Any

import pytest
from fastapi import FastAPI
from tests.conftest import TinyRun
from tests.serve.make import make_app, stop
from tests.tiny import number_sentences

from regard.serve.service import OnTextSegment, TranslateRequest
from regard.serve.streaming import TranslationEvents

PATHS = ("/v1/translate/stream", "/page/translate/stream")
LINES = number_sentences()


class Connection:
    """A client without a network. The test closes its connection; it does not read before that."""

    def __init__(self, app: FastAPI, path: str, text: str) -> None:
        self.app, self.path = app, path
        self.body = json.dumps({"text": text, "run": "numbers", "source": "en", "target": "de"}).encode()
        self.closed, self.answered = asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        """Send the request; return when the server is done with it."""
        scope = {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": "POST",
            "scheme": "http", "path": self.path, "raw_path": self.path.encode(), "query_string": b"", "root_path": "",
            "headers": [(b"host", b"server"), (b"content-type", b"application/json")], "client": ("127.0.0.1", 1),
            "server": ("server", 80),
        }  # fmt: skip
        await self.app(scope, self._receive, self._send)

    async def _receive(self) -> dict[str, Any]:
        if self.body:
            body, self.body = self.body, b""
            return {"type": "http.request", "body": body, "more_body": False}
        await self.closed.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        self.answered.set()
        await asyncio.Event().wait()


@pytest.mark.parametrize("path", PATHS)
def test_a_stream_whose_client_closes_before_the_first_event_leaves_the_queue(tiny_run: TinyRun, path: str) -> None:
    app = make_app({"numbers": tiny_run("translation")}, ["numbers=en:de"])
    worker, release = app.state.service.runs["numbers"].worker, threading.Event()
    worker.submit("block", lambda model, inputs: [release.wait(60)], [None])

    async def close_while_it_waits() -> None:
        connection = Connection(app, path, f"{LINES[0]}\n{LINES[1]}")
        request = asyncio.ensure_future(connection.run())
        while worker.waiting != 2:
            await asyncio.sleep(0)
        connection.closed.set()
        await request

    asyncio.run(close_while_it_waits())
    assert (worker.waiting, app.state.metrics.in_progress) == (0, 0)
    release.set()
    stop(app.state.service)
    assert worker.computed == 1  # only the block


@pytest.mark.parametrize("path", PATHS)
def test_a_stream_whose_client_closes_before_it_reads_anything_is_cancelled(
    tiny_app: FastAPI, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = []

    async def translate(request: TranslateRequest, on_segment: OnTextSegment) -> None:
        on_segment(0, 0, "eins", True)
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(request.texts)

    monkeypatch.setattr(tiny_app.state.service, "translate", translate)

    async def close_before_the_first_byte() -> int:
        connection = Connection(tiny_app, path, LINES[0])
        request = asyncio.ensure_future(connection.run())
        await connection.answered.wait()  # the first event is known, and not sent
        connection.closed.set()
        await request
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(asyncio.all_tasks()) == 1, "nothing of the request is left"
        return len(ended)

    assert asyncio.run(close_before_the_first_byte()) == 1


def test_events_for_a_client_that_reads_slowly_are_bounded(tiny_app: FastAPI) -> None:
    async def stream() -> list[Any]:
        events = TranslationEvents(tiny_app.state.service, TranslateRequest(LINES[:2], "en", "de"))
        for number in range(1000):
            for segment in (0, 1):
                events._on_segment(0, segment, f"part {number}", False)
            assert len(events.waiting) == 1
        events._on_segment(0, 1, "whole", True)
        events._on_segment(0, 0, "part 1000", False)
        assert len(events.waiting) == 2
        return [await events._next() for _ in range(2)]

    first, second = asyncio.run(stream())
    assert first == ("segment", {"text": 0, "segment": 1, "translation": "whole"})
    assert second == ("partial", {"text": 0, "segment": 0, "translation": "part 1000"})
