"""Global and local attention: how many words of the source a step of the decoder sees.

    Bahdanau        softmax over all source words; the query is the state before the step, s_{t-1}
    Luong, global   softmax over all source words; the query is the state after the step, s_t
    local-m         softmax over a window around the position of the target word itself
    local-p         softmax over a window around a predicted position, times a Gaussian

A recurrent model learns to copy a sentence, or to reverse it. A word is seen if its weight is above zero, computed in
float64, so that a small weight is not rounded to zero. The effective number of words is exp(H), with H the entropy of
the weights: a trained global attention may still look at one or two words only, but it chose them among all.
"""

from functools import partial

import torch
from torch import Tensor, nn

from regard.attention.layouts import Tokens
from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import IGNORE, ToyTensors, fit_toy, generator_of, rectangle, seeded
from regard.losses.crossentropy import Loss, cross_entropy
from regard.models.recurrent import RecurrentModel, RecurrentSettings
from regard.text.symbols import BOS, SPECIALS

WORDS, LENGTH, WINDOW = 12, 10, 2
VOCABULARY = len(SPECIALS) + WORDS
BAHDANAU, GLOBAL, LOCAL_M, LOCAL_P = "bahdanau", "luong global", "local-m", "local-p"
COPY, REVERSE = "copy", "reverse"
DECODERS = {
    BAHDANAU: {"decoder": "bahdanau", "attention": "global", "score": "additive"},
    GLOBAL: {"decoder": "luong", "attention": "global", "score": "general"},
    LOCAL_M: {"decoder": "luong", "attention": "local-m", "score": "general"},
    LOCAL_P: {"decoder": "luong", "attention": "local-p", "score": "general"},
}
NAMES = {
    BAHDANAU: Text("Bahdanau", "Bahdanau"),
    GLOBAL: Text("Luong, global", "Luong 全局"),
    LOCAL_M: Text("Luong, local-m", "Luong 局部 local-m"),
    LOCAL_P: Text("Luong, local-p", "Luong 局部 local-p"),
    COPY: Text("copy", "复制"),
    REVERSE: Text("reverse", "反转"),
}


def build(decoder: str) -> RecurrentModel:
    """A small recurrent model with one of the four decoders."""
    sizes = {"cell": "gru", "layers": 1, "encoder": "both", "d_model": 32, "d_embedding": 32, "window": WINDOW}
    settings = {**sizes, "input_feeding": False, "dropout": 0.0, **DECODERS[decoder]}
    return RecurrentModel(RecurrentSettings.model_validate(settings), VOCABULARY, VOCABULARY)


def sentences(generator: torch.Generator, task: str, size: int = 32) -> ToyTensors:
    """Random words as the source; the same words, or the words in reverse, as the target."""
    source = torch.randint(len(SPECIALS), VOCABULARY, (size, LENGTH), generator=generator)
    return {"source": source, "labels": source if task == COPY else source.flip(1)}


def inputs(batch: ToyTensors) -> tuple[Tokens, Tokens]:
    """The source, and the target shifted by one position."""
    labels = batch["labels"]
    start = torch.full((len(labels), 1), BOS)
    return rectangle(batch["source"]), rectangle(torch.cat([start, labels[:, :-1]], dim=1))


def loss(model: nn.Module, batch: ToyTensors) -> Loss:
    """Cross-entropy of the target."""
    return cross_entropy(model(*inputs(batch)).logits(), batch["labels"], ignore=IGNORE)


def effective(weights: Tensor) -> float:
    """exp(H) of rows of weights (..., S), normalised to sum to one; the mean over the rows."""
    p = weights / weights.sum(dim=-1, keepdim=True)
    return float(torch.special.entr(p).sum(dim=-1).exp().mean())


class GlobalLocal(Experiment):
    """Words that have weight in a row of attention, for four decoders."""

    name = "global-local"
    topic = "recurrent"
    title = Text("Is Bahdanau's attention global or local?", "Bahdanau 的注意力是全局还是局部？")
    questions = (
        Question(
            "003:70",
            Text("Global or local: which attention sees all words?", "全局与局部注意力：哪一种能看到所有词？"),
            Text(
                "Luong's global attention considers all hidden states of the encoder; Bahdanau's is local and "
                "considers only that of the current time step.",
                "Luong 的 Global attention 考虑编码器的所有隐状态；Bahdanau 的是 Local attention，"
                "只考虑当前时间步的隐状态。",
            ),
        ),
    )
    hypothesis = Text(
        "Bahdanau's attention is local: it sees fewer words than Luong's global attention.",
        "Bahdanau 的注意力是局部的：它看到的词比 Luong 的全局注意力少。",
    )
    varied = Text("the decoder and its attention; the order of the target", "解码器及其注意力；目标的顺序")
    measured = Text(
        "source words with a weight above zero, effective number of words, accuracy of the next word",
        "权重大于零的源词数、有效词数、下一个词的准确率",
    )
    refuted_if = Text(
        "every row of Bahdanau's attention gives weight to every word", "Bahdanau 注意力的每一行都给每个词分配权重"
    )
    panels = (
        Panel(
            "seen",
            Text("source words with weight", "有权重的源词"),
            Text("decoder", "解码器"),
            Text("words", "词数"),
            kind="bars",
            names=NAMES,
        ),
        Panel(
            "effective",
            Text("effective number of words after training", "训练后的有效词数"),
            Text("decoder", "解码器"),
            Text("exp(entropy)", "exp(熵)"),
            kind="bars",
            names=NAMES,
        ),
        Panel(
            "accuracy",
            Text("next word of the target", "目标的下一个词"),
            Text("decoder", "解码器"),
            Text("accuracy", "准确率"),
            kind="bars",
            names=NAMES,
        ),
    )
    papers = ("Bahdanau et al. 2015, equations 5 and 6", "Luong et al. 2015, sections 3.1 and 3.2")
    seconds = 39

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        for task in (COPY, REVERSE):
            for decoder in DECODERS:
                seeded(seed, "weights")
                model = build(decoder)
                batch = partial(sentences, task=task)
                fit_toy(model, batch, loss, steps=effort.pick(120, 8), rate=1e-2, seed=seed)
                model.double()
                test = batch(generator_of(seed, "test"), size=200)
                cross = model.attentions(*inputs(test)).cross
                assert cross is not None
                weights = cross[:, 0, 0]  # (B, T, S)
                record("seen", task, decoder, float((weights > 0).sum(dim=-1).double().mean()))
                record("effective", task, decoder, effective(weights))
                with torch.no_grad():
                    found = model(*inputs(test)).logits().argmax(dim=-1)
                record("accuracy", task, decoder, float((found == test["labels"]).double().mean()))

    def judge(self, results: Results) -> Verdict:
        bahdanau, luong = (results.values("seen", COPY, decoder) for decoder in (BAHDANAU, GLOBAL))
        everything = all(seen == LENGTH for seen in bahdanau)
        return Verdict(
            decide(above(luong, bahdanau), everything),
            Text(
                "Of {length:.0f} source words Bahdanau's attention gives weight to {bahdanau:.1f}, Luong's global "
                "attention to {luong:.1f}, local-m to {local_m:.1f} and local-p to {local_p:.1f}. After training, "
                "Bahdanau's weights are as concentrated as on {effective:.1f} words. The accuracy of reversing is "
                "{right_bahdanau:.0%}, {right_luong:.0%}, {right_m:.0%} and {right_p:.0%}.",
                "在 {length:.0f} 个源词中，Bahdanau 的注意力给 {bahdanau:.1f} 个词分配权重，Luong 的全局注意力为 "
                "{luong:.1f} 个，local-m 为 {local_m:.1f} 个，local-p 为 {local_p:.1f} 个。训练后，Bahdanau 的权重"
                "相当于集中在 {effective:.1f} 个词上。反转任务的准确率依次为 {right_bahdanau:.0%}、{right_luong:.0%}、"
                "{right_m:.0%} 和 {right_p:.0%}。",
            ),
            {
                "length": LENGTH,
                "bahdanau": results.mean("seen", COPY, BAHDANAU),
                "luong": results.mean("seen", COPY, GLOBAL),
                "local_m": results.mean("seen", COPY, LOCAL_M),
                "local_p": results.mean("seen", COPY, LOCAL_P),
                "effective": results.mean("effective", COPY, BAHDANAU),
                "right_bahdanau": results.mean("accuracy", REVERSE, BAHDANAU),
                "right_luong": results.mean("accuracy", REVERSE, GLOBAL),
                "right_m": results.mean("accuracy", REVERSE, LOCAL_M),
                "right_p": results.mean("accuracy", REVERSE, LOCAL_P),
            },
        )
