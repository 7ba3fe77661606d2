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
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toys import IGNORE, ToyTensors, build_tagger, fit_toy, generator_of, seeded
from regard.losses.crossentropy import Loss, cross_entropy
from regard.models.text_encoder import EncoderWithHead, TransformerEncoder

WORDS, LENGTH, PERIOD, MASK = 20, 6, 2, 20
DIAGONAL, NO_RESIDUAL, MASK_TOKEN = "diagonal", "diagonal, no residual", "[MASK]"
HIDDEN = "word replaced by [MASK]"


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


def measure(seed: int, effort: Effort, record: Record) -> None:
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
        for x, hide in (("word visible in the input", False), (HIDDEN, True)):
            with torch.no_grad():
                logits, labels = predict(model, test, layout, hide)
            record("accuracy", method, x, float((logits.argmax(dim=-1) == labels).float().mean()))


def judge(results: Results) -> Verdict:
    leaks = [results.values("leak", method, layer) for method in (DIAGONAL, NO_RESIDUAL) for layer in (1, 2)]
    diagonal, mask = (results.values("accuracy", method, HIDDEN) for method in (DIAGONAL, MASK_TOKEN))
    leaking = all(above(values, [0.001]) for values in leaks)
    return Verdict(
        decide(leaking and above(mask, diagonal, by=0.3), not leaking or not above(mask, diagonal)),
        {"nothing": results.mean("leak", MASK_TOKEN, 1), "hidden": results.mean("accuracy", DIAGONAL, HIDDEN)},
    )
