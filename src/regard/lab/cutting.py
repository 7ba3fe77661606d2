"""The cut of an experiment, made in a run of your own: how much does the score fall without this part?

    lost = score(whole model) - score(model without the part)

Both are measured on the same examples, and the paired bootstrap (metrics/significance.py) gives lost a confidence
interval. A language model is scored by blocks of its text instead of examples.

Nothing is trained again: the rest of the model never learnt to do without the part. So a loss shows that this model
uses the part, not that a model needs it; the experiment with models trained without it shows that.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from regard.data.bptt import TokenizedText
from regard.errors import UserError
from regard.messages import Message
from regard.metrics.score import Score
from regard.metrics.significance import Comparison, Scorer, paired_bootstrap, tally_scorer
from regard.run.model import Model
from regard.run.recording import count_heads
from regard.tasks.operations import open_store

CUTS = {
    "heads": ("heads",),
    "cross-attention": ("cross",),
    "bag-of-words": ("positions",),
    "position-vectors": ("positions",),
    "depth": ("residual",),
    "feed-forward": ("feedforward",),
    "parts": ("self", "cross", "feedforward", "positions", "residual"),
}
"""What each experiment cuts: the parts of `Model.without`, or attention."""
TITLES = {
    "heads": Message("all heads but the first of each attention"),
    "self": Message("all self-attention"),
    "cross": Message("all cross-attention"),
    "positions": Message("positions"),
    "residual": Message("residual connections"),
    "feedforward": Message("feed-forward networks"),
}
MAX_EXAMPLES, BLOCK_TOKENS = 1000, 256


@dataclass(frozen=True)
class Cut:
    """What is cut, on how many examples it was measured, and the scores of the model without it against the whole."""

    title: str
    examples: int
    comparisons: list[Comparison]


def cut_run(experiment: str, model: Model, split: str) -> Iterator[Cut]:
    """Yield each cut of an experiment that the run's model allows; a UserError if there is none."""
    if experiment not in CUTS:
        remedy = f"choose one of {', '.join(CUTS)}"
        raise UserError(
            f"{experiment} cuts no part of a trained model", remedy, code="unsupported-option", where="--run"
        )
    possible = [name for name in CUTS[experiment] if can_cut(name, model)]
    if not possible:
        problem = f"the model of {model.run.folder} has no part that {experiment} cuts"
        remedy = "choose another experiment, or a run with such a part"
        raise UserError(problem, remedy, code="unsupported-option", where="--run")
    count, whole = scorer_of(model, split)
    for name in possible:
        with model.without(**options_of(name, model)):  # type: ignore[arg-type]
            cut = scorer_of(model, split)[1]
        yield Cut(TITLES[name], count, list(paired_bootstrap(whole, cut, count).values()))


def options_of(name: str, model: Model) -> Mapping[str, object]:
    """The options of `Model.without` for a cut."""
    heads = count_heads(model.model)
    if name == "heads":
        return {"heads": {attention: range(1, count) for attention, count in heads.items() if count > 1}}
    chosen = {attention: range(count) for attention, count in heads.items() if attention.endswith(f".{name}")}
    return {"heads": chosen} if name in ("self", "cross") else {"parts": {name}}


def can_cut(name: str, model: Model) -> bool:
    options = options_of(name, model)
    with suppress(UserError), model.without(**options):  # type: ignore[arg-type]
        return bool(options.get("heads", True))
    return False


def scorer_of(model: Model, split: str) -> tuple[int, Scorer]:
    """The number of examples of a split, at most `MAX_EXAMPLES`, and the scores of the model on resamples of them."""
    task = model.task
    if task.scored_by_examples:
        found = model.evaluate(list(islice(task.read(split), MAX_EXAMPLES)))
        return len(found.examples), task.scorer(found.examples, found.predictions)
    with TemporaryDirectory() as folder:
        text = open_store(task, Path(folder), split)
        if not isinstance(text, TokenizedText):
            problem = f"the scores of task {task.name} cannot be computed by examples"
            remedy = "use a run of a language model, or of a task with examples"
            raise UserError(problem, remedy, code="unsupported-option", where="--run")
        starts = range(0, min(len(text), MAX_EXAMPLES * BLOCK_TOKENS), BLOCK_TOKENS)
        blocks = [replace(text, ids=text.ids[start : start + BLOCK_TOKENS]) for start in starts]
        sums = [{"tokens": len(block), "nll": nll_of(task.score_store(model.model, block), block)} for block in blocks]
    return len(blocks), tally_scorer(sums, perplexity)


def nll_of(scores: list[Score], block: TokenizedText) -> float:
    """-log p of a block, from its perplexity per token."""
    return math.log(next(score.value for score in scores if score.name == "perplexity")) * len(block)


def perplexity(sums: dict[str, float]) -> dict[str, Score]:
    return {"perplexity": Score("perplexity", math.exp(sums["nll"] / sums["tokens"]))}
