"""A run's model in the format of another program, and the proof that it is the same model there.

An export that silently differs is worse than none. So what was written is read back by the other way, from the files
alone, both models are asked the same, and the largest difference between their answers is said.

    to huggingface    BERT with the head of its task, Transformers as Marian or Pegasus (see exchange/)
    to ctranslate2    Transformers, for CTranslate2; it can keep the weights in 8 bits

B sentences, S source, T target, V vocabulary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.attention.layouts import Padded, Tokens
from regard.engines.choose import is_standard_transformer
from regard.engines.ctranslate2 import CTranslate2Engine
from regard.errors import UserError
from regard.exchange.bert import (
    FineTunedBert,
    read_bert,
    read_bert_tokenizer,
    read_finetuned,
    write_bert,
    write_finetuned,
)
from regard.exchange.ctranslate2 import write_ctranslate2
from regard.exchange.marian import read_marian, write_marian
from regard.files import require_writable
from regard.layers.embeddings import OutputProjection
from regard.models.bert import Bert, BertPretraining, BertSettings
from regard.models.text_encoder import EncoderWithHead
from regard.models.transformer import Transformer, TransformerSettings
from regard.run.importing import DRAWN
from regard.run.pretraining import PretrainingRun
from regard.run.translation import JOINT, SRC, TGT, TranslationRun
from regard.run.understanding import UnderstandingRun
from regard.tasks.translation import SYMBOLS
from regard.text.symbols import BOS, EOS
from regard.training.checkpoint import read_progress
from regard.training.weights import Tensors, all_finite, load_weights, weights_of

PROGRAMS = ("huggingface", "ctranslate2")
ASKED, LONGEST = 4, 12
"""How many inputs the two models are compared by, and how long the longest is."""
PROBE = "Attention is all you need: 1, 23 & 4.5% of the Größe, naïve; 注意力 _is_ [MASK] ##ed <unk> ▁x\tİ"
"""A text to compare vocabularies by."""


@dataclass(frozen=True)
class Exported:
    """What was written, and by how much the answers of the model that was read back differ at most."""

    folder: Path
    weights: int
    difference: float
    of: str
    """What the answers are."""


def export_run(
    run: Any, folder: Path, to: str = "huggingface", checkpoint: str = "best", quantization: str = "float32"
) -> Exported:
    """Write the model of a run's checkpoint to the new `folder`, and compare the two."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} is there already", "choose another folder with --folder FOLDER")
    require_writable(folder)
    if to == "ctranslate2":
        return to_other_library(run, folder, checkpoint, quantization)
    if isinstance(run, TranslationRun) and run.recipe.model.kind == "transformer":
        return translator_to_huggingface(run, folder, checkpoint)
    if isinstance(run, PretrainingRun):
        return bert_to_huggingface(run, folder, checkpoint)
    if isinstance(run, UnderstandingRun) and isinstance(run.recipe.model, BertSettings):
        return finetuned_to_huggingface(run, folder, checkpoint)
    raise UserError(
        f"no model of transformers is like that of {run.folder}: task {run.recipe.task}, {run.recipe.model.summary}",
        'BERT (model.kind = "bert") and translators of model.kind = "transformer" can be exported there',
    )


@torch.no_grad()
def translator_to_huggingface(run: TranslationRun, folder: Path, checkpoint: str) -> Exported:
    """A Transformer as Marian or Pegasus."""
    settings, decoding = run.recipe.model, run.recipe.decoding
    assert isinstance(settings, TransformerSettings)
    model, beam = sound_model(run, checkpoint), decoding.beam if decoding.search == "beam" else 1
    write_marian(folder, settings, weights_of(model), run.vocabularies, beam, decoding.alpha)
    found = read_marian(folder)
    refuse_other_pieces(folder, run.vocabularies, found.tokenizers)
    again = Transformer(found.settings, *map(len, found.tokenizers)).eval()
    load_weights(again, found.weights, str(folder))
    return compared(folder, found.weights, model, again, questions(*map(len, run.vocabularies)))


@torch.no_grad()
def bert_to_huggingface(run: PretrainingRun, folder: Path, checkpoint: str) -> Exported:
    """A BERT with its two questions; what was drawn when it was imported stays here."""
    model, drawn = sound_model(run, checkpoint), read_progress(run.checkpoints.resolve(checkpoint)).get(DRAWN, [])
    own = weights_of(model)
    write_bert(folder, run.recipe.model, {n: tensor for n, tensor in own.items() if n not in drawn}, run.vocabulary)
    settings, weights = read_bert(folder)
    refuse_other_pieces(folder, [run.vocabulary], [read_bert_tokenizer(folder)])
    again = BertPretraining(settings, len(run.vocabulary)).eval()
    load_weights(again, {name: own[name] for name in drawn} | weights, str(folder))
    tokens, segments = texts(run)
    places = torch.arange(tokens.ids.numel())
    return compared(folder, weights, model, again, (tokens, segments, places))


@torch.no_grad()
def finetuned_to_huggingface(run: UnderstandingRun, folder: Path, checkpoint: str) -> Exported:
    """A BERT with the head of its task."""
    model, settings = sound_model(run, checkpoint), run.recipe.model
    assert isinstance(settings, BertSettings)
    write_finetuned(folder, FineTunedBert(run.recipe.task, run.labels, settings, weights_of(model)), run.vocabulary)
    found = read_finetuned(folder)
    refuse_other_pieces(folder, [run.vocabulary], [read_bert_tokenizer(folder)])
    task, reader = run.task(), Bert(found.settings, len(run.vocabulary))
    again = EncoderWithHead(reader, task.outputs, task.pooled, dropout=0.0).eval()
    unused = {name: tensor for name, tensor in weights_of(again).items() if name.startswith("encoder.pooler.")}
    load_weights(again, unused | found.weights, str(folder))
    return compared(folder, found.weights, model, again, texts(run))


def sound_model(run: Any, checkpoint: str) -> Any:
    """The model of a checkpoint; weights that are no numbers are kept from others."""
    model = run.model(checkpoint)
    if not all_finite(model):
        raise UserError(f"the weights of {run.folder} are not all numbers (NaN)", "use an earlier checkpoint")
    return model


def refuse_other_pieces(folder: Path, ours: Sequence[Any], theirs: Sequence[Any]) -> None:
    """What was written must cut a text as the run does."""
    for one, other in zip(ours, theirs, strict=True):
        if len(one) != len(other) or one.encode(PROBE) != other.encode(PROBE):
            raise UserError(f"{folder}: its vocabulary, read back, is another than the run's", "do not use it")


def logits_of(outputs: Any) -> list[Tensor]:
    """The logits in what the forward pass of a model returns: one output or several."""
    several = outputs if isinstance(outputs, tuple) else (outputs,)
    return [output.logits() if isinstance(output, OutputProjection) else output for output in several]


def compared(folder: Path, written: Tensors, model: Any, again: Any, question: tuple[Any, ...]) -> Exported:
    """The largest difference of two models' answers; an answer may be several tensors."""
    pairs = zip(logits_of(model(*question)), logits_of(again(*question)), strict=True)
    largest = max(float((a - b).abs().max()) for a, b in pairs)
    return Exported(folder, sum(tensor.numel() for tensor in written.values()), largest, "logits")


@torch.no_grad()
def to_other_library(run: Any, folder: Path, checkpoint: str, quantization: str) -> Exported:
    """A Transformer for CTranslate2, which calls words by their numbers; the vocabularies are put beside it."""
    if not isinstance(run, TranslationRun) or not is_standard_transformer(run.recipe.model):
        raise UserError(
            f"CTranslate2 cannot run the model of {run.folder}: task {run.recipe.task}, {run.recipe.model.summary}",
            "it has Transformers of the usual parts alone",
        )
    model = sound_model(run, checkpoint)
    write_ctranslate2(model, SYMBOLS, folder, quantization)
    src, tgt = run.vocabularies
    for name, vocabulary in ({JOINT: src} if src is tgt else {SRC: src, TGT: tgt}).items():
        vocabulary.save(folder / name)
    pool = CTranslate2Engine(folder, SYMBOLS, quantization, workers=1).pool
    sources, targets = questions(len(src), len(tgt))
    scores = model(sources, targets).logits().log_softmax(-1)  # (B, T, V)
    rows = [rows_of(tokens) for tokens in (sources, targets)]
    found = pool.score_batch(*([[str(n) for n in ids[skip:]] for ids in side] for skip, side in enumerate(rows)))
    largest = 0.0
    for row, ids, answer in zip(scores, rows[1], found, strict=True):
        ours = row[range(len(ids)), [*ids[1:], EOS]]
        largest = max(largest, float((ours - torch.tensor(answer.log_probs)).abs().max()))
    return Exported(folder, sum(tensor.numel() for tensor in weights_of(model).values()), largest, "log-probabilities")


def questions(src: int, tgt: int) -> tuple[Tokens, Tokens]:
    """Sentences of arbitrary words and their translations, from the beginning symbol on."""
    sources, targets = arbitrary(EOS + 1, src), arbitrary(EOS + 1, tgt)
    sources.ids[range(ASKED), sources.layout.lengths - 1] = EOS
    targets.ids[:, 0] = BOS
    return sources, targets


def texts(run: PretrainingRun | UnderstandingRun) -> tuple[Tokens, Tensor]:
    """Inputs of arbitrary pieces, of two texts where the model tells them apart."""
    tokens = arbitrary(0, len(run.vocabulary), min(LONGEST, run.recipe.model.length_limit or LONGEST))
    half = (torch.arange(tokens.ids.size(1)) >= tokens.ids.size(1) // 2).long()
    segments = getattr(run.recipe.model, "segments", 1)
    return tokens, (half % segments).expand_as(tokens.ids)


def arbitrary(first: int, size: int, longest: int = LONGEST) -> Any:
    """A padded batch of numbers from `first` to `size`, the same every time."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(first, size, (ASKED, longest), generator=generator)
    return Padded.of(ids, torch.tensor([max(1, longest - 3 * number) for number in range(ASKED)]))


def rows_of(tokens: Tokens) -> list[list[int]]:
    assert isinstance(tokens.layout, Padded)
    return [row[:length] for row, length in zip(tokens.ids.tolist(), tokens.layout.lengths.tolist(), strict=True)]
