"""Language models on one GPU beside torch's cuDNN LSTM and nn.TransformerEncoder, in turns.

    python -m benchmarks.gpu_language                  the recipes wikitext-2-lstm and wikitext-2-transformer
    python -m benchmarks.gpu_language --steps 2 --vocabulary 500      a try on a CPU

Everybody trains on the same segments of random words, with fused Adam and clipping, in bf16 on a GPU, with the output
matrix tied to the embeddings, and carries the state of an LSTM from segment to segment. Ours is the step of
`regard train`. The peers are plain loops. The median of the turns counts.
"""

import argparse
import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from benchmarks.gpu_training import seconds
from torch import Tensor, nn

from regard.data.batch import Step
from regard.data.bptt import BPTTBatches
from regard.layers.positions import sinusoid
from regard.run.train import Objective
from regard.runtime import World
from regard.tasks.base import ValidationData
from regard.tasks.language import Language
from regard.tasks.operations import adapt_world
from regard.tasks.registry import load_recipe
from regard.training.state import TrainingState
from regard.training.stepping import build_train_step
from regard.training.weights import count_parameters

RECIPES = ("wikitext-2-lstm", "wikitext-2-transformer")
ROUNDS, WARM_UP, RATE = 3, 6, 1e-4


class Ours:
    """The step of `regard train`."""

    name = "regard"

    def __init__(self, recipe: Any, vocabulary: int, device: torch.device) -> None:
        task = Language(recipe, range(vocabulary))  # type: ignore[arg-type]  # of a tokenizer only the size is used
        gpu = device.type == "cuda"
        world = adapt_world(task, World(0, 1, 0, device, "bf16" if gpu else "fp32", 1, compile=gpu, capture=gpu))
        self.model = task.new_model().to(device).train()
        state = TrainingState(self.model, recipe.training, world, task.recurrent_state)
        objective = Objective(task, ValidationData(None))
        self.take = build_train_step(objective, self.model, state, recipe.training, world)

    def train(self, step: Step) -> None:
        self.take(step, RATE)


class Theirs(nn.Module):
    """Embeddings, layers of torch, and logits from the same matrix."""

    name = "torch"

    def __init__(self, recipe: Any, vocabulary: int, device: torch.device) -> None:
        super().__init__()
        s, self.recipe, self.device = recipe.model, recipe, device
        self.embedding = nn.Embedding(vocabulary, s.d_model)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        if s.kind == "lstm":
            self.layers: nn.Module = nn.LSTM(s.d_model, s.d_model, s.layers, batch_first=True, dropout=s.hidden_dropout)
        else:
            layer = nn.TransformerEncoderLayer(
                s.d_model, s.num_heads, s.d_ff, s.dropout, batch_first=True, norm_first=s.norm == "pre"
            )
            self.layers = nn.TransformerEncoder(layer, s.layers, enable_nested_tensor=False)
        self.to(device).train()
        self.state: tuple[Tensor, ...] | None = None
        self.optimizer = torch.optim.AdamW(self.parameters(), RATE, fused=device.type == "cuda")

    def hidden(self, source: Tensor) -> Tensor:
        s, x = self.recipe.model, self.embedding(source)
        if isinstance(self.layers, nn.LSTM):
            y, state = self.layers(F.dropout(x, s.input_dropout), self.state)
            self.state = tuple(tensor.detach() for tensor in state)
            return F.dropout(y, s.output_dropout)
        length = source.size(1)
        x = F.dropout(x * s.d_model**0.5 + sinusoid(torch.arange(length, device=self.device), s.d_model), s.dropout)
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=self.device)
        hidden: Tensor = self.layers(x, mask=mask, is_causal=True)
        return hidden

    def train_step(self, step: Step) -> None:
        batch: Any = step.micro_batches[0].to(self.device)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            logits = F.linear(self.hidden(batch["source"]), self.embedding.weight, self.bias)
            loss = F.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), ignore_index=0)
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters(), self.recipe.training.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def measure(name: str, vocabulary: int, steps: int, device: torch.device) -> None:
    """Print tokens/s and the time of a step of both."""
    recipe: Any = load_recipe(name, [])
    ids = np.random.default_rng(1).integers(3, vocabulary, 400_000)
    batches = BPTTBatches(ids, recipe.training.batch_tokens, recipe.data.bptt, 1)
    given = [batches.batch(number) for number in range(steps)]
    given = [step.pin() for step in given] if device.type == "cuda" else given
    torch.manual_seed(1)
    ours, theirs = Ours(recipe, vocabulary, device), Theirs(recipe, vocabulary, device)
    trains: list[tuple[str, nn.Module, Callable[[Step], None]]] = [
        (ours.name, ours.model, ours.train), (theirs.name, theirs, theirs.train_step)
    ]  # fmt: skip
    taken: dict[str, list[float]] = {name: [] for name, *_ in trains}

    def run(train: Callable[[Step], None], count: int) -> None:
        for number in range(count):
            train(given[number % steps])

    for turn in range(-1, ROUNDS):
        for label, _, train in trains:
            spent = seconds(partial(run, train, WARM_UP if turn < 0 else steps), device)
            if turn >= 0:
                taken[label].append(spent)
    for label, model, _ in trains:
        spent = statistics.median(taken[label])
        speed = sum(step.tokens for step in given) / spent
        print(f"{name:24}{label:8}{count_parameters(model) / 1e6:6.1f} M parameters {speed / 1000:8.1f} k tokens/s"
              f"{1000 * spent / steps:8.2f} ms a step", flush=True)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=60, help="steps a turn [60]")
    parser.add_argument("--vocabulary", type=int, default=28_000)
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    for name in RECIPES:
        measure(name, options.vocabulary, options.steps, device)


if __name__ == "__main__":
    main()
