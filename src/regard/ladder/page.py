"""The page of a ladder: a row for each search of each variant, with means over seeds."""

from collections.abc import Iterable, Sequence

from regard.files import JsonObject
from regard.ladder.ladder import Ladder, VariantFailure, read_results
from regard.messages import Message, format_duration, join_messages
from regard.tasks.variants import Variant
from regard.viz.ladder import Gallery, LadderPage, LadderPicture, LadderRow

SCORES = {
    "bleu": "BLEU", "chrf": "chrF", "exact": "exact match", "perplexity": "perplexity",
    "word_perplexity": "word perplexity", "bits": "bits per character",
}  # fmt: skip
"""The scores of a row, and their names in an evaluation."""
FACTS = {name: name for name in ("parameters", "tokens", "flops", "seconds")} | {"training_speed": "tokens_per_second"}
"""The facts of a row that do not depend on the search, and their names in a result."""


def ladder_page(ladder: Ladder, failures: Sequence[VariantFailure] = ()) -> LadderPage:
    """The page of everything that is finished in the folder of a ladder."""
    results = read_results(ladder)
    by_variant = [
        (variant, seeds)
        for variant in ladder.variants.variants
        if (seeds := [result for result in results if result["variant"] == variant.name])
    ]
    return LadderPage(
        title=ladder.base.name,
        rows=[row for variant, seeds in by_variant for row in rows_of(ladder, variant, seeds)],
        facts=facts(ladder, results),
        galleries=galleries(by_variant),
        has_one_reference=has_one_reference(ladder),
        failures=[(f"{failure.variant}, seed {failure.seed}", failure.reason) for failure in failures],
    )


def rows_of(ladder: Ladder, variant: Variant, seeds: Sequence[JsonObject]) -> list[LadderRow]:
    """One row for each search of a variant; exact match replaces BLEU if the recipe monitors it."""
    shared = {key: numbers(seed.get(name) for seed in seeds) for key, name in FACTS.items()}
    shared["aer"] = [seed["alignment"]["aer"] for seed in seeds if "aer" in (seed["alignment"] or {})]
    rows = []
    for index, first in enumerate(seeds[0]["searches"]):
        searches = [seed["searches"][index] for seed in seeds]
        values = {key: numbers(search["scores"].get(name) for search in searches) for key, name in SCORES.items()}
        values["decoding_speed"] = numbers(search["sentences_per_second"] for search in searches)
        del values["bleu" if has_one_reference(ladder) else "exact"]
        settings = " ".join(seeds[0]["settings"])
        title = join_messages(", ", filter(None, (variant.title, first["title"])))
        rows.append(LadderRow(title, variant.paper, {**shared, **values}, settings))
    return rows


def numbers(values: Iterable[float | None]) -> list[float]:
    """The values that are not None: some models lack some measurements."""
    return [float(value) for value in values if value is not None]


def has_one_reference(ladder: Ladder) -> bool:
    """True if every output but the reference is wrong, as for dates and numbers."""
    return ladder.base.training.monitor == "exact_match"


def facts(ladder: Ladder, results: Sequence[JsonObject]) -> dict[str, str]:
    """Facts about all rows: the data, the budget, the seeds, and how speed was measured."""
    training, measurement, data = ladder.base.training, ladder.measurement, ladder.base.data
    budget = Message("{steps:,} steps of {tokens:,} tokens", steps=training.max_steps, tokens=training.batch_tokens)
    if training.max_minutes:
        budget = Message("{budget}, {time} at most", budget=budget, time=format_duration(60 * training.max_minutes))
    decoding = Message("greedy, engine {engine}, batches of {batch_tokens:,} source tokens", **vars(measurement))
    lowest = [result["alignment"]["lowest_aer"] for result in results if (result["alignment"] or {}).get("lowest_aer")]
    timed = any(result["searches"][0]["sentences_per_second"] for result in results)
    values = {
        "corpus": ", ".join(map(str, data.train)),
        "base": ladder.base.name,
        "budget": budget,
        "seeds": ", ".join(str(seed) for seed in sorted({result["seed"] for result in results})),
        "device": ", ".join(sorted({result["device"] for result in results})),
        "decoding": decoding if timed else "",
        "lowest AER": f"{min(lowest):.3f}" if lowest else "",
    }
    return {name: value for name, value in values.items() if value}


def galleries(by_variant: Sequence[tuple[Variant, Sequence[JsonObject]]]) -> list[Gallery]:
    """The pictures of the first seed of every variant, by sentence."""
    found = []
    for number, sentence in enumerate(by_variant[0][1][0]["pictures"] if by_variant else ()):
        pictures = [picture_of(each, seeds[0]["pictures"][number], seeds[0]["alignment"]) for each, seeds in by_variant]
        found.append(Gallery(sentence["source"], sentence["reference"], pictures))
    return found


def picture_of(variant: Variant, picture: JsonObject, alignment: JsonObject | None) -> LadderPicture:
    """The picture of one sentence, with the layer and head that it shows."""
    return LadderPicture(
        title=variant.title,
        output=picture["output"],
        rows=picture.get("rows", ()),
        columns=picture.get("columns", ()),
        weights=picture.get("weights"),
        head=(alignment["layer"], alignment["head"]) if alignment and alignment["heads"] > 1 else None,
        has_attention=alignment is not None,
    )
