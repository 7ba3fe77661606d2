"""Training and decoding speed of the variants of a finished ladder, one after another and alone on the device.

    python -m benchmarks.variants runs/ladder-numbers                  every variant with seed 1
    python -m benchmarks.variants runs/ladder-numbers --only luong-seed1,transformer-seed1

`regard ladder` measures speed too, when a variant is trained. This is for ladders whose variants were trained at the
same time. Training is timed after the first third of the steps (which compile, capture and warm up), decoding on the
first 500 test sentences after a first batch. Nothing is written into the folder of the ladder.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from regard.ladder.measuring import Measurement, measure_search
from regard.recipe import Recipe
from regard.run.model import Translator
from regard.run.report import read_metrics
from regard.run.train import train
from regard.run_files import METRICS
from regard.tasks.variants import TRANSLATION_VARIANTS
from regard.training.log import Logs, MetricsFile


def training_speed(recipe: Recipe, steps: int) -> float:
    """Source and target tokens per second, without padding, in the last two thirds of `steps`."""
    every = max(1, steps // 6)
    changes = {
        "max_steps": 6 * every, "warmup": every, "log_every": every, "validate_every": 6 * every,
        "monitor": "loss", "samples": 0, "max_minutes": 0.0, "max_epochs": 0.0,
    }  # fmt: skip
    short = recipe.model_copy(update={"training": recipe.training.model_copy(update=changes)})
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "run"
        train(short, folder, report=lambda _: None, log=Logs([MetricsFile(folder / METRICS)]))
        records = [record for record in read_metrics(folder) if record["kind"] == "train"][2:]
    tokens = [record["tokens"] for record in records]
    return (tokens[-1] - tokens[0]) / sum(
        (after - before) / record["tokens_per_second"]
        for before, after, record in zip(tokens, tokens[1:], records[1:], strict=False)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ladder", type=Path)
    parser.add_argument("--only", help="folders of runs, separated by commas")
    parser.add_argument("--steps", type=int, default=120, help="training steps; the last two thirds are timed")
    parser.add_argument("--engine", default="readable", help="the engine whose decoding speed is measured")
    options = parser.parse_args()
    variants = TRANSLATION_VARIANTS.variants
    names = options.only.split(",") if options.only else [f"{variant.name}-seed1" for variant in variants]
    rows = []
    for name in names:
        if not (options.ladder / name / "recipe.toml").exists():
            continue
        translator = Translator.load(options.ladder / name, engine=options.engine)
        recipe = translator.run.recipe
        variant = next(variant for variant in variants if name.startswith(f"{variant.name}-seed"))
        speed = training_speed(recipe, options.steps)
        for title, search in variant.searches:
            result = measure_search(translator, "test", Measurement(engine=options.engine), title, search)
            row = [f"{variant.title} {title}".strip(), f"{speed:,.0f}", f"{result['sentences_per_second']:,.0f}"]
            rows.append([*row, f"{result['scores']['BLEU']:.2f}"])
            print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    print("| variant | training, tokens/s | decoding, sentences/s | BLEU |\n| --- | ---: | ---: | ---: |")
    print("\n".join(f"| {' | '.join(row)} |" for row in rows))


if __name__ == "__main__":
    main()
