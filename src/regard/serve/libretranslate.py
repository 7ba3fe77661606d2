"""LibreTranslate's API: routes, responses, files, and its schema.

Requests are JSON, a form or a query string. Errors are {"error": "..."} with the status and the text of LibreTranslate
1.9.6, which clients show and compare. docs/serving-clients.md lists the differences.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import PurePosixPath
from urllib.parse import quote

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from regard.documents.document import FILE_FORMATS, RESULTS, file_format
from regard.errors import UserError
from regard.files import JsonObject
from regard.serve.access import access_of
from regard.serve.errors import TEXT, ServiceError, text_format
from regard.serve.fields import RequestFields, as_glossary, as_texts, invalid, is_form, read_fields, request_body
from regard.serve.languages import name_of, public_code
from regard.serve.service import Service, TranslatedText, TranslateRequest
from regard.serve.settings import ServeSettings
from regard.tasks.identification import Detected

PATHS = (
    "/translate", "/detect", "/languages", "/suggest", "/spec", "/frontend/settings", "/translate_file",
    "/download_file", "/health",
)  # fmt: skip
ERRORS = text_format("error", {401: 400, 422: 400})
"""400 where our own routes say what is wrong with a request, or that a key is missing."""
AUTO = "auto"
FORMATS = ("text", "html")
NOTHING_DETECTED = {"confidence": 0.0, "language": "en"}
MAX_DETECTED, LEAST_CONFIDENCE = 3, 0.001
"""Languages of a detection, and the smallest probability of one."""
MAX_SHOWN = 40
"""Characters of a wrong value that an error repeats."""
WIDE = {".": "。", "!": "！", "?": "？", ",": "，", ";": "；"}
"""Marks, and the same marks in Chinese and Japanese."""
SAME = {**{mark: mark for mark in WIDE}, **{wide: mark for mark, wide in WIDE.items()}}
IDEOGRAPHIC = frozenset({"zh", "zt", "ja"})
CAPITAL_NOUNS = frozenset({"de", "lb"})
"""Languages in which lower case would misspell nouns; their translations of a lower-case source stay as they are."""
MEDIA_TYPES = {".txt": "text/plain; charset=utf-8", ".html": "text/html"}
"""A page names its encoding itself."""


# ---- schema ---------------------------------------------------------------------------------------------------------


def swagger(router: APIRouter) -> JsonObject:
    """The routes as Swagger 2.0, for LibreTranslate's clients (/spec)."""
    paths = {
        route.path: {method.lower(): operation(route) for method in route.methods or ()}
        for route in router.routes
        if isinstance(route, APIRoute) and route.include_in_schema
    }
    info = {"title": "regard", "version": "1.9.6", "description": "The routes of LibreTranslate's API that regard has."}
    return {"swagger": "2.0", "info": info, "basePath": "/", "produces": ["application/json"], "paths": paths}


def operation(route: APIRoute) -> JsonObject:
    """A route for Swagger 2.0."""
    body = (route.openapi_extra or {}).get("requestBody", {}).get("content", {})
    schema = next(iter(body.values()))["schema"] if body else {"properties": {}}
    parameters = [
        {
            "in": "formData",
            "name": name,
            "type": "file" if value.get("format") == "binary" else value.get("type", "string"),
            "description": value["description"],
            "required": name in schema["required"],
        }
        for name, value in schema["properties"].items()
        if value.get("type") != "object"
    ]
    if "{name}" in route.path:
        parameters = [{"in": "path", "name": "name", "type": "string", "required": True}]
    error = {"description": "an error", "schema": {"type": "object", "properties": {"error": TEXT}}}
    return {
        "tags": ["translate"],
        "summary": route.description.partition("\n")[0],
        "consumes": list(body),
        "parameters": parameters,
        "responses": {"200": {"description": "the response"}, **dict.fromkeys(("400", "403", "429"), error)},
    }


# ---- routes ---------------------------------------------------------------------------------------------------------


def routes(service: Service, settings: ServeSettings) -> APIRouter:
    """The routes of LibreTranslate's API."""
    api = LibreTranslate(service, settings)
    router = APIRouter(tags=["LibreTranslate"], responses=ERRORS.responses)
    router.post("/translate", openapi_extra=request_body("libretranslate/translate"))(api.translate)
    router.post("/detect", openapi_extra=request_body("libretranslate/detect"))(api.detect)
    router.head("/languages", include_in_schema=False)(api.languages)
    router.get("/languages")(api.languages)
    router.post("/languages", include_in_schema=False)(api.languages)

    @router.get("/health")
    @router.head("/health", include_in_schema=False)
    async def health() -> Response:
        """Say that the server runs."""
        return JSONResponse({"status": "ok"})

    router.get("/frontend/settings")(api.frontend_settings)

    @router.post("/suggest", openapi_extra=request_body("libretranslate/suggest"))
    async def suggest() -> Response:
        """Better translations proposed by users are not collected."""
        return JSONResponse({"error": "Suggestions are disabled on this server."}, 403)

    @router.get("/spec")
    async def spec() -> Response:
        """These routes as Swagger 2.0; /openapi.json has all routes."""
        return JSONResponse(swagger(router))

    router.post("/translate_file", openapi_extra=request_body("libretranslate/translate_file"))(api.translate_file)
    router.get("/download_file/{name}")(api.download_file)
    return router


# ---- responses ------------------------------------------------------------------------------------------------------


class LibreTranslate:
    """The responses of LibreTranslate's API."""

    def __init__(self, service: Service, settings: ServeSettings) -> None:
        self.service, self.settings = service, settings
        self.store = FileStore(max_bytes=max(MAX_BYTES, 4 * settings.max_body))

    async def read(self, request: Request) -> RequestFields:
        """The fields of a request, if its key is allowed and it is not one too many."""
        fields = await read_fields(request, self.settings.max_body)
        try:
            access_of(request).check(request, fields.text("api_key"))
        except ServiceError as error:
            texts = {
                "wrong-key": "Invalid API key",
                "missing-key": "Please contact the server operator to get an API key",
                "too-many-requests": f"Slowdown: {self.settings.requests_per_minute} per 1 minute",
            }
            raise ServiceError(error.code, texts[error.code], retry_after=error.retry_after) from error
        return fields

    # ---- translate --------------------------------------------------------------------------------------------------

    async def translate(self, request: Request) -> Response:
        """Translate a text or several."""
        fields = await self.read(request)
        texts = self.read_texts(fields, "source", "target")
        alternatives = self.read_alternatives(fields["alternatives"])
        source, target = self.find_pair(fields)
        format = fields["format"] or "text"
        if format not in FORMATS:
            raise invalid(f"{shown(format)} format is not supported", "format")
        nbest = alternatives if format == "text" else 0
        glossary = as_glossary(fields["glossary"])
        with pair_errors():
            found = await self.service.translate(TranslateRequest(texts, source, target, str(format), nbest, glossary))
        translated = [
            with_source_style(text, item, target) if format == "text" else item
            for text, item in zip(texts, found, strict=True)
        ]
        single = not isinstance(fields["q"], list)
        response: dict[str, object] = {"translatedText": one_or_all([item.text for item in translated], single)}
        if alternatives > 0:
            response["alternatives"] = one_or_all([item.alternatives for item in translated], single)
        if source is None:
            detected = [detections(item.detected or [])[0] for item in translated]
            response["detectedLanguage"] = one_or_all(detected, single)
        return JSONResponse(response)

    def read_texts(self, fields: RequestFields, *others: str) -> list[str]:
        """The texts; ServiceError if they or other fields are missing, or if there is too much text."""
        require(fields, "q", *others)
        texts = as_texts(fields["q"], "q")
        counts = ((len(texts), self.settings.max_batch_texts), (sum(map(len, texts)), self.settings.max_characters))
        for count, limit in counts:
            if count > limit:
                raise invalid(f"Invalid request: request ({count}) exceeds text limit ({limit})", "q")
        return texts

    def read_alternatives(self, value: object) -> int:
        """The number of alternatives, from a number or its text."""
        try:
            number = 0 if value is None else int(value)  # type: ignore[call-overload]
        except (TypeError, ValueError, OverflowError) as error:
            raise invalid("Invalid request: alternatives parameter is not a number", "alternatives") from error
        limit = self.settings.max_alternatives
        if number > limit:
            raise invalid(f"Invalid request: alternatives parameter must be <= {limit}", "alternatives")
        return max(0, number)

    def find_pair(self, fields: RequestFields) -> tuple[str | None, str]:
        """Our codes of the source language, None for auto, and of the target language."""
        source = None if fields.text("source").lower() == AUTO else self.find(fields["source"], is_source=True)
        return source, self.find(fields["target"])

    def find(self, code: object, is_source: bool = False) -> str:
        """Our code of a language; a ServiceError if no run knows it."""
        found = self.service.languages().find(code, is_source) if isinstance(code, str) else None
        if found is None:
            raise invalid(f"{shown(code).lower()} is not supported", "language")
        return found

    # ---- files ------------------------------------------------------------------------------------------------------

    async def translate_file(self, request: Request) -> Response:
        """Translate a file; the response says where to download the result within half an hour."""
        fields = await self.read(request)
        uploaded, content = fields.files.get("file", ("", b""))
        if not uploaded:
            raise invalid("Invalid request: missing file parameter", "file")
        require(fields, "source", "target")
        name = safe_name(uploaded)
        if not file_format(name):
            raise invalid("Invalid request: file format not supported", "file")
        source, target = self.find_pair(fields)
        glossary = as_glossary(fields["glossary"])
        try:
            with pair_errors():
                content, problems = await self.service.translate_file(name, content, source, target, glossary)
        except ServiceError:
            raise
        except UserError as error:  # it names a place in the file or a term, not a path of the server
            raise invalid(f"Invalid request: {error.problem}", "file") from error
        key = self.store.put(translated_name(name, public_code(target)), content)
        self.store.purge_later(asyncio.get_running_loop())
        response: JsonObject = {"translatedFileUrl": f"{request.base_url}download_file/{quote(key)}"}
        return JSONResponse(response | ({"problems": problems} if problems else {}))

    async def download_file(self, name: str) -> Response:
        """A translated file, as an attachment: a browser stores it and does not show it."""
        file = self.store.get(name)
        if file is None:
            return JSONResponse({"error": "the file does not exist, or not any more"}, 404)
        headers = {
            "Content-Type": MEDIA_TYPES.get(PurePosixPath(file.name).suffix, "application/octet-stream"),
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.name, safe='')}",
            "X-Content-Type-Options": "nosniff",
        }
        return Response(file.content, headers=headers)

    # ---- other responses --------------------------------------------------------------------------------------------

    async def detect(self, request: Request) -> Response:
        """The languages that a text may have, at most 3, with a confidence from 0 to 100."""
        texts = self.read_texts(await self.read(request))  # of several texts, each language has its greatest confidence
        return JSONResponse(detections([item for found in await self.service.detect(texts) for item in found]))

    async def languages(self, request: Request) -> Response:
        """The languages, each with those it can be translated to."""
        if request.method == "POST" and not is_form(request):  # libretranslatepy sends a form
            raise HTTPException(405, headers={"Allow": "GET"})
        languages = self.service.languages()
        described = [
            {
                "code": public_code(source),
                "name": name_of(source),
                "targets": sorted(public_code(target) for target in {*languages.targets(source), source}),
            }
            for source in languages.codes
        ]
        return JSONResponse(described)

    async def frontend_settings(self, request: Request) -> Response:
        """Limits and languages for a page."""
        keys = access_of(request).keys.required
        target = next((code for code in self.service.languages().codes if code != "en"), "en")
        described = {
            "apiKeys": keys,
            "charLimit": self.settings.max_characters,
            "filesTranslation": True,
            "frontendTimeout": 500,
            "keyRequired": keys,
            "language": {
                "source": {"code": AUTO, "name": "Auto Detect"},
                "target": {"code": public_code(target), "name": name_of(target)},
            },
            "suggestions": False,
            "supportedFilesFormat": [name for name in FILE_FORMATS if name != ".pdf" or find_spec("pypdf")],
        }
        return JSONResponse(described)


# ---- helpers --------------------------------------------------------------------------------------------------------


def require(fields: RequestFields, *names: str) -> None:
    """Raise ServiceError if a field is absent or empty."""
    for name in names:
        if not fields[name]:
            raise invalid(f"Invalid request: missing {name} parameter", name)


def shown(value: object) -> str:
    """A wrong value for an error, shortened."""
    text = str(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


@contextmanager
def pair_errors() -> Iterator[None]:
    """Raise the error of a missing pair in LibreTranslate's words; any other as it is."""
    try:
        yield
    except ServiceError as error:
        if error.code != "unknown-pair":
            raise
        source, _, target = error.where.partition(":")
        names = [f"{name_of(code)} ({public_code(code)})" for code in (target, source)]
        raise invalid(f"{names[0]} is not available as a target language from {names[1]}", error.where) from error


def with_source_style(source: str, item: TranslatedText, target: str) -> TranslatedText:
    """A translation with the case and the final mark of its source."""
    texts = (item.text, *item.alternatives)
    first, *others = (match_source_style(source, text, target) for text in texts)
    return replace(item, text=first, alternatives=[text for text in dict.fromkeys(others) if text != first])


def detections(found: Sequence[Detected]) -> list[dict[str, object]]:
    """Detected languages as LibreTranslate writes them, best first, each once; those of no probability are left out."""
    best = {item.language: item.confidence for item in sorted(found, key=lambda item: item.confidence)}
    languages: list[dict[str, object]] = [
        {"confidence": round(100 * confidence, 1), "language": public_code(language)}
        for language, confidence in reversed(best.items())
        if confidence >= LEAST_CONFIDENCE
    ]
    return languages[:MAX_DETECTED] or [dict(NOTHING_DETECTED)]


def one_or_all(values: Sequence[object], single: bool) -> object:
    """The only value, if the request had one text and no list."""
    return values[0] if single else values


# ---- style ----------------------------------------------------------------------------------------------------------
#
# A translation with the case and the final mark of its source, as LibreTranslate writes it.
#
#     source             translation       result
#     Hello              hallo Welt.       Hallo Welt      the first letter and the final mark follow the source
#     HELLO              Hallo             HALLO
#     hello              Hola              hola            but not in a language that writes its nouns with a capital
#
# Clients translate labels, names and headings, and rely on it. The rules were found by experiments with version 1.9.6.


def match_source_style(source: str, translation: str, target: str = "") -> str:
    """The translation with the final mark and the case of the source; `target` is the code of its language."""
    source, body = source.strip(), translation.strip()
    if not source or not body:
        return translation
    before, _, after = translation.partition(body)  # whitespace around the text stay
    mark = SAME.get(source[-1], "")
    if not mark or SAME.get(body[-1]) != mark:  # the final mark of the source as the target writes it, or none
        written = WIDE.get(mark, "") if target.partition("-")[0] in IDEOGRAPHIC else mark
        body = (body[:-1] if body[-1] in SAME else body) + written
    return before + match_case(source, body, target) + after


def match_case(source: str, translation: str, target: str) -> str:
    """The translation in upper case, in lower case, or with a first letter like that of the source."""
    if source.isupper():
        return translation.upper()
    if source.islower():
        return translation if target in CAPITAL_NOUNS else translation.lower()
    if source[0].isupper():
        return translation[:1].upper() + translation[1:]
    return translation[:1].lower() + translation[1:] if source[0].islower() else translation


# ---- files for download: in memory, under random names, for a short time --------------------------------------------

MAX_AGE = 1800.0
"""Seconds that a file can be downloaded."""
MAX_BYTES, MAX_FILES = 64_000_000, 1000
"""Limits of all files together; beyond them the oldest are removed."""
MAX_NAME = 100
UNSAFE = frozenset('\\/:*?"<>|')


@dataclass(frozen=True)
class StoredFile:
    """A translated file."""

    name: str
    """The name for the client to store it under: a_de.txt."""
    content: bytes
    expires: float


@dataclass
class FileStore:
    """Files by random names of 128 bits; a dictionary, so the oldest comes first."""

    max_age: float = MAX_AGE
    max_bytes: int = MAX_BYTES
    clock: Callable[[], float] = time.monotonic
    files: dict[str, StoredFile] = field(default_factory=dict)
    size: int = 0
    timer: asyncio.TimerHandle | None = None
    """Removes the oldest file when it is too old. There is one timer for all files, not one for each."""

    def put(self, name: str, content: bytes) -> str:
        """Keep a file; return the name under which `get` finds it: 32 hexadecimal digits, a point and its own name."""
        key = f"{secrets.token_hex(16)}.{name}"
        self.files[key] = StoredFile(name, content, self.clock() + self.max_age)
        self.size += len(content)
        self.purge()
        return key

    def get(self, key: str) -> StoredFile | None:
        """The file of a name; None if there is none, or not any more."""
        self.purge()
        return self.files.get(key)

    def purge(self) -> None:
        """Remove files that are too old, and the oldest ones while there are too many."""
        now = self.clock()
        for key, file in list(self.files.items()):
            if file.expires > now and self.size <= self.max_bytes and len(self.files) <= MAX_FILES:
                break
            del self.files[key]
            self.size -= len(file.content)

    def purge_later(self, loop: asyncio.AbstractEventLoop) -> None:
        """Remove files that are too old also if no further request comes."""
        if self.files and (self.timer is None or self.timer.when() <= loop.time()):
            oldest = next(iter(self.files.values()))
            self.timer = loop.call_later(max(0.0, oldest.expires - self.clock()) + 1, self._purge_and_reschedule, loop)

    def _purge_and_reschedule(self, loop: asyncio.AbstractEventLoop) -> None:
        self.timer = None
        self.purge()
        self.purge_later(loop)


def safe_name(name: str) -> str:
    """The last part of a path of any system, without control characters and characters that systems forbid."""
    last = name.replace("\\", "/").rpartition("/")[2]
    clean = "".join(character for character in last if character.isprintable() and character not in UNSAFE)
    return PurePosixPath(clean.strip().lstrip(".")[-MAX_NAME:]).name or "file"


def translated_name(name: str, target: str) -> str:
    """The name of a translated file: a.txt -> a_de.txt."""
    path = PurePosixPath(safe_name(name))
    return f"{path.stem}_{target}{RESULTS.get(file_format(name), path.suffix)}"
