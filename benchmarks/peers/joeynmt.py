"""JoeyNMT: its Model with its loss, and its `search`. It keeps no past: every step reads the whole prefix again."""

import logging
from types import SimpleNamespace

import joeynmt
import torch
from benchmarks.contender import OUTPUT, RATE, SMOOTHING, Shape, renumbering
from joeynmt.batch import Batch as TheirBatch
from joeynmt.model import build_model
from joeynmt.search import search
from joeynmt.vocabulary import Tokenizer
from torch import Tensor

from regard.data.batch import Batch

UNK, PAD, BOS, EOS = range(4)


class JoeyNMT:
    """Its one dropout falls on the attention weights and inside the feed-forward layers too."""

    version: str = joeynmt.__version__

    def __init__(self, shape: Shape) -> None:
        logging.disable(logging.WARNING)
        special = SimpleNamespace(
            unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>", sep_token=None, lang_tags=[],
            unk_id=UNK, pad_id=PAD, bos_id=BOS, eos_id=EOS,
        )  # fmt: skip
        words = Tokenizer([str(number) for number in range(4, shape.vocabulary)], special)
        stack = {
            "type": "transformer", "num_layers": shape.layers, "num_heads": shape.num_heads,
            "hidden_size": shape.d_model, "ff_size": shape.d_ff, "dropout": shape.dropout, "layer_norm": "post",
            "embeddings": {"embedding_dim": shape.d_model, "scale": True, "dropout": shape.dropout},
        }  # fmt: skip
        settings = {"encoder": dict(stack), "decoder": dict(stack), "tied_embeddings": True, "tied_softmax": True}
        self.model = build_model(settings, src_vocab=words, trg_vocab=words)
        self.model.loss_function = ("crossentropy", SMOOTHING)
        self.optimizer = torch.optim.Adam(self.model.parameters(), RATE)
        self.theirs = renumbering(shape.vocabulary, PAD, BOS, EOS)

    def batch(self, src: Tensor, lengths: Tensor, tgt: Tensor | None) -> TheirBatch:
        return TheirBatch(
            src=self.theirs[src], src_length=lengths, src_prompt_mask=None, trg=tgt, trg_prompt_mask=None,
            indices=torch.arange(len(src)), device=torch.device("cpu"), pad_index=PAD, eos_index=EOS,
            is_train=tgt is not None,
        )  # fmt: skip

    def train(self, batch: Batch) -> None:
        self.model.train()
        tgt = self.theirs[torch.cat([batch["target"][:, :1], batch.labels], dim=1)]
        given = self.batch(batch["source"], batch["source_lengths"], tgt)
        loss, *_ = self.model(return_type="loss", **vars(given))
        (loss / given.ntokens).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def decode(self, src: Tensor, lengths: Tensor, width: int) -> list[int]:
        if self.model.training:
            self.model.eval()
        written, _, _ = search(
            self.model, self.batch(src, lengths, None), max_output_length=OUTPUT, beam_size=width, beam_alpha=0.6,
            min_output_length=OUTPUT,
        )  # fmt: skip
        return [int((row != PAD).sum()) for row in written]
