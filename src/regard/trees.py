"""Trees of phrases: read and written as the brackets of a treebank, and as the tokens a model generates.

    (ROOT (S (NP (NNP John)) (VP (VBZ has) (NP (DT a) (NN dog))) (. .)))               brackets, `parsed`, `written`

    (S (NP XX )NP (VP XX (NP XX XX )NP )VP XX )S                                       tokens, `linearised`

The second is the tree without its words, from left to right, so that parsing is translation from words to tokens. A
phrase closes with its name, and every word is XX, since its part of speech is not needed to build the tree and leaving
it out made parsing better (Vinyals et al. 2015, "Grammar as a Foreign Language", sections 2.2 and 3). The Transformer
learnt to parse in the same way (Vaswani et al. 2017, section 6.3). Those had 40,000 trees and more; from ten thousand a
model that writes XX loses count of the words, and one that writes their tags, or the words, loses it less.

`built` is the way back. Whatever a model generates, it gives a tree over exactly the words of the sentence.

Treebanks differ in what they put around a sentence: (ROOT ...), (TOP ...), (S1 ...), ( ...). Trees that were `cleaned`
or `built` have a ROOT, which is no token: it holds the phrases of a sentence, most often one. Files of trees are read
in treebanks.py.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from regard.errors import UserError

Leaves = Literal["XX", "tags", "words"]
"""What stands for a word among the tokens."""

ROOT = "ROOT"
OUTER = ("", ROOT, "TOP", "S1")  # what treebanks and parsers call the bracket around a sentence
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
    """A tree made of generated tokens, and whether they had to be repaired for it."""

    tree: Tree
    repaired: bool


@dataclass
class _Open:
    """A phrase that is still growing."""

    label: str = ""
    children: list[Tree] = field(default_factory=list)
    line: int = 0
    word: str = ""
    named: bool = False


def walk(tree: Tree) -> Iterator[tuple[Tree, bool]]:
    """Every phrase twice, (phrase, True) before and (phrase, False) after what it holds; every word once, with True.

    What a model generates can be deeper than Python calls go, so nothing here descends by recursion.
    """
    ahead = [(tree, True)]
    while ahead:
        node, opens = ahead.pop()
        yield node, opens
        if opens and node.children:
            ahead.append((node, False))
            ahead += [(child, True) for child in reversed(node.children)]


def leaves(tree: Tree) -> list[Tree]:
    """The words from left to right, each under its part of speech."""
    return [node for node, _ in walk(tree) if not node.children]


def words(tree: Tree) -> list[str]:
    """The sentence."""
    return [leaf.word for leaf in leaves(tree)]


# ---- brackets


def parsed(lines: Iterable[str], source: str = "text") -> Iterator[Tree]:
    """The trees written in some lines as they stand there, over one line or several."""
    return (tree for _, tree in numbered(lines, source))


def numbered(lines: Iterable[str], source: str = "text") -> Iterator[tuple[int, Tree]]:
    """The same, each with the line it begins on; a bracket that makes no tree is named by its line of `source`."""
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
                line_of, tree = stack[-1].line, _closed(stack.pop(), source)
                if stack:
                    stack[-1].children.append(tree)
                else:
                    yield line_of, tree
            else:
                _take(stack[-1], token, source, number)
    if stack:
        raise _broken(source, stack[0].line, "a tree begins that does not end")


def written(tree: Tree) -> str:
    """A tree as brackets on one line; the round brackets of words are written -LRB- and -RRB-."""
    pieces: list[str] = []
    for node, opens in walk(tree):
        if node.children:
            pieces.append(f" ({node.label}" if opens else ")")
        else:
            pieces.append(f" ({node.label} {node.word.translate(ESCAPES)})")
    return "".join(pieces).strip()


def _take(top: _Open, token: str, source: str, number: int) -> None:
    """What is no bracket is a label if it comes first in one, a word if it comes second, and nothing else."""
    if not top.named and not top.children:
        top.label, top.named = token, True
    elif not top.word and not top.children:
        top.word = token
    else:
        raise _broken(source, number, f"{token!r} is a second word, or stands beside a bracket")


def _closed(top: _Open, source: str) -> Tree:
    if not top.word and not top.children:
        raise _broken(source, top.line, f"the bracket ({top.label} ) holds nothing")
    return Tree(top.label, tuple(top.children), top.word)


def _broken(source: str, line: int, problem: str) -> UserError:
    remedy = "a tree is (label tree ...), a word (tag word), a bracket inside a word -LRB- or -RRB-"
    return UserError(f"{source}, line {line}: {problem}", remedy)


def bare(label: str) -> str:
    """A phrase's label without functions and indices: NP-SBJ-1 -> NP, PP=2 -> PP; one that begins so stays as it is."""
    return label if label.startswith(("-", "=")) else re.split("[-=]", label, maxsplit=1)[0]


def cleaned(tree: Tree) -> Tree | None:
    """The tree that parsers learn: bare labels, no traces, no phrase that held nothing else, and a ROOT around it.

    Phrases of one child are kept, as every score counts them. A tree of nothing but traces is none.
    """
    stack: list[list[Tree]] = [[]]
    for node, opens in walk(tree):
        if not node.children:
            stack[-1] += [node] if node.label != TRACE else []
        elif opens:
            stack.append([])
        elif children := stack.pop():
            stack[-1].append(Tree(bare(node.label), tuple(children)))
    if not stack[0]:
        return None
    (clean,) = stack[0]
    return Tree(ROOT, clean.children if tree.label in OUTER and clean.children else (clean,))


# ---- tokens


def spoken(sentence: Iterable[str]) -> str:
    """Words as the line that a model reads: a blank between two, and brackets as people write them."""
    return " ".join(BRACKETS.get(word, word) for word in sentence)


def as_pair(tree: Tree, leaves: Leaves = "XX") -> tuple[str, str]:
    """A `cleaned` tree as a pair to translate: the line of its words, the line of its tokens."""
    return spoken(words(tree)), " ".join(linearised(tree, leaves))


def linearised(tree: Tree, leaves: Leaves = "XX") -> list[str]:
    """A `cleaned` tree as the tokens that a model generates; a word is XX, its part of speech, or itself."""
    if tree.label != ROOT:
        raise ValueError(f"the tree has no {ROOT} around it but {tree.label!r}: clean it first")
    tokens: list[str] = []
    for node, opens in walk(tree):
        if not node.children:
            tokens.append({"XX": UNTAGGED, "tags": node.label, "words": leaf_word(node.word)}[leaves])
        elif node is not tree:
            tokens.append(f"({node.label}" if opens else f"){node.label}")
    return tokens


def leaf_word(word: str) -> str:
    """A word as a token: one that begins as a bracket does is escaped, as it is none."""
    word = BRACKETS.get(word, word)
    return f"\\{word}" if word.startswith(("(", ")")) else word


def untagged(tree: Tree) -> Tree:
    """The same tree with XX over every word: what a model said in their place, a tag or the word, is no part of it."""
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


def built(tokens: Sequence[str], sentence: Sequence[str]) -> Built:
    """The tree that some tokens say, over the words of the sentence; `linearised` undone, and more forgiving.

    A closing token closes what stands open inside of its phrase too, and is dropped if there is no such phrase. A
    phrase without words is dropped, and so is a token for a word that the sentence has not. Words without a token
    belong to the phrase that is open when the tokens end, or else to the last one that was: mostly the sentence. What
    is still open ends with it. Any of these is a repair.
    """
    if not sentence:
        raise ValueError("a tree over no words")
    stack, rest, repaired = [_Open(ROOT)], iter(sentence), False
    for token in tokens:
        if token.startswith("("):
            stack.append(_Open(token[1:]))
        elif token.startswith(")"):
            depth = next((d for d in range(len(stack) - 1, 0, -1) if stack[d].label == token[1:]), len(stack))
            repaired |= depth != len(stack) - 1
            repaired |= _close(stack, depth)
        elif (word := next(rest, None)) is None:
            repaired = True
        else:
            stack[-1].children.append(Tree(token, (), word))
    if left := [Tree(UNTAGGED, (), word) for word in rest]:
        top = stack[-1].children
        if len(stack) == 1 and top and top[-1].children:
            stack.append(_Open(top[-1].label, list(top.pop().children)))
        stack[-1].children += left
    repaired |= bool(left) or len(stack) > 1
    _close(stack, 1)
    return Built(Tree(ROOT, tuple(stack[0].children)), repaired)


def _close(stack: list[_Open], depth: int) -> bool:
    """Close the phrases from the innermost down to the one at `depth`; whether one was empty, and is dropped."""
    dropped = False
    while len(stack) > depth:
        phrase = stack.pop()
        if phrase.children:
            stack[-1].children.append(Tree(phrase.label, tuple(phrase.children)))
        dropped |= not phrase.children
    return dropped
