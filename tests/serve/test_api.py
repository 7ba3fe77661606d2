"""regard's own API over tiny runs."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.serve.make import Client
from tests.tiny import labelled_examples, number_sentences, translate_words

from regard.errors import UserError
from regard.run.model import Input
from regard.serve.api import check_inputs, check_options
from regard.serve.errors import ServiceError
from regard.serve.settings import ServeSettings

LINES = number_sentences()[:5]


def events(text: str) -> list[tuple[str, Any]]:
    """The events of an answer: names and data."""
    blocks = [block.split("\n") for block in text.strip().split("\n\n")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]


def test_translate_one_and_several(client: Client) -> None:
    answer = client.post("/v1/translate", json={"text": LINES, "source": "EN", "target": "de"})
    assert answer.status_code == 200, answer.text
    assert [item["text"] for item in answer.json()["translations"]] == [translate_words(line) for line in LINES]
    answer = client.post("/v1/translate", json={"text": LINES[0]})
    (item,) = answer.json()["translations"]
    assert item["text"] == translate_words(LINES[0])
    assert (item["source"], item["detected"][0]["language"]) == ("en", "en")


def test_stream_tells_every_sentence_and_then_every_text(client: Client) -> None:
    first, second = number_sentences()[5:7]  # not in the cache
    text = f"{first}\n{second}\n\n{first}"
    answer = client.post("/v1/translate/stream", json={"text": [text, "…"], "source": "en", "target": "de"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    found = events(answer.text)
    segments = [data for name, data in found if name == "segment"]
    assert {(item["text"], item["segment"]): item["translation"] for item in segments} == {
        (0, number): translate_words(line) for number, line in enumerate([first, second, first])
    }
    whole = {(item["text"], item["segment"]): item["translation"].split() for item in segments}
    partial = [data for name, data in found if name == "partial"]
    assert partial and all(
        item["translation"].split() == whole[item["text"], item["segment"]][: len(item["translation"].split())]
        for item in partial  # the tiny run has greedy search, which changes nothing
    )
    texts = [data["text"] for name, data in found if name == "text"]
    assert texts == ["\n".join(translate_words(line) for line in text.split("\n")), "…"]
    assert found[-1] == ("done", {})
    refused = client.post("/v1/translate/stream", json={"text": "one", "source": "xx", "target": "de"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (422, "unknown-language")


def test_predict_embed_detect_and_runs(client: Client) -> None:
    reviews = labelled_examples("classification")["test"]
    inputs = [review["text"] for review in reviews[:-1]] + [{"text": reviews[-1]["text"]}]
    answer = client.post("/v1/predict/reviews", json={"inputs": inputs})
    assert [item["label"] for item in answer.json()["predictions"]] == [review["label"] for review in reviews]
    answer = client.post("/v1/predict/numbers", json={"inputs": [LINES[0]], "options": {"beam": 3, "nbest": 2}})
    (item,) = answer.json()["predictions"]
    assert (item["translation"], len(item["hypotheses"])) == (translate_words(LINES[0]), 2)
    vectors = client.post("/v1/embed/reviews", json={"inputs": ["a film", "a play"], "normalize": True})
    first, _ = vectors.json()["embeddings"]
    assert sum(x * x for x in first) == pytest.approx(1, abs=1e-5)
    answer = client.post("/v1/detect", json={"text": ["eins", "one", "?", "Tom"]}).json()
    assert [found[0]["language"] if found else None for found in answer["detected"]] == ["de", "en", None, "en"]
    assert answer["languages"] == ["de", "en", None, None] and len(answer["detected"][3]) == 2
    names = {run["name"]: run["task"] for run in client.get("/v1/runs").json()["runs"]}
    assert names == {"numbers": "translation", "reviews": "classification"}


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("translate", {"text": "one", "source": "en", "target": "xx"}, 422, "unknown-language"),
        ("translate", {"text": "one", "source": "de", "target": "en"}, 422, "unknown-pair"),
        ("translate", {"text": "one", "run": "none"}, 404, "unknown-run"),
        ("translate", {"text": "one", "run": "reviews"}, 422, "wrong-task"),
        ("translate", {"text": "one " * 10_000, "source": "en", "target": "de"}, 413, "too-long"),
        ("translate", {"text": ["one"] * 1000, "source": "en", "target": "de"}, 413, "too-long"),
        ("translate", {"text": "one", "alternatives": 1000}, 413, "too-long"),
        ("translate", {"text": 1}, 422, "invalid-request"),
        ("translate", {"text": "one", "format": "xml"}, 422, "invalid-request"),
        ("translate", [], 422, "invalid-request"),
        ("predict/none", {"inputs": ["one"]}, 404, "unknown-run"),
        ("predict/reviews", {"inputs": [{"label": "good"}]}, 422, "missing-key"),
        ("predict/numbers", {"inputs": ["one"], "options": {"beam": 4000}}, 422, "invalid-option"),
        ("predict/numbers", {"inputs": ["one"], "options": {"batch_tokens": 1}}, 422, "unsupported-option"),
        ("predict/numbers", {"inputs": ["one"], "options": {"beam": "x"}}, 422, "invalid-option"),
        ("predict/numbers", {"inputs": ["one"], "options": {"alpha": [1]}}, 422, "invalid-option"),
        ("predict/reviews", {"inputs": [{"text": "a", "choices": ["b"] * 200}]}, 413, "too-long"),
        ("predict/reviews", {"inputs": ["a"] * 129}, 413, "too-long"),
        ("translate", {"text": "one", "x" * 100_000: 1}, 422, "invalid-request"),
        ("translate", {"text": "\ud800", "source": "en", "target": "de"}, 422, "invalid-request"),
        ("embed/numbers", {"inputs": ["one"]}, 422, "wrong-task"),
        ("embed/reviews", {"inputs": ["one"], "pool": "none"}, 422, "invalid-option"),
    ],
)
def test_errors_have_a_status_and_a_code(
    client: Client, path: str, body: Any, status: int, code: str, tiny_folder: Path
) -> None:
    headers = {"Content-Type": "application/json"}
    answer = client.post(f"/v1/{path}", content=json.dumps(body), headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert str(tiny_folder) not in answer.text and len(answer.text) < 1000


@pytest.mark.parametrize(
    ("name", "largest"),
    [("beam", 32), ("nbest", 32), ("top", 10_000), ("max_length", 1024), ("extra_length", 1024), ("iterations", 32),
     ("length_candidates", 32)],
)  # fmt: skip
def test_options_have_a_largest_value(name: str, largest: int) -> None:
    check_options({name: largest, "top_k": 10**9, "search": "beam"})
    with pytest.raises(UserError) as caught:
        check_options({name: largest + 1})
    assert caught.value.code == "invalid-option"


def test_inputs_up_to_the_limits_are_read() -> None:
    settings = ServeSettings(max_batch_texts=4, max_characters=100)
    pair: Input = {"choices": ["a", "b"]}
    allowed: list[list[Input]] = [["a"] * 4, ["a" * 100], ["a" * 50] * 2, [pair, pair], [pair, "a", "b"], []]
    for inputs in allowed:
        check_inputs(inputs, settings)
    refused: list[list[Input]] = [["a"] * 5, ["a" * 101], ["a" * 50, "a" * 51], [pair, pair, "a"], [{"text": "a" * 99}]]
    for inputs in refused:
        with pytest.raises(ServiceError) as caught:
            check_inputs(inputs, settings)
        assert caught.value.code == "too-long"


@pytest.mark.parametrize(
    "path", ["/healthz", "/readyz", "/metrics", "/api", "/v1/runs", "/page/runs", "/", "/healthz/x", "/translated"]
)
def test_our_own_routes_have_our_own_errors(client: Client, path: str) -> None:
    answer = client.request("DELETE", path)
    code = {404: "not-found", 405: "method-not-allowed"}[answer.status_code]
    assert answer.json()["error"]["code"] == code and set(answer.json()["error"]) == {"code", "message"}


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"\xe9{}", b"{", b"", b"null", b"[" * 3000])
def test_a_body_that_cannot_be_read_is_422(client: Client, content: bytes) -> None:
    answer = client.post("/v1/translate", content=content, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid-request")


@pytest.mark.parametrize("path", ["/health", "/translate", "/translate_file", "/download_file/a", "/models/none/x"])
def test_routes_of_other_apis_have_theirs(client: Client, path: str) -> None:
    answer = client.request("DELETE", path)
    assert answer.status_code in (404, 405) and isinstance(answer.json()["error"], str)


def test_the_schema_and_the_list_of_routes(client: Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert {"/v1/translate", "/v1/translate/stream", "/v1/detect", "/metrics"} <= set(paths)
    page = client.get("/api").text
    assert all(path in page for path in paths)
    assert "http://" not in page and "https://" not in page
    assert client.get("/redoc").status_code == 404  # pages that are loaded from another host
