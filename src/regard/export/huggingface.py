"""Export for Hugging Face transformers: BERT with its task's head, Transformers as Marian or Pegasus.

What was written is read back with our own reader and must be the same model to the bit. If transformers is installed,
it runs the export for the certificate.

B sentences, S source, T target, V vocabulary.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from regard.attention.layouts import Padded, Tokens
from regard.decoding.engine import DecodingRequest, Engine
from regard.decoding.hypothesis import Hypothesis
from regard.engines.graphs import GraphRows
from regard.engines.stepper_engine import StepperEngine, pad_rows
from regard.errors import UserError
from regard.exchange import bert, marian
from regard.exchange.graphs import graphs_of
from regard.export.target import Pair, Target, count_weights
from regard.layers.embeddings import OutputProjection
from regard.models.bert import Bert, BertPretraining, BertSettings
from regard.models.text_encoder import EncoderWithHead
from regard.models.transformer import Transformer
from regard.tasks.labelled import LABELS, read_names
from regard.text.bert import BertTokenizer
from regard.text.symbols import BOS, EOS, PAD
from regard.text.tokenizer import Tokenizer
from regard.training.weights import Tensors, load_weights, weights_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TEST_INPUTS, MAX_TOKENS = 4, 12
"""Number and length of the inputs that two models are compared on."""
TEST_TEXT = "Attention is all you need: 1, 23 & 4.5% of the Größe, naïve; 注意力 _is_ [MASK] ##ed <unk> ▁x\tİ"
"""A text to compare tokenizers on."""
POOLER = "encoder.pooler."
"""Prefix of the weights that a BERT whose head reads every token does not have in transformers."""
CPU = torch.device("cpu")


class HuggingFace(Target):
    """Models for transformers, in the class that config.json names."""

    name = "huggingface"
    search_bound = 0.8

    @property
    def packages(self) -> tuple[str, ...]:
        return ("transformers", "torch") if self.uses_transformers else ("torch",)

    @property
    def uses_transformers(self) -> bool:
        """True if transformers runs the export; its own random weights differ from those of the run."""
        return has_transformers() and not self.trained.random_weights

    @property
    def tokenizers(self) -> tuple[Tokenizer, ...]:
        """The run's tokenizers; for a translation those of source and target."""
        return tuple(self.trained.task.tokenizers.values())

    def write(self, folder: Path) -> int:
        self.write_files(folder)
        copy, weights, tokenizers = self.read_back(folder)
        ours, theirs = (
            [(len(item), item.encode(TEST_TEXT)) for item in items] for items in (self.tokenizers, tokenizers)
        )
        if ours != theirs:
            raise changed_export(folder, "the tokenizer that was written differs from the run's")
        if (difference := largest_difference(self.trained.model, copy, self.test_inputs())) > 0:
            raise changed_export(folder, f"the weights that were written differ: logits by {difference:.2g}")
        return count_weights(weights)

    def write_files(self, folder: Path) -> None:
        """Write the model; a UserError if transformers has none like it."""
        trained, model, recipe = self.trained, self.trained.model, self.trained.task.recipe
        settings, head, weights = recipe.model, trained.exchange.head, weights_of(model)
        tokenizer = self.tokenizers[0]
        if isinstance(model, Transformer) and settings.kind == "transformer":
            search = recipe.decoding
            beam = search.beam if search.search == "beam" else 1
            marian.write_marian(folder, settings, weights, (tokenizer, self.tokenizers[1]), beam, search.alpha)
            return
        if isinstance(settings, BertSettings) and settings.is_standard and isinstance(tokenizer, BertTokenizer):
            if isinstance(model, BertPretraining):
                known = {name: tensor for name, tensor in weights.items() if name not in trained.random_weights}
                bert.write_bert(folder, settings, known, tokenizer)
                return
            if head is not None:
                labels, length = tuple(read_names(trained.folder / LABELS)), recipe.data.max_length
                bert.write_finetuned(folder, bert.FineTunedBert(head, labels, settings, weights), tokenizer, length)
                return
        graphs = "" if graphs_of(model) is None else "use `--to onnx` or `--to torch-export`; for transformers, "
        remedy = f'{graphs}export a run with model.kind = "bert", or a translation run with model.kind = "transformer"'
        raise trained.unsupported("transformers", remedy)

    def read_back(self, folder: Path) -> tuple[nn.Module, Tensors, Sequence[Tokenizer]]:
        """The model that our own reader reads from the files, with the weights and tokenizers in them."""
        model, head, tokenizers = self.trained.model, self.trained.exchange.head, self.tokenizers
        copy: nn.Module
        if isinstance(model, Transformer):
            read = marian.read_marian(folder)
            weights, tokenizers = read.weights, read.tokenizers
            copy = Transformer(read.settings, *map(len, tokenizers))
        else:
            tokenizers = (bert.read_bert_tokenizer(folder),)
            if head is None:
                settings, weights = bert.read_bert(folder)
                copy = BertPretraining(settings, len(tokenizers[0]))
            else:
                finetuned = bert.read_finetuned(folder)
                weights, outputs = finetuned.weights, len(finetuned.weights["head.bias"])
                encoder = Bert(finetuned.settings, len(tokenizers[0]))
                copy = EncoderWithHead(encoder, outputs, head.pooled, dropout=0.0)
        not_written = [*self.trained.random_weights, *([] if head is None or head.pooled else [POOLER])]
        kept = {name: x for name, x in weights_of(model).items() if name.startswith(tuple(not_written))}
        load_weights(copy.eval(), kept | weights, str(folder))
        return copy, weights, tokenizers

    def test_inputs(self) -> tuple[object, ...]:
        """Arguments of `forward` to compare two models on, always the same."""
        settings, sizes = self.trained.task.recipe.model, [len(tokenizer) for tokenizer in self.tokenizers]
        if isinstance(self.trained.model, Transformer):
            sources, targets = (random_tokens(EOS + 1, size, MAX_TOKENS) for size in sizes)
            assert isinstance(sources.layout, Padded)
            sources.ids[range(TEST_INPUTS), sources.layout.lengths - 1] = EOS
            targets.ids[:, 0] = BOS
            return sources, targets
        tokens = random_tokens(0, sizes[0], min(MAX_TOKENS, settings.max_positions))
        half = (torch.arange(tokens.ids.size(1)) >= tokens.ids.size(1) // 2).long()
        segments = (half % settings.segments).expand_as(tokens.ids)
        is_pretraining = isinstance(self.trained.model, BertPretraining)
        return tokens, segments, *([torch.arange(tokens.ids.numel())] if is_pretraining else [])

    def open(self, folder: Path, device: torch.device | None = None) -> nn.Module | Engine:
        if not self.uses_transformers:
            copy = self.read_back(folder)[0]
            return StepperEngine(copy, self.trained.symbols, CPU) if isinstance(copy, Transformer) else copy
        import transformers

        with silenced(transformers):
            architecture = transformers.AutoConfig.from_pretrained(folder).architectures[0]
            model = getattr(transformers, architecture).from_pretrained(folder).eval()
        return HuggingFaceEngine(model) if hasattr(model, "lm_head") else HuggingFaceModel(model)

    def logits(self, engine: nn.Module | Engine, pairs: Sequence[Pair]) -> Tensor:
        if not isinstance(engine, HuggingFaceEngine):
            return super().logits(engine, pairs)
        ids, mask = pad_sources([source for source, _ in pairs])
        targets, _ = pad_rows([[BOS, *target] for _, target in pairs], PAD, CPU)
        with torch.no_grad():
            logits: Tensor = engine.model(input_ids=ids, attention_mask=mask, decoder_input_ids=targets).logits
        return logits


def has_transformers() -> bool:
    return find_spec("transformers") is not None


def changed_export(folder: Path, problem: str) -> UserError:
    """The error that the written files hold another model."""
    return UserError(f"{folder}: {problem}", "do not use this export", code="export-differs", where=folder)


def random_tokens(first: int, size: int, max_tokens: int) -> Tokens:
    """A padded batch of token ids from `first` to `size` - 1, always the same."""
    ids = torch.randint(first, size, (TEST_INPUTS, max_tokens), generator=torch.Generator().manual_seed(0))
    return Padded.of(ids, torch.tensor([max(1, max_tokens - 3 * number) for number in range(TEST_INPUTS)]))


@torch.no_grad()
def largest_difference(first: nn.Module, second: nn.Module, inputs: Sequence[object]) -> float:
    """The largest absolute difference between the logits of two models; a model may have several outputs."""
    pairs = zip(*(logits_of(model(*inputs)) for model in (first, second)), strict=True)
    return max(float((a - b).abs().max()) for a, b in pairs)


def logits_of(outputs: OutputProjection | Tensor | tuple[OutputProjection | Tensor, ...]) -> list[Tensor]:
    """The logits of one or several outputs of a model."""
    several = outputs if isinstance(outputs, tuple) else (outputs,)
    return [output.logits() if isinstance(output, OutputProjection) else output for output in several]


def pad_sources(sources: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Token ids (B, S) and their mask, 1 at tokens and 0 at padding."""
    ids, lengths = pad_rows(sources, PAD, CPU)
    return ids, Padded(lengths, ids.size(1)).not_padding.long()


@contextmanager
def silenced(transformers: ModuleType) -> Iterator[None]:
    """Without the progress bars and warnings of transformers."""
    log = transformers.utils.logging
    verbosity, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(verbosity)
        if bars:
            log.enable_progress_bar()


class HuggingFaceModel(nn.Module):
    """A BERT of transformers with the outputs of ours."""

    def __init__(self, model: "PreTrainedModel") -> None:
        super().__init__()
        self.model = model

    @torch.no_grad()
    def forward(self, tokens: Tokens, segments: Tensor | None, *more: Tensor) -> object:
        inputs = {"input_ids": tokens.ids, "attention_mask": tokens.layout.not_padding.long()}
        inputs["token_type_ids"] = torch.zeros_like(tokens.ids) if segments is None else segments
        name = type(self.model).__name__
        if name.endswith("MultipleChoice"):
            return self.model(**{key: value[:, None] for key, value in inputs.items()}).logits
        outputs = self.model(**inputs)
        if name.endswith("QuestionAnswering"):
            return torch.stack([outputs.start_logits, outputs.end_logits], dim=-1)
        if name.endswith("PreTraining"):
            rows = outputs.prediction_logits.flatten(0, 1).index_select(0, more[0])
            return GraphRows(rows), outputs.seq_relationship_logits
        return outputs.logits


class HuggingFaceEngine:
    """The searches of transformers (`generate`)."""

    def __init__(self, model: "PreTrainedModel") -> None:
        self.model = model

    def decode(self, request: DecodingRequest) -> list[list[Hypothesis]]:
        """The best hypothesis of each sentence, without its score."""
        import transformers

        settings, limits = request.settings, request.max_new_tokens
        beam = settings.beam if settings.search == "beam" else 1
        options = {"num_beams": beam, "do_sample": False, "early_stopping": False, "max_new_tokens": max(limits)}
        ids, mask = pad_sources(request.sources)
        with torch.no_grad(), silenced(transformers):
            penalty = settings.alpha if beam > 1 else 1.0
            outputs = self.model.generate(input_ids=ids, attention_mask=mask, length_penalty=penalty, **options)
        rows = [row[1 : limit + 1] for row, limit in zip(outputs.tolist(), limits, strict=True)]  # no start symbol
        ends = [row.index(EOS) if EOS in row else None for row in rows]
        return [[Hypothesis(row[:end], 0.0, 0.0, end is not None)] for row, end in zip(rows, ends, strict=True)]
