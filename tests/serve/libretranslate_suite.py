"""LibreTranslate's own tests of its API against a server of regard.

    python -m tests.serve.libretranslate_suite download      download the wheel with pip
    python -m tests.serve.libretranslate_suite WHEEL         a wheel that is there already

The tests are inside of the wheel (libretranslate/tests/test_api). They are unpacked into a temporary folder and run
there; nothing of them is part of this repository, since their licence is the AGPL. They use the test client of Flask;
`CONFTEST` is a client with the same methods that sends real requests.
"""

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "libretranslate==1.9.6"
FOLDER = "libretranslate/tests/test_api/"
CONFTEST = """
import os
import pytest
import requests


class Response:
    def __init__(self, response):
        self.status_code, self.data = response.status_code, response.content
        self._response = response

    @property
    def json(self):
        return self._response.json()


class Client:
    def __init__(self, address):
        self.address = address

    def get(self, path):
        return Response(requests.get(self.address + path, timeout=60))

    def post(self, path, **content):
        return Response(requests.post(self.address + path, timeout=60, **content))


@pytest.fixture
def client():
    return Client(os.environ["SERVER"])
"""


def download(folder: Path) -> Path:
    """Download the wheel from the package index."""
    command = [sys.executable, "-m", "pip", "download", PACKAGE, "--no-deps", "--quiet", "--dest", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


def unpack(wheel: Path, folder: Path) -> None:
    """Write the tests of a wheel into a folder, with our own conftest."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            file = Path(name).name
            if name.startswith(FOLDER) and re.fullmatch(r"test_\w+\.py", file):
                (folder / file).write_bytes(archive.read(name))
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")


def run_suite(wheel: Path, address: str, folder: Path) -> dict[str, bool]:
    """Run the tests of a wheel against a server; each test and whether it passed."""
    unpack(wheel, folder)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-v",
        "-p",
        "no:cacheprovider",
        "-c",
        os.devnull,
        "--rootdir",
        str(folder),
    ]
    result = subprocess.run(
        [*command, str(folder)], env=os.environ | {"SERVER": address}, capture_output=True, text=True, check=False
    )
    lines = re.findall(r"::(\w+) (PASSED|FAILED|ERROR)", result.stdout)
    return {name: outcome == "PASSED" for name, outcome in lines}


def main(wheel: str) -> int:
    """Train a tiny run, serve it and print the result of each test."""
    from tests.serve.make import make_app, running, stop
    from tests.tiny import train_run

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tests = folder / "tests"
        tests.mkdir()
        run = train_run(folder / "translation", "translation")
        app = make_app({"numbers": run}, ["numbers=en:es"])
        with running(app) as address:
            found = run_suite(download(folder) if wheel == "download" else Path(wheel), address, tests)
        stop(app.state.service)
    for test, passed in found.items():
        print(f"{'passed' if passed else 'failed'}  {test}")
    print(f"{sum(found.values())} of {len(found)} passed")
    return int(not found or not all(found.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "download"))
