"""Warnings about examples that are read without an error and are still wrong: shuffled lines, exchanged sides, copies.

They need some of the examples and no training, so `regard train` gives them before it starts, as `regard doctor` does.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from regard.metrics.association import SideModel, independence_z, label_kernel, length_z, text_kernel
from regard.training.advice import Advice

Pair = tuple[str, str]

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
    return Advice(
        f"in {copies / len(pairs):.0%} of {len(pairs):,} training pairs the target is equal to the source: the model "
        "learns to copy",
        "check the files or columns of the two sides; data.drop_identical=true leaves such pairs out",
    )


def relation_warning(pairs: Sequence[Pair]) -> Advice | None:
    """The targets do not depend on the sources, or no longer from some pair on."""
    if len(pairs) < MIN_PAIRS:
        return None
    size, count = min(BLOCK, len(pairs)), min(MAX_BLOCKS, max(1, len(pairs) // BLOCK))
    starts = [round(number * (len(pairs) - size) / max(1, count - 1)) for number in range(count)]
    z = [pair_relation(pairs[start : start + size]) for start in starts]
    remedy = "check that line n of one file belongs to line n of the other: neither may be sorted, shuffled or cut"
    if sum(z) / len(z) ** 0.5 < MIN_Z:
        problem = f"the targets of {size * count:,} training pairs have nothing to do with their sources"
        return Advice(f"{problem}: words, characters and lengths are independent", remedy, fatal=True)
    lost = [start for start, value in zip(starts, z, strict=True) if value < LOST_Z]
    if lost and max(z) > USUAL_Z:
        places = ", ".join(f"{start / len(pairs):.0%} to {(start + size) / len(pairs):.0%}" for start in lost)
        return Advice(f"sources and targets do not belong together in parts of the training data: {places}", remedy)
    return None


def pair_relation(pairs: Sequence[Pair]) -> float:
    """How much targets depend on sources, in standard deviations of independent ones; the larger of two tests."""
    sources, targets = zip(*pairs, strict=True)
    return max(independence_z(text_kernel(sources), text_kernel(targets)), length_z(sources, targets))


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
    return Advice(
        f"source and target of {split} look exchanged: {swapped:.0%} of its sources look like the targets of train",
        f"exchange src and tgt (or src_column and tgt_column) in data.{split}",
        fatal=True,
    )


def label_warnings(labels: Sequence[str | float], texts: Sequence[str] | None) -> list[Advice]:
    """Warnings about the labels of training examples; with their texts, if a label can depend on single words."""
    names = Counter(label for label in labels if isinstance(label, str))
    label, count = names.most_common(1)[0] if names else ("", 0)
    if count > MAX_MAJORITY * len(labels):
        problem = f"a model that always predicts {label!r} is right in {count / len(labels):.0%}"
        remedy = "accuracy says little: write training.monitor=f1 or matthews, or collect examples of other classes"
        return [Advice(problem, remedy)]
    if texts is None or len(texts) < MIN_LABELLED:
        return []
    some = slice(0, None, max(1, len(texts) // MAX_LABELLED))
    texts, labels = texts[some], labels[some]
    if len(labels) - max(Counter(labels).values()) < MIN_OTHERS:
        return []
    if independence_z(text_kernel(texts), label_kernel(labels)) >= MIN_LABEL_Z:
        return []
    problem = (
        f"no relation was found between the labels of {len(texts):,} training examples and the words of their texts"
    )
    remedy = (
        "check the column of labels; all is well only if a label depends on the order of words alone (grammaticality)"
    )
    return [Advice(problem, remedy)]
