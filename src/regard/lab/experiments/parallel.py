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
from regard.lab.costs import exponent, fastest
from regard.lab.experiment import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import generator_of, rectangle, seeded
from regard.layers.recurrent import Hidden, RecurrentLayer
from regard.models.masked import MaskedSettings, MaskedTransformer
from regard.models.transformer import Transformer, TransformerSettings
from regard.text.symbols import BOS, EOS, PAD, SPECIALS

VOCABULARY, WIDTH, SOURCE, PASSES = 200, 64, 16, 10
GRU, TRAINING, WRITING, REFINING = "GRU", "Transformer, training", "Transformer, writing", "mask-predict"
NAMES = {
    GRU: Text("GRU, known words", "GRU，词已知"),
    TRAINING: Text("Transformer, known words", "Transformer，词已知"),
    WRITING: Text("Transformer, writing", "Transformer，生成"),
    REFINING: Text("mask-predict, writing", "mask-predict，生成"),
}
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


class Parallel(Experiment):
    """Sequential calls and time over the length, for known words and for writing."""

    name = "parallel"
    topic = "encoder-decoder"
    title = Text("Where is a Transformer parallel?", "Transformer 的并行体现在哪里？")
    questions = (
        Question(
            "001:192, 003:90, 000:57",
            Text(
                "Where is the Transformer parallel? Can the decoder be?",
                "Transformer 的并行化体现在哪个地方？Decoder 端可以并行吗？",
            ),
            Text(
                "An RNN is sequential and precludes parallel computation within an example (in training?); a "
                "Transformer is parallel and takes less time to train.",
                "RNN 本质上是顺序的，样本内无法并行（指训练时？）；Transformer 可以并行，训练时间更少。",
            ),
        ),
    )
    hypothesis = Text(
        "A Transformer reads known words in one call and writes word by word: it is parallel in training only.",
        "Transformer 一次读完已知的词，生成时逐词进行：只在训练时并行。",
    )
    varied = Text("the number of words, and how they are computed", "词数，以及计算方式")
    measured = Text("calls that must follow one another; CPU time on one core", "必须先后进行的调用次数；单核 CPU 时间")
    refuted_if = Text("writing takes as few calls and as little time as training", "生成的调用次数和时间与训练相同")
    panels = (
        Panel(
            "calls",
            Text("calls that follow one another", "先后进行的调用"),
            Text("words n", "词数 n"),
            Text("calls", "调用次数"),
            log="xy",
            names=NAMES,
        ),
        Panel(
            "time",
            Text("time on one core", "单核时间"),
            Text("words n", "词数 n"),
            Text("milliseconds", "毫秒"),
            log="xy",
            names=NAMES,
        ),
    )
    papers = ("Vaswani et al. 2017, section 4", "Ghazvininejad et al. 2019")
    seconds = 9
    timed = True

    @torch.no_grad()
    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        counter = Counter()
        ways = build(counter, seed)
        for length in effort.pick((16, 64, 256, 512), (16, 128)):
            for name, run in ways(length).items():
                counter.calls = 0
                run()
                record("calls", name, length, counter.calls)
                record("time", name, length, 1000 * fastest(run, repeats=3))

    def judge(self, results: Results) -> Verdict:
        lengths = [float(x) for x in results.xs("time", WRITING)]
        length = 256.0 if 256 in lengths else lengths[-1]
        calls, once = (results.values("calls", name, length) for name in (WRITING, TRAINING))
        times = {name: results.mean("time", name, length) for name in NAMES}
        writing, training = (results.values("time", name, length) for name in (WRITING, TRAINING))
        exponents = {
            key: exponent(lengths, [results.mean("time", name, n) for n in lengths])
            for key, name in (("writing_n", WRITING), ("training_n", TRAINING))
        }
        return Verdict(
            decide(above(calls, once) and above(writing, training), not above(calls, once) or above(training, writing)),
            Text(
                "For {length:.0f} words a Transformer needs {once:.0f} call of its decoder if they are known and "
                "{calls:.0f} if it writes them; a GRU needs {updates:.0f} state updates, mask-predict {passes:.0f} "
                "calls. On one core writing takes {writing:.0f} times as long as reading, mask-predict {refining:.1f} "
                "times, the GRU {gru:.1f} times. The time of writing grows as n to the power {writing_n:.1f}, that of "
                "reading {training_n:.1f}.",
                "对 {length:.0f} 个词，词已知时 Transformer 的解码器调用 {once:.0f} 次，生成时调用 {calls:.0f} 次；"
                "GRU 需要 {updates:.0f} 次状态更新，mask-predict 调用 {passes:.0f} 次。单核上，生成的时间是读入的 "
                "{writing:.0f} 倍，mask-predict 为 {refining:.1f} 倍，GRU 为 {gru:.1f} 倍。生成的时间随 n 的 "
                "{writing_n:.1f} 次方增长，读入为 {training_n:.1f}。",
            ),
            {
                "length": length,
                "once": once[0],
                "calls": calls[0],
                "updates": results.mean("calls", GRU, length),
                "passes": results.mean("calls", REFINING, length),
                "writing": times[WRITING] / times[TRAINING],
                "refining": times[REFINING] / times[TRAINING],
                "gru": times[GRU] / times[TRAINING],
                **exponents,
            },
        )
