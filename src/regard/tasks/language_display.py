"""What a language model shows: continuations of validation lines, and the attention between the tokens of a line."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from regard.data.bptt import TokenizedText
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import DecodingSettings
from regard.engines.choose import as_engine
from regard.errors import UserError
from regard.tasks.inputs import one_line
from regard.tasks.likelihood import token_bits
from regard.tasks.text_inputs import MAX_TOKENS_DRAWN
from regard.text.symbols import EOS
from regard.text.tokenizer import Tokenizer
from regard.training.task import Sample
from regard.viz.content import Shaded, Text
from regard.viz.report import AttentionMap, attention_maps

if TYPE_CHECKING:
    from regard.tasks.language import Language

SAMPLE_SEARCH_TOKENS, SAMPLE_TOKENS = 20_000, 40
"""Tokens searched for lines to show as samples, and tokens of a sample."""
REPORT_LINES = 10
FULL_BITS = 12.0
"""Lines in a report, and the information of a token in full colour."""


def sample_continuations(task: "Language", model: nn.Module, store: TokenizedText) -> list[Sample]:
    """The beginnings of some lines, their true continuations, and those of the model."""
    rows = first_lines(store, task.recipe.training.samples)
    prompts, hypotheses = continue_lines(task, model, rows)
    decode = task.tokenizer.decode
    return [
        Sample(decode(prompt), decode(row[: len(prompt) + SAMPLE_TOKENS]), one_line(decode(best.tokens)))
        for prompt, row, best in zip(prompts, rows, hypotheses, strict=True)
    ]


def sampled_lines(
    task: "Language", model: nn.Module, store: TokenizedText
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Some lines as examples, with the tokens of the true line and the information of each, and continuations."""
    limit = min(MAX_TOKENS_DRAWN, task.recipe.model.length_limit or MAX_TOKENS_DRAWN) - 1
    rows = [row[:limit] for row in first_lines(store, REPORT_LINES)]
    decode = task.tokenizer.decode
    for row, prompt, best in zip(rows, *continue_lines(task, model, rows), strict=True):
        tokens = task.tokenizer.tokens(row)
        example = {"text": decode(prompt), "line": decode(row), "tokens": tokens, "bits": token_bits(model, row)}
        yield example, {"continuations": [task.continuation(best)]}


def first_lines(store: TokenizedText, count: int) -> list[list[int]]:
    """The tokens of the first lines of some length, without their ends."""
    beginning = store.ids[:SAMPLE_SEARCH_TOKENS]
    lines = np.split(beginning, np.flatnonzero(beginning == EOS) + 1)[:-1]
    return [line[:-1].tolist() for line in lines if len(line) > 4][:count]


def continue_lines(
    task: "Language", model: nn.Module, rows: Sequence[Sequence[int]]
) -> tuple[list[list[int]], list[Hypothesis]]:
    """The first quarter of each line as a prompt, and a sampled continuation of it."""
    from regard.tasks.language import SYMBOLS

    if not rows:
        return [], []
    limit = min(SAMPLE_TOKENS, (task.recipe.model.length_limit or 2 * SAMPLE_TOKENS) // 2)
    prompts = [list(row[: min(limit, len(row) // 4)]) for row in rows]
    settings = DecodingSettings(search="sample", extra_length=SAMPLE_TOKENS, seed=task.decoding.seed)
    hypotheses = task.continue_prompts(as_engine(model, SYMBOLS), prompts, settings)
    return prompts, [best[0] for best in hypotheses]


def shaded_line(example: Mapping[str, Any]) -> Text:
    """The true line of an example, shaded by the information of each token; plain text if it is not known."""
    if "bits" not in example:
        return str(example.get("line", ""))
    return Shaded(example["tokens"], example["bits"], FULL_BITS, "bits")


def line_attention(model: Any, tokenizer: Tokenizer, tokens: Sequence[int], finished: bool) -> list[AttentionMap]:
    """The attention of a causal model over a line: a row is the token that is predicted, a column one before it.

    The line begins after the end symbol of the line before. A line that is not finished has no row for its end.
    """
    predicted = [*tokens, EOS] if finished else list(tokens)
    if len(predicted) > MAX_TOKENS_DRAWN:
        raise UserError(
            f"the text has {len(predicted)} tokens; at most {MAX_TOKENS_DRAWN} can be drawn",
            "write a shorter text, or a smaller --max-length",
            code="too-long",
            where="text",
        )
    if not predicted:
        return []
    device = next(model.parameters()).device
    weights = model.attentions(torch.tensor([[EOS, *predicted[:-1]]], device=device)).decoder
    if weights is None:
        return []
    names, (start,) = tokenizer.tokens(predicted), tokenizer.tokens([EOS])
    return attention_maps([], names, decoder=weights[0].float().cpu().numpy(), start=start)
