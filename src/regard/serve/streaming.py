"""A translation as server-sent events.

    event: partial    data: {"text": 0, "segment": 2, "translation": "Das"}    the beginning of the first unfinished one
    event: segment    data: {"text": 0, "segment": 2, "translation": "..."}    a sentence, as soon as it is ready
    event: text       data: {"index": 0, "text": "...", ...}    a whole text, as in the answer of /v1/translate
    event: done       data: {}
    event: error      data: {"code": "timeout", "message": "..."}

An error before the first event is an ordinary answer with its status. https://html.spec.whatwg.org/#server-sent-events
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import asdict

from fastapi.responses import StreamingResponse

from regard.errors import UserError
from regard.serve.problems import problem_of
from regard.serve.service import Service, TranslatedText, TranslateRequest

LOG = logging.getLogger("regard.serve")
Event = tuple[str, dict[str, object]]


async def stream_translation(service: Service, request: TranslateRequest) -> StreamingResponse:
    """Start a translation and answer with its events; the end of the answer ends the translation."""
    events: asyncio.Queue[Event] = asyncio.Queue()

    def on_segment(text: int, segment: int, translation: str, complete: bool) -> None:
        name = "segment" if complete else "partial"
        events.put_nowait((name, {"text": text, "segment": segment, "translation": translation}))

    task = asyncio.ensure_future(service.translate(request, on_segment))
    first = asyncio.ensure_future(events.get())
    try:
        await asyncio.wait({task, first}, return_when=asyncio.FIRST_COMPLETED)
        if task.done() and not first.done():
            await task  # raises its error
    except BaseException:
        task.cancel()
        first.cancel()
        raise
    return StreamingResponse(write_events(task, first, events), media_type="text/event-stream")


async def write_events(
    task: "asyncio.Task[list[TranslatedText]]", first: "asyncio.Task[Event]", events: "asyncio.Queue[Event]"
) -> AsyncIterator[bytes]:
    """The events of a running translation, in the order in which they become known."""
    waiting = first
    try:
        while True:
            await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                yield encode(*waiting.result())
                waiting = asyncio.ensure_future(events.get())
            elif task.done():
                break
        for event in await finish(task):
            yield encode(*event)
    finally:
        task.cancel()
        waiting.cancel()


async def finish(task: "asyncio.Task[list[TranslatedText]]") -> list[Event]:
    """The last events: all texts, or an error."""
    try:
        texts = await task
    except UserError as error:
        problem = problem_of(error)
        return [("error", {"code": problem.code, "message": problem.message})]
    except Exception:
        LOG.exception("an error in regard while answering a request")
        return [("error", {"code": "internal", "message": "an error in the server"})]
    return [*(("text", {"index": index, **asdict(text)}) for index, text in enumerate(texts)), ("done", {})]


def encode(event: str, data: dict[str, object]) -> bytes:
    """One event."""
    return f"event: {event}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
