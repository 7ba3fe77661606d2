"""Files through LibreTranslate's API: upload, translate, download."""

import asyncio
from pathlib import PurePosixPath
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from regard.documents.files import file_format
from regard.errors import UserError
from regard.serve.errors import ServiceError
from regard.serve.fields import RequestFields, as_glossary, invalid
from regard.serve.files import MAX_BYTES, FileStore, safe_name, translated_name
from regard.serve.languages import public_code
from regard.serve.libretranslate_answers import LibreTranslate, pair_error, require
from regard.serve.libretranslate_spec import request_body

MEDIA_TYPES = {".txt": "text/plain; charset=utf-8", ".html": "text/html"}
"""A page names its encoding itself."""


def add_file_routes(router: APIRouter, api: LibreTranslate) -> None:
    """Add /translate_file and /download_file/NAME."""
    store = FileStore(max_bytes=max(MAX_BYTES, 4 * api.settings.max_body))

    @router.post("/translate_file", openapi_extra=request_body("translate_file"))
    async def translate_file(request: Request) -> Response:
        """Translate a file; the answer says where to download the result within half an hour."""
        fields = await api.read(request)
        key = store.put(*await translate_upload(api, fields))
        store.purge_later(asyncio.get_running_loop())
        return JSONResponse({"translatedFileUrl": f"{request.base_url}download_file/{quote(key)}"})

    @router.get("/download_file/{name}")
    async def download_file(name: str) -> Response:
        """A translated file, as an attachment: a browser stores it and does not show it."""
        file = store.get(name)
        if file is None:
            return JSONResponse({"error": "the file does not exist, or not any more"}, 404)
        headers = {
            "Content-Type": MEDIA_TYPES.get(PurePosixPath(file.name).suffix, "application/octet-stream"),
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.name, safe='')}",
            "X-Content-Type-Options": "nosniff",
        }
        return Response(file.content, headers=headers)


async def translate_upload(api: LibreTranslate, fields: RequestFields) -> tuple[str, bytes]:
    """The name and the content of the translation of an uploaded file."""
    upload = fields.files.get("file")
    if upload is None or not upload.name:
        raise invalid("Invalid request: missing file parameter", "file")
    require(fields, "source", "target")
    name = safe_name(upload.name)
    if not file_format(name):
        raise invalid("Invalid request: file format not supported", "file")
    source, target = api.find_pair(fields)
    glossary = as_glossary(fields["glossary"])
    try:
        content = await api.service.translate_file(name, upload.content, source, target, glossary)
    except ServiceError as error:
        raise pair_error(error) from error
    except UserError as error:  # it names a place in the file or a term, not a path of the server
        raise invalid(f"Invalid request: {error.problem}", "file") from error
    return translated_name(name, public_code(target)), content
