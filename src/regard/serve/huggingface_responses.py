"""Inputs and responses of Hugging Face's inference API for each of its pipelines (`Exchange.pipeline` of a task)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from regard.run.model import Input
from regard.serve.fields import invalid
from regard.tasks.base import AnyTask, Prediction
from regard.text.inputs import MaskedTokenizer
from regard.text.roberta import RobertaTokenizer

Json = dict[str, Any]
MAX_COUNT = 1000
"""The largest top_k."""
MAX_NEW_TOKENS = 1024
SPACE = "␣"
"""The space before a token, as byte-level tokenizers write it."""
OUTSIDE = "O"


@dataclass(frozen=True)
class ResponseAdapter:
    """How one pipeline reads an input and writes a prediction."""

    response: Callable[[AnyTask, Input, Prediction, Json], Any]
    """The response for one example: task, example, prediction, parameters."""
    example: Callable[[Input, Json], Input] = lambda value, parameters: value
    options: Callable[[AnyTask, Json], Json] = lambda task, parameters: {}
    """The prediction options that parameters mean; parameters of other libraries are left out."""
    wrap: bool = False
    """True if the response for one input is a list with one element, and not the element."""

    def join(self, responses: list[Any], single: bool) -> Any:
        """The response to the whole request."""
        return responses[0] if single and not self.wrap else responses


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
    options: Json = {}
    length = whole(parameters, "max_new_tokens", 1, MAX_NEW_TOKENS)
    count = whole(parameters, "num_return_sequences", 1, 16)
    if length is not None:
        options["max_length"] = length
    if count is not None:
        options["nbest"] = count
    if parameters.get("do_sample") is False:
        return options | {"search": "beam"} if count is not None and count > 1 else options | {"search": "greedy"}
    sampling = {
        name: parameters[name] for name in ("temperature", "top_k", "top_p") if parameters.get(name) is not None
    }
    if sampling or parameters.get("do_sample") is True:
        seed = whole(parameters, "seed", 0, 1 << 62)
        options |= {"search": "sample", **sampling} | ({} if seed is None else {"seed": seed})
    return options


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
    spans = word_spans(text, words)
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


def word_spans(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """First and last character of each word in its text."""
    spans, end = [], 0
    for word in words:
        start = max(text.find(word, end), end)
        end = start + len(word)
        spans.append((start, end))
    return spans


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


def masks(task: AnyTask, example: Input, prediction: Prediction, parameters: Json) -> Any:
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
        text = item["text"]
        if not parameters.get("return_full_text"):
            text = text.removeprefix(prompt)
        text, finish = cut(text, parameters.get("stop"), "eos_token" if item["finished"] else "length")
        result: Json = {"generated_text": text}
        if parameters.get("details"):
            count = len(item["tokens"])
            result["details"] = {"finish_reason": finish, "generated_tokens": count, "prefill": [], "tokens": []}
        results.append(result)
    return results


def cut(text: str, stop: object, finish: str) -> tuple[str, str]:
    """A text up to the first of some texts, and why it ends."""
    stops = [item for item in stop if isinstance(item, str) and item] if isinstance(stop, list) else []
    places = [place for place in map(text.find, stops) if place >= 0]
    return (text[: min(places)], "stop_sequence") if places else (text, finish)


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
