"""LibreTranslate's API: fields wherever they are, answers, and errors with the status and text of LibreTranslate."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.conftest import TinyRun
from tests.serve.make import Client, make_app, stop

from regard.serve.libretranslate import match_source_style

PAIR = {"source": "en", "target": "de"}
EN_DE = {"q": "one two three", **PAIR}
FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def client(tiny_run: TinyRun) -> Iterator[Client]:
    """One run for two directions: English to German, and to "Chinese", which is German here."""
    run = tiny_run("translation")
    limits: dict[str, Any] = {"max_characters": 100, "max_batch_texts": 4, "max_alternatives": 3}
    app = make_app({"numbers": run, "chinese": run}, ["numbers=en:de", "chinese=en:zh"], **limits)
    yield Client(app)
    stop(app.state.service)


def test_json_form_and_query_string_mean_the_same(client: Client) -> None:
    expected = {"translatedText": "eins zwei drei"}
    assert client.post("/translate", json=EN_DE).json() == expected
    assert client.post("/translate", data=EN_DE).json() == expected
    assert client.post("/translate", params=EN_DE).json() == expected
    assert client.post("/translate", data=EN_DE, files={"other": b"x"}).json() == expected
    mixed = client.post("/translate", params={"q": "one two three"}, data={**EN_DE, "q": "six five four"})
    assert mixed.json() == expected, "the query string comes first"


def test_a_list_of_texts_gives_lists(client: Client) -> None:
    expected = {"translatedText": ["eins zwei drei", "sechs fünf vier"]}
    assert client.post("/translate", json={**EN_DE, "q": ["one two three", "six five four"]}).json() == expected
    assert (
        client.post("/translate", content="q=one+two+three&q=six+five+four&source=en&target=de", headers=FORM).json()
        == expected
    )
    assert client.post("/translate", json={**EN_DE, "q": ["one two three"]}).json() == {
        "translatedText": ["eins zwei drei"]
    }


def test_each_text_of_a_batch_has_its_own_detected_language(client: Client) -> None:
    answer = client.post(
        "/translate", json={"q": ["one two three", "zwei", "12"], "source": "auto", "target": "de"}
    ).json()
    assert answer["translatedText"] == ["eins zwei drei", "zwei", "12"]
    assert answer["detectedLanguage"] == [
        {"confidence": 90.0, "language": "en"},
        {"confidence": 90.0, "language": "de"},
        {"confidence": 0.0, "language": "en"},
    ]
    single = client.post("/translate", json={"q": "one", "source": "AUTO", "target": "DE"}).json()
    assert single["detectedLanguage"] == {"confidence": 90.0, "language": "en"}


def test_tags_have_no_language(client: Client) -> None:
    page = '<p class="kein"><a href="https://example.com/ei">one</a> two three</p>'
    answer = client.post("/translate", json={"q": page, "source": "auto", "target": "de", "format": "html"}).json()
    assert answer["detectedLanguage"]["language"] == "en"


def test_alternatives_are_others_and_html_has_none(client: Client) -> None:
    answer = client.post("/translate", data={**EN_DE, "alternatives": "2"}).json()
    assert answer["translatedText"] == "eins zwei drei" and 1 <= len(answer["alternatives"]) <= 2
    assert "eins zwei drei" not in answer["alternatives"]
    batch = client.post("/translate", json={**EN_DE, "q": ["one two three", "!?"], "alternatives": 1.0}).json()
    assert [len(item) for item in batch["alternatives"]] == [1, 0]
    page = client.post("/translate", json={**EN_DE, "format": "html", "alternatives": 2}).json()
    assert page["alternatives"] == []
    for none in (0, -1, None):
        assert "alternatives" not in client.post("/translate", json={**EN_DE, "alternatives": none}).json()


@pytest.mark.parametrize("text", ["😀 🎉", "   ", "...", "\n\n", "12 + 7"])
def test_text_without_words_stays_as_it_is(client: Client, text: str) -> None:
    assert client.post("/translate", json={**EN_DE, "q": text}).json() == {"translatedText": text}


def test_newlines_stay(client: Client) -> None:
    answer = client.post("/translate", json={**EN_DE, "q": "one two three\n\nsix five four\r\ntwo two one\n"}).json()
    assert answer["translatedText"] == "eins zwei drei\n\nsechs fünf vier\r\nzwei zwei eins\n"


def test_codes_have_any_case_and_chinese_has_two(client: Client) -> None:
    for target in ("zh", "ZH", "zh-Hans", "zh-hans"):
        assert client.post("/translate", json={**EN_DE, "target": target}).json() == {
            "translatedText": "eins zwei drei"
        }
    same = client.post("/translate", json={"q": "Nǐ hǎo", "source": "zh", "target": "zh-Hans"})
    assert same.json() == {"translatedText": "Nǐ hǎo"}


Q, SOURCE, TARGET = (f"Invalid request: missing {name} parameter" for name in ("q", "source", "target"))
NUMBER = "Invalid request: alternatives parameter is not a number"
ERRORS: list[tuple[dict[str, Any], str]] = [
    ({"q": ""}, Q),
    ({"q": []}, Q),
    ({"q": None}, Q),
    ({"q": 7}, "Invalid request: q parameter is not a text"),
    ({"q": {"a": 1}}, "Invalid request: q parameter is not a text"),
    ({"q": ["a", 1]}, "Invalid request: q parameter is not a text"),
    ({"source": ""}, SOURCE),
    ({"target": None}, TARGET),
    ({"source": "zz"}, "zz is not supported"),
    ({"target": "AUTO"}, "auto is not supported"),
    ({"target": "zh-CN"}, "zh-cn is not supported"),
    ({"source": 3}, "3 is not supported"),
    ({"source": "de", "target": "zh"}, "Chinese (zh-Hans) is not available as a target language from German (de)"),
    ({"q": "x" * 101}, "Invalid request: request (101) exceeds text limit (100)"),
    ({"q": ["a"] * 5}, "Invalid request: request (5) exceeds text limit (4)"),
    ({"alternatives": 4}, "Invalid request: alternatives parameter must be <= 3"),
    ({"alternatives": "x"}, NUMBER),
    ({"alternatives": []}, NUMBER),
    ({"alternatives": float("inf")}, NUMBER),
    ({"format": "xml"}, "xml format is not supported"),
    ({"format": 3}, "3 format is not supported"),
    ({"glossary": ["a"]}, "Invalid request: glossary parameter is not an object of texts"),
]


@pytest.mark.parametrize(("change", "text"), ERRORS)
def test_errors_have_status_400_and_the_text_of_libretranslate(
    client: Client, change: dict[str, Any], text: str
) -> None:
    body = json.dumps({**EN_DE, **change})
    answer = client.post("/translate", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()) == (400, {"error": text})


@pytest.mark.parametrize("body", ["[]", "null", "3", '"x"', "{bad", "", '{"q": "\\ud800"}', "[" * 5000, "\xff"])
def test_a_body_that_is_no_object_is_an_error(client: Client, body: str) -> None:
    for path in ("/translate", "/detect"):
        answer = client.post(path, content=body.encode("latin-1"), headers={"content-type": "application/json"})
        assert answer.status_code == 400 and list(answer.json()) == ["error"]


def test_a_form_that_cannot_be_read_is_an_error(client: Client) -> None:
    headers = {"content-type": "multipart/form-data; boundary=x"}
    for content, kind in (
        (b"--y\r\n", headers),
        (b"--x\r\n\r\n", headers),
        (b"", {"content-type": "multipart/form-data"}),
    ):
        answer = client.post("/translate", content=content, headers=kind)
        assert answer.status_code == 400 and list(answer.json()) == ["error"]


def test_wrong_methods_are_405(client: Client) -> None:
    assert client.get("/translate").status_code == client.get("/detect").status_code == 405
    assert client.post("/health").status_code == client.post("/spec").status_code == 405
    assert client.post("/languages").status_code == client.post("/languages", json={}).status_code == 405
    assert client.post("/languages", content="", headers=FORM).json() == client.get("/languages").json()


def test_detect(client: Client) -> None:
    found = client.post("/detect", data={"q": "zwei"}).json()
    assert found == [{"confidence": 90.0, "language": "de"}, {"confidence": 10.0, "language": "en"}]
    both = client.post("/detect", json={"q": ["zwei", "one"]}).json()
    assert {item["language"]: item["confidence"] for item in both} == {"de": 90.0, "en": 90.0}
    assert client.post("/detect", params={"q": "  "}).json() == [{"confidence": 0.0, "language": "en"}]
    assert client.post("/detect").json() == {"error": Q}


def test_languages_settings_health_suggest_spec(client: Client) -> None:
    english, chinese, german = client.get("/languages").json()
    assert english == {"code": "en", "name": "English", "targets": ["de", "en", "zh-Hans"]}
    assert chinese == {"code": "zh-Hans", "name": "Chinese", "targets": ["zh-Hans"]} and german["code"] == "de"
    settings = client.get("/frontend/settings").json()
    assert settings["charLimit"] == 100 and settings["keyRequired"] is False
    assert settings["language"]["source"]["code"] == "auto"
    assert settings["frontendTimeout"] == 500, "milliseconds; LibreTranslate's default"
    assert client.get("/health").json() == {"status": "ok"}
    assert client.post("/suggest", data={"q": "a", "s": "b", **PAIR}).status_code == 403
    assert client.get("/spec").json()["swagger"] == "2.0"


def test_keys_and_too_many_requests(tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_API_KEYS", "secret")
    app = make_app({"numbers": tiny_run("translation")}, ["numbers=en:de"], requests_per_minute=2)
    client = Client(app)
    answers = [client.post("/translate", data={**EN_DE, "api_key": key}) for key in ("", "wrong", *["secret"] * 3)]
    assert [answer.status_code for answer in answers] == [400, 403, 200, 200, 429]
    assert answers[0].json() == {"error": "Please contact the server operator to get an API key"}
    assert answers[1].json() == {"error": "Invalid API key"}
    assert answers[4].json() == {"error": "Slowdown: 2 per 1 minute"}
    assert client.get("/frontend/settings").json()["keyRequired"] is True
    stop(app.state.service)


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [  # as measured with LibreTranslate 1.9.6
        ("hello", "Hola Mundo.", "hola mundo"),
        ("Hello", "hola Mundo", "Hola Mundo"),
        ("HELLO", "hola", "HOLA"),
        ("Hello.", "Hola", "Hola."),
        ("Hello.", "Hola!", "Hola."),
        ("Hello!", "Hola.", "Hola!"),
        ("hello World", "HOLA", "hOLA"),
        ("12", "Doce.", "Doce"),
        ("I", "yo", "YO"),
        ("eBay", "EBay es", "eBay es"),
        ("Hi:", "Hola.", "Hola"),
        ("Hi...", "Hola", "Hola."),
        ("你好。", "Hello!", "Hello."),
        ("Hi,", "Hola.", "Hola,"),
        ("Hello.\n", "Hola\n", "Hola.\n"),
        ("Hi", "", ""),
    ],
)
def test_case_and_final_mark_follow_the_source(source: str, translation: str, expected: str) -> None:
    assert match_source_style(source, translation, "es") == expected


def test_german_nouns_keep_their_capital() -> None:
    assert match_source_style("the house", "Das Haus.", "de") == "Das Haus"


@pytest.mark.parametrize(
    ("source", "translation", "target", "expected"),
    [
        ("Where is it?", "在哪里？", "zh", "在哪里？"),
        ("Where is it?", "在哪里", "zh", "在哪里？"),
        ("It is here.", "在这里!", "zh-Hans", "在这里。"),
        ("House", "房子。", "zh", "房子"),
        ("在这里。", "It is here.", "en", "It is here."),
        ("在这里！", "It is here.", "en", "It is here!"),
    ],
)
def test_marks_of_chinese(source: str, translation: str, target: str, expected: str) -> None:
    assert match_source_style(source, translation, target) == expected
