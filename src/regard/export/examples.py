"""The examples on which an exported model is compared with its run.

The lines of a file if one is given; else the run's validation data; else sentences of this file. A run with several
languages is compared in every direction.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from regard.errors import UserError
from regard.reading import read_text
from regard.tasks.base import AnyTask, Example, pipeline_of
from regard.tasks.inputs import parse_json_line
from regard.tasks.operations import input_keys
from regard.text.inputs import MaskedTokenizer

LIMIT = 100
"""Number of examples in a comparison, of all directions together."""
SENTENCES = {
    "en": (
        "The weather is nice today.",
        "She bought three books and a pencil.",
        "Where is the nearest station?",
        "Please close the window before you leave.",
        "On 4 July 2019 the price rose by 12.5 % to $3,400.",
        "It is not what you say, but how you say it, that matters to most people.",
    ),
    "de": ("Das Wetter ist heute schön.", "Wo ist der nächste Bahnhof?", "Er hat den Zug um acht Uhr verpasst."),
    "fr": ("Il fait beau aujourd'hui.", "Où est la gare la plus proche ?", "Je ne sais pas où il habite."),
    "es": ("Hoy hace buen tiempo.", "¿Cuánto cuesta este libro?", "No sé dónde vive."),
    "zh": ("今天天气很好。", "最近的车站在哪里？", "我不知道他住在哪里。"),
}
"""Sentences by language."""
FILLER = "and"
"""The word that makes a text too long."""
MAX_WORDS = 64
"""Words of a text with a masked token: all of it must be within the positions of the model."""


@dataclass(frozen=True)
class Examples:
    """Examples, and where they are from."""

    examples: list[Example]
    source: str

    @property
    def directions(self) -> dict[str, int]:
        """The number of examples of each direction, if the examples name one."""
        return dict(Counter(filter(None, map(direction_of, self.examples))))


def direction_of(example: Example) -> str:
    """The languages of an example as text, for example "en-de"; "" if it names none."""
    return "-".join(str(example[key]) for key in ("from", "to") if example.get(key))


def comparison_examples(task: AnyTask, sentences: Path | None = None, limit: int = LIMIT) -> Examples:
    """About `limit` examples for a comparison, the same number per direction."""
    if sentences is not None:
        lines = [line for line in read_text(sentences).splitlines() if line.strip()]
        parsed = [parse_json_line(line, f"{sentences}:{number}") for number, line in enumerate(lines, 1)]
        values = [task.parse(value, f"{sentences}:{number}") for number, value in enumerate(parsed, 1)]
        directions = task.languages.directions if task.languages is not None else ()
        targets = dict.fromkeys(target for _, target in directions)
        if len(targets) > 1:  # each example once for every language that the run writes, unless it names one
            values = [value if "to" in value else {**value, "to": to} for to in targets for value in values]
        return Examples(spread(values, limit), sentences.name)
    try:
        examples = [dict(example) for example in list(task.read("valid"))]
    except UserError:  # an imported run has none, and the files of another one may be gone
        examples = []
    if examples:
        return Examples(spread([shorten(task, example) for example in examples], limit), "validation data")
    return Examples(spread(built_in(task), limit), "built-in sentences")


def shorten(task: AnyTask, example: Example) -> Example:
    """An example as the task predicts it: a language model continues two words, a masked one fills in one."""
    words = str(example.get("text", "")).split()
    if pipeline_of(task) == "text-generation":
        return {"text": " ".join(words[:2])}
    if pipeline_of(task) == "fill-mask":
        (tokenizer,) = task.tokenizers.values()
        assert isinstance(tokenizer, MaskedTokenizer)
        words = words[:MAX_WORDS]
        return {"text": " ".join([*words[: len(words) // 2], tokenizer.mask_text, *words[len(words) // 2 + 1 :]])}
    return example


def lengthen(task: AnyTask, example: Example) -> Example:
    """An example without its target and with more tokens than the model reads at once."""
    texts = {key: example[key] for key in ("text", "words", "context") if key in example}
    key, value = max(texts.items(), key=lambda item: len(item[1]))
    more = [FILLER] * max(task.recipe.data.max_length, task.recipe.model.length_limit or 0)
    inputs = {name: item for name, item in example.items() if name != task.recipe.fields.target}
    return {**inputs, key: " ".join([value, *more]) if isinstance(value, str) else [*value, *more]}


def built_in(task: AnyTask) -> list[Example]:
    """The sentences of this file as examples of a task; those of the source language for each direction of a run."""
    directions = task.languages.directions if task.languages is not None else ()
    if len(set(directions)) > 1:
        return [
            {"src": text, "from": source, "to": target}
            for source, target in directions
            for text in SENTENCES.get(source, SENTENCES["en"])
        ]
    texts = [text for sentences in SENTENCES.values() for text in sentences]
    values = []
    for text, other in pairwise(texts):
        fields: Example = {
            "src": text, "text": text, "words": text.split(), "question": other, "context": text,
            "choices": [text, other], "pair": other,
        }  # fmt: skip
        values.append(task.parse({key: fields[key] for key in input_keys(task) if key in fields}))
    return [shorten(task, value) for value in values]


def spread(examples: Sequence[Example], limit: int) -> list[Example]:
    """The first examples of each direction."""
    groups: dict[str, list[Example]] = defaultdict(list)
    for example in examples:
        groups[direction_of(example)].append(example)
    each = max(1, limit // max(1, len(groups)))
    return [example for group in groups.values() for example in group[:each]]
