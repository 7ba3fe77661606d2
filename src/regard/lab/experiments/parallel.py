"""Where a Transformer is parallel: all known words at once, in the encoder and in training; not when it writes.

    GRU, known words           h_t needs h_{t-1}: one state update after another, in training too
    Transformer, known words   the mask replaces the order: one call of the decoder for all positions (training)
    Transformer, writing       word t needs word t - 1, which must be chosen first: n calls, with a KV cache
    mask-predict               all words at once, then the uncertain ones again: a fixed number of calls

The first panel counts what must happen one after another: calls of the decoder, or state updates. The second is the
CPU time of one core, which does little in parallel itself: one call for all words saves the overhead of many small
operations even there.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.decoding.stepper import Symbols
from regard.engines.mask_predict import mask_predict
from regard.lab.costs import fastest
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toys import generator_of, rectangle, seeded
from regard.layers.recurrent import Hidden, RecurrentLayer
from regard.models.masked import MaskedSettings, MaskedTransformer
from regard.models.transformer import Transformer, TransformerSettings
from regard.text.symbols import BOS, EOS, PAD, SPECIALS

VOCABULARY, WIDTH, SOURCE, PASSES = 200, 64, 16, 10
GRU, TRAINING, WRITING, REFINING = "GRU", "Transformer, training", "Transformer, writing", "mask-predict"
Run = Callable[[], object]


class Counter:
    """Counts how often something is called."""

    calls = 0

    def __call__(self, *_: object) -> None:
        self.calls += 1


class CountingLayer(RecurrentLayer):
    """A GRU that counts its state updates."""

    def __init__(self, counter: Counter) -> None:
        super().__init__("gru", WIDTH, WIDTH)
        self.counter = counter

    def step(self, x: Tensor, hidden: Hidden) -> Hidden:
        self.counter()
        return super().step(x, hidden)


def write(model: Transformer, source: Tensor, length: int) -> Tensor:
    """The most likely words, one after the other."""
    state, words = model.start(rectangle(source)), [torch.full((len(source), 1), BOS)]
    for _ in range(length):
        logits, state = model.step(words[-1], state)
        words.append(logits.argmax(dim=-1))
    return torch.cat(words[1:], dim=1)


def refine(model: MaskedTransformer, source: Tensor, length: int) -> Tensor:
    """The words of mask-predict for a given length."""
    tokens = rectangle(source)
    memory, _ = model.encode(tokens)
    words = torch.full((len(source), length), BOS)

    def predict(masked: Tensor) -> Tensor:
        return model.predict(rectangle(masked), memory, tokens)

    return mask_predict(predict, words, torch.ones_like(words, dtype=torch.bool), PASSES, Symbols(BOS, EOS, PAD))[0]


def build(counter: Counter, seed: int) -> Callable[[int], dict[str, Run]]:
    """The four ways as functions of the length, with new weights; every call of a decoder layer is counted."""
    seeded(seed, "weights")
    sizes = {"d_model": WIDTH, "num_heads": 4, "d_ff": 128, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
    transformer = Transformer(TransformerSettings.model_validate(sizes), VOCABULARY, VOCABULARY).eval()
    masked = MaskedTransformer(MaskedSettings.model_validate(sizes), VOCABULARY, VOCABULARY).eval()
    gru, embedding, output = CountingLayer(counter), nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY)
    for decoder in (transformer.decoder, masked.transformer.decoder):
        decoder[0].feedforward.register_forward_hook(counter)
    source = torch.randint(len(SPECIALS), VOCABULARY, (1, SOURCE), generator=generator_of(seed, "source"))

    def ways(length: int) -> dict[str, Run]:
        words = torch.randint(len(SPECIALS), VOCABULARY, (1, length), generator=generator_of(seed, "words"))
        return {
            GRU: lambda: output(gru.read(embedding(words))[0]),
            TRAINING: lambda: transformer(rectangle(source), rectangle(words)).logits(),
            WRITING: lambda: write(transformer, source, length),
            REFINING: lambda: refine(masked, source, length),
        }

    return ways


@torch.no_grad()
def measure(seed: int, effort: Effort, record: Record) -> None:
    counter = Counter()
    ways = build(counter, seed)
    for length in effort.pick((16, 64, 256, 512), (16, 128)):
        for name, run in ways(length).items():
            counter.calls = 0
            run()
            record("calls", name, length, counter.calls)
            record("time", name, length, 1000 * fastest(run, repeats=3))


def judge(results: Results) -> Verdict:
    lengths = results.xs("time", WRITING)
    length = 256 if 256 in lengths else lengths[-1]
    calls, once = (results.values("calls", name, length) for name in (WRITING, TRAINING))
    writing, training = (results.values("time", name, length) for name in (WRITING, TRAINING))
    confirmed, refuted = above(calls, once) and above(writing, training), not above(calls, once)
    times = {name: results.mean("time", name, length) for name in (TRAINING, WRITING, REFINING)}
    numbers = {
        "length": float(length),
        "written": calls[0],
        "writing": times[WRITING] / times[TRAINING],
        "refining": times[REFINING] / times[TRAINING],
    }
    return Verdict(decide(confirmed, refuted or above(training, writing)), numbers)
