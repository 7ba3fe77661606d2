"""fairseq: its Transformer, its label-smoothed criterion and its SequenceGenerator.

Its last release is older than Python 3.11, whose dataclasses refuse defaults that have no hash, and than numpy 1.24,
which dropped `np.float`; both are given back before it is imported. Its C++ extensions, which speed up the planning of
batches and BLEU, are not built: neither is measured.
"""

import dataclasses
import logging
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from benchmarks.contender import OUTPUT, RATE, SMOOTHING, WIDTHS, Shape, renumbering
from torch import Tensor

from regard.data.batch import Batch

strict_dataclass = dataclasses.dataclass


def lenient_dataclass(cls: Any = None, /, **settings: Any) -> Any:
    """A dataclass whose instances may stand as a default in another."""
    if cls is None:
        return lambda cls: lenient_dataclass(cls, **settings)
    made = strict_dataclass(cls, **settings)
    if made.__hash__ is None:
        made.__hash__ = object.__hash__
    return made


dataclasses.dataclass = lenient_dataclass
np.float, np.int = float, int  # type: ignore[attr-defined]
try:
    import fairseq
    from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
    from fairseq.data import Dictionary
    from fairseq.models.transformer import TransformerConfig, TransformerModelBase
    from fairseq.sequence_generator import SequenceGenerator
finally:
    dataclasses.dataclass = strict_dataclass


class Fairseq:
    """Adam is torch's own, as for everybody."""

    version: str = fairseq.__version__

    def __init__(self, shape: Shape) -> None:
        logging.disable(logging.WARNING)
        words = Dictionary()
        for number in range(len(words), shape.vocabulary):
            words.add_symbol(str(number))
        task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
        config = TransformerConfig(
            dropout=shape.dropout, attention_dropout=0.0, activation_dropout=0.0, share_all_embeddings=True,
            share_decoder_input_output_embed=True, max_source_positions=512, max_target_positions=512,
        )  # fmt: skip
        for stack in (config.encoder, config.decoder):
            stack.embed_dim, stack.ffn_embed_dim = shape.d_model, shape.d_ff
            stack.layers, stack.attention_heads = shape.layers, shape.num_heads
        config.decoder.input_dim = config.decoder.output_dim = shape.d_model
        self.model = TransformerModelBase.build_model(config, task)
        self.criterion = LabelSmoothedCrossEntropyCriterion(task, sentence_avg=False, label_smoothing=SMOOTHING)
        self.optimizer = torch.optim.Adam(self.model.parameters(), RATE)
        self.theirs = renumbering(shape.vocabulary, words.pad(), words.bos(), words.eos())
        self.generators = {
            width: SequenceGenerator(
                [self.model], words, beam_size=width, max_len_a=0, max_len_b=OUTPUT - 1, min_len=OUTPUT - 1
            )  # the end symbol is the last of the tokens it writes
            for width in WIDTHS
        }

    def train(self, batch: Batch) -> None:
        self.model.train()
        read = {"src_tokens": self.theirs[batch["source"]], "src_lengths": batch["source_lengths"]}
        sample = {
            "net_input": {**read, "prev_output_tokens": self.theirs[batch["target"]]},
            "target": self.theirs[batch.labels],
            "ntokens": int(batch["target_lengths"].sum()),
        }
        loss, size, _ = self.criterion(self.model, sample)
        (loss / size).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    @torch.inference_mode()
    def decode(self, src: Tensor, lengths: Tensor, width: int) -> list[int]:
        if self.model.training:
            self.model.eval()
        sample = {"net_input": {"src_tokens": self.theirs[src], "src_lengths": lengths}}
        found = self.generators[width].generate([self.model], sample)
        return [len(best["tokens"]) for best, *_ in found]
