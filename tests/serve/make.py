"""Servers of tiny runs for tests: in this process, or on a real port in a thread."""

import asyncio
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

from regard.run.model import Model
from regard.serve.app import create_app
from regard.serve.service import Service
from regard.serve.settings import ServeSettings
from regard.tasks.identification import Detected


def identify(texts: Sequence[str], top: int = 3) -> list[list[Detected]]:
    """A stand-in for language identification: text with ß, ü or "ei" is German, other text with letters English;
    "Tom" is unsure."""

    def one(text: str) -> list[Detected]:
        if not any(map(str.isalpha, text)):
            return []
        languages = ["de", "en"] if any(part in text for part in ("ß", "ü", "ei")) else ["en", "de"]
        share = 0.6 if text == "Tom" else 0.9
        return [Detected(languages[0], share), Detected(languages[1], 1 - share)][:top]

    return [one(text) for text in texts]


def make_service(runs: Mapping[str, Path], languages: Sequence[str] = (), **settings: Any) -> Service:
    """A started service of runs by name; `languages` as in RUN=en:de."""
    values = ServeSettings(languages=tuple(languages), **settings)
    service = Service({name: Model.load(path, device="cpu") for name, path in runs.items()}, values, identify)
    service.start()
    return service


def make_app(runs: Mapping[str, Path], languages: Sequence[str] = (), **settings: Any) -> FastAPI:
    """The application over a started service; `app.state.service` is the service."""
    service = make_service(runs, languages, **settings)
    app = create_app(service, service.settings)
    app.state.service = service
    return app


class Client:
    """Requests to an application in this process, one after another."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send one request."""

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
                return await client.request(method, path, **options)

        return asyncio.run(send())

    def get(self, path: str, **options: Any) -> httpx.Response:
        """GET."""
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        """POST."""
        return self.request("POST", path, **options)


def stop(service: Service) -> None:
    """Stop the threads of a service."""
    asyncio.run(service.stop())


@contextmanager
def running(app: FastAPI) -> Iterator[str]:
    """A real server on a free port, in a thread; the value is its address."""
    started = threading.Event()

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            started.set()

    server = Server(uvicorn.Config(app, port=0, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert started.wait(60)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()
