"""The task of a recipe before it is trained: sizes without tokenizers."""

from collections.abc import Sequence
from dataclasses import fields

from regard.data.hold_out import read_split
from regard.errors import UserError
from regard.files import JsonObject
from regard.recipe import Recipe
from regard.tasks.base import AnyTask
from regard.tasks.labelled import Labelled
from regard.tasks.registry import task_of


class Vocabulary:
    """A tokenizer before training: its size only."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size


def read_labels(recipe: Recipe) -> list[str]:
    """The names of the classes in the training data; none if the task has no such names."""
    task_class = task_of(recipe)
    if not issubclass(task_class, Labelled):
        return []
    return task_class.collect_labels(list(read_split(recipe.data, recipe.fields, "train")))


def planned_task(recipe: Recipe, labels: Sequence[str]) -> AnyTask:
    """The task with the largest vocabulary that the recipe allows: enough to build its model, not to use it."""
    task_class, known = task_of(recipe), {each.name for each in fields(task_of(recipe))}
    texts = dict.fromkeys(("tokenizer", "src_tokenizer", "tgt_tokenizer"), recipe.text)
    texts["tgt_tokenizer"] = getattr(task_class, "target_text", None) or recipe.text
    given: JsonObject = {
        name: Vocabulary(getattr(text, "vocab_size", 0)) for name, text in texts.items() if name in known
    }
    if issubclass(task_class, Labelled) and task_class.has_named_labels:
        given["labels"] = tuple(labels)
    try:
        return task_class(recipe, **given)
    except TypeError as error:
        problem = f"the model of task {recipe.task} is known only after training has begun"
        raise UserError(problem, "use the run", code="not-finished", where="task") from error
