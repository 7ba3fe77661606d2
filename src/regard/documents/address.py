"""Forms of address: whether a sentence says Sie or du, vous or tu, usted or tú, 您 or 你 (address.toml).

    form_of("Können Sie mir helfen?", "de")    "formal"
    form_of("Kannst du mir helfen?", "de")     "informal"
    form_of("Es regnet.", "de")                ""

Words decide, not grammar: "Komm her!" has no such word and therefore no form. A German sentence that begins with "Sie"
may mean she or they; with its source at hand, it counts if that says "you" and nobody else is spoken of.
"""

import re
import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

from regard.errors import UserError

FORMAL, INFORMAL, MIXED = "formal", "informal", "mixed"
Formality = Literal["default", "more", "less", "prefer_more", "prefer_less"]
WANTED = {"default": "", "more": FORMAL, "less": INFORMAL, "prefer_more": FORMAL, "prefer_less": INFORMAL}
"""The values of `formality`, as in DeepL's API, and the form that each asks for."""
_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_CHANGED = {FORMAL: (str(_TABLES["zh"][INFORMAL]), "您"), INFORMAL: ("您们?", "你")}


@cache
def _pattern(language: str, name: str) -> "re.Pattern[str] | None":
    found = _TABLES.get(language, {}).get(name)
    return re.compile(found) if found else None


def has_forms(language: str | None) -> bool:
    """True if sentences of a language can be told apart by their form of address."""
    return _code(language) in _TABLES.keys() - {"source"}


def form_of(text: str, language: str | None, source: str = "") -> str:
    """The form of address of a sentence: formal, informal, mixed, or "" if it shows none."""
    code = _code(language)
    names = [f"{form}{kind}" for form in (FORMAL, INFORMAL) for kind in ("", "_strict")[: 1 + addresses(source)]]
    found = {
        name.removesuffix("_strict") for name in names if (pattern := _pattern(code, name)) and pattern.search(text)
    }
    return MIXED if len(found) > 1 else "".join(found)


def addresses(source: str) -> bool:
    """True if an English source addresses somebody and speaks of nobody else who could be meant."""
    you, others = _pattern("source", "you"), _pattern("source", "others")
    assert you is not None and others is not None
    return bool(you.search(source.lower())) and not others.search(source.lower())


def is_other(text: str, language: str | None, wanted: str, source: str) -> bool:
    """True if a sentence shows another form of address than the wanted one; "" is any."""
    return bool(wanted) and form_of(text, language, source) not in ("", wanted)


def may_be_other(text: str, language: str | None, wanted: str, source: str, source_language: str | None) -> bool:
    """True if a known translation has another form than the wanted one. Spanish without a word of either form is taken
    as formal if its source addresses somebody: "¿Cómo está?"."""
    is_unmarked = _TABLES.get(_code(language), {}).get("unmarked") and not form_of(text, language, source)
    if is_unmarked and (addresses(source) or form_of(source, source_language)):
        return wanted == INFORMAL
    return is_other(text, language, wanted, source)


def swap_form(text: str, language: str | None, wanted: str) -> str | None:
    """A sentence in the wanted form if one word replaces the other, as in Chinese; None in other languages."""
    return re.sub(*_CHANGED[wanted], text) if _TABLES.get(_code(language), {}).get("swap") else None


def choose_form(texts: Sequence[str], source: str, language: str, wanted: str) -> int | None:
    """The index of the first text in the wanted form; None if there is none.

    Spanish leaves out pronouns, so that a text without a word of either form is often formal.
    """
    forms = [form_of(text, language, source) for text in texts]
    accepted = [wanted, *([""] if wanted == FORMAL and _TABLES.get(_code(language), {}).get("unmarked") else [])]
    return next((forms.index(form) for form in accepted if form in forms), None)


def check_formality(formality: str, language: str | None) -> None:
    """Raise UserError for an unknown value, and for more and less in a language without forms of address."""
    if formality not in WANTED:
        remedy = f"choose one of {', '.join(WANTED)}"
        raise UserError(f"unknown formality {formality!r}", remedy, code="invalid-option", where="formality")
    if formality in ("more", "less") and not has_forms(language):
        problem = f"the form of address cannot be chosen for the target language {language or 'of this run'}"
        remedy = f"use prefer_{formality}, which has no effect there, or leave `formality` out"
        raise UserError(problem, remedy, code="unsupported-option", where="formality")


def _code(language: str | None) -> str:
    return (language or "").lower().replace("_", "-").partition("-")[0]
