"""Pretraining a BERT beside transformers: real tokens a second, in turns, on synthetic documents.

    python -m benchmarks.pretraining                         ours alone: base, inputs of 128 tokens, 20 seconds
    python -m benchmarks.pretraining --peers                 and BertForPreTraining, as it is and with torch.compile
    python -m benchmarks.pretraining --batch 65536 --profile      a step of ours by kernel, on a GPU
    python -m benchmarks.pretraining --size tiny --seconds 6 --batch 1024 --vocabulary 2000 --peers      on a CPU

Ours is the product's own step with all that belongs to it: inputs are drawn and words hidden by a thread beside it. On
a GPU batches are packed, layers compiled, the step recorded, in bf16. The peers get the same inputs, padded, of one
shape and laid on the device beforehand, bf16 autocast and fused AdamW in a plain loop; they compute logits for all
places, as their loss takes them. Counted are real tokens, never padding. Everybody warms up first and then takes turns
of an equal share of the seconds; the median of the turns counts.
"""

import argparse
import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from benchmarks.gpu_training import profile
from rich.console import Console
from rich.table import Table

from regard.data.batch import IGNORE, PrefetchedSteps
from regard.data.pretraining import PretrainingBatches, TokenizedDocuments
from regard.data.settings import DocumentDataSettings
from regard.models.bert import BertPretraining, BertSettings
from regard.run.train import Objective
from regard.runtime import World
from regard.tasks.base import ValidationData
from regard.tasks.pretraining import Pretraining
from regard.tasks.registry import build_recipe
from regard.text.bert import SPECIALS, BertTokenizer
from regard.training.state import TrainingState
from regard.training.stepping import build_train_step

WARM_UP, TURNS, READY = 6, 3, 16
"""Steps before the clock runs, turns of each, and batches laid ready for the peers."""


def documents(pieces: int, vocabulary: int) -> TokenizedDocuments:
    """Random pieces in sentences of about 25, and these in documents of about 40."""
    rng = np.random.default_rng(1)
    ends = np.cumsum(np.clip(rng.lognormal(3.1, 0.5, pieces // 25), 3, 120).astype(np.int64))
    sentences = np.concatenate([[0], ends])
    firsts = np.arange(0, len(sentences) - 1, 40)
    content = rng.integers(len(SPECIALS), vocabulary, sentences[-1])
    return TokenizedDocuments(content, sentences, np.append(firsts, len(sentences) - 1))


class Ours:
    """The product's own step, from the documents on."""

    name = "regard"

    def __init__(self, settings: BertSettings, setting: "Setting") -> None:
        on_gpu, device = setting.device.type == "cuda", setting.device
        world = World(0, 1, 0, device, "bf16" if on_gpu else "fp32", 1, compile=on_gpu, capture=on_gpu)
        source = {"file": "unused"}
        data = setting.data.model_dump(exclude_none=True) | {"train": source, "valid": source}
        values = {"name": "benchmark", "task": "pretraining", "data": data, "model": settings.model_dump()}
        recipe = build_recipe(values, "benchmark")
        training, task = recipe.training, Pretraining(recipe, setting.vocabulary)  # type: ignore[arg-type]
        model = BertPretraining(settings, len(setting.vocabulary)).to(device).train()
        self.take = build_train_step(
            Objective(task, ValidationData(None)), model, TrainingState(model, training, world), training, world
        )
        batches = setting.batches(packed=on_gpu)
        self.stream = PrefetchedSteps(batches, pinned=on_gpu)(0)

    def train(self) -> int:
        """One step; return its tokens."""
        step = next(self.stream)
        self.take(step, 1e-4)
        return step.tokens

    def close(self) -> None:
        self.stream.close()


class Theirs:
    """transformers' BertForPreTraining in a plain loop."""

    def __init__(self, settings: BertSettings, setting: "Setting", compiled: bool) -> None:
        from transformers import BertConfig, BertForPreTraining

        self.name, s, self.device = "transformers" + (", compiled" if compiled else ""), settings, setting.device
        self.model = BertForPreTraining(
            BertConfig(
                vocab_size=len(setting.vocabulary), hidden_size=s.d_model, num_hidden_layers=s.layers,
                num_attention_heads=s.num_heads, intermediate_size=s.d_ff, max_position_embeddings=s.max_positions,
            )
        ).to(self.device).train()  # fmt: skip
        self.call = torch.compile(self.model) if compiled else self.model
        on_gpu = self.device.type == "cuda"
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-4, weight_decay=0.01, fused=on_gpu)
        self.batches = itertools.cycle(setting.padded())

    def train(self) -> int:
        tokens, batch = next(self.batches)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            loss = self.call(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return tokens

    def close(self) -> None:
        del self.batches


class Setting:
    """What all contenders train on."""

    def __init__(self, vocabulary: int, length: int, batch: int, device: torch.device) -> None:
        entries = [*SPECIALS, *(f"w{number}" for number in range(vocabulary - len(SPECIALS)))]
        self.vocabulary, self.data = BertTokenizer(entries), DocumentDataSettings(max_length=length)
        self.batch, self.device = batch, device
        self.store = documents(max(40 * batch, 100_000), vocabulary)

    def batches(self, packed: bool) -> PretrainingBatches:
        return PretrainingBatches(self.store, self.data, self.vocabulary, self.batch, seed=1, packed=packed)

    def padded(self) -> list[tuple[int, dict[str, torch.Tensor]]]:
        """The first inputs of some steps in the peers' terms, rectangles of one shape on the device."""
        steps, rows = self.batches(packed=False), self.batch // self.data.max_length
        found = []
        for number in range(READY):
            batch: Any = steps.batch(number).micro_batches[0]
            labels = torch.full((batch["source"].numel(),), IGNORE)
            labels[batch["masked_positions"]] = batch.labels
            real = torch.arange(batch["source"].size(1)) < batch["source_lengths"][:, None]
            inputs = dict(
                input_ids=batch["source"], token_type_ids=batch["segments"], attention_mask=real.long(),
                labels=labels.view_as(batch["source"]), next_sentence_label=batch["next_labels"],
            )  # fmt: skip
            given = {name: tensor[:rows].to(self.device) for name, tensor in inputs.items()}
            found.append((int(batch["source_lengths"][:rows].sum()), given))
        return found


def wait(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def turn(racer: Any, seconds: float, device: torch.device) -> tuple[float, float]:
    """Tokens a second and milliseconds a step, over at least so many seconds."""
    began, tokens, steps = wait(device), 0, 0
    while steps == 0 or wait(device) - began < seconds:
        tokens += sum(racer.train() for _ in range(5))
        steps += 5
    took = wait(device) - began
    return tokens / took, 1000 * took / steps


def race(makers: list[Callable[[], Any]], seconds: float, device: torch.device) -> list[tuple[str, float, float]]:
    """(name, tokens/s, ms a step) of each, the median of its turns."""
    racing = []
    for make in makers:
        torch.manual_seed(1)
        began = wait(device)
        racer = make()
        for _ in range(WARM_UP):
            racer.train()
        print(f"{racer.name}: ready after {wait(device) - began:.0f} s", flush=True)
        racing.append(racer)
    turns = [[turn(racer, seconds / TURNS, device) for racer in racing] for _ in range(TURNS)]
    for racer in racing:
        racer.close()
    medians = [[statistics.median(values) for values in zip(*each, strict=True)] for each in zip(*turns, strict=True)]
    return [(racer.name, *median) for racer, median in zip(racing, medians, strict=True)]


def profile_ours(racer: Ours) -> None:
    """Kernels of one step, after those that compile and record."""
    for _ in range(WARM_UP):
        racer.train()
    profile(racer.train, rows=60)
    racer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="base", help="tiny, mini, small, minilm, base or large [base]")
    parser.add_argument("--length", type=int, default=128, help="tokens of an input [128]")
    parser.add_argument("--batch", type=int, default=32_768, help="tokens of a step [32768]")
    parser.add_argument("--vocabulary", type=int, default=30_522)
    parser.add_argument("--seconds", type=float, default=20, help="that each is measured [20]")
    parser.add_argument("--peers", action="store_true", help="also transformers, eager and compiled")
    parser.add_argument("--profile", action="store_true", help="where the time of our step goes, by kernel, instead")
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    settings = BertSettings.model_validate({"size": options.size, "max_positions": max(512, options.length)})
    setting = Setting(options.vocabulary, options.length, options.batch, device)
    if options.profile:
        profile_ours(Ours(settings, setting))
        return
    makers: list[Callable[[], Any]] = [lambda: Ours(settings, setting)]
    if options.peers:
        makers += [lambda: Theirs(settings, setting, False), lambda: Theirs(settings, setting, True)]
    found = race(makers, options.seconds, device)
    unit = found[min(1, len(found) - 1)][1]
    table = Table("BERT " + options.size, "tokens/s", "ms a step", "ratio")
    for name, speed, spent in found:
        table.add_row(name, f"{speed:,.0f}", f"{spent:.1f}", f"{speed / unit:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
