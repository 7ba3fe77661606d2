"""How good a run is on a test set: scores with their signatures, outputs, and a comparison with another run."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from regard.data.fields import PAIRS
from regard.data.filters import KEEP_ALL
from regard.data.formats import read_examples
from regard.data.sources import Source
from regard.files import write_json
from regard.metrics.score import Score, perplexity
from regard.metrics.significance import Comparison, compare
from regard.run.folder import Progress
from regard.run.translation import open_pairs
from regard.run.translator import Translator


@dataclass(frozen=True)
class Evaluation:
    """What was measured, on what, how, and every output, so that another run can be compared with it."""

    run: str
    checkpoint: str
    corpora: list[str]
    decoding: dict[str, Any]
    scores: list[Score]
    seconds: float
    sources: list[str] = field(repr=False)
    references: list[str] = field(repr=False)
    outputs: list[str] = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def save(self, path: Path) -> None:
        write_json(path, self.to_json())


def evaluate(
    translator: Translator,
    corpora: Sequence[Source],
    root: Path,
    *,
    checkpoint: str = "best",
    tokenize: str = "13a",
    progress: Progress | None = None,
    **changes: Any,
) -> Evaluation:
    """Translate every source of `corpora` and score the outputs against the references, nothing left out."""
    started = time.perf_counter()
    pairs = [(pair["src"], pair["tgt"]) for pair in read_examples(corpora, root, PAIRS)]
    sources, references = [src for src, _ in pairs], [tgt for _, tgt in pairs]
    outputs = []
    for prediction in translator.predict(sources, **changes):
        outputs.append(prediction.text)
        if progress is not None:
            progress(len(outputs), len(sources))
    scores = translator.task.score(outputs, references, tokenize)
    run = translator.run
    with TemporaryDirectory() as aside:  # not in the run, which may be somebody else's to write to
        store = open_pairs(Path(aside) / "evaluated", corpora, root, run.vocabularies, KEEP_ALL)
        run.refuse_longer_than_positions(store, corpora)
        nll, count = translator.task.likelihood(translator.models[0], store)
    scores.append(Score("perplexity", perplexity(nll, count), f"per token of this run's vocabulary, {count} tokens"))
    return Evaluation(
        run=str(run.folder),
        checkpoint=checkpoint,
        corpora=[str(corpus) for corpus in corpora],
        decoding=translator.decoding(**changes).model_dump(),
        scores=scores,
        seconds=round(time.perf_counter() - started, 2),
        sources=sources,
        references=references,
        outputs=outputs,
    )


def compare_runs(base: Evaluation, other: Evaluation, tokenize: str = "13a") -> list[Comparison]:
    """Paired bootstrap (Koehn 2004): is the difference between two runs more than luck?"""
    return list(compare(base.outputs, other.outputs, base.references, tokenize=tokenize).values())
