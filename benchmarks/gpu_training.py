"""Training throughput on one GPU beside the peers: part of `python -m benchmarks.gpu`.

Every contender trains the paper's base or big model on the same sentences: a joint vocabulary of 32,000, lengths as in
WMT news (about 26 pieces a side, up to 128), at most 25,000 target tokens a step, bf16 autocast, label smoothing and
dropout 0.1, fused Adam. Counted are real source and target tokens, never padding. The peers get padded batches of like
length, which is what they take.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.batch import Batch, Step
from regard.data.pairs import PairExamples
from regard.data.planning import Batches, Budget
from regard.layers.positions import sinusoid
from regard.models.transformer import Transformer, TransformerSettings
from regard.run.train import Objective
from regard.runtime import World
from regard.tasks.base import ValidationData
from regard.tasks.registry import build_recipe
from regard.tasks.translation import Translation
from regard.text.symbols import BOS, EOS, PAD
from regard.training.settings import TrainingSettings
from regard.training.state import TrainingState
from regard.training.stepping import build_train_step

VOCABULARY = 32_000


class News(PairExamples):
    """Random words in sentences as long as WMT's; a store of examples for `Batches`."""

    def __init__(self, count: int, vocabulary: int = VOCABULARY) -> None:
        rng = np.random.default_rng(1)
        src = np.clip(rng.lognormal(3.05, 0.62, count), 3, 127).astype(np.int64)
        self.src_lengths = src + 1
        self.tgt_lengths = np.clip((src * rng.lognormal(0.05, 0.18, count)).astype(np.int64), 3, 127) + 1
        self.vocabulary, self.rng = vocabulary, rng

    def at_epoch(self, epoch: int) -> "News":
        return self

    def sources(self, indices: Any) -> tuple[np.ndarray, np.ndarray]:
        return self._rows(self.src_lengths[indices])

    def targets(self, indices: Any) -> tuple[np.ndarray, np.ndarray]:
        return self._rows(self.tgt_lengths[indices])

    def _rows(self, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values = self.rng.integers(3, self.vocabulary, int(lengths.sum()))
        values[np.cumsum(lengths) - 1] = EOS
        return values, lengths


class Ours:
    """The project's own step: `execution` is eager, compiled, captured or both."""

    packed = True

    def __init__(self, size: Any, vocabulary: int, device: torch.device, execution: str, **shape: Any) -> None:
        self.name = f"regard, {execution}"
        bf16 = device.type == "cuda"
        world = World(0, 1, 0, device, "bf16" if bf16 else "fp32", 1, "compiled" in execution, "captured" in execution)
        settings = TrainingSettings(learning_rate=1e-4, schedule="constant")
        model = (
            Transformer(TransformerSettings(size=size, dropout=0.1, **shape), vocabulary, vocabulary).to(device).train()
        )
        pair = {"src": "unused", "tgt": "unused"}
        recipe = build_recipe({"name": "benchmark", "data": {"train": pair, "valid": pair}}, "benchmark")
        assert recipe.training.label_smoothing == 0.1
        task = Translation(recipe, None, None)  # type: ignore[arg-type]
        self.take = build_train_step(
            Objective(task, ValidationData(None)), model, TrainingState(model, settings, world), settings, world
        )

    def train(self, step: Step) -> None:
        self.take(step, 1e-4)


class Peer:
    """A model that gives logits for padded batches, in a plain loop."""

    packed = False
    name = ""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.optimizer = torch.optim.Adam(self.parameters(), 1e-4, fused=True)

    def parameters(self) -> list[nn.Parameter]:
        raise NotImplementedError

    def logits(self, batch: Batch) -> Tensor:
        raise NotImplementedError

    def train(self, step: Step) -> None:
        batch: Any = step.micro_batches[0].to(self.device)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            logits = self.logits(batch)
            loss = F.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), ignore_index=PAD, label_smoothing=0.1)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


class Torch(Peer):
    """torch.nn.Transformer in a plain loop."""

    name = "torch.nn.Transformer"

    def __init__(self, settings: TransformerSettings, vocabulary: int, device: torch.device) -> None:
        s = settings
        self.model = nn.Transformer(
            s.d_model, s.num_heads, s.encoder_layers, s.decoder_layers, s.d_ff, 0.1, batch_first=True
        ).to(device)
        self.embedding = nn.Embedding(vocabulary, s.d_model, device=device)
        self.positions = sinusoid(torch.arange(512), s.d_model).to(device)
        super().__init__(device)

    def parameters(self) -> list[nn.Parameter]:
        return [*self.model.parameters(), *self.embedding.parameters()]

    def logits(self, batch: Batch) -> Tensor:
        padding = batch["source"] == PAD
        future = torch.ones(
            batch["target"].size(1), batch["target"].size(1), dtype=torch.bool, device=self.device
        ).triu(1)
        x, y = (
            F.dropout(self.embedding(ids) * self.positions.size(1) ** 0.5 + self.positions[: ids.size(1)], 0.1)
            for ids in (batch["source"], batch["target"])
        )
        hidden = self.model(
            x, y, tgt_mask=future, src_key_padding_mask=padding, memory_key_padding_mask=padding, tgt_is_causal=True
        )
        return hidden @ self.embedding.weight.T


class Marian(Peer):
    """Hugging Face MarianMTModel, as it is or with torch.compile."""

    def __init__(self, settings: TransformerSettings, vocabulary: int, device: torch.device, compiled: bool) -> None:
        from transformers import MarianConfig, MarianMTModel

        self.name = "transformers Marian" + (", torch.compile" if compiled else "")
        s = settings
        self.model = MarianMTModel(
            MarianConfig(
                vocab_size=vocabulary, d_model=s.d_model, encoder_layers=s.encoder_layers,
                decoder_layers=s.decoder_layers, encoder_attention_heads=s.num_heads,
                decoder_attention_heads=s.num_heads, encoder_ffn_dim=s.d_ff, decoder_ffn_dim=s.d_ff,
                activation_function="relu", scale_embedding=True, dropout=0.1, attention_dropout=0.0,
                activation_dropout=0.0, max_position_embeddings=512, pad_token_id=PAD, eos_token_id=EOS,
                forced_eos_token_id=None, decoder_start_token_id=BOS,
            )
        ).to(device).train()  # fmt: skip
        self.call = torch.compile(self.model, dynamic=True) if compiled else self.model
        super().__init__(device)

    def parameters(self) -> list[nn.Parameter]:
        return list(self.model.parameters())

    def logits(self, batch: Batch) -> Tensor:
        mask = (batch["source"] != PAD).long()
        found: Any = self.call(
            input_ids=batch["source"], attention_mask=mask, decoder_input_ids=batch["target"], use_cache=False
        )
        return found.logits


def seconds(work: Callable[[], None], device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    begin = time.perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - begin


def train(racer: Any, batches: list[Step]) -> None:
    for step in batches:
        racer.train(step)


def pinned(step: Step) -> Step:
    return step.pin()


def measure(
    contenders: list[Callable[[], Any]],
    device: torch.device,
    vocabulary: int,
    tokens: int,
    steps: int,
    rounds: int,
    warm_up: int,
) -> list[tuple[str, float, float, float]]:
    """(name, tokens/s, ms a step, peak GiB) of each; they take turns, and the median of the rounds counts."""
    news = News(60_000 if device.type == "cuda" else 600, vocabulary)
    given = {
        packed: [Batches(news, Budget(tokens), 1, packed=packed).batch(i) for i in range(steps)]
        for packed in (True, False)
    }
    if device.type == "cuda":
        given = {packed: [pinned(step) for step in batches] for packed, batches in given.items()}
    racing: list[Any] = []
    speeds: dict[str, list[float]] = {}
    spent: dict[str, list[float]] = {}
    peaks: dict[str, float] = {}
    for build in contenders:
        torch.manual_seed(1)
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated() if device.type == "cuda" else 0
        racer = build()
        began = time.perf_counter()
        for i in range(warm_up):
            racer.train(given[racer.packed][i % steps])
        if device.type == "cuda":
            torch.cuda.synchronize()
        print(f"{racer.name}: ready after {time.perf_counter() - began:.0f} s", flush=True)
        peaks[racer.name] = (torch.cuda.max_memory_allocated() - before) / 2**30 if device.type == "cuda" else 0.0
        racing.append(racer)
    for turn in range(rounds):
        for racer in racing[turn % len(racing) :] + racing[: turn % len(racing)]:
            batches = given[racer.packed]
            took = seconds(partial(train, racer, batches), device)
            speeds.setdefault(racer.name, []).append(sum(step.tokens for step in batches) / took)
            spent.setdefault(racer.name, []).append(1000 * took / len(batches))
    return [
        (r.name, statistics.median(speeds[r.name]), statistics.median(spent[r.name]), peaks[r.name]) for r in racing
    ]


def profile(train: Callable[[], Any], path: Path | None = None, rows: int = 25) -> None:
    """Where the time of a step goes, by kernel."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    with record(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as found:
        train()
        torch.cuda.synchronize()
    table = found.key_averages().table(sort_by="self_cuda_time_total", row_limit=rows, max_name_column_width=70)
    lines = [line[:72] + line[-110:] for line in table.splitlines()]
    print("\n".join(lines))
    if path:
        path.write_text(table, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="base")
    parser.add_argument("--tokens", type=int, default=25_000, help="target tokens a step [25000]")
    parser.add_argument("--steps", type=int, default=10, help="steps a turn [10]")
    parser.add_argument("--rounds", type=int, default=3, help="turns each, of which the median counts [3]")
    parser.add_argument("--warm-up", type=int, default=6)
    parser.add_argument("--vocabulary", type=int, default=VOCABULARY)
    parser.add_argument("--only", default="compiled+captured,torch,marian,marian-compiled")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch._dynamo.config.cache_size_limit = 64
    settings = TransformerSettings(size=options.size)
    vocabulary = options.vocabulary
    makers: dict[str, Callable[[], Any]] = {
        name: lambda name=name: Ours(options.size, vocabulary, device, name)  # type: ignore[misc]
        for name in ("eager", "captured", "compiled", "compiled+captured")
    }
    makers["torch"] = lambda: Torch(settings, vocabulary, device)
    makers["marian"] = lambda: Marian(settings, vocabulary, device, compiled=False)
    makers["marian-compiled"] = lambda: Marian(settings, vocabulary, device, compiled=True)
    chosen = [makers[name] for name in options.only.split(",")]
    for name, speed, spent, peak in measure(
        chosen, device, vocabulary, options.tokens, options.steps, options.rounds, options.warm_up
    ):
        print(f"{options.size:6} {name:40} {speed / 1000:8.0f} k tokens/s {spent:8.1f} ms {peak:6.1f} GiB", flush=True)
    if options.profile and device.type == "cuda":
        racer = chosen[0]()
        step = Batches(News(60_000), Budget(options.tokens), 1, packed=True).batch(0)
        step = pinned(step)
        for _ in range(6):
            racer.train(step)
        profile(lambda: racer.train(step))


if __name__ == "__main__":
    main()
