"""Claims that students learn, judged one by one: claims/TOPIC.toml.

    [several-heads]
    notes = "000:163-165, 001:176"      # its places in the study notes: 001:176 is line 176 of note 001
    verdict = "right"                   # right, half right, wrong or open
    claim.en = "..."                    # and claim.zh
    reason.en = "..."                   # and reason.zh: why, in one to three sentences
    question.en = "..."                 # and question.zh, only if the notes ask it
    experiment = "heads"                # the proof: at least one of experiment, test and reference
    expect = ["confirmed", "accuracy[both neighbours][2] > accuracy[both neighbours][1]"]
    test = "tests/attention/test_attend.py::test_masks"
    reference = "Vaswani et al. 2017, section 3.2.2"
    page = "ideas/multi-head"           # a page in docs to read on, if there is one

An experiment judges its own hypothesis, which may be stronger, weaker or about something else than a claim. `expect`
says what its result must be for the verdict on the claim: its verdict, the verdict on one of its findings
("width: refuted"), or a comparison. A comparison is TERM < TERM, with <, <=, >, >= or ==; a term is a number or names
one as verdict sentences do (texts.py): the mean over seeds of panel, series and x, or a number that `judge` adds.
`unmet_conditions` lists the conditions that a result does not meet.
"""

import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from pydantic import ConfigDict, TypeAdapter, ValidationError

from regard.errors import UserError
from regard.files import JsonObject
from regard.lab.texts import KINDS, LANGUAGES, Bilingual, Language, say, words
from regard.reading import read_toml

if TYPE_CHECKING:
    from regard.lab.experiment import Results, Verdict

ClaimVerdict = Literal["right", "half right", "wrong", "open"]
CLAIM_VERDICTS: tuple[ClaimVerdict, ...] = get_args(ClaimVerdict)
FOLDER = Path(__file__).with_name("claims")
PLACE = re.compile(r"(\d{3}):(\d+)(?:-(\d+))?")
TERM = r"-?\d+(?:\.\d+)?(?:e-?\d+)?|[a-z_]\w*(?:\[[^\[\]{}]+\])*"
COMPARISON = re.compile(rf"({TERM}) (<=|>=|<|>|==) ({TERM})", re.I)
KIND = re.compile(rf"(?:([a-z][a-z0-9_-]*): )?({'|'.join(KINDS)})")
OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
}  # fmt: skip


@dataclass(frozen=True)
class Claim:
    """A statement, the verdict on it, the reason, and what proves the verdict."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    key: str
    topic: str
    notes: str
    """Its places in the study notes, in their order."""
    verdict: ClaimVerdict
    claim: Bilingual
    reason: Bilingual
    question: Bilingual | None = None
    experiment: str = ""
    expect: list[str] = field(default_factory=list)
    test: str = ""
    reference: str = ""
    page: str = ""

    @property
    def places(self) -> list[str]:
        return self.notes.split(", ")

    def contains(self, word: str) -> bool:
        """True if a text of the claim in either language, its key, place or experiment contains the word."""
        texts = [*self.claim, *self.reason, *(self.question or ()), self.key, self.notes, self.experiment]
        return any(word.casefold() in text.casefold() for text in texts)


def place_order(place: str) -> tuple[str, int]:
    """The note and its first line: the order of the study notes."""
    match = PLACE.fullmatch(place)
    assert match is not None
    return match[1], int(match[2])


@cache
def all_claims() -> tuple[Claim, ...]:
    """The claims by topic, in the order of the files."""
    return tuple(claim for topic in words("en")["topics"] for claim in read_claims(FOLDER / f"{topic}.toml"))


def in_notes_order(claims: Iterable[Claim]) -> list[Claim]:
    """Claims in the order of their first places."""
    return sorted(claims, key=lambda claim: place_order(claim.places[0]))


def read_claims(path: Path) -> list[Claim]:
    """The claims about one topic; a UserError says what is missing, unknown or of a wrong type."""
    claims = []
    for key, values in read_toml(path).items():
        try:
            claim = _claim_type().validate_python({**_pairs(values), "key": key, "topic": path.stem})
            _check(claim)
            claims.append(claim)
            continue
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            problem = f"{'.'.join(map(str, first['loc']))} is not valid: {first['msg']}"
        except (TypeError, ValueError, AttributeError) as error:
            problem = str(error)
        remedy = "see regard/lab/claim.py for all keys"
        raise UserError(f"{path}: {key}: {problem}", remedy, code="invalid-texts", where=path)
    return claims


@cache
def _claim_type() -> TypeAdapter[Claim]:
    return TypeAdapter(Claim)


def _pairs(values: JsonObject) -> JsonObject:
    """Values whose texts are pairs of languages."""
    pairs: JsonObject = {}
    for part in ("claim", "reason", "question"):
        if part in values:
            if values[part].keys() != {*LANGUAGES}:
                raise ValueError(f"{part} needs exactly {' and '.join(LANGUAGES)}")
            pairs[part] = [values[part][language] for language in LANGUAGES]
    return {**values, **pairs}


def _check(claim: Claim) -> None:
    """Raise ValueError if places, texts or proofs are not well formed."""
    if claim.topic not in words("en")["topics"]:
        raise ValueError(f"{claim.topic} is not a topic of words.toml")
    if not all(PLACE.fullmatch(place) for place in claim.places):
        raise ValueError(f"{claim.notes!r} is not a list of places such as 001:176 or 001:86-91")
    if claim.places != sorted(claim.places, key=place_order):
        raise ValueError(f"the places {claim.notes} are not in the order of the notes")
    if not all(text.strip() for pair in (claim.claim, claim.reason, claim.question or ("?",)) for text in pair):
        raise ValueError("a text is empty")
    if bool(claim.experiment) != bool(claim.expect):
        raise ValueError("`experiment` and `expect` belong together")
    if not (claim.experiment or claim.test or claim.reference):
        raise ValueError("has no proof: add `experiment`, `test` or `reference`")
    if wrong := [text for text in claim.expect if not (KIND.fullmatch(text) or COMPARISON.fullmatch(text))]:
        raise ValueError(f"{wrong[0]!r} is neither a verdict nor a comparison such as loss[a][last] < 0.1")


def unmet_conditions(claim: Claim, verdict: "Verdict", results: "Results") -> list[str]:
    """The conditions that the result of the claim's experiment does not meet, or whose numbers it does not have."""
    numbers = {**results.means(), **verdict.numbers}

    def value(term: str) -> float:
        return float(term if re.match(r"-?\d", term) else f"{{{term}}}".format(**numbers))

    def holds(condition: str) -> bool:
        if kind := KIND.fullmatch(condition):
            return kind[2] == (verdict.findings.get(kind[1]) if kind[1] else verdict.kind)
        comparison = COMPARISON.fullmatch(condition)
        assert comparison is not None
        try:
            return OPERATORS[comparison[2]](value(comparison[1]), value(comparison[3]))
        except (KeyError, ValueError):
            return False

    return [condition for condition in claim.expect if not holds(condition)]


def claim_counts(claims: Sequence[Claim], language: Language) -> str:
    """How many claims have which verdict, in words."""
    counts = Counter(claim.verdict for claim in claims)
    kinds = words(language)["claim_verdicts"]
    shown = [say(language, "count", count=counts[each], kind=kinds[each]) for each in CLAIM_VERDICTS if counts[each]]
    return say(language, "claim_counts", number=len(claims), verdicts=say(language, "comma").join(shown))


def find_claims(
    claims: Sequence[Claim], wanted: Sequence[str] = (), verdict: ClaimVerdict | None = None
) -> list[Claim]:
    """The claims that contain all wanted words, and have the verdict if one is given."""
    chosen = [claim for claim in claims if verdict in (None, claim.verdict)]
    return [claim for claim in chosen if all(claim.contains(word) for word in wanted)]
