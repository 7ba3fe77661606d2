"""Decoding on one GPU: the same answers as the readable search, and how fast, beside Hugging Face Marian.

First a model learns dates for some seconds and translates days it has not seen, with the readable search and with the
engine: in float32 every token must agree. Then models of the paper's base shape with random weights, which never end a
sentence, write 32 tokens for each source of 28; encoder, search and the way back to the host are all counted.

    python -m benchmarks.gpu_decoding            on a GPU, about a minute and a half
    python -m benchmarks.gpu_decoding --tiny     a try on any machine

B sentences, W hypotheses, V vocabulary.
"""

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.attention.layouts import Padded
from regard.data.builtin import pairs
from regard.decoding.engine import DecodingRequest
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import decode
from regard.decoding.settings import DecodingSettings
from regard.decoding.stepper import Symbols
from regard.engines.device import DeviceEngine, SlotBatch
from regard.models.transformer import Transformer, TransformerSettings
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings
from regard.text.symbols import BOS, EOS, PAD

SYMBOLS = Symbols(bos=BOS, eos=EOS, pad=PAD)
GREEDY, BEAM = DecodingSettings(search="greedy"), DecodingSettings(beam=4)
MANY = DecodingSettings(beam=5, nbest=3, alpha=1.0)
ROUNDS = 3


@dataclass(frozen=True)
class Shape:
    """What is timed."""

    vocabulary: int = 32_000
    model: str = "base"
    source: int = 28
    output: int = 32
    batches: tuple[int, ...] = (1, 64, 512)


TINY = Shape(vocabulary=500, model="tiny", source=9, output=8, batches=(1, 4))


def padded(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    ids = pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)
    return ids.to(device), torch.tensor([len(row) for row in rows], device=device)


def readable(
    model: Transformer, sources: list[list[int]], max_new_tokens: list[int], settings: DecodingSettings
) -> list[list[Hypothesis]]:
    """The search everything is held against."""
    device = model.tgt_embedding.weight.device
    with torch.inference_mode():
        limit = torch.tensor(max_new_tokens, device=device)
        return decode(model, Padded.of(*padded(sources, device)), limit, SYMBOLS, settings)


def learn_dates(device: torch.device, steps: int) -> tuple[Transformer, list[list[int]]]:
    """A small model that has learnt dates about well, and sources it has not seen."""
    corpus = list(itertools.islice(pairs("dates", "train"), 20_000))
    vocabulary = train_tokenizer((text for pair in corpus for text in pair), TextSettings(vocab_size=800))
    examples = [tuple([*vocabulary.encode(text), EOS] for text in pair) for pair in corpus]
    torch.manual_seed(1)
    settings = TransformerSettings(size="tiny", norm="pre", dropout=0.0)
    model = Transformer(settings, len(vocabulary), len(vocabulary)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), 2e-3, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    for chosen in torch.randint(len(examples), (steps, 256), generator=torch.Generator().manual_seed(1)).tolist():
        src, src_lengths = padded([examples[i][0] for i in chosen], device)
        tgt_in, tgt_lengths = padded([[BOS, *examples[i][1][:-1]] for i in chosen], device)
        labels, _ = padded([examples[i][1] for i in chosen], device)
        logits = model(Padded.of(src, src_lengths), Padded.of(tgt_in, tgt_lengths)).logits()
        F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=PAD).backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    unseen = [[*vocabulary.encode(src), EOS] for src, _ in itertools.islice(pairs("dates", "test"), 700)]
    return model.eval(), unseen


def agreement(device: torch.device, steps: int, sentences: int) -> None:
    """Print how far the engine and the readable search agree; in float32 that must be wholly."""
    begin = time.perf_counter()
    model, sources = learn_dates(device, steps)
    sources = sources[:sentences]
    max_new_tokens = [len(source) % 7 + 14 for source in sources]
    print(f"learnt dates in {time.perf_counter() - begin:.0f} s")
    slots = max(1, len(sources) // 4)  # so that slots are used again and again
    for dtype in (torch.float32, torch.bfloat16) if device.type == "cuda" else (torch.float32,):
        model = model.to(dtype)
        for settings in (GREEDY, BEAM, *([MANY] if dtype == torch.float32 else [])):
            engine = DeviceEngine(model, SYMBOLS, slots=slots)
            ours, theirs = (
                engine.decode(DecodingRequest(sources, max_new_tokens, settings)),
                readable(model, sources, max_new_tokens, settings),
            )
            same = sum(
                [h.tokens for h in one] == [h.tokens for h in other] for one, other in zip(ours, theirs, strict=True)
            )
            gap = max(
                abs(one[0].score - other[0].score)
                for one, other in zip(ours, theirs, strict=True)
                if one[0].tokens == other[0].tokens
            )
            ended = sum(found[0].finished for found in ours)
            name = settings.search if settings.search == "greedy" else f"beam {settings.beam}, nbest {settings.nbest}"
            print(f"  {str(dtype)[6:]:8} {name:16} {same}/{len(sources)} agree, {ended} ended, scores within {gap:.1e}")
            if dtype == torch.float32 and same != len(sources):
                print("  *** float32 must agree on every token")


class Ours:
    """The engine; its end symbol lies outside the vocabulary, so that no sentence ends."""

    name = "regard"

    def __init__(self, shape: Shape, device: torch.device, dtype: torch.dtype) -> None:
        self.shape, self.device = shape, device
        settings = TransformerSettings(size=shape.model)  # type: ignore[arg-type]
        self.model = Transformer(settings, shape.vocabulary, shape.vocabulary).eval().to(device, dtype)
        endless = Symbols(bos=BOS, eos=shape.vocabulary, pad=PAD)
        self.engine = DeviceEngine(self.model, endless, slots=max(shape.batches))

    def decode(self, sources: list[list[int]], width: int) -> None:
        settings = GREEDY if width == 1 else DecodingSettings(beam=width)
        settings = settings.model_copy(update={"loop_guard": False})
        found = self.engine.decode(DecodingRequest(sources, [self.shape.output] * len(sources), settings))
        assert all(len(hypotheses[0].tokens) == self.shape.output for hypotheses in found)

    def slot_batch(self) -> SlotBatch:
        """The bench used last."""
        return next(reversed(self.engine.slot_batches.values()))


class Marian:
    """Hugging Face MarianMTModel of the same shape with its own generate."""

    name = "transformers"

    def __init__(self, shape: Shape, device: torch.device, dtype: torch.dtype) -> None:
        import transformers

        library: Any = transformers
        self.shape, self.device = shape, device
        s = TransformerSettings(size=shape.model)  # type: ignore[arg-type]
        config = library.MarianConfig(
            vocab_size=shape.vocabulary, d_model=s.d_model, encoder_layers=s.encoder_layers,
            decoder_layers=s.decoder_layers, encoder_attention_heads=s.num_heads, decoder_attention_heads=s.num_heads,
            encoder_ffn_dim=s.d_ff, decoder_ffn_dim=s.d_ff, activation_function="relu", scale_embedding=True,
            max_position_embeddings=512, pad_token_id=PAD, eos_token_id=EOS, forced_eos_token_id=None,
            decoder_start_token_id=BOS,
        )  # fmt: skip
        self.model: Any = library.MarianMTModel(config).eval().to(device, dtype)

    def decode(self, sources: list[list[int]], width: int) -> None:
        src, _ = padded(sources, self.device)
        with torch.inference_mode():
            out = self.model.generate(
                input_ids=src, attention_mask=(src != PAD).long(), num_beams=width, do_sample=False,
                min_new_tokens=self.shape.output, max_new_tokens=self.shape.output,
            )  # fmt: skip
            out.tolist()


def seconds(work: Callable[[], None], device: torch.device) -> float:
    wait: Callable[[], Any] = torch.cuda.synchronize if device.type == "cuda" else (lambda: None)
    wait()
    begin = time.perf_counter()
    work()
    wait()
    return time.perf_counter() - begin


def table(shape: Shape, device: torch.device, dtype: torch.dtype) -> Ours:
    """Print the times of both, taking turns; the first turn of each is not counted."""
    torch.manual_seed(0)
    ours, marian = Ours(shape, device, dtype), Marian(shape, device, dtype)
    print(f"\n{shape.model}, V {shape.vocabulary}, {shape.source} in, {shape.output} out, {str(dtype)[6:]}: "
          f"median of {ROUNDS}")  # fmt: skip
    print(f"{'':16}{'regard':>28}{'transformers':>28}")
    for batch, width in itertools.product(shape.batches, (1, 4)):
        sources = torch.randint(3, shape.vocabulary, (batch, shape.source - 1)).tolist()
        sources = [[*source, EOS] for source in sources]
        found: dict[str, list[float]] = {ours.name: [], marian.name: []}
        for turn in range(-1, ROUNDS):
            for contender in (ours, marian):
                spent = seconds(lambda: contender.decode(sources, width), device)  # noqa: B023
                if turn >= 0:
                    found[contender.name].append(spent)
        cells = []
        for times in found.values():
            spent = statistics.median(times)
            cells.append(f"{1e3 * spent / shape.output:9.2f} ms/step{batch * shape.output / spent:11,.0f}/s")
        ratio = statistics.median(b / a for a, b in zip(*found.values(), strict=True))
        kind = "greedy" if width == 1 else f"beam {width}"
        print(f"{kind:8} x {batch:<5}{cells[0]:>28}{cells[1]:>28}   {ratio:.1f}x", flush=True)
    return ours


def profile(ours: Ours, batch: int, width: int) -> None:
    """Print where one replayed step spends its time."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as watch

    shape, steps = ours.shape, 8
    ours.decode([[*range(3, shape.source + 2), EOS]] * batch, width)
    slot_batch = ours.slot_batch()
    with torch.inference_mode():
        everyone = list(range(batch))
        sources = [[*range(3, shape.source + 2), EOS]] * batch
        slot_batch.prefill(everyone, DecodingRequest(sources, [shape.output] * batch, DecodingSettings()))
        for _ in range(shape.output // 2):
            slot_batch.step.launch().read()
        with watch(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
            for _ in range(steps):
                slot_batch.step.launch().read()
    events = [event for event in seen.key_averages() if str(event.device_type).endswith("CUDA")]
    total, kernels = (sum(getattr(event, name) for event in events) for name in ("self_device_time_total", "count"))
    print(f"\none step of {batch} x {width} in the middle: {total / steps:.0f} us busy, {kernels / steps:.0f} kernels")
    for event in sorted(events, key=lambda event: -event.self_device_time_total)[:15]:
        print(f"  {event.self_device_time_total / steps:8.1f} us {event.count / steps:6.1f}x  {event.key[:90]}")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="small shapes, to try it anywhere")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args(arguments)
    device = torch.device(options.device)
    shape = TINY if options.tiny else Shape()
    agreement(device, *((3, 40) if options.tiny else (500, 500)))
    ours = table(shape, device, torch.float32 if device.type == "cpu" else torch.bfloat16)
    if device.type == "cuda":
        profile(ours, shape.batches[0], 1)
        profile(ours, shape.batches[-1], 4)


if __name__ == "__main__":
    main()
