"""Inputs and labels of a text encoder: texts and pairs as tokens, attention over tokens, labels, loss of classes."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.batch import IGNORE
from regard.data.examples import Example
from regard.data.fields import LABELLED_TEXT, Fields
from regard.data.formats import read_examples
from regard.data.inputs import Input, Inputs
from regard.data.records import Location
from regard.data.settings import LabelledDataSettings
from regard.errors import UserError
from regard.files import write_json
from regard.losses.crossentropy import Loss
from regard.reading import read_json
from regard.tasks.inputs import check_text, split_columns
from regard.text.inputs import InputTokenizer
from regard.viz.report import AttentionMap

MAX_SHOWN_LABELS = 8
MAX_TOKENS_DRAWN = 160
"""A picture of more tokens is not readable."""
ENCODER_PREFIXES = ("encoder.", "bert.")
"""Prefixes of the encoder's weights in the runs one can start from."""
HEAD = "head."
"""Prefix of the weights of the head."""
TEXT_FORM = '{"text": "..."}, or with a second text {"text": "...", "pair": "..."}'


@runtime_checkable
class TextTask(Protocol):
    """A task whose model makes vectors of texts."""

    @property
    def tokenizer(self) -> InputTokenizer: ...

    def parse_text(self, value: str | Mapping[str, object], where: str) -> Example:
        """The text or pair of texts to embed."""
        ...

    def encode_text(self, example: Example) -> Input:
        """The input of the encoder for a text or a pair of texts."""
        ...


def parse_text(value: str | Mapping[str, object], where: str, pairs: bool | None = None) -> Example:
    """The example {"text", "pair"?} that a line or a dictionary means; `pairs` as in `split_pair`."""
    values = split_pair(value, where, pairs) if isinstance(value, str) else value
    if values.get("text") is None:
        raise UserError(f"{where} has no 'text'", f"write {TEXT_FORM}", code="missing-key", where=where)
    check_text(values, where)
    inputs = {key: item for key, item in values.items() if key != "label"}
    return inputs | LABELLED_TEXT.parse(inputs, Location(where))


def split_pair(line: str, where: str, pairs: bool | None) -> Example:
    """A line as a text, or as text TAB second text; if `pairs` is False, a tab is a blank in the text."""
    return {"text": line} if pairs is False else split_columns(line, ("text", "pair"), 1, where, TEXT_FORM)


def has_pairs(trained_inputs: Sequence[str], data: LabelledDataSettings, fields: Fields) -> bool | None:
    """True if training examples have a second text, False if not; None if it is not known.

    A run of an earlier version did not record it: then the first training example tells, or a `pair` in the recipe.
    """
    if "pair" not in fields.inputs or trained_inputs:
        return "pair" in trained_inputs
    try:
        return "pair" in next(read_examples(data.train, data.folder, fields)) if data.train else None
    except UserError:
        return True if any(source.pair is not None for source in data.train) else None


def write_inputs(path: Path, fields: Fields, examples: Iterable[Example]) -> None:
    """Write which inputs occur in the training examples, once."""
    if not path.exists():
        used = {key for example in examples for key in fields.inputs if key in example}
        write_json(path, [key for key in fields.inputs if key in used])


def encoder_attention(encoder: Any, tokenizer: InputTokenizer, read: Input, per_token: bool) -> list[AttentionMap]:
    """Attention maps of a text encoder over the tokens of one input."""
    if len(read.ids) > MAX_TOKENS_DRAWN:
        raise UserError(
            f"the text has {len(read.ids)} tokens; at most {MAX_TOKENS_DRAWN} can be drawn",
            "inspect a part of it",
            code="too-long",
            where="text",
        )
    device = next(encoder.parameters()).device
    batch = Inputs.of([[read]], per_token).pad(np.arange(1)).to(device)
    weights = encoder.attentions(batch.source, batch["segments"]).encoder
    if weights is None:
        return []
    tokens, array = tokenizer.tokens(read.ids), weights[0].float().cpu().numpy()
    if array.shape[2] == 1 < len(tokens):
        return [AttentionMap("pooling", ["pooled"], tokens, array)]
    return [AttentionMap("encoder", tokens, tokens, array)]


def encoder_weights(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights of the encoder among those of a run, by their names in the encoder."""
    return {
        name.removeprefix(prefix): tensor
        for prefix in ENCODER_PREFIXES
        for name, tensor in weights.items()
        if name.startswith(prefix)
    }


def head_weights(head: nn.Module, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights of the head among those of a run, by their names in `head`; none if their shapes are others."""
    found = {name.removeprefix(HEAD): tensor for name, tensor in weights.items() if name.startswith(HEAD)}
    shapes = {name: tensor.shape for name, tensor in head.state_dict().items()}
    return found if {name: tensor.shape for name, tensor in found.items()} == shapes else {}


def text_input(tokenizer: InputTokenizer, example: Example, max_length: int, label: float) -> Input:
    """[CLS] text [SEP], or [CLS] text [SEP] pair [SEP]; the longer one of two texts is shortened first."""
    pair = example.get("pair")
    second = None if pair is None else tokenizer.tokenize(pair)
    encoded = tokenizer.build_input(tokenizer.tokenize(example["text"]), second, max_length)
    return Input(encoded.ids, encoded.segments, [label], encoded.truncated_tokens)


def words_of(text: str, tokenizer: InputTokenizer) -> list[str]:
    """The words of a text as the tokenizer splits it: at blanks, and punctuation for itself."""
    tokens = tokenizer.tokenize(text)
    words = groupby(zip(tokens.words, tokens.spans, strict=True), key=lambda pair: pair[0])
    spans = ([span for _, span in word] for _, word in words)
    found = (text[word[0][0] : word[-1][1]] for word in spans)
    return [word for word in found if word]


def classification_loss(logits: Tensor, labels: Tensor, smoothing: float = 0.0) -> Loss:
    """Cross-entropy of (M, O) against classes (M,), summed; a class IGNORE does not count."""
    classes = labels.long()
    labelled = classes != IGNORE
    objective = F.cross_entropy(
        logits.float(), classes, ignore_index=IGNORE, reduction="sum", label_smoothing=smoothing
    )
    nll = F.cross_entropy(logits.float(), classes, ignore_index=IGNORE, reduction="sum") if smoothing else objective
    return Loss(objective, labelled.sum(), nll.detach())


@lru_cache
def label_ids(labels: tuple[str, ...]) -> dict[str | None, int]:
    """The output number of every label."""
    return {label: number for number, label in enumerate(labels)}


def read_names(path: Path) -> list[str]:
    """The names in a file of a run, for example its labels; none if there is no such file."""
    names = read_json(path, list[str]) if path.exists() else []
    if len(set(names)) < len(names):
        raise UserError(f"{path} is damaged: a name is there twice", code="damaged-file", where=path)
    return names


def write_labels(path: Path, labels: Sequence[str], valid_labels: Sequence[str], report: Callable[[str], None]) -> None:
    """Write the labels of the training examples once; later they may not change."""
    if labels and not path.exists():
        write_json(path, list(labels))
    saved = read_names(path)
    if saved:
        more = ", …" if len(saved) > MAX_SHOWN_LABELS else ""
        report(f"labels: {len(saved)} ({', '.join(saved[:MAX_SHOWN_LABELS])}{more})")
    if unknown := sorted(set(labels) - set(saved)):
        raise UserError(
            f"the training data has labels that this run does not know: {', '.join(unknown[:MAX_SHOWN_LABELS])}",
            "start another run with --folder FOLDER",
            code="changed-labels",
            where=path,
        )
    if labels and (unseen := sorted(set(valid_labels) - set(labels))):
        names = ", ".join(unseen[:MAX_SHOWN_LABELS])
        report(f"note: valid has labels that train does not have; they count as wrong: {names}")


def some_of_each(kinds: Sequence[str], count: int) -> list[int]:
    """Numbers of `count` examples: one of each kind first, then a second of each; those of kind "" last."""
    seen: Counter[str] = Counter()
    ranks = []
    for number, kind in enumerate(kinds):
        ranks.append((not kind, seen[kind], number))
        seen[kind] += 1
    return sorted(number for _, _, number in sorted(ranks)[:count])


def digest_of(examples: Sequence[Example]) -> str:
    """A hash of the content of examples, in their order."""
    whole = hashlib.sha256()
    for example in examples:
        whole.update(json.dumps(example, sort_keys=True, ensure_ascii=True).encode())
    return whole.hexdigest()
