"""Treebanks: corpora whose pairs are made of trees, which are kept here to be compared with.

    train = { file = "gum.train.ptb.xz" }             brackets, as the Penn Treebank is written, over any lines
    train = { builtin = "trees", part = "train" }     sentences of a small grammar, see grammar.py

A pair of such a corpus is a sentence and its linearised tree, in the same order as the trees.
"""

from collections.abc import Iterator
from pathlib import Path

from regard.data import builtin
from regard.data.corpora import TREEBANK, Corpus, ending, read_lines
from regard.trees import Tree, cleaned, parsed


def is_treebank(corpus: Corpus) -> bool:
    """Whether a corpus has trees."""
    return corpus.builtin == "trees" or (corpus.file is not None and ending(corpus.file) in TREEBANK)


def read_trees(corpus: Corpus, root: Path) -> Iterator[Tree]:
    """The trees of a treebank as parsers learn them, `cleaned`: one for each pair of the corpus."""
    if corpus.builtin is not None and corpus.part is not None:
        return builtin.trees(corpus.part)
    (path,) = corpus.files(root)
    return (clean for tree in parsed(read_lines(path), str(path)) if (clean := cleaned(tree)) is not None)
