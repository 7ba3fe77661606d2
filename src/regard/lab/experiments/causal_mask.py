"""The causal mask: without it the decoder copies the answer in training, and writes nonsense alone.

A small Transformer learns to reverse six digits. In training the decoder sees the target, shifted by one: at position t
it has y_0 .. y_{t-1} as inputs and must predict y_t. Its self-attention is causal. Without the mask, position t also
sees its right neighbour, whose input is y_t itself: the model copies it and learns nothing else. In use there is no
right neighbour. The shift hides the current word, the mask the later ones: without the shift, position t has y_t as its
own input, and the mask does not help.
"""

from functools import partial

import torch
from torch import Tensor

from regard.attention.layouts import Tokens
from regard.decoding.constraints import Rules
from regard.decoding.rollout import greedy_search
from regard.decoding.stepper import Symbols
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toys import IGNORE, ToyTensors, fit_toy, generator_of, rectangle, seeded
from regard.layers.embeddings import OutputProjection
from regard.losses.crossentropy import Loss, cross_entropy
from regard.models.transformer import Transformer, TransformerSettings
from regard.text.symbols import BOS, EOS, PAD, SPECIALS

DIGITS, LENGTH = 10, 6
VOCABULARY = len(SPECIALS) + DIGITS


def digits(generator: torch.Generator, size: int = 64) -> ToyTensors:
    """Six random digits as the source; the same digits in reverse, and the end symbol, as the target."""
    source = torch.randint(len(SPECIALS), VOCABULARY, (size, LENGTH), generator=generator)
    end = torch.full((size, 1), EOS)
    return {"source": source, "labels": torch.cat([source.flip(1), end], dim=1)}


class Decoder(Transformer):
    """A Transformer whose decoder may attend to later positions in training."""

    causal = True

    def forward(self, src: Tokens, tgt: Tokens) -> OutputProjection:
        """As in `Transformer`, with a pattern of the target that is causal or not."""
        memory = self.encode(src, src.layout.pattern(src.layout))
        pattern = tgt.layout.pattern(tgt.layout, causal=self.causal)
        return self.output.project(self.decode(tgt, memory, pattern, tgt.layout.pattern(src.layout)))


def loss(model: torch.nn.Module, batch: ToyTensors, shifted: bool) -> Loss:
    """Cross-entropy of the target, given the target shifted by one position or not."""
    source, labels = batch["source"], batch["labels"]
    start = torch.full((len(labels), 1), BOS)
    inputs = torch.cat([start, labels[:, :-1]], dim=1) if shifted else labels
    logits = model(rectangle(source), rectangle(inputs)).logits()
    return cross_entropy(logits, labels, ignore=IGNORE)


def exact_match(model: Transformer, source: Tensor) -> float:
    """Share of sources that the model reverses without seeing the target, by greedy search."""
    limit = torch.full((len(source),), LENGTH + 1)
    written = greedy_search(model, rectangle(source), limit, Rules(Symbols(BOS, EOS, PAD)))
    wanted = source.flip(1).tolist()
    return sum(best[0].tokens == right for best, right in zip(written, wanted, strict=True)) / len(wanted)


def measure(seed: int, effort: Effort, record: Record) -> None:
    settings = TransformerSettings(
        d_model=64, num_heads=4, d_ff=128, encoder_layers=1, decoder_layers=1, dropout=0.0, norm="pre"
    )
    for name in ("causal mask", "no mask", "no shift"):
        seeded(seed, "weights")
        model = Decoder(settings, VOCABULARY, VOCABULARY)
        model.causal = name != "no mask"
        objective, steps = partial(loss, shifted=name != "no shift"), effort.pick(400, 200)
        losses = fit_toy(model, digits, objective, steps=steps, rate=3e-3, warmup=30, seed=seed, schedule="linear")
        record("loss", "loss", name, losses[-1])
        record("exact", "exact match", name, exact_match(model, digits(generator_of(seed, "test"), 200)["source"]))


def judge(results: Results) -> Verdict:
    masked, unmasked = (results.values("exact", "exact match", name) for name in ("causal mask", "no mask"))
    return Verdict(decide(above(masked, unmasked, by=0.5), above(unmasked, masked)))
