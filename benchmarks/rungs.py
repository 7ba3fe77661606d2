"""How fast the rungs of a finished ladder train and decode, one after another and alone on the device.

    python -m benchmarks.rungs runs/ladder-numbers                  every rung with seed 1
    python -m benchmarks.rungs runs/ladder-numbers --only luong-seed1,transformer-seed1

`regard ladder` measures speed too, of each rung when it is its turn. This is for ladders whose rungs were trained side
by side. Training is timed in the steps after the first third (which compile, record and warm up), decoding on the
first 500 test sentences after a first batch. Nothing is written into the ladder's folder.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from regard.run.judging import Measuring, judge
from regard.run.rungs import RUNGS

from regard.recipe import TranslationRecipe
from regard.run import Translator, train
from regard.run.report import read_metrics
from regard.training.log import METRICS, Logs, MetricsFile


def training_speed(recipe: TranslationRecipe, steps: int) -> float:
    """Real source and target tokens a second over the last two thirds of `steps`."""
    every = max(1, steps // 6)
    changes = {
        "max_steps": 6 * every, "warmup": every, "log_every": every, "validate_every": 6 * every,
        "monitor": "loss", "samples": 0, "max_minutes": 0.0, "max_epochs": 0.0,
    }  # fmt: skip
    short = recipe.model_copy(update={"training": recipe.training.model_copy(update=changes)})
    with tempfile.TemporaryDirectory() as aside:
        folder = Path(aside) / "run"
        train(short, folder, say=lambda _: None, log=Logs([MetricsFile(folder / METRICS)]))
        records = [record for record in read_metrics(folder) if record["kind"] == "train"][2:]
    tokens = [record["tokens"] for record in records]
    return (tokens[-1] - tokens[0]) / sum(
        (after - before) / record["tokens_per_second"]
        for before, after, record in zip(tokens, tokens[1:], records[1:], strict=False)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ladder", type=Path)
    parser.add_argument("--only", help="folders of rungs, with commas between them")
    parser.add_argument("--steps", type=int, default=120, help="training steps that are timed, a third of them unheard")
    parser.add_argument("--engine", default="readable", help="how decoding is executed")
    given = parser.parse_args()
    names = given.only.split(",") if given.only else [f"{rung.name}-seed1" for rung in RUNGS]
    rows = []
    for name in names:
        if not (given.ladder / name / "recipe.toml").exists():
            continue
        translator = Translator.load(given.ladder / name, engine=given.engine)
        recipe = translator.run.recipe
        rung = next(rung for rung in RUNGS if name.startswith(f"{rung.name}-seed"))
        speed = training_speed(recipe, given.steps)
        for reading in rung.readings:
            found = judge(translator, recipe.data.test, Measuring(engine=given.engine), *reading)
            row = [f"{rung.title} {reading[0]}".strip(), f"{speed:,.0f}", f"{found['sentences_per_second']:,.0f}"]
            rows.append([*row, f"{found['scores']['BLEU']:.2f}"])
            print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    print("| rung | training, tokens/s | decoding, sentences/s | BLEU |\n| --- | ---: | ---: | ---: |")
    print("\n".join(f"| {' | '.join(row)} |" for row in rows))


if __name__ == "__main__":
    main()
