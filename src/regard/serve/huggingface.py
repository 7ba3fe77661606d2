"""Hugging Face's inference API: POST /models/{run} for every task. `huggingface_hub.InferenceClient` works with it:

    InferenceClient(model="http://127.0.0.1:5000/models/sst-2").text_classification("A film to remember.")

    task of the run     inputs                          response for one input
    translation         text                            [{"translation_text"}]
    classification      text or {text, text_pair}       [[{"label", "score"}, ...]]
    regression          {text, text_pair}               [[{"label": "score", "score"}]]
    tagging             text                            [{"entity_group", "score", "word", "start", "end"}, ...]
    answering           {question, context}             {"answer", "score", "start", "end"}
    pretraining         text with [MASK]                [{"score", "token", "token_str", "sequence"}, ...]
    language            text                            [{"generated_text"}]
    choice              text, candidate_labels          [{"label", "score"}, ...]
    parsing, others     text                            [the prediction of `regard predict`]

Several inputs are a list, and so is the response. POST /models/{run}/pipeline/feature-extraction gives a vector of each
text with any run that has a text encoder, and so does a pretraining run for text without [MASK]. sentence-similarity
compares one sentence with others: by the scores of a regression run, else by the cosine of their vectors.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from regard.files import JsonObject as Json
from regard.run.embedding import Features
from regard.run.model import Input
from regard.serve.access import check_access
from regard.serve.api import check_inputs, embed_inputs, finite
from regard.serve.errors import text_format
from regard.serve.fields import invalid, json_object, request_body
from regard.serve.service import ServedRun, Service, TranslateRequest
from regard.serve.settings import ServeSettings
from regard.tasks.base import AnyTask, Prediction, pipeline_of
from regard.tasks.languages import TRADITIONAL, main_code
from regard.text.inputs import MaskedTokenizer
from regard.text.roberta import RobertaTokenizer

MAX_COUNT = 1000
"""The largest top_k."""
MAX_NEW_TOKENS = 1024
SPACE = "␣"
"""The space before a token, as byte-level tokenizers write it."""
OUTSIDE = "O"
PREFIX = "/models"
ERRORS = text_format("error", {422: 400})
VECTORS, SIMILARITY = "feature-extraction", "sentence-similarity"


def routes(service: Service, settings: ServeSettings) -> APIRouter:
    """The routes of Hugging Face's inference API."""
    api = HuggingFace(service, settings)
    router = APIRouter(tags=["Hugging Face"], responses=ERRORS.responses, dependencies=[Depends(check_access)])
    body = request_body("huggingface")
    router.post("/models/{run}", openapi_extra=body)(api.predict)
    router.post("/models/{run}/pipeline/{pipeline}", openapi_extra=body)(api.pipeline)
    return router


@dataclass(frozen=True)
class HuggingFace:
    """The responses of Hugging Face's inference API, from the body of a request to JSON."""

    service: Service
    settings: ServeSettings

    async def predict(self, request: Request, run: str) -> Response:
        """Predict with a run of any task."""
        return JSONResponse(finite(await self.respond(run, "", json_object(await request.body()))))

    async def pipeline(self, request: Request, run: str, pipeline: str) -> Response:
        """Predict, or compute vectors of texts (feature-extraction), or compare sentences (sentence-similarity)."""
        return JSONResponse(finite(await self.respond(run, pipeline, json_object(await request.body()))))

    async def respond(self, name: str, pipeline: str, body: Mapping[str, object]) -> object:
        """The response to a request; `pipeline` is empty if the task of the run decides."""
        run = self.service.run(name)
        if "inputs" not in body:
            raise invalid("the body has no 'inputs'", "inputs")
        parameters = body.get("parameters") or {}
        if not isinstance(parameters, dict):
            raise invalid("'parameters' is not an object", "parameters")
        if body.get("stream"):
            raise invalid("responses are not streamed", "stream")
        single = not isinstance(body["inputs"], list)
        given = body["inputs"] if isinstance(body["inputs"], list) else [body["inputs"]]
        inputs: list[Input] = [item for item in given if isinstance(item, str | dict)]
        if not inputs or len(inputs) < len(given):
            raise invalid("'inputs' is not a text, an object or a list of these", "inputs")
        check_inputs(inputs, self.settings)
        if pipeline == SIMILARITY or (single and isinstance(inputs[0], dict) and "source_sentence" in inputs[0]):
            return await self.similarity(run, inputs[0])
        if pipeline == VECTORS or self.wants_vectors(run, pipeline, inputs):
            return await self.vectors(run, inputs, {**body, **parameters})
        if run.segments is not None:
            return await self.translate(run, inputs, parameters)
        adapter = ADAPTERS.get(pipeline_of(run.task), PLAIN)
        examples = [adapter.example(value, parameters) for value in inputs]
        check_inputs(examples, self.settings)  # parameters may add to the inputs
        predictions = await self.service.predict(name, examples, **adapter.options(run.task, parameters))
        pairs = zip(examples, predictions, strict=True)
        responses = [adapter.response(run.task, *pair, parameters) for pair in pairs]
        return responses[0] if single and not adapter.wrap else responses

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
        if pipeline_of(run.task) != "fill-mask" or pipeline:
            return False
        mask = masked_tokenizer(run.task).mask_text
        return not any(mask in (value if isinstance(value, str) else json.dumps(value)) for value in inputs)

    async def vectors(self, run: ServedRun, inputs: list[Input], options: Json) -> list[list[float]]:
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
        if pipeline_of(run.task) == SIMILARITY:
            pairs: list[Input] = [{"text": one, "pair": other} for other in others]
            return [float(item["score"]) for item in await self.service.predict(run.name, pairs)]
        first, *rest = await self.vectors(run, [one, *others], {"normalize": True})
        return [sum(a * b for a, b in zip(first, vector, strict=True)) for vector in rest]


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


# ---- one adapter per pipeline ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ResponseAdapter:
    """How one pipeline reads an input and writes a prediction."""

    response: Callable[[AnyTask, Input, Prediction, Json], object]
    """The response for one example: task, example, prediction, parameters."""
    example: Callable[[Input, Json], Input] = lambda value, parameters: value
    options: Callable[[AnyTask, Json], Json] = lambda task, parameters: {}
    """The prediction options that parameters mean; parameters of other libraries are left out."""
    wrap: bool = False
    """True if the response for one input is a list with one element, and not the element."""


# ---- inputs ---------------------------------------------------------------------------------------------------------


def pair_example(value: Input, parameters: Json) -> Input:
    """{text, text_pair} of transformers is {text, pair} here."""
    if isinstance(value, Mapping) and "text_pair" in value:
        return {key if key != "text_pair" else "pair": item for key, item in value.items()}
    return value if isinstance(value, Mapping) else {"text": value}


def choice_example(value: Input, parameters: Json) -> Input:
    """A text with candidate_labels; or {text, choices}."""
    choices = parameters.get("candidate_labels")
    return {"text": value, "choices": choices} if isinstance(value, str) and choices is not None else value


def count_option(task: AnyTask, parameters: Json) -> Json:
    """top_k is the number of predictions."""
    count = whole(parameters, "top_k", 1, MAX_COUNT)
    return {} if count is None else {"nbest": count}


def mask_options(task: AnyTask, parameters: Json) -> Json:
    """As `count_option`; with `targets`, all tokens, from which they are chosen."""
    if parameters.get("targets"):
        return {"nbest": len(next(iter(task.tokenizers.values())))}
    return count_option(task, parameters)


def generation_options(task: AnyTask, parameters: Json) -> Json:
    """The options of text generation."""
    length = whole(parameters, "max_new_tokens", 1, MAX_NEW_TOKENS)
    count = whole(parameters, "num_return_sequences", 1, 16)
    options: Json = {"max_length": length, "nbest": count}
    sampling = {name: parameters.get(name) for name in ("temperature", "top_k", "top_p")}
    if parameters.get("do_sample") is False:
        options["search"] = "beam" if (count or 1) > 1 else "greedy"
    elif parameters.get("do_sample") is True or any(value is not None for value in sampling.values()):
        options |= {"search": "sample", **sampling, "seed": whole(parameters, "seed", 0, 1 << 62)}
    return {name: value for name, value in options.items() if value is not None}


def whole(parameters: Json, name: str, least: int, most: int) -> int | None:
    """A parameter that is an integer; None if it is absent."""
    value = parameters.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise invalid(f"'{name}' is not a whole number from {least} to {most}", name)
    return value


# ---- predictions ----------------------------------------------------------------------------------------------------


def classes(task: AnyTask, example: Input, prediction: Prediction, parameters: Json) -> list[Json]:
    """Labels with their probabilities, best first."""
    found = [{"label": label, "score": score} for label, score in prediction["probabilities"].items()]
    return sorted(found, key=lambda item: -item["score"])[: whole(parameters, "top_k", 1, MAX_COUNT)]


def similarity(task: AnyTask, example: Input, prediction: Prediction, parameters: Json) -> list[Json]:
    """The score as the only label."""
    return [{"label": "score", "score": prediction["score"]}]


def entities(task: AnyTask, example: Input, prediction: Prediction, parameters: Json) -> list[Json]:
    """Entities with their places in the text; with aggregation_strategy "none", or without entities, tagged words."""
    words, tags, p = prediction["words"], prediction["tags"], prediction.get("probabilities", [])
    text = example if isinstance(example, str) else " ".join(words)
    spans, end = list[tuple[int, int]](), 0
    for word in words:
        start = max(text.find(word, end), end)
        end = start + len(word)
        spans.append((start, end))
    ignored = parameters.get("ignore_labels", [OUTSIDE])
    if "entities" in prediction and parameters.get("aggregation_strategy") != "none":
        groups = [("entity_group", item["type"], item["start"], item["end"]) for item in prediction["entities"]]
    else:
        groups = [("entity", tag, index, index + 1) for index, tag in enumerate(tags)]
    return [
        {
            kind: label,
            "score": prod(p[first:last]) ** (1 / (last - first)),
            "word": text[spans[first][0] : spans[last - 1][1]],
            "start": spans[first][0],
            "end": spans[last - 1][1],
        }
        for kind, label, first, last in groups
        if not isinstance(ignored, list) or label not in ignored
    ]


def answers(task: AnyTask, example: Input, prediction: Prediction, parameters: Json) -> Json | list[Json]:
    """The answer, or with top_k several."""
    found = [
        {"answer": item["answer"], "start": item["start"], "end": item["end"], "score": item["probability"]}
        for item in prediction["nbest"]
    ] or [{"answer": "", "start": 0, "end": 0, "score": 0.0}]
    return found[0] if parameters.get("top_k") in (None, 1) else found


def masked_tokenizer(task: AnyTask) -> MaskedTokenizer:
    """The tokenizer of a task that fills in masks."""
    tokenizer = next(iter(task.tokenizers.values()))
    assert isinstance(tokenizer, MaskedTokenizer)
    return tokenizer


def masks(task: AnyTask, example: Input, prediction: Prediction, parameters: Json) -> list[Json] | list[list[Json]]:
    """The most probable tokens of a mask; if there are several masks, a list for each."""
    tokenizer, text = masked_tokenizer(task), example if isinstance(example, str) else str(example["text"])
    mask = tokenizer.mask_text
    if not prediction.get("masks"):
        raise invalid(f"no {mask} in the text", "inputs")
    ids = {token: number for number, token in enumerate(tokenizer.tokens(range(len(tokenizer))))}
    targets, parts = parameters.get("targets"), text.split(mask)
    chosen = [targets] if isinstance(targets, str) else targets
    results = []
    for number, candidates in enumerate(prediction["masks"], 1):
        before, after = mask.join(parts[:number]), mask.join(parts[number:])
        tokens = [
            {
                "score": item["probability"],
                "token": ids.get(item["token"], -1),
                "token_str": item["token"].replace(SPACE, " "),
                "sequence": fill_mask(tokenizer, before, item["token"]) + after,
            }
            for item in candidates
        ]
        results.append([item for item in tokens if not isinstance(chosen, list) or item["token_str"].strip() in chosen])
    return results[0] if len(results) == 1 else results


def fill_mask(tokenizer: MaskedTokenizer, before: str, token: str) -> str:
    """A text and the token after it; the mask of RoBERTa includes the space before it."""
    if isinstance(tokenizer, RobertaTokenizer):
        return before.rstrip(" ") + token.replace(SPACE, " ")
    return before + token.removeprefix("##")


def generated(task: AnyTask, example: Input, prediction: Prediction, parameters: Json) -> list[Json]:
    """Continuations of a prompt; with return_full_text, the prompt and its continuation."""
    prompt = example if isinstance(example, str) else str(example["text"])
    results = []
    for item in prediction["continuations"]:
        text = item["text"] if parameters.get("return_full_text") else item["text"].removeprefix(prompt)
        stop = parameters.get("stop")
        stops = [mark for mark in stop if isinstance(mark, str) and mark] if isinstance(stop, list) else []
        end = min((place for place in map(text.find, stops) if place >= 0), default=None)
        result: Json = {"generated_text": text[:end]}
        if parameters.get("details"):
            finish = "stop_sequence" if end is not None else "eos_token" if item["finished"] else "length"
            count = len(item["tokens"])
            result["details"] = {"finish_reason": finish, "generated_tokens": count, "prefill": [], "tokens": []}
        results.append(result)
    return results


def choices(task: AnyTask, example: Input, prediction: Prediction, parameters: Json) -> list[Json]:
    """The choices with their probabilities, best first."""
    assert isinstance(example, Mapping)
    names = example["choices"]
    assert isinstance(names, list)
    scores = prediction["probabilities"] or [None] * len(names)  # no text: no prediction
    found = [{"label": name, "score": score} for name, score in zip(names, scores, strict=True)]
    return sorted(found, key=lambda item: -(item["score"] or 0))


def plain(task: AnyTask, example: Input, prediction: Prediction, parameters: Json) -> Prediction:
    """The prediction that `regard predict` prints."""
    return task.output(prediction)


ADAPTERS = {
    "text-classification": ResponseAdapter(classes, pair_example, wrap=True),
    "sentence-similarity": ResponseAdapter(similarity, pair_example, wrap=True),
    "token-classification": ResponseAdapter(entities),
    "question-answering": ResponseAdapter(answers, options=count_option),
    "fill-mask": ResponseAdapter(masks, options=mask_options),
    "text-generation": ResponseAdapter(generated, options=generation_options),
    "zero-shot-classification": ResponseAdapter(choices, choice_example),
}
PLAIN = ResponseAdapter(plain, wrap=True)
