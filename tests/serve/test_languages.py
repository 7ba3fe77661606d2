"""The codes of Chinese on every API: those that the service accepts whose API it is."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.conftest import TinyRun
from tests.serve.make import Client, make_app, stop

from regard.serve.errors import ServiceError
from regard.serve.huggingface import language
from regard.serve.languages import ServedLanguages
from regard.tasks.languages import main_code

TEXT, RESULT = "one two three", "eins zwei drei"
SIMPLIFIED = ("zh", "ZH", "zh-CN", "zh-cn", "zh_CN", "ZH_cn", "zh-Hans", "zh_hans")
TRADITIONAL = ("zh-TW", "zh_TW", "ZH-tw", "zh-Hant", "zh_HANT", "zt", "zh-HK")
LIBRE_SIMPLIFIED, LIBRE_TRADITIONAL = ("zh", "ZH", "zh-Hans", "zh-HANS"), ("zt", "ZT", "zh-Hant", "zh-hant")


@pytest.fixture(scope="module")
def client(tiny_run: TinyRun) -> Iterator[Client]:
    """A run from Chinese to English and one from English to Chinese; both count in German."""
    run = tiny_run("translation")
    app = make_app({"from": run, "to": run}, ["from=zh:en", "to=en:zh"])
    yield Client(app)
    stop(app.state.service)


def own(client: Client, source: str, target: str) -> tuple[int, Any]:
    answer = client.post("/v1/translate", json={"text": TEXT, "source": source, "target": target})
    return answer.status_code, answer.json().get("translations", [{}])[0].get("text")


def libre(client: Client, source: str, target: str) -> tuple[int, Any]:
    answer = client.post("/translate", data={"q": TEXT, "source": source, "target": target})
    return answer.status_code, answer.json().get("translatedText")


def hub(client: Client, source: str, target: str) -> tuple[int, Any]:
    run = "to" if source == "en" else "from"
    parameters = {"src_lang": source, "tgt_lang": target}
    answer = client.post(f"/models/{run}", json={"inputs": TEXT, "parameters": parameters})
    return answer.status_code, answer.json()[0]["translation_text"] if answer.status_code == 200 else None


@pytest.mark.parametrize(
    ("api", "simplified", "traditional"),
    [
        (own, SIMPLIFIED, TRADITIONAL),
        (libre, LIBRE_SIMPLIFIED, LIBRE_TRADITIONAL),
        (hub, (*SIMPLIFIED, "zho_Hans"), (*TRADITIONAL, "zho_Hant")),
    ],
)
def test_both_scripts_are_read_and_simplified_characters_written(
    client: Client, api: Any, simplified: tuple[str, ...], traditional: tuple[str, ...]
) -> None:
    for code in simplified:
        assert api(client, "en", code) == api(client, code, "en") == (200, RESULT), code
    for code in traditional:
        assert api(client, code, "en") == (200, RESULT), code
        assert api(client, "en", code)[0] in (400, 422), f"{code} would not be written"
        assert api(client, code, "zh")[0] in (400, 422), "no run changes the script"


def test_a_file_and_a_detected_source(client: Client) -> None:
    answer = client.post("/v1/translate", json={"text": TEXT, "target": "zh_CN"})
    assert answer.json()["translations"][0]["text"] == RESULT
    files = {"file": ("a.txt", TEXT.encode())}
    assert client.post("/translate_file", data={"source": "zt", "target": "en"}, files=files).status_code == 200
    answer = client.post("/translate_file", data={"source": "zt", "target": "zh"}, files=files)
    problem = "Chinese (zh-Hans) is not available as a target language from Chinese (zh-Hant)"
    assert (answer.status_code, answer.json()) == (400, {"error": problem})


def test_libretranslate_refuses_what_the_original_refuses(client: Client) -> None:
    for code in ("zh-CN", "zh_CN", "zh-TW"):
        answer = client.post("/translate", json={"q": TEXT, "source": code, "target": "en"})
        assert (answer.status_code, answer.json()) == (400, {"error": f"{code.lower()} is not supported"})


def test_a_run_of_traditional_chinese_comes_first() -> None:
    def find_codes(directions: list[tuple[str, str, str]], *codes: str | None) -> tuple[str | None, str | None]:
        return ServedLanguages(tuple(directions)).find_codes(*codes)

    directions = [("zh", "en", "a"), ("en", "zh", "a"), ("zh-hant", "en", "b"), ("en", "pt-br", "c")]
    assert find_codes(directions, "zh-TW", "EN") == ("zh-hant", "en")
    assert find_codes(directions, "en", "pt_BR") == ("en", "pt-br")
    assert find_codes([("zt", "en", "b")], "zh-Hant", None) == ("zt", None)
    assert find_codes([("de", "en", "b")], "zh-TW", "xx") == ("zh-hant", "xx")
    assert find_codes([("zh-hans", "en", "b")], "zh-TW", "en") == ("zh-hans", "en")
    with pytest.raises(ServiceError):
        find_codes([("zh", "en", "b")], "zh-TW", "zh-CN")


def test_codes_of_other_models() -> None:
    assert [main_code(code) for code in ("zh_CN", "ZH-hk", "de_DE")] == ["zh", "zh-hant", "de-de"]
    codes = ("en_XX", "eng_Latn", "zh_CN", "zho_Hans", "zh_TW", "zho_Hant", "deu_Latn", "de", "")
    expected = ["en", "en", "zh", "zh", "zh-hant", "zh-hant", "de", "de", None]
    assert [language(code, "src_lang") for code in codes] == expected
