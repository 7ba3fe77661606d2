"""The routes of the page: its files, and the answers that its program asks for."""

import re
from collections.abc import Iterator

import httpx
import numpy as np
import pytest
from fastapi import FastAPI
from tests.conftest import TinyRun
from tests.serve.make import Client, make_app, stop
from tests.tiny import unpack_array

from regard.files import JsonObject
from regard.run.model import Model

SENTENCE = "one two three"


@pytest.fixture(scope="module")
def app(tiny_run: TinyRun) -> Iterator[FastAPI]:
    app = make_app({"numbers": tiny_run("translation"), "reviews": tiny_run("classification")}, ["numbers=en:de"])
    yield app
    stop(app.state.service)


@pytest.fixture(scope="module")
def client(app: FastAPI) -> Client:
    return Client(app)


@pytest.fixture(scope="module")
def model(app: FastAPI) -> Model:
    found: Model = app.state.service.runs["numbers"].model
    return found


def values(answer: httpx.Response) -> JsonObject:
    assert answer.status_code == 200, answer.text
    found: JsonObject = answer.json()
    return found


def test_the_page_and_its_files(client: Client) -> None:
    page = client.get("/")
    assert page.status_code == 200 and page.headers["content-type"].startswith("text/html")
    assert "unsafe" not in page.headers["content-security-policy"] and "unsafe" not in page.text
    addresses = re.findall(r'(?:href|src)="([^"]+)"', page.text)
    assert len(addresses) == 3 and not any(address.startswith(("http", "/")) for address in addresses)
    for address in addresses:
        file = client.get(f"/{address}")
        assert file.status_code == 200 and "immutable" in file.headers["cache-control"]
        assert not re.search(r"https?://(?!www\.w3\.org/)", file.text), "no address of another host"
    assert client.get(f"/{addresses[0].replace('files/', 'files/0')}").status_code == 404


def test_runs(client: Client) -> None:
    numbers, reviews = values(client.get("/page/runs"))["runs"]
    assert (numbers["task"], numbers["directions"], numbers["attention"]) == ("translation", [["en", "de"]], True)
    assert reviews["task"] == "classification" and reviews["vectors"] and not reviews["beam"]


def test_a_text_of_two_sentences(client: Client, model: Model) -> None:
    body: JsonObject = {"run": "numbers", "text": f"{SENTENCE}! six six two!", "source": None, "target": "de"}
    found = values(client.post("/page/translate", json=body))
    assert found["source"] == "en" and found["detected"][0]["language"] == "en"
    assert [body["text"][start:end] for start, end in found["sentences"]] == [f"{SENTENCE}!", "six six two!"]
    assert all(0 <= start < end <= len(found["text"]) for _, _, start, end in found["links"])


def test_sentences_are_those_that_are_translated(client: Client) -> None:
    """A line break ends a sentence, as in the translation; numbers and list markers belong to none."""
    body: JsonObject = {"run": "numbers", "text": "one two\n10:45\n- six! two\n", "source": "en", "target": "de"}
    found = values(client.post("/page/translate", json=body))
    assert [body["text"][start:end] for start, end in found["sentences"]] == ["one two", "six!", "two"]
    assert len(found["confidences"]) == 3


def test_the_steps_of_a_head_are_those_of_the_map(client: Client, model: Model) -> None:
    body: JsonObject = {"run": "numbers", "example": SENTENCE}
    shown = values(client.post("/page/predict", json=body))
    assert shown["output"] == [model.predict(SENTENCE)["translation"]]
    cross = next(item for item in shown["maps"] if item["name"] == "cross")
    steps = values(client.post("/page/head", json={**body, "map": "cross", "layer": 1, "head": 1}))
    expected = np.asarray(model.explain(SENTENCE).maps[2].weights)[1, 1]
    assert np.abs(unpack_array(steps["weights"]) - expected).max() < 1e-6 and cross["steps"]
    wrong = client.post("/page/head", json={**body, "map": "cross", "layer": 9, "head": 1})
    assert wrong.status_code == 422 and wrong.json()["error"]["code"] == "no-attention"


def test_the_beam(client: Client) -> None:
    body = {"run": "numbers", "example": SENTENCE}
    assert values(client.post("/page/beam", json=body))["width"] == 1, "the run has greedy search"
    assert values(client.post("/page/beam", json={**body, "width": 3}))["width"] == 3
    assert values(client.post("/page/beam", json={**body, "width": 10}))["width"] == 10
    assert client.post("/page/beam", json={**body, "width": 11}).status_code == 422
    assert client.post("/page/beam", json={**body, "run": "reviews"}).json()["error"]["code"] == "wrong-task"


def test_curves_and_texts(client: Client) -> None:
    curves = values(client.get("/page/curves", params={"run": "numbers"}))
    assert curves["reset"] and curves["curves"][0]["points"]
    again = values(client.get("/page/curves", params={"run": "numbers", "seen": curves["seen"]}))
    assert not again["reset"] and not again["curves"][0]["points"]
    found = values(client.post("/page/texts", json={"run": "reviews", "texts": ["a film", "a book", "a song"]}))
    assert np.shape(found["cosines"]) == (3, 3)


def test_wrong_requests(client: Client) -> None:
    assert client.post("/page/predict", json={"run": "none", "example": "a"}).json()["error"]["code"] == "unknown-run"
    assert client.post("/page/predict", json={"run": "numbers", "example": "a" * 30_000}).status_code == 413
    assert client.post("/page/predict", json={"run": "reviews", "example": {"pair": "a"}}).status_code == 422
    assert client.get("/page/curves", params={"run": "none"}).status_code == 404
