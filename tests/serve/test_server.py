"""The process of `regard serve`: SIGTERM under load loses nothing; settings of options and environment."""

import asyncio
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import uvicorn
from fastapi import FastAPI
from tests.cli.command import fails
from tests.cli.command import regard as command
from tests.conftest import TinyRun
from tests.tiny import number_sentences, translate_words

import regard
from regard.cli.serve import SLEEPING, THREADS
from regard.serve.server import GracefulServer, bind
from regard.serve.service import Service
from regard.serve.settings import ServeSettings

CLIENTS = 8
HEADERS = {"Content-Type": "application/json"}


@contextmanager
def process(*arguments: object) -> Iterator["tuple[subprocess.Popen[str], int]"]:
    """`regard serve ARGUMENTS` on a free port, which is the second value."""
    source = str(Path(regard.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "regard", "serve", *map(str, arguments), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stderr is not None
        try:
            line = next(line for line in server.stderr if "listening" in line)
            yield server, int(re.findall(r":(\d+)", line)[0])
        finally:
            server.kill()


class LoadingClient(threading.Thread):
    """Sends requests over one connection after another until the server is gone."""

    def __init__(self, port: int, number: int) -> None:
        super().__init__()
        self.port, self.number = port, number
        self.answered, self.wrong = 0, list[str]()
        self.started_well = threading.Event()

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        lines = number_sentences()
        while True:
            text = lines[(self.number * 31 + self.answered) % len(lines)]
            try:
                connection.request("POST", "/v1/translate", json.dumps({"text": text}), HEADERS)
                answer = connection.getresponse()
            except (ConnectionError, http.client.BadStatusLine):  # not accepted: no byte of an answer
                connection.close()
                return
            content = answer.read()  # an answer that has begun must be complete
            if answer.status != 200 or json.loads(content)["translations"][0]["text"] != translate_words(text):
                self.wrong.append(content.decode())
            self.answered += 1
            if self.answered == 3:
                self.started_well.set()


def test_sigterm_under_load_loses_nothing(tiny_run: TinyRun) -> None:
    run = tiny_run("translation")
    with process(run, "--languages", f"{run.name}=en:de", "--no-access-log", "--cache", 0) as (server, port):
        clients = [LoadingClient(port, number) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        assert all(client.started_well.wait(60) for client in clients)
        server.send_signal(signal.SIGTERM)
        for client in clients:
            client.join()
        assert server.stderr is not None
        last = server.stderr.read()
        assert server.wait(60) == 0, last
    assert not [text for client in clients for text in client.wrong]
    (counted,) = re.findall(r"stopped; (\d+) requests", last)
    assert int(counted) == sum(client.answered for client in clients)


def test_a_request_that_outlasts_the_drain_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.serve.server.DRAIN_SECONDS", 0.0)
    service, entered, ended = SimpleNamespace(stopping=False), threading.Event(), list[bool]()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        ended.append(True)

    app = FastAPI(lifespan=lifespan)

    @app.get("/")
    async def answer() -> str:
        entered.set()
        while not service.stopping:
            await asyncio.sleep(0)
        for _ in range(100):  # the server has time to stop without this answer
            await asyncio.sleep(0)
        return "done"

    server = GracefulServer(uvicorn.Config(app, log_config=None), cast(Service, service))
    with bind("127.0.0.1", 0) as listening:
        connection = http.client.HTTPConnection("127.0.0.1", listening.getsockname()[1], timeout=60)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])))
        thread.start()
        connection.request("GET", "/")
        assert entered.wait(60)
        server.should_exit = True
        try:
            assert json.loads(connection.getresponse().read()) == "done"
        finally:
            connection.close()
            thread.join()
    assert ended == [True]


@pytest.fixture
def serve(tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[ServeSettings, int]]:
    """`regard serve` up to the moment at which it would listen: its settings and its number of threads."""
    threads, started = [0], list[ServeSettings]()
    monkeypatch.setattr("torch.set_num_threads", lambda count: threads.append(count))
    monkeypatch.setattr("regard.serve.server.run_server", lambda service, settings, report: started.append(settings))
    for name in (*THREADS, *SLEEPING):
        monkeypatch.setenv(name, os.environ.get(name, "0"))  # restored at the end

    def run(*arguments: object, runs: int = 1, given: str = "") -> tuple[ServeSettings, int]:
        for name in THREADS:
            monkeypatch.setenv(name, given)
        result = command("serve", *[tiny_run("translation")] * runs, *arguments)
        assert result.status == 0, result.err
        return started[-1], threads[-1]

    return run


def test_options_come_before_variables_and_these_before_defaults(
    serve: Callable[..., tuple[ServeSettings, int]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text("secret\n")
    variables = {
        "REGARD__PORT": "8000", "REGARD__HOST": "0.0.0.0", "REGARD__CORS": "https://a.org,https://b.org",
        "REGARD__ACCESS_LOG": "false", "REGARD__API_KEYS": str(keys), "REGARD__MAX_BATCH": "8",
        "REGARD_SERVE_MAX_BATCH": "16", "REGARD_SERVE_TIMEOUT": "5",  # the old names
    }  # fmt: skip
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    settings, _ = serve("--host", "127.0.0.1")
    assert (settings.host, settings.port, settings.access_log) == ("127.0.0.1", 8000, False)
    assert (settings.cors, settings.api_keys) == (("https://a.org", "https://b.org"), keys)
    assert (settings.max_batch, settings.timeout, settings.max_queue) == (8, 5.0, 4096)
    for name, value in {"REGARD__PORT": "many", "REGARD__TIMEOUT": "-1"}.items():
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert command("serve").status in (1, 2)
    monkeypatch.setenv("REGARD__PORTS", "1")
    assert fails("serve").code == "unknown-setting"


def test_variables_of_kubernetes_are_ignored_with_one_warning(
    serve: Callable[..., tuple[ServeSettings, int]], tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = {
        "PORT": "tcp://10.0.0.1:80", "SERVICE_HOST": "10.0.0.1", "SERVICE_PORT": "80", "SERVICE_PORT_HTTP": "80",
        "PORT_80_TCP": "tcp://10.0.0.1:80", "PORT_80_TCP_PROTO": "tcp", "PORT_80_TCP_PORT": "80",
        "PORT_80_TCP_ADDR": "10.0.0.1", "GPU_PORT": "udp://[fd00::1]:80", "GPU_PORT_80_UDP_ADDR": "fd00::1",
    }  # fmt: skip
    for name, value in service.items():
        monkeypatch.setenv(f"REGARD_SERVE_{name}", value)
    monkeypatch.setenv("REGARD_SERVE_MAX_BATCH", "8")
    settings, _ = serve()
    assert (settings.port, settings.max_batch) == (5000, 8)
    assert serve("--port", "8000")[0].port == 8000
    monkeypatch.setenv("REGARD__PORT", "7000")
    assert serve()[0].port == 7000
    (warning,) = (line for line in command("serve", tiny_run("translation")).err.splitlines() if "SERVICE_HOST" in line)
    assert all(f"REGARD_SERVE_{name}" in warning for name in service) and "MAX_BATCH" not in warning


def test_threads_are_shared_by_runs_and_follow_the_operator(
    serve: Callable[..., tuple[ServeSettings, int]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda process: range(64), raising=False)
    quota = tmp_path / "cpu.max"
    monkeypatch.setattr("regard.processes.CPU_QUOTA", quota)
    assert serve()[1] == 8
    assert serve(runs=16)[1] == 4
    assert serve(runs=80)[1] == 1
    assert serve("--threads", "12")[1] == 12
    quota.write_text("250000 100000\n")  # a container with two and a half cores
    assert serve()[1] == 2
    quota.write_text("max 100000\n")
    assert serve()[1] == 8
    assert serve(given="3")[1] == 3 and os.environ["OMP_NUM_THREADS"] == "3"
    assert serve("--threads", "2", given="3")[1] == 2 and os.environ["OMP_NUM_THREADS"] == "2"


def test_libraries_are_told_about_threads_before_torch_is_loaded() -> None:
    program = """
import os, sys
class Finder:
    def find_spec(self, name, *rest):
        if name == "torch":
            print(*(os.environ[name] for name in sys.argv[1:]), flush=True)
            os._exit(0)
sys.meta_path.insert(0, Finder())
from regard.cli import main
main(["serve", "--threads", "6"])
"""
    names = [*SLEEPING, *THREADS]
    environment = {name: value for name, value in os.environ.items() if name not in names}
    environment |= {"PYTHONPATH": str(Path(regard.__file__).parents[1]), "RAYON_NUM_THREADS": "5"}
    for given, expected in {"": "PASSIVE 0 6 6 5\n", "7": "ACTIVE 0 6 6 5\n"}.items():
        more = {"OMP_WAIT_POLICY": "ACTIVE", "OMP_NUM_THREADS": given} if given else {}  # the operator's
        command = [sys.executable, "-c", program, *names]
        done = subprocess.run(command, capture_output=True, text=True, env=environment | more)
        assert done.stdout == expected, done.stderr


def test_a_server_that_cannot_start_says_why(tiny_run: TinyRun, tmp_path: Path) -> None:
    run = tiny_run("translation")
    assert fails("serve", tmp_path / "none").code
    assert fails("serve", run, "--languages", "en:de").code == "invalid-option"
    assert fails("serve", run, "--host", "192.0.2.1", "--port", "1").code == "port-in-use"
