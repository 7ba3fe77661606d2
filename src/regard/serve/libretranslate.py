"""The routes of LibreTranslate's API; the answers are made in libretranslate_answers.py and libretranslate_files.py.

Requests are JSON, a form or a query string. Errors are {"error": "..."} with the status and the text of LibreTranslate
1.9.6, which clients show and compare. docs/serving-clients.md lists the differences.
"""

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from regard.serve.access import access_of
from regard.serve.fields import FORM_TYPES, content_type
from regard.serve.libretranslate_answers import LibreTranslate
from regard.serve.libretranslate_files import add_file_routes
from regard.serve.libretranslate_spec import SPEC, request_body
from regard.serve.problems import SHAPES, TEXT, Problem, Shape, error_responses, object_schema
from regard.serve.service import Service
from regard.serve.settings import ServeSettings

PATHS = (
    "/translate", "/detect", "/languages", "/suggest", "/spec", "/frontend/settings", "/translate_file",
    "/download_file", "/health",
)  # fmt: skip


def routes(service: Service, settings: ServeSettings) -> APIRouter:
    """The routes of LibreTranslate's API."""
    SHAPES.update(dict.fromkeys(PATHS, Shape(lambda problem: {"error": problem.message}, status)))
    api = LibreTranslate(service, settings)
    router = APIRouter(tags=["LibreTranslate"], responses=error_responses(object_schema(error=TEXT)))

    @router.post("/translate", openapi_extra=request_body("translate"))
    async def translate(request: Request) -> Response:
        """Translate a text or several."""
        return JSONResponse(await api.translate(await api.read(request)))

    @router.post("/detect", openapi_extra=request_body("detect"))
    async def detect(request: Request) -> Response:
        """The languages that a text may have, at most 3, with a confidence from 0 to 100."""
        return JSONResponse(await api.detect(await api.read(request)))

    @router.get("/languages")
    @router.head("/languages", include_in_schema=False)
    async def languages() -> Response:
        """The languages, each with those it can be translated to."""
        return JSONResponse(api.list_languages())

    @router.post("/languages", include_in_schema=False)
    async def languages_of_form(request: Request) -> Response:
        """The same for a form, as libretranslatepy asks; LibreTranslate refuses every POST."""
        if content_type(request) not in FORM_TYPES:
            raise HTTPException(405, headers={"Allow": "GET"})
        return JSONResponse(api.list_languages())

    @router.get("/health")
    @router.head("/health", include_in_schema=False)
    async def health() -> Response:
        """Answer as long as the server runs."""
        return JSONResponse({"status": "ok"})

    @router.get("/frontend/settings")
    async def frontend_settings(request: Request) -> Response:
        """Limits and languages for a page."""
        return JSONResponse(api.frontend_settings(access_of(request).keys.required))

    @router.post("/suggest", openapi_extra=request_body("suggest"))
    async def suggest() -> Response:
        """Better translations proposed by users are not collected."""
        return JSONResponse({"error": "Suggestions are disabled on this server."}, 403)

    @router.get("/spec")
    async def spec() -> Response:
        """These routes as Swagger 2.0; /openapi.json has all routes."""
        return JSONResponse(SPEC)

    add_file_routes(router, api)
    return router


def status(problem: Problem) -> int:
    """The status of an error: 400 where our own routes say what is wrong with a request, or that a key is missing."""
    return 400 if problem.status in (401, 422) else problem.status
