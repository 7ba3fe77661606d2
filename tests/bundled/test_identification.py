"""The language classifier that comes with regard: what it says about easy texts, and how it fits into a program."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.cli.command import regard

from regard.bundled import bundled_run
from regard.errors import UserError
from regard.reading import parse_json
from regard.run.model import identifier
from regard.run.run import Run
from regard.run_files import BUNDLED, bundled_runs
from regard.tasks import identification
from regard.tasks.identification import SURE, Detected, is_unsure, sure_language

MAX_BYTES = 1_500_000


def identify(texts: Sequence[str], top: int = 3) -> list[list[Detected]]:
    return identification.identify(identifier(), texts, top)


TEXTS = {
    "en": ["The weather is beautiful today.", "thank you very much", "GOOD MORNING", "Where is the station?"],
    "de": ["Das Wetter ist heute schön.", "vielen dank", "GUTEN MORGEN", "Wo ist der Bahnhof?", "Straße"],
    "fr": ["Il fait beau aujourd'hui.", "merci beaucoup", "BONJOUR À TOUS", "Où est la gare ?", "aujourd'hui"],
    "es": ["Hoy hace buen tiempo.", "muchas gracias", "BUENOS DÍAS", "¿Dónde está la estación?", "mañana"],
    "zh": ["今天天气很好。", "谢谢", "早上好", "車站在哪裡？"],
}
GREETINGS = {
    "en": ["Hello", "hello", "Hello!", "hi", "yes", "Thanks.", "thank you", "good morning", "Goodbye!"],
    "de": ["Hallo", "hallo", "Hallo!", "ja", "Ja.", "danke", "Bitte!", "guten morgen", "Tschüss"],
    "fr": ["Bonjour", "bonjour", "Bonjour !", "oui", "Oui.", "merci", "bonsoir", "Au revoir !"],
    "es": ["Hola", "hola", "¡Hola!", "sí", "gracias", "adiós", "por favor", "Buenas noches"],
    "zh": ["你好", "你好！", "是的", "再见"],
}
UNKNOWN = [
    "Сегодня хорошая погода.", "오늘은 날씨가 좋습니다.", "今日はとてもいい天気です。", "الطقس جميل اليوم",
    "ο καιρός είναι καλός", "東京に行きました。", "会議室の予約を確認した。", "カメラ",
]  # fmt: skip
NEIGHBOURS = """
O menino está lendo um livro na biblioteca.
Preciso comprar pão e leite antes que a loja feche.
A minha irmã mora numa cidade pequena perto do mar.
Onde fica a estação de trem mais próxima?
Vamos jantar juntos na sexta-feira?
O filme de ontem foi melhor do que eu esperava.
Il treno per Milano parte alle sette e mezza.
Mia sorella abita in una piccola città vicino al mare.
Dove posso comprare un biglietto per lo spettacolo?
Questa sera ceniamo insieme al ristorante.
Il libro che ho letto era davvero interessante.
Mi piacerebbe vivere in campagna con i miei cani.
De trein naar Amsterdam vertrekt om half acht.
Mijn zus woont in een kleine stad dicht bij de zee.
Waar kan ik een kaartje kopen voor de voorstelling?
Zullen we vrijdag samen eten?
Het boek dat ik las was echt interessant.
Ik wil graag een kopje koffie zonder suiker.
Tåget till Stockholm går klockan halv åtta.
Min syster bor i en liten stad nära havet.
Var kan jag köpa en biljett till föreställningen?
Boken som jag läste var riktigt intressant.
Pociąg do Warszawy odjeżdża o wpół do ósmej.
Moja siostra mieszka w małym mieście nad morzem.
Gdzie mogę kupić bilet na przedstawienie?
Książka, którą czytałem, była naprawdę ciekawa.
Trenul spre București pleacă la șapte și jumătate.
Sora mea locuiește într-un oraș mic lângă mare.
Tren saat yedi buçukta kalkıyor.
Kız kardeşim deniz kenarında küçük bir şehirde yaşıyor.
""".strip().splitlines()
"""Sentences in Portuguese, Italian, Dutch, Swedish, Polish, Romanian and Turkish."""


def languages(texts: list[str]) -> list[str]:
    return [found[0].language for found in identify(texts)]


@pytest.mark.parametrize("language", TEXTS)
def test_easy_texts(language: str) -> None:
    assert languages(TEXTS[language]) == [language] * len(TEXTS[language])


@pytest.mark.parametrize("language", GREETINGS)
def test_words_that_people_type_alone(language: str) -> None:
    assert languages(GREETINGS[language]) == [language] * len(GREETINGS[language])


def test_a_mixed_batch_gives_what_each_text_gives_alone() -> None:
    texts = [text for pair in zip(*(texts[:4] for texts in TEXTS.values()), strict=True) for text in pair]
    together, alone = identify(texts), [identify([text])[0] for text in texts]
    for both in zip(together, alone, strict=True):
        first, second = ([(item.language, round(item.confidence, 4)) for item in found] for found in both)
        assert first == second


def test_confidences_are_probabilities_in_falling_order() -> None:
    for found in identify(["Tom", "Das ist ein Satz.", "information", "x = f(y)"], top=5):
        confidences = [item.confidence for item in found]
        assert confidences == sorted(confidences, reverse=True)
        assert len(found) == 5 and confidences[-1] >= 0 and sum(confidences) <= 1 + 1e-5
    assert [len(found) for found in identify(["Tom", "Berlin"], top=2)] == [2, 2]


def test_text_in_other_scripts_has_a_low_confidence() -> None:
    assert all(found[0].confidence < 0.5 for found in identify(UNKNOWN))


def test_most_sentences_in_other_languages_with_latin_letters_have_a_low_confidence() -> None:
    """The classifier has seen rules of spelling and frequent words of them, but no sentence."""
    confident = [found[0].confidence >= 0.8 for found in identify(NEIGHBOURS)]
    assert sum(confident) <= len(NEIGHBOURS) // 5


def test_a_word_of_several_languages_is_uncertain() -> None:
    """Names occur in the sentences of all languages."""
    assert identify(["Tom"])[0][0].confidence < 0.8 < identify(["Das Wetter ist heute schön."])[0][0].confidence


@pytest.mark.parametrize("text", ["", "   ", "12345", "?!", "🙂", "https://example.com"])
def test_text_without_letters_has_no_language(text: str) -> None:
    assert identify([text, "Guten Tag"])[0] == []


def test_a_long_text() -> None:
    assert languages(["Das ist ein langer Satz. " * 10_000]) == ["de"]


def test_the_command_line_predicts_with_the_run() -> None:
    result = regard("predict", "languages", "Guten Morgen, wie geht es dir?", "--top", "2")
    assert parse_json(result.out)["label"] == "de"


def test_commands_write_results_of_the_run_to_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package may be read-only, and belongs to nobody's experiment."""
    monkeypatch.chdir(tmp_path)
    before = sorted(bundled_run("languages").rglob("*"))
    (tmp_path / "texts.tsv").write_text("text\tlabel\nGuten Tag, mein Freund\tde\nthe weather\ten\n", encoding="utf-8")
    assert regard("evaluate", "languages", "--file", "texts.tsv").status == 0
    assert regard("inspect", "languages", "Guten Tag").status == 0
    assert sorted(bundled_run("languages").rglob("*")) == before
    assert list((tmp_path / "runs" / "languages" / "evaluations").glob("*.json"))
    assert (tmp_path / "runs" / "languages" / "inspect.html").is_file()


def test_the_run_is_complete_and_small() -> None:
    folder = bundled_run("languages")
    run = Run.open("languages", "classification")
    run.check_manifest()
    assert run.folder == folder
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) <= MAX_BYTES


def test_names_of_runs() -> None:
    assert set(bundled_runs()) <= set(BUNDLED)
    with pytest.raises(UserError) as error:
        bundled_run("no-such-run")
    assert error.value.code == "not-a-run"


ANSWERS: dict[str, list[tuple[str, str | None]]] = {
    "Chinese with words in Latin letters": [
        ("我昨天去了 Starbucks 买了一杯 latte。", "zh"),
        ("请打开 Windows 10 的 Settings 页面。", "zh"),
        ("我用 Python 写了一个 REST API。", "zh"),
        ("OK，明天见！", "zh"),
        ("iPhone 手机", "zh"),
        ("今天天气很好。", "zh"),
    ],
    "half and half": [
        ("My friend 王小明 lives in Beijing.", None),
        ("请把 README.md 发给 John Smith。", None),
        ("Tom 说 no", None),
    ],
    "other mixtures": [
        ("Mein Freund 王 wohnt in Berlin und arbeitet dort.", "de"),
        ("Wir haben ein Meeting mit dem Sales Team über das neue Feature.", "de"),
        ("He said bonjour to everybody.", "en"),
        ("Mi amigo Wolfgang vive en München.", "es"),
    ],
    "names": [("Tom", None), ("Berlin", None), ("John Smith", None), ("Jean-Paul Sartre", None), ("王小明", "zh")],
    "addresses": [
        ("https://www.example.com/index.html", None),
        ("info@example.com", None),
        ("Siehe https://www.example.com/the/house für Details.", "de"),
        ("详情请见 https://example.com/help", "zh"),
        ("Escríbenos a info@example.com", "es"),
    ],
    "code": [
        ("x = f(y)", None),
        ("getElementById", None),
        ("{name} %s", None),
        ("<b>Guten Morgen</b>", "de"),
        ("%1$s Dateien wurden gelöscht", "de"),
        ("`mañana`", "es"),
    ],
    "emoji": [("😀 Danke!", "de"), ("Merci 😀", "fr"), ("👍🏽👍🏽 thank you", "en"), ("❤️", None), ("谢谢 🙏", "zh")],
    "numbers": [
        ("12.03.2024", None),
        ("3,14 €", None),
        ("10:45 Uhr", "de"),
        ("Seite 12 von 30", "de"),
        ("Page 12 of 30", "en"),
        ("2024年3月12日", "zh"),
    ],
    "capitals": [
        ("DAS WETTER IST HEUTE SCHÖN", "de"),
        ("WHERE IS THE STATION?", "en"),
        ("BUENOS DÍAS A TODOS", "es"),
        ("BONJOUR À TOUS", "fr"),
    ],
    "words of several languages": [("no", None), ("information", None), ("was", None), ("NEIN", None)],
    "greetings": [
        ("hallo", "de"),
        ("Guten Tag", "de"),
        ("hello", "en"),
        ("Hi", "en"),
        ("hola", "es"),
        ("Buenas tardes", "es"),
        ("bonjour", "fr"),
        ("Bonsoir", "fr"),
        ("你好", "zh"),
        ("早", "zh"),
    ],
}
"""Texts and their language; None: unsure."""
TOO_CAREFUL = {"hola", "Mi amigo Wolfgang vive en München."}
"""Texts whose language is clear, but not to the classifier: it is right with a confidence below SURE."""


@pytest.mark.parametrize("kind", ANSWERS)
def test_sure_and_unsure_answers(kind: str) -> None:
    expected = dict(ANSWERS[kind])
    found = dict(zip(expected, identify(list(expected)), strict=True))
    careful = TOO_CAREFUL & expected.keys()
    assert {text: sure_language(item) for text, item in found.items()} == expected | dict.fromkeys(careful)
    assert all(found[text][0].language == expected[text] for text in careful)


def test_a_language_is_unsure_only_if_there_is_a_choice() -> None:
    found = [Detected("en", 0.5), Detected("de", 0.4)]
    assert is_unsure(found) and not is_unsure(found[:1]) and not is_unsure([])
    assert not is_unsure([Detected("en", SURE), Detected("de", 0.1)])
