"""One point of a curve: the seconds and the memory of one piece of work at one size.

On a GPU memory is what torch has allocated at the most; on a CPU, where torch keeps no account, it is what the process
holds at the most, so every point is measured in a process of its own.

B sentences, T queries, S keys, H heads, K head size.
"""

import gc
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from regard.attention.layouts import PaddedPattern
from regard.attention.scored_attention import AttentionFunction, scaled_dot_attention
from regard.data.batch import Batch
from regard.data.pairs import pack_pairs, pad_pairs
from regard.data.planning import Capacity
from regard.models.transformer import Transformer, TransformerSettings
from regard.runtime import RuntimeSettings, World, autocast, open_world
from regard.tasks.registry import build_recipe
from regard.tasks.translation import Translation
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings
from regard.text.symbols import EOS
from regard.training.optimizer import build_optimizer, clip_gradients, set_rate
from regard.training.settings import TrainingSettings

HEAD_DIM = 64
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class Point:
    """What is done (`train`: forward, backward and optimizer; `encode`: the encoder's forward alone) and how large."""

    work: str
    layout: str
    length: int
    tokens: int
    d_model: int
    vocabulary: int
    layers: int


@dataclass(frozen=True)
class Cost:
    """Seconds, bytes needed for the while it takes, and bytes of weights and Adam's moments that stay."""

    seconds: float
    memory: int
    held: int


class WrittenOut(PaddedPattern):
    """A padded sight that computes softmax(q k^T / sqrt(K)) v as it is written, all (B, H, T, S) weights at once."""

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, dropout: float, function: AttentionFunction | None = None
    ) -> Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return (function or scaled_dot_attention)(q, k, v, self.distances, self.mask, dropout)[0].transpose(1, 2)


def measure(point: Point, device: str, threads: int, repeats: int) -> Cost | None:
    """The cost of a point, of the repeats the fastest (what disturbs only adds); None where memory is too small."""
    gc.collect()  # what the point before left is not to be freed in the middle of this one
    world = open_world(RuntimeSettings(device=device, threads=threads))
    model = build_model(point.d_model, point.vocabulary, point.layers, world)
    work = training(model, world) if point.work == "train" else partial(encode, model, world, point.layout)
    try:
        work(build_batch(point, world, length=16, tokens=64))  # kernels are found and moments allocated
        held = sum(p.numel() * p.element_size() for p in model.parameters()) * (3 if point.work == "train" else 1)
        batch = build_batch(point, world, point.length, point.tokens)
        memory = peak(lambda: work(batch), world)
        return Cost(min(seconds(lambda: work(batch), world) for _ in range(repeats)), memory, held)
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        return None


@lru_cache(maxsize=1)
def build_model(d_model: int, vocabulary: int, layers: int, world: World) -> Transformer:
    """A Transformer in the paper's proportions, with heads of one size."""
    settings = TransformerSettings(
        d_model=d_model, num_heads=max(1, d_model // HEAD_DIM), d_ff=4 * d_model, encoder_layers=layers,
        decoder_layers=layers,
    )  # fmt: skip
    return Transformer(settings, vocabulary, vocabulary).to(world.device)


def build_batch(point: Point, world: World, length: int, tokens: int) -> Batch:
    """As many sentences of one length as make the number of tokens, on either side."""
    lengths = np.full(max(1, tokens // length), length)
    words = np.random.default_rng(1).integers(EOS + 1, point.vocabulary, (2, lengths.sum()))
    words[:, np.cumsum(lengths) - 1] = EOS
    sources, targets = ((side, lengths) for side in words)
    if point.layout == "packed":
        size = max(tokens, length)
        return pack_pairs(sources, targets, Capacity((size, size), size // 4)).to(world.device)
    return pad_pairs(sources, targets).to(world.device)


def training(model: Transformer, world: World) -> Callable[[Batch], None]:
    """A whole step of training, as the loop takes it without a compiler."""
    tokenizer = train_tokenizer(["a"], TextSettings(kind="char", min_frequency=1))  # the loss does not use it
    pair = {"src": "unused", "tgt": "unused"}
    values = {"name": "benchmark", "data": {"train": pair, "valid": pair}, "training": {"label_smoothing": 0.0}}
    task = Translation(build_recipe(values, "benchmark"), tokenizer, tokenizer)  # type: ignore[arg-type]
    optimizer = build_optimizer(model.train(), TrainingSettings())
    set_rate(optimizer, 1e-9)

    def step(batch: Batch) -> None:
        with autocast(world):
            loss = task.loss(model, batch)
        (loss.sum / batch.tokens).backward()
        clip_gradients(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def encode(model: Transformer, world: World, layout: str, batch: Batch) -> None:
    """The source read once, as translation does before its first word."""
    source = batch.source
    pattern = source.layout.pattern(source.layout)
    if layout == "written out":
        assert isinstance(pattern, PaddedPattern)
        pattern = WrittenOut(pattern.queries, pattern.keys, pattern.causal)
    with torch.inference_mode(), autocast(world):
        model.eval().encode(source, pattern)


def seconds(work: Callable[[], None], world: World) -> float:
    """How long it takes once; on a CPU the time of its own threads, as others may be at work there too."""
    clock = time.perf_counter if world.device.type == "cuda" else time.process_time
    wait(world)
    began = clock()
    work()
    wait(world)
    return clock() - began


def peak(work: Callable[[], None], world: World) -> int:
    """How many bytes more are in use at the most while it runs."""
    if world.device.type == "cuda":
        wait(world)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        wait(world)
        return torch.cuda.max_memory_allocated() - before
    if CLEAR.exists():
        CLEAR.write_text("5")  # the highest mark of resident memory begins anew
    before = resident("VmRSS")
    work()
    return max(0, resident("VmHWM") - before)


def resident(field: str) -> int:
    """Bytes this process holds (VmRSS) or held at the most (VmHWM); without /proc only the latter is known."""
    if not STATUS.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    lines = (line.split(":", 1) for line in STATUS.read_text().splitlines() if ":" in line)
    return int(dict(lines)[field].split()[0]) * 1024


def wait(world: World) -> None:
    if world.device.type == "cuda":
        torch.cuda.synchronize()
