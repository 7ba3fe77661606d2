"""Label smoothing: the model becomes less certain; whether that is good depends on how certain it may be.

Cross-entropy with smoothing eps mixes the label with the uniform distribution over C classes:

    L = (1 - eps) (-log p_y) + eps (-1/C sum_k log p_k)

The best answer is then never p_y = 1, so the confidence falls. A model is calibrated if it is right as often as it is
confident. The expected calibration error sorts predictions by confidence into bins B and compares:

    ECE = sum_B |B| / n  |accuracy(B) - confidence(B)|

The labels here are ambiguous: a label is a function of the first two words, and one in five is a random class. Few
examples make a model overconfident, because it learns the random labels by heart; with new examples in every step it
cannot. Both are trained with eps = 0, 0.1 and 0.3.
"""

from functools import partial

import torch
from torch import Tensor, nn

from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import IGNORE, ToyTensors, fit_toy, generator_of, rectangle, seeded
from regard.losses.crossentropy import Loss, cross_entropy
from regard.models.text_encoder import EncoderWithHead, TransformerEncoder, TransformerEncoderSettings

WORDS, LENGTH, CLASSES = 8, 4, 6
NOISE = 0.2
NONE, PAPER, STRONG = 0.0, 0.1, 0.3
FEW, MANY = "few examples", "new examples"
EXAMPLES = 300


def expected_calibration_error(probabilities: Tensor, labels: Tensor, bins: int = 10) -> float:
    """ECE of predictions (N, C) against labels (N,), with bins of equal width (Guo et al. 2017, equation 3)."""
    confidence, predicted = probabilities.max(dim=-1)
    right = (predicted == labels).to(confidence.dtype)
    where = (confidence * bins).long().clamp(max=bins - 1)
    gaps = torch.zeros(bins, dtype=confidence.dtype).index_add(0, where, right - confidence)  # |B| (acc - conf)
    return float(gaps.abs().sum() / len(labels))


def ambiguous(generator: torch.Generator, table: Tensor, size: int = 64) -> ToyTensors:
    """Words (B, T), and the class of the first two words by the table; one label in five is random."""
    ids = torch.randint(WORDS, (size, LENGTH), generator=generator)
    noise = torch.rand(size, generator=generator) < NOISE
    labels = torch.where(noise, torch.randint(CLASSES, (size,), generator=generator), table[ids[:, 0], ids[:, 1]])
    return {"ids": ids, "labels": labels}


def repeated(generator: torch.Generator, examples: ToyTensors, size: int = 64) -> ToyTensors:
    """Random examples of a fixed set."""
    chosen = torch.randint(len(examples["labels"]), (size,), generator=generator)
    return {key: values[chosen] for key, values in examples.items()}


def smoothed_loss(model: nn.Module, batch: ToyTensors, smoothing: float) -> Loss:
    """Cross-entropy with label smoothing."""
    return cross_entropy(model(rectangle(batch["ids"])), batch["labels"], smoothing=smoothing, ignore=IGNORE)


class LabelSmoothing(Experiment):
    """Nll, accuracy and calibration over the smoothing, with few and with new examples."""

    name = "label-smoothing"
    topic = "training"
    title = Text("Does label smoothing help?", "标签平滑有用吗？")
    questions = (
        Question(
            "000:248, 004:537",
            Text("What does label smoothing do?", "标签平滑（label smoothing）有什么作用？"),
            Text("It is used as a trick in training.", "作为训练的一个技巧使用。"),
        ),
    )
    hypothesis = Text(
        "Label smoothing of 0.1 raises the nll (perplexity), as the paper says, with few and with new examples.",
        "如论文所说，0.1 的标签平滑会使负对数似然（困惑度）变差，无论样本少还是样本不重复。",
    )
    varied = Text("the smoothing, and whether examples repeat", "平滑系数，以及样本是否重复")
    measured = Text(
        "nll, accuracy and expected calibration error on new examples",
        "新样本上的负对数似然、准确率和期望校准误差",
    )
    refuted_if = Text("it lowers the nll in one of the two cases", "在其中一种情形下它降低了负对数似然")
    panels = tuple(
        Panel(
            key,
            title,
            Text("smoothing", "平滑系数"),
            title,
            names={
                FEW: Text("few examples, repeated", "少量样本，反复使用"),
                MANY: Text("new examples in every step", "每步都是新样本"),
            },
        )
        for key, title in (
            ("nll", Text("nll on new examples", "新样本的负对数似然")),
            ("accuracy", Text("accuracy", "准确率")),
            ("ece", Text("expected calibration error", "期望校准误差")),
        )
    )
    papers = (
        "Szegedy et al. 2016, section 7",
        "Vaswani et al. 2017, section 5.4",
        "Guo et al. 2017",
        "Müller et al. 2019",
    )
    seconds = 40

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        table = torch.randint(CLASSES, (WORDS, WORDS), generator=generator_of(seed, "table"))
        test = ambiguous(generator_of(seed, "test"), table, 4000)
        few = ambiguous(generator_of(seed, "train"), table, EXAMPLES)
        settings = TransformerEncoderSettings(layers=1, d_model=32, num_heads=4, d_ff=64, dropout=0.0)
        for name, batch in ((FEW, partial(repeated, examples=few)), (MANY, partial(ambiguous, table=table))):
            for smoothing in (NONE, PAPER, STRONG):
                seeded(seed, "weights")
                model = EncoderWithHead(TransformerEncoder(settings, WORDS), CLASSES, pooled=True, dropout=0.0)
                loss = partial(smoothed_loss, smoothing=smoothing)
                fit_toy(model, batch, loss, steps=effort.pick(400, 70), rate=5e-3, warmup=20, seed=seed)
                with torch.no_grad():
                    p = model(rectangle(test["ids"])).double().softmax(dim=-1)
                labels = test["labels"]
                nll = -p.gather(1, labels[:, None]).log().mean()
                record("nll", name, smoothing, float(nll))
                record("accuracy", name, smoothing, float((p.argmax(dim=-1) == labels).double().mean()))
                record("ece", name, smoothing, expected_calibration_error(p, labels))

    def judge(self, results: Results) -> Verdict:
        nll = {(name, eps): results.values("nll", name, eps) for name in (FEW, MANY) for eps in (NONE, PAPER)}
        worse = all(above(nll[name, PAPER], nll[name, NONE]) for name in (FEW, MANY))
        better = any(above(nll[name, NONE], nll[name, PAPER]) for name in (FEW, MANY))
        numbers = {
            f"{key}_{word}_{level}": results.mean(key, name, eps)
            for key in ("nll", "ece", "accuracy")
            for word, name in (("few", FEW), ("many", MANY))
            for level, eps in (("none", NONE), ("paper", PAPER))
        }
        return Verdict(
            decide(worse, better),
            Text(
                "With few examples a smoothing of {eps:.1f} changes the nll from {nll_few_none:.2f} to "
                "{nll_few_paper:.2f} and the calibration error from {ece_few_none:.2f} to {ece_few_paper:.2f}; with "
                "new "
                "examples from {nll_many_none:.2f} to {nll_many_paper:.2f} and from {ece_many_none:.2f} to "
                "{ece_many_paper:.2f}. The accuracy goes from {accuracy_few_none:.1%} to {accuracy_few_paper:.1%} and "
                "from {accuracy_many_none:.1%} to {accuracy_many_paper:.1%}.",
                "样本少时，{eps:.1f} 的平滑使负对数似然从 {nll_few_none:.2f} 变为 {nll_few_paper:.2f}，校准误差从 "
                "{ece_few_none:.2f} 变为 {ece_few_paper:.2f}；样本不重复时，分别从 {nll_many_none:.2f} 变为 "
                "{nll_many_paper:.2f}、从 {ece_many_none:.2f} 变为 {ece_many_paper:.2f}。准确率分别从 "
                "{accuracy_few_none:.1%} 变为 {accuracy_few_paper:.1%}、从 {accuracy_many_none:.1%} 变为 "
                "{accuracy_many_paper:.1%}。",
            ),
            {"eps": PAPER, **numbers},
        )
