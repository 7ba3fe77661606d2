"""Errors of requests: a code, an HTTP status, and a response in the format of each API.

No response has a path of a file or a traceback.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fastapi.responses import JSONResponse

from regard.errors import UserError
from regard.files import JsonObject

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
"""The HTTP status of each code on our own routes."""
INVALID = 422
"""The status of a request that cannot be read, and of a UserError from another room, on our own routes."""
FILE_PATH = re.compile(r"(?<![\w/])(?:[A-Za-z]:)?[/\\][\w.~-]+(?:[/\\][\w.~ -]+)+")
MAX_MESSAGE = 500
TEXT: JsonObject = {"type": "string"}


class ServiceError(UserError):
    """A request that the service does not answer."""

    def __init__(self, code: str, problem: str, remedy: str = "", *, where: object = "", retry_after: int = 0) -> None:
        """`retry_after` is the number of seconds after which the client may try again."""
        super().__init__(problem, remedy, code=code, where=where)
        self.status, self.retry_after = STATUS[code], retry_after


@dataclass(frozen=True)
class Problem:
    """An error on its way to a client."""

    status: int
    code: str
    message: str
    retry_after: int = 0

    @classmethod
    def of(cls, error: UserError) -> "Problem":
        """The problem that an error is."""
        status, retry = (error.status, error.retry_after) if isinstance(error, ServiceError) else (INVALID, 0)
        message = error.problem if not error.remedy else f"{error.problem}; {error.remedy}"
        return cls(status, error.code or "invalid-request", without_paths(message), retry)


@dataclass(frozen=True)
class ErrorFormat:
    """How an API writes errors: the body, other statuses than ours, and the JSON schema of the body."""

    body: Callable[[Problem], JsonObject]
    statuses: Mapping[int, int]
    schema: JsonObject

    @property
    def responses(self) -> dict[int | str, JsonObject]:
        """The errors of routes for an OpenAPI schema."""
        content = {"application/json": {"schema": self.schema}}
        return {
            "4XX": {"description": "The request is wrong, or not allowed.", "content": content},
            "5XX": {"description": "The server cannot answer now.", "content": content},
        }


def object_schema(**properties: JsonObject) -> JsonObject:
    """The JSON schema of an object with these properties."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def text_format(name: str, statuses: Mapping[int, int]) -> ErrorFormat:
    """The format {name: "message"}."""
    return ErrorFormat(lambda problem: {name: problem.message}, statuses, object_schema(**{name: TEXT}))


OWN_FORMAT = ErrorFormat(
    lambda problem: {"error": {"code": problem.code, "message": problem.message}},
    {},
    object_schema(error=object_schema(code=TEXT, message=TEXT)),
)


@dataclass(frozen=True)
class ErrorResponses:
    """Responses for errors; `formats` are those of other APIs by the first part of their paths: /v2 of /v2/usage."""

    formats: Mapping[str, ErrorFormat]

    def __call__(self, path: str, problem: Problem) -> JSONResponse:
        """The response for a problem, in the format of the API at this path."""
        names = (name for name in self.formats if path == name or path.startswith(f"{name}/"))
        chosen = self.formats.get(next(names, ""), OWN_FORMAT)
        headers = {"Retry-After": str(problem.retry_after)} if problem.retry_after else {}
        return JSONResponse(chosen.body(problem), chosen.statuses.get(problem.status, problem.status), headers)


def without_paths(message: str) -> str:
    """A message in which folders and files of the server are not named; long ones are cut."""
    message = FILE_PATH.sub("…", " ".join(message.split()))
    return message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 1] + "…"
