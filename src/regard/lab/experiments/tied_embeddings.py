"""Tied embeddings: one matrix for source, target and output, or one for each.

The embedding of word w is row w of a matrix E; the logit of word w is the product of the last hidden state with row w
of another one, O. Both say which words are alike, so they can be the same:

    none      E_source, E_target and O        3 V D parameters
    output    E_target = O                    2 V D      Press & Wolf 2017; Inan et al. 2017
    all       E_source = E_target = O         1 V D      Vaswani et al. 2017, section 3.4

A Transformer copies words of a large vocabulary in reverse. Source and target share their words, as languages with
common subwords do. With few pairs most words are rarely seen; a tied row learns from every occurrence of its word on
either side.
"""

from functools import partial

import torch

from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toy_pairs import SHIFT, pair_batch, translation_loss
from regard.lab.toys import ToyTensors, fit_toy, generator_of, random_rows, seeded
from regard.models.settings import Tie
from regard.models.transformer import Transformer, TransformerSettings

WORDS, LENGTH, WIDTH = 60, 5, 48
TIES: tuple[Tie, ...] = ("none", "output", "all")


def reversals(generator: torch.Generator, size: int) -> ToyTensors:
    """Random words, and the same words in reverse as the target."""
    rows = torch.randint(WORDS, (size, LENGTH), generator=generator)
    return pair_batch(rows.tolist(), rows.flip(1).tolist())


def measure(seed: int, effort: Effort, record: Record) -> None:
    test = reversals(generator_of(seed, "test"), 400)
    for tie in TIES:
        for count in effort.pick((200, 600, 2000), (200,)):
            pairs = reversals(generator_of(seed, "pairs"), count)
            seeded(seed, "weights")
            settings = TransformerSettings(
                d_model=WIDTH, num_heads=4, d_ff=96, encoder_layers=1, decoder_layers=1, dropout=0.0, norm="pre",
                tie=tie,
            )  # fmt: skip
            model = Transformer(settings, SHIFT + WORDS, SHIFT + WORDS)
            fit_toy(
                model, partial(random_rows, rows=pairs), translation_loss, steps=effort.pick(250, 60), rate=4e-3,
                warmup=20, schedule="linear", seed=seed,
            )  # fmt: skip
            with torch.no_grad():
                loss = translation_loss(model, test)
            record("nll", tie, count, float(loss.nll / loss.count))
        record("parameters", "parameters", tie, sum(parameter.numel() for parameter in model.parameters()))


def judge(results: Results) -> Verdict:
    none, everything = (results.values("nll", tie, 200) for tie in ("none", "all"))
    return Verdict(decide(above(none, everything), above(everything, none)), {"few": 200})
