"""Trees of phrases: read and written in the brackets of a treebank, and as the tokens that a model generates.

    (ROOT (S (NP (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .)))               brackets, `parsed`, `to_brackets`

    (S (NP XX )NP (VP XX (NP XX XX )NP )VP XX )S                                       tokens, `linearize`

The tokens are the tree without its words, from left to right, so that parsing is translation from words to tokens. A
phrase closes with its label, and every word is XX: its part of speech is not needed to build the tree, and leaving it
out made parsing better (Vinyals et al. 2015, "Grammar as a Foreign Language", sections 2.2 and 3). The Transformer
learnt to parse in the same way (Vaswani et al. 2017, section 6.3). They had 40,000 trees and more; with ten thousand a
model that writes XX loses count of the words, and one that writes tags or words loses it less.

`from_tokens` is the inverse. For any tokens it gives a tree over exactly the words of the sentence.

Treebanks have different outer brackets: (ROOT ...), (TOP ...), (S1 ...), ( ...). The trees of `normalize` and
`from_tokens` have a ROOT, which is not a token: it holds the phrases of a sentence, most often one.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from regard.errors import UserError

Leaves = Literal["XX", "tags", "words"]
"""The token for a word."""

ROOT = "ROOT"
OUTER = ("", ROOT, "TOP", "S1")  # labels of the bracket around a sentence in treebanks
TRACE = "-NONE-"
UNTAGGED = "XX"
TOKEN = re.compile(r"[()]|[^ \t\r\n()]+")
ESCAPES = str.maketrans({"(": "-LRB-", ")": "-RRB-"})
BRACKETS = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


@dataclass(frozen=True)
class Tree:
    """A phrase, its label over its children; or, without children, a word under its part of speech."""

    label: str
    children: tuple["Tree", ...] = ()
    word: str = ""


class Built(NamedTuple):
    """A tree made of generated tokens; `repaired` is True if the tokens were not a complete tree."""

    tree: Tree
    repaired: bool


@dataclass
class _Open:
    """A phrase that is not closed yet."""

    label: str = ""
    children: list[Tree] = field(default_factory=list)
    line: int = 0
    word: str = ""
    named: bool = False


def walk(tree: Tree) -> Iterator[tuple[Tree, bool]]:
    """Every phrase twice, (phrase, True) before and (phrase, False) after what it holds; every word once, with True. A
    generated tree can be deeper than Python's recursion limit, so there is no recursion in this file."""
    stack = [(tree, True)]
    while stack:
        node, opens = stack.pop()
        yield node, opens
        if opens and node.children:
            stack.append((node, False))
            stack += [(child, True) for child in reversed(node.children)]


def leaves(tree: Tree) -> list[Tree]:
    """The words from left to right, each under its part of speech."""
    return [node for node, _ in walk(tree) if not node.children]


def words(tree: Tree) -> list[str]:
    return [leaf.word for leaf in leaves(tree)]


# ---- brackets


def parsed(lines: Iterable[str], source: str = "text") -> Iterator[Tree]:
    """The trees of a text in brackets; a tree may span several lines."""
    return (tree for _, tree in numbered(lines, source))


def numbered(lines: Iterable[str], source: str = "text") -> Iterator[tuple[int, Tree]]:
    """The trees of a text in brackets, each with its first line; an error names `source` and the line."""
    stack: list[_Open] = []
    number = 0
    for number, line in enumerate(lines, 1):
        for token in TOKEN.findall(line):
            if token == "(":
                if stack and stack[-1].word:
                    raise _broken(source, number, f"a bracket after the word {stack[-1].word!r}")
                stack.append(_Open(line=number))
            elif not stack:
                raise _broken(source, number, f"{token!r} outside of all brackets")
            elif token == ")":
                top = stack.pop()
                if not top.word and not top.children:
                    raise _broken(source, top.line, f"the bracket ({top.label} ) holds nothing")
                tree = Tree(top.label, tuple(top.children), top.word)
                if stack:
                    stack[-1].children.append(tree)
                else:
                    yield top.line, tree
            else:
                _take(stack[-1], token, source, number)
    if stack:
        raise _broken(source, stack[0].line, "a tree begins that does not end")


def to_brackets(tree: Tree) -> str:
    """A tree as brackets on one line; the round brackets of words are written -LRB- and -RRB-."""
    brackets: list[str] = []
    for node, opens in walk(tree):
        if node.children:
            brackets.append(f" ({node.label}" if opens else ")")
        else:
            brackets.append(f" ({node.label} {node.word.translate(ESCAPES)})")
    return "".join(brackets).strip()


def _take(top: _Open, token: str, source: str, number: int) -> None:
    """Take a token that is not a bracket: the first in a bracket is a label, the second a word."""
    if not top.named and not top.children:
        top.label, top.named = token, True
    elif not top.word and not top.children:
        top.word = token
    else:
        raise _broken(source, number, f"{token!r} is a second word, or stands beside a bracket")


def _broken(source: str, line: int, problem: str) -> UserError:
    remedy = "write a tree as (S (NP (DT the) (NN cat)) (VP (VBZ sleeps))), and brackets in words as -LRB- and -RRB-"
    return UserError(f"{source}, line {line}: {problem}", remedy, code="bad-tree", where=f"{source}:{line}")


def base_label(label: str) -> str:
    """A label without functions and indices: NP-SBJ-1 -> NP, PP=2 -> PP; -NONE- stays as it is."""
    return label if label.startswith(("-", "=")) else re.split("[-=]", label, maxsplit=1)[0]


def normalize(tree: Tree) -> Tree | None:
    """The tree that parsers learn: base labels, no traces, no empty phrases, and a ROOT around it. Phrases with one
    child are kept, as every score counts them. A tree of nothing but traces gives None."""
    stack: list[list[Tree]] = [[]]
    for node, opens in walk(tree):
        if not node.children:
            stack[-1] += [node] if node.label != TRACE else []
        elif opens:
            stack.append([])
        elif children := stack.pop():
            stack[-1].append(Tree(base_label(node.label), tuple(children)))
    if not stack[0]:
        return None
    (clean,) = stack[0]
    return Tree(ROOT, clean.children if tree.label in OUTER and clean.children else (clean,))


# ---- tokens


def sentence_text(sentence: Iterable[str]) -> str:
    """Words joined by spaces, with plain brackets: the line that a model reads."""
    return " ".join(BRACKETS.get(word, word) for word in sentence)


def tree_example(tree: Tree, leaves: Leaves = "XX") -> dict[str, str | list[str]]:
    """A normalised tree as an example: its words, the sentence, the linearised tree, and the tree in brackets."""
    return {
        "words": words(tree),
        "src": sentence_text(words(tree)),
        "tgt": " ".join(linearize(tree, leaves)),
        "tree": to_brackets(tree),
    }


def linearize(tree: Tree, leaves: Leaves = "XX") -> list[str]:
    """A normalised tree as the tokens that a model generates; a word is XX, its part of speech, or itself."""
    if tree.label != ROOT:
        raise ValueError(f"the tree begins with {tree.label!r}, not {ROOT}: normalize it first")
    tokens: list[str] = []
    for node, opens in walk(tree):
        if not node.children:
            tokens.append({"XX": UNTAGGED, "tags": node.label, "words": leaf_word(node.word)}[leaves])
        elif node is not tree:
            tokens.append(f"({node.label}" if opens else f"){node.label}")
    return tokens


def leaf_word(word: str) -> str:
    """A word as a token; a bracket at its start is escaped."""
    word = BRACKETS.get(word, word)
    return f"\\{word}" if word.startswith(("(", ")")) else word


def strip_tags(tree: Tree) -> Tree:
    """The tree with XX as the tag of every word."""
    stack: list[list[Tree]] = [[]]
    for node, opens in walk(tree):
        if not node.children:
            stack[-1].append(Tree(UNTAGGED, (), node.word))
        elif opens:
            stack.append([])
        else:
            children = stack.pop()
            stack[-1].append(Tree(node.label, tuple(children)))
    return stack[0][0]


def from_tokens(tokens: Sequence[str], sentence: Sequence[str]) -> Built:
    """The tree of generated tokens over the words of the sentence: the inverse of `linearize`, and it repairs errors.

    A closing token also closes the open phrases inside of its phrase, and is dropped if there is no such phrase. A
    phrase without words is dropped, and so is a token for a word that the sentence does not have. Words without a token
    belong to the phrase that is open when the tokens end, or else to the last one that was: mostly the sentence. Open
    phrases end with the tokens. Each of these is a repair.
    """
    if not sentence:
        raise ValueError("a tree over no words")
    stack, unused, repaired = [_Open(ROOT)], iter(sentence), False
    for token in tokens:
        if token.startswith("("):
            stack.append(_Open(token[1:]))
        elif token.startswith(")"):
            depth = next((d for d in range(len(stack) - 1, 0, -1) if stack[d].label == token[1:]), len(stack))
            repaired |= depth != len(stack) - 1
            repaired |= _close(stack, depth)
        elif (word := next(unused, None)) is None:
            repaired = True
        else:
            stack[-1].children.append(Tree(token, (), word))
    if left := [Tree(UNTAGGED, (), word) for word in unused]:
        top = stack[-1].children
        if len(stack) == 1 and top and top[-1].children:
            stack.append(_Open(top[-1].label, list(top.pop().children)))
        stack[-1].children += left
    repaired |= bool(left) or len(stack) > 1
    _close(stack, 1)
    return Built(Tree(ROOT, tuple(stack[0].children)), repaired)


def _close(stack: list[_Open], depth: int) -> bool:
    """Close the phrases from the innermost to the one at `depth`; return True if an empty one was dropped."""
    dropped = False
    while len(stack) > depth:
        phrase = stack.pop()
        if phrase.children:
            stack[-1].children.append(Tree(phrase.label, tuple(phrase.children)))
        dropped |= not phrase.children
    return dropped


def find_cycle(heads: Sequence[int]) -> list[int]:
    """The nodes of a cycle in dependencies; empty if there is none. heads[0], of the root, is -1."""
    reached_from = [-1] * len(heads)
    for start in range(1, len(heads)):
        node = start
        while node > 0 and reached_from[node] < 0:
            reached_from[node] = start
            node = heads[node]
        if node > 0 and reached_from[node] == start:
            cycle = [node]
            while heads[cycle[-1]] != node:
                cycle.append(heads[cycle[-1]])
            return cycle
    return []
