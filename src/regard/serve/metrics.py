"""Routes for monitoring: /healthz, /readyz, /metrics, and the list of routes at /api.

Counters are in the text format of Prometheus. Labels are routes, statuses and runs: no client, no key.
https://prometheus.io/docs/instrumenting/exposition_formats/
"""

import html
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse

from regard.serve.service import Service
from regard.serve.settings import ServeSettings
from regard.viz.document import asset

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the histogram of durations."""


class Metrics:
    """Requests by route and status, their durations, and how many are in progress."""

    def __init__(self) -> None:
        self.in_progress = 0
        self.answered = 0
        self._requests: dict[tuple[str, str, int], int] = defaultdict(int)
        self._durations: dict[str, list[int]] = defaultdict(lambda: [0] * (len(SECONDS) + 1))
        self._seconds: dict[str, float] = defaultdict(float)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answered request; `route` is the pattern of its path, not the path."""
        self.answered += 1
        self._requests[method, route, status] += 1
        self._durations[route][bisect_left(SECONDS, seconds)] += 1
        self._seconds[route] += seconds

    def render(self, service: Service) -> str:
        """All metrics."""
        return "\n".join(self._lines(service)) + "\n"

    def _lines(self, service: Service) -> Iterator[str]:
        yield from heading("regard_requests_total", "counter", "Answered requests.")
        for (method, route, status), count in sorted(self._requests.items()):
            yield f'regard_requests_total{{method="{method}",route="{label(route)}",status="{status}"}} {count}'
        yield from heading("regard_request_seconds", "histogram", "Durations of requests.")
        for route, counts in sorted(self._durations.items()):
            total = 0
            for bound, count in zip((*map(str, SECONDS), "+Inf"), counts, strict=True):
                total += count
                yield f'regard_request_seconds_bucket{{route="{label(route)}",le="{bound}"}} {total}'
            yield f'regard_request_seconds_sum{{route="{label(route)}"}} {self._seconds[route]:.6f}'
            yield f'regard_request_seconds_count{{route="{label(route)}"}} {total}'
        yield from heading("regard_requests_in_progress", "gauge", "Requests without a response yet.")
        yield f"regard_requests_in_progress {self.in_progress}"
        columns = {
            "regard_queue_length": ("gauge", "Sentences that wait for a run.", "waiting"),
            "regard_queue_tokens": ("gauge", "Tokens that wait for a run, times beam size.", "waiting_tokens"),
            "regard_batches_total": ("counter", "Batches that a run computed.", "batches"),
            "regard_inputs_total": ("counter", "Sentences that a run computed.", "computed"),
        }
        for name, (kind, about, attribute) in columns.items():
            yield from heading(name, kind, about)
            for run in service.runs.values():
                yield f'{name}{{run="{label(run.name)}"}} {getattr(run.worker, attribute)}'
        yield from heading("regard_ready", "gauge", "1 if every run can answer.")
        yield f"regard_ready {int(service.ready)}"


def heading(name: str, kind: str, about: str) -> tuple[str, str]:
    """The two comment lines of a metric."""
    return f"# HELP {name} {about}", f"# TYPE {name} {kind}"


def label(text: str) -> str:
    """A label with its special characters escaped."""
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def routes(service: Service, settings: ServeSettings) -> APIRouter:
    """The routes; they need no API key."""
    router = APIRouter(tags=["server"])

    @router.head("/healthz", include_in_schema=False)
    @router.get("/healthz")
    async def healthz() -> dict[str, str]:
        """Say that the server runs."""
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

    @router.get("/docs/", include_in_schema=False)  # where LibreTranslate has a page about its routes
    async def docs() -> Response:
        return RedirectResponse("../api")

    @router.get("/api", response_class=HTMLResponse)
    async def list_routes(request: Request) -> HTMLResponse:
        """A page with all routes."""
        rows = [
            f"<tr><td>{method.upper()}</td><td><code>{html.escape(path)}</code></td>"
            f"<td>{html.escape(operation.get('description', '').partition(chr(10))[0])}</td></tr>"
            for path, operations in request.app.openapi()["paths"].items()
            for method, operation in operations.items()
        ]
        return HTMLResponse(asset("routes.html").format(rows="\n".join(rows)))

    return router
