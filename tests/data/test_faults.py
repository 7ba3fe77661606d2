"""The checks of translations: known faults are found, and right translations pass."""

import pytest

from regard.data.faults import CHECKS, Case
from regard.run.checking import bundled_sets, minimal_pairs, read_rows

LANGUAGES = ("en", "de", "fr", "es", "zh")
DIRECTIONS = [(source, target) for source in LANGUAGES for target in LANGUAGES if source != target]
BAD = [
    ("numbers", ("The answer is 25.", "Die Antwort ist 22."), ("en", "de")),
    ("numbers", ("Es kostet 3.277.917 Euro.", "It costs 3.27.917 euros."), ("de", "en")),
    ("negation", ("I cannot come.", "Ich kann kommen."), ("en", "de")),
    ("negation", ("Je le sais.", "I do not know."), ("fr", "en")),
    ("negation", ("我不喜欢咖啡。", "I like coffee."), ("zh", "en")),
    ("negation", ("I do not think that he is here.", "Je pense qu'il est là."), ("en", "fr")),
    ("negation", ("I think that he is here.", "Je ne pense pas qu'il soit là."), ("en", "fr")),
    ("negation", ("She never eats meat.", "Ella siempre come carne."), ("en", "es")),
    ("copy", ("The old house is here.", "The old house ist here."), ("en", "de")),
    ("copy", ("老房子在这里", "老房子在这里"), ("zh", "en")),
    ("loop", ("He said so.", "Er er er er sagte es."), ("en", "de")),
    ("loop", ("Tom came.", "TomFolFolFolFol"), ("en", "de")),
    ("loop", ("Hello", "你好你好你好"), ("en", "zh")),
    ("loop", ("I am here.", "我我我我在这里。"), ("en", "zh")),
    ("negation", ("Go!", "别走！"), ("en", "zh")),
    ("script", ("Hello", "Привет"), ("en", "de")),
    ("script", ("Hello", "Hello there"), ("en", "zh")),
]
GOOD = [
    ("numbers", ("It costs 3,277,917 euros.", "Es kostet 3.277.917 Euro."), ("en", "de")),
    ("negation", ("Are you coming or not?", "你来不来？不来吗？"), ("en", "zh")),
    ("negation", ("You're welcome.", "不客气。"), ("en", "zh")),
    ("negation", ("Ask whether that's right.", "问是否没错。"), ("en", "zh")),
    ("negation", ("禁止吸烟", "Smoking is prohibited"), ("zh", "en")),
    ("negation", ("No smoking", "Rauchen verboten"), ("en", "de")),
    ("negation", ("No smoking", "Défense de fumer"), ("en", "fr")),
    ("negation", ("Rauchen verboten", "Prohibido fumar"), ("de", "es")),
    ("negation", ("There is only one key.", "Il n'y a qu'une clé."), ("en", "fr")),
    ("negation", ("She has only five euros.", "Elle n'a que cinq euros."), ("en", "fr")),
    ("negation", ("Others see the difference.", "别人看到区别。"), ("en", "zh")),
    ("negation", ("Don't go!", "别走！"), ("en", "zh")),
    ("loop", ("Thanks", "谢谢"), ("en", "zh")),
    ("loop", ("See www.example.org", "Siehe www.example.org"), ("en", "de")),
    ("loop", ("bla bla bla bla", "bla bla bla bla"), ("en", "de")),
    ("copy", ("Internet", "Internet"), ("en", "de")),
    ("script", ("你好", "Hello"), ("zh", "en")),
]


@pytest.mark.parametrize(("check", "texts", "languages"), BAD)
def test_a_fault_is_found(check: str, texts: tuple[str, str], languages: tuple[str, str]) -> None:
    assert CHECKS[check](Case(*texts, languages)) is False


@pytest.mark.parametrize(("check", "texts", "languages"), GOOD)
def test_a_right_translation_passes(check: str, texts: tuple[str, str], languages: tuple[str, str]) -> None:
    assert CHECKS[check](Case(*texts, languages)) is not False


def test_names_are_those_that_source_and_reference_share() -> None:
    source, reference = "Yesterday Anna flew to Berlin.", "Gestern flog Anna nach Berlin."
    for output, kept in (("Gestern flog Anna nach Berlin.", True), ("Gestern flog sie nach Berlin.", False)):
        assert CHECKS["names"](Case(source, output, ("en", "de"), [reference])) is kept
    assert CHECKS["names"](Case(source, "Gestern flog sie.", ("en", "de"))) is None


def test_the_language_of_a_long_text() -> None:
    case = Case("Das Haus", "La maison est très belle.", ("de", "en"), probabilities={"en": 0.02, "fr": 0.95})
    assert CHECKS["language"](case) is False
    assert CHECKS["language"](Case("Das", "Le", ("de", "en"), probabilities={"en": 0.02, "fr": 0.95})) is None
    unsure = Case("Das Haus", "Restaurant Hotel Central Paris", ("de", "en"), probabilities={"en": 0.3, "fr": 0.6})
    assert CHECKS["language"](unsure) is True


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_bundled_references_pass_every_check_as_translations(direction: tuple[str, str]) -> None:
    """The sentences judge the checks: what a person wrote has no fault."""
    faults = []
    for name, sentences in bundled_sets(direction).items():
        for item in sentences:
            facts = (item.references, item.names, None, item.is_phrase)
            assert item.is_phrase == (name == "phrases")
            case = Case(item.source, item.references[0], direction, *facts)
            faults += [(check, item.source) for check, judge in CHECKS.items() if judge(case) is False]
    assert not faults


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_copy_of_the_source_is_found_in_every_direction(direction: tuple[str, str]) -> None:
    found = bundled_sets(direction)["sentences"]
    cases = [Case(item.source, item.source, direction, item.references, item.names) for item in found]
    assert not any(CHECKS["copy"](case) for case in cases)


def test_every_kind_of_fault_occurs_in_the_sentences() -> None:
    found = bundled_sets(("en", "de"))["sentences"]
    for check, least in (("numbers", 20), ("names", 20), ("negation", 20)):
        judged = [CHECKS[check](Case(item.source, "", ("en", "de"), item.references, item.names)) for item in found]
        assert sum(result is False for result in judged) >= least


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_both_translations_of_a_minimal_pair_differ(direction: tuple[str, str]) -> None:
    pairs = minimal_pairs(direction)
    assert len(pairs) == len(read_rows("minimal_pairs.tsv")) >= 20
    for pair in pairs:
        assert pair.right != pair.wrong and not set("{|}") & set(pair.source + pair.right + pair.wrong)
