"""The application: the routes of all APIs over one service.

A module of an API has `routes(service, settings) -> APIRouter`; `APIS` lists the modules. Swagger's page is left out,
since it is loaded from another host: /openapi.json is the schema, and /api lists the routes.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute, Match

from regard import __version__
from regard.errors import UserError
from regard.serve import api, deepl, huggingface, libretranslate, metrics, page
from regard.serve.access import Access
from regard.serve.errors import INVALID, OWN_FORMAT, ErrorResponses, Problem, without_paths
from regard.serve.middleware import RequestMiddleware
from regard.serve.service import Service
from regard.serve.settings import ServeSettings

APIS: tuple[Callable[[Service, ServeSettings], APIRouter], ...] = (
    metrics.routes,
    api.routes,
    libretranslate.routes,
    deepl.routes,
    huggingface.routes,
    page.routes,
)
"""The routes of each API."""
ERROR_FORMATS = {
    **dict.fromkeys(libretranslate.PATHS, libretranslate.ERRORS),
    deepl.PREFIX: deepl.ERRORS,
    huggingface.PREFIX: huggingface.ERRORS,
}
HTTP_CODES = {404: "not-found", 405: "method-not-allowed"}
HTTP_MESSAGES = {
    "Not Found": "there is no such path; /api lists the routes",
    "Method Not Allowed": "this path does not accept this method; /api lists the routes",
}
NO_OBJECT = ("missing", "model_attributes_type")
"""The types of pydantic's errors for a body that is missing, or is no JSON object."""
NOT_JSON = "the body is not a JSON object; send one, with the header Content-Type: application/json"


def create_app(service: Service, settings: ServeSettings) -> FastAPI:
    """The application over a service; its start loads the models, its end finishes what the service accepted."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await service.stop()

    app = FastAPI(
        title="regard",
        version=__version__,
        summary="Translation and other predictions of trained runs.",
        docs_url=None,
        redoc_url=None,
        responses=OWN_FORMAT.responses,
        lifespan=lifespan,
    )
    app.state.access, app.state.metrics = Access(settings), metrics.Metrics()
    routers = [routes(service, settings) for routes in APIS]
    for router in routers:
        app.include_router(router)
    respond = ErrorResponses(ERROR_FORMATS)
    add_error_responses(app, respond, [route for router in routers for route in router.routes])
    app.add_middleware(RequestMiddleware, service=service, metrics=app.state.metrics, respond=respond)
    if settings.cors:
        app.add_middleware(CORSMiddleware, allow_origins=settings.cors, allow_methods=["*"], allow_headers=["*"])
    return app


def add_error_responses(app: FastAPI, respond: ErrorResponses, routes: Sequence[BaseRoute]) -> None:
    """Respond to errors in the format of their API; `RequestMiddleware` responds to those of regard itself (500).

    OPTIONS names the methods of a path, as LibreTranslate does.
    """

    @app.exception_handler(UserError)
    async def user_error(request: Request, error: UserError) -> Response:
        return respond(request.scope["path"], Problem.of(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return respond(request.scope["path"], Problem(INVALID, "invalid-request", without_paths(describe(error))))

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        if error.status_code == 405 and request.method == "OPTIONS":
            matches = (route for route in routes if route.matches(request.scope)[0] != Match.NONE)
            methods = {method for route in matches for method in getattr(route, "methods", ())}
            return Response(headers={"Allow": ", ".join(sorted({*methods, "OPTIONS"}))})
        code = HTTP_CODES.get(error.status_code, "invalid-request")
        message = HTTP_MESSAGES.get(str(error.detail), str(error.detail))
        status = INVALID if error.status_code == 400 else error.status_code  # FastAPI: a body that is no text
        response = respond(request.scope["path"], Problem(status, code, message))
        response.headers.update(error.headers or {})
        return response


def describe(error: RequestValidationError) -> str:
    """The places of a body that are wrong and why, without its content."""
    if any(item["loc"] == ("body",) and item["type"] in NO_OBJECT for item in error.errors()):
        return NOT_JSON
    problems = [(".".join(str(part) for part in item["loc"][1:]), item["msg"]) for item in error.errors()[:5]]
    return "; ".join(f"{place}: {message}" if place else message for place, message in problems)
