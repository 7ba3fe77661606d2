"""A run whose task is language modelling: a text in one language, its vocabulary, and the model of what comes next.

tokenizer.json                   the vocabulary
words.txt                        the words that are not rare, where rare ones are read as <unk>
store/train, store/valid         the text as one row of tokens each
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from regard.data.bptt import BPTTBatches, TokenizedText
from regard.data.digests import Digests
from regard.data.encoders import LineEncoder
from regard.data.examples import Example
from regard.data.fields import LINES
from regard.data.formats import identify, read_examples
from regard.data.sources import Source
from regard.data.store import DIGESTS, open_or_build
from regard.data.texts import TextNormalizer, frequent_words
from regard.decoding.settings import DecodingSettings
from regard.errors import UserError
from regard.files import checksum, write_text
from regard.models.language import build_language_model
from regard.models.ngram import NGram, NGramSettings
from regard.recipe import LanguageRecipe, Recipe
from regard.run.folder import RECIPE, STORES, Progress, Run, Say
from regard.run.seal import refuse_changed
from regard.runtime import World
from regard.tasks import LanguageModelling
from regard.text.factory import load_tokenizer
from regard.text.tokenizer import Tokenizer
from regard.training.checkpoint import read_weights
from regard.training.events import Log, TrainingEnded, TrainingStarted, ValidationRecord
from regard.training.log import build_log
from regard.training.loop import Outcome
from regard.training.progress import Progress as Reached
from regard.training.weights import weights_of

VOCABULARY, WORDS = "tokenizer.json", "words.txt"


@dataclass(frozen=True)
class LanguageRun(Run, task="language"):
    """A folder with a language model."""

    recipe: LanguageRecipe

    @cached_property
    def vocabulary(self) -> Tokenizer:
        refuse_changed(self.folder, self.recipe)
        return load_tokenizer(self.folder / VOCABULARY)

    @cached_property
    def reading(self) -> TextNormalizer:
        """What is done to every line, the training text's or a prompt's."""
        known = None
        if self.recipe.data.unknown_below:
            path = self.folder / WORDS
            if not path.is_file():
                raise UserError(f"{path} is missing", "bring it back from a copy; without it no word is known")
            known = frozenset(path.read_text(encoding="utf-8").split("\n")[:-1])
        return TextNormalizer(self.recipe.data.single_blanks, known)

    def begun_anew(self, recipe: Recipe) -> Any:
        if self.changed_group(recipe):
            (self.folder / WORDS).unlink(missing_ok=True)
        return super().begun_anew(recipe)

    def refuse_other_start(self) -> None:
        """Also, rare words are replaced in both runs or in neither: the other's words are the ones that are known."""
        super().refuse_other_start()
        theirs = self.start.recipe.data.unknown_below if self.start is not None else self.recipe.data.unknown_below
        if bool(theirs) != bool(self.recipe.data.unknown_below):
            raise UserError(
                f"{self.recipe.start_from}, to start from, was trained with data.unknown_below={theirs}",
                f"write data.unknown_below={theirs}",
            )

    def prepare(self, say: Say, progress: Progress | None = None) -> None:
        self.refuse_other_start()
        data = self.recipe.data
        self.make_words(say)
        lines = map(self.reading, self.lines())
        self.make_vocabulary(VOCABULARY, self.recipe.text, lines, say)
        self.seal(VOCABULARY, *([WORDS] if data.unknown_below else []))
        for part in ("train", "valid"):
            text: TokenizedText = self.prepared(part, say, progress)
            say(f"{part}: {len(text):,} tokens, {text.words:,} words, {text.lines:,} lines")
        say(f"vocabulary: {len(self.vocabulary):,} pieces")

    def lines(self) -> Iterator[str]:
        """The lines of the training text."""
        data = self.recipe.data
        return (line["text"] for line in read_examples(data.train, data.folder, self.recipe.fields))

    def make_words(self, say: Say) -> None:
        """Count which words are not rare, in the training text alone, or take those of the run this one starts from."""
        data, path = self.recipe.data, self.folder / WORDS
        if not data.unknown_below or (path.exists() and self.start is None):
            return
        if self.start is not None:
            known = self.start.reading.words  # type: ignore[attr-defined]
        else:
            known = frequent_words(self.lines(), data.unknown_below)
            say(f"{len(known):,} words are seen {data.unknown_below} times or more")
        write_text(path, "".join(f"{word}\n" for word in sorted(known)))

    def store(self, part: str, progress: Progress | None = None) -> TokenizedText:
        """The tokens of "train", "valid" or "test"."""
        data = self.recipe.data
        texts: list[Source] = getattr(data, part)
        if not texts:
            raise UserError(f"{self.folder / RECIPE} names no {part} data", f"give it: data.{part}=...")
        folder = self.folder / STORES / part
        return open_text(folder, texts, data.folder, self.vocabulary, self.reading, data.workers, progress)

    def task(self, decoding: DecodingSettings | None = None) -> LanguageModelling:
        """The task as it is used after training."""
        return LanguageModelling(
            self.vocabulary,
            self.reading,
            context=self.recipe.data.bptt,
            longest=self.recipe.model.length_limit,
            label_smoothing=self.recipe.training.label_smoothing,
            decoding=decoding or self.recipe.decoding,
        )

    def training_task(self, world: World) -> LanguageModelling:
        return replace(self.task(), valid=self.store("valid"), samples=self.recipe.training.samples)

    def batches(self, world: World) -> BPTTBatches:
        """Which tokens are read in which step."""
        training, data = self.recipe.training, self.recipe.data
        ids, seed = self.store("train").ids, self.recipe.runtime.seed
        return BPTTBatches(ids, training.batch_tokens, data.bptt, seed, self.share(world))

    def suited(self, world: World) -> World:
        """Recurrent layers are one kernel for a whole stretch as they stand: there is nothing to fuse."""
        return world if self.recipe.model.kind == "transformer" else replace(world, compile=False)

    def new_model(self) -> Any:
        return build_language_model(self.recipe.model, len(self.vocabulary))

    def fit(self, world: World, log: Log | None = None) -> Outcome:
        """Train the run; an n-gram is counted instead, and that is all."""
        if isinstance(self.recipe.model, NGramSettings):
            return self.count(self.recipe.model, world, log)
        return super().fit(world, log)

    def count(self, settings: NGramSettings, world: World, log: Log | None) -> Outcome:
        """One look at the text, one validation, one checkpoint."""
        began = time.monotonic()
        training, text = self.recipe.training, self.store("train")
        model = NGram.count(text.ids, settings.order, len(self.vocabulary))
        found = self.training_task(world).validate(model)
        score, seconds = found.metrics[training.monitor], time.monotonic() - began
        if world.is_main:
            reached = Reached(
                step=1, epoch=1.0, tokens=len(text), seconds=seconds, monitor=training.monitor,
                best=score, best_step=1, score=score, validated_step=1, metrics=found.metrics,
            )  # fmt: skip
            self.checkpoints.save(1, weights_of(model), {}, reached.to_json())
            log = log or build_log(training, self.folder, world)
            log.log(TrainingStarted(0, 1))
            log.log(ValidationRecord(1, found.metrics, True, seconds, list(found.samples)))
            log.log(TrainingEnded())
        return Outcome(1, "no more data", score, 1, found.metrics)

    def model(self, checkpoint: str = "best", device: torch.device | None = None) -> Any:
        """The model with the weights of a checkpoint; an n-gram's tables are as large as they are."""
        if not isinstance(self.recipe.model, NGramSettings):
            return super().model(checkpoint, device)
        model = self.new_model()
        model.load_state_dict(read_weights(self.checkpoints.resolve(checkpoint)))
        return model.to(device or torch.device("cpu")).eval()


def open_language(folder: str | Path) -> LanguageRun:
    """Open a folder that holds a language model, and no other."""
    run = Run.open(folder)
    if not isinstance(run, LanguageRun):
        raise UserError(f"{folder} is no language model: its task is {run.recipe.task}", "regard predict asks any run")
    return run


def open_text(
    folder: Path,
    texts: Sequence[Source],
    root: Path,
    vocabulary: Tokenizer,
    reading: TextNormalizer,
    workers: int = 0,
    progress: Progress | None = None,
) -> TokenizedText:
    """The tokens of some texts, one after another."""
    digests = Digests(folder / DIGESTS)
    known = "all" if reading.words is None else checksum(sorted(reading.words))
    identity = repr([identify(texts, root, LINES, digests), reading.single_blanks, known])

    def examples() -> Iterator[Example]:
        return ({"text": reading(line["text"])} for line in read_examples(texts, root, LINES))

    data = ", ".join(map(str, texts))
    store = open_or_build(folder, identity, examples, LineEncoder(vocabulary), workers, progress, digests, data)
    return TokenizedText.of(store)
