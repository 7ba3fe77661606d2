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
from regard.tasks.identification import Detected

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


@pytest.mark.parametrize(
    ("text", "language", "certain"),
    [
        ("我昨天去了 Starbucks 买了一杯 latte。", "zh", True),
        ("请打开 Windows 10 的 Settings 页面。", "zh", True),
        ("My friend 王小明 lives in Beijing.", "en", False),
        ("Mein Freund 王 wohnt in Berlin und arbeitet dort.", "de", True),
        ("今天天气很好。", "zh", True),
        ("iPhone 手机", "zh", True),
        ("😀 Danke!", "de", True),
        ("10:45 Uhr", "de", True),
        ("详情请见 https://example.com/help", "zh", True),
    ],
)
def test_words_beside_other_things(text: str, language: str, certain: bool) -> None:
    ((best, *_),) = identify([text])
    assert best.language == language
    assert (best.confidence > 0.7) == certain
