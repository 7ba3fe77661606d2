"""Results of checks."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import torch

from regard.errors import UserError
from regard.messages import Message

Status = Literal["pass", "warn", "fail", "skip"]
STATUSES: tuple[Status, ...] = ("pass", "warn", "fail")
"""From good to bad."""
CheckProgress = Callable[[str, int, int | None], None]
"""Takes what is being done, the number of finished items, and how many there are if that is known."""
MODEL_DEFECT = Message("this is a defect of the model and not of the recipe: please report it with the recipe")
OTHERWISE = Message("if that does not help, {defect}", defect=MODEL_DEFECT)


@dataclass(frozen=True)
class Check:
    name: str
    """A stable identifier, for example "first-loss"."""
    status: Status
    finding: str
    """The measurement in words."""
    remedy: str = ""
    """The remedy of a warning or a failure."""


CORRECT = Message("correct that and run the doctor again")
REMAINING = Check(Message("remaining"), "skip", Message("the other checks need what failed"), CORRECT)


def judge(name: str, status: Status, finding: str, remedy: str) -> Check:
    """A check whose remedy is given only if it did not pass."""
    return Check(name, status, finding, "" if status == "pass" else remedy)


def grade(value: float, warn: float, fail: float) -> Status:
    """The status of a value that must not exceed some bounds."""
    return "fail" if value > fail else "warn" if value > warn else "pass"


def guarded(name: str, check: Callable[[], Check]) -> Check:
    """Run a check; an error that would end training is a failed check."""
    try:
        return check()
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        remedy = Message("choose a smaller model.size, or see which programs use the GPU: nvidia-smi")
        return Check(name, "fail", Message("a few examples do not fit into the memory of the GPU"), remedy)
    except UserError as error:
        return Check(name, "fail", error.problem, error.remedy)


def healthy(checks: Iterable[Check]) -> bool:
    """True if no check failed."""
    return all(check.status != "fail" for check in checks)


def to_json(checks: Iterable[Check]) -> dict[str, object]:
    results = list(checks)
    return {"healthy": healthy(results), "checks": [dict(vars(check)) for check in results]}
