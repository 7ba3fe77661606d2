"""Which words a translation was read from: links by cross-attention, with both texts known.

The translation is given to the decoder, not decoded (forced decoding): one pass for a batch of pairs. The row of
attention weights that predicts a token says which source tokens it was read from.

    A[t, s]     weight of target token t on source token s, of one head or the mean over the heads of one layer
    W[j, i]     mean over the tokens t of target word j of the sum over the tokens s of source word i of A[t, s]
    link of t   j = the word of t, i = argmax_i W[j, i], then s = argmax_{s in i} A[t, s]

Words are pooled first because the tokens of one word often look at different tokens of the same source word. Language
tags and the end symbol are no words; attention rests on them when there is nothing to read (Voita et al. 2019).
`ladder/alignment.py` measures the weights of every head.

Which head is best depends on the run. `alignment.json` in its folder names one (see `measure_heads`). Without it the
mean over the heads of the second last layer is used: in Transformers of six layers it has the lowest alignment error
(Garg et al. 2019, "Jointly Learning to Align and Translate", section 4.1). Of decoders with up to three layers it is
the last one. A recurrent model has one layer with one head.

B pairs, L layers, H heads, T target tokens, S source tokens.
"""

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from regard.attention.layouts import Padded
from regard.data.planning import groups_by_length
from regard.documents.segment import Link
from regard.documents.sentences import WORD, equal_words
from regard.engines.stepper_engine import pad_rows
from regard.errors import UserError
from regard.files import write_text
from regard.reading import read_json
from regard.text.symbols import PAD
from regard.text.tokenizer import Span

if TYPE_CHECKING:
    from regard.run.model import Translator
    from regard.run.run import Run

Array = npt.NDArray[np.float64]
ALIGNMENT_FILE = "alignment.json"
BATCH_TOKENS = 4096
SHALLOW = 3
"""Decoders with at most as many layers are aligned by the last one."""


@dataclass(frozen=True)
class AlignmentHead:
    """The attention that links are read from.

    layer   from 1; 0 is the mean over all layers and heads
    head    from 1; 0 is the mean over the heads of the layer
    shift   0: the row that predicts a token; 1: the next row, which reads it (Chen et al. 2020, "Accurate Word
            Alignment Induction from Neural Machine Translation", section 3)
    """

    layer: int
    head: int = 0
    shift: int = 0

    def __str__(self) -> str:
        if not self.layer:
            return "mean of all layers and heads"
        return f"layer {self.layer}, " + (f"head {self.head}" if self.head else "mean of its heads")

    def mean(self, weights: Array) -> Array:
        """(L, H, T + 1, S + 1) -> (T + 1, S + 1): the weights of this head, or of these heads on average."""
        if not self.layer:
            return np.asarray(weights.mean(axis=(0, 1)))
        heads = weights[self.layer - 1]
        return np.asarray(heads[self.head - 1] if self.head else heads.mean(axis=0))

    def select(self, weights: Array) -> Array:
        """(L, H, T + 1, S + 1) -> (T, S + 1): one row for each target token."""
        rows = self.mean(weights)
        return rows[self.shift : len(rows) - 1 + self.shift]


@dataclass(frozen=True)
class EncodedText:
    """One side of a pair: the text, its tokens after `tags` language tags, and the span of each token of the text."""

    text: str
    ids: list[int]
    tags: int
    spans: list[Span]


def align(
    model: "Translator", examples: Sequence[str | Mapping[str, object]], translations: Sequence[str]
) -> list[tuple[Link, ...]]:
    """Link every token of the translations to a source token; an empty text and a model without cross-attention have no
    links. If a text is longer than the model can read, only its beginning has links."""
    pairs = encode_pairs(model, examples, translations)
    links: list[tuple[Link, ...]] = [()] * len(pairs)
    if not model.task.recipe.has_attention:
        return links
    head = None
    for index, weights in cross_attentions(model, pairs):
        head = head or choose_head(model.run, *weights.shape[:2])
        links[index] = tuple(link_tokens(head.select(weights), *pairs[index]))
    return links


def choose_head(run: "Run", layers: int, heads: int) -> AlignmentHead:
    """Read the head that `alignment.json` names; without this file, take the mean of a layer near the end."""
    path = run.folder / ALIGNMENT_FILE
    if not path.exists():
        return AlignmentHead(layers - 1 if layers > SHALLOW else layers)
    values = read_json(path, dict[str, int])
    head = AlignmentHead(values.get("layer", 0), values.get("head", 0), values.get("shift", 0))
    if not (1 <= head.layer <= layers and 0 <= head.head <= heads and 0 <= head.shift <= 1):
        raise UserError(
            f"{path}: layer {head.layer}, head {head.head}, shift {head.shift} is not valid; the model has {layers} "
            f"layers with {heads} heads, and shift is 0 (attention before a token is written) or 1 (after it)",
            f"create this file again: `regard align {run.folder} --save`",
            code="damaged-file",
            where=path,
        )
    return head


# ---- attention weights -----------------------------------------------------------------------------------------------


def encode_pairs(
    model: "Translator", examples: Sequence[str | Mapping[str, object]], translations: Sequence[str]
) -> list[tuple[EncodedText, EncodedText]]:
    """Tokenize both texts as the model reads them, at most as many tokens as it can read."""
    task = model.task
    parsed = [task.parse(example) for example in examples]
    sources = task.src_tokenizer.encode_spans([example["src"] for example in parsed])
    targets = task.tgt_tokenizer.encode_spans(translations)
    most = min(task.max_source, task.max_target or task.max_source) - 1
    pairs = []
    for example, translation, src, tgt in zip(parsed, translations, sources, targets, strict=True):
        tags, room = task.tags(example), task.max_source - 1
        ids, spans = [*tags, *src[0]][:room], src[1][: room - len(tags)]
        source = EncodedText(example["src"], ids, len(tags), spans)
        pairs.append((source, EncodedText(translation, tgt[0][:most], 0, tgt[1][:most])))
    return pairs


def cross_attentions(
    model: "Translator", pairs: Sequence[tuple[EncodedText, EncodedText]]
) -> Iterator[tuple[int, Array]]:
    """The index and the weights (L, H, T + 1, S + 1) of every pair with text, longest first. The last column is the end
    symbol of the source; language tags are left out."""
    chosen = [n for n, (source, target) in enumerate(pairs) if source.spans and target.spans]
    lengths = [max(len(pairs[n][0].ids), len(pairs[n][1].ids)) + 1 for n in chosen]
    for group in groups_by_length(lengths, BATCH_TOKENS):
        indices = [chosen[n] for n in group]
        weights = batch_attention(model, [pairs[n] for n in indices])
        for row, index in enumerate(indices):
            source, target = pairs[index]
            first = source.tags
            yield index, weights[row, :, :, : len(target.spans) + 1, first : first + len(source.spans) + 1]


def batch_attention(model: "Translator", pairs: Sequence[tuple[EncodedText, EncodedText]]) -> Array:
    """The cross-attention of a batch (B, L, H, T + 1, S + 1): row t predicts target token t."""
    task, network = model.task, model.model
    device = next(network.parameters()).device
    rows = [task.source_row(list(source.ids)) for source, _ in pairs]
    outputs = [task.writing.decoder_input(target.ids) for _, target in pairs]
    src, tgt = (pad_rows(ids, PAD, device) for ids in (rows, outputs))
    weights = network.attentions(Padded.of(*src), Padded.of(*tgt)).cross  # type: ignore[operator]
    if weights is None:
        problem = f"{model.run.folder} has no cross-attention: {model.run.recipe.model.summary}"
        raise UserError(problem, "use a model with cross-attention", code="no-attention", where=model.run.folder)
    array: Array = weights[..., -src[0].size(1) :].double().cpu().numpy()  # a masked model has LENGTH before the source
    missing = 1 + max(len(source.ids) for source, _ in pairs) - array.shape[-1]  # 1 without end symbols
    return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, missing)])


# ---- links -----------------------------------------------------------------------------------------------------------


def link_tokens(weights: Array, source: EncodedText, target: EncodedText) -> Iterator[Link]:
    """A link for every target token that is not whitespace: first the best source word, then the best token in it."""
    src_words = list(word_groups(source).values())
    if not src_words:
        return
    order = np.concatenate(src_words)
    starts = np.cumsum([0, *map(len, src_words[:-1])])
    pooled = np.add.reduceat(weights[:, order], starts, axis=1)  # (T, source words)
    for tokens in word_groups(target).values():
        word = src_words[int(pooled[tokens].mean(axis=0).argmax())]
        for t in tokens:
            s = word[int(weights[t, word].argmax())]
            yield (*trim(source.text, source.spans[s]), *trim(target.text, target.spans[t]))


def word_groups(side: EncodedText, words: re.Pattern[str] = WORD) -> dict[int, list[int]]:
    """The tokens of each word, by the number of the word in the text from 0; whitespace is in none."""
    starts = [match.start() for match in words.finditer(side.text)]
    groups: dict[int, list[int]] = {}
    for token, span in enumerate(side.spans):
        first, last = trim(side.text, span)
        if first < last:
            groups.setdefault(bisect_right(starts, first) - 1, []).append(token)
    return groups


def trim(text: str, span: Span) -> Span:
    """A span without the whitespace around it."""
    start, end = span
    part = text[start:end]
    start += len(part) - len(part.lstrip())
    return start, max(start, end - (len(part) - len(part.rstrip())))


# ---- which head ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HeadAgreement:
    """How many of the words that are equal in source and translation a head links to each other."""

    head: AlignmentHead
    linked: int
    words: int

    @property
    def share(self) -> float:
        return self.linked / self.words if self.words else 0.0


def measure_heads(
    model: "Translator", examples: Sequence[str | Mapping[str, object]], translations: Sequence[str]
) -> list[HeadAgreement]:
    """Every head measured without gold alignments, best first.

    Names, numbers and punctuation that are in the source once and in the translation once are almost certainly
    translations of each other. A head is good if it links them. Marks at the end of both texts are left out: they are
    in every pair and easy.
    """
    pairs = encode_pairs(model, examples, translations)
    counts: dict[AlignmentHead, int] = {}
    words = 0
    for index, weights in cross_attentions(model, pairs):
        source, target = pairs[index]
        ends = len(source.text.rstrip()), len(target.text.rstrip())
        equal = [(s, t) for s, t in equal_words(source.text, target.text) if (s[1], t[1]) != ends]
        words += len(equal)
        layers, heads = weights.shape[:2]
        for head in candidates(layers, heads, masked=model.task.writing.start_symbol is None) if equal else ():
            links = link_tokens(head.select(weights), source, target)
            starts = {(first, begin) for first, _, begin, _ in links}
            counts[head] = counts.get(head, 0) + sum((s[0], t[0]) in starts for s, t in equal)
    measured = [HeadAgreement(head, count, words) for head, count in counts.items()]
    return sorted(measured, key=lambda item: -item.linked)


def candidates(layers: int, heads: int, masked: bool) -> list[AlignmentHead]:
    """The heads and means that links can be read from, for both rows of a token; a masked model has one row."""
    ordered = sorted(list_heads(layers, heads)[:-1], key=lambda head: (-head.layer, head.head))
    return [
        replace(head, shift=shift)
        for shift in ((0,) if masked else (0, 1))
        for head in ordered
        if head.head != 1 or heads > 1
    ]


def list_heads(layers: int, heads: int) -> list[AlignmentHead]:
    """Every head of each layer, then its mean; the mean of all layers is last."""
    in_layers = [AlignmentHead(layer, head) for layer in range(1, layers + 1) for head in (*range(1, heads + 1), 0)]
    return [*in_layers, AlignmentHead(0)]


def save_head(run: "Run", head: AlignmentHead) -> None:
    """Write the head that a run's links are read from to its folder."""
    write_text(run.folder / ALIGNMENT_FILE, json.dumps(asdict(head)) + "\n")
