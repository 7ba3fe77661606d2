"""Examples and predictions of each task in the shapes of Hugging Face's inference API."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from regard.run.model import Input
from regard.serve.fields import invalid
from regard.tasks.answering import Answering
from regard.tasks.base import AnyTask, Prediction
from regard.tasks.choice import Choice
from regard.tasks.classification import Classification, Regression
from regard.tasks.language import Language
from regard.tasks.pretraining import Pretraining
from regard.tasks.tagging import Tagging
from regard.text.roberta import RobertaTokenizer

Json = dict[str, Any]
MAX_COUNT = 1000
"""The largest top_k."""
MAX_NEW_TOKENS = 1024
BLANK = "␣"
"""A blank before a token, as tokenizers over bytes write it."""
OUTSIDE = "O"


@dataclass(frozen=True)
class Shaper:
    """How one task reads an input and writes a prediction."""

    shape: Callable[[AnyTask, Input, Prediction, Json], Any]
    """The answer for one example: task, example, prediction, parameters."""
    example: Callable[[Input, Json], Input] = lambda value, parameters: value
    options: Callable[[AnyTask, Json], Json] = lambda task, parameters: {}
    """The options of a prediction that parameters mean; parameters of other programs are left out."""
    wrap: bool = False
    """True if the answer for one input is a list with one element, and not the element."""

    def join(self, answers: list[Any], single: bool) -> Any:
        """The answer to the whole request."""
        return answers[0] if single and not self.wrap else answers


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
    """A parameter that is a whole number; None if it is absent."""
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


def regression(task: AnyTask, example: Input, prediction: Prediction, parameters: Json) -> list[Json]:
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


def mask_of(task: Pretraining) -> str:
    """The name of a masked word in a text: [MASK], or <mask>."""
    return task.tokenizer.tokens([task.tokenizer.mask])[0]


def masks(task: AnyTask, example: Input, prediction: Prediction, parameters: Json) -> Any:
    """The most probable tokens of a mask; of several masks, a list of them."""
    assert isinstance(task, Pretraining)
    text, mask = example if isinstance(example, str) else str(example["text"]), mask_of(task)
    if not prediction.get("masks"):
        raise invalid(f"no {mask} in the text", "inputs")
    ids = {token: number for number, token in enumerate(task.tokenizer.tokens(range(len(task.tokenizer))))}
    targets, parts = parameters.get("targets"), text.split(mask)
    chosen = [targets] if isinstance(targets, str) else targets
    found = []
    for number, candidates in enumerate(prediction["masks"], 1):
        before, after = mask.join(parts[:number]), mask.join(parts[number:])
        tokens = [
            {
                "score": item["probability"],
                "token": ids.get(item["token"], -1),
                "token_str": item["token"].replace(BLANK, " "),
                "sequence": filled(task, before, item["token"]) + after,
            }
            for item in candidates
        ]
        found.append([item for item in tokens if not isinstance(chosen, list) or item["token_str"].strip() in chosen])
    return found[0] if len(found) == 1 else found


def filled(task: Pretraining, before: str, token: str) -> str:
    """A text and the token after it; the mask of RoBERTa includes the blank before it."""
    if isinstance(task.tokenizer, RobertaTokenizer):
        return before.rstrip(" ") + token.replace(BLANK, " ")
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


SHAPERS: tuple[tuple[type[AnyTask], Shaper], ...] = (
    (Classification, Shaper(classes, pair_example, wrap=True)),
    (Regression, Shaper(regression, pair_example, wrap=True)),
    (Tagging, Shaper(entities)),
    (Answering, Shaper(answers, options=count_option)),
    (Pretraining, Shaper(masks, options=mask_options)),
    (Language, Shaper(generated, options=generation_options)),
    (Choice, Shaper(choices, choice_example)),
)
PLAIN = Shaper(plain, wrap=True)


def shaper_of(task: AnyTask) -> Shaper:
    """The shaper of a task; a task without one gives its predictions as they are."""
    return next((shaper for kind, shaper in SHAPERS if isinstance(task, kind)), PLAIN)
