"""Translation memories, TMX and XLIFF 1.2 and 2.0, as pairs.

    TMX         <tu> <tuv xml:lang="en"><seg>Save</seg></tuv> <tuv xml:lang="de"><seg>Speichern</seg></tuv> </tu>
    XLIFF 1.2   <trans-unit> <source>Save</source> <target>Speichern</target> </trans-unit>
    XLIFF 2.0   <unit> <segment> <source>Save</source> <target>Speichern</target> </segment> </unit>

The text inside of inline codes (`<bpt>&lt;b&gt;</bpt>`, `<ph>`) is markup of the translated program and not part of a
segment; that inside of `<g>`, `<pc>`, `<mrk>` and `<hi>` is. Entities of a file's own are refused: they can name other
files and grow without bounds.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.parsers import expat

from regard.data.records import DAMAGED, Location, Opener, Record, SourceFiles
from regard.data.sources import Source
from regard.errors import UserError
from regard.files import open_binary

UNITS = ("tu", "trans-unit", "segment")
TEXTS = ("seg", "source", "target")
CODES = ("bpt", "ept", "ph", "it", "ut", "x", "bx", "ex", "sc", "ec", "sub")
XML_LANG = "http://www.w3.org/XML/1998/namespace lang"
XLIFF_LANGUAGES = {
    "xliff": {"srcLang": "source", "trgLang": "target"},
    "file": {"source-language": "source", "target-language": "target"},
}
"""Where versions 2 and 1 of XLIFF name the languages."""
UNTRANSLATED = ("new", "needs-translation")
"""The states of a target of XLIFF 1.2 that is no translation, but often a copy of the source."""
MAX_DEPTH, MAX_CHARACTERS = 100, 1 << 24
"""Deepest nesting, and characters of the longest segment."""
CHUNK = 1 << 16


class BitextUnit(NamedTuple):
    """The texts of one unit, each after its language in TMX, and after "source" or "target" in XLIFF."""

    location: Location
    texts: list[tuple[str, str]]
    default: str
    """The source language that the header of a TMX file names, or ""."""
    languages: dict[str, str]
    """The languages that an XLIFF file names for "source" and "target", if it does."""


def read_bitext(files: SourceFiles) -> Iterator[Record]:
    """The pairs of a TMX or XLIFF file; a unit without one of its two texts is left out and counted."""
    for unit in read_units(files.paths[0], files.opener):
        files.account.read += 1
        pair = _pair(unit, files.source)
        if pair is None:
            files.account.drop("no_target")
        else:
            yield Record(unit.location, pair)


def read_units(path: Path, opener: Opener = open_binary) -> Iterator[BitextUnit]:
    """The units of a TMX or XLIFF file with the texts of all their languages."""
    reader = _Reader(path)
    with opener(path) as stream:
        final = False
        while not final:
            try:
                chunk = stream.read(CHUNK)
                final = not chunk
                reader.parser.Parse(chunk, final)
            except expat.ExpatError as error:
                remedy = "correct the file; a whole translation memory is well-formed XML"
                raise Location(path, error.lineno).error(f"is not XML: {error}", remedy, "bad-xml") from error
            except (*DAMAGED, ValueError) as error:  # ValueError: an unknown encoding
                raise Location(path).error(f"cannot be read: {error}", "copy it again", "damaged-file") from error
            yield from reader.units
            reader.units.clear()


class _Reader:
    """Handlers of the XML parser; `units` has those that are complete."""

    def __init__(self, path: Path) -> None:
        self.units: list[BitextUnit] = []
        self._path = path
        self._open: list[str] = []
        """The names of the elements that are open, without prefixes."""
        self._texts: list[tuple[str, str]] = []
        """The texts of the unit: their languages in TMX, "source" and "target" in XLIFF."""
        self._language, self._default, self._begin, self._text = "", "", 0, list[str]()
        self._languages, self._is_translated = dict[str, str](), True
        self.parser = parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._characters
        parser.EntityDeclHandler = lambda *_: self._refuse("declares an entity")
        parser.SkippedEntityHandler = lambda *_: self._refuse("uses an unknown entity")

    def _error(self, problem: str, remedy: str) -> UserError:
        return Location(self._path, self.parser.CurrentLineNumber).error(problem, remedy, "bad-xml")

    def _refuse(self, problem: str) -> None:
        raise self._error(problem, "replace it by its text")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        name = name.rpartition(" ")[2]
        self._open.append(name)
        if len(self._open) == 1 and name not in ("tmx", "xliff"):
            raise self._error(f"begins with <{name}>: not a TMX or XLIFF file", "choose a file with <tmx> or <xliff>")
        if len(self._open) > MAX_DEPTH:
            self._refuse(f"has more than {MAX_DEPTH} elements inside of each other")
        if name == "header":
            self._default = attributes.get("srclang", "")
        elif name in XLIFF_LANGUAGES:
            named = {side: attributes[key] for key, side in XLIFF_LANGUAGES[name].items() if attributes.get(key)}
            self._languages = named or self._languages
        elif name in UNITS:
            self._texts, self._begin = [], self.parser.CurrentLineNumber
        elif name == "tuv":
            self._language = attributes.get(XML_LANG, attributes.get("lang", ""))
            if not self._language:
                self._refuse("has a <tuv> without xml:lang")
        elif self._is_text():
            self._text, self._language = [], name if name != "seg" else self._language
            self._is_translated = attributes.get("state") not in UNTRANSLATED
        elif name == "cp":
            self._refuse("has a character that XML cannot contain (<cp>)")

    def _is_text(self) -> bool:
        """True if the innermost element is the text of a unit, and not of an alternative or a note."""
        parent = self._open[-2] if len(self._open) > 1 else ""
        return self._open[-1] in TEXTS and parent in (*UNITS, "tuv")

    def _characters(self, text: str) -> None:
        inside = next((i for i, name in enumerate(self._open) if name in TEXTS), len(self._open))
        if inside < len(self._open) and not {*self._open[inside:]} & {*CODES}:
            self._text.append(text)
            if sum(map(len, self._text)) > MAX_CHARACTERS:
                self._refuse(f"has a segment of more than {MAX_CHARACTERS:,} characters")

    def _end(self, name: str) -> None:
        if self._is_text() and self._is_translated:
            self._texts.append((self._language, "".join(self._text)))
        if self._open.pop() in UNITS:
            place = Location(self._path, self._begin)
            self.units.append(BitextUnit(place, self._texts, self._default, self._languages))


def _pair(unit: BitextUnit, source: Source) -> dict[str, str] | None:
    """Source and target of a unit; None if one is missing."""
    languages = [language for language, _ in unit.texts]
    given = (source.src_lang or unit.default, source.tgt_lang)
    if {*languages} <= {"source", "target"}:
        given = ("source", "target")
    src, tgt = ([i for i, name in enumerate(languages) if matches_language(name, wanted)] for wanted in given)
    tgt = tgt if given[1] else [i for i in range(len(languages)) if i not in src]
    if len(src) > 1 or len(tgt) > 1:
        problem = f"has a unit with the texts {', '.join(languages)}, and it is not clear which two are meant"
        remedy = "set src_lang and tgt_lang, e.g. en and de; or keep one text of each"
        raise unit.location.error(problem, remedy, "bad-xml")
    return {"src": unit.texts[src[0]][1], "tgt": unit.texts[tgt[0]][1]} if src and tgt else None


def matches_language(name: str, wanted: str | None) -> bool:
    """True if a language is the one that is wanted, or a regional form of it: en-GB is en."""
    name, wanted = name.lower().replace("_", "-"), (wanted or "").lower().replace("_", "-")
    return bool(wanted) and (name == wanted or name.partition("-")[0] == wanted)
