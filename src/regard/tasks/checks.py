"""Hooks of a task for `regard doctor`: what its checks cannot know without the task. All have defaults.

The doctor reads the examples of a recipe, prepares a temporary run from a sample of them, and tries the model on a few
batches. The checks themselves are in `doctor/`, each written once for all tasks. Warnings about examples that are read
without an error and still wrong (shuffled lines, exchanged sides, copies) need no training: `regard train` gives them.
"""

import json
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from regard.data.batch import Batch
from regard.data.examples import Example
from regard.data.fields import Fields
from regard.data.formats import read_examples
from regard.data.hold_out import read_split
from regard.errors import UserError
from regard.files import write_text
from regard.messages import Message
from regard.metrics.association import SideModel, independence_z, label_kernel, length_z, text_kernel
from regard.recipe import Recipe
from regard.run_files import SPLITS
from regard.training.advice import Advice
from regard.training.task import Baseline

Array = npt.NDArray[np.integer[Any]]
T = TypeVar("T")
D = TypeVar("D", bound=Sized)
MIN_COMPARED_WORDS = 8
"""Lines of running text are compared between splits if they have this many words."""
Pair = tuple[str, str]
MAX_COUNTED, UNIGRAM_MARGIN = 1_000_000, 0.1
"""Tokens that a unigram baseline counts, and the share of its loss by which a model that reads must be better."""
BLOCK = 250
"""Neighbouring pairs that are tested together: pairs of files can be aligned at first and misaligned from a line on."""
MAX_BLOCKS = 8
MIN_PAIRS = 100
MIN_LABELLED, MAX_LABELLED, MIN_OTHERS = 500, 1000, 50
"""Examples that a test of labels needs and uses, and those with another label than the most frequent one."""
MIN_Z, MIN_LABEL_Z = 5.0, 3.0
"""A smaller z is no sign of a relation. 250 translations have 50 to 200, 250 replies of dialogues about 10, 500
labelled texts 4 to 130; only labels that depend on the order of words alone (CoLA) have none."""
LOST_Z, USUAL_Z = 3.0, 15.0
"""A block below the first is misaligned if another one is above the second."""
MAX_COPIES = 0.5
MAX_MAJORITY = 0.9
MAX_SIDE_PAIRS, MIN_SIDE_PAIRS = 1000, 20
SWAPPED, NOT_SWAPPED = 0.7, 0.3
"""Share of the pairs that look swapped: in a split with swapped sides, and in one whose sides differ at all."""


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


class DoctorHooks(Generic[T, D]):
    """What `regard doctor` cannot know without the task T, whose stores are D; the defaults fit every task. `texts` and
    the hooks above it are called before the task has tokenizers and labels."""

    long_inputs: ClassVar[str] = ""
    """Treatment of an input of more than `max_length` tokens: "truncated", "split" or "read in windows"; empty if
    inputs have no limit."""
    contiguous: ClassVar[bool] = False
    """True if the examples {"text", "first"?} are lines of running text: a sample is then the beginning of the data."""
    sorted_by_label: ClassVar[bool] = False
    """True if files are often sorted by label: a sample is then taken from all parts of the data."""
    label_checks: ClassVar[tuple[str, ...]] = ("one-class", "unseen", "rare", "majority")
    """The checks of labels that apply to this task."""
    weights_without_gradient: ClassVar[tuple[str, ...]] = ()
    """Prefixes of weights that rightly get no gradient: a bias that is added to all logits of a softmax."""
    small_batch_size: ClassVar[int] = 8
    """Number of examples, or of sequences of `max_length` tokens, that a model can learn in some hundred steps."""

    # ---- data -------------------------------------------------------------------------------------------------------

    def read_splits(self, recipe: Recipe, folder: Path) -> SplitExamples:
        """The examples of all splits, by default from the files in [data]; temporary files go to `folder`."""
        data, fields = recipe.data, recipe.fields
        read: dict[str, list[Iterable[Example]]] = {
            split: [read_examples([source], data.folder, fields) for source in getattr(data, split)] for split in SPLITS
        }
        for split in ("train", *data.held_out) if data.held_out else ():
            read[split] = [read_split(data, fields, split)]
        return SplitExamples(read)

    def write_sample(self, recipe: Recipe, samples: Mapping[str, Sequence[Example]], folder: Path) -> dict[str, object]:
        """Write examples of each split to `folder`, by default as JSON lines; return their [data] settings."""
        settings: dict[str, object] = {"workers": 1, "hold_out": 0.0, "hold_out_test": 0.0}
        for split, examples in samples.items():
            path = folder / f"{split}.jsonl"
            write_text(path, "".join(json.dumps(example, ensure_ascii=False) + "\n" for example in examples))
            settings[split] = [{"file": str(path.absolute()), "format": "examples"}] if examples else []
        return settings

    def label_values(self, example: Example) -> Sequence[str | float]:
        """The labels of an example: names of classes, or numbers; by default none."""
        return []

    def data_warnings(self, samples: Mapping[str, Sequence[Example]]) -> list[Advice] | None:
        """Signs that the examples are wrong, from some of each split; by default None: the task has no such test."""
        return None

    def texts(self, fields: Fields, example: Example) -> dict[str, list[str]]:
        """The texts of an example that the model reads or writes, by batch sequence; by default all are "source"."""
        return {"source": fields.texts(example)}

    def overlap_key(self, fields: Fields, example: Example) -> str:
        """A string that is equal for equal examples of different splits; empty for short lines, e.g. headings."""
        key = "\n".join(" ".join(text.split()) for texts in self.texts(fields, example).values() for text in texts)
        return "" if self.contiguous and key.count(" ") < MIN_COMPARED_WORDS - 1 else key

    def describe_store(self, task: T, split: str, store: D) -> str:
        """One line about a store for the log, by default the number of examples."""
        return Message("{split}: {examples:,} examples", split=split, examples=len(store))

    def store_samples(self, task: T, model: nn.Module, store: D) -> list[tuple[Example, Example]]:
        """(example, prediction) pairs from tokenised data for the report; by default none."""
        return []

    def max_length(self, task: T) -> int | None:
        """Maximum number of tokens of one input; by default None: no limit."""
        return None

    def input_length(self, task: T, example: Example) -> int:
        """Number of tokens of an example before anything is truncated or split; by default 0."""
        return 0

    def filter_counts(self, store: D) -> dict[str, int]:
        """By reason: training examples that were left out when `store` was built; by default none."""
        return {}

    def check_store(self, task: T, store: D) -> tuple[str, list[Advice]] | None:
        """A finding about the inputs made of the tokenised training data, with advice; by default None."""
        return None

    # ---- model ------------------------------------------------------------------------------------------------------

    def baseline(self, task: T, train: D, valid: D, examples: Sequence[Example]) -> Baseline | None:
        """Validation score of a model that ignores its input; by default None. `examples` are those of valid."""
        return None

    def causal_sequence(self, task: T) -> str:
        """The sequence of a batch that is predicted token by token: "source" or "target"; by default empty."""
        return ""

    def expected_loss(self, task: T, batch: Batch) -> ExpectedLoss | None:
        """The theoretical loss of an untrained model on a batch; by default None. Causal tasks: see the logits."""
        return None

    def overfit_bound(self, task: T, batch: Batch) -> float:
        """A loss that a model reaches on this batch only if it uses its input; by default 0.1."""
        return 0.1

    def decoder_logits(self, model: nn.Module, batch: Batch, packed: bool) -> Tensor:
        """Logits (M, V) of all M tokens of the causal sequence of a padded batch; `packed` as in training on a GPU."""
        raise NotImplementedError(f"{type(self).__name__}.decoder_logits")


def overlap_warnings(recipe: Recipe, checks: DoctorHooks[T, D]) -> list[Advice]:
    """Warnings that examples of valid or test are in train too; `SelectionReport` has them for labelled data."""
    data, fields = recipe.data, recipe.fields
    if hasattr(data, "exclude_overlap"):
        return []
    keys: dict[str, set[int]] = {}
    warnings = []
    for split in ("valid", "test"):
        examples = read_examples(getattr(data, split), data.folder, fields)
        try:
            keys[split] = {hash(key) for example in examples if (key := checks.overlap_key(fields, example))}
        except UserError as error:  # training does not need the test data, and they may come later
            warnings.append(Advice(error.problem, error.remedy))
    held = set[int]().union(*keys.values())
    if not data.held_out:  # each pair once, however often it is repeated
        data = data.model_copy(update={"train": [item.model_copy(update={"repeat": None}) for item in data.train]})
    train = read_split(data, fields, "train") if held else ()
    found = {number for example in train if (number := hash(checks.overlap_key(fields, example))) in held}
    for split, known in keys.items():
        if common := found & known:
            problem = Message(
                "{count:,} of {total:,} distinct examples of {split} ({share:.1%}) occur in train{first}",
                split=split,
                first="",
                count=len(common),
                total=len(known),
                share=len(common) / len(known),
            )
            warnings.append(Advice(problem, Message("remove them from the training files")))
    return warnings


def entropy(values: Iterable[Hashable]) -> float:
    """Entropy of the relative frequencies of values, in nats: the least loss of a model that ignores its input."""
    counts = Counter(values)
    return -sum(count / counts.total() * math.log(count / counts.total()) for count in counts.values())


def unigram_baseline(train: Array, valid: Array, metric: str = "loss") -> Baseline:
    """The loss of a model that knows only how often each token occurs: ids of training and validation targets."""
    counts = np.bincount(np.concatenate([train[:MAX_COUNTED], valid]))  # both: no token of valid has probability 0
    nll = -float(np.log(counts[valid] / counts.sum()).mean()) if len(valid) else math.inf
    return Baseline(Message("a unigram model"), metric, nll, UNIGRAM_MARGIN)


def pair_warnings(samples: Mapping[str, Sequence[Pair]]) -> list[Advice]:
    """Warnings about source and target texts, by split and in the order of the files."""
    train = samples.get("train", ())
    warnings = [copy_warning(train), relation_warning(train)]
    warnings += [side_warning(split, train, pairs) for split, pairs in samples.items() if split != "train"]
    return [warning for warning in warnings if warning is not None]


def copy_warning(pairs: Sequence[Pair]) -> Advice | None:
    """Most targets are equal to their sources."""
    copies = sum(source.strip() == target.strip() for source, target in pairs)
    if copies <= MAX_COPIES * len(pairs):
        return None
    values = {"share": copies / len(pairs), "pairs": len(pairs)}
    problem = Message("in {share:.0%} of {pairs:,} training pairs the target is a copy of the source", **values)
    remedy = Message("check the files or columns of both sides; data.drop_identical=true leaves such pairs out")
    return Advice(problem, remedy)


def relation_warning(pairs: Sequence[Pair]) -> Advice | None:
    """The targets do not depend on the sources, or no longer from some pair on."""
    if len(pairs) < MIN_PAIRS:
        return None
    size, count = min(BLOCK, len(pairs)), min(MAX_BLOCKS, max(1, len(pairs) // BLOCK))
    starts = [round(number * (len(pairs) - size) / max(1, count - 1)) for number in range(count)]
    z = []  # how much targets depend on sources, in standard deviations of independent ones; the larger of two tests
    for start in starts:
        sources, targets = zip(*pairs[start : start + size], strict=True)
        z.append(max(independence_z(text_kernel(sources), text_kernel(targets)), length_z(sources, targets)))
    remedy = Message("check that line n of one file belongs to line n of the other: neither may be sorted or cut")
    if sum(z) / len(z) ** 0.5 < MIN_Z:
        tested = size * count
        problem = Message("the targets of {count:,} training pairs do not depend on their sources", count=tested)
        return Advice(problem, remedy, fatal=True)
    lost = [start for start, value in zip(starts, z, strict=True) if value < LOST_Z]
    if lost and max(z) > USUAL_Z:
        places = ", ".join(f"{start / len(pairs):.0%}-{(start + size) / len(pairs):.0%}" for start in lost)
        return Advice(Message("sources and targets of train do not match from {places}", places=places), remedy)
    return None


def side_warning(split: str, train: Sequence[Pair], pairs: Sequence[Pair]) -> Advice | None:
    """Source and target are exchanged in a split."""
    known, held_out, tested = (
        [pair for pair in some if pair[0].strip() != pair[1].strip()]
        for some in (train[0:MAX_SIDE_PAIRS:2], train[1:MAX_SIDE_PAIRS:2], pairs[:MAX_SIDE_PAIRS])
    )
    if min(len(known), len(held_out), len(tested)) < MIN_SIDE_PAIRS:
        return None
    model = SideModel(known)
    usual, swapped = (sum(map(model.is_swapped, some)) / len(some) for some in (held_out, tested))
    if usual > NOT_SWAPPED or swapped < SWAPPED:
        return None
    values = {"split": split, "share": swapped}
    problem = Message("source and target of {split} look exchanged: {share:.0%} look like the other side", **values)
    remedy = Message("exchange src and tgt (or src_column and tgt_column) in data.{split}", split=split)
    return Advice(problem, remedy, fatal=True)


def label_warnings(labels: Sequence[str | float], texts: Sequence[str] | None) -> list[Advice]:
    """Warnings about the labels of training examples; with their texts, if a label can depend on single words."""
    names = Counter(label for label in labels if isinstance(label, str))
    label, count = names.most_common(1)[0] if names else ("", 0)
    if count > MAX_MAJORITY * len(labels):
        return [majority_advice(label, count / len(labels))]
    if texts is None or len(texts) < MIN_LABELLED:
        return []
    some = slice(0, None, max(1, len(texts) // MAX_LABELLED))
    texts, labels = texts[some], labels[some]
    if len(labels) - max(Counter(labels).values()) < MIN_OTHERS:
        return []
    if independence_z(text_kernel(texts), label_kernel(labels)) >= MIN_LABEL_Z:
        return []
    problem = Message("the labels of {count:,} training examples do not depend on the words", count=len(texts))
    remedy = Message("check the column of labels, unless only the order of words matters (grammaticality)")
    return [Advice(problem, remedy)]


def majority_advice(label: str, share: float) -> Advice:
    """A warning that one label is so frequent that accuracy says little."""
    problem = Message("a model that always predicts {label!r} is right in {share:.0%}", label=label, share=share)
    remedy = Message("accuracy says little: set training.monitor=macro_f1, and try training.class_weights=balanced")
    return Advice(problem, remedy)
