"""Do looser assumptions need more data? An RNN, a convolution and a Transformer on few and on many pairs.

An RNN assumes that what matters is near in time, a convolution that it is near in the sequence and alike at all places.
Self-attention assumes neither: every token may attend to every other, and the order is only an input among others. What
is not assumed has to be learnt from examples (Dosovitskiy et al. 2021 say the same of images).

The three translate digits: each digit becomes another symbol, and neighbours swap their places, so that order and
neighbourhood matter. All have attention to the source, about the same number of parameters, and the same number of
steps. Only the number of different pairs grows; the test pairs are new. A model that is worse with few pairs and equal
with many needs more data; one that is worse with many pairs as well may only need more steps. The last panel shows how
many steps each model needs if it has pairs enough.
"""

from functools import partial

import torch
from torch import nn

from regard.lab.budgets import watched
from regard.lab.experiment import Effort, Record, Results, Verdict, decide, equivalent, paired
from regard.lab.toy_pairs import SHIFT, pair_batch, shifted_target, source_of, translation_loss
from regard.lab.toys import IGNORE, ToyTensors, fit_toy, generator_of, random_rows, seeded
from regard.models.convolutional import Convolutional, ConvolutionalSettings
from regard.models.recurrent import RecurrentModel, RecurrentSettings
from regard.models.transformer import Transformer, TransformerSettings

DIGITS, LENGTH = 10, 6
VOCABULARY = SHIFT + 2 * DIGITS
MODELS = RNN, CONVOLUTION, TRANSFORMER = "recurrent", "convolutional", "Transformer"
COUNTS = FEW, MANY = 50, 2000
BUDGETS = (50, 100, 200, 400, 700)


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

    def look(step: int, model: nn.Module, name: str) -> None:
        record("budget", name, step, token_accuracy(model, test))

    for name in MODELS:
        for count in COUNTS:
            pairs, steps = swaps(generator_of(seed, "pairs"), count), effort.pick(1000, 60)
            seeded(seed, "weights")
            model = build(name)
            loss = watched(translation_loss, BUDGETS if count == MANY else (), partial(look, name=name))
            batch = partial(random_rows, rows=pairs, size=16)
            fit_toy(model, batch, loss, steps=steps, rate=4e-3, warmup=20, schedule="linear", seed=seed)
            record("accuracy", name, count, token_accuracy(model, test))
        look(steps, model, name)
        record("parameters", "parameters", name, sum(parameter.numel() for parameter in model.parameters()))


def judge(results: Results) -> Verdict:
    own, *others = (
        [results.values("accuracy", name, count) for count in COUNTS] for name in (TRANSFORMER, RNN, CONVOLUTION)
    )
    behind = all(paired(few, own[0]) for few, _ in others)
    ahead = any(paired(own[0], few) for few, _ in others)
    catches_up = all(equivalent(own[1], many) for _, many in others)
    still = any(paired(many, own[1], by=0.02) for _, many in others)
    return Verdict(decide(behind and catches_up, ahead or still), {"few": FEW, "many": MANY})
