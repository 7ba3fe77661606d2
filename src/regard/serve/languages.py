"""Names and codes of languages for the compatible APIs, made from the directions of the served runs.

ours      LibreTranslate    DeepL
de        de                DE
zh        zh-Hans (or zh)   ZH (or ZH-HANS)
en        en                EN; as a target EN-US and EN-GB too

Our own API and that of Hugging Face accept all usual codes of Chinese, see `chinese_code`. A run that reads "zh" reads
both scripts, as the language identification does; it writes simplified characters.
"""

import html
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from regard.tasks.languages import TRADITIONAL

ALIASES = {"zh": "zh-Hans", "zt": "zh-Hant", "pb": "pt-BR"}
"""Short codes of LibreTranslate and the codes that it writes for them."""
TAG = re.compile(r"<[^<>]*>")
WRITTEN = ALIASES | {long.lower(): long for long in ALIASES.values()}


@dataclass(frozen=True)
class Languages:
    """The languages of a server and their directions: (source, target) codes as the runs have them."""

    pairs: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, directions: Iterable[tuple[str, str, str]]) -> "Languages":
        """The languages of (source, target, run) triples."""
        return cls(frozenset((source, target) for source, target, _ in directions))

    @cached_property
    def codes(self) -> list[str]:
        """All codes, English first, then by name."""
        return sorted({code for pair in self.pairs for code in pair}, key=lambda code: (code != "en", name_of(code)))

    def targets(self, source: str) -> list[str]:
        """The languages that a language can be translated to."""
        return [code for code in self.codes if (source, code) in self.pairs]

    @property
    def sources(self) -> list[str]:
        """The languages that can be translated."""
        return [code for code in self.codes if self.targets(code)]

    def find(self, code: str) -> str | None:
        """Our code of a language, given in any case and as a short or a long code; None if it is not served."""
        return self._known.get(code.lower())

    def find_source(self, code: str) -> str | None:
        """As `find`, for a language to translate from: traditional Chinese too, if Chinese can be translated."""
        found = self.find(code)
        if found is None and WRITTEN.get(code.lower(), "").lower() == TRADITIONAL and self.find("zh"):
            return TRADITIONAL
        return found

    @cached_property
    def _known(self) -> dict[str, str]:
        known = {code.lower(): code for code in self.codes}
        for short, long in ALIASES.items():
            for one, other in ((short, long.lower()), (long.lower(), short)):
                if one in known:
                    known.setdefault(other, known[one])
        return known


def without_tags(text: str) -> str:
    """The words of HTML, so that the language of a text is detected and not that of its tags."""
    return html.unescape(TAG.sub(" ", text))


def public_code(code: str) -> str:
    """The code that LibreTranslate writes for a language."""
    return WRITTEN.get(code, code)


def name_of(code: str) -> str:
    """The English name of a language; the code itself if it has none."""
    from babel import Locale

    names = Locale("en").languages
    return str(names.get(code) or names.get(code.partition("-")[0]) or code)
