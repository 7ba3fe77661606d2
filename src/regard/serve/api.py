"""regard's own API: /v1/translate, /v1/detect, /v1/predict, /v1/embed, /v1/runs. Errors: {"error": {code, message}}."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, model_validator

from regard.documents.address import Formality
from regard.errors import UserError
from regard.files import JsonObject
from regard.run.embedding import Features
from regard.run.model import Input
from regard.serve.access import check_access
from regard.serve.errors import ServiceError
from regard.serve.fields import check_values
from regard.serve.service import Service, TranslateRequest
from regard.serve.settings import ServeSettings
from regard.serve.streaming import TranslationEvents
from regard.tasks.identification import sure_language

LARGEST = {"beam": 32, "nbest": 32, "top": 10_000, "max_length": 1024, "extra_length": 1024, "iterations": 32,
           "length_candidates": 32}  # fmt: skip
"""The largest value of options of a prediction that cost time or memory."""
OPTIONS = (*LARGEST, "search", "alpha", "temperature", "top_k", "top_p", "no_repeat_ngram", "seed")
"""Options of a prediction that a client may choose."""
Language = Annotated[str, Field(max_length=32)]


class Body(BaseModel):
    """The body of a request; a wrong name of a field is an error."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def check_all(cls, values: object) -> object:
        """Refuse texts with half of a character, and deep nesting."""
        check_values(values)
        return values


class Texts(Body):
    """Texts without any options."""

    text: str | list[str] = Field(description="one text, or a list of texts")

    @property
    def texts(self) -> list[str]:
        return [self.text] if isinstance(self.text, str) else self.text


class Translate(Texts):
    """Texts to translate."""

    source: Language | None = Field(None, description="source language code; default: detected for each text")
    target: Language | None = Field(None, description="target language code; required if the server has several")
    format: Literal["text", "html"] = Field("text", description="text, or html: keep the tags")
    alternatives: int = Field(0, ge=0, description="number of alternative translations")
    glossary: dict[str, str] = Field({}, description="terms and the translations to use for them")
    run: str | None = Field(None, description="run that translates; default: the first run with these languages")
    formality: Formality = Field("default", description="form of address: more, less, prefer_more or prefer_less")
    links: bool = Field(False, description="only with format text: return the word alignment as character ranges")

    def request(self) -> TranslateRequest:
        """The request of the service; the source "auto" means that it is detected."""
        source = None if self.source in ("", "auto") else self.source
        options = self.format, self.alternatives, self.glossary, self.run, self.links, self.formality
        return TranslateRequest(self.texts, source, self.target, *options)


class Predict(Body):
    """Inputs of a run."""

    inputs: list[str | JsonObject] = Field(description="list of texts, or of JSON objects with the task's fields")
    options: JsonObject = Field({}, description='prediction options, e.g. {"beam": 4, "nbest": 2}')


class Embed(Body):
    """Texts whose vectors are wanted."""

    inputs: list[str | JsonObject] = Field(description='list of texts; a pair is {"text": ..., "pair": ...}')
    layers: str = Field("last", max_length=100, description='layers to use: last, all, -2, "-4:" or "1,6"')
    combine: str = Field("concat", description="how to combine several layers: concat, sum or mean")
    pool: str = Field("mean", description="one vector per text: cls, mean, max or pooler; or per token: tokens")
    normalize: bool = Field(False, description="scale every vector to length 1")


def routes(service: Service, settings: ServeSettings) -> APIRouter:
    """The routes of the API."""
    router = APIRouter(prefix="/v1", tags=["regard"], dependencies=[Depends(check_access)])

    @router.get("/runs")
    async def runs() -> JsonObject:
        """The runs of this server with their tasks and languages."""
        return {"runs": [run.info for run in service.runs.values()]}

    @router.post("/translate")
    async def translate(body: Translate) -> JsonObject:
        """Translate texts."""
        return {"translations": [asdict(text) for text in await service.translate(body.request())]}

    @router.post("/translate/stream", response_class=StreamingResponse)
    async def translate_stream(body: Translate) -> StreamingResponse:
        """Translate texts as server-sent events: each sentence when it is ready, then each text, then "done"."""
        return TranslationEvents(service, body.request())

    @router.post("/detect")
    async def detect(body: Texts) -> JsonObject:
        """Detect the language of each text: null if it is unsure; confidences are probabilities."""
        service.check_size(TranslateRequest(body.texts, None, None))
        detected = await service.detect(body.texts)
        languages = [sure_language(found) for found in detected]
        return {"languages": languages, "detected": [[asdict(item) for item in found] for found in detected]}

    @router.post("/predict/{run}")
    async def predict(run: str, body: Predict) -> JsonObject:
        """Predict with a run of any task."""
        check_inputs(body.inputs, settings)
        check_options(body.options)
        task = service.run(run).task.configure(**body.options)
        predictions = await service.predict(run, body.inputs, **body.options)
        return {"predictions": [finite(task.output(item)) for item in predictions]}

    @router.post("/embed/{run}")
    async def embed(run: str, body: Embed) -> JsonObject:
        """Compute vectors of texts with the text encoder of a run."""
        check_inputs(body.inputs, settings)
        features = Features(body.layers, body.combine, body.pool, body.normalize)
        return {"embeddings": await embed_inputs(service, run, body.inputs, features)}

    return router


async def embed_inputs(service: Service, run: str, inputs: Sequence[Input], features: Features) -> list[Any]:
    """The vector of each input from the text encoder of a run, as lists of numbers."""
    return await service.call(run, lambda model: [item.vector.tolist() for item in model.embed(inputs, features)])


def check_inputs(inputs: Sequence[Input], settings: ServeSettings) -> None:
    """Raise a ServiceError if there are too many inputs, or too long ones; a choice counts as an input."""
    size = sum(len(str(value)) for value in inputs)
    choices = [value.get("choices") for value in inputs if isinstance(value, Mapping)]
    count = len(inputs) + sum(len(found) - 1 for found in choices if isinstance(found, list) and found)
    if count > settings.max_batch_texts or size > settings.max_characters:
        limits = f"at most {settings.max_batch_texts} inputs and {settings.max_characters} characters are allowed"
        raise ServiceError("too-long", limits)


def check_options(options: JsonObject) -> None:
    """Raise an error for options that clients may not choose, and for values that are too large."""
    for name, value in options.items():
        if name not in OPTIONS:
            raise UserError(f"unknown option {name[:100]!r}", f"known options: {', '.join(OPTIONS)}",
                            code="unsupported-option")  # fmt: skip
        expected = str if name == "search" else (int, float)
        if not isinstance(value, expected) or isinstance(value, bool):
            raise UserError(f"{name} must be a {'text' if name == 'search' else 'number'}", code="invalid-option")
        if not isinstance(value, str) and value > LARGEST.get(name, math.inf):
            raise UserError(f"{name} is larger than {LARGEST[name]}", code="invalid-option")


def finite(value: object) -> Any:
    """A value for JSON: infinite numbers and NaN become null, numbers of numpy those of Python."""
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if hasattr(value, "tolist"):
        return finite(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
