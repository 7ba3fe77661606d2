"""The process of `regard serve`: SIGTERM under load loses nothing; settings of options and environment."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.command import fails
from tests.conftest import TinyRun
from tests.tiny import number_sentences, translate_words

import regard
from regard.errors import UserError
from regard.serve.settings import read_settings

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


def test_options_come_before_variables_and_these_before_defaults() -> None:
    variables = {
        "REGARD_SERVE_PORT": "8000", "REGARD_SERVE_HOST": "0.0.0.0", "REGARD_SERVE_CORS": "https://a.org,https://b.org",
        "REGARD_SERVE_ACCESS_LOG": "false", "REGARD_SERVE_API_KEYS": "keys.txt",
    }  # fmt: skip
    settings = read_settings({"host": "127.0.0.1", "port": None}, variables)
    assert (settings.host, settings.port, settings.access_log) == ("127.0.0.1", 8000, False)
    assert (settings.cors, settings.api_keys) == (("https://a.org", "https://b.org"), Path("keys.txt"))
    for wrong in ({"REGARD_SERVE_PORT": "many"}, {"REGARD_SERVE_PORTS": "1"}, {"REGARD_SERVE_TIMEOUT": "-1"}):
        with pytest.raises(UserError):
            read_settings({}, wrong)


def test_variables_of_kubernetes_are_ignored_with_one_warning() -> None:
    service = {
        "PORT": "tcp://10.0.0.1:80", "SERVICE_HOST": "10.0.0.1", "SERVICE_PORT": "80", "SERVICE_PORT_HTTP": "80",
        "PORT_80_TCP": "tcp://10.0.0.1:80", "PORT_80_TCP_PROTO": "tcp", "PORT_80_TCP_PORT": "80",
        "PORT_80_TCP_ADDR": "10.0.0.1", "GPU_PORT": "udp://[fd00::1]:80", "GPU_PORT_80_UDP_ADDR": "fd00::1",
    }  # fmt: skip
    variables = {f"REGARD_SERVE_{name}": value for name, value in service.items()}
    warnings: list[str] = []
    settings = read_settings({}, {**variables, "REGARD_SERVE_MAX_BATCH": "8", "OTHER": "tcp://a:1"}, warnings.append)
    assert (settings.port, settings.max_batch) == (5000, 8)
    (warning,) = warnings
    assert all(name in warning for name in variables) and "MAX_BATCH" not in warning and "\n" not in warning
    assert read_settings({"port": 8000}, variables).port == 8000
    for wrong in ({"REGARD_SERVE_PORT": "http://10.0.0.1:80"}, {"REGARD_SERVE_SERVICES": "1"}):
        with pytest.raises(UserError):
            read_settings({}, wrong, warnings.append)
    assert read_settings({}, {"REGARD_SERVE_PORT": "80"}, warnings.append).port == 80
    assert len(warnings) == 1, "no warning without such variables"


def test_a_server_that_cannot_start_says_why(tiny_run: TinyRun, tmp_path: Path) -> None:
    run = tiny_run("translation")
    assert fails("serve", tmp_path / "none").code
    assert fails("serve", run, "--languages", "en:de").code == "invalid-option"
    assert fails("serve", run, "--host", "192.0.2.1", "--port", "1").code == "port-in-use"
