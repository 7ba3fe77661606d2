"""From what was measured of the rungs to one page: a row for each way of reading each of them, in means over seeds."""

from collections.abc import Iterable, Sequence
from typing import Any

from regard.files import read_json
from regard.run.ladder import FORMAT, RESULT, Failure, Ladder
from regard.run.rungs import Rung
from regard.training.console import format_duration
from regard.viz.ladder import Gallery, LadderPage, Picture, Row

Result = dict[str, Any]
SCORES = {
    "bleu": "BLEU",
    "chrf": "chrF",
    "exact": "exact match",
    "perplexity": "perplexity",
    "word_perplexity": "word perplexity",
    "bits": "bits per character",
}
FACTS = {
    "parameters": "parameters",
    "tokens": "tokens",
    "seconds": "seconds",
    "training_speed": "tokens_per_second",
}


def results(ladder: Ladder) -> list[Result]:
    """Everything in the folder that was measured as this ladder measures, whoever did it, in the order of the rungs."""
    found: list[Result] = [read_json(path) for path in sorted(ladder.folder.glob(f"*/{RESULT}"))]
    order = {rung.name: place for place, rung in enumerate(ladder.flight.rungs)}
    alike = {"format": str(FORMAT), "ladder": ladder.mark}
    ours = [result for result in found if alike.items() <= result["made_of"].items() and result["rung"] in order]
    return sorted(ours, key=lambda result: (order[result["rung"]], result["seed"]))


def ladder_page(ladder: Ladder, failures: Sequence[Failure] = ()) -> LadderPage:
    """The page of all that is finished in a ladder's folder."""
    found = results(ladder)
    by_rung = [(rung, [each for each in found if each["rung"] == rung.name]) for rung in ladder.flight.rungs]
    by_rung = [(rung, seeds) for rung, seeds in by_rung if seeds]
    return LadderPage(
        title=ladder.base.name,
        rows=[row for rung, seeds in by_rung for row in rows_of(ladder, rung, seeds)],
        facts=facts(ladder, found),
        galleries=galleries(by_rung),
        judged=right_or_wrong(ladder),
        failures=[(f"{failure.rung}, seed {failure.seed}", failure.reason) for failure in failures],
    )


def rows_of(ladder: Ladder, rung: Rung, seeds: Sequence[Result]) -> list[Row]:
    """One row for each way of reading a rung; exact match in place of BLEU where it is what the recipe goes by."""
    shared = {key: known(seed[name] for seed in seeds) for key, name in FACTS.items()}
    shared["aer"] = [seed["alignment"]["aer"] for seed in seeds if "aer" in (seed["alignment"] or {})]
    rows = []
    for number, reading in enumerate(seeds[0]["readings"]):
        readings = [seed["readings"][number] for seed in seeds]
        values = {key: known(each["scores"].get(name) for each in readings) for key, name in SCORES.items()}
        values["decoding_speed"] = known(each["sentences_per_second"] for each in readings)
        del values["bleu" if right_or_wrong(ladder) else "exact"]
        added = f", {reading['title']}" if reading["title"] else ""
        settings = " ".join(seeds[0]["settings"])
        rows.append(Row(rung.title + added, rung.title_zh + added, rung.paper, {**shared, **values}, settings))
    return rows


def known(values: Iterable[float | None]) -> list[float]:
    """The numbers among them: not every model has every measure."""
    return [float(value) for value in values if value is not None]


def right_or_wrong(ladder: Ladder) -> bool:
    """Whether only the reference is right, as the recipe's own measure says."""
    return ladder.base.training.monitor == "exact_match"


def facts(ladder: Ladder, found: Sequence[Result]) -> dict[str, str]:
    """What holds for all rows: the text, the budget, the seeds, and how speed was measured."""
    training, measuring, data = ladder.base.training, ladder.measuring, ladder.base.data
    budget = f"{training.max_steps:,} steps of {training.batch_tokens:,} tokens"
    if training.max_minutes:
        budget += f", {format_duration(60 * training.max_minutes)} at most"
    lowest = [result["alignment"]["lowest_aer"] for result in found if (result["alignment"] or {}).get("lowest_aer")]
    told = {
        "corpus": ", ".join(map(str, data.train)),
        "base": ladder.base.name,
        "budget": budget,
        "seeds": ", ".join(str(seed) for seed in sorted({result["seed"] for result in found})),
        "device": ", ".join(sorted({result["device"] for result in found})),
        "decoding": f"greedy, engine {measuring.engine}, {measuring.batch_tokens:,} source tokens together"
        if any(result["readings"][0]["sentences_per_second"] for result in found)
        else "",
        "lowest AER": f"{min(lowest):.3f}" if lowest else "",
    }
    return {name: fact for name, fact in told.items() if fact}


def galleries(by_rung: Sequence[tuple[Rung, Sequence[Result]]]) -> list[Gallery]:
    """The first seed of every rung, sentence by sentence."""
    if not by_rung:
        return []
    sentences = by_rung[0][1][0]["pictures"]
    return [
        Gallery(
            sentence["source"],
            sentence["reference"],
            [picture_of(rung, seeds[0]["pictures"][number], seeds[0]["alignment"]) for rung, seeds in by_rung],
        )
        for number, sentence in enumerate(sentences)
    ]


def picture_of(rung: Rung, picture: dict[str, Any], alignment: dict[str, Any] | None) -> Picture:
    """One rung's picture of a sentence, and where in the model it was taken."""
    return Picture(
        title=rung.title,
        title_zh=rung.title_zh,
        output=picture["output"],
        rows=picture.get("rows", ()),
        columns=picture.get("columns", ()),
        weights=picture.get("weights"),
        plane=(alignment["layer"], alignment["head"]) if alignment and alignment["heads"] > 1 else None,
        blind=alignment is None,
    )
