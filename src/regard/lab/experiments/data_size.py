"""Do looser assumptions need more data? An RNN, a convolution and a Transformer on few and on many pairs.

An RNN assumes that what matters is near in time, a convolution that it is near in the sequence and alike at all places.
Self-attention assumes neither: every token may attend to every other, and the order is only an input among others. What
is not assumed has to be learnt from examples (Dosovitskiy et al. 2021 say the same of images).

The three translate digits: each digit becomes another symbol, and neighbours swap their places, so that order and
neighbourhood matter. All have attention to the source, about the same number of parameters, and the same number of
steps. Only the number of different pairs grows; the test pairs are new. A model that is worse with few pairs and equal
with many needs more data; one that is worse with many pairs as well may only need more steps.
"""

from functools import partial

import torch
from torch import nn

from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toy_pairs import SHIFT, pair_batch, shifted_target, source_of, translation_loss
from regard.lab.toys import IGNORE, ToyTensors, fit_toy, generator_of, random_rows, seeded
from regard.models.convolutional import Convolutional, ConvolutionalSettings
from regard.models.recurrent import RecurrentModel, RecurrentSettings
from regard.models.transformer import Transformer, TransformerSettings

DIGITS, LENGTH = 10, 6
VOCABULARY = SHIFT + 2 * DIGITS
MODELS = RNN, CONVOLUTION, TRANSFORMER = "recurrent", "convolutional", "Transformer"
COUNTS = (50, 300, 2000)


def swaps(generator: torch.Generator, size: int) -> ToyTensors:
    """Random digits; in the target each is another symbol, and the digits of every pair of neighbours change places."""
    digits = torch.randint(DIGITS, (size, LENGTH), generator=generator)
    target = digits.view(size, -1, 2).flip(2).reshape(size, LENGTH) + DIGITS
    return pair_batch(digits.tolist(), target.tolist())


def build(name: str) -> nn.Module:
    """A small model with attention to the source."""
    if name == RNN:
        settings = RecurrentSettings(
            decoder="luong", cell="gru", layers=1, encoder="both", d_embedding=32, d_model=40, attention="global",
            score="general", input_feeding=False, dropout=0.0,
        )  # fmt: skip
        return RecurrentModel(settings, VOCABULARY, VOCABULARY)
    if name == CONVOLUTION:
        convolutions = ConvolutionalSettings(
            d_model=48, d_embedding=48, encoder_layers=1, decoder_layers=1, dropout=0.0, max_positions=16
        )
        return Convolutional(convolutions, VOCABULARY, VOCABULARY)
    layers = TransformerSettings(
        d_model=48, num_heads=4, d_ff=96, encoder_layers=1, decoder_layers=1, dropout=0.0, norm="pre"
    )
    return Transformer(layers, VOCABULARY, VOCABULARY)


@torch.no_grad()
def token_accuracy(model: nn.Module, batch: ToyTensors) -> float:
    """Share of target tokens that are predicted, given the source and the tokens before them."""
    labels = batch["labels"]
    predicted = model(source_of(batch), shifted_target(labels)).logits().argmax(dim=-1)
    return float((predicted == labels)[labels != IGNORE].float().mean())


def measure(seed: int, effort: Effort, record: Record) -> None:
    test = swaps(generator_of(seed, "test"), 500)
    for name in MODELS:
        for count in effort.pick(COUNTS, (COUNTS[0], COUNTS[-1])):
            pairs = swaps(generator_of(seed, "pairs"), count)
            seeded(seed, "weights")
            model = build(name)
            fit_toy(
                model, partial(random_rows, rows=pairs), translation_loss, steps=effort.pick(300, 40), rate=4e-3,
                warmup=20, schedule="linear", seed=seed,
            )  # fmt: skip
            record("accuracy", name, count, token_accuracy(model, test))
        record("parameters", "parameters", name, sum(parameter.numel() for parameter in model.parameters()))


def judge(results: Results) -> Verdict:
    few, many = COUNTS[0], COUNTS[-1]
    values = {name: [results.values("accuracy", name, count) for count in (few, many)] for name in MODELS}
    others = [values[name] for name in (RNN, CONVOLUTION)]
    own = values[TRANSFORMER]
    behind = all(above(other[0], own[0]) for other in others)
    catches_up = not any(above(other[1], own[1], by=0.01) for other in others)
    return Verdict(
        decide(behind and catches_up, any(above(own[0], other[0]) for other in others)), {"few": few, "many": many}
    )
