"""Translation: a sentence in, a sentence out."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import torch
from torch import nn

from regard.data.dropout import open_or_build_dropout
from regard.data.encoders import KEEP_ALL, Filters, PairEncoder
from regard.data.hold_out import read_split, report_held_out
from regard.data.pairs import Pairs
from regard.data.planning import Batches, Budget, Epochs
from regard.data.store import Store
from regard.engines.choose import is_standard_transformer
from regard.engines.device import ValidationEngine
from regard.errors import UserError
from regard.kernels import kernels_available
from regard.metrics.score import Score, exact_match, perplexity
from regard.metrics.significance import Comparison, compare
from regard.metrics.translation import bleu, bleu_tokenizer_for, chrf, ter
from regard.models.masked import MaskedSettings
from regard.models.translation import build_translation_model
from regard.recipe import Recipe
from regard.run_files import STORES
from regard.runtime import World
from regard.tasks.base import AnyTask, Example, Prediction, Report, ValidationData, all_correct
from regard.tasks.checks import pair_warnings
from regard.tasks.exchange import Exchange
from regard.tasks.inputs import copy_tokenizer
from regard.tasks.languages import Languages, through_pivots
from regard.tasks.seq2seq import CHUNK_LINES, SYMBOLS, R, Seq2SeqChecks, Seq2SeqTask, TranslationRecipe
from regard.tasks.translation_tables import direction_table, length_table, lowest_chrf
from regard.tasks.variants import TRANSLATION_VARIANTS
from regard.text.factory import load_tokenizer, train_tokenizer
from regard.text.settings import TextSettings
from regard.text.symbols import PLACEHOLDERS, language_tag
from regard.training.advice import Advice
from regard.training.task import Validation
from regard.viz.content import Description, Tables

JOINT, SRC, TGT = "tokenizer.json", "src.tokenizer.json", "tgt.tokenizer.json"
SCORES: dict[str, Callable[[Sequence[str], Sequence[str]], Score]] = {
    "bleu": bleu,
    "chrf": chrf,
    "ter": ter,
    "exact_match": exact_match,
}


class TranslationTask(Seq2SeqTask[R]):
    """Base of translation and parsing: pairs of sentences, their tokenizers and scores."""

    # ---- preparation ------------------------------------------------------------------------------------------------

    @classmethod
    def artifacts(cls, recipe: R) -> tuple[str, ...]:
        return (JOINT,) if recipe.text.joint else (SRC, TGT)

    @classmethod
    def load(cls, recipe: R, folder: Path) -> Self:
        tokenizers = [load_tokenizer(folder / name) for name in cls.artifacts(recipe)]
        return cls(recipe, tokenizers[0], tokenizers[-1])

    @classmethod
    def prepare(cls, recipe: R, folder: Path, start: Path | None, report: Report) -> Self:
        max_characters = 32 * recipe.data.max_length
        report_held_out(recipe.data, recipe.fields, report)

        def lines(name: str) -> Iterator[str]:
            for pair in read_split(recipe.data, recipe.fields, "train"):
                texts = [pair["src"]] * (name != TGT) + [pair["tgt"]] * (name != SRC)
                yield from (text for text in texts if len(text) <= max_characters)

        other = start or (Path(recipe.text.tokenizer_from) if recipe.text.tokenizer_from else None)
        for name in cls.artifacts(recipe):
            text = cls.text_settings(recipe, name)
            if start is None and (folder / name).exists():
                continue  # a run that is resumed keeps its tokenizers, and the run that they came from is not needed
            if other is not None:
                copy_tokenizer(other, folder, name)
            else:
                report(f"learning the vocabulary ({text.kind}, at most {text.vocab_size:,} tokens)")
                train_tokenizer(lines(name), text, cls.symbols(recipe, name)).save(folder / name)
        return cls.load(recipe, folder)

    @classmethod
    def symbols(cls, recipe: R, name: str) -> list[str]:
        """Language tags and placeholders of the tokenizer in file `name`; tags are in sources only."""
        tags = [language_tag(language) for language in recipe.data.tagged_languages if name != TGT]
        return [*tags, *(PLACEHOLDERS if recipe.data.placeholders else ())]

    @classmethod
    def text_settings(cls, recipe: R, name: str) -> TextSettings:
        """The settings of the tokenizer in file `name`."""
        return recipe.text

    # ---- data -------------------------------------------------------------------------------------------------------

    def encoder(self, filtered: bool) -> PairEncoder:
        filters = Filters.of(self.recipe.data) if filtered else KEEP_ALL
        data = self.recipe.data
        shares = (data.placeholders, data.typing_noise) if filtered else ()
        return PairEncoder(self.src_tokenizer, self.tgt_tokenizer, filters, *shares)

    def view(self, store: Store) -> Pairs:
        pairs = Pairs(store)
        self.check_positions(pairs)
        return pairs

    def check_positions(self, store: Pairs) -> None:
        """Raise UserError if a sentence has more tokens than the model has positions."""
        bound, setting = self.recipe.model.length_limit, self.recipe.model.length_setting
        longest = int(max(store.src_lengths.max(), store.tgt_lengths.max()))
        if bound is not None and longest > bound:
            other = ' or with model.positions = "sinusoidal"' if hasattr(self.recipe.model, "positions") else ""
            raise UserError(
                f"the data has a sentence of {longest:,} tokens, and model.{setting} is {bound}",
                f"shorten or remove it, or train with a larger model.{setting}{other}",
                code="too-long",
                where=f"model.{setting}",
            )

    def describe_store(self, split: str, store: Pairs) -> str:
        tokens = int(store.src_lengths.sum() + store.tgt_lengths.sum())
        line = f"{split}: {len(store):,} pairs, {tokens:,} tokens"
        limit = self.recipe.data.max_length
        if split == "valid" and (too_long := len(store) - len(store.within(limit))):
            line += f"; validation leaves out {too_long:,} pairs of more than data.max_length = {limit} tokens"
        return f"{store.report.table()}\n{line}" if split == "train" else line

    def training_view(self, folder: Path, store: Pairs, report: Report) -> Any:
        """With BPE-dropout, the pairs are segmented differently in every epoch."""
        text, data = self.recipe.text, self.recipe.data
        if not text.dropout:
            return store
        report("sampling the segmentations of BPE-dropout")
        return open_or_build_dropout(
            folder / STORES / "dropout", store, self.src_tokenizer, self.tgt_tokenizer, text.dropout,
            self.recipe.runtime.seed, data.max_length, data.workers,
        )  # fmt: skip

    def batches(self, store: Epochs, world: World) -> Batches:
        budget, seed = Budget(self.recipe.training.batch_tokens), self.recipe.runtime.seed
        return Batches(store, budget, seed, self.share(world), packed=self.supports_packing(world))

    def validation_data(self, folder: Path, store: Pairs, world: World) -> ValidationData[Pairs]:
        """Pairs within data.max_length: one line of a book would take the time and memory of all others together.

        On a GPU, validation decodes with CUDA graphs, which is many times faster.
        """
        limit, engine = self.recipe.data.max_length, None
        rows, examples = store.within(limit), self.examples("valid")
        if not len(rows):
            raise UserError(
                f"every pair of data.valid has more than data.max_length = {limit} tokens",
                "raise data.max_length, or split the long lines",
                code="no-data",
                where="data.valid",
            )
        if len(rows) < len(store):
            store, examples = store.select(rows), [examples[row] for row in rows]
        if world.device.type == "cuda" and kernels_available() and is_standard_transformer(self.recipe.model):
            engine = ValidationEngine(SYMBOLS, torch.bfloat16 if world.precision == "bf16" else torch.float32)
        return ValidationData(store, examples, engine)

    # ---- training ---------------------------------------------------------------------------------------------------

    def new_model(self) -> nn.Module:
        return build_translation_model(self.recipe.model, len(self.src_tokenizer), len(self.tgt_tokenizer))

    def validate(self, model: nn.Module, data: ValidationData[Pairs]) -> Validation:
        training = self.recipe.training
        nll, count = self.likelihood(model, data.store)
        metrics = {"loss": nll / max(1, count), "perplexity": perplexity(nll, count)}
        scored = training.monitor not in metrics
        examples = data.examples if scored else data.examples[: training.samples]
        engine = data.engine(model) if data.engine and examples else model
        quick = replace(self, decoding=self.quick_search)
        predictions = list(quick.predict(engine, examples))
        if scored:
            metrics |= self.validation_scores(examples, predictions)
        return Validation(metrics, [self.describe(*row).lines() for row in zip(examples, predictions, strict=True)])

    def validation_scores(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, float]:
        """The monitored score of the validation outputs."""
        monitor = self.recipe.training.monitor
        outputs, references = [item["translation"] for item in predictions], [item["tgt"] for item in examples]
        return {monitor: SCORES[monitor](outputs, references).value}

    # ---- use --------------------------------------------------------------------------------------------------------

    def score(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, Score]:
        outputs, references = [item["translation"] for item in predictions], [item["tgt"] for item in examples]
        return {
            "bleu": bleu(outputs, references, tokenize=self.bleu_tokenizer or bleu_tokenizer_for(references)),
            "chrf": chrf(outputs, references),
            "ter": ter(outputs, references),
            "exact_match": exact_match(outputs, references),
        }

    def score_store(self, model: nn.Module, store: Pairs) -> list[Score]:
        nll, count = self.likelihood(model, store)
        return [Score("perplexity", perplexity(nll, count), f"per token of this run's vocabulary, {count} tokens")]

    def compare(
        self, examples: Sequence[Example], base: Sequence[Prediction], other: Sequence[Prediction]
    ) -> list[Comparison]:
        first, second = ([item["translation"] for item in predictions] for predictions in (base, other))
        references = [item["tgt"] for item in examples]
        tokenizer = self.bleu_tokenizer or bleu_tokenizer_for(references)
        return list(compare(first, second, references, tokenize=tokenizer).values())

    def correct(self, example: Example, prediction: Prediction) -> dict[str, float]:
        """Right or wrong only if exact matches are what counts."""
        if self.recipe.training.monitor != "exact_match":
            return {}
        return {"exact match": float(prediction["translation"] == example["tgt"])}

    def describe(self, example: Example, prediction: Prediction) -> Description:
        reference = example.get("tgt", "")
        correct = all_correct(self.correct(example, prediction)) if reference else None
        return Description(example["src"], [prediction["translation"]], reference, correct)

    def tables(self, examples: Sequence[Example], predictions: Sequence[Prediction], page: bool) -> Tables:
        """Scores by direction if the examples have several, and on a page by length, and the worst translations."""
        tables = direction_table(examples, predictions, self.bleu_tokenizer)
        more = [length_table(self, examples, predictions), *lowest_chrf(examples, predictions)] if page else []
        return [*tables, *more]

    def facts(self) -> dict[str, str]:
        data, (src, tgt) = self.recipe.data, (self.src_tokenizer, self.tgt_tokenizer)
        same = src is tgt or src.to_json() == tgt.to_json()
        languages = ", ".join(f"{source} → {target}" for source, target in data.directions)
        languages = languages or data.src_lang or data.tgt_lang
        vocabulary = f"{len(src):,} tokens" if same else f"{len(src):,} and {len(tgt):,} tokens"
        return ({"languages": languages} if languages else {}) | {"vocabulary": vocabulary}

    def next_commands(self, folder: str, example: str) -> list[str]:
        data = self.recipe.data
        chat = [f"regard chat {folder}"] if any(source.format == "dialogues" for source in data.train) else []
        to = f" --to {next(iter(tags))}" if (tags := self.src_tokenizer.language_tags) else ""
        inspect = [f"regard inspect {folder} {example}{to}"] if self.has_attention else []
        evaluate = f"regard evaluate {folder}{'' if data.test else ' --on valid'}"
        return [*chat, f"echo {example} | regard translate {folder}{to}", evaluate, *inspect]


class TranslationChecks(Seq2SeqChecks["Translation"]):
    """Hooks for translations: sources and targets belong together."""

    def data_warnings(self, samples: Mapping[str, Sequence[Example]]) -> list[Advice] | None:
        return pair_warnings({split: [(e["src"], e["tgt"]) for e in examples] for split, examples in samples.items()})


class Translation(TranslationTask[TranslationRecipe]):
    """{"src", "prefix"?} -> {"translation", "score", "finished", "looped", "parts", "hypotheses"}."""

    name = "translation"
    exchange = Exchange("translate", "translation")
    comparable = True
    title = "a text in another language"
    recipe_type = TranslationRecipe
    command = "translate"
    variants = TRANSLATION_VARIANTS
    checks = TranslationChecks()

    @cached_property
    def languages(self) -> Languages:
        return Languages(self.recipe.data.directions, self.src_tokenizer.language_tags, self.src_tokenizer.placeholders)

    def pivot(self, example: Example) -> str | None:
        """The language through which an example is translated, if the model does not translate it directly."""
        source, target = example.get("from") or self.source_language, example.get("to") or self.target_language
        return self.languages.pivot(source, target)

    def predict(self, engine: Any, examples: Iterable[Example]) -> Iterator[Prediction]:
        if len(self.languages.directions) > 1:
            examples = through_pivots(self, engine, examples, CHUNK_LINES)
        return super().predict(engine, examples)

    def last_step(self, engine: Any, example: Example) -> Example:
        """The example; if it is translated through a pivot language, its translation into that language."""
        return next(through_pivots(self, engine, [example], CHUNK_LINES))

    @classmethod
    def resolve(cls, recipe: Recipe) -> type[AnyTask]:
        """A model that fills in masked tokens has its own loss and search."""
        from regard.tasks.masked_translation import MaskedTranslation

        return MaskedTranslation if isinstance(recipe.model, MaskedSettings) else cls
