"""Claims of the study notes: complete in both languages, proved, and in agreement with the experiments' numbers."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest
from tests.lab.checks import CHINESE
from tests.lab.made import DOUBLES
from tests.pages import ROOT

from regard.errors import UserError
from regard.lab.claim import (
    CLAIM_VERDICTS,
    FOLDER,
    Claim,
    all_claims,
    find_claims,
    in_notes_order,
    place_order,
    read_claims,
    unmet_conditions,
)
from regard.lab.experiment import Effort
from regard.lab.pages import RESULTS, answers_page, notes_page
from regard.lab.records import read_finished
from regard.lab.registry import all_experiments
from regard.lab.running import run_experiment
from regard.lab.texts import LANGUAGES, Bilingual, words

LINES = {"000": 287, "001": 198, "002": 108, "003": 349, "004": 544}
"""The number of lines of each note."""
QUESTIONS = tuple(f"001:{line}" for line in range(176, 196))
"""The twenty interview questions."""
TOLD = (
    "000:91", "001:26", "001:152", "002:76", "003:70", "003:91", "003:123", "003:152", "003:200", "004:23", "004:43",
    "004:61", "004:121", "004:184", "004:246", "004:250", "004:404", "004:463", "004:469", "004:494", "004:519",
)  # fmt: skip
"""Lines that are wrong or half right."""
VALID = """
[first]
notes = "000:7, 001:3-5"
verdict = "right"
reference = "Nobody 1900"
claim.en = "One is one."
claim.zh = "一就是一。"
reason.en = "It is so."
reason.zh = "就是这样。"
"""


def covers(claim: Claim, place: str) -> bool:
    """True if a claim names the line, or a range around it."""
    note, line = place_order(place)
    for each in claim.places:
        first = place_order(each)
        last = int(re.split("[:-]", each)[-1])
        if first[0] == note and first[1] <= line <= last:
            return True
    return False


def made(**changes: object) -> Claim:
    values = {"key": "a", "topic": "text", "notes": "000:1", "verdict": "right", **changes}
    return Claim(claim=Bilingual("a", "甲"), reason=Bilingual("b", "乙"), **values)  # type: ignore[arg-type]


def test_results_agree_with_the_verdicts_on_claims() -> None:
    """If this fails, an experiment measures something else than a claim says: correct the claim, or its condition."""
    found = {name: read_finished(ROOT / "docs" / "lab" / RESULTS, each) for name, each in all_experiments().items()}
    unmet = {}
    for claim in all_claims():
        if claim.experiment:
            finished = found[claim.experiment]
            assert finished is not None, f"{claim.key}: {claim.experiment} has no result"
            if broken := unmet_conditions(claim, finished.verdict, finished.results):
                unmet[claim.key] = [claim.experiment, *broken]
    assert unmet == {}


def test_every_experiment_proves_a_claim() -> None:
    assert {claim.experiment for claim in all_claims() if claim.experiment} == all_experiments().keys()


def test_every_test_that_proves_a_claim_exists() -> None:
    functions: dict[str, set[str]] = {}
    for claim in all_claims():
        if claim.test:
            file, name = claim.test.split("::")
            if file not in functions:
                tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
                functions[file] = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
            assert name in functions[file], f"{claim.key}: {claim.test} does not exist"


def test_every_page_to_read_on_exists_in_both_languages() -> None:
    pages = {claim.page for claim in all_claims() if claim.page}
    assert len(pages) > 20
    for page in pages:
        assert all((ROOT / "docs" / f"{page}{ending}").is_file() for ending in (".md", ".zh.md")), page


def test_claims_are_complete_in_both_languages() -> None:
    keys = Counter(claim.key for claim in all_claims())
    assert max(keys.values()) == 1 and len(keys) >= 120
    for claim in all_claims():
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", claim.key), claim.key
        for text in (claim.claim, claim.reason, *([claim.question] if claim.question else [])):
            assert CHINESE.search(text.zh) or "=" in text.zh, f"{claim.key}: {text.zh}"
            assert not CHINESE.search(re.sub("我爱你|[我爱你]", "", text.en)), f"{claim.key}: {text.en}"
        for place in claim.places:
            note, first, *last = re.split("[:-]", place)
            assert int(first) <= int((last or [first])[0]) <= LINES[note], f"{claim.key}: {place}"
    assert {path.stem for path in FOLDER.glob("*.toml")} == {*words("en")["topics"]}
    assert {claim.verdict for claim in all_claims()} == {*CLAIM_VERDICTS}
    for language in LANGUAGES:
        assert {*words(language)["claim_verdicts"]} == {*CLAIM_VERDICTS}


@pytest.mark.parametrize("place", QUESTIONS)
def test_every_interview_question_has_an_answer(place: str) -> None:
    assert any(covers(claim, place) and claim.question for claim in all_claims())


@pytest.mark.parametrize("place", TOLD)
def test_what_is_wrong_is_told(place: str) -> None:
    assert any(covers(claim, place) and claim.verdict in ("wrong", "half right") for claim in all_claims())


def test_claims_are_read_in_the_order_of_the_notes(tmp_path: Path) -> None:
    path = tmp_path / "text.toml"
    path.write_text(VALID + VALID.replace("first", "second").replace("000:7, 001:3-5", "000:2"), encoding="utf-8")
    first, second = read_claims(path)
    assert first.claim.zh == "一就是一。" and first.topic == "text" and first.places == ["000:7", "001:3-5"]
    assert in_notes_order([first, second]) == [second, first]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ('verdict = "right"', 'verdict = "maybe"', "verdict"),
        ('claim.zh = "一就是一。"\n', "", "claim needs exactly en and zh"),
        ('reason.en = "It is so."', 'reason.en = " "', "empty"),
        ('reference = "Nobody 1900"\n', "", "no proof"),
        ('reference = "Nobody 1900"', 'experiment = "heads"', "belong together"),
        ('reference = "Nobody 1900"', 'experiment = "heads"\nexpect = ["a < b < c"]', "neither a verdict nor"),
        ('reference = "Nobody 1900"', 'experiment = "heads"\nexpect = ["__import__(os) > 1"]', "neither a verdict nor"),
        ("000:7, 001:3-5", "001:3-5, 000:7", "not in the order"),
        ("000:7, 001:3-5", "page 7", "not a list of places"),
        ("[first]", "[first]\nwhy = 1", "why"),
    ],
)
def test_an_invalid_claim_is_an_error_that_says_where(old: str, new: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "text.toml"
    assert old in VALID
    path.write_text(VALID.replace(old, new), encoding="utf-8")
    with pytest.raises(UserError) as error:
        read_claims(path)
    assert error.value.code == "invalid-texts" and "first" in str(error.value) and problem in str(error.value)


def test_a_topic_is_one_of_the_lab(tmp_path: Path) -> None:
    (tmp_path / "cooking.toml").write_text(VALID, encoding="utf-8")
    with pytest.raises(UserError, match="cooking is not a topic"):
        read_claims(tmp_path / "cooking.toml")


def test_conditions_are_compared_with_the_result(tmp_path: Path) -> None:
    finished = run_experiment(DOUBLES, Effort(), tmp_path)
    holds = [
        "confirmed",
        "bars[value][once] < bars[value][twice]",
        "times > 1.5",
        "curve[twice][last] >= 16",
        "1 == 1.0",
    ]
    fails = [
        "refuted",
        "width: confirmed",
        "bars[value][once] > 2",
        "times <= 1e-3",
        "bars[value][never] > 1",
        "other > 1",
    ]
    claim = made(experiment="doubles", expect=[*holds, *fails])
    assert unmet_conditions(claim, finished.verdict, finished.results) == fails


def test_claims_are_found_by_words_in_either_language_and_by_verdict() -> None:
    claims = all_claims()
    assert "padding-mask" in {claim.key for claim in find_claims(claims, ["SOFTMAX", "padding"])}
    assert find_claims(claims, ["调和平均"]) == find_claims(claims, ["perplexity-harmonic"])
    wrong = find_claims(claims, verdict="wrong")
    assert wrong and all(claim.verdict == "wrong" for claim in wrong)
    assert find_claims(claims, ["no such word"]) == []


def test_pages_link_every_claim() -> None:
    """notes.md has a row for each place, with a link to the claim in answers.md."""
    for language in LANGUAGES:
        answers, notes = answers_page(Path("docs/lab"), {}, language), notes_page(language)
        assert re.findall(r"^### (.+)$", answers, re.MULTILINE) == [claim.key for claim in all_claims()]
        rows = re.findall(r"^\| (\d{3}:\S+) \|", notes, re.MULTILINE)
        assert rows == sorted(rows, key=place_order) and len(rows) == sum(len(claim.places) for claim in all_claims())
        assert {*re.findall(r"answers(?:\.zh)?\.md#([\w-]+)\)", notes)} == {claim.key for claim in all_claims()}
        assert not re.search(r"\b00[0-4]:\d", answers), "only the page of the notes has their places"
