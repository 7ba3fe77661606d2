"""Which run translates from one language to another."""

from collections.abc import Mapping, Sequence

from regard.errors import UserError
from regard.run.model import Model
from regard.serve.errors import ServiceError
from regard.tasks.languages import TRADITIONAL, chinese_code

Direction = tuple[str, str]
"""Codes of the source and the target language."""
NamedDirection = tuple[str, str, str]
"""A direction and the name of its run."""


def parse_languages(values: Sequence[str], models: Mapping[str, Model]) -> dict[str, tuple[Direction, ...]]:
    """The directions that the setting `languages` gives to runs: RUN=SOURCE:TARGET."""
    found: dict[str, tuple[Direction, ...]] = {}
    for value in values:
        name, _, pair = value.rpartition("=")
        source, colon, target = pair.partition(":")
        if not colon or not source or not target or name not in models:
            problem = "no such run" if name and source and target else "not of the form RUN=SOURCE:TARGET"
            raise UserError(
                f"--languages {value}: {problem}",
                f"write RUN=SOURCE:TARGET, for example {next(iter(models), 'de')}=en:de",
                code="invalid-option",
                where="languages",
            )
        found[name] = (*found.get(name, ()), (source.lower(), target.lower()))
    return found


def find_codes(
    directions: Sequence[NamedDirection], source: str | None, target: str | None
) -> tuple[str | None, str | None]:
    """The codes of the runs for a source and a target language in any case; Chinese has several codes.

    Traditional Chinese is read by a run that reads Chinese, and written only by one that says so.
    """
    known = {code for direction in directions for code in direction[:2]}
    chinese = {chinese_code(code): code for code in sorted(known)}

    def find(code: str) -> str:
        return code.lower() if code.lower() in known else chinese.get(chinese_code(code), chinese_code(code))

    found = find(source) if source else None, find(target) if target else None
    if found[0] != TRADITIONAL or TRADITIONAL in known or "zh" not in chinese:
        return found
    if found[1] == chinese["zh"]:
        raise unknown_pair(TRADITIONAL, found[1])
    return chinese["zh"], found[1]


def known_languages(codes: set[str]) -> str:
    """A remedy that lists the languages."""
    return f"known languages: {', '.join(sorted(codes)) or 'none'}"


def choose(directions: Sequence[NamedDirection], source: str, target: str | None) -> NamedDirection:
    """The direction from a source to a target language (None: the only one); codes in any case.

    If both are the same, the run is "": the text stays as it is.
    """
    source, wanted = source.lower(), target.lower() if target else None
    codes = {code for direction in directions for code in direction[:2]}
    for code in filter(None, (source, wanted)):
        if code not in codes:
            raise ServiceError(
                "unknown-language", f"no run knows the language {code[:40]}", known_languages(codes), where=code[:40]
            )
    if source == wanted:
        return source, source, ""
    found = [item for item in directions if item[0] == source and wanted in (None, item[1])]
    if wanted is None and len({item[1] for item in found}) > 1:
        raise ServiceError("invalid-request", "the target language is missing", known_languages(codes))
    if not found:
        raise unknown_pair(source, wanted)
    return found[0]


def unknown_pair(source: str, target: str | None) -> ServiceError:
    """The error of a direction that no run has."""
    problem = f"no run translates from {source} to {target}" if target else f"no run translates from {source}"
    return ServiceError("unknown-pair", problem, where=f"{source}:{target or ''}")
