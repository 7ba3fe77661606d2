"""Translation memories: sentences whose translation is known. They are looked up before a model is asked.

    files     TMX, XLIFF, or a table (.tsv, .csv): the first row has language codes, each column is a language, and
              every direction between two of them is served; two columns without codes are sources and translations
              of the direction that is asked for, whichever it is
    exact     the text as it is in the memory
    folded    without regard to blanks, the case of the first letter, capitals, and marks at the end; the translation
              gets the marks and capitals of the text: "KEEP OUT!" is found as "Keep out" -> "BETRETEN VERBOTEN!"

A lookup is two accesses to a dictionary, which is made at the first sentence of a direction.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Union

from regard.data.bitext import matches_language, read_units
from regard.data.records import Location, csv_rows, file_ending, read_lines
from regard.documents.capitals import is_upper
from regard.documents.protecting import capitalised, find_code
from regard.documents.scripts import LANGUAGES
from regard.documents.sentences import WIDE, Rewriting
from regard.errors import UserError
from regard.run_files import FOLDER
from regard.tasks.languages import TRADITIONAL, Languages, main_code

Row = Mapping[str, str]
"""The same sentence in several languages, by their codes."""
Pair = tuple[str, str]
SOURCE, TARGET = "source", "target"
"""The keys of a row without languages."""
MemoryInput = Union["TranslationMemory", str, Path, Sequence[str | Path], Mapping[str, str], bool, None]
"""None or True: the bundled memory, if the model has one; False: none. Files and {source: translation} are looked up
first. A `TranslationMemory` is used alone."""

PHRASES = FOLDER / "phrases.tsv"
"""The memory of the bundled translator."""
BITEXT = (".tmx", ".xlf", ".xliff")
HEADERS = [SOURCE, TARGET], ["src", "tgt"]
"""First rows of tables that name no languages."""
_CODE = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8})*")
_KNOWN = frozenset[str]().union(*LANGUAGES.values())
_MARKS = ".!?:…。！？：｡"
_OPENING = {"?": "¿", "!": "¡"}
_WIDE_MARKS = str.maketrans({".": "。", "!": "！", "?": "？", ":": "：", "…": "……"})


class TranslationMemory:
    """Sentences and their translations: rows of any languages, and pairs for whichever direction is asked."""

    def __init__(self, rows: Iterable[Row] = (), pairs: Iterable[Pair] = ()) -> None:
        self.rows: list[Row] = [{main_code(code): text for code, text in row.items()} for row in rows]
        self.rows += [{SOURCE: source, TARGET: target} for source, target in pairs]
        self._directions: dict[tuple[object, ...], _Direction] = {}

    @classmethod
    def read(cls, *paths: str | Path) -> "TranslationMemory":
        """The memory in some files; if several translate a sentence, the first one does."""
        rows: list[Row] = []
        for path in map(Path, paths):
            found = list(_read_bitext(path) if file_ending(path.name) in BITEXT else _read_table(path))
            if not found:
                problem = f"{path} contains no translations"
                raise UserError(problem, "add at least one row", code="no-data", where=path)
            rows += found
        return cls(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __add__(self, other: "TranslationMemory") -> "TranslationMemory":
        return TranslationMemory([*self.rows, *other.rows])

    @cached_property
    def named(self) -> "TranslationMemory":
        """The rows with languages: pairs are not used on the way through a pivot language, which they may not be in."""
        return TranslationMemory(row for row in self.rows if SOURCE not in row)

    def serves(self, languages: Languages) -> bool:
        """True if it may have translations for a model: pairs, or rows with both languages of a direction."""
        codes = {code for row in self.rows for code in row}
        return SOURCE in codes or any(
            any(matches_language(code, main_code(source)) for code in codes) and target_codes(codes, target)
            for source, target in languages.pairs
        )

    def find(self, text: str, source: str | None, target: str | None, placeholders: Sequence[str] = ()) -> str | None:
        """The translation of a sentence, or None. Without a source language, any row with the sentence counts.

        Code in a sentence is replaced by placeholders, as a document does it for a model.
        """
        key = (source, target, tuple(placeholders))
        if key not in self._directions:
            self._directions[key] = _Direction(self._pairs(source, target), target or "", placeholders)
        return self._directions[key].find(text)

    def _pairs(self, source: str | None, target: str | None) -> Iterator[Pair]:
        """The pairs of a direction."""
        for row in self.rows:
            if SOURCE in row:
                yield row[SOURCE], row[TARGET]
                continue
            wanted = [row[code] for code in target_codes(row, target or "")]
            for code, text in row.items() if wanted else ():
                is_source = matches_language(code, main_code(source)) if source else text != wanted[0]
                if is_source and text:
                    yield text, wanted[0]


def target_codes(codes: Iterable[str], target: str) -> list[str]:
    """The codes of a target language: its own before regional forms. Readers of zh do not read traditional Chinese."""
    main = main_code(target)
    found = (code for code in codes if matches_language(code, main) and (code != TRADITIONAL or main == TRADITIONAL))
    return sorted(found, key=lambda code: code != main)


class _Direction:
    """The dictionaries of one direction."""

    def __init__(self, pairs: Iterable[Pair], target: str, placeholders: Sequence[str]) -> None:
        self.target, self.exact = target, dict[str, str]()
        self.folded: dict[str, dict[str, str]] = {}
        """Of each folded text, translations by the marks at its end."""
        self.lowered: dict[str, dict[str, str]] = {}
        """The same in lowercase, for texts in capitals only: "who" is not WHO."""
        for source, translation in pairs:
            masked = mask_code(source.strip(), translation.strip(), placeholders)
            if masked is not None and all(masked):
                self.exact.setdefault(*masked)
                core, mark = split_mark(masked[0])
                for table, key in ((self.folded, fold(core)), (self.lowered, fold(core).lower())):
                    table.setdefault(key, {}).setdefault(mark, masked[1])

    def find(self, text: str) -> str | None:
        text = text.strip()
        if (exact := self.exact.get(text)) is not None:
            return exact
        core, mark = split_mark(text)
        key = fold(core)
        found, capitals = self.folded.get(key), False
        if not found and is_upper(text):
            found, capitals = self.lowered.get(key.lower()), True
        if not core or not found:
            return None
        candidates = [own for own in (mark, mark[:1], "", *found) if own in found and fits(mark, own)]
        if not candidates:
            return None
        translation = found[candidates[0]]
        translation = translation if mark == candidates[0] else with_mark(translation, mark, self.target)
        if capitals:
            return translation.upper()
        first = next((letter for letter in text if letter.isalpha()), "")
        return capitalised(translation) if first.isupper() else translation


def fold(text: str) -> str:
    """A sentence in normal form: one space for any blank, plain apostrophes, a small first letter."""
    plain = " ".join(unicodedata.normalize("NFC", text).replace("’", "'").split())
    return plain[:1].lower() + plain[1:]


def split_mark(text: str) -> tuple[str, str]:
    """A sentence without the marks that end and, in Spanish, begin it; and its end mark in Latin form, "" for none."""
    core = text.rstrip(_MARKS + " \u00a0\u202f")
    mark = text[len(core) :].strip().translate(WIDE).replace("｡", ".").replace("……", "…").replace("...", "…")
    return core.lstrip("¿¡ "), mark


def fits(mark: str, other: str) -> bool:
    """True if sentences with these end marks may be one: a question is no statement, and no mark may be either."""
    return not mark or not other or ("?" in mark) == ("?" in other)


def with_mark(text: str, mark: str, language: str) -> str:
    """A translation with a different end mark, in the form of its language."""
    core, own = split_mark(text)
    if own and any(opening in core for opening in "¿¡"):  # Hola, ¿cómo está?
        return text
    if language.startswith(("zh", "ja")):
        return core + mark.translate(_WIDE_MARKS)
    if language.startswith("fr") and mark[:1] in ("!", "?", ":"):
        return f"{core} {mark}"
    opening = _OPENING.get(mark[:1], "") if language.startswith("es") else ""
    return opening + core + mark


def mask_code(source: str, target: str, placeholders: Sequence[str]) -> Pair | None:
    """A pair with placeholders for its code; None if both sides have different code."""
    spans, others = (list(find_code(text)) if placeholders else [] for text in (source, target))
    codes, copies = [source[slice(*span)] for span in spans], [target[slice(*span)] for span in others]
    if not codes:
        return source, target
    if Counter(codes) != Counter(copies) or len(codes) > len(placeholders):
        return None
    symbols = dict[str, list[str]]()
    for code, symbol in zip(codes, placeholders, strict=False):
        symbols.setdefault(code, []).append(symbol)
    masked = Rewriting.of(source, ((*span, symbol) for span, symbol in zip(spans, placeholders, strict=False))).text
    edits = [(*span, symbols[code].pop(0)) for span, code in zip(others, copies, strict=True)]
    return masked, Rewriting.of(target, edits).text


# ---- files -----------------------------------------------------------------------------------------------------------


def _read_bitext(path: Path) -> Iterator[Row]:
    """The units of a TMX or XLIFF file."""
    for unit in read_units(path):
        row: dict[str, str] = {}
        for side, text in unit.texts:
            row.setdefault(unit.languages[side] if len(unit.languages) > 1 else side, text)
        if len(row) > 1:
            yield row


def _read_table(path: Path) -> Iterator[Row]:
    """The rows of a table; two columns without language codes are "source" and "target"."""
    lines = read_lines(path)
    if file_ending(path.name) == ".csv":
        cells = ((row.number, row.cells) for row in csv_rows(lines, path))
    else:
        cells = ((number, line.split("\t")) for number, line in enumerate(lines, 1))
    codes: list[str] = []
    for number, values in cells:
        row = [value.strip() for value in values]
        if not codes:
            is_header = len({*row}) == len(row) > 1 and all(map(is_code, row))
            codes = row if is_header else [SOURCE, TARGET]
            if is_header or [value.lower() for value in row] in HEADERS:
                continue
        if not any(row):
            continue
        if len(row) != len(codes):
            remedy = "write one row per sentence; more than two columns need a first row of codes, e.g. en, de and fr"
            raise Location(path, number).error(f"has {len(row)} columns instead of {len(codes)}", remedy)
        filled = {code: text for code, text in zip(codes, row, strict=True) if text}
        if len(filled) > 1:
            yield filled


def is_code(text: str) -> bool:
    """True for the code of a language, e.g. en or zh-CN."""
    return bool(_CODE.fullmatch(text)) and re.split("[-_]", text.lower())[0] in _KNOWN


@cache
def bundled_memory(is_bundled: bool = True) -> TranslationMemory:
    """The memory of the bundled translator; empty for other runs, and if this installation has none."""
    return TranslationMemory.read(PHRASES) if is_bundled and PHRASES.is_file() else TranslationMemory()


def choose_memory(memory: MemoryInput, is_bundled: bool, languages: Languages) -> TranslationMemory | None:
    """The memory that an argument means (see `MemoryInput`), for a model with these languages."""
    bundled = bundled_memory(is_bundled)
    if memory is None or isinstance(memory, bool):
        return bundled if memory is not False and len(bundled) else None
    alone = isinstance(memory, TranslationMemory)
    if isinstance(memory, TranslationMemory):
        given = memory
    elif isinstance(memory, Mapping):
        given = TranslationMemory(pairs=list(memory.items()))
    else:
        given = TranslationMemory.read(*([memory] if isinstance(memory, str | Path) else memory))
    check_served(given, [languages])
    return given if alone else given + bundled


def check_served(memory: TranslationMemory, models: Sequence[Languages]) -> None:
    """Raise a UserError if a memory has no direction of any model with these languages."""
    if len(memory) and not any(map(memory.serves, models)):
        problem = "the translation memory has no direction of this model"
        remedy = "check the language codes in its first row; for a run without languages, set source and target"
        raise UserError(problem, remedy, code="unknown-pair", where="memory")


def check_directions(memory: TranslationMemory, models: Sequence[Languages]) -> None:
    """The same for a server, which does not know the direction of pairs: raise a UserError if it has several."""
    check_served(memory, models)
    if len(memory.named) < len(memory) and len({pair for languages in models for pair in languages.pairs}) > 1:
        problem = "the translation memory names no languages, and the server has several directions"
        remedy = "name them: in the first row of a table, e.g. en, tab, de; `target-language` in XLIFF"
        raise UserError(problem, remedy, code="unknown-pair", where="memory")
