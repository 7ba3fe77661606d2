"""A run whose task is translation: pairs of text, their vocabularies and stores, and the model of both sides."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from regard.data.digests import Digests
from regard.data.dropout import BPEDropout, open_or_build_dropout
from regard.data.encoders import PairEncoder
from regard.data.examples import Example
from regard.data.fields import PAIRS
from regard.data.filters import KEEP_ALL, Filters
from regard.data.formats import identify, read_examples
from regard.data.pairs import Pairs
from regard.data.planning import Batches, Budget
from regard.data.sources import Source
from regard.data.store import DIGESTS, open_or_build
from regard.decoding.settings import DecodingSettings
from regard.engines.choose import is_standard_transformer
from regard.engines.device import ValidationEngine
from regard.errors import UserError
from regard.kernels import kernels_available
from regard.models.masked import MaskedSettings
from regard.models.translation import build_translation_model
from regard.recipe import TranslationRecipe
from regard.run.folder import RECIPE, STORES, Progress, Run, Say
from regard.run.seal import refuse_changed
from regard.runtime import World
from regard.tasks import MaskedTranslation, Objective, Translation
from regard.tasks.translation import SYMBOLS
from regard.text.factory import load_tokenizer
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer

JOINT, SRC, TGT = "tokenizer.json", "src.tokenizer.json", "tgt.tokenizer.json"
TOOLS = {"language": "regard generate writes with it"}


@dataclass(frozen=True)
class TranslationRun(Run, task="translation"):
    """A folder with a translator."""

    recipe: TranslationRecipe

    @cached_property
    def vocabularies(self) -> tuple[Tokenizer, Tokenizer]:
        """Source and target vocabulary; one and the same where they are joint."""
        refuse_changed(self.folder, self.recipe)
        if self.recipe.text.joint:
            joint = load_tokenizer(self.folder / JOINT)
            return joint, joint
        return load_tokenizer(self.folder / SRC), load_tokenizer(self.folder / TGT)

    def prepare(self, say: Say, progress: Progress | None = None) -> None:
        self.refuse_nothing_to_read()
        self.make_vocabularies(say)
        src, tgt = self.vocabularies
        pieces = f"{len(src):,}" if src is tgt else f"{len(src):,} and {len(tgt):,}"
        for part in ("train", "valid"):
            store: Pairs = self.prepared(part, say, progress)
            if part == "train":
                say(store.report.table())
            say(f"{part}: {len(store):,} pairs, {int(store.src_lengths.sum() + store.tgt_lengths.sum()):,} tokens")
        if self.recipe.text.dropout:
            say("drawing the segmentations of BPE-dropout")
            self.training_store()
        say(f"vocabulary: {pieces} pieces")

    def make_vocabularies(self, say: Say) -> None:
        """One for both sides, or one each."""
        longest = 32 * self.recipe.data.max_length

        def sides(src: bool, tgt: bool) -> Iterator[str]:
            for pair in read_examples(self.recipe.data.train, self.recipe.data.folder, PAIRS):
                wanted = [pair["src"]] * src + [pair["tgt"]] * tgt
                yield from (text for text in wanted if len(text) <= longest)

        self.refuse_other_start()
        wanted = {JOINT: (True, True)} if self.recipe.text.joint else {SRC: (True, False), TGT: (False, True)}
        for name, (src, tgt) in wanted.items():
            self.make_vocabulary(name, self.text_of(name), sides(src, tgt), say)
        self.seal(*wanted)

    def text_of(self, name: str) -> TextSettings:
        """How the vocabulary of this name is learnt."""
        return self.recipe.text

    def store(self, part: str, progress: Progress | None = None) -> Pairs:
        """The tokenised pairs of "train", "valid" or "test"."""
        data = self.recipe.data
        corpora: list[Source] = getattr(data, part)
        if not corpora:
            raise UserError(f"{self.folder / RECIPE} names no {part} data", f"give it: data.{part}=...")
        filters = Filters.of(data) if part == "train" else KEEP_ALL
        folder = self.folder / STORES / part
        store = open_pairs(folder, corpora, data.folder, self.vocabularies, filters, data.workers, progress)
        self.refuse_longer_than_positions(store, corpora)
        return store

    def refuse_longer_than_positions(self, store: Pairs, corpora: Iterable[Source]) -> None:
        """Learned positions end somewhere; what goes beyond them has no likelihood."""
        bound, name = self.recipe.model.length_limit, self.recipe.model.length_setting
        longest = int(max(store.src_lengths.max(), store.tgt_lengths.max()))
        if bound is not None and longest > bound:
            raise UserError(
                f"{', '.join(map(str, corpora))} holds a sentence of {longest:,} tokens, and model.{name} is {bound}",
                f"shorten or remove it, train with a larger model.{name}"
                + (' or with model.positions = "sinusoidal"' if hasattr(self.recipe.model, "positions") else ""),
            )

    def training_store(self, progress: Progress | None = None) -> Pairs | BPEDropout:
        """The training pairs, cut anew in every epoch where BPE-dropout is asked for."""
        store, text, data = self.store("train", progress), self.recipe.text, self.recipe.data
        if not text.dropout:
            return store
        folder, seed = self.folder / STORES / "dropout", self.recipe.runtime.seed
        return open_or_build_dropout(
            folder, store, *self.vocabularies, text.dropout, seed, data.max_length, data.workers
        )

    def pairs(self, part: str) -> list[tuple[str, str]]:
        """The text of "valid" or "test"."""
        corpora: Iterable[Source] = getattr(self.recipe.data, part)
        examples = read_examples(corpora, self.recipe.data.folder, PAIRS)
        return [(example["src"], example["tgt"]) for example in examples]

    def task(self, decoding: DecodingSettings | None = None) -> Translation:
        """The task as it is used after training."""
        training = self.recipe.training
        longest = self.recipe.data.max_length
        task = MaskedTranslation if isinstance(self.recipe.model, MaskedSettings) else Translation
        return task(
            *self.vocabularies,
            objective=Objective(training.label_smoothing, training.r_drop),
            decoding=decoding or self.recipe.decoding,
            max_source=longest,
            max_target=self.recipe.model.length_limit,
        )

    def training_task(self, world: World) -> Translation:
        training = self.recipe.training
        scored = training.monitor not in ("loss", "perplexity")
        return replace(
            self.task(),
            valid=self.store("valid"),
            valid_pairs=self.pairs("valid"),
            valid_scores=(training.monitor,) if scored else (),
            samples=training.samples,
            follow=self.follower(world),
        )

    def follower(self, world: World) -> ValidationEngine | None:
        """On a GPU validation translates with recorded steps, many times faster than step by step."""
        recorded = world.device.type == "cuda" and kernels_available() and is_standard_transformer(self.recipe.model)
        return (
            ValidationEngine(SYMBOLS, torch.bfloat16 if world.precision == "bf16" else torch.float32)
            if recorded
            else None
        )

    def batches(self, world: World) -> Batches:
        """Which pairs go together in which step."""
        budget, seed = Budget(self.recipe.training.batch_tokens), self.recipe.runtime.seed
        return Batches(self.training_store(), budget, seed, self.share(world), packed=self.packs(world))

    def new_model(self) -> Any:
        src, tgt = self.vocabularies
        return build_translation_model(self.recipe.model, len(src), len(tgt))


def open_pairs(
    folder: Path,
    corpora: Sequence[Source],
    root: Path,
    vocabularies: tuple[Tokenizer, Tokenizer],
    filters: Filters,
    workers: int = 0,
    progress: Progress | None = None,
) -> Pairs:
    """The tokenised pairs of some corpora."""
    digests = Digests(folder / DIGESTS)
    identity = identify(corpora, root, PAIRS, digests)

    def examples() -> Iterator[Example]:
        return read_examples(corpora, root, PAIRS)

    encoder = PairEncoder(*vocabularies, filters)
    data = ", ".join(map(str, corpora))
    return Pairs(open_or_build(folder, identity, examples, encoder, workers, progress, digests, data))


def open_translation(folder: str | Path) -> TranslationRun:
    """Open a folder that holds a translator, and no other."""
    run = Run.open(folder)
    if not isinstance(run, TranslationRun):
        raise UserError(
            f"{folder} is no translator: its task is {run.recipe.task}",
            TOOLS.get(run.recipe.task, "regard predict asks any run"),
        )
    return run
