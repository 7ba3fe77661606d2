"""The one exception that is meant for the person at the keyboard.

Whatever a user can get wrong (a file, a setting, a folder) ends as a `UserError` that says what was wrong and where,
and what to write instead. The command line prints it without a traceback; every other exception is a defect of ours.
"""


class UserError(Exception):
    """Something the user gave cannot be used: `problem` names it, `remedy` says what to do about it."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.problem}\n  {self.remedy}" if self.remedy else self.problem
