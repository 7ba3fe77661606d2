"""Cross-attention: the only place where the decoder of a Transformer learns of the source.

    self-attention    Q, K and V from the target
    cross-attention   Q from the target, K and V from the output of the encoder

A trained Transformer reverses six digits. Then cross-attention is cut: the output of the sublayer is set to zero, and
only the residual connection remains. Each decoder layer is cut alone, then all of them. For comparison, the decoder's
self-attention is cut, and another model is trained without cross-attention. Without the source the best guess of a
digit is right once in ten times.
"""

from collections.abc import Iterable
from copy import deepcopy
from functools import partial

import torch
from torch import nn

from regard.attention.multihead import MultiHeadAttention
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toy_pairs import SHIFT, exact_match, reversed_pairs, shifted_target, source_of, translation_loss
from regard.lab.toys import IGNORE, ToyTensors, fit_toy, generator_of, seeded
from regard.models.transformer import Transformer, TransformerSettings

DIGITS, LAYERS = 10, 3
WHOLE, ALL_CROSS, ALL_SELF = "nothing", "all cross-attention", "decoder self-attention"


def cut(attentions: Iterable[MultiHeadAttention]) -> None:
    """Set the outputs of attention sublayers to zero, for good: they get no gradient either."""
    for attention in attentions:
        for parameter in attention.output.parameters():
            nn.init.zeros_(parameter)
            parameter.requires_grad_(False)


@torch.no_grad()
def digit_accuracy(model: Transformer, batch: ToyTensors) -> float:
    """Share of digits that are predicted, given the source and the digits before them."""
    labels = batch["labels"]
    digit = (labels >= SHIFT) & (labels != IGNORE)
    found = model(source_of(batch), shifted_target(labels)).logits().argmax(dim=-1)
    return float((found == labels)[digit].float().mean())


def measure(seed: int, effort: Effort, record: Record) -> None:
    batch = partial(reversed_pairs, words=DIGITS, length=6)
    settings = TransformerSettings(
        d_model=64, num_heads=4, d_ff=128, encoder_layers=1, decoder_layers=LAYERS, dropout=0.0, norm="pre"
    )
    seeded(seed, "weights")
    whole = Transformer(settings, SHIFT + DIGITS, SHIFT + DIGITS)
    never = deepcopy(whole)
    cut(layer.cross_attention for layer in never.decoder)
    fit = partial(fit_toy, rate=3e-3, warmup=20, seed=seed, schedule="linear")
    for model, steps in ((whole, effort.pick(240, 110)), (never, effort.pick(240, 10))):
        fit(model, partial(batch, size=effort.pick(64, 32)), translation_loss, steps=steps)
    single = [f"layer {number}" for number in range(1, LAYERS + 1)]
    models = {name: deepcopy(whole) for name in (WHOLE, *single, ALL_CROSS, ALL_SELF)} | {"trained without it": never}
    for number, name in enumerate(single):
        cut([models[name].decoder[number].cross_attention])
    cut(layer.cross_attention for layer in models[ALL_CROSS].decoder)
    cut(layer.attention for layer in models[ALL_SELF].decoder)
    test = batch(generator_of(seed, "test"), size=200)
    for name, model in models.items():
        record("exact", "exact match", name, exact_match(model, test))
        record("exact", "digits", name, digit_accuracy(model, test))


def judge(results: Results) -> Verdict:
    whole, without = (results.values("exact", "exact match", name) for name in (WHOLE, ALL_CROSS))
    return Verdict(decide(above(whole, without, by=0.5) and max(without) < 0.05, not above(whole, without, by=0.1)))
