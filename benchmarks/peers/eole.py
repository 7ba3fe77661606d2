"""Eole, the successor of OpenNMT-py: its EncoderDecoderModel, its loss and its Translator."""

import logging
from typing import Any

import eole
import pyonmttok
import torch
from benchmarks.contender import OUTPUT, RATE, SMOOTHING, WIDTHS, Shape
from eole.config.models import TransformerModelConfig
from eole.config.run import PredictConfig, TrainConfig
from eole.config.training import TrainingConfig
from eole.constants import DefaultTokens
from eole.models.model import EncoderDecoderModel
from eole.predict.beam_search import GNMTGlobalScorer
from eole.predict.translator import Translator
from eole.utils.loss import LossCompute
from torch import Tensor

from regard.data.batch import Batch

SPECIALS = {
    "pad_token": DefaultTokens.PAD,
    "bos_token": DefaultTokens.BOS,
    "eos_token": DefaultTokens.EOS,
    "unk_token": DefaultTokens.UNK,
}  # in the order of our ids


def vocabularies(size: int) -> dict[str, Any]:
    """One joint vocabulary with our ids for the special symbols."""
    special = list(SPECIALS.values())
    words = pyonmttok.build_vocab_from_tokens(
        [str(number) for number in range(len(special), size)], maximum_size=0, special_tokens=special
    )
    return {"src": words, "tgt": words, "specials": SPECIALS, "decoder_start_token": DefaultTokens.BOS}


class Eole:
    """Adam is torch's own, as for everybody."""

    version: str = eole.__version__

    def __init__(self, shape: Shape) -> None:
        logging.disable(logging.WARNING)
        self.vocabs = vocabularies(shape.vocabulary)
        config = TrainConfig(
            data={},
            src_vocab="joint",
            tgt_vocab="joint",
            share_vocab=True,
            model=TransformerModelConfig(
                layers=shape.layers, hidden_size=shape.d_model, heads=shape.num_heads, transformer_ff=shape.d_ff,
                embeddings={"word_vec_size": shape.d_model, "position_encoding_type": "SinusoidalInterleaved"},
                share_embeddings=True, share_decoder_embeddings=True, add_qkvbias=True, add_ffnbias=True,
            ),
            training=TrainingConfig(
                dropout=[shape.dropout], attention_dropout=[0.0], label_smoothing=SMOOTHING,
                param_init_method="xavier_uniform", compute_dtype="fp32",
            ),
        )  # fmt: skip
        self.config = config.model
        self.model = EncoderDecoderModel.for_training(config.model, self.vocabs, config.training, device_id=-1)
        self.loss = LossCompute.from_config(config, self.model, self.vocabs)
        self.optimizer = torch.optim.Adam(self.model.parameters(), RATE)
        self.translators = {width: self.translator(width) for width in WIDTHS}

    def train(self, batch: Batch) -> None:
        self.model.train()
        tgt = torch.cat([batch["target"][:, :1], batch.labels], dim=1)
        output, attention, estimate = self.model(batch["source"], tgt, batch["source_lengths"])
        names = {
            "cid": ["text"] * len(batch.labels),
            "cid_line_number": range(len(batch.labels)),
        }  # it counts lines of each corpus
        given = {"src": batch["source"], "srclen": batch["source_lengths"], "tgt": tgt, **names}
        loss, _, _ = self.loss(given, output, attention, estimate)
        (loss / batch["target_lengths"].sum()).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def decode(self, src: Tensor, lengths: Tensor, width: int) -> list[int]:
        if self.model.training:
            self.model.eval()
        results = self.translators[width].predict_batch({"src": src, "srclen": lengths}, attn_debug=False)
        return [len(best[0]) for best in results["predictions"]]

    def translator(self, width: int) -> Any:
        config = PredictConfig(
            model_path=["none"], src="none", beam_size=width, top_k=1 if width == 1 else 0, max_length_ratio=0,
            min_length=OUTPUT, max_length=OUTPUT, self_attn_backend="pytorch", length_penalty="wu", alpha=0.6,
        )  # fmt: skip
        scorer = GNMTGlobalScorer.from_config(config)
        return Translator(self.model, self.vocabs, config, self.config, device_id=-1, global_scorer=scorer)
