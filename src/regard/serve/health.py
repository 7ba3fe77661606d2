"""Routes for programs that watch the server: /healthz, /readyz, /metrics, and the list of routes at /api."""

import html

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse

from regard.serve.service import Service
from regard.serve.settings import ServeSettings

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>regard: routes</title></head>
<body><h1>Routes</h1><p>The schema of all requests and answers is <a href="openapi.json">openapi.json</a>.</p>
<table><tr><th>Method</th><th>Path</th><th>What it does</th></tr>
{rows}
</table></body></html>
"""


def routes(service: Service, settings: ServeSettings) -> APIRouter:
    """The routes; they need no API key."""
    router = APIRouter(tags=["server"])

    @router.head("/healthz", include_in_schema=False)
    @router.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Answer as long as the server runs."""
        return {"status": "ok"}

    @router.head("/readyz", include_in_schema=False)
    @router.get("/readyz", responses={503: {"description": "A model is being loaded, or the server stops."}})
    async def readyz() -> JSONResponse:
        """Say whether all models are loaded: status 200, else 503."""
        ready = service.ready
        state = "ok" if ready else "stopping" if service.stopping else "loading"
        return JSONResponse({"status": state}, 200 if ready else 503)

    @router.get("/metrics", response_class=PlainTextResponse)
    async def metrics(request: Request) -> Response:
        """Counters in the text format of Prometheus."""
        text = request.app.state.metrics.render(service)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    @router.get("/api", response_class=HTMLResponse)
    async def list_routes(request: Request) -> HTMLResponse:
        """A page with all routes."""
        rows = [
            f"<tr><td>{method.upper()}</td><td><code>{html.escape(path)}</code></td>"
            f"<td>{html.escape(operation.get('description', '').partition(chr(10))[0])}</td></tr>"
            for path, operations in request.app.openapi()["paths"].items()
            for method, operation in operations.items()
        ]
        return HTMLResponse(PAGE.format(rows="\n".join(rows)))

    return router
