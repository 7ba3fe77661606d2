"""The languages of a server: which run translates from one language to another, and how APIs write their codes.

ours      LibreTranslate    DeepL
de        de                DE
zh        zh-Hans (or zh)   ZH (or ZH-HANS)
en        en                EN; as a target EN-US and EN-GB too

Our own API and that of Hugging Face accept all usual codes of Chinese. A run that reads "zh" reads both scripts, as the
language identification does; it writes simplified characters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from regard.errors import UserError
from regard.run.model import Model
from regard.serve.errors import ServiceError
from regard.tasks.languages import TRADITIONAL, Direction, Languages

NamedDirection = tuple[str, str, str]
"""A direction and the name of its run."""
ALIASES = {"zh": "zh-Hans", "zt": "zh-Hant", "pb": "pt-BR"}
"""Short codes of LibreTranslate and the codes that it writes for them."""
WRITTEN = ALIASES | {long.lower(): long for long in ALIASES.values()}


@dataclass(frozen=True)
class ServedLanguages:
    """All directions of a server in lowercase codes, each with its run."""

    directions: tuple[NamedDirection, ...]

    @cached_property
    def pairs(self) -> frozenset[Direction]:
        """The directions without their runs."""
        return frozenset((source, target) for source, target, _ in self.directions)

    @cached_property
    def languages(self) -> Languages:
        """The directions as those of one model, to find codes."""
        return Languages(tuple((source, target) for source, target, _ in self.directions))

    @cached_property
    def codes(self) -> list[str]:
        """All codes, English first, then by name."""
        return sorted(self.languages.codes, key=lambda code: (code != "en", name_of(code)))

    def targets(self, source: str) -> list[str]:
        """The languages that a language can be translated to."""
        return [code for code in self.codes if (source, code) in self.pairs]

    def find(self, code: str, is_source: bool = False) -> str | None:
        """Our code of a language that LibreTranslate would know; None if it is not served.

        Traditional Chinese can be translated if Chinese can.
        """
        own = self.languages.find(code)
        if code.lower() not in (*self.codes, *WRITTEN):
            return None
        if is_source and own == TRADITIONAL and own not in self.codes:
            return own if self.find("zh") else None
        return own if own in self.codes else None

    def find_codes(self, source: str | None, target: str | None) -> tuple[str | None, str | None]:
        """Our codes of a source and a target language, see `Languages.find_pair`."""
        try:
            return self.languages.find_pair(source, target)
        except UserError as error:
            raise ServiceError(error.code, error.problem, where=error.where) from error

    def choose(self, source: str, target: str | None) -> NamedDirection:
        """The direction from a source to a target language, in our codes; a missing target is the only one.

        If both are the same, the run is "": the text stays as it is.
        """
        try:
            start, end = self.languages.choose(source, target)
        except UserError as error:
            code = "invalid-request" if error.where == "target" else error.code
            raise ServiceError(code, error.problem, error.remedy, where=error.where) from error
        served = next((item for item in self.directions if item[:2] == (start, end)), None)
        if served is None and start != end:  # the languages of two runs
            raise ServiceError("unknown-pair", f"no run translates from {start} to {end}", where=f"{start}:{end}")
        return served or (source, source, "")


def parse_languages(values: Sequence[str], models: Mapping[str, Model]) -> dict[str, tuple[Direction, ...]]:
    """The directions that the setting `languages` gives to runs: RUN=SOURCE:TARGET."""
    directions: dict[str, tuple[Direction, ...]] = {}
    for value in values:
        name, _, pair = value.rpartition("=")
        source, colon, target = pair.partition(":")
        if not colon or not source or not target or name not in models:
            unknown = bool(name and source and target)
            problem = "no such run" if unknown else "not of the form RUN=SOURCE:TARGET"
            form = f"use RUN=SOURCE:TARGET, e.g. {next(iter(models), 'de')}=en:de"
            remedy = f"choose a served run: {', '.join(models)}" if unknown else form
            raise UserError(f"`--languages {value}`: {problem}", remedy, code="invalid-option", where="languages")
        directions[name] = (*directions.get(name, ()), (source.lower(), target.lower()))
    return directions


def public_code(code: str) -> str:
    """The code that LibreTranslate writes for a language."""
    return WRITTEN.get(code, code)


def name_of(code: str) -> str:
    """The English name of a language; the code itself if it has none."""
    from babel import Locale

    names = Locale("en").languages
    return str(names.get(code) or names.get(code.partition("-")[0]) or code)
