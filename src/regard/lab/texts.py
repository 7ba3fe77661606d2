"""What people read about an experiment, in English and Chinese: NAME.toml beside NAME.py, or `TEXTS` in it.

    topic = "attention"                             # a topic of words.toml
    seconds = 50                                    # CPU time of the full setting, about
    papers = ["Vaswani et al. 2017, section 3.2.2"]
    timed = true                                    # only if it measures time: then it runs alone
    seeds = 6                                       # if not 3
    first_seed = 11                                 # if not 1: after a rule was changed that had seen its numbers
    code = { stored = "...", verified = "..." }     # only if older results hold for the code of now (records.py)

    [panels]                                        # the panels in their order: kind = "bars", log = "x", "y" or "xy"
    accuracy = { log = "x" }

    [en]                                            # and the same keys in [zh]
    title, hypothesis, varied, measured, refuted_if
    panels.accuracy = ["title", "x axis", "y axis"]
    answer.confirmed = "The result in words, for this verdict."
    verdict = "One head finds {accuracy[both neighbours][1]:.0%}."
    findings.width = ["A further claim.", "Wide heads find {accuracy[wide][1]:.0%}."]
    [en.names]                                      # series and categories; a key without a name is shown as it is
    both = "both neighbours"                        # or only in one panel: accuracy.both = "both neighbours"

The sentence names the mean over seeds of panel, series and x (`first` and `last` are positions of the series), and the
numbers that `judge` adds. It has no digit of its own, so it cannot say more than was measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from pydantic import ConfigDict, TypeAdapter, ValidationError

from regard.errors import UserError
from regard.files import JsonObject
from regard.reading import parse_toml, read_toml

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
Kind = Literal["confirmed", "refuted", "not decided"]
KINDS: tuple[Kind, ...] = get_args(Kind)
PARTS = ("title", "hypothesis", "varied", "measured", "refuted_if", "verdict")


class Bilingual(NamedTuple):
    """The same text in English and Chinese."""

    en: str
    zh: str

    def to(self, language: Language) -> str:
        return self.zh if language == "zh" else self.en


@dataclass(frozen=True)
class Panel:
    """How the numbers of one panel are drawn: lines over numbers, or bars for categories."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    key: str
    title: Bilingual
    x: Bilingual
    y: Bilingual
    kind: Literal["lines", "bars"] = "lines"
    log: Literal["", "x", "y", "xy"] = ""
    names: Mapping[str, Bilingual] = field(default_factory=dict)
    """Names of series and categories in both languages; a missing one is shown as it is."""


class Finding(NamedTuple):
    """A further claim that the same numbers confirm or refute, and the sentence that names these numbers."""

    claim: Bilingual
    numbers: Bilingual


@dataclass(frozen=True)
class Texts:
    """The texts of an experiment, and what else its TOML holds."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    topic: str
    seconds: int
    panels: tuple[Panel, ...]
    title: Bilingual
    hypothesis: Bilingual
    varied: Bilingual
    measured: Bilingual
    refuted_if: Bilingual
    verdict: Bilingual
    answer: Mapping[Kind, Bilingual] = field(default_factory=dict)
    """The result in words, for the verdicts that it fits."""
    findings: Mapping[str, Finding] = field(default_factory=dict)
    papers: tuple[str, ...] = ()
    timed: bool = False
    seeds: int = 3
    first_seed: int = 1
    """Greater than 1 if a rule was changed after its numbers were seen: the new rule judges other seeds."""
    code: Mapping[str, str] = field(default_factory=dict)
    """Two digests: results of the code `stored` hold for the code `verified`."""


def parse_texts(source: str, origin: object) -> Texts:
    """The texts in TOML; a UserError says what is missing, unknown or of a wrong type."""
    try:
        values = _join_languages(parse_toml(source))
        if values.get("topic") not in words("en")["topics"]:
            raise ValueError(f"topic is none of {', '.join(words('en')['topics'])}")
        return _texts_type().validate_python(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        problem = f"{origin}: {'.'.join(map(str, first['loc']))} is not valid: {first['msg']}"
    except KeyError as error:
        problem = f"{origin}: {error.args[0]} is missing in the texts"
    except (TypeError, ValueError, AttributeError) as error:
        problem = f"{origin}: its texts are not valid: {error}"
    raise UserError(problem, "see regard/lab/texts.py for all keys", code="invalid-texts", where=origin)


@cache
def _texts_type() -> TypeAdapter[Texts]:
    return TypeAdapter(Texts)


def _join_languages(values: JsonObject) -> JsonObject:
    """The values of `Texts`: what [en] and [zh] say becomes pairs."""
    spoken = [values.pop(language) for language in LANGUAGES]
    if (here := _keys(spoken[0])) != (there := _keys(spoken[1])):
        raise ValueError(f"only one language has {', '.join(sorted(here ^ there))}")
    named = [each.pop("names", {}) for each in spoken]
    own = {key for each in named for key, name in each.items() if isinstance(name, dict)}
    everywhere = _pairs(*({key: name for key, name in each.items() if key not in own} for each in named))

    def listed(part: str, key: str) -> list[list[str]]:
        return [list(pair) for pair in zip(*(each[part][key] for each in spoken), strict=True)]

    panels = []
    for key, drawn in values["panels"].items():
        title, x, y = listed("panels", key)
        names = everywhere | _pairs(*(each.get(key, {}) for each in named if key in own))
        panels.append({"key": key, "title": title, "x": x, "y": y, "names": names, **drawn})
    findings = {key: listed("findings", key) for key in spoken[0].get("findings", {})}
    answers = _pairs(*(each.get("answer", {}) for each in spoken))
    parts = {part: [each[part] for each in spoken] for part in PARTS}
    return {**values, **parts, "panels": panels, "answer": answers, "findings": findings}


def _keys(values: JsonObject) -> set[str]:
    """The keys of one language; names may be missing, and are shown as they are."""
    parts = {key: values.get(key, {}) for key in ("panels", "answer", "findings")}
    return {*values, "names"} | {f"{part}.{key}" for part, members in parts.items() for key in members}


def _pairs(en: Mapping[str, str] | None = None, zh: Mapping[str, str] | None = None) -> dict[str, list[str]]:
    en, zh = en or {}, zh or {}
    return {key: [en.get(key, key), zh.get(key, key)] for key in {**en, **zh}}


@cache
def words(language: Language) -> JsonObject:
    """The words of pages and screens in one language: words.toml."""
    values: JsonObject = read_toml(Path(__file__).with_name("words.toml"))[language]
    return values


def say(language: Language, key: str, **values: object) -> str:
    """A text of words.toml with its values."""
    return str(words(language)[key]).format(**values)
