"""BERT hides a word in the input and not in the attention scores: with a masked diagonal the word still leaks.

A decoder hides later words by masking scores. Could BERT hide word i in the same way, by masking the score s_ii, so
that h_i is computed from all words but its own? No, for three reasons:

    residual     h_i = x_i + attention(x)_i: the word is added to its own output
    query        without the residual, q_i = W^Q x_i still decides the weights of the other words
    neighbours   h_j of the first layer holds x_i, and the second layer of word i attends to h_j

A model that is trained to name every word then copies it. [MASK] replaces the word in the input, so nothing of it is
left. The trained models read sentences that repeat two words, "a b a b a b": a hidden word can be inferred.
"""

from functools import partial

import torch
from torch import Tensor, nn

from regard.attention.layouts import Padded, PaddedPattern, Tokens
from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import IGNORE, ToyTensors, build_tagger, fit_toy, generator_of, seeded
from regard.losses.crossentropy import Loss, cross_entropy
from regard.models.text_encoder import EncoderWithHead, TransformerEncoder

WORDS, LENGTH, PERIOD, MASK = 20, 6, 2, 20
DIAGONAL, NO_RESIDUAL, MASK_TOKEN = "diagonal", "diagonal, no residual", "[MASK]"
TRAINING, HIDDEN = "word visible in the input", "word replaced by [MASK]"


class WithoutSelf(Padded):
    """A layout in which no token attends to itself."""

    def pattern(self, keys: Padded, causal: bool = False, window: int = 0) -> PaddedPattern:
        return OffDiagonal(self, keys, causal)


class OffDiagonal(PaddedPattern):
    """An attention pattern with the diagonal masked."""

    @property
    def mask(self) -> Tensor:
        return super().mask & ~torch.eye(self.keys.size, dtype=torch.bool)


def tokens_of(ids: Tensor, layout: type[Padded]) -> Tokens:
    """Sentences (B, T) without padding."""
    return layout.of(ids, torch.full((ids.size(0),), ids.size(1)))


def leak(encoder: TransformerEncoder, ids: Tensor, method: str) -> list[float]:
    """For each layer, the share of the gradient of h_i that reaches the vector of word i, mean over i.

    The share is |g_i| / sum_j |g_j|, g_j the gradient of r . h_i by word j, r a random direction.
    """
    tokens = tokens_of(ids, Padded if method == MASK_TOKEN else WithoutSelf)
    layout = tokens.layout
    shares = torch.zeros(len(encoder.layers))
    for i in range(LENGTH):
        words = encoder.words(ids).detach().requires_grad_()  # (B, T, D)
        hidden = (torch.arange(LENGTH) == i)[:, None] if method == MASK_TOKEN else torch.zeros(1, dtype=torch.bool)
        inputs = torch.where(hidden, encoder.words(torch.tensor(MASK)), words) + encoder.positions(layout.positions)
        states = encoder.layers.hidden_states(inputs, layout.pattern(layout))[1:]
        direction = torch.randn(states[0].size(-1), generator=generator_of(i, "direction"))
        for layer, state in enumerate(states):
            (gradient,) = torch.autograd.grad((state[:, i] @ direction).sum(), words, retain_graph=True)
            norms = gradient.norm(dim=-1)  # (B, T)
            shares[layer] += (norms[:, i] / norms.sum(dim=-1)).mean() / LENGTH
    return shares.tolist()


def sentences(generator: torch.Generator, size: int = 64) -> ToyTensors:
    """Sentences of two words that repeat, and one position of each."""
    words = torch.randint(WORDS, (size, PERIOD), generator=generator)
    ids = words.repeat(1, LENGTH)[:, :LENGTH]
    return {"ids": ids, "labels": torch.randint(LENGTH, (size,), generator=generator)}


def predict(model: EncoderWithHead, batch: ToyTensors, layout: type[Padded], masked: bool) -> tuple[Tensor, Tensor]:
    """Logits (B, WORDS) of the chosen position, and its word (B,); `masked`: the word is replaced by [MASK]."""
    ids, chosen = batch["ids"], batch["labels"][:, None]
    inputs = ids.scatter(1, chosen, MASK) if masked else ids
    logits = model(tokens_of(inputs, layout))
    return logits[torch.arange(len(ids)), chosen[:, 0]], ids.gather(1, chosen)[:, 0]


def loss(model: nn.Module, batch: ToyTensors, layout: type[Padded], masked: bool) -> Loss:
    """Cross-entropy of the word of the chosen position."""
    assert isinstance(model, EncoderWithHead)
    return cross_entropy(*predict(model, batch, layout, masked), ignore=IGNORE)


class Diagonal(Experiment):
    """The leak of a word into its own output, and what a model learns from it."""

    name = "diagonal"
    topic = "bert"
    title = Text("Why does BERT not mask scores?", "BERT 为什么不在 score 处屏蔽？")
    questions = (
        Question(
            "001:195",
            Text(
                "Why does BERT replace words by [MASK] and not mask attention scores as the decoder does?",
                "BERT 的 mask 为何不学习 Transformer 在 attention 处屏蔽 score 的技巧？",
            ),
            Text("–", "–"),
        ),
    )
    hypothesis = Text(
        "With a masked diagonal a word still reaches its own output, so a model copies it and learns nothing else.",
        "只屏蔽对角线时，一个词仍能到达它自己的输出，于是模型照抄它，学不到别的。",
    )
    varied = Text(
        "how the word is hidden: its own score is masked (with and without residual), or [MASK] is the input",
        "隐藏词的方式：屏蔽它自己的 score（有残差、无残差），或输入换成 [MASK]",
    )
    measured = Text(
        "share of the gradient of an output that reaches its own word; accuracy of two trained models",
        "输出的梯度中到达自身那个词的份额；两个训练后模型的准确率",
    )
    refuted_if = Text(
        "no gradient reaches the own word, or the model with the masked diagonal can name a word that is hidden",
        "没有梯度到达自身的词，或屏蔽对角线的模型能说出被隐藏的词",
    )
    panels = (
        Panel(
            "leak",
            Text("the word in its own output (before training)", "词对自身输出的影响（训练前）"),
            Text("layer", "层"),
            Text("share of the gradient", "梯度份额"),
            names={
                DIAGONAL: Text("diagonal masked", "屏蔽对角线"),
                NO_RESIDUAL: Text("diagonal masked, no residual", "屏蔽对角线，无残差"),
            },
        ),
        Panel(
            "accuracy",
            Text("naming a word after training", "训练后说出一个词"),
            Text("the word in the input", "输入中的词"),
            Text("accuracy", "准确率"),
            kind="bars",
            names={
                DIAGONAL: Text("trained with a masked diagonal", "以屏蔽对角线训练"),
                MASK_TOKEN: Text("trained with [MASK]", "以 [MASK] 训练"),
                TRAINING: Text("visible", "可见"),
                HIDDEN: Text("[MASK]", "[MASK]"),
            },
        ),
    )
    papers = ("Devlin et al. 2018, section 3.1",)
    seconds = 20

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        test = sentences(generator_of(seed, "test"), size=500)
        for method in (DIAGONAL, NO_RESIDUAL, MASK_TOKEN):
            seeded(seed, "weights")
            fresh = build_tagger(WORDS + 1, WORDS, layers=4, norm="post", residual=method != NO_RESIDUAL)
            assert isinstance(fresh.encoder, TransformerEncoder)
            for layer, share in enumerate(leak(fresh.encoder, test["ids"][:16], method), start=1):
                record("leak", method, layer, share)
        for method in (DIAGONAL, MASK_TOKEN):
            layout, masked = (Padded, True) if method == MASK_TOKEN else (WithoutSelf, False)
            seeded(seed, "weights")
            model = build_tagger(WORDS + 1, WORDS, layers=2, positions="rotary")
            predicting = partial(loss, layout=layout, masked=masked)
            fit_toy(model, sentences, predicting, steps=effort.pick(300, 100), rate=5e-3, seed=seed)
            for x, hide in ((TRAINING, False), (HIDDEN, True)):
                with torch.no_grad():
                    logits, labels = predict(model, test, layout, hide)
                record("accuracy", method, x, float((logits.argmax(dim=-1) == labels).float().mean()))

    def judge(self, results: Results) -> Verdict:
        leaks = [results.values("leak", DIAGONAL, layer) for layer in (1, 2)]
        leaks += [results.values("leak", NO_RESIDUAL, layer) for layer in (1, 2)]
        diagonal, mask = (results.values("accuracy", method, HIDDEN) for method in (DIAGONAL, MASK_TOKEN))
        leaking = all(above(values, [0.001]) for values in leaks)
        return Verdict(
            decide(leaking and above(mask, diagonal, by=0.3), not leaking or not above(mask, diagonal)),
            Text(
                "With a masked diagonal, {residual:.0%} of the gradient of a first-layer output reaches its own word, "
                "and {query:.0%} without the residual; with [MASK] {nothing:.0%}. The model trained with a masked "
                "diagonal names {seen:.0%} of the words in training and {diagonal:.0%} when they are hidden; the model "
                "trained with [MASK] names {mask:.0%} of the hidden words.",
                "屏蔽对角线时，第一层输出的梯度有 {residual:.0%} 到达自身的词，去掉残差后为 {query:.0%}；用 [MASK] 时"
                "为 {nothing:.0%}。以屏蔽对角线训练的模型在训练方式下能说出 {seen:.0%} 的词，词真正被隐藏时只有 "
                "{diagonal:.0%}；以 [MASK] 训练的模型能说出 {mask:.0%} 的隐藏词。",
            ),
            {
                "residual": results.mean("leak", DIAGONAL, 1),
                "query": results.mean("leak", NO_RESIDUAL, 1),
                "nothing": results.mean("leak", MASK_TOKEN, 1),
                "seen": results.mean("accuracy", DIAGONAL, TRAINING),
                "diagonal": results.mean("accuracy", DIAGONAL, HIDDEN),
                "mask": results.mean("accuracy", MASK_TOKEN, HIDDEN),
            },
        )
