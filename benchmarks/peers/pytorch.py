"""The unit of the table: torch.nn.Transformer in a plain loop, as one writes it in an afternoon.

torch brings no key/value cache and no search along, so every step reads the whole prefix again, and the search is the
textbook's: log-probabilities, the best `width` of all continuations, their prefixes gathered.

B sentences, W hypotheses, T target, V vocabulary.
"""

import math

import torch
from benchmarks.contender import OUTPUT, RATE, Shape, smoothed_loss
from torch import Tensor, nn

from regard.data.batch import Batch
from regard.layers.positions import sinusoid
from regard.text.symbols import BOS, EOS, PAD


class Translator(nn.Module):
    """nn.Transformer with one matrix for source, target and output around it."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.transformer = nn.Transformer(
            shape.d_model, shape.num_heads, shape.layers, shape.layers, shape.d_ff, shape.dropout, batch_first=True
        )
        self.embedding = nn.Embedding(shape.vocabulary, shape.d_model)
        nn.init.normal_(self.embedding.weight, std=shape.d_model**-0.5)
        self.dropout = nn.Dropout(shape.dropout)

    def embed(self, ids: Tensor) -> Tensor:
        d_model = self.embedding.embedding_dim
        x = self.embedding(ids) * math.sqrt(d_model) + sinusoid(torch.arange(ids.size(-1)), d_model)
        return self.dropout(x)

    def encode(self, src: Tensor, padding: Tensor) -> Tensor:
        return self.transformer.encoder(self.embed(src), src_key_padding_mask=padding)

    def decode(self, tgt: Tensor, memory: Tensor, padding: Tensor) -> Tensor:
        """-> hidden (B, T, D)."""
        future = torch.ones(tgt.size(1), tgt.size(1), dtype=torch.bool).triu(1)
        return self.transformer.decoder(
            self.embed(tgt), memory, tgt_mask=future, memory_key_padding_mask=padding, tgt_is_causal=True
        )

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        padding = src == PAD
        return self.decode(tgt, self.encode(src, padding), padding) @ self.embedding.weight.T

    def next_word(self, written: Tensor, memory: Tensor, padding: Tensor) -> Tensor:
        """-> log-probabilities (B, V) of the next word, which is not the end."""
        logits = self.decode(written, memory, padding)[:, -1] @ self.embedding.weight.T
        logits[:, EOS] = -math.inf
        return logits.log_softmax(-1)


class Torch:
    """torch.nn.Transformer."""

    version = torch.__version__

    def __init__(self, shape: Shape) -> None:
        self.model = Translator(shape)
        self.optimizer = torch.optim.Adam(self.model.parameters(), RATE)

    def train(self, batch: Batch) -> None:
        self.model.train()
        smoothed_loss(self.model(batch["source"], batch["target"]), batch.labels).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    @torch.inference_mode()
    def decode(self, src: Tensor, lengths: Tensor, width: int) -> list[int]:
        if self.model.training:
            self.model.eval()
        padding = src == PAD
        search = self.beam if width > 1 else self.greedy
        written = search(self.model.encode(src, padding), padding, width)
        return [written.size(1) - 1] * len(src)

    def greedy(self, memory: Tensor, padding: Tensor, width: int) -> Tensor:
        written = torch.full((len(memory), 1), BOS)
        for _ in range(OUTPUT):
            best = self.model.next_word(written, memory, padding).argmax(-1)
            written = torch.cat([written, best[:, None]], dim=1)
        return written

    def beam(self, memory: Tensor, padding: Tensor, width: int) -> Tensor:
        sentences = len(memory)
        memory, padding = memory.repeat_interleave(width, 0), padding.repeat_interleave(width, 0)
        written = torch.full((sentences * width, 1), BOS)
        scores = torch.full((sentences, width), -math.inf)
        scores[:, 0] = 0.0  # the hypotheses begin alike: one of them is enough
        first = torch.arange(sentences)[:, None] * width
        for _ in range(OUTPUT):
            step = self.model.next_word(written, memory, padding)
            total = scores[:, :, None] + step.unflatten(0, (sentences, width))
            scores, best = total.flatten(1).topk(width)  # (B, W) of W * V
            parents = (first + best // step.size(1)).flatten()
            written = torch.cat([written[parents], (best % step.size(1)).view(-1, 1)], dim=1)
        return written.unflatten(0, (sentences, width))[:, 0]
