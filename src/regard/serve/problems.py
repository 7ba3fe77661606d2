"""Answers for errors. Each API has its own shape; paths choose it. No answer has a path of a file or a traceback."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fastapi.responses import JSONResponse

from regard.errors import UserError
from regard.files import JsonObject
from regard.serve.errors import ServiceError

FILE_PATH = re.compile(r"(?<![\w/])(?:[A-Za-z]:)?[/\\][\w.~-]+(?:[/\\][\w.~ -]+)+")
MAX_MESSAGE = 500
INVALID = 422
"""The status of a body that cannot be read, on our own routes."""


@dataclass(frozen=True)
class Problem:
    """An error on its way to a client."""

    status: int
    code: str
    message: str
    retry_after: int = 0


@dataclass(frozen=True)
class Shape:
    """How an API answers errors."""

    body: Callable[[Problem], JsonObject]
    status: Callable[[Problem], int] = lambda problem: problem.status


OWN = Shape(lambda problem: {"error": {"code": problem.code, "message": problem.message}})
SHAPES: dict[str, Shape] = {}
"""The shapes of other APIs by the first parts of their paths (/v2 of /v2/usage); all other paths have our own."""


def error_responses(schema: JsonObject) -> dict[int | str, dict[str, Any]]:
    """The errors of the routes of an API for its OpenAPI schema; `schema` is that of their JSON."""
    content = {"application/json": {"schema": schema}}
    return {
        "4XX": {"description": "The request is wrong, or not allowed.", "content": content},
        "5XX": {"description": "The server cannot answer now.", "content": content},
    }


def object_schema(**properties: JsonObject) -> JsonObject:
    """The JSON schema of an object with these properties."""
    return {"type": "object", "properties": properties, "required": list(properties)}


TEXT: JsonObject = {"type": "string"}
OWN_ERRORS = error_responses(object_schema(error=object_schema(code=TEXT, message=TEXT)))


def problem_of(error: UserError) -> Problem:
    """The problem that an error of the user is."""
    status = error.status if isinstance(error, ServiceError) else INVALID
    retry = error.retry_after if isinstance(error, ServiceError) else 0
    message = error.problem if not error.remedy else f"{error.problem}; {error.remedy}"
    return Problem(status, error.code or "invalid-request", without_paths(message), retry)


def without_paths(message: str) -> str:
    """A message in which folders and files of the server are not named; long ones are cut."""
    message = FILE_PATH.sub("…", " ".join(message.split()))
    return message if len(message) <= MAX_MESSAGE else message[: MAX_MESSAGE - 1] + "…"


def answer(path: str, problem: Problem) -> JSONResponse:
    """The answer for a problem, in the shape of the API at this path."""
    shape = next((SHAPES[item] for item in SHAPES if path == item or path.startswith(f"{item}/")), OWN)
    headers = {"Retry-After": str(problem.retry_after)} if problem.retry_after else {}
    return JSONResponse(shape.body(problem), shape.status(problem), headers)
