"""regard three times: the model as it is read, and the two engines that execute it otherwise."""

import tempfile
from pathlib import Path
from typing import Any

import torch
from benchmarks.contender import OUTPUT, RATE, SMOOTHING, Shape
from torch import Tensor

import regard
from regard.attention.layouts import Padded
from regard.data.batch import Batch
from regard.decoding.engine import DecodingRequest
from regard.decoding.search import decode
from regard.decoding.settings import DecodingSettings
from regard.decoding.stepper import Symbols
from regard.losses.projected import projected_cross_entropy
from regard.models.transformer import Transformer, TransformerSettings
from regard.text.symbols import BOS, EOS, PAD

SYMBOLS = Symbols(bos=BOS, eos=EOS, pad=PAD)


def translator(shape: Shape) -> Transformer:
    """A model that never ends a sentence by itself, so that it writes as much as the others.

    The last norm adds 1 to every number; the end symbol's row is negative throughout, so its score is far below all.
    """
    settings = TransformerSettings(
        size="small", d_model=shape.d_model, num_heads=shape.num_heads, d_ff=shape.d_ff, dropout=shape.dropout,
        encoder_layers=shape.layers, decoder_layers=shape.layers,
    )  # fmt: skip
    model = Transformer(settings, shape.vocabulary, shape.vocabulary)
    with torch.no_grad():
        last = [norm for norm in model.decoder.modules() if isinstance(norm, torch.nn.LayerNorm)][-1]
        last.bias.fill_(1.0)
        model.output.weight[EOS] = -(shape.d_model**-0.5)
    return model


def settings_of(width: int) -> DecodingSettings:
    if width == 1:
        return DecodingSettings(search="greedy", loop_guard=False)
    return DecodingSettings(search="beam", beam=width, loop_guard=False)


class Readable:
    """The model and the searches as they stand in `regard.models` and `regard.decoding`."""

    version = regard.__version__

    def __init__(self, shape: Shape) -> None:
        self.model = translator(shape)
        self.stepper: Any = self.model
        self.optimizer = torch.optim.Adam(self.model.parameters(), RATE, fused=True)

    def train(self, batch: Batch) -> None:
        self.model.train()
        loss = projected_cross_entropy(self.model(batch.source, batch.target), batch.labels, SMOOTHING)
        (loss.sum / loss.count).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    @torch.inference_mode()
    def decode(self, src: Tensor, lengths: Tensor, width: int) -> list[int]:
        if self.model.training:
            self.model.eval()
        max_new_tokens = torch.full((len(src),), OUTPUT)
        found = decode(self.stepper, Padded.of(src, lengths), max_new_tokens, SYMBOLS, settings_of(width))
        return [len(best.tokens) for best, *_ in found]


class Prepared(Readable):
    """The same searches over a model whose weights were laid out for decoding."""

    def __init__(self, shape: Shape) -> None:
        from regard.engines.fused import FusedTransformer

        super().__init__(shape)
        self.stepper = FusedTransformer(self.model.eval())


class Quantised:
    """The same model, searched by CTranslate2 in 8 bits."""

    version = regard.__version__
    model = None

    def __init__(self, shape: Shape) -> None:
        from regard.engines.ctranslate2 import CTranslate2Engine
        from regard.exchange.ctranslate2 import write_ctranslate2

        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "model"
            write_ctranslate2(translator(shape).eval(), SYMBOLS, folder)
            self.engine = CTranslate2Engine(folder, SYMBOLS, workers=shape.threads)

    def decode(self, src: Tensor, lengths: Tensor, width: int) -> list[int]:
        sources = [row[:length] for row, length in zip(src.tolist(), lengths.tolist(), strict=True)]
        found = self.engine.decode(DecodingRequest(sources, [OUTPUT] * len(sources), settings_of(width)))
        return [len(best.tokens) for best, *_ in found]
