"""DeepL's API, version 2."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.conftest import TinyRun
from tests.serve.make import Client, make_app, stop

PATH = "/v2/translate"
ONE = {"text": ["one two three"], "target_lang": "DE"}


@pytest.fixture(scope="module")
def client(tiny_run: TinyRun) -> Iterator[Client]:
    run = tiny_run("translation")
    app = make_app({"to": run, "back": run}, ["to=en:de", "back=de:en", "to=en:zh"])
    yield Client(app)
    stop(app.state.service)


def test_json_and_repeated_form_fields(client: Client) -> None:
    expected = {"translations": [{"detected_source_language": "EN", "text": "eins zwei drei"}]}
    assert client.post(PATH, json=ONE).json() == expected
    assert client.post(PATH, json={**ONE, "text": "one two three"}).json() == expected
    form = "text=one+two+three&text=six+five+four&target_lang=de&source_lang=EN"
    answer = client.post(PATH, content=form, headers={"content-type": "application/x-www-form-urlencoded"}).json()
    assert [item["text"] for item in answer["translations"]] == ["eins zwei drei", "sechs fünf vier"]
    more = client.post(PATH, json={**ONE, "show_billed_characters": True, "model_type": "quality_optimized"}).json()
    assert more["translations"][0]["billed_characters"] == 13 and "model_type_used" in more["translations"][0]


def test_variants_of_a_language(client: Client) -> None:
    for target in ("ZH", "ZH-HANS", "zh-hans"):
        assert client.post(PATH, json={**ONE, "target_lang": target}).status_code == 200
    for target in ("EN-US", "EN-GB", "EN"):
        assert client.post(PATH, json={"text": ["zwei"], "source_lang": "DE", "target_lang": target}).status_code == 200


def test_languages(client: Client) -> None:
    sources = client.get("/v2/languages").json()
    assert sources == [{"language": "EN", "name": "English"}, {"language": "DE", "name": "German"}]
    targets = client.get("/v2/languages", params={"type": "target"}).json()
    assert [item["language"] for item in targets] == ["EN-GB", "EN-US", "ZH", "ZH-HANS", "DE"]
    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert client.request("GET", "/v2/languages", content="type=target", headers=headers).json() == targets
    assert client.get("/v2/languages", params={"type": "x"}).status_code == 400


def test_usage_counts_characters(client: Client) -> None:
    before = client.get("/v2/usage").json()
    client.post(PATH, json=ONE)
    after = client.get("/v2/usage").json()
    assert after["character_count"] - before["character_count"] == 13 and after["character_limit"] > 10**9


@pytest.mark.parametrize(
    "change",
    [
        {"text": None},
        {"text": []},
        {"text": [1]},
        {"target_lang": None},
        {"target_lang": "XX"},
        {"target_lang": ["DE"]},
        {"source_lang": "XX"},
        {"source_lang": "DE", "target_lang": "ZH"},
        {"tag_handling": "pdf"},
        {"tag_handling": ["html"]},
        {"formality": "polite"},
        {"formality": ["more"]},
        {"formality": "more", "target_lang": "EN"},
        {"glossary_id": "x"},
        {"glossary": [1]},
    ],
)
def test_a_wrong_request_is_400_with_a_message(client: Client, change: dict[str, Any]) -> None:
    answer = client.post(PATH, json={**ONE, **change})
    assert answer.status_code == 400 and list(answer.json()) == ["message"]


def test_keys(tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_API_KEYS", "secret")
    app = make_app({"numbers": tiny_run("translation")}, ["numbers=en:de"], requests_per_minute=2)
    client, keys = Client(app), ("wrong", "wrong", *["secret"] * 3)
    headers = [{}, *({"authorization": f"DeepL-Auth-Key {key}"} for key in keys)]
    answers = [client.post(PATH, json=ONE, headers=header) for header in headers]
    assert [answer.status_code for answer in answers] == [403, 403, 429, 200, 200, 429]
    assert list(answers[0].json()) == ["message"]
    stop(app.state.service)
