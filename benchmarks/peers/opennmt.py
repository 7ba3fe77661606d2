"""OpenNMT-py: its NMTModel, its loss and its Translator."""

import logging
from typing import Any

import onmt
import onmt.opts
import pyonmttok
import torch
from benchmarks.contender import OUTPUT, RATE, SMOOTHING, WIDTHS, Shape
from onmt.constants import DefaultTokens
from onmt.model_builder import build_model
from onmt.translate import GNMTGlobalScorer
from onmt.translate.translator import Translator
from onmt.utils.loss import LossCompute
from onmt.utils.parse import ArgumentParser
from torch import Tensor

from regard.data.batch import Batch

SPECIALS = [DefaultTokens.PAD, DefaultTokens.BOS, DefaultTokens.EOS, DefaultTokens.UNK]  # in the order of our ids


def options(shape: Shape) -> Any:
    """Its command line, as a user would write it."""
    parser = ArgumentParser()
    onmt.opts.train_opts(parser)
    words = (
        "-data none -src_vocab none -save_model none -encoder_type transformer -decoder_type transformer "
        f"-layers {shape.layers} -hidden_size {shape.d_model} -word_vec_size {shape.d_model} -heads {shape.num_heads} "
        f"-transformer_ff {shape.d_ff} -dropout {shape.dropout} -attention_dropout 0 -label_smoothing {SMOOTHING} "
        "-position_encoding -share_vocab -share_embeddings -share_decoder_embeddings -add_qkvbias "
        "-param_init 0 -param_init_glorot"
    )
    opt, _ = parser.parse_known_args(words.split())
    ArgumentParser.update_model_opts(opt)
    ArgumentParser.validate_model_opts(opt)
    return opt


class OpenNMT:
    """Adam is torch's own, as for everybody."""

    version: str = onmt.__version__

    def __init__(self, shape: Shape) -> None:
        logging.disable(logging.WARNING)
        words = pyonmttok.build_vocab_from_tokens(
            [str(number) for number in range(len(SPECIALS), shape.vocabulary)], maximum_size=0, special_tokens=SPECIALS
        )
        self.vocabs = {"src": words, "tgt": words, "decoder_start_token": DefaultTokens.BOS, "data_task": "seq2seq"}
        opt = options(shape)
        self.model = build_model(opt, opt, self.vocabs, None, -1)
        self.loss = LossCompute.from_opts(opt, self.model, words)
        self.optimizer = torch.optim.Adam(self.model.parameters(), RATE)
        self.translators = {width: self.translator(width) for width in WIDTHS}

    def train(self, batch: Batch) -> None:
        self.model.train()
        src, tgt = batch["source"][:, :, None], torch.cat([batch["target"][:, :1], batch.labels], dim=1)[:, :, None]
        output, attention = self.model(src, tgt, batch["source_lengths"])
        loss, _ = self.loss({"src": src, "srclen": batch["source_lengths"], "tgt": tgt}, output, attention)
        (loss / batch["target_lengths"].sum()).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def decode(self, src: Tensor, lengths: Tensor, width: int) -> list[int]:
        if self.model.training:
            self.model.eval()
        batch = {"src": src[:, :, None], "srclen": lengths}
        results = self.translators[width].translate_batch(batch, attn_debug=False)
        return [len(best[0]) for best in results["predictions"]]

    def translator(self, width: int) -> Any:
        return Translator(
            self.model, self.vocabs, beam_size=width, random_sampling_topk=1 if width == 1 else 0, max_length_ratio=0,
            min_length=OUTPUT, max_length=OUTPUT,
            global_scorer=GNMTGlobalScorer(alpha=0.6, beta=0.0, length_penalty="wu", coverage_penalty="none"),
        )  # fmt: skip
