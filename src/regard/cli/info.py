"""regard info: what a run is."""

import math
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING

from regard.cli.options import AsJson, RunFolder
from regard.cli.screen import print_json, print_result, to_json

if TYPE_CHECKING:
    from regard.run.facts import Facts


def info(run: RunFolder, as_json: AsJson = False) -> None:
    """Describe a run: task, data, size, training, best score, settings.

    Only settings that differ from the defaults are listed; RUN/recipe.toml has all. The state is "finished" if training
    reached a limit, "stopped" if training can continue, "in use" while a command works in the folder. The best score is
    from validation; `regard evaluate` scores test data.

    \b
    Examples:
      regard info runs/de
      regard info runs/de --json
    """
    from regard.run.facts import changed_settings, read_facts, require_run
    from regard.run_files import find_run

    folder = find_run(run)
    require_run(folder)
    facts, changed = read_facts(folder), changed_settings(folder)
    if as_json:
        print_json(asdict(facts) | {"changed": changed})
        return
    print_result(f"{facts.run}: {facts.about or facts.name}")
    for title, text in fact_lines(facts):
        print_result(f"  {title:<12}{text}")
    print_result("settings that differ from the default:" if changed else "all settings have their defaults")
    for name, value in changed.items():
        print_result(f"  {name} = {to_json(value)}")


def fact_lines(facts: "Facts") -> list[tuple[str, str]]:
    """The facts in words, each with a title; those that are not known are left out."""
    lines = [("task", facts.task)]
    if facts.start_from:
        lines.append(("start from", facts.start_from))
    for split, sources in facts.data.items():
        count = f"{facts.examples[split]:,} examples: " if split in facts.examples else ""
        origin = "held out of train" if split in facts.held_out else "; ".join(sources)
        lines += [(split, f"{count}{origin}")] if origin else []
    sizes = f", {' and '.join(f'{size:,}' for size in facts.vocabulary)} tokens" if facts.vocabulary else ""
    lines.append(("tokenizer", f"{facts.tokenizer}{sizes}"))
    weights = f", {facts.weights:,} weights" if facts.weights is not None else ""
    lines.append(("model", f"{facts.model}{weights}"))
    lines.append(("state", f"{facts.state}, {facts.bytes / 1e6:,.1f} MB in the folder"))
    if facts.step:
        time = timedelta(seconds=round(facts.seconds))
        lines.append(("training", f"{position(facts)}, {facts.tokens:,} tokens, {time} (h:mm:ss)"))
    if facts.best is not None:
        lines.append(("best", f"{facts.monitor} {facts.best:.4g} in validation, at step {facts.best_step:,}"))
    if facts.metrics:
        lines.append(("last", ", ".join(f"{name} {value:.4g}" for name, value in facts.metrics.items())))
    return lines


def position(facts: "Facts") -> str:
    """The step of a training, with the limit that ends it first: the number of steps or of epochs."""
    epoch = math.floor(facts.epoch) + 1
    steps_share = facts.step / facts.max_steps if facts.max_steps else 0.0
    if facts.max_epochs and epoch / facts.max_epochs > steps_share:
        return f"step {facts.step:,}, epoch {epoch:,} of at most {facts.max_epochs:g}"
    return f"step {facts.step:,} of at most {facts.max_steps:,}" if facts.max_steps else f"step {facts.step:,}"
