"""Label smoothing: the model becomes less certain; whether that is good depends on how certain it may be.

Cross-entropy with smoothing eps mixes the label with the uniform distribution over C classes:

    L = (1 - eps) (-log p_y) + eps (-1/C sum_k log p_k)

The best answer is then never p_y = 1, so the confidence falls. A model is calibrated if it is right as often as it is
confident. The expected calibration error sorts predictions by confidence into bins B and compares:

    ECE = sum_B |B| / n  |accuracy(B) - confidence(B)|

The labels here are ambiguous: a label is a function of the first two words, and one in five is a random class. Few
examples make a model overconfident, because it learns the random labels by heart; with new examples in every step it
cannot.
"""

from functools import partial

import torch
from torch import Tensor, nn

from regard.lab.experiment import Effort, Record, Results, Verdict, decide, equivalent, paired
from regard.lab.toys import IGNORE, ToyTensors, build_tagger, fit_toy, generator_of, random_rows, rectangle, seeded
from regard.losses.crossentropy import Loss, cross_entropy

WORDS, CLASSES = 8, 6
FEW, MANY = "few examples", "new examples"


def expected_calibration_error(probabilities: Tensor, labels: Tensor, bins: int = 10) -> float:
    """ECE of predictions (N, C) against labels (N,), with bins of equal width (Guo et al. 2017, equation 3)."""
    confidence, predicted = probabilities.max(dim=-1)
    right = (predicted == labels).to(confidence.dtype)
    where = (confidence * bins).long().clamp(max=bins - 1)
    gaps = torch.zeros(bins, dtype=confidence.dtype).index_add(0, where, right - confidence)  # |B| (acc - conf)
    return float(gaps.abs().sum() / len(labels))


def ambiguous(generator: torch.Generator, table: Tensor, size: int = 64) -> ToyTensors:
    """Words (B, T), and the class of the first two words by the table; one label in five is random."""
    ids = torch.randint(WORDS, (size, 4), generator=generator)
    noise = torch.rand(size, generator=generator) < 0.2
    labels = torch.where(noise, torch.randint(CLASSES, (size,), generator=generator), table[ids[:, 0], ids[:, 1]])
    return {"ids": ids, "labels": labels}


def smoothed_loss(model: nn.Module, batch: ToyTensors, smoothing: float) -> Loss:
    return cross_entropy(model(rectangle(batch["ids"])), batch["labels"], smoothing=smoothing, ignore=IGNORE)


def measure(seed: int, effort: Effort, record: Record) -> None:
    table = torch.randint(CLASSES, (WORDS, WORDS), generator=generator_of(seed, "table"))
    test = ambiguous(generator_of(seed, "test"), table, 4000)
    few = ambiguous(generator_of(seed, "train"), table, 300)
    for name, batch in ((FEW, partial(random_rows, rows=few, size=64)), (MANY, partial(ambiguous, table=table))):
        for smoothing in (0.0, 0.1, 0.3):
            seeded(seed, "weights")
            model = build_tagger(WORDS, CLASSES, pooled=True)
            loss = partial(smoothed_loss, smoothing=smoothing)
            fit_toy(model, batch, loss, steps=effort.pick(400, 70), rate=5e-3, warmup=20, seed=seed)
            with torch.no_grad():
                p = model(rectangle(test["ids"])).double().softmax(dim=-1)
            labels = test["labels"]
            record("nll", name, smoothing, float(-p.gather(1, labels[:, None]).log().mean()))
            record("accuracy", name, smoothing, float((p.argmax(dim=-1) == labels).double().mean()))
            record("ece", name, smoothing, expected_calibration_error(p, labels))


def judge(results: Results) -> Verdict:
    def values(panel: str, name: str) -> list[list[float]]:
        return [results.values(panel, name, smoothing) for smoothing in (0.1, 0.0)]

    (few, plain), (new, other), (error, before) = values("nll", FEW), values("nll", MANY), values("ece", FEW)
    right, wrong = values("accuracy", MANY)
    return Verdict(
        decide(paired(few, plain), paired(plain, few)),
        findings={
            "new": decide(paired(new, other), paired(other, new) or equivalent(new, other, within=0.05)),
            "calibrated": decide(paired(before, error), paired(error, before)),
            "accuracy": decide(paired(right, wrong, by=0.02), equivalent(right, wrong)),
        },
    )
