"""Hugging Face's inference API: POST /models/{run} for every task. `huggingface_hub.InferenceClient` works with it:

    InferenceClient(model="http://127.0.0.1:5000/models/sst-2").text_classification("A film to remember.")

    task of the run     inputs                          answer for one input
    translation         text                            [{"translation_text"}]
    classification      text or {text, text_pair}       [[{"label", "score"}, ...]]
    regression          {text, text_pair}               [[{"label": "score", "score"}]]
    tagging             text                            [{"entity_group", "score", "word", "start", "end"}, ...]
    answering           {question, context}             {"answer", "score", "start", "end"}
    pretraining         text with [MASK]                [{"score", "token", "token_str", "sequence"}, ...]
    language            text                            [{"generated_text"}]
    choice              text, candidate_labels          [{"label", "score"}, ...]
    parsing, others     text                            [the prediction of `regard predict`]

Several inputs are a list, and so is the answer. POST /models/{run}/pipeline/feature-extraction gives a vector of each
text with any run that has a text encoder, and so does a pretraining run for text without [MASK]. sentence-similarity
compares one sentence with others: by the scores of a regression run, else by the cosine of their vectors.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from regard.run.embedding import Features
from regard.run.model import Input
from regard.serve.access import check_access
from regard.serve.api import check_inputs, embed_inputs, finite
from regard.serve.errors import text_format
from regard.serve.fields import invalid, json_object
from regard.serve.huggingface_responses import ADAPTERS, PLAIN, Json, masked_tokenizer
from regard.serve.service import ServedRun, Service, TranslateRequest
from regard.serve.settings import ServeSettings
from regard.tasks.exchange import pipeline_of
from regard.tasks.languages import TRADITIONAL, main_code

PREFIX = "/models"
ERRORS = text_format("error", {422: 400})
VECTORS, SIMILARITY = "feature-extraction", "sentence-similarity"
BODY: Json = {
    "type": "object",
    "required": ["inputs"],
    "properties": {
        "inputs": {"description": "a text, an object, or a list of these"},
        "parameters": {"type": "object", "description": "top_k, src_lang, tgt_lang, max_new_tokens, temperature ..."},
    },
}


def routes(service: Service, settings: ServeSettings) -> APIRouter:
    """The routes of Hugging Face's inference API."""
    api = HuggingFace(service, settings)
    router = APIRouter(tags=["Hugging Face"], responses=ERRORS.responses, dependencies=[Depends(check_access)])
    body = {"requestBody": {"required": True, "content": {"application/json": {"schema": BODY}}}}

    @router.post("/models/{run}", openapi_extra=body)
    async def predict(request: Request, run: str) -> Response:
        """Predict with a run of any task."""
        return JSONResponse(finite(await api.respond(run, "", json_object(await request.body()))))

    @router.post("/models/{run}/pipeline/{pipeline}", openapi_extra=body)
    async def pipeline(request: Request, run: str, pipeline: str) -> Response:
        """Predict, or compute vectors of texts (feature-extraction), or compare sentences (sentence-similarity)."""
        return JSONResponse(finite(await api.respond(run, pipeline, json_object(await request.body()))))

    return router


@dataclass(frozen=True)
class HuggingFace:
    """The responses of Hugging Face's inference API, from the body of a request to JSON."""

    service: Service
    settings: ServeSettings

    async def respond(self, name: str, pipeline: str, body: Mapping[str, object]) -> object:
        """The response to a request; `pipeline` is empty if the task of the run decides."""
        run = self.service.run(name)
        if "inputs" not in body:
            raise invalid("the body has no 'inputs'", "inputs")
        parameters = body.get("parameters") or {}
        if not isinstance(parameters, dict):
            raise invalid("'parameters' is not an object", "parameters")
        if body.get("stream"):
            raise invalid("answers are not streamed", "stream")
        inputs, single = as_inputs(body["inputs"])
        check_inputs(inputs, self.settings)
        if pipeline == SIMILARITY or (single and isinstance(inputs[0], dict) and "source_sentence" in inputs[0]):
            return await self.similarity(run, inputs[0])
        if pipeline == VECTORS or self.wants_vectors(run, pipeline, inputs):
            return await self.vectors(run, inputs, {**body, **parameters})
        if run.segments is not None:
            return await self.translate(run, inputs, parameters)
        adapter = ADAPTERS.get(pipeline_of(run.task.exchange), PLAIN)
        examples = [adapter.example(value, parameters) for value in inputs]
        check_inputs(examples, self.settings)  # parameters may add to the inputs
        predictions = await self.service.predict(name, examples, **adapter.options(run.task, parameters))
        pairs = zip(examples, predictions, strict=True)
        return adapter.join([adapter.response(run.task, *pair, parameters) for pair in pairs], single)

    async def translate(self, run: ServedRun, inputs: list[Input], parameters: Json) -> list[Json]:
        """The translation of each text."""
        texts = [value if isinstance(value, str) else value.get("src") for value in inputs]
        if not all(isinstance(text, str) for text in texts):
            raise invalid("'inputs' is not a text or a list of texts", "inputs")
        source, target = (language(parameters.get(key), key) for key in ("src_lang", "tgt_lang"))
        request = TranslateRequest([str(text) for text in texts], source, target, run=run.name)
        return [{"translation_text": item.text} for item in await self.service.translate(request)]

    def wants_vectors(self, run: ServedRun, pipeline: str, inputs: list[Input]) -> bool:
        """True for a pretraining run and texts without a mask: the client's two calls look the same."""
        if pipeline_of(run.task.exchange) != "fill-mask" or pipeline:
            return False
        mask = masked_tokenizer(run.task).mask_text
        return not any(mask in (value if isinstance(value, str) else json.dumps(value)) for value in inputs)

    async def vectors(self, run: ServedRun, inputs: list[Input], options: Json) -> list[Any]:
        """A vector of each text."""
        values = {name: options[name] for name in ("layers", "combine", "pool") if isinstance(options.get(name), str)}
        features = Features(**{"pool": "mean", **values}, normalize=options.get("normalize") is True)
        return await embed_inputs(self.service, run.name, inputs, features)

    async def similarity(self, run: ServedRun, value: Input) -> list[float]:
        """How similar each of some sentences is to one sentence."""
        one, others = (value.get("source_sentence"), value.get("sentences")) if isinstance(value, dict) else ("", None)
        if not isinstance(one, str) or not isinstance(others, list) or not all(isinstance(x, str) for x in others):
            raise invalid("'inputs' needs the text 'source_sentence' and the list of texts 'sentences'", "inputs")
        check_inputs([one, *others], self.settings)
        if pipeline_of(run.task.exchange) == SIMILARITY:
            pairs: list[Input] = [{"text": one, "pair": other} for other in others]
            return [float(item["score"]) for item in await self.service.predict(run.name, pairs)]
        first, *rest = await self.vectors(run, [one, *others], {"normalize": True})
        return [sum(a * b for a, b in zip(first, vector, strict=True)) for vector in rest]


def as_inputs(value: object) -> tuple[list[Input], bool]:
    """The inputs as a list, and whether there was only one."""
    single = not isinstance(value, list)
    given = value if isinstance(value, list) else [value]
    values: list[Input] = [item for item in given if isinstance(item, str | dict)]
    if not values or len(values) < len(given):
        raise invalid("'inputs' is not a text, an object or a list of these", "inputs")
    return values, single


def language(value: object, name: str) -> str | None:
    """A code of a language, or None: "en" of "en_XX" and "eng_Latn" too, as multilingual models write them.

    The script of Chinese is kept: "zh-hant" of "zh_TW" and "zho_Hant".
    """
    if value is None:
        return None
    if not isinstance(value, str):
        raise invalid(f"'{name}' is not a text", name)
    from babel.core import get_global

    main, _, rest = value.lower().replace("_", "-").partition("-")
    main = get_global("language_aliases").get(main, main)  # eng: en
    return TRADITIONAL if main_code(f"{main}-{rest}") == TRADITIONAL else main or None
