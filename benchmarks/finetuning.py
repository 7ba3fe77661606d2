"""Fine-tuning beside transformers: the same pretrained weights, the same examples, the same settings, several seeds.

    regard import FOLDER --folder runs/minilm
    python -m benchmarks.finetuning FOLDER --start runs/minilm data.root=data
    python -m benchmarks.finetuning FOLDER --start runs/minilm --recipes wnut17,swag --seeds 1,2,3

FOLDER is a BERT as `save_pretrained` writes it, `--start` the same as a run. Ours is trained as `regard train` trains a
recipe. Theirs is the class of transformers for the task (BertForTokenClassification and so on) in a plain loop: batches
at random, padded to their longest and laid on the device before the clock starts, bf16 autocast, fused AdamW with the
same rates, decay and clipping, logits for the same tokens. Both are judged after their last step, by the same decoding
and the same metrics. Seconds are those of training steps alone, the first of them included, with what is recorded and
compiled in them; a first short training of either kind warms up what lasts for a process.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.layouts import Padded
from regard.data.batch import Batch
from regard.data.inputs import Inputs
from regard.recipe import Recipe
from regard.run.report import read_metrics
from regard.run.run import Run
from regard.run.train import train
from regard.run_files import METRICS
from regard.runtime import seed_everything
from regard.tasks.base import AnyTask
from regard.tasks.operations import open_store
from regard.tasks.registry import TASKS, load_recipe
from regard.training.log import Logs, MetricsFile
from regard.training.optimizer import build_schedule

RECIPES = ("wnut17", "squad", "swag", "commonsenseqa")
NO_WEIGHT_DECAY = ("bias", "LayerNorm.weight")


class Theirs(nn.Module):
    """A model of transformers with the inputs and outputs of ours."""

    def __init__(self, folder: Path, task: str, outputs: int) -> None:
        super().__init__()
        import transformers

        self.task = task
        exchange = TASKS[task].exchange
        assert exchange is not None and exchange.head is not None
        kind = getattr(transformers, exchange.head.architecture)
        labels = {} if task in ("answering", "choice") else {"num_labels": outputs}
        self.model = kind.from_pretrained(folder, dtype=torch.float32, **labels)

    def forward(self, tokens: Any, segments: Tensor) -> Tensor:
        """Logits in the shapes of our models."""
        assert isinstance(tokens.layout, Padded)
        inputs = {
            "input_ids": tokens.ids,
            "token_type_ids": segments,
            "attention_mask": tokens.layout.not_padding.long(),
        }
        if self.task == "choice":
            inputs = {name: tensor[:, None] for name, tensor in inputs.items()}
        found = self.model(**inputs)
        return torch.stack([found.start_logits, found.end_logits], -1) if self.task == "answering" else found.logits

    def loss(self, batch: Batch) -> Tensor:
        """Their own loss."""
        tokens, labels = batch.source, batch.labels
        assert isinstance(tokens.layout, Padded)
        inputs = {"input_ids": tokens.ids, "token_type_ids": batch["segments"]}
        inputs["attention_mask"] = tokens.layout.not_padding.long()
        match self.task:
            case "choice":
                inputs = {name: tensor.unflatten(0, batch["input_index"].shape) for name, tensor in inputs.items()}
                answers = {"labels": labels[:, 0].long()}
            case "answering":
                answers = {"start_positions": labels[:, 0].long(), "end_positions": labels[:, 1].long()}
            case "tagging":
                answers = {"labels": labels.long()}
            case "regression":
                answers = {"labels": labels[:, 0]}
            case _:
                answers = {"labels": labels[:, 0].long()}
        found: Tensor = self.model(**inputs, **answers).loss
        return found


def train_ours(recipe: Recipe, folder: Path) -> tuple[Run, float]:
    """A trained run, and the seconds of its steps."""
    run = train(recipe, folder, report=lambda _: None, log=Logs([MetricsFile(folder / METRICS)])).run
    records = [record for record in read_metrics(folder) if record["kind"] == "train"]
    tokens = [0, *(record["tokens"] for record in records)]
    pairs = zip(records, np.diff(tokens), strict=True)
    return run, float(sum(count / record["tokens_per_second"] for record, count in pairs))


def train_theirs(run: Run, folder: Path, seed: int, device: torch.device, steps: int) -> tuple[nn.Module, float]:
    """The same number of steps with the same settings, and the seconds they took."""
    task, training = run.task, run.recipe.training
    seed_everything(seed, "theirs")
    outputs: int = task.outputs  # type: ignore[attr-defined]
    model = Theirs(folder, task.name, outputs).to(device).train()
    decayed = [p for name, p in model.named_parameters() if not name.endswith(NO_WEIGHT_DECAY)]
    others = [p for name, p in model.named_parameters() if name.endswith(NO_WEIGHT_DECAY)]
    groups = [{"params": decayed, "weight_decay": training.weight_decay}, {"params": others, "weight_decay": 0.0}]
    betas = (training.adam_beta1, training.adam_beta2)
    optimizer = torch.optim.AdamW(groups, betas=betas, eps=training.adam_epsilon, fused=device.type == "cuda")
    settled = training.model_copy(update={"max_steps": steps, "warmup": round(training.warmup_share * steps)})
    schedule = build_schedule(settled, run.recipe.model.d_model)
    batches = [
        batch.to(device)
        for batch in random_batches(open_store(task, run.folder, "train"), training.batch_examples, steps, seed)
    ]
    began = clock(device)
    for step, batch in enumerate(batches, 1):
        for group in optimizer.param_groups:
            group["lr"] = schedule(step)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            loss = model.loss(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), training.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return model.eval(), clock(device) - began


def random_batches(inputs: Inputs, size: int, steps: int, seed: int) -> Sequence[Batch]:
    """Batches of `size` examples; every example occurs once per epoch."""
    batches: list[Batch] = []
    rng = np.random.default_rng(seed)
    while len(batches) < steps:
        order = rng.permutation(len(inputs))
        batches += [inputs.pad(order[first : first + size]) for first in range(0, len(order), size)]
    return batches[:steps]


def score(task: AnyTask, model: nn.Module, examples: list[Any], monitor: str) -> float:
    """The monitored score on the test examples."""
    with torch.autocast("cuda", torch.bfloat16, enabled=next(model.parameters()).is_cuda):
        predictions = list(task.predict(model, examples))
    return task.score(examples, predictions)[monitor].value


def clock(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def compare(name: str, given: Any, seed: int, max_steps: int = 0) -> dict[str, Any]:
    """One recipe, one seed, both."""
    settings = [*given.settings, f"start_from={given.start}", f"runtime.seed={seed}", "training.samples=0"]
    settings += [
        "training.validate_every=1000000",
        "training.keep=1",
        *([f"training.max_steps={max_steps}"] if max_steps else []),
    ]
    recipe = load_recipe(name, settings)
    with tempfile.TemporaryDirectory() as temporary:
        run, ours = train_ours(recipe, Path(temporary) / "run")
        steps = read_metrics(run.folder)[-1]["step"]
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        task, monitor = run.task, recipe.training.monitor
        found: dict[str, Any] = {"recipe": name, "seed": seed, "steps": steps, "measure": monitor, "ours_s": ours}
        examples = list(task.read("test"))[: given.examples or None]
        found["ours"] = score(task, run.model("last", device), examples, monitor)
        model, found["theirs_s"] = train_theirs(run, given.folder, seed, device, steps)
        found["theirs"] = score(task, model, examples, monitor)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="a BERT of Hugging Face")
    parser.add_argument("settings", nargs="*", help="settings of the recipes: name=value")
    parser.add_argument("--start", required=True, help="the same weights as a run")
    parser.add_argument("--recipes", default=",".join(RECIPES))
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--examples", type=int, default=0, help="judge on so many test examples only")
    parser.add_argument("--steps", type=int, default=0, help="at most so many steps")
    parser.add_argument("--output", type=Path, help="a file for every figure, JSON lines")
    given = parser.parse_intermixed_args()
    Run.open(given.start)
    for name in given.recipes.split(","):
        compare(name, given, 0, max_steps=12)
        rows = [compare(name, given, int(seed), given.steps) for seed in given.seeds.split(",")]
        if given.output:
            with given.output.open("a") as stream:
                stream.writelines(json.dumps(row) + "\n" for row in rows)
        print(line(name, rows), flush=True)


def line(name: str, rows: list[dict[str, Any]]) -> str:
    """Means and spreads of both, and how many times as fast ours is."""
    told = []
    for who in ("ours", "theirs"):
        values = [row[who] for row in rows]
        spread = statistics.stdev(values) if len(values) > 1 else 0.0
        told.append(
            f"{who} {statistics.mean(values):.2f} ± {spread:.2f} in {sum(row[f'{who}_s'] for row in rows):.1f} s"
        )
    faster = statistics.median(row["theirs_s"] / row["ours_s"] for row in rows)
    return (
        f"{name:16} {rows[0]['measure']:9} {rows[0]['steps']:5} steps   {'   '.join(told)}   {faster:.2f} times as fast"
    )


if __name__ == "__main__":
    main()
