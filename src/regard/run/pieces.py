"""A run whose texts are cut into BERT's pieces, learnt once from the training text or taken from another run.

tokenizer.json                   the vocabulary
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from regard.run.folder import Run, Say
from regard.run.seal import refuse_changed
from regard.text.bert import BertTokenizer
from regard.text.factory import train_tokenizer

VOCABULARY = "tokenizer.json"


@dataclass(frozen=True)
class PiecesRun(Run):
    """A folder with a vocabulary of pieces, and a model that reads them."""

    @cached_property
    def vocabulary(self) -> BertTokenizer:
        refuse_changed(self.folder, self.recipe)
        return BertTokenizer.load(self.folder / VOCABULARY)

    def make_pieces(self, lines: Iterable[str], say: Say) -> None:
        """Learn the vocabulary from the training text alone, or take it from the run this one starts from."""
        path, text = self.folder / VOCABULARY, self.recipe.text
        if self.start is not None:
            BertTokenizer.load(self.start.folder / VOCABULARY).save(path)
        elif not path.exists():
            say(f"learning the vocabulary (WordPiece, at most {text.vocab_size:,} pieces)")
            train_tokenizer(lines, text).save(path)
