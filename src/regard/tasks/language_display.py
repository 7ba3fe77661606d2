"""What a language model shows: continuations of validation lines, and the attention between the tokens of a line."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from regard.data.bptt import TokenizedText
from regard.decoding.settings import DecodingSettings
from regard.engines.choose import as_engine
from regard.errors import UserError
from regard.tasks.inputs import one_line
from regard.tasks.text_inputs import MAX_TOKENS_DRAWN
from regard.text.symbols import EOS
from regard.text.tokenizer import Tokenizer
from regard.training.task import Sample
from regard.viz.report import AttentionMap, attention_maps

if TYPE_CHECKING:
    from regard.tasks.language import Language

SAMPLE_SEARCH_TOKENS, SAMPLE_TOKENS = 20_000, 40
"""Tokens searched for lines to show as samples, and tokens of a sample."""


def sample_continuations(task: "Language", model: nn.Module, store: TokenizedText) -> list[Sample]:
    """The beginnings of some lines, their true continuations, and those of the model."""
    from regard.tasks.language import SYMBOLS

    beginning = store.ids[:SAMPLE_SEARCH_TOKENS]
    lines = np.split(beginning, np.flatnonzero(beginning == EOS) + 1)[:-1]
    rows = [line[:-1].tolist() for line in lines if len(line) > 4][: task.recipe.training.samples]
    if not rows:
        return []
    limit = min(SAMPLE_TOKENS, (task.recipe.model.length_limit or 2 * SAMPLE_TOKENS) // 2)
    prompts = [row[: min(limit, len(row) // 4)] for row in rows]
    settings = DecodingSettings(search="sample", extra_length=SAMPLE_TOKENS, seed=task.decoding.seed)
    hypotheses = task.continue_prompts(as_engine(model, SYMBOLS), prompts, settings)
    decode = task.tokenizer.decode
    return [
        Sample(decode(prompt), decode(row[: len(prompt) + SAMPLE_TOKENS]), one_line(decode(best[0].tokens)))
        for prompt, row, best in zip(prompts, rows, hypotheses, strict=True)
    ]


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
