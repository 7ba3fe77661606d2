"""A translation as server-sent events.

    event: partial    data: {"text": 0, "segment": 2, "translation": "Das"}    the beginning of the first unfinished one
    event: segment    data: {"text": 0, "segment": 2, "translation": "..."}    a sentence, as soon as it is ready
    event: text       data: {"index": 0, "text": "...", ...}    a whole text, as in the response of /v1/translate
    event: done       data: {}
    event: error      data: {"code": "timeout", "message": "..."}

An error before the first event is an ordinary response with its status. https://html.spec.whatwg.org/#server-sent-events
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import asdict

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from regard.errors import UserError
from regard.serve.errors import Problem
from regard.serve.service import Service, TranslatedText, TranslateRequest

LOG = logging.getLogger("regard.serve")
Event = tuple[str, dict[str, object]]


class TranslationEvents(StreamingResponse):
    """The events of a translation. It begins when the response is sent, and ends with it."""

    def __init__(self, service: Service, request: TranslateRequest) -> None:
        super().__init__((), media_type="text/event-stream")
        self.service, self.request = service, request
        self.waiting: dict[object, Event] = {}
        """Events that are not sent yet. A beginning replaces the one before: a client that reads slowly gets the newest
        one, and there are at most as many events as segments, and one more."""
        self.some = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.ensure_future(self.service.translate(self.request, self._on_segment))
        first = asyncio.ensure_future(self._next())
        try:
            await asyncio.wait({task, first}, return_when=asyncio.FIRST_COMPLETED)
            if task.done() and not first.done():
                await task  # raises its error
            self.body_iterator = self._write(task, first)
            await super().__call__(scope, receive, send)
        finally:  # not in `_write`: it does not run if the client disconnects before the first event
            task.cancel()
            first.cancel()

    def _on_segment(self, text: int, segment: int, translation: str, complete: bool) -> None:
        name, key = ("segment", (text, segment)) if complete else ("partial", None)
        self.waiting.pop(key, None)
        self.waiting[key] = name, {"text": text, "segment": segment, "translation": translation}
        self.some.set()

    async def _next(self) -> Event:
        """Wait for the oldest event."""
        while not self.waiting:
            self.some.clear()
            await self.some.wait()
        return self.waiting.pop(next(iter(self.waiting)))

    async def _write(
        self, task: "asyncio.Task[list[TranslatedText]]", waiting: "asyncio.Task[Event]"
    ) -> AsyncIterator[bytes]:
        """The events in the order in which they become known; `waiting` is the first one."""
        try:
            while True:
                await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
                if waiting.done():
                    yield encode(*waiting.result())
                    waiting = asyncio.ensure_future(self._next())
                elif task.done():
                    break
            for event in await finish(task):
                yield encode(*event)
        finally:
            waiting.cancel()


async def finish(task: "asyncio.Task[list[TranslatedText]]") -> list[Event]:
    """The last events: all texts, or an error."""
    try:
        texts = await task
    except UserError as error:
        problem = Problem.of(error)
        return [("error", {"code": problem.code, "message": problem.message})]
    except Exception:
        LOG.exception("an error in regard while responding to a request")
        return [("error", {"code": "internal", "message": "an error in the server"})]
    return [*(("text", {"index": index, **asdict(text)}) for index, text in enumerate(texts)), ("done", {})]


def encode(event: str, data: dict[str, object]) -> bytes:
    """One event."""
    return f"event: {event}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
