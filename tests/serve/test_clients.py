"""Programs that others wrote, against a real running server. huggingface_hub is in test_huggingface.py."""

import asyncio
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from tests.conftest import TinyRun
from tests.serve.libretranslate_suite import download, run_suite
from tests.serve.make import make_app, running, stop
from tests.serve.npm_clients import install, run_clients

WHEEL = os.environ.get("REGARD_LIBRETRANSLATE", "")
TEXT, TRANSLATION = "one two three", "eins zwei drei"


@pytest.fixture(scope="module")
def address(tiny_run: TinyRun) -> Iterator[str]:
    """A real server of a run from English to German, which serves as German to English too."""
    run = tiny_run("translation")
    app = make_app({"numbers": run, "back": run}, ["numbers=en:de", "back=de:en"])
    with running(app) as address:
        yield address
    stop(app.state.service)


@pytest.mark.skipif(not WHEEL, reason="REGARD_LIBRETRANSLATE is not the path of LibreTranslate's wheel, or download")
def test_the_tests_of_libretranslate(tiny_run: TinyRun, tmp_path: Path) -> None:
    app = make_app({"numbers": tiny_run("translation")}, ["numbers=en:es"])
    with running(app) as address:
        wheel = download(tmp_path) if WHEEL == "download" else Path(WHEEL)
        found = run_suite(wheel, address, tmp_path)
    stop(app.state.service)
    assert len(found) == 14 and all(found.values())


@pytest.mark.skipif("REGARD_TEST_NPM" not in os.environ, reason="REGARD_TEST_NPM is not set")
def test_clients_in_javascript(address: str, tmp_path: Path) -> None:
    install(tmp_path)
    found = run_clients(address, tmp_path)
    assert len(found) == 4 and set(found.values()) == {TRANSLATION}


def client_of(name: str) -> Any:
    """A package; the test is skipped if it is not installed."""
    return pytest.importorskip(name, reason=f"needs the package {name}")


def test_libretranslatepy(address: str) -> None:
    api = client_of("libretranslatepy").LibreTranslateAPI(address)
    assert api.translate(TEXT, "en", "de") == TRANSLATION
    assert api.detect(TEXT)[0]["language"] == "en"
    assert {item["code"] for item in api.languages()} == {"en", "de"}


def test_translate(address: str) -> None:
    translator = client_of("translate").Translator(to_lang="de", provider="libre", base_url=f"{address}/")
    assert translator.translate(TEXT) == TRANSLATION


def test_deep_translator(address: str) -> None:
    kind = client_of("deep_translator").LibreTranslator
    translator = kind(source="en", target="de", custom_url=f"{address}/", api_key="any")
    assert translator.translate(TEXT) == TRANSLATION
    assert translator.translate_batch([TEXT, "six five four"]) == [TRANSLATION, "sechs fünf vier"]


def test_libretranslate_aio(address: str, tmp_path: Path) -> None:
    package = client_of("libretranslate_aio")
    with package.LibreTranslate(address) as api:
        assert api.health() and api.frontend_settings().char_limit > 0
        assert api.translate(TEXT, "en", "de").translated_text == TRANSLATION
        batch = api.translate([TEXT, "six five four"], "auto", "de", alternatives=1)
        assert batch.translated_text == [TRANSLATION, "sechs fünf vier"]
        assert [item.language for item in batch.detected_language] == ["en", "en"]
        assert [len(item) for item in batch.alternatives] == [1, 1]
        assert api.detect(TEXT)[0].language == "en" and {item.code for item in api.languages()} == {"en", "de"}
        (tmp_path / "a.txt").write_text(TEXT, encoding="utf-8")
        file = api.translate_file(tmp_path / "a.txt", "en", "de")
        assert requests.get(file.translated_file_url, timeout=60).text == TRANSLATION
        with pytest.raises(package.BadRequestError):
            api.translate(TEXT, "en", "zz")
        with pytest.raises(package.ForbiddenError):
            api.suggest(TEXT, TRANSLATION, "en", "de")


def test_libretranslate_aio_asynchronous(address: str) -> None:
    package = client_of("libretranslate_aio")

    async def translate() -> list[str]:
        async with package.AsyncLibreTranslate(address) as api:
            texts = [TEXT, "six five four", "two two one"]
            found = await asyncio.gather(*(api.translate(text, "en", "de") for text in texts))
            return [item.translated_text for item in found]

    assert asyncio.run(translate()) == [TRANSLATION, "sechs fünf vier", "zwei zwei eins"]


def test_deepl(address: str) -> None:
    package = client_of("deepl")
    with contextlib.closing(package.DeepLClient("any key", server_url=address, send_platform_info=False)) as api:
        one = api.translate_text(TEXT, target_lang="DE")
        assert (one.text, one.detected_source_lang, one.billed_characters) == (TRANSLATION, "EN", len(TEXT))
        several = api.translate_text([TEXT, "six five four"], source_lang="EN", target_lang="DE")
        assert [item.text for item in several] == [TRANSLATION, "sechs fünf vier"]
        assert api.translate_text("zwei", source_lang="DE", target_lang="EN-US").text
        assert {item.code for item in api.get_source_languages()} == {"EN", "DE"}
        assert {item.code for item in api.get_target_languages()} == {"EN-GB", "EN-US", "DE"}
        usage = api.get_usage()
        assert usage.character.count > 0 and not usage.any_limit_reached
        with pytest.raises(package.DeepLException):
            api.translate_text(TEXT, target_lang="FR")
