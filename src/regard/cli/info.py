"""regard info: what a run is."""

import math
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING

from regard.cli.options import AsJson, Runs
from regard.cli.screen import print_json, print_result, to_json
from regard.errors import UserError
from regard.messages import Message, find_message, localize
from regard.viz.cells import pad_right

if TYPE_CHECKING:
    from regard.run.facts import Facts


def info(runs: Runs, as_json: AsJson = False) -> None:
    """Describe a run: task, data, size, training, best score, settings."""
    from regard.run.facts import changed_settings, read_facts, require_run
    from regard.run_files import find_run

    if len(runs) > 1:
        remedy = f"use `regard compare {' '.join(runs)}`"
        raise UserError("`regard info` describes one run", remedy, code="conflicting-options", where="RUN")
    folder = find_run(runs[0])
    require_run(folder)
    facts, changed = read_facts(folder), changed_settings(folder)
    if as_json:
        print_json(asdict(facts) | {"changed": changed})
        return
    print_result(Message("{key}: {value}", key=facts.run, value=find_message(facts.about or facts.name)))
    for title, text in fact_lines(facts):
        print_result(f"  {pad_right(localize(title), 12)}{localize(text)}")
    settings = Message("settings that differ from the default:") if changed else None
    print_result(settings or Message("all settings have their defaults"))
    for name, value in changed.items():
        print_result(f"  {name} = {to_json(value)}")


def fact_lines(facts: "Facts") -> list[tuple[str, str]]:
    """The facts in words, each with a title; those that are not known are left out."""
    lines: list[tuple[str, str]] = [(Message("task"), facts.task)]
    if facts.start_from:
        lines.append((Message("start from"), facts.start_from))
    for split, sources in facts.data.items():
        origin = Message("held out of train") if split in facts.held_out else "; ".join(sources)
        if origin and split in facts.examples:
            origin = Message("{count:,} examples: {origin}", count=facts.examples[split], origin=origin)
        lines += [(split, origin)] if origin else []
    lines += [(Message("left out"), text) for text in facts.left_out.values()]
    sizes = " + ".join(f"{size:,}" for size in facts.vocabulary)
    tokens = Message("{tokenizer}, {count} tokens", tokenizer=facts.tokenizer, count=sizes)
    lines.append((Message("tokenizer"), tokens if sizes else facts.tokenizer))
    weights = Message("{model}, {count:,} weights", model=facts.model, count=facts.weights or 0)
    lines.append((Message("model"), facts.model if facts.weights is None else weights))
    state = {"state": facts.state, "size": facts.bytes / 1e6}
    lines.append((Message("state"), Message("{state}, {size:,.1f} MB in the folder", **state)))
    if facts.step:
        done = {"position": position(facts), "tokens": facts.tokens, "time": timedelta(seconds=round(facts.seconds))}
        lines.append((Message("training"), Message("{position}, {tokens:,} tokens, {time} (h:mm:ss)", **done)))
    if facts.best is not None:
        best = {"metric": facts.monitor, "value": facts.best, "step": facts.best_step}
        lines.append((Message("best"), Message("{metric} {value:.4g} in validation, at step {step:,}", **best)))
    if facts.metrics:
        lines.append((Message("last"), ", ".join(f"{name} {value:.4g}" for name, value in facts.metrics.items())))
    return lines


def position(facts: "Facts") -> str:
    """The step of a training, with the limit that ends it first: the number of steps or of epochs."""
    epoch = math.floor(facts.epoch) + 1
    steps_share = facts.step / facts.max_steps if facts.max_steps else 0.0
    if facts.max_epochs and epoch / facts.max_epochs > steps_share:
        values = {"step": facts.step, "epoch": epoch, "limit": facts.max_epochs}
        return Message("step {step:,}, epoch {epoch:,} of at most {limit:g}", **values)
    if facts.max_steps:
        return Message("step {step:,} of at most {limit:,}", step=facts.step, limit=facts.max_steps)
    return Message("step {step:,}", step=facts.step)
