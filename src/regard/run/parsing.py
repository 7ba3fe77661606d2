"""A run whose task is parsing: a translator's folder, with a vocabulary of brackets and the trees to validate by.

src.tokenizer.json               the vocabulary of sentences
tgt.tokenizer.json               that of linearised trees: (S, )S, XX, ...
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from regard.data.fields import TREES
from regard.data.formats import read_examples
from regard.data.sources import Source
from regard.decoding.settings import DecodingSettings
from regard.errors import UserError
from regard.recipe import ParsingRecipe
from regard.run.folder import Run
from regard.run.translation import SRC, TranslationRun
from regard.runtime import World
from regard.tasks import Parsing
from regard.text.settings import TextSettings
from regard.trees import Tree, parsed

TREE_TOKENS = TextSettings(kind="token", min_frequency=1, joint=False)
"""A bracket with its label is one piece, however seldom it occurs."""


@dataclass(frozen=True)
class ParsingRun(TranslationRun, task="parsing"):
    """A folder with a parser."""

    recipe: ParsingRecipe

    def text_of(self, name: str) -> TextSettings:
        return self.recipe.text if name == SRC else TREE_TOKENS

    def task(self, decoding: DecodingSettings | None = None) -> Parsing:
        """The task as it is used after training."""
        return Parsing(**vars(super().task(decoding)))

    def training_task(self, world: World) -> Parsing:
        trees = trees_of(self.recipe.data.valid, self.recipe.data.folder)
        return replace(Parsing(**vars(super().training_task(world))), valid_trees=trees)


def trees_of(corpora: Sequence[Source], root: Path) -> list[Tree]:
    """The gold trees of treebanks."""
    return list(parsed(example["tree"] for example in read_examples(corpora, root, TREES)))


def open_parser(folder: str | Path) -> ParsingRun:
    """Open a folder that holds a parser, and no other."""
    run = Run.open(folder)
    if not isinstance(run, ParsingRun):
        raise UserError(f"{folder} is no parser: its task is {run.recipe.task}", "regard train small-trees makes one")
    return run
