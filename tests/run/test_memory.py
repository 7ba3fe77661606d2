"""Translation memories: files, matching, and their place in a translation."""

from pathlib import Path

import pytest

from regard.documents.capitals import in_capitals, without_capitals
from regard.documents.segment import Segment
from regard.errors import UserError
from regard.run.memory import PHRASES, TranslationMemory, bundled_memory, with_mark
from regard.run.model import Translator

TMX = """<tmx version="1.4"><header srclang="en"/><body>
<tu><tuv xml:lang="en-US"><seg>Save</seg></tuv><tuv xml:lang="de-DE"><seg>Speichern</seg></tuv>
<tuv xml:lang="fr"><seg>Enregistrer</seg></tuv></tu></body></tmx>"""
ROWS = [
    {
        "en": "Keep out",
        "de": "Betreten verboten",
        "es": "Prohibido el paso",
        "fr": "Défense d'entrer",
        "zh": "禁止入内",
    },
    {
        "en": "Are you ready?",
        "de": "Sind Sie bereit?",
        "es": "¿Está listo?",
        "fr": "Êtes-vous prêt ?",
        "zh": "准备好了吗？",
    },
]


@pytest.mark.parametrize(
    ("text", "target", "expected"),
    [
        ("Keep out", "de", "Betreten verboten"),
        ("  keep \u00a0 out", "de", "Betreten verboten"),
        ("KEEP OUT!", "de", "BETRETEN VERBOTEN!"),
        ("Keep out!", "es", "¡Prohibido el paso!"),
        ("Keep out!", "fr", "Défense d'entrer !"),
        ("Keep out...", "zh", "禁止入内……"),
        ("Are you ready", "es", "Está listo"),
        ("Are you ready.", "de", None),  # a statement is no question
        ("Keep Out", "de", None),
        ("Keep out of here", "de", None),
        ("", "de", None),
    ],
)
def test_find(text: str, target: str, expected: str | None) -> None:
    assert TranslationMemory(ROWS).find(text, "en", target) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("WHO", "Weltgesundheitsorganisation"),
        ("WHO?", "Weltgesundheitsorganisation?"),  # the entry is in capitals, its translation is not
        ("who", None),
        ("who?", None),
        ("Help", "Hilfe"),
        ("Help!!", "Zu Hilfe!!"),
        ("Help?", "Hilfe?"),
    ],
)
def test_capitals_and_marks_may_mean_something_else(text: str, expected: str | None) -> None:
    rows = [{"en": "Help", "de": "Hilfe"}, {"en": "Help!", "de": "Zu Hilfe!"}]
    memory = TranslationMemory([*rows, {"en": "WHO", "de": "Weltgesundheitsorganisation"}])
    assert memory.find(text, "en", "de") == expected


def test_chinese_with_an_abbreviation_is_not_in_capitals() -> None:
    memory = TranslationMemory([{"zh": "请用USB线", "en": "Use a USB cable"}])
    assert memory.find("请用USB线。", "zh", "en") == "Use a USB cable."
    assert memory.find("请用usb线。", "zh", "en") is None


def test_rows_serve_every_direction_and_unknown_sources() -> None:
    memory = TranslationMemory(ROWS)
    for source in ROWS[0]:
        for target in ROWS[0]:
            if source != target:
                assert memory.find(ROWS[1][source], source, target) == ROWS[1][target]
    assert memory.find("禁止入内。", None, "de") == "Betreten verboten."
    assert memory.find("Keep out", "en", "it") is None


def test_code_is_matched_as_placeholders() -> None:
    memory = TranslationMemory([{"en": "{a} of {b} saved", "de": "Von {b} wurden {a} gespeichert"}])
    symbols = ["⦅0⦆", "⦅1⦆"]
    assert memory.find("⦅0⦆ of ⦅1⦆ saved", "en", "de", symbols) == "Von ⦅1⦆ wurden ⦅0⦆ gespeichert"
    lost = TranslationMemory([{"en": "{a} saved", "de": "gespeichert"}])
    assert lost.find("⦅0⦆ saved", "en", "de", symbols) is None


def test_marks_of_a_translation_stay_if_they_are_inside() -> None:
    assert with_mark("Hola, ¿cómo está?", "", "es") == "Hola, ¿cómo está?"


def test_read_files(tmp_path: Path) -> None:
    (tmp_path / "a.tmx").write_text(TMX)
    (tmp_path / "b.tsv").write_text("en\tde\nSave\tSichern\nOpen\tÖffnen\n")
    (tmp_path / "c.csv").write_text('"Yes, now","Ja, jetzt"\n')
    memory = TranslationMemory.read(tmp_path / "a.tmx", tmp_path / "b.tsv", tmp_path / "c.csv")
    assert memory.find("Save", "en", "de") == "Speichern"
    assert memory.find("Enregistrer", "fr", "en") == "Save"
    assert memory.find("Open", "en", "de") == "Öffnen"
    assert memory.find("Yes, now", "en", "de") == "Ja, jetzt"


XLIFF_1 = """<xliff version="1.2"><file source-language="en-US" target-language="de"><body>
<trans-unit id="1"><source>Hello</source><target state="translated">Hallo</target></trans-unit>
<trans-unit id="2"><source>Bye</source><target state="new">Bye</target></trans-unit></body></file></xliff>"""
XLIFF_2 = """<xliff version="2.0" srcLang="en" trgLang="de"><file id="f"><unit id="1"><segment>
<source>Hello</source><target>Hallo</target></segment></unit></file></xliff>"""


@pytest.mark.parametrize("content", [XLIFF_1, XLIFF_2])
def test_xliff_serves_the_languages_that_it_names(content: str, tmp_path: Path) -> None:
    (tmp_path / "a.xliff").write_text(content)
    memory = TranslationMemory.read(tmp_path / "a.xliff")
    assert memory.find("Hello", "en", "de") == "Hallo"
    assert memory.find("Hallo", "de", "en") == "Hello"
    assert memory.find("Hello", "en", "fr") is None
    assert memory.find("Bye", "en", "de") is None, "a new target is no translation"


def test_an_xliff_file_without_a_target_language_has_pairs(tmp_path: Path) -> None:
    (tmp_path / "a.xliff").write_text(XLIFF_1.replace(' target-language="de"', ""))
    assert TranslationMemory.read(tmp_path / "a.xliff").find("Hello", "en", "fr") == "Hallo"


@pytest.mark.parametrize("header", ["Source\tTarget", "src\ttgt"])
def test_a_first_row_without_codes_is_no_pair(header: str, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(f"{header}\nSave\tSichern\n")
    assert TranslationMemory.read(tmp_path / "a.tsv").rows == [{"source": "Save", "target": "Sichern"}]


@pytest.mark.parametrize(
    ("content", "code"), [("en\tde\tfr\nSave\tSpeichern\n", "bad-line"), ("en\tde\n", "no-data"), ("one\n", "bad-line")]
)
def test_bad_tables(content: str, code: str, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(content)
    with pytest.raises(UserError) as error:
        TranslationMemory.read(tmp_path / "a.tsv")
    assert error.value.code == code


def test_every_bundled_phrase_is_found() -> None:
    names, *rows = (line.split("\t") for line in PHRASES.read_text(encoding="utf-8").splitlines())
    memory = bundled_memory()
    for row in rows:
        for name, text in zip(names[1:], row[1:], strict=True):
            assert memory.find(row[0], "en", name) is not None
            assert memory.find(text, name, "en") is not None


def test_capitals() -> None:
    assert in_capitals("DO NOT ENTER") and in_capitals("WARNING!")
    assert not any(map(in_capitals, ["US", "IT", "NATO.", "Do NOT enter", "123", "禁止入内", "我们用USB线。", ""]))
    assert without_capitals("MAY I OPEN ⦅0⦆?", "en") == "May I open ⦅0⦆?"
    assert without_capitals("«ÖFFNEN SIE»", "de") == "«Öffnen sie»"


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load("translator", device="cpu")


def test_translate_with_memory(translator: Translator) -> None:
    own = {"The door is open.": "MEMORY", "Keep out": "OWN"}
    text = "The door is open. Keep out! HELLO."
    assert translator.translate(text, source="en", target="de", memory=own) == "MEMORY OWN! HALLO."
    alone = TranslationMemory([{"de": "Guten Tag", "fr": "MEMOIRE"}])
    assert translator.translate("Guten Tag!", source="de", target="fr", memory=alone) == "MEMOIRE !"
    model = translator.translate("Keep out", source="en", target="de", memory=False)
    assert model != translator.translate("Keep out", source="en", target="de") == "Betreten verboten"
    assert translator.predict("Keep out", target="de")["translation"] == model, "evaluation asks the model"
    with pytest.raises(UserError) as error:
        translator.translate("Ciao", target="de", memory=TranslationMemory([{"it": "Ciao", "ja": "やあ"}]))
    assert error.value.code == "unknown-pair"


def test_capitals_and_small_letters_of_one_sentence(translator: Translator) -> None:
    text = "THE DOOR IS OPEN.\nThe door is open."
    first, second = translator.translate(text, source="en", target="de", memory=False).splitlines()
    assert first == second.upper() != second


def test_html_keeps_tags_around_remembered_text(translator: Translator) -> None:
    page = translator.translate("<p>Keep <b>out</b></p>", source="en", target="de", format="html")
    assert page.count("<b>") == page.count("</b>") == 1 and page.replace("<b>", "").replace("</b>", "") == (
        "<p>Betreten verboten</p>"
    )


def test_a_remembered_text_with_code_or_tags_is_not_searched_again(translator: Translator) -> None:
    """The words that it was read from do not matter: a person wrote it."""
    own = TranslationMemory([{"en": "Hello, %s!", "de": "Servus, %s!"}, {"en": "Keep out", "de": "Zack"}])
    assert translator.translate("Hello, %s!", source="en", target="de", memory=own) == "Servus, %s!"
    page = translator.translate("<p>Keep <b>out</b></p>", source="en", target="de", format="html", memory=own)
    assert "Zack" in page and page.count("<b>") == page.count("</b>") == 1


def test_streamed_numbers_of_segments(translator: Translator) -> None:
    """Everyone who waits for a segment is told its final text, also from the memory and in capitals."""
    from regard.run.translating import SegmentTask, finish

    told: dict[int, str] = {}
    languages = translator.task.languages
    task = translator.task.configure()
    job = SegmentTask(task, languages, {}, notify=lambda numbers, text: told.update(dict.fromkeys(numbers, text)))
    job = SegmentTask(task, languages, {}, notify=job.notify, memory=bundled_memory())
    segments = [Segment("The door is open."), Segment("Keep out"), Segment("THE DOOR IS OPEN.")]
    done = finish(translator, job.translate(segments, ("en", "de")))
    assert [told[number] for number in range(3)] == [item.text for item in done]
    assert [item.remembered for item in done] == [False, True, False]


def test_the_own_code_of_a_target_comes_before_its_regional_forms() -> None:
    memory = TranslationMemory([{"en": "Save", "de-AT": "Sichern", "de": "Speichern"}])
    assert memory.find("Save", "en", "de") == "Speichern"
    both = TranslationMemory([{"en": "Save", "zh-TW": "儲存", "zh-CN": "保存"}])
    assert [both.find("Save", "en", code) for code in ("zh", "zh-Hant")] == ["保存", "儲存"]


def test_traditional_chinese_is_not_a_translation_into_simplified(translator: Translator) -> None:
    memory = TranslationMemory([{"en": "Save", "zh-TW": "儲存"}])
    assert memory.find("Save", "en", "zh") is None
    assert memory.find("儲存", "zh", "en") == "Save"
    assert memory.serves(translator.task.languages)  # from Chinese


def test_a_text_in_capitals_of_an_unknown_script_stays_as_it_is(translator: Translator) -> None:
    with pytest.warns(UserWarning, match="does not know the script"):
        assert translator.translate("ΟΔΥΣΣΕΥΣ", source="en", target="de") == "ΟΔΥΣΣΕΥΣ"


def test_the_form_of_address_counts_in_capitals(translator: Translator) -> None:
    own, text = {"Can you help me?": "Können Sie mir helfen?"}, "CAN YOU HELP ME?"
    less, more = (
        translator.translate(text, source="en", target="de", memory=own, formality="less"),
        translator.translate(text, source="en", target="de", memory=own, formality="more"),
    )
    assert (less, more) == ("KANNST DU MIR HELFEN?", "KÖNNEN SIE MIR HELFEN?")


def test_chinese_with_an_abbreviation_is_translated_in_small_letters(translator: Translator) -> None:
    text = translator.translate("我们用USB线。", source="zh", target="en")
    assert text != text.upper()


def test_pairs_are_not_used_on_the_way_through_a_pivot_language(translator: Translator) -> None:
    """The pair is French, and in the wrong form of address; its text must not be taken for English."""
    pairs = {"Wie heißt du?": "Comment t'appelles-tu ?"}
    given, model = (
        translator.translate("Wie heißt du?", source="de", target="fr", memory=memory, formality="more")
        for memory in (TranslationMemory(pairs=list(pairs.items())), False)
    )
    assert given == model
    assert translator.translate("Wie heißt du?", source="de", target="fr", memory=pairs) == pairs["Wie heißt du?"]


def test_the_bundled_phrases_obey_formality(translator: Translator) -> None:
    for language, formal in (("de", "Ihnen"), ("fr", "vous"), ("es", "está?"), ("zh", "您")):
        more, less = (
            translator.translate("How are you?", source="en", target=language, formality=form)
            for form in ("more", "less")
        )
        assert formal in more and formal not in less and more != less
