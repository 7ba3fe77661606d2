"""Sockeye 3: its SockeyeModel with its loss, traced as its own trainer does, and its beam and greedy search."""

import logging

import sockeye
import torch
from benchmarks.contender import OUTPUT, RATE, SMOOTHING, WIDTHS, Shape, renumbering
from sockeye import constants as C
from sockeye.beam_search import CandidateScorer, get_search_algorithm
from sockeye.data_io import DataConfig
from sockeye.encoder import EmbeddingConfig
from sockeye.loss import CrossEntropyLoss
from sockeye.model import ModelConfig, SockeyeModel, initialize_parameters
from sockeye.transformer import TransformerConfig
from torch import Tensor

from regard.data.batch import Batch


def config_of(shape: Shape) -> ModelConfig:
    embedding = EmbeddingConfig(vocab_size=shape.vocabulary, num_embed=shape.d_model, dropout=0.0)
    stack = TransformerConfig(
        model_size=shape.d_model, attention_heads=shape.num_heads, feed_forward_num_hidden=shape.d_ff,
        act_type="relu", num_layers=shape.layers, dropout_attention=0.0, dropout_act=0.0,
        dropout_prepost=shape.dropout, positional_embedding_type=C.FIXED_POSITIONAL_EMBEDDING,
        preprocess_sequence="n", postprocess_sequence="dr", max_seq_len_source=128, max_seq_len_target=128,
        depth_key_value=shape.d_model,
    )  # fmt: skip
    data = DataConfig(
        data_statistics=None, max_seq_len_source=128, max_seq_len_target=128, num_source_factors=1, num_target_factors=1
    )
    return ModelConfig(
        config_data=data, vocab_source_size=shape.vocabulary, vocab_target_size=shape.vocabulary,
        config_embed_source=embedding, config_embed_target=embedding, config_encoder=stack, config_decoder=stack,
    )  # fmt: skip


class Sockeye:
    """It trains one model and decodes with another that is fused and traced for it, as its commands do."""

    version: str = sockeye.__version__

    def __init__(self, shape: Shape) -> None:
        logging.disable(logging.WARNING)
        config = config_of(shape)
        self.model = SockeyeModel(config)
        self.model.apply(initialize_parameters)
        self.traced: torch.nn.Module | None = None
        self.loss = CrossEntropyLoss(label_smoothing=SMOOTHING)
        self.optimizer = torch.optim.Adam(self.model.parameters(), RATE)
        self.theirs = renumbering(shape.vocabulary, C.PAD_ID, C.BOS_ID, C.EOS_ID)
        self.reader = SockeyeModel(config, inference_only=True)
        self.reader.apply(initialize_parameters)
        if self.reader.training:
            self.reader.eval()
        with torch.no_grad():  # it knows no least length: the two symbols that would end a sentence never win
            self.reader.output_layer.bias[[C.EOS_ID, C.PAD_ID]] = -1e4
        self.searches = {
            (width, alone): get_search_algorithm(
                [self.reader], beam_size=width, device=torch.device("cpu"), output_scores=False,
                scorer=CandidateScorer(0.6), constant_length_ratio=-1.0, greedy=alone and width == 1,
            )
            for width in WIDTHS
            for alone in (True, False)  # its greedy search takes one sentence; a beam of one takes more
        }  # fmt: skip

    def inputs(self, src: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        return self.theirs[src][:, :, None].int(), torch.stack([lengths, torch.zeros_like(lengths)], dim=1).int()

    def train(self, batch: Batch) -> None:
        self.model.train()
        tgt = self.theirs[batch["target"]][:, :, None].int()
        given = (*self.inputs(batch["source"], batch["source_lengths"]), tgt, batch["target_lengths"].int())
        if self.traced is None:
            self.traced = torch.jit.trace(self.model, given, strict=False, check_trace=False)
        loss, _ = self.loss(self.traced(*given), {C.TARGET_LABEL_NAME: self.theirs[batch.labels].int()})
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    @torch.inference_mode()
    def decode(self, src: Tensor, lengths: Tensor, width: int) -> list[int]:
        search = self.searches[width, len(src) == 1]
        limits = torch.full((len(src),), OUTPUT, dtype=torch.int32)
        found = search(*self.inputs(src, lengths), None, limits)
        return [found.best_word_indices.size(-1)] * len(src)
