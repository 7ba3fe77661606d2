"""Hooks of a task for `regard doctor`: what its checks cannot know without the task. All have defaults.

The doctor reads the examples of a recipe, prepares a temporary run from a sample of them, and tries the model on a few
batches. The checks themselves are in `doctor/`, each written once for all tasks.
"""

import json
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Generic, NamedTuple, TypeVar

from torch import Tensor, nn

from regard.data.batch import Batch
from regard.data.examples import Example
from regard.data.formats import read_examples
from regard.data.hold_out import read_split
from regard.data.settings import SPLITS
from regard.files import write_text
from regard.recipe import Recipe
from regard.text.tokenizer import Tokenizer
from regard.training.advice import Advice

R = TypeVar("R", bound=Recipe)
D = TypeVar("D", bound=Sized)
"""The tokenised data of a task: a view of its store."""

MIN_COMPARED_WORDS = 8
"""Lines of running text are compared between splits if they have this many words."""


@dataclass(frozen=True)
class SplitExamples:
    """The examples of a recipe as its files hold them."""

    sources: Mapping[str, Sequence[Iterable[Example]]]
    """By split: one iterable for each of its sources. Nothing is read before it is iterated."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """By reason: training examples that the recipe leaves out and that `sources` does not contain."""


class ExpectedLoss(NamedTuple):
    """The loss of a model with random weights, by theory."""

    value: float
    formula: str
    tolerance: float = 0.7


class Examination(Generic[R, D]):
    """Base of tasks: their hooks for the doctor."""

    recipe: R
    recipe_type: ClassVar[type[Recipe]]

    long_inputs: ClassVar[str] = ""
    """Treatment of an input of more than `max_length` tokens: "truncated", "split" or "read in windows"; empty if
    inputs have no limit."""
    contiguous: ClassVar[bool] = False
    """True if the examples {"text", "first"?} are lines of running text: a sample is then the beginning of the data."""
    label_checks: ClassVar[tuple[str, ...]] = ("one-class", "unseen", "rare", "majority")
    """The checks of labels that apply to this task."""
    causal_sequence: ClassVar[str] = ""
    """The sequence of a batch that is predicted token by token: "source" or "target"; empty if there is none."""
    weights_without_gradient: ClassVar[tuple[str, ...]] = ()
    """Prefixes of weights that rightly get no gradient: a bias that is added to all logits of a softmax."""
    small_batch_size: ClassVar[int] = 8
    """Number of examples, or of sequences of `max_length` tokens, that a model can learn in some hundred steps."""

    # ---- data -------------------------------------------------------------------------------------------------------

    @classmethod
    def read_splits(cls, recipe: R, folder: Path) -> SplitExamples:
        """The examples of all splits, before tokenizers and labels exist; temporary files go to `folder`."""
        data, fields = recipe.data, recipe.fields
        read: dict[str, list[Iterable[Example]]] = {
            split: [read_examples([source], data.folder, fields) for source in getattr(data, split)] for split in SPLITS
        }
        for split in ("train", *data.held_out) if data.held_out else ():
            read[split] = [read_split(data, fields, split)]
        return SplitExamples(read)

    @classmethod
    def write_sample(cls, recipe: R, samples: Mapping[str, Sequence[Example]], folder: Path) -> dict[str, object]:
        """Write examples of each split to `folder`; return the settings of [data] that read them."""
        settings: dict[str, object] = {"workers": 1, "hold_out": 0.0, "hold_out_test": 0.0}
        for split, examples in samples.items():
            path = folder / f"{split}.jsonl"
            write_text(path, "".join(json.dumps(example, ensure_ascii=False) + "\n" for example in examples))
            settings[split] = [{"file": str(path.absolute()), "format": "examples"}] if examples else []
        return settings

    @classmethod
    def texts(cls, example: Example) -> dict[str, list[str]]:
        """The texts of an example that the model reads or writes, by sequence of a batch ("source", "target")."""
        values = [example[key] for key in cls.recipe_type.fields.inputs if example.get(key)]
        return {"source": [value if isinstance(value, str) else " ".join(value) for value in values]}

    @classmethod
    def overlap_key(cls, example: Example) -> str:
        """A string that is equal for equal examples of different splits.

        It is empty for short lines of running text: headings rightly occur in every split.
        """
        key = "\n".join(" ".join(text.split()) for texts in cls.texts(example).values() for text in texts)
        return "" if cls.contiguous and key.count(" ") < MIN_COMPARED_WORDS - 1 else key

    @classmethod
    def label_values(cls, example: Example) -> Sequence[str | float]:
        """The labels of an example: names of classes, or numbers; empty if the task has none."""
        return []

    @classmethod
    def data_warnings(cls, samples: Mapping[str, Sequence[Example]]) -> list[Advice] | None:
        """Signs that the examples are wrong, from some of each split; None if the task has no such test."""
        return None

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        """The tokenizers by the sequence they encode, with the keys of `texts`."""
        tokenizer = getattr(self, "tokenizer", None)
        return {} if tokenizer is None else {"source": tokenizer}

    @property
    def max_length(self) -> int | None:
        """Maximum number of tokens of one input; None if there is no limit."""
        return getattr(self.recipe.data, "max_length", None)

    def input_length(self, example: Example) -> int:
        """Number of tokens of an example before anything is truncated or split."""
        return 0

    def filter_counts(self, store: D) -> dict[str, int]:
        """By reason: training examples that were left out when `store` was built."""
        return {}

    def check_store(self, store: D) -> tuple[str, list[Advice]] | None:
        """A finding about the inputs made of the tokenised training data, with advice; None if there is none."""
        return None

    # ---- model ------------------------------------------------------------------------------------------------------

    def expected_loss(self, batch: Batch) -> ExpectedLoss | None:
        """The loss of an untrained model on a batch, if theory says it. Causal tasks are checked by their logits."""
        return None

    def overfit_bound(self, batch: Batch) -> float:
        """A loss that a model reaches on this batch only if it uses its input."""
        return 0.1

    def decoder_logits(self, model: nn.Module, batch: Batch, packed: bool) -> Tensor:
        """Logits (M, V) of all M tokens of `causal_sequence` of a padded batch; `packed` as in training on a GPU."""
        raise NotImplementedError(f"{type(self).__name__}.decoder_logits")


def entropy(values: Iterable[Hashable]) -> float:
    """Entropy of the relative frequencies of values, in nats: the least loss of a model that ignores its input."""
    counts = Counter(values)
    return -sum(count / counts.total() * math.log(count / counts.total()) for count in counts.values())
