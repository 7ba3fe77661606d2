"""Hugging Face transformers: MarianMTModel, trained in a plain loop, with its own `generate`."""

import torch
import transformers
from benchmarks.contender import OUTPUT, RATE, Shape, smoothed_loss
from torch import Tensor
from transformers import MarianConfig, MarianMTModel

from regard.data.batch import Batch
from regard.text.symbols import BOS, EOS, PAD


class Marian:
    """Its decoder's bias on the output, which ours has not, is part of the architecture."""

    version: str = transformers.__version__

    def __init__(self, shape: Shape) -> None:
        config = MarianConfig(
            vocab_size=shape.vocabulary, d_model=shape.d_model, encoder_layers=shape.layers,
            decoder_layers=shape.layers, encoder_attention_heads=shape.num_heads,
            decoder_attention_heads=shape.num_heads, encoder_ffn_dim=shape.d_ff, decoder_ffn_dim=shape.d_ff,
            activation_function="relu", scale_embedding=True, dropout=shape.dropout, attention_dropout=0.0,
            activation_dropout=0.0, max_position_embeddings=512, pad_token_id=PAD, eos_token_id=EOS,
            forced_eos_token_id=None, decoder_start_token_id=BOS,
        )  # fmt: skip
        self.model = MarianMTModel(config)
        self.optimizer = torch.optim.Adam(self.model.parameters(), RATE)

    def train(self, batch: Batch) -> None:
        self.model.train()
        logits = self.model(
            input_ids=batch["source"],
            attention_mask=(batch["source"] != PAD).long(),
            decoder_input_ids=batch["target"],
            use_cache=False,
        ).logits
        smoothed_loss(logits, batch.labels).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def decode(self, src: Tensor, lengths: Tensor, width: int) -> list[int]:
        if self.model.training:
            self.model.eval()
        written = self.model.generate(
            input_ids=src, attention_mask=(src != PAD).long(), num_beams=width, do_sample=False,
            min_new_tokens=OUTPUT, max_new_tokens=OUTPUT, length_penalty=0.6 if width > 1 else 1.0,
        )  # fmt: skip
        return [written.size(1) - 1] * len(src)
