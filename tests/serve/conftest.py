"""One server of tiny runs for the tests of this folder."""

from collections.abc import Iterator

import pytest
from fastapi import FastAPI
from tests.conftest import TinyRun
from tests.serve.make import Client, make_app, stop


@pytest.fixture(scope="session")
def tiny_app(tiny_run: TinyRun) -> Iterator[FastAPI]:
    """A translation run "numbers" (English to German number words) and a classification run "reviews"."""
    runs = {"numbers": tiny_run("translation"), "reviews": tiny_run("classification")}
    app = make_app(runs, ["numbers=en:de"])
    yield app
    stop(app.state.service)


@pytest.fixture
def client(tiny_app: FastAPI) -> Client:
    """Requests to `tiny_app`."""
    return Client(tiny_app)
