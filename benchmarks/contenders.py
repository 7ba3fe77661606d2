"""The same small translator three times: ours, torch.nn.Transformer in a plain loop, and Hugging Face's Marian.

Each offers `train(batch)`, one optimizer step, and `decode(src, lengths, width)`, which writes exactly `OUTPUT` tokens
for every sentence. torch.nn.Transformer has no cache, so its steps read the whole prefix again; our own search drives
it, which is more than it brings along.

B sentences, W hypotheses, T target, D model, V vocabulary.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import Padded
from regard.data.collate import Batch
from regard.decoding import DecodingSettings, Symbols, decode
from regard.layers import sinusoid
from regard.losses import cross_entropy
from regard.models import Transformer, TransformerSettings
from regard.text import BOS, EOS, PAD

OUTPUT = 16
SYMBOLS = Symbols(bos=BOS, eos=EOS, pad=PAD)
SMOOTHING, RATE = 0.1, 1e-4


@dataclass(frozen=True)
class Shape:
    """What all three are built to."""

    vocabulary: int = 8000
    d_model: int = 256
    num_heads: int = 4
    d_ff: int = 1024
    layers: int = 3
    dropout: float = 0.1


def search(stepper: Any, src: Tensor, lengths: Tensor, width: int) -> None:
    """Our search, forced to `OUTPUT` tokens."""
    if width > 1:
        settings = DecodingSettings(search="beam", beam=width, loop_guard=False)
    else:
        settings = DecodingSettings(search="greedy", loop_guard=False)
    with torch.inference_mode():
        decode(Endless(stepper), Padded.of(src, lengths), torch.full((len(src),), OUTPUT), SYMBOLS, settings)


class Endless:
    """A stepper that never ends a sentence, so that every contender writes as much."""

    def __init__(self, stepper: Any) -> None:
        self.stepper = stepper

    def start(self, source: Any) -> Any:
        return self.stepper.start(source)

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        logits, state = self.stepper.step(tokens, state)
        logits[..., EOS] = -math.inf
        return logits, state


class Ours:
    """regard."""

    name = "regard"

    def __init__(self, shape: Shape) -> None:
        settings = TransformerSettings(
            size="small", d_model=shape.d_model, num_heads=shape.num_heads, d_ff=shape.d_ff, dropout=shape.dropout,
            encoder_layers=shape.layers, decoder_layers=shape.layers,
        )  # fmt: skip
        self.model = Transformer(settings, shape.vocabulary, shape.vocabulary)
        self.optimizer = torch.optim.Adam(self.model.parameters(), RATE)

    def train(self, batch: Batch) -> None:
        self.model.train()
        logits = self.model(Padded.of(batch.src, batch.src_lengths), Padded.of(batch.tgt_in, batch.tgt_lengths))
        loss = cross_entropy(logits, batch.labels, SMOOTHING, ignore=PAD)
        (loss.sum / loss.count).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def decode(self, src: Tensor, lengths: Tensor, width: int) -> None:
        search(self.model.eval(), src, lengths, width)


@dataclass(frozen=True)
class Prefixes:
    """The state of a model without a cache: the encoded source and all that was written, (B, W, T)."""

    memory: Tensor
    padding: Tensor
    written: Tensor

    def reorder(self, parents: Tensor) -> "Prefixes":
        index = parents[:, :, None].expand(-1, -1, self.written.size(2))
        return Prefixes(self.memory, self.padding, self.written.gather(1, index))

    def keep(self, sentences: Tensor) -> "Prefixes":
        return Prefixes(self.memory[sentences], self.padding[sentences], self.written[sentences])


class Torch:
    """torch.nn.Transformer, embeddings and a projection around it, and a plain loop."""

    name = "torch.nn.Transformer"

    def __init__(self, shape: Shape) -> None:
        self.model = nn.Transformer(
            shape.d_model, shape.num_heads, shape.layers, shape.layers, shape.d_ff, shape.dropout, batch_first=True
        )
        self.embedding = nn.Embedding(shape.vocabulary, shape.d_model)
        nn.init.normal_(self.embedding.weight, std=shape.d_model**-0.5)
        self.dropout = nn.Dropout(shape.dropout)
        self.optimizer = torch.optim.Adam([*self.model.parameters(), *self.embedding.parameters()], RATE)

    def embed(self, ids: Tensor) -> Tensor:
        d_model = self.embedding.embedding_dim
        x = self.embedding(ids) * math.sqrt(d_model) + sinusoid(torch.arange(ids.size(-1)), d_model)
        return self.dropout(x) if self.model.training else x

    def train(self, batch: Batch) -> None:
        self.model.train()
        padding = batch.src == PAD
        hidden = self.model(
            self.embed(batch.src),
            self.embed(batch.tgt_in),
            tgt_mask=self.future(batch.tgt_in.size(1)),
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )
        logits = hidden @ self.embedding.weight.T
        F.cross_entropy(
            logits.flatten(0, 1), batch.labels.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING
        ).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def future(self, size: int) -> Tensor:
        return torch.ones(size, size, dtype=torch.bool).triu(1)

    def decode(self, src: Tensor, lengths: Tensor, width: int) -> None:
        self.model.eval()
        search(self, src, lengths, width)

    def start(self, source: Any) -> Prefixes:
        padding = ~source.layout.real
        memory = self.model.encoder(self.embed(source.ids), src_key_padding_mask=padding)
        return Prefixes(memory, padding, source.ids.new_empty(len(padding), 1, 0))

    def step(self, tokens: Tensor, state: Prefixes) -> tuple[Tensor, Prefixes]:
        written = torch.cat([state.written, tokens[:, :, None]], dim=2)
        width, length = written.shape[1:]
        hidden = self.model.decoder(
            self.embed(written.flatten(0, 1)),
            state.memory.repeat_interleave(width, 0),
            tgt_mask=self.future(length),
            memory_key_padding_mask=state.padding.repeat_interleave(width, 0),
            tgt_is_causal=True,
        )
        logits = hidden[:, -1] @ self.embedding.weight.T
        return logits.unflatten(0, (-1, width)), Prefixes(state.memory, state.padding, written)


class Marian:
    """Hugging Face MarianMTModel with its own generate."""

    name = "transformers (Marian)"

    def __init__(self, shape: Shape) -> None:
        from transformers import MarianConfig, MarianMTModel

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
            input_ids=batch.src,
            attention_mask=(batch.src != PAD).long(),
            decoder_input_ids=batch.tgt_in,
            use_cache=False,
        ).logits
        F.cross_entropy(
            logits.flatten(0, 1), batch.labels.flatten(), ignore_index=PAD, label_smoothing=SMOOTHING
        ).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def decode(self, src: Tensor, lengths: Tensor, width: int) -> None:
        self.model.eval()
        self.model.generate(
            input_ids=src, attention_mask=(src != PAD).long(), num_beams=width, do_sample=False,
            min_new_tokens=OUTPUT, max_new_tokens=OUTPUT, length_penalty=0.6 if width > 1 else 1.0,
        )  # fmt: skip
