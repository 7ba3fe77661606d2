"""Limits, keys, headers and clients that behave badly, over real sockets where it matters."""

import asyncio
import hashlib
import json
import logging
import re
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from tests.conftest import TinyRun
from tests.serve.fuzz import Request, send
from tests.serve.make import Client, make_app, running, stop
from tests.tiny import number_sentences, translate_words

from regard.errors import UserError
from regard.serve.access import ApiKeys, RateLimit
from regard.serve.errors import ErrorResponses, ServiceError
from regard.serve.metrics import Metrics
from regard.serve.middleware import RequestMiddleware, is_more
from regard.serve.settings import ServeSettings

LINES = number_sentences()
BODY = {"text": LINES[0], "source": "en", "target": "de"}


@contextmanager
def app_of(tiny_run: TinyRun, **settings: Any) -> Iterator[FastAPI]:
    """A server of one run with other settings."""
    app = make_app({"numbers": tiny_run("translation")}, ["numbers=en:de"], **settings)
    try:
        yield app
    finally:
        stop(app.state.service)


def post_bytes(text: str, host: str = "server") -> bytes:
    """A request to /v1/translate as it is sent over a socket."""
    body = json.dumps({**BODY, "text": text}).encode()
    head = f"POST /v1/translate HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


def connect(address: str) -> socket.socket:
    host, port = address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=60)


def read_all(connection: socket.socket) -> bytes:
    with connection:
        return b"".join(iter(lambda: connection.recv(65536), b""))


def queue_length(address: str) -> int:
    metrics = httpx.get(f"{address}/metrics").text
    return int(re.findall(r'^regard_queue_length\{run="numbers"\} (\d+)$', metrics, re.MULTILINE)[0])


def test_slow_and_vanishing_clients_harm_no_other(tiny_run: TinyRun) -> None:
    with app_of(tiny_run) as app:
        entered, release = threading.Event(), threading.Event()

        def block(model: object) -> None:
            entered.set()
            assert release.wait(60)

        @app.post("/block")
        async def route() -> None:
            await app.state.service.call("numbers", block)

        with running(app) as address:
            slow, request = connect(address), post_bytes(LINES[1])
            sent = len(request) - 20
            slow.sendall(request[:sent])  # its body never seems to end
            assert httpx.post(f"{address}/v1/translate", json=BODY).status_code == 200

            blocker = threading.Thread(target=httpx.post, args=(f"{address}/block",), kwargs={"timeout": 60})
            blocker.start()
            assert entered.wait(60)
            vanishing = connect(address)
            vanishing.sendall(post_bytes(LINES[2]))
            while queue_length(address) != 1:
                pass
            vanishing.close()
            while queue_length(address) != 0:  # it leaves the queue, while the worker is still busy
                pass
            staying = connect(address)
            staying.sendall(post_bytes(LINES[3]))
            release.set()
            assert translate_words(LINES[3]) in read_all(staying).decode()
            blocker.join()
            for number in range(sent, len(request)):
                slow.sendall(request[number : number + 1])
            assert translate_words(LINES[1]) in read_all(slow).decode()


def test_wrong_paths_and_bodies_are_answered_with_a_remedy(tiny_run: TinyRun) -> None:
    with app_of(tiny_run) as app:
        client = Client(app)
        for response, code, remedy in (
            (client.get("/v1/nothing"), "not-found", "/api"),
            (client.get("/v1/translate"), "method-not-allowed", "/api"),
            (client.post("/v1/translate"), "invalid-request", "application/json"),
            (client.post("/v1/translate", content=b"{}"), "invalid-request", "application/json"),
            (client.post("/v1/translate", json=[]), "invalid-request", "application/json"),
            (client.post("/v1/translate", json={}), "invalid-request", "text: "),
        ):
            error = response.json()["error"]
            assert error["code"] == code and remedy in error["message"]


def test_bodies_and_requests_have_limits(tiny_run: TinyRun) -> None:
    with app_of(tiny_run, max_body=1000, max_requests=1) as app:
        client = Client(app)
        assert client.post("/v1/translate", json={"text": "x" * 1000}).status_code == 413

        async def chunks() -> Any:
            for _ in range(10):
                yield b"x" * 200

        assert client.post("/v1/translate", content=chunks()).status_code == 413
        app.state.metrics.in_progress = 1
        answer = client.post("/v1/translate", json=BODY)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "queue-full")
        assert int(answer.headers["retry-after"]) > 0
        assert client.get("/healthz").status_code == 200
        app.state.metrics.in_progress = 0
        assert client.post("/v1/translate", json=BODY).status_code == 200


def test_large_bodies_in_progress_are_counted_until_they_are_answered() -> None:
    settings, body = ServeSettings(max_body=1_000_000), b"x" * 1_000_000
    service: Any = SimpleNamespace(settings=settings, stopping=False)

    async def send_seventeen() -> tuple[list[int], int, int]:
        release, statuses = asyncio.Event(), []

        async def application(scope: Any, receive: Any, send: Any) -> None:
            assert len((await receive())["body"]) == len(body)
            await release.wait()
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        middleware = RequestMiddleware(application, service, Metrics(), ErrorResponses({}))
        app: Any = middleware

        async def post() -> None:
            statuses.append((await send(app, Request("POST", "/translate", body=body))).status)

        waiting = [asyncio.ensure_future(post()) for _ in range(16)]
        while middleware.metrics.in_progress < 16:
            await asyncio.sleep(0)
        await post()
        counted = middleware.buffered
        release.set()
        await asyncio.gather(*waiting)
        return statuses, counted, middleware.buffered

    assert asyncio.run(send_seventeen()) == ([503] + [200] * 16, 16_000_000, 0)


def test_any_length_of_a_body_is_read_as_a_number() -> None:
    lengths = (b"0", b"", b"-1", b"99", b"0099", b"100", b"101", b"00101", b"1" + b"0" * 5000, b"0" * 5000, b"\xb2")
    assert [is_more(length, 100) for length in lengths] == [*[False] * 6, True, True, True, False, False]


@pytest.mark.parametrize("depth", [99, 150, *range(955, 975), 5000])
@pytest.mark.parametrize(
    "path", ["/v1/predict/numbers", "/models/numbers", "/page/predict", "/v2/translate", "/detect"]
)
def test_deep_nesting_is_an_error_of_the_request(client: Client, path: str, depth: int) -> None:
    nested = "[" * depth + "]" * depth
    body = {"/v2/translate": '{"text": %s, "target_lang": "DE"}', "/detect": '{"q": %s}'}
    body |= {
        "/page/predict": '{"run": "numbers", "example": {"src": %s}}',
        "/models/numbers": '{"inputs": {"src": %s}}',
    }
    content = body.get(path, '{"inputs": [{"src": %s}]}') % nested
    answer = client.post(path, content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422), answer.text


def test_a_request_that_takes_too_long_is_504_and_leaves_the_queue(tiny_run: TinyRun) -> None:
    with app_of(tiny_run, timeout=0.01) as app:
        release = threading.Event()
        worker = app.state.service.runs["numbers"].worker
        worker.submit("block", lambda model, inputs: [release.wait(60)], [None])
        answer = Client(app).post("/v1/translate", json=BODY)
        assert (answer.status_code, answer.json()["error"]["code"]) == (504, "timeout")
        release.set()
        assert worker.submit("after", lambda model, inputs: inputs, [1]).result(60) == [1]
        assert (worker.computed, worker.waiting) == (2, 0)


def test_a_body_that_does_not_come_is_408(tiny_run: TinyRun) -> None:
    with app_of(tiny_run, timeout=0.05) as app, running(app) as address:
        slow = connect(address)
        slow.sendall(post_bytes(LINES[0])[:-1])
        answer = read_all(slow)
        assert answer.startswith(b"HTTP/1.1 408 ") and b"slow-request" in answer


def test_keys_are_needed_where_they_are_set(
    tiny_run: TinyRun, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text(f"first-key  # of a person\n\n{hashlib.sha256(b'second-key').hexdigest()}\n")
    with app_of(tiny_run, api_keys=keys, requests_per_minute=2) as app, caplog.at_level(logging.INFO):
        client = Client(app)

        def status(key: str) -> tuple[int, str]:
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            answer = client.post("/v1/translate", json=BODY, headers=headers)
            return answer.status_code, answer.json().get("error", {}).get("code", "")

        assert status("") == (401, "missing-key")
        assert status("third-key") == (403, "wrong-key")
        assert status("fourth-key") == (429, "too-many-requests")
        assert [status("first-key")[0] for _ in range(3)] == [200, 200, 429]
        assert client.post("/v1/translate", json=BODY, headers={"X-API-Key": "second-key"}).status_code == 200
        assert client.get("/readyz").status_code in (200, 503)
        shown = client.get("/metrics").text + caplog.text
        assert "-key" not in shown.replace("missing-key", "") and LINES[0] not in shown and "127.0.0.1" not in shown


def test_requests_of_all_apis_are_counted_in_the_thread_of_the_connections(
    tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []

    def check(self: RateLimit, client: bytes) -> None:
        threads.append(threading.current_thread())

    monkeypatch.setattr(RateLimit, "check", check)
    with app_of(tiny_run) as app:
        client = Client(app)
        for path in ("/v1/translate", "/translate", "/v2/translate", "/models/numbers", "/page/translate"):
            assert client.post(path, json={}).status_code in (400, 422)
    assert threads == [threading.main_thread()] * 5


def test_a_file_without_keys_does_not_open_the_server(tmp_path: Path) -> None:
    file = tmp_path / "keys.txt"
    file.write_text("# no key yet\n\n")
    with pytest.raises(UserError) as error:
        ApiKeys.read(file)
    assert (error.value.code, error.value.where) == ("no-data", str(file))
    file.write_text("one#two # a comment\n#three\n")
    keys = ApiKeys.read(file)
    assert [keys.owner(key) is not None for key in ("one#two", "one", "three", "#three")] == [True, False, False, False]


def test_the_rate_is_refilled_with_time() -> None:
    now = [0.0]
    limit = RateLimit(60, clock=lambda: now[0])
    for _ in range(60):
        limit.check(b"a")
    with pytest.raises(ServiceError) as error:
        limit.check(b"a")
    assert (error.value.code, error.value.retry_after) == ("too-many-requests", 2)
    limit.check(b"b")
    now[0] = 2.0
    limit.check(b"a")
    limit.check(b"a")
    with pytest.raises(ServiceError):
        limit.check(b"a")


def test_of_many_clients_the_newest_are_still_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.serve.access.MAX_CLIENTS", 2)
    limit = RateLimit(1, clock=lambda: 0.0)
    for client in (b"a", b"b", b"c"):
        limit.check(client)
    for client in (b"c", b"b"):
        with pytest.raises(ServiceError) as error:
            limit.check(client)
        assert error.value.code == "too-many-requests"
    limit.check(b"a")  # the oldest one was forgotten
    assert len(limit._clients) == 2


def test_a_bug_is_500_without_a_traceback_or_path(tiny_run: TinyRun, caplog: pytest.LogCaptureFixture) -> None:
    with app_of(tiny_run) as app:

        @app.get("/bug")
        async def bug() -> None:
            raise ValueError(f"secret in {__file__}")

        answer = Client(app).get("/bug")
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal")
        assert "secret" not in answer.text and "test_middleware" not in answer.text
        assert "secret" in caplog.text  # the operator sees it


def test_an_error_in_the_middle_of_an_answer_is_in_the_log(tiny_run: TinyRun, caplog: pytest.LogCaptureFixture) -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"begin"
        raise ValueError("secret")

    with app_of(tiny_run) as app:

        @app.get("/bug")
        async def bug() -> StreamingResponse:
            return StreamingResponse(parts())

        with pytest.raises(AssertionError):  # httpx: the answer has no end
            Client(app).get("/bug")
        assert "secret" in caplog.text


def test_headers_and_cors(tiny_run: TinyRun, client: Client) -> None:
    origin = {"Origin": "https://example.org"}
    answer = client.get("/healthz", headers=origin)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in answer.headers and "server" not in answer.headers
    with app_of(tiny_run, cors=("https://example.org",)) as app:
        allowed = Client(app).get("/healthz", headers=origin).headers
        assert allowed["access-control-allow-origin"] == "https://example.org"
        other = Client(app).get("/healthz", headers={"Origin": "https://example.com"}).headers
        assert "access-control-allow-origin" not in other


@pytest.mark.parametrize(
    ("path", "methods"),
    [("/translate", "OPTIONS, POST"), ("/languages", "GET, HEAD, OPTIONS, POST"), ("/v1/runs", "GET, OPTIONS")],
)
def test_options_names_the_methods_of_a_path(client: Client, path: str, methods: str) -> None:
    answer = client.request("OPTIONS", path)
    assert (answer.status_code, answer.headers["allow"], answer.content) == (200, methods, b"")
    assert "access-control-allow-origin" not in answer.headers
    assert client.request("OPTIONS", "/none").status_code == 404
    assert client.request("DELETE", path).status_code == 405


def test_the_address_of_libretranslates_documentation_leads_to_the_routes(client: Client) -> None:
    answer = client.get("/docs/")
    assert (answer.status_code, answer.headers["location"]) == (307, "../api")
    assert client.get("/docs").headers["location"].endswith("/docs/")
