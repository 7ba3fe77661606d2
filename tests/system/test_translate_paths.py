"""The command, Python and the server give equal translations.

The model also learns from pairs whose targets repeat one word, so many of its translations repeat themselves.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.command import regard
from tests.conftest import TinyRun
from tests.system.test_languages import WORDS, sentence, write_recipe

from regard.run import model
from regard.run.model import Translator
from regard.run.translating import predict_texts, translate_texts

pytest.importorskip("fastapi")

from tests.serve.make import Client, identify, make_app, stop

from regard.serve.libretranslate import match_source_style
from regard.serve.service import Service, TranslateRequest

DIRECTIONS = (("en", "de"), ("en", "fr"), ("de", "fr"))
GLOSSARY = {"one": "UNO", "zwei": "DUE"}
FORMS = (
    "{0}", "  {0}", "\t{0} ", "{0}.", "{0}. {1}!", "{0} %s", "%(name)s {0} {{x}}", "{0} https://example.org/{1}",
    "{0}\u00a0", "- {0}", "<0/> {0} &amp; {1}", "`code` {0}", "⦅0⦆ {0} ⦅7⦆", "{0} 🙂 {1}", "{0}? (me@example.org)",
    "{0} again", " {0} again %s.",
)  # fmt: skip
PLAIN = ("", " ", "\t", "123", "  4 + 5 = 9  ", "…", "🙂")


def make_texts(language: str) -> list[str]:
    """Some dozens of texts of number words, in all forms."""
    rows = [[number % 6, (number * 5 + 1) % 6, number // 3 % 6][: 1 + number % 3] for number in range(4 * len(FORMS))]
    words = [sentence(row, language) for row in rows]
    forms = (FORMS[number % len(FORMS)] for number in range(len(words)))
    return [*PLAIN, *(form.format(*pair) for form, *pair in zip(forms, words, reversed(words), strict=True))]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("paths")
    changes = (
        "training.max_steps=160",
        "data.placeholders=0.2",
        "data.max_length=64",
        "data.max_ratio=0",
        "decoding.extra_length=80",
    )
    recipe = write_recipe(folder)
    for language in ("de", "fr"):
        rows = [f"{WORDS['en'][n % 6]} again\t{' '.join([WORDS[language][n % 6]] * 50)}\n" for n in range(60)]
        with (folder / f"{language}.tsv").open("a", encoding="utf-8") as file:
            file.writelines(rows)
    result = regard("train", recipe, *changes, "--folder", folder / "run")
    assert result.status == 0, result.err
    return folder / "run"


@pytest.fixture(scope="module")
def translator(run: Path) -> Translator:
    return Translator.load(run, device="cpu")


@pytest.fixture(scope="module")
def client(run: Path) -> Iterator[Client]:
    app = make_app({"paths": run})
    yield Client(app)
    stop(app.state.service)


def served(service: Service, texts: list[str], source: str | None, target: str | None, **values: object) -> list[str]:
    """The translations of a server; each text is a request, and all are sent at once."""

    async def translate() -> list[str]:
        requests = [TranslateRequest([text], source, target, **values) for text in texts]  # type: ignore[arg-type]
        return [item.text for (item,) in await asyncio.gather(*map(service.translate, requests))]

    return asyncio.run(translate())


@pytest.mark.parametrize(("source", "target"), DIRECTIONS)
def test_texts(run: Path, translator: Translator, client: Client, source: str, target: str, tmp_path: Path) -> None:
    texts, codes = make_texts(source), ("--from", source, "--to", target)
    expected = served(client.app.state.service, texts, source, target)
    assert translator.translate(texts, source=source, target=target) == expected
    assert regard("translate", run, *codes, stdin="\n".join(texts) + "\n").lines == expected
    (tmp_path / "in.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    assert regard("translate", run, *codes, "-i", tmp_path / "in.txt").lines == expected
    assert regard("translate", run, *codes, "--format", "text", "-i", tmp_path / "in.txt").lines == expected
    assert regard("translate", run, *codes, "\n".join(texts)).lines == expected
    for text, translation in list(zip(texts, expected, strict=True))[::7]:
        answer = client.post("/v1/translate", json={"text": text, "source": source, "target": target})
        assert answer.json()["translations"][0]["text"] == translation
        if text:
            answer = client.post("/translate", json={"q": text, "source": source, "target": target})
            assert answer.json()["translatedText"] == match_source_style(text, translation, target)
    for text, translation in zip(texts, expected, strict=True):
        if not any(map(str.isalpha, text)):
            assert translation == text
            continue
        before, _, after = text.partition(text.strip())
        assert translation.startswith(before) and translation.endswith(after)
        for part in ("%s", "%(name)s", "{x}", "<0/>", "&amp;", "`code`", "me@example.org", "🙂"):
            assert translation.count(part) == text.count(part)


@pytest.mark.parametrize("target", ["de", "fr"])
def test_texts_without_a_source_language(
    run: Path, translator: Translator, client: Client, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The language of each text is detected: some go through a pivot language, and some stay as they are."""
    monkeypatch.setattr(Translator, "identify", staticmethod(identify))
    monkeypatch.setattr(model, "identify_languages", identify)
    texts = [*PLAIN, *(text for language in ("en", "de") for text in make_texts(language)[len(PLAIN) :: 7])]
    expected = served(client.app.state.service, texts, None, target)
    assert translator.translate(texts, target=target) == expected
    for text, translation in list(zip(texts, expected, strict=True))[len(PLAIN) - 1 :: 3]:
        assert regard("translate", run, "--to", target, text).lines == [translation]
    number = max(number for number, text in enumerate(texts) if "ei" in text)
    assert expected[number] == served(client.app.state.service, texts[number : number + 1], "de", target)[0]
    assert target != "de" or expected[number] == texts[number]


def test_an_unsure_language_is_a_warning(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Translator, "identify", staticmethod(identify))
    with pytest.warns(UserWarning, match=r"'Tom' is unsure \(en 60 %, de 40 %\)"):
        assert translator.translate("Tom", target="fr") == translator.translate("Tom", source="en", target="fr")


@pytest.mark.parametrize("named", [False, True])
def test_a_run_that_names_no_languages(tiny_run: TinyRun, named: bool) -> None:
    """It may have learnt anything, so every line is translated; if you name the languages, digits are copied."""
    run, texts = tiny_run("translation"), ["one two", "12 + 3", "…", "one. two three"]
    codes = ("en", "de") if named else (None, None)
    translated = list(translate_texts(Translator.load(run, device="cpu"), texts, *codes))
    options = ("--from", "en", "--to", "de") if named else ()
    assert regard("translate", run, *options, stdin="\n".join(texts) + "\n").lines == translated
    assert (translated[1] == texts[1]) == (translated[2] == texts[2]) == named
    app = make_app({"numbers": run}, ["numbers=en:de"] if named else [])
    assert served(app.state.service, texts, *codes, run="numbers") == translated
    stop(app.state.service)


@pytest.mark.parametrize(("source", "target"), DIRECTIONS)
def test_glossaries(run: Path, translator: Translator, client: Client, source: str, target: str) -> None:
    texts = make_texts(source)
    path = run.parent / "terms.tsv"
    path.write_text("".join(f"{term}\t{output}\n" for term, output in GLOSSARY.items()), encoding="utf-8")
    expected = served(client.app.state.service, texts, source, target, glossary=GLOSSARY)
    assert translator.translate(texts, source=source, target=target, glossary=GLOSSARY) == expected
    options = ("--from", source, "--to", target, "--glossary", path)
    assert regard("translate", run, *options, stdin="\n".join(texts) + "\n").lines == expected
    terms = sum(text.split().count("one" if source == "en" else "zwei") for text in texts)
    assert sum(text.count("UNO") + text.count("DUE") for text in expected) >= terms > 10


@pytest.mark.parametrize(("source", "target"), DIRECTIONS)
def test_pages(run: Path, translator: Translator, client: Client, source: str, target: str) -> None:
    words = make_texts(source)[len(PLAIN) :: 3]
    pages = [f"<p>{text.replace(' ', ' <b>', 1)}{'</b>' * (' ' in text)}</p>" for text in words]
    expected = served(client.app.state.service, pages, source, target, format="html")
    assert list(translate_texts(translator, pages, source, target, format="html")) == expected
    codes = ("--from", source, "--to", target)
    page, translated = "\n".join(pages), "\n".join(expected)
    assert regard("translate", run, *codes, "--format", "html", stdin=page).out == translated
    for text, result in zip(pages, expected, strict=True):
        assert result.count("<b>") == result.count("</b>") == text.count("<b>")


def test_loops_are_repaired_in_every_path(translator: Translator) -> None:
    """The raw predictions repeat themselves; a search without repeated n-grams, or a cut, repairs them."""
    texts = [*WORDS["en"], *(f"{word} again" for word in WORDS["en"])]
    raw = translator.predict([{"src": text.strip(), "to": "de"} for text in texts])
    looped = [number for number, prediction in enumerate(raw) if prediction["looped"]]
    assert len(looped) > 3
    repaired = translator.translate(texts, target="de")
    for number in looped:
        words = repaired[number].split()
        assert not any(words[n : n + 4] == [words[n]] * 4 for n in range(len(words)))
        assert repaired[number].strip() != raw[number]["translation"]
    for number in set(range(len(texts))) - set(looped):
        assert repaired[number].strip() == raw[number]["translation"]


def test_codes_of_languages(run: Path, translator: Translator) -> None:
    (expected,) = translate_texts(translator, ["zwei"], "de", "en")
    assert translator.translate("zwei", source="DE", target="EN") == expected
    assert regard("translate", run, "--from", "DE", "--to", "En", "zwei").lines == [expected]
    assert translator.translate("zwei", source="de", target="de") == "zwei"


def test_predictions_of_texts(translator: Translator) -> None:
    """A text of one sentence has the hypotheses of its sentence as whole texts; others are translated in parts."""
    texts = ["  one two %s", "one. Two three.", "1"]
    one, two, none = (item for _, item in predict_texts(translator, texts, "en", "de", search="beam", beam=3, nbest=3))
    assert one["parts"] == 1 and one["hypotheses"][0]["text"] == one["translation"]
    assert len(one["hypotheses"]) == 3 and all(item["text"].count("%s") == 1 for item in one["hypotheses"])
    assert all(item["text"].startswith("  ") for item in one["hypotheses"]) and one["score"] < 0
    assert two["parts"] == len(two["hypotheses"]) == 2
    assert (none["translation"], none["parts"], none["score"], none["hypotheses"]) == ("1", 0, None, [])
