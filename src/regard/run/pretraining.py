"""A run whose task is pretraining: documents, their pieces, and a BERT that learns to fill gaps in them.

tokenizer.json                   the vocabulary
store/train, store/valid         the documents in pieces

A model that comes from elsewhere is such a run too, without data: it can be used and started from.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from regard.data.digests import Digests
from regard.data.encoders import SentenceEncoder
from regard.data.examples import Example
from regard.data.formats import identify, read_examples
from regard.data.pretraining import TokenizedDocuments
from regard.data.pretraining_batches import PretrainingBatches
from regard.data.sources import Source
from regard.data.store import DIGESTS, open_or_build
from regard.errors import UserError
from regard.models.bert import BertPretraining
from regard.recipe.pretraining import PretrainingRecipe
from regard.run.folder import RECIPE, STORES, Progress, Run, Say
from regard.run.pieces import VOCABULARY, PiecesRun
from regard.runtime import World
from regard.tasks.pretraining import Pretraining


@dataclass(frozen=True)
class PretrainingRun(PiecesRun, task="pretraining"):
    """A folder with a pretrained BERT."""

    recipe: PretrainingRecipe

    def prepare(self, say: Say, progress: Progress | None = None) -> None:
        self.refuse_nothing_to_read()
        self.refuse_other_start()
        data = self.recipe.data
        self.make_pieces(
            (sentence["text"] for sentence in read_examples(data.train, data.folder, self.recipe.fields)), say
        )
        self.seal(VOCABULARY)
        for part in ("train", "valid"):
            store: TokenizedDocuments = self.prepared(part, say, progress)
            sentences = len(store.sentences) - 1
            say(f"{part}: {len(store):,} documents, {sentences:,} sentences, {len(store.tokens):,} pieces")
        say(f"vocabulary: {len(self.vocabulary):,} pieces")

    def store(self, part: str, progress: Progress | None = None) -> TokenizedDocuments:
        """The documents of "train", "valid" or "test", in pieces."""
        data = self.recipe.data
        files: list[Source] = getattr(data, part)
        if not files:
            raise UserError(f"{self.folder / RECIPE} names no {part} data", f"give it: data.{part}=...")
        folder = self.folder / STORES / part
        digests = Digests(folder / DIGESTS)
        identity = identify(files, data.folder, self.recipe.fields, digests)

        def examples() -> Iterator[Example]:
            return read_examples(files, data.folder, self.recipe.fields)

        encoder, names = SentenceEncoder(self.vocabulary), ", ".join(map(str, files))
        store = TokenizedDocuments.of(
            open_or_build(folder, identity, examples, encoder, data.workers, progress, digests, names)
        )
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

    def batches(self, world: World) -> PretrainingBatches:
        """Which inputs go together in which step."""
        return PretrainingBatches(
            self.store("train"),
            self.recipe.data,
            self.vocabulary,
            self.recipe.training.batch_tokens,
            self.recipe.runtime.seed,
            self.share(world),
            packed=self.packs(world),
        )

    def new_model(self) -> BertPretraining:
        """What is not asked is not learnt either: it would only decay, and processes would wait for its gradient."""
        model = BertPretraining(self.recipe.model, len(self.vocabulary))
        for part in (model.next, model.bert.pooler):
            part.requires_grad_(self.recipe.data.next_sentence)
        return model


def open_pretraining(folder: str | Path) -> PretrainingRun:
    """Open a folder that holds a pretrained BERT, and no other."""
    run = Run.open(folder)
    if not isinstance(run, PretrainingRun):
        raise UserError(f"{folder} is no pretrained BERT: its task is {run.recipe.task}", "regard --help has its verb")
    return run
