"""The translator that comes with regard: every direction, the command line, and its size."""

from pathlib import Path

import pytest
from tests.cli.command import fails, regard

from regard.documents.numbers import STAND_INS, numbers_agree
from regard.run.model import Translator
from regard.run_files import bundled_run

SENTENCES = {
    ("en", "de"): ("Where is the train station?", "Wo ist der Bahnhof?"),
    ("en", "fr"): ("I am hungry.", "J'ai faim."),
    ("en", "es"): ("I am hungry.", "Tengo hambre."),
    ("en", "zh"): ("Where is the train station?", "火车站在哪里？"),
    ("de", "en"): ("Ich habe gestern ein neues Buch gekauft.", "I bought a new book yesterday."),
    ("fr", "en"): ("J'ai faim.", "I'm hungry."),
    ("es", "en"): ("Tengo hambre.", "I'm hungry."),
    ("zh", "en"): ("火车站在哪里？", "Where is the train station?"),
}


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load("translator", device="cpu")


def test_every_direction(translator: Translator) -> None:
    assert set(translator.task.languages.directions) == SENTENCES.keys()
    for (_, target), (source, expected) in SENTENCES.items():
        assert translator.translate(source, target=target) == expected


def test_technical_text_and_words_as_people_type_them(translator: Translator) -> None:
    german = {
        "The server stores the settings in a file.": "Der Server speichert die Einstellungen in einer Datei.",
        "where is the station": "Wo ist der Bahnhof",
        "house": "Haus",
        "THIS IS A DOG": "DAS IST EIN HUND",
    }
    assert translator.translate(list(german), target="de") == list(german.values())


def test_placeholders_are_copied(translator: Translator) -> None:
    assert translator.task.languages.placeholders
    first, second = translator.task.languages.placeholders[:2]
    for target in ("de", "fr", "es", "zh"):
        output = translator.translate(f"The value {first} is greater than {second}.", target=target)
        assert output.count(first) == output.count(second) == 1


def test_the_command_line_needs_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert regard("translate", "--to", "fr", "I am hungry.").lines == ["J'ai faim."]
    assert regard("translate", "--from", "es", stdin="Tengo hambre.\n").lines == ["I'm hungry."]
    assert fails("translate", stdin="I am hungry.\n").code == "unknown-language"
    assert list(tmp_path.iterdir()) == []


def test_it_is_small_and_has_no_paths_of_other_machines() -> None:
    files = [path for path in bundled_run("translator").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 20e6
    assert 'root = "."' in (bundled_run("translator") / "recipe.toml").read_text(encoding="utf-8")


def test_markup_through_a_third_language(tmp_path: Path) -> None:
    """German to French: the tags follow the words of both steps, as in the server."""
    page = tmp_path / "page.html"
    page.write_text("<p>Ich habe <b>Hunger</b>.</p>", encoding="utf-8")
    result = regard("translate", "--from", "de", "--to", "fr", "--input", page)
    assert result.out.strip() == "<p>J'ai <b>faim</b>.</p>"


@pytest.mark.parametrize("target", ["de", "fr", "es", "zh"])
def test_numbers_are_kept(translator: Translator, target: str) -> None:
    texts = [
        "It costs $5,812.25 today.",
        "The town has 3,277,917 inhabitants.",
        "The answer is 25.",
        "My account is DE77 4515 8549 3858 3525 00.",
        "Read pages 16-24 at home at 22:21.",
    ]
    translations = translator.translate(texts, source="en", target=target)
    assert [item for item in zip(texts, translations, strict=True) if not numbers_agree(*item)] == []
    assert not any(stand_in in item for stand_in in STAND_INS for item in translations)


def test_a_script_that_the_model_does_not_know_is_copied_and_reported(translator: Translator, tmp_path: Path) -> None:
    russian, german = "Привет, как дела?", "Ich habe Hunger."
    with pytest.warns(UserWarning, match="Привет"):
        assert translator.translate([russian, "I am hungry."], source="en", target="de") == [russian, german]
    page = tmp_path / "a.html"
    page.write_text(f"<p>I am hungry.</p><p>{russian}</p>", encoding="utf-8")
    command = ("translate", "--from", "en", "--to", "de", "--device", "cpu")
    result = regard(*command, "-i", page)
    assert result.out == f"<p>{german}</p><p>{russian}</p>" and "text 2" in result.err
    result = regard(*command, stdin=f"I am hungry.\n{russian}\n")
    assert result.out == f"{german}\n{russian}\n" and "text 2" in result.err


def test_tags_and_placeholders_do_not_lose_words(translator: Translator) -> None:
    def german(text: str) -> str:
        return translator.translate(text, source="en", target="de", format="html")

    assert german("<p>Hello <b>you</b></p>") == "<p>Hallo <b>Sie</b></p>"
    message = german("File {filename} <b>not</b> found")
    assert "<b>nicht</b> gefunden" in message and message.count("{filename}") == 1
    assert "<button>OK</button>" in german("<p>Press <button>OK</button> to continue.</p>")
