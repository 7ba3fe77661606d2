"""A run whose task is pretraining: documents, their pieces, and a BERT that learns to fill gaps in them.

tokenizer.json                   the vocabulary
store/train, store/valid         the documents in pieces

A model that comes from elsewhere is such a run too, without data: it can be used and started from.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from pathlib import Path

from regard.data.document_store import DocumentStore, open_or_build_documents
from regard.data.documents import Documents, read_documents
from regard.data.prefetch import prefetch
from regard.data.pretraining_batches import (
    MaskedBatch,
    MaskedStep,
    PackedMaskedBatch,
    PaddedMaskedBatch,
    PretrainingBatches,
)
from regard.errors import UserError
from regard.kernels import kernels_available
from regard.models.bert import BertPretraining
from regard.recipe.pretraining import PretrainingRecipe
from regard.run.folder import RECIPE, STORES, Progress, Run, Say
from regard.run.seal import refuse_changed
from regard.runtime import World
from regard.tasks.pretraining import Pretraining
from regard.text.bert import BertVocabulary
from regard.text.bert_training import learn_bert_vocabulary
from regard.training import Steps

VOCABULARY = "tokenizer.json"


@dataclass(frozen=True)
class PretrainingRun(Run, task="pretraining"):
    """A folder with a pretrained BERT."""

    recipe: PretrainingRecipe

    @cached_property
    def vocabulary(self) -> BertVocabulary:
        refuse_changed(self.folder, self.recipe)
        return BertVocabulary.load(self.folder / VOCABULARY)

    def prepare(self, say: Say, progress: Progress | None = None) -> None:
        self.refuse_nothing_to_read()
        self.refuse_other_start()
        self.make_pieces(say)
        self.seal(VOCABULARY)
        for part in ("train", "valid"):
            store: DocumentStore = self.prepared(part, say, progress)
            sentences = len(store.sentences) - 1
            say(f"{part}: {len(store):,} documents, {sentences:,} sentences, {len(store.pieces):,} pieces")
        say(f"vocabulary: {len(self.vocabulary):,} pieces")

    def make_pieces(self, say: Say) -> None:
        """Learn the vocabulary from the training text alone, or take it from the run this one starts from."""
        path, text, data = self.folder / VOCABULARY, self.recipe.text, self.recipe.data
        if self.start is not None:
            BertVocabulary.load(self.start.folder / VOCABULARY).save(path)
        elif not path.exists():
            say(f"learning the vocabulary (WordPiece, at most {text.vocab_size:,} pieces)")
            sentences = (sentence.text for sentence in read_documents(data.train, data.folder))
            learn_bert_vocabulary(sentences, text).save(path)

    def store(self, part: str, progress: Progress | None = None) -> DocumentStore:
        """The documents of "train", "valid" or "test", in pieces."""
        data = self.recipe.data
        files: list[Documents] = getattr(data, part)
        if not files:
            raise UserError(f"{self.folder / RECIPE} names no {part} data", f"give it: data.{part}=...")
        folder = self.folder / STORES / part
        store = open_or_build_documents(folder, files, data.folder, self.vocabulary, data.workers, progress)
        if data.next_sentence and len(store) < 2:
            raise UserError(
                f"{', '.join(map(str, files))} is one document, and half of the second texts must come from another",
                f"say what parts documents, as in data.{part}.boundary=blank, or write data.next_sentence=false",
            )
        return store

    def task(self) -> Pretraining:
        """The task as it is used after training."""
        recipe = self.recipe
        return Pretraining(
            self.vocabulary,
            recipe.data,
            longest=recipe.model.max_positions,
            label_smoothing=recipe.training.label_smoothing,
            seed=recipe.runtime.seed,
        )

    def training_task(self, world: World) -> Pretraining:
        return replace(self.task(), valid=self.store("valid"), samples=self.recipe.training.samples)

    def form(self, world: World) -> type[MaskedBatch]:
        """On a GPU packed batches, whose attention is one kernel and whose shape is one; otherwise padded ones."""
        packed = world.device.type == "cuda" and kernels_available()
        return PackedMaskedBatch if packed else PaddedMaskedBatch

    def suited(self, world: World) -> World:
        """Padded batches have many shapes: their steps are neither recorded nor compiled."""
        return world if self.form(world) is PackedMaskedBatch else replace(world, compile=False, capture=False)

    def batches(self, world: World) -> PretrainingBatches:
        """Which inputs go together in which step."""
        training = self.recipe.training
        return PretrainingBatches(
            self.store("train"),
            self.recipe.data,
            self.vocabulary,
            training.batch_tokens,
            self.recipe.runtime.seed,
            world.rank,
            world.size,
            training.accumulation,
            self.form(world),
        )

    def steps(self, world: World) -> Steps[MaskedBatch]:
        batches, pin = self.batches(world), world.device.type == "cuda"

        def step(number: int) -> MaskedStep:
            found = batches.batch(number)
            return replace(found, micro=[batch.pin() for batch in found.micro]) if pin else found

        def steps(first: int) -> Iterator[MaskedStep]:
            return prefetch(step(number) for number in count(first))

        return steps

    def new_model(self) -> BertPretraining:
        return BertPretraining(self.recipe.model, len(self.vocabulary))


def open_pretraining(folder: str | Path) -> PretrainingRun:
    """Open a folder that holds a pretrained BERT, and no other."""
    run = Run.open(folder)
    if not isinstance(run, PretrainingRun):
        raise UserError(f"{folder} is no pretrained BERT: its task is {run.recipe.task}", "regard --help has its verb")
    return run
