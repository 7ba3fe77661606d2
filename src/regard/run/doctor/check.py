"""What a check finds: one line of a verdict, and what to do about it."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch

from regard.errors import UserError

Status = Literal["pass", "warn", "fail", "skip"]


@dataclass(frozen=True)
class Check:
    """One question put to a recipe: its answer in words and, where that is not good, the remedy."""

    name: str
    status: Status
    finding: str
    remedy: str = ""


FIRST_THIS = Check("the rest", "skip", "not examined: it stands on what failed", "mend that and ask again")


def guarded(name: str, check: Callable[[], Check]) -> Check:
    """The check's answer; what would have ended training (an error for the user, a full GPU) is a failed check here."""
    try:
        return check()
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        remedy = "choose a smaller model.size, or see what else uses the GPU: nvidia-smi"
        return Check(name, "fail", "a few sentences already fill the GPU's memory", remedy)
    except UserError as error:
        return Check(name, "fail", error.problem, error.remedy)


def healthy(checks: Iterable[Check]) -> bool:
    """Whether nothing failed."""
    return all(check.status != "fail" for check in checks)


def to_json(checks: Iterable[Check]) -> dict[str, Any]:
    """The verdict for programs."""
    listed = list(checks)
    return {"healthy": healthy(listed), "checks": [asdict(check) for check in listed]}
