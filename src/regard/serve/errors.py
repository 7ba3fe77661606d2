"""Errors of a request, with a code that each API turns into its own answer."""

from regard.errors import UserError

STATUS = {
    "unknown-language": 422,
    "unknown-pair": 422,
    "unknown-run": 404,
    "wrong-task": 422,
    "invalid-request": 422,
    "too-long": 413,
    "missing-key": 401,
    "wrong-key": 403,
    "too-many-requests": 429,
    "slow-request": 408,
    "queue-full": 503,
    "stopping": 503,
    "timeout": 504,
}
"""The HTTP status of each code on our own routes; a UserError of another part is 422."""


class ServiceError(UserError):
    """A request that the service does not answer."""

    def __init__(self, code: str, problem: str, remedy: str = "", *, where: object = "", retry_after: int = 0) -> None:
        """`retry_after` is the number of seconds after which the client may try again."""
        super().__init__(problem, remedy, code=code, where=where)
        self.retry_after = retry_after

    @property
    def status(self) -> int:
        """The HTTP status."""
        return STATUS[self.code]
