"""Choice of the settings that a recipe does not give, from its training data (the rules are in sizing.py)."""

import re
from collections import Counter
from collections.abc import Callable, Iterable

from regard.config import SettingsTable, build
from regard.data.formats import read_examples
from regard.messages import Message
from regard.recipe import ChosenDefault, Corpus, Recipe
from regard.tasks.registry import check_schedule, task_of
from regard.tasks.sizing import LENGTHS, MODEL_SIZES

# Characters of scripts without spaces between words: each counts as a word.
CHARACTERS_AS_WORDS = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0e7f]")
LONG_SHARE = 0.95
ANY_CORPUS = Corpus(1, 1, 1)


def choose_defaults(recipe: Recipe, report: Callable[[str], None]) -> Recipe:
    """Choose and report the settings that the recipe does not give; the data is read only if there are any."""
    if not any(recipe.choose(ANY_CORPUS)):
        return recipe
    report(Message("reading the training data to choose defaults"))
    corpus = survey(recipe)
    choices = list(recipe.choose(corpus))
    text = {"examples": corpus.examples, "words": corpus.words}
    report(
        Message("defaults for {examples:,} examples with {words:,} words; set one in the recipe to change it:", **text)
    )
    named_size = any(choice.name == "model.size" for choice in choices)  # it stands for all sizes
    for choice in choices:
        if not (named_size and choice.name.removeprefix("model.") in MODEL_SIZES[1:]):
            report(Message("  {setting} ({reason})", setting=f"{choice.name} = {choice.value}", reason=choice.reason))
    return apply(recipe, choices)


def take_defaults(recipe: Recipe, earlier: Recipe) -> Recipe:
    """Return the recipe with the values that were chosen for an earlier run of it, to resume that run."""
    before = earlier.model_dump()
    names = [choice.name for choice in recipe.choose(ANY_CORPUS)]
    if set(names) & set(LENGTHS) and not any(map(recipe.is_given, LENGTHS)):
        names += LENGTHS  # the earlier recipe may have given another one of them
    choices = [
        ChosenDefault(full, before[group][name], "as in the run to resume")
        for full in names
        for group, _, name in [full.partition(".")]
        if name in before[group]
    ]
    return apply(recipe, choices) if choices else recipe


def survey(recipe: Recipe) -> Corpus:
    """Count the training examples and their words."""
    checks, words, lengths = task_of(recipe).checks, 0, Counter[int]()
    for example in read_examples(recipe.data.train, recipe.data.folder, recipe.fields):
        sides = checks.texts(recipe.fields, example)
        counts = {name: sum(map(count_words, side)) for name, side in sides.items()}
        words += sum(counts.values())
        lengths[counts.get("source", 0)] += 1
    count, limit = lengths.total(), getattr(recipe.data, "limit", 0)
    used = min(limit or count, count)
    return Corpus(used, words * used // max(1, count), percentile(lengths, LONG_SHARE))


def count_words(text: str) -> int:
    """Words between spaces, and characters of scripts without spaces."""
    count = len(text.split())
    return count if text.isascii() else count + len(CHARACTERS_AS_WORDS.findall(text))


def percentile(counts: Counter[int], share: float) -> int:
    """The least value that `share` of all values do not exceed; 0 if there are none."""
    seen = 0
    for value in sorted(counts):
        seen += counts[value]
        if seen >= share * counts.total():
            return value
    return 0


def apply(recipe: Recipe, choices: Iterable[ChosenDefault]) -> Recipe:
    """Return the recipe with the chosen values, checked as if they had been written."""
    values: SettingsTable = recipe.model_dump(exclude_none=True)
    for choice in choices:
        group, _, name = choice.name.partition(".")
        values[group][name] = choice.value
        if choice.name == "training.warmup":  # of a run that is resumed with fewer steps
            values[group][name] = min(choice.value, values[group]["max_steps"] - 1)
    chosen = build(type(recipe), values, "the chosen defaults", recipe.defaults)
    check_schedule(chosen, "the chosen defaults")
    return chosen
