"""Sentence length: without attention a decoder has one vector for a whole sentence, and long ones do not fit.

Bahdanau et al. 2014, figure 2, in small. An encoder-decoder without attention writes the target from the last state of
its encoder, a vector of fixed size (equations 1 and 2). With attention every target word has a context of its own:

    plain       y_1 .. y_T  from  h_S
    attention   y_t         from  c_t = sum_s a_ts h_s

Both copy random digits. As in the paper each is trained twice: on sentences up to a short and up to a longer length
(there 30 and 50 words). The plain model gets half as many steps again. BLEU counts n-grams, so a sentence with one
error has a high BLEU; exact match counts it as wrong.
"""

from functools import partial

import torch

from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toy_pairs import SHIFT, pair_batch, share_equal, targets_of, translation_loss, write
from regard.lab.toys import ToyTensors, fit_toy, generator_of, seeded
from regard.metrics.translation import bleu
from regard.models.recurrent import RecurrentModel, RecurrentSettings

DIGITS = 10
PLAIN = RecurrentSettings(
    decoder="plain", cell="gru", layers=1, encoder="backward", d_embedding=32, d_model=64, attention="none"
)
ATTENTION = RecurrentSettings(decoder="bahdanau", d_embedding=32, d_model=64)


def copies(generator: torch.Generator, longest: int, shortest: int = 2, size: int = 64) -> ToyTensors:
    """Random digits of random lengths; the target is the same digits."""
    lengths = torch.randint(shortest, longest + 1, (size,), generator=generator).tolist()
    rows = [torch.randint(DIGITS, (length,), generator=generator).tolist() for length in lengths]
    return pair_batch(rows, rows)


def measure(seed: int, effort: Effort, record: Record) -> None:
    fit = partial(fit_toy, rate=5e-3, warmup=20, schedule="linear", seed=seed)
    kinds = (("plain", PLAIN, effort.pick(375, 90)), ("attention", ATTENTION, effort.pick(250, 60)))
    for longest in effort.pick((5, 9), (5,)):
        for kind, settings, steps in kinds:
            seeded(seed, "weights")
            model = RecurrentModel(settings, SHIFT + DIGITS, SHIFT + DIGITS)
            fit(model, partial(copies, longest=longest), translation_loss, steps=steps)
            for length in effort.pick((4, 5, 6, 7, 8, 9, 10, 12, 14), (4, 5, 6)):
                test = copies(generator_of(seed, "test", length), length, length, size=100)
                written, wanted = write(model, test), targets_of(test)
                record("exact", f"{kind}-{longest}", length, share_equal(written, wanted))
                hypotheses, references = ([" ".join(map(str, row)) for row in rows] for rows in (written, wanted))
                record("bleu", f"{kind}-{longest}", length, bleu(hypotheses, references, tokenize="none").value)


def judge(results: Results) -> Verdict:
    *_, plain, attention = results.series("exact")
    first, longest = results.xs("exact", plain)[0], int(plain.partition("-")[2])
    at_first, at_end = (results.values("exact", plain, length) for length in (first, longest))
    attended = results.values("exact", attention, longest)
    numbers = {
        "first": float(first),
        "longest": longest,
        "plain_first": results.mean("exact", plain, first),
        "plain": results.mean("exact", plain, longest),
        "attention": results.mean("exact", attention, longest),
    }
    return Verdict(
        decide(above(at_first, at_end) and above(attended, at_end, by=0.2), above(at_end, attended)), numbers
    )
