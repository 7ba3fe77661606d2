"""The fields of a request, wherever its client puts them: JSON, a form, or the query string.

Clients of one API differ in this: deep-translator writes everything into the query string, deepl-node repeats a field
of a form, others send JSON. The routes of the compatible APIs read `RequestFields`, not the parameters that FastAPI
checks, because its response to a wrong parameter has a different status and format.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from regard.errors import UserError
from regard.reading import JsonObject, check_depth, check_text, read_json
from regard.serve.errors import ServiceError

MAX_FIELDS, MAX_FILES = 4096, 16
"""Fields and files of a form; a list is one field for each of its texts."""
JSON_TYPES = ("application/json", "text/json")
SCHEMAS = read_json(Path(__file__).with_name("schemas.json"), JsonObject)
FORM_TYPES = ("application/x-www-form-urlencoded", "multipart/form-data")


@dataclass(frozen=True)
class RequestFields:
    """The fields of a request by name, and names and contents of its files. A field that is repeated is a list."""

    values: Mapping[str, object]
    files: Mapping[str, tuple[str, bytes]] = field(default_factory=dict)

    def __getitem__(self, name: str) -> object:
        """The value of a field; None if it is absent."""
        return self.values.get(name)

    def text(self, name: str) -> str:
        """A field that is one text; empty if it is absent or anything else."""
        value = self.values.get(name)
        return value if isinstance(value, str) else ""


async def read_fields(request: Request, max_body: int) -> RequestFields:
    """The fields of a request; a ServiceError with the code "invalid-request" if they cannot be read.

    A JSON body replaces the query string. A field of the query string comes before the same field of a form.
    """
    kind = content_type(request)
    if kind in JSON_TYPES or kind.endswith("+json"):
        return RequestFields(json_object(await request.body()))
    values: dict[str, object] = {}
    files: dict[str, tuple[str, bytes]] = {}
    if is_form(request):
        try:
            async with request.form(max_files=MAX_FILES, max_fields=MAX_FIELDS, max_part_size=max_body) as form:
                items = form.multi_items()
                values = collect([(name, item) for name, item in items if isinstance(item, str)])
                uploads = [(name, item) for name, item in items if isinstance(item, UploadFile)]
                files = {name: (item.filename or "", await item.read()) for name, item in uploads}
        except (HTTPException, ValueError, KeyError, AssertionError) as error:  # python-multipart cannot read it
            raise invalid("The form of the request is not valid.") from error
    fields = RequestFields(values | collect(request.query_params.multi_items()), files)
    check_values([fields.values, [name for name, _ in files.values()]])
    return fields


def request_body(name: str) -> JsonObject:
    """The body of a request for OpenAPI 3, from schemas.json; the routes read it by themselves."""
    content = {media: {"schema": SCHEMAS[name]["schema"]} for media in SCHEMAS[name]["types"]}
    return {"requestBody": {"required": True, "content": content}}


def is_form(request: Request) -> bool:
    """True if the body is a form."""
    return content_type(request) in FORM_TYPES


def content_type(request: Request) -> str:
    """The type of the body without its parameters, in lower case."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def collect(items: list[tuple[str, str]]) -> dict[str, object]:
    """Pairs as a dictionary; the values of a repeated name are a list."""
    values: dict[str, list[str]] = {}
    for name, value in items:
        values.setdefault(name, []).append(value)
    return {name: texts[0] if len(texts) == 1 else texts for name, texts in values.items()}


def json_object(body: bytes) -> dict[str, object]:
    """A JSON object; a ServiceError if the body is anything else."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise invalid("The body of the request is not valid JSON.") from error
    if not isinstance(value, dict):
        raise invalid("Invalid JSON format")
    check_values(value)
    return value


def check_values(value: object) -> None:
    """Raise ServiceError for texts that are not valid Unicode, and for deep nesting."""
    try:
        check_depth(value)
        check_text(value)
    except ValueError as error:
        raise invalid("The values of the request are nested too deeply.") from error
    except UserError as error:
        raise invalid("A text of the request is not valid Unicode.") from error


def invalid(problem: str, where: str = "") -> ServiceError:
    """The error of a request that cannot be read or lacks something."""
    return ServiceError("invalid-request", problem, where=where)


def as_texts(value: object, name: str) -> list[str]:
    """One text or a list of texts as a list; a ServiceError for anything else."""
    texts = value if isinstance(value, list) else [value]
    if not all(isinstance(text, str) for text in texts):
        raise invalid(f"Invalid request: {name} parameter is not a text", name)
    return [str(text) for text in texts]


def as_glossary(value: object) -> dict[str, str]:
    """The glossary of a request: an object of terms and their translations, or the same as JSON text."""
    if value is None or value == "":
        return {}
    if isinstance(value, str):
        value = json_object(value.encode())
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise invalid("Invalid request: glossary parameter is not an object of texts", "glossary")
    return value
