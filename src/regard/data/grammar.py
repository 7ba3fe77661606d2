"""A small grammar of English, which makes trees without end: a treebank for a first run without any download.

    S -> NP VP .     NP -> NPB PP     NPB -> DT NN | DT JJ NN | ...     VP -> VBD NP PP | VBD SBAR | ...

A probabilistic context-free grammar: a symbol is replaced by one of its right sides, drawn by their weights, until
nothing but words is left. Every sentence has one tree, so that all of it can be learnt: "of" and "from" belong to the
noun before them, the other prepositions to the verb, and inside of "who ..." there are none of these.

A symbol may end in a mark, which says what it may become and is no part of its label: VP_who is a VP.
"""

import random
from collections.abc import Iterator

from regard.trees import ROOT, Tree

RULES: dict[str, list[tuple[float, str]]] = {
    "S": [(8, "NP VP ."), (2, "PP , NP VP .")],
    "S_that": [(1, "NP VP")],
    "S_who": [(1, "VP_who")],
    "NP": [(5, "DT NN"), (3, "DT JJ NN"), (2, "NNP"), (1, "NNP CC NNP"), (2, "NP_base PP_of"), (1, "NP_base SBAR_who")],
    "NP_base": [(3, "DT NN"), (1, "DT JJ NN")],
    "VP": [(2, "VBD_i"), (4, "VBD_t NP"), (2, "VBD_t NP PP"), (2, "VBD_i PP"), (2, "VBD_s SBAR"), (1, "ADVP VBD_t NP")],
    "VP_who": [(1, "VBD_i"), (2, "VBD_t NP"), (1, "ADVP VBD_i")],
    "PP": [(1, "IN NP")],
    "PP_of": [(1, "IN_of NP")],
    "SBAR": [(1, "IN_that S_that")],
    "SBAR_who": [(1, "WHNP S_who")],
    "WHNP": [(1, "WP")],
    "ADVP": [(3, "RB"), (1, "RB_very RB")],
}
WORDS: dict[str, str] = {
    "DT": "the a every this some",
    "NN": "king queen farmer doctor child stranger dog cat horse owl village garden house ship letter story song key",
    "JJ": "old young tall quiet happy strange small brave",
    "NNP": "Ada Alan Clara Emil Grace Karl Lena Otto",
    "CC": "and or",
    "VBD_i": "slept waited laughed danced vanished returned",
    "VBD_t": "saw followed found painted remembered liked lost watched",
    "VBD_s": "said thought knew believed",
    "RB": "quietly often slowly suddenly",
    "RB_very": "very quite",
    "IN": "near with behind without after",
    "IN_of": "of from",
    "IN_that": "that",
    "WP": "who that",
    ".": ". ! ?",
    ",": ",",
}


def trees(seed: str) -> Iterator[Tree]:
    """Trees without end, always the same ones for a seed."""
    rng = random.Random(seed)
    while True:
        yield Tree(ROOT, (grown("S", rng),))


def grown(symbol: str, rng: random.Random) -> Tree:
    """What one symbol becomes."""
    label = symbol.split("_")[0]
    if symbol in WORDS:
        return Tree(label, (), rng.choice(WORDS[symbol].split()))
    weights, sides = zip(*RULES[symbol], strict=True)
    (side,) = rng.choices(sides, weights)
    return Tree(label, tuple(grown(part, rng) for part in side.split()))
