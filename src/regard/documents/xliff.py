"""XLIFF 1.2 and 2.x, the files of translation tools: units without a translation get one, everything else stays.

1.2   <trans-unit><source>Click <g id="1">here</g></source><target state="...">...</target></trans-unit>
2.0   <segment state="translated"><source>Click <pc id="1">here</pc></source><target>...</target></segment>

A target with text is kept, unless its state is "new" or "needs-translation". Inline elements move with their words;
native code in them (<ph>, <bpt>, ...) is not translated, nor are units and marks with translate="no". A unit without
words gets a copy of its source.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from regard.documents.markup import Token, collect, names
from regard.documents.xml import MixedReader, Vocabulary, XmlDocument, XmlItem, check_xml, damaged, join_raw

UNITS = names("trans-unit segment")
SCOPES = names("file group unit") | UNITS
"""Elements that may say whether their content is translated."""
INLINE = Vocabulary(frozenset(), inline=names("g pc mrk"))
STARTS, ENDS = names("bpt bx sc sm"), names("ept ex ec em")
"""Native code that belongs together in pairs."""
UNTRANSLATED = names("new needs-translation")
STATES = {"state": "needs-review-translation", "state-qualifier": "leveraged-mt"}
LANGUAGES = {"xliff": "trgLang", "file": "target-language"}
"""The state of a target of XLIFF 1.2 that a model has translated; where versions 2 and 1 name the target language."""


@dataclass
class XliffReader(MixedReader):
    """Reads an XLIFF file."""

    words: Vocabulary = INLINE

    def read(self, xml: str) -> XmlDocument:
        """Read a file."""
        check_xml(xml, "the file")
        return super().read(xml)

    def read_tokens(self, tokens: Iterator[Token]) -> None:
        scopes, version = [True], ""
        for token in tokens:
            if token.name == "xliff" and token.kind == "open":
                version = token.get("version")
            is_language = token.name == ("file" if version.startswith("1") else "xliff") and token.kind == "open"
            raw = self.set_language(token) if is_language else token.raw
            if token.name in SCOPES and not token.is_empty and token.kind == "open":
                choice = token.get("translate")
                scopes.append(choice == "yes" or (choice != "no" and scopes[-1]))
                if token.name in UNITS:
                    self.read_unit(collect(token, tokens)[0], scopes.pop())
                    continue
            elif token.name in SCOPES and token.kind == "close":
                scopes.pop()
            self.template.append(raw)
        if not version:
            raise damaged('it is not XLIFF: it has no <xliff version="...">')

    def set_language(self, token: Token) -> str:
        """A tag with the target language; a UserError if the file is for a different one."""
        name, target = LANGUAGES[token.name], self.options.target
        own = token.get(name.lower())
        self.options.check_target(own, name)
        return token.raw if own or not target else set_attribute(token.raw, name, target)

    def read_unit(self, unit: Sequence[Token], is_translated: bool) -> None:
        """Add a unit; its target is filled if it has none."""
        tokens = iter(unit[1:-1])
        children = [collect(token, tokens)[0] if token.kind == "open" else [token] for token in tokens]
        found = {child[0].name: number for number, child in enumerate(children) if child[0].name}
        number = found.get("seg-source", found.get("source"))
        source = [] if number is None else children[number][1:-1]
        old = children[found["target"]] if "target" in found else []
        is_filled = has_content(old[1:-1]) and old[0].get("state") not in UNTRANSLATED
        if number is None or not is_translated or is_filled or not has_content(source):
            self.template.append(join_raw(unit))
            return
        start, tag = unit[0].raw, old[0].raw.replace("/>", ">") if old else "<target>"
        if unit[0].name == "trans-unit":
            for name, value in STATES.items():
                tag = set_attribute(tag, name, value)
        else:
            start = set_attribute(re.sub(r"""\ssubState\s*=\s*(?:"[^"]*"|'[^']*')""", "", start), "state", "translated")
        blank = join_raw(children[number - 1]) if not old and number and children[number - 1][0].kind == "text" else ""
        place = found["target"] if old else number + 1
        self.template += [start, *(join_raw(child) for child in children[:place]), blank + tag]
        first = len(self.slots)
        self.add_paragraph(join_raw(source), self.read_inline(source), first)
        rest = children[place + 1 :] if old else children[place:]
        self.template += ["</target>", *(join_raw(child) for child in rest), unit[-1].raw]

    def read_items(self, tokens: Iterator[Token], level: int) -> Iterator[XmlItem]:
        """The pieces of a source; native code that belongs together is an opening and a closing tag.

        A segment in it, <mrk mtype="seg">, is a passage.
        """
        for item in super().read_items(tokens, level):
            name = item.token.name
            if name == "mrk" and item.token.get("mtype") == "seg":
                item = replace(item, kind="delimiter")
            elif name in STARTS | ENDS:
                key = item.token.get("startref") or item.token.get("rid") or item.token.get("id")
                kind = "open" if name in STARTS else "close"
                item = XmlItem(kind, item.raw, Token(kind, item.raw, f"code {key}"), markup=item.markup)
            yield item


def has_content(tokens: Sequence[Token]) -> bool:
    """True if there is text or an element among some tokens."""
    return any(token.name or (token.kind == "text" and token.raw.strip()) for token in tokens)


def set_attribute(tag: str, name: str, value: str) -> str:
    """A tag with an attribute that has this value."""
    pattern = rf"""(\s{name}\s*=\s*)(?:"[^"]*"|'[^']*')"""
    replaced, count = re.subn(pattern, rf'\1"{value}"', tag)
    return replaced if count else re.sub(r"\s*(/?>)\Z", rf' {name}="{value}"\1', tag)
