"""LibreTranslate's routes as data: Swagger 2.0 for its clients (/spec), and bodies of requests for /openapi.json."""

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
TEXTS: Schema = {"oneOf": [TEXT, {"type": "array", "items": TEXT}]}
KEY = ("api_key", TEXT, "API key, if the server requires one", False)
SOURCE = ("source", TEXT, "code of the source language, or auto", True)
TARGET = ("target", TEXT, "code of the target language", True)
GLOSSARY = ("glossary", {"type": "object", "additionalProperties": TEXT}, "terms and their translations", False)
FIELDS: dict[str, tuple[tuple[str, Schema, str, bool], ...]] = {
    "translate": (
        ("q", TEXTS, "text, or a list of texts", True),
        SOURCE,
        TARGET,
        ("format", TEXT | {"enum": ["text", "html"]}, "text (the default) or html", False),
        ("alternatives", {"type": "integer", "minimum": 0}, "number of other translations", False),
        GLOSSARY,
        KEY,
    ),
    "detect": (("q", TEXTS, "text, or a list of texts", True), KEY),
    "suggest": (
        ("q", TEXT, "text", True),
        ("s", TEXT, "proposed translation", True),
        SOURCE,
        TARGET,
    ),
    "translate_file": (("file", TEXT | {"format": "binary"}, "file to translate", True), SOURCE, TARGET, GLOSSARY, KEY),
}
"""Name, schema, meaning and whether it is required, for each field of each route."""
READ = {
    "/languages": "The languages, each with those it can be translated to",
    "/frontend/settings": "Limits and languages for a page",
    "/health": "Whether the server answers",
    "/download_file/{name}": "A translated file",
}
CHANGED = {
    "/translate": ("translate", "Translate a text or several"),
    "/detect": ("detect", "The languages that a text may have"),
    "/suggest": ("suggest", "Propose a better translation; not collected"),
    "/translate_file": ("translate_file", "Translate a file"),
}


def request_body(name: str) -> Schema:
    """The body of a request, for OpenAPI 3: JSON or a form; a file needs a form."""
    schema = {
        "type": "object",
        "properties": {field: value | {"description": text} for field, value, text, _ in FIELDS[name]},
        "required": [field for field, _, _, required in FIELDS[name] if required],
    }
    types = ("multipart/form-data",) if name == "translate_file" else ("application/json", FORM)
    return {"requestBody": {"required": True, "content": {media: {"schema": schema} for media in types}}}


FORM = "application/x-www-form-urlencoded"


def parameters(name: str) -> list[Schema]:
    """The fields of a form, for Swagger 2."""
    return [
        {
            "in": "formData",
            "name": field,
            "type": "file" if schema.get("format") == "binary" else schema.get("type", "string"),
            "description": text,
            "required": required,
        }
        for field, schema, text, required in FIELDS[name]
        if schema.get("type") != "object"
    ]


def responses(*errors: str) -> Schema:
    """The answers of a route, for Swagger 2."""
    error = {"type": "object", "properties": {"error": TEXT}}
    return {"200": {"description": "the answer"}} | {
        code: {"description": "an error", "schema": error} for code in errors
    }


def swagger() -> Schema:
    """All routes as Swagger 2.0."""
    paths: Schema = {
        path: {"get": {"tags": ["translate"], "summary": text, "responses": responses()}} for path, text in READ.items()
    }
    for path, (name, text) in CHANGED.items():
        paths[path] = {
            "post": {
                "tags": ["translate"],
                "summary": text,
                "consumes": ["multipart/form-data"] if name == "translate_file" else [FORM, "application/json"],
                "parameters": parameters(name),
                "responses": responses("400", "403", "429"),
            }
        }
    paths["/download_file/{name}"]["get"]["parameters"] = [
        {"in": "path", "name": "name", "type": "string", "required": True}
    ]
    info = {"title": "regard", "version": "1.9.6", "description": "The routes of LibreTranslate's API that regard has."}
    return {"swagger": "2.0", "info": info, "basePath": "/", "produces": ["application/json"], "paths": paths}


SPEC = swagger()
