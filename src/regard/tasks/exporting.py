"""Models in the formats of Hugging Face transformers: written, read back from the files, and ready to be compared.

B sentences, S source, T target, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.attention.layouts import Padded, Tokens
from regard.errors import UserError
from regard.exchange.bert import (
    BertHead,
    FineTunedBert,
    read_bert,
    read_finetuned,
    write_bert,
    write_finetuned,
)
from regard.exchange.bert_tokenizers import read_bert_tokenizer
from regard.exchange.marian import read_marian, write_marian
from regard.models.bert import Bert, BertPretraining, BertSettings
from regard.models.text_encoder import EncoderWithHead
from regard.models.transformer import Transformer, TransformerSettings
from regard.text.bert import BertTokenizer
from regard.text.symbols import BOS, EOS
from regard.text.tokenizer import Tokenizer
from regard.training.weights import Tensors, load_weights, weights_of

TEST_INPUTS, MAX_TOKENS = 4, 12
"""Number and length of the inputs that two models are compared on."""
TEST_TEXT = "Attention is all you need: 1, 23 & 4.5% of the Größe, naïve; 注意力 _is_ [MASK] ##ed <unk> ▁x\tİ"
"""A text to compare tokenizers on."""


@dataclass(frozen=True)
class ExportedModel:
    """A model that was written in the format of another program and read back from its files."""

    model: nn.Module
    weights: int
    """Number of weights that were written."""
    inputs: tuple[object, ...]
    """Arguments of `forward` for a comparison with the model of the run."""


def export_marian(
    folder: Path,
    model: nn.Module,
    settings: TransformerSettings,
    tokenizers: tuple[Tokenizer, Tokenizer],
    beam: int,
    alpha: float,
) -> ExportedModel:
    """A Transformer as Marian or Pegasus."""
    write_marian(folder, settings, weights_of(model), tokenizers, beam, alpha)
    read = read_marian(folder)
    check_tokenizers(folder, tokenizers, read.tokenizers)
    copy = Transformer(read.settings, *map(len, read.tokenizers)).eval()
    load_weights(copy, read.weights, str(folder))
    return ExportedModel(copy, count(read.weights), translation_inputs(*map(len, tokenizers)))


def export_bert(
    folder: Path,
    model: nn.Module,
    settings: BertSettings,
    tokenizer: BertTokenizer,
    random_weights: Sequence[str],
) -> ExportedModel:
    """A BERT with the heads of pretraining; random weights are not written."""
    weights = weights_of(model)
    trained = {name: tensor for name, tensor in weights.items() if name not in random_weights}
    write_bert(folder, settings, trained, tokenizer)
    read_settings, read = read_bert(folder)
    check_tokenizers(folder, [tokenizer], [read_bert_tokenizer(folder)])
    copy = BertPretraining(read_settings, len(tokenizer)).eval()
    load_weights(copy, {name: weights[name] for name in random_weights} | read, str(folder))
    tokens, segments = text_inputs(settings, len(tokenizer))
    return ExportedModel(copy, count(read), (tokens, segments, torch.arange(tokens.ids.numel())))


def export_bert_head(
    folder: Path,
    model: nn.Module,
    head: BertHead,
    settings: BertSettings,
    labels: Sequence[str],
    tokenizer: BertTokenizer,
) -> ExportedModel:
    """A BERT with the output layer of a labelled task."""
    write_finetuned(folder, FineTunedBert(head, tuple(labels), settings, weights_of(model)), tokenizer)
    read = read_finetuned(folder)
    check_tokenizers(folder, [tokenizer], [read_bert_tokenizer(folder)])
    outputs = len(read.weights["head.bias"])
    copy = EncoderWithHead(Bert(read.settings, len(tokenizer)), outputs, head.pooled, dropout=0.0).eval()
    unused = {name: tensor for name, tensor in weights_of(copy).items() if name.startswith("encoder.pooler.")}
    load_weights(copy, unused | read.weights, str(folder))
    return ExportedModel(copy, count(read.weights), text_inputs(settings, len(tokenizer)))


def check_tokenizers(folder: Path, written: Sequence[Tokenizer], read: Sequence[Tokenizer]) -> None:
    """Raise UserError if a tokenizer that was read back tokenises another way than that of the run."""
    for tokenizer, copy in zip(written, read, strict=True):
        if len(tokenizer) != len(copy) or tokenizer.encode(TEST_TEXT) != copy.encode(TEST_TEXT):
            raise UserError(
                f"{folder}: the tokenizer that was written differs from that of the run",
                "do not use this export",
                code="export-differs",
                where=folder,
            )


def count(weights: Tensors) -> int:
    """The number of weights."""
    return sum(tensor.numel() for tensor in weights.values())


def translation_inputs(src_size: int, tgt_size: int) -> tuple[Tokens, Tokens]:
    """Random source sentences (B, S) and target sentences (B, T) after the beginning symbol."""
    sources, targets = random_tokens(EOS + 1, src_size), random_tokens(EOS + 1, tgt_size)
    assert isinstance(sources.layout, Padded)
    sources.ids[range(TEST_INPUTS), sources.layout.lengths - 1] = EOS
    targets.ids[:, 0] = BOS
    return sources, targets


def text_inputs(settings: BertSettings, size: int) -> tuple[Tokens, Tensor]:
    """Random texts (B, T), and their segments if the model has more than one."""
    tokens = random_tokens(0, size, min(MAX_TOKENS, settings.length_limit or MAX_TOKENS))
    half = (torch.arange(tokens.ids.size(1)) >= tokens.ids.size(1) // 2).long()
    return tokens, (half % settings.segments).expand_as(tokens.ids)


def random_tokens(first: int, size: int, max_tokens: int = MAX_TOKENS) -> Tokens:
    """A padded batch of token ids from `first` to `size` - 1, always the same."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(first, size, (TEST_INPUTS, max_tokens), generator=generator)
    return Padded.of(ids, torch.tensor([max(1, max_tokens - 3 * number) for number in range(TEST_INPUTS)]))
