"""The exception for mistakes of the user.

Anything a user can get wrong (a file, a setting, a folder) ends as a `UserError`. It says what is wrong, where, and
what to write instead. The command line prints it without a traceback. Every other exception is a bug in regard.

`code` and `where` are for programs and tests: the wording of a message may improve at any time, they do not change.
"""


class UserError(Exception):
    """An input that cannot be used.

    problem   what is wrong, with the file, line or setting
    remedy    what to do about it
    code      the kind of error in kebab case, for example "missing-file" or "unknown-setting"
    where     the place: a path, "path:line", or the name of a setting; several are joined by ", "
    """

    def __init__(self, problem: str, remedy: str = "", *, code: str = "", where: object = "") -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy
        self.code = code
        self.where = str(where)

    def __str__(self) -> str:
        return f"{self.problem}\n  {self.remedy}" if self.remedy else self.problem
