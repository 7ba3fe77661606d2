"""The GLUE score by the rules of its server (Wang et al. 2018, section 4): the mean of nine tasks.

A task with two scores counts with their mean: F1 and accuracy (MRPC, QQP), Pearson and Spearman correlation (STS-B),
accuracy on matched and mismatched genres (MNLI). The diagnostic set does not count. Devlin et al. 2018 leave out WNLI.
"""

from collections.abc import Collection, Mapping, Sequence

from regard.errors import UserError

GLUE_SCORES = {
    "cola": ("Matthews correlation",), "sst-2": ("accuracy",), "mrpc": ("F1", "accuracy"),
    "sts-b": ("Pearson", "Spearman"), "qqp": ("F1", "accuracy"), "mnli": ("matched", "mismatched"),
    "qnli": ("accuracy",), "rte": ("accuracy",), "wnli": ("accuracy",),
}  # fmt: skip
"""The scores of each task, by the name of its recipe."""


def glue_average(scores: Mapping[str, Sequence[float]], without: Collection[str] = ()) -> float:
    """The GLUE score of one or two scores per task, in percent: {"cola": [52.1], "mrpc": [88.9, 84.8], ...}."""
    expected = {task: names for task, names in GLUE_SCORES.items() if task not in without}
    for task, names in expected.items():
        if len(scores.get(task, ())) != len(names):
            problem = f"GLUE needs {' and '.join(names)} of {task}, not {list(scores.get(task, ()))}"
            raise UserError(problem, "add the scores of all tasks, or leave tasks out with `without`", where=task)
    return sum(sum(scores[task]) / len(names) for task, names in expected.items()) / len(expected)
