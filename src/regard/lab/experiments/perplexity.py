"""Perplexity: which mean of the number of choices it is, and its value for a model that knows nothing.

    PPL = exp(-1/n sum_t log p_t) = (prod_t 1/p_t)^(1/n)

A token of probability p is like a choice among 1/p equally likely ones, so the perplexity is the geometric mean of the
number of choices. The arithmetic mean is larger, the harmonic mean n / sum_t p_t smaller; the three are equal only if
all p_t are equal. A uniform model gives each token p = 1/V, so its perplexity is the size of the vocabulary V, however
long the corpus is.
"""

import math
from collections import Counter

import torch
from torch import Tensor

from regard.lab.english import pages, words_of
from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, decide
from regard.lab.toys import build_tagger, generator_of, rectangle, seeded
from regard.losses.crossentropy import cross_entropy

PERPLEXITY, ARITHMETIC, GEOMETRIC, HARMONIC = "perplexity", "arithmetic", "geometric", "harmonic"
SPREADS = (0.0, 0.5, 1.0, 2.0, 3.0)
"""Standard deviation of the logits of ten tokens; 0: all probabilities are equal."""
UNIFORM, UNTRAINED, VOCABULARY, TOKENS = "uniform", "untrained", "vocabulary", "tokens"
SIZES = (100, 300, 1000, 3000)
LENGTH = 50


def perplexity(logits: Tensor, labels: Tensor) -> float:
    """exp of the mean cross-entropy."""
    loss = cross_entropy(logits, labels, ignore=-1)
    return math.exp(float(loss.nll / loss.count))


def means(p: Tensor) -> dict[str, float]:
    """Three means of the number of choices 1/p of each token."""
    choices = 1 / p.double()
    return {
        ARITHMETIC: float(choices.mean()),
        GEOMETRIC: float(choices.log().mean().exp()),
        HARMONIC: float(1 / (1 / choices).mean()),
    }


def rows(corpus: list[str], size: int) -> Tensor:
    """The corpus in rows (B, LENGTH), with a vocabulary of this size; all rarer words are one token."""
    frequent = [word for word, _ in Counter(corpus).most_common(size - 1)]
    ids = {word: number for number, word in enumerate(frequent, start=1)}
    numbers = torch.tensor([ids.get(word, 0) for word in corpus])
    return numbers[: len(numbers) // LENGTH * LENGTH].view(-1, LENGTH)


class Perplexity(Experiment):
    """Perplexity beside three means, and over the size of the vocabulary."""

    name = "perplexity"
    topic = "text"
    title = Text("Which mean is perplexity?", "困惑度是哪种平均数？")
    questions = (
        Question(
            "004:246",
            Text("Is perplexity the harmonic mean of the number of choices?", "困惑度是实际选择数的调和平均数吗？"),
            Text(
                "It is best understood as the harmonic mean of the number of choices for the next token.",
                "最好的理解是“下一个词元的实际选择数的调和平均数”。",
            ),
        ),
        Question(
            "004:250",
            Text("What is the perplexity of a uniform model?", "均匀分布的模型困惑度是多少？"),
            Text("The number of all tokens of the corpus.", "语料库中所有的词元的总数。"),
        ),
    )
    hypothesis = Text(
        "Perplexity is the harmonic mean of the number of choices, and for a uniform model the number of tokens of "
        "the "
        "corpus.",
        "困惑度是选择数的调和平均数；均匀模型的困惑度等于语料库的词元总数。",
    )
    varied = Text(
        "how uneven the probabilities of the tokens are; the size of the vocabulary", "各词元概率的不均匀程度；词表大小"
    )
    measured = Text(
        "perplexity and three means of the number of choices; perplexity of a uniform and of an untrained model",
        "困惑度与选择数的三种平均数；均匀模型与未训练模型的困惑度",
    )
    refuted_if = Text(
        "the perplexity is another mean, or the uniform model has the size of the vocabulary",
        "困惑度等于另一种平均数，或均匀模型的困惑度等于词表大小",
    )
    panels = (
        Panel(
            "means",
            Text("perplexity and means of the number of choices", "困惑度与选择数的平均数"),
            Text("standard deviation of the logits", "logits 的标准差"),
            Text("choices", "选择数"),
            log="y",
            names={
                PERPLEXITY: Text("perplexity", "困惑度"),
                ARITHMETIC: Text("arithmetic mean", "算术平均"),
                GEOMETRIC: Text("geometric mean", "几何平均"),
                HARMONIC: Text("harmonic mean", "调和平均"),
            },
        ),
        Panel(
            "baseline",
            Text("models that know nothing", "什么都不知道的模型"),
            Text("size of the vocabulary", "词表大小"),
            Text("perplexity", "困惑度"),
            log="xy",
            names={
                UNIFORM: Text("uniform model", "均匀模型"),
                UNTRAINED: Text("untrained Transformer", "未训练的 Transformer"),
                VOCABULARY: Text("size of the vocabulary", "词表大小"),
                TOKENS: Text("tokens of the corpus", "语料词元总数"),
            },
        ),
    )
    papers = ("Jelinek et al. 1977",)
    seconds = 1

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        random = generator_of(seed, "probabilities")
        for spread in SPREADS:
            p = (spread * torch.randn(500, 10, generator=random)).softmax(dim=-1)
            tokens = p.multinomial(1, generator=random)[:, 0]
            record("means", PERPLEXITY, spread, perplexity(p.log(), tokens))
            for name, mean in means(p.gather(1, tokens[:, None])[:, 0]).items():
                record("means", name, spread, mean)
        corpus = [word for page in pages() for word in words_of(page)]
        for size in SIZES:
            ids = rows(corpus, size)
            chosen = ids[torch.randperm(len(ids), generator=random)[: effort.pick(100, 30)]]
            seeded(seed, "weights", size)
            model = build_tagger(size, size).eval()
            record("baseline", UNIFORM, size, perplexity(torch.zeros(*chosen.shape, size), chosen))
            with torch.no_grad():
                record("baseline", UNTRAINED, size, perplexity(model(rectangle(chosen)), chosen))
            record("baseline", VOCABULARY, size, size)
            record("baseline", TOKENS, size, len(corpus))

    def judge(self, results: Results) -> Verdict:
        def farthest(name: str, reference: str, panel: str) -> float:
            """The largest ratio of two series, over all seeds and x."""
            ratios = [
                abs(math.log(a / b))
                for x in results.xs(panel, name)
                for a, b in zip(results.values(panel, name, x), results.values(panel, reference, x), strict=True)
            ]
            return math.exp(max(ratios))

        geometric, harmonic = (farthest(PERPLEXITY, name, "means") for name in (GEOMETRIC, HARMONIC))
        vocabulary, tokens = (farthest(UNIFORM, name, "baseline") for name in (VOCABULARY, TOKENS))
        return Verdict(
            decide(harmonic < 1.001 and tokens < 1.001, geometric < 1.001 and vocabulary < 1.001),
            Text(
                "With the most uneven probabilities the perplexity is {ppl:.2f}; the geometric mean of the number of "
                "choices is {geometric:.2f}, the harmonic {harmonic:.2f}, the arithmetic {arithmetic:.2f}. With a "
                "vocabulary of {size:.0f} tokens a uniform model has the perplexity {uniform:.0f} and an untrained "
                "Transformer {untrained:.0f}; the corpus has {tokens:.0f} tokens.",
                "概率最不均匀时困惑度为 {ppl:.2f}；选择数的几何平均为 {geometric:.2f}，调和平均 {harmonic:.2f}，算术"
                "平均 "
                "{arithmetic:.2f}。词表为 {size:.0f} 时，均匀模型的困惑度为 {uniform:.0f}，未训练的 Transformer 为 "
                "{untrained:.0f}；语料共有 {tokens:.0f} 个词元。",
            ),
            {
                "ppl": results.mean("means", PERPLEXITY, SPREADS[-1]),
                "geometric": results.mean("means", GEOMETRIC, SPREADS[-1]),
                "harmonic": results.mean("means", HARMONIC, SPREADS[-1]),
                "arithmetic": results.mean("means", ARITHMETIC, SPREADS[-1]),
                "size": SIZES[-1],
                "uniform": results.mean("baseline", UNIFORM, SIZES[-1]),
                "untrained": results.mean("baseline", UNTRAINED, SIZES[-1]),
                "tokens": results.mean("baseline", TOKENS, SIZES[-1]),
            },
        )
