"""The page at /: its files, and what it asks for under /page.

The page is HTML with two files of its own, a program and a style sheet, whose addresses contain a hash of their
content, so that a browser keeps them for as long as they are the same. Addresses are relative: the page also works
below a folder of a reverse proxy.
"""

import asyncio
import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from functools import cache, partial
from typing import Annotated

from fastapi import APIRouter, Depends, Response
from fastapi.responses import HTMLResponse, StreamingResponse
from pydantic import Field
from starlette.exceptions import HTTPException

from regard import __version__
from regard.documents.document import FILE_FORMATS
from regard.files import JsonObject
from regard.run import page_data
from regard.run.inspecting import next_tokens
from regard.run.model import Model
from regard.serve.access import check_access
from regard.serve.api import Body, Language, check_inputs, finite
from regard.serve.service import Service, TranslateRequest
from regard.serve.settings import ServeSettings
from regard.serve.streaming import TranslationEvents
from regard.viz.document import asset, program_text, served_document, style_text

SECTIONS = ("ask", "compare", "inside")
STYLE = ("page.css", "views.css", "served.css")
PROGRAM: list[str] = json.loads(asset("programs.json"))["served"]
MAX_WIDTH = 10
"""The widest beam that the page may ask for."""
FOREVER = "public, max-age=31536000, immutable"

RunName = Annotated[str, Field(max_length=200)]
HeadName = Annotated[str, Field(pattern=r"^\w{1,50}/\d{1,4}/\d{1,4}$")]
"""One head of a map, "cross/0/1": layers and heads count from 0."""
Example = str | JsonObject


class TranslateText(Body):
    """A text to translate as it is typed."""

    run: RunName
    text: str
    source: Language | None = None
    target: Language | None = None
    glossary: dict[str, str] = Field({})

    def request(self, links: bool = False) -> TranslateRequest:
        """The request of the service."""
        given = [self.text], self.source, self.target
        return TranslateRequest(*given, glossary=self.glossary, run=self.run, links=links)


class PredictExample(Body):
    """An example of a run; the attention is that of alternative `chosen`, from 0; heads in `off` are switched off."""

    run: RunName
    example: Example
    chosen: int = Field(0, ge=0, le=page_data.SHOWN_HYPOTHESES)
    off: list[HeadName] = Field([], max_length=1000)


class Head(PredictExample):
    """One head of one map of attention; layers and heads count from 0."""

    map: str = Field(max_length=50)
    layer: int = Field(ge=0, le=1000)
    head: int = Field(ge=0, le=1000)


class Beam(Body):
    """A sentence whose beam is wanted; without a width, that of the run."""

    run: RunName
    example: Example
    width: int | None = Field(None, ge=1, le=MAX_WIDTH)


class NextToken(Body):
    """An example whose next token is wanted, after an output that begins with `prefix`."""

    run: RunName
    example: Example
    prefix: str = ""
    temperature: float = Field(1.0, ge=0.05, le=10)


class Texts(Body):
    """Texts whose vectors are compared."""

    run: RunName
    texts: list[str]


def routes(service: Service, settings: ServeSettings) -> APIRouter:
    """The page and its data; only the data needs an API key."""
    router = APIRouter(tags=["page"])

    @router.get("/", response_class=HTMLResponse)
    async def page() -> HTMLResponse:
        """Show the page."""
        return HTMLResponse(render_page(), headers={"cache-control": "no-cache"})

    @router.get("/page/files/{digest}/{name}", response_class=Response)
    async def file(digest: str, name: str) -> Response:
        """Send a file of the page."""
        found = page_files().get(f"{digest}/{name}")
        if found is None:
            raise HTTPException(404)
        content, kind = found
        return Response(content, media_type=kind, headers={"cache-control": FOREVER})

    router.include_router(data_routes(service, settings), prefix="/page", dependencies=[Depends(check_access)])
    return router


def data_routes(service: Service, settings: ServeSettings) -> APIRouter:
    """What the page asks for."""
    router = APIRouter()

    @router.get("/runs")
    async def runs() -> JsonObject:
        """List the runs with their tasks, languages and what can be shown of each."""
        calls = (service.call(name, partial(page_data.run_json, name)) for name in service.runs)
        directions = ([list(direction) for direction in run.directions] for run in service.runs.values())
        found = zip(await asyncio.gather(*calls), directions, strict=True)
        described = [{**run, "directions": pairs} for run, pairs in found]
        limits = {"limit": settings.max_characters, "formats": FILE_FORMATS}
        return {"runs": described, **limits, "version": __version__}

    @router.post("/translate")
    async def translate(body: TranslateText) -> JsonObject:
        """Translate a text, with links between the words and the spans of its sentences."""
        (translated,) = await service.translate(body.request(links=True))
        return asdict(translated)

    @router.post("/translate/stream", response_class=StreamingResponse)
    async def translate_stream(body: TranslateText) -> StreamingResponse:
        """Translate a text and send its sentences as they become known (serve/streaming.py)."""
        return TranslationEvents(service, body.request())

    @router.get("/curves")
    async def curves(run: RunName, seen: Annotated[str, Field(max_length=100)] = "") -> JsonObject:
        """Read the curves of a run, also while it trains: what is new since `seen`."""
        model = service.run(run).model
        folder, monitor = model.run.folder, model.run.recipe.training.monitor
        found: JsonObject = finite(await asyncio.to_thread(page_data.curves_json, folder, monitor, seen))
        return found

    @router.get("/architecture")
    async def architecture(run: RunName) -> JsonObject:
        """Draw the parts of a model, in both languages."""
        return await call(service, run, page_data.architecture_json)

    router.include_router(view_routes(service, settings))
    return router


def view_routes(service: Service, settings: ServeSettings) -> APIRouter:
    """What the page asks about one example, or about some texts."""
    router = APIRouter()

    @router.post("/predict")
    async def predict(body: PredictExample) -> JsonObject:
        """Predict one example, with its attention."""
        check_inputs([body.example], settings)
        given = body.example, body.chosen, body.off
        return await call(service, body.run, lambda model: page_data.prediction_json(model, *given))

    @router.post("/head")
    async def head(body: Head) -> JsonObject:
        """Compute the steps of one head."""
        check_inputs([body.example], settings)
        place = body.example, body.chosen, body.map, body.layer, body.head
        return await call(service, body.run, lambda model: page_data.example_head_json(model, *place))

    @router.post("/beam")
    async def beam(body: Beam) -> JsonObject:
        """Search one sentence and show the beam."""
        check_inputs([body.example], settings)
        return await call(service, body.run, lambda model: page_data.beam_json(model, body.example, body.width))

    @router.post("/next")
    async def next_token(body: NextToken) -> JsonObject:
        """List the most probable next tokens."""
        check_inputs([body.example, body.prefix], settings)
        place = body.example, body.prefix, body.temperature
        return await call(service, body.run, lambda model: {"tokens": next_tokens(model, *place)})

    @router.post("/texts")
    async def texts(body: Texts) -> JsonObject:
        """Compare the vectors of texts."""
        check_inputs(body.texts, settings)
        return await call(service, body.run, lambda model: page_data.texts_json(model, body.texts))

    return router


async def call(service: Service, run: str, function: Callable[[Model], JsonObject]) -> JsonObject:
    """The value of a function of a model, without infinite numbers."""
    result: JsonObject = finite(await service.call(run, function))
    return result


@cache
def page_files() -> dict[str, tuple[bytes, str]]:
    """The files of the page by digest/name: their content and media type."""
    files = (
        ("style.css", style_text(STYLE).encode(), "text/css; charset=utf-8"),
        ("program.js", program_text(PROGRAM).encode(), "text/javascript; charset=utf-8"),
        ("icon.svg", asset("icon.svg").encode(), "image/svg+xml"),
    )
    return {f"{hashlib.sha256(text).hexdigest()[:16]}/{name}": (text, kind) for name, text, kind in files}


@cache
def render_page() -> str:
    """The HTML of the page."""
    shared, texts = json.loads(asset("words.json")), json.loads(asset("page_words.json"))
    words = {language: shared[language] | texts[language] for language in texts}
    empty = ("facts", "examples", "curves", "monitor", "rate", "scores", "tables")
    data: JsonObject = {name: None if name == "monitor" else [] for name in empty}
    addresses = (f"page/files/{path}" for path in page_files())  # relative to /
    return served_document("regard", SECTIONS, words, data, *addresses)
