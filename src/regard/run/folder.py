"""A run is a folder: everything a model needs to be trained further, used, judged and understood.

recipe.toml                      every setting, defaults written out
tokenizer.json                   the vocabulary (or src.tokenizer.json and tgt.tokenizer.json)
seal.json                        what the weights depend on, to notice when it is no longer so (see run/seal.py)
store/train, store/valid         tokenised pairs; made again whenever what they depend on changes
checkpoints/                     the weights (see training/checkpoint.py)
metrics.jsonl                    losses and scores over time
evaluations/*.json, *.html       what was measured and drawn afterwards
exports/                         the model in the format of other programs (see run/exports.py)
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch

from regard.config import build, read_toml
from regard.data.corpora import Corpus, read_pairs
from regard.data.dropout import DroppingStore, open_or_build_dropout
from regard.data.filters import KEEP_ALL, Filters
from regard.data.store import Store, open_or_build
from regard.decoding import DecodingSettings
from regard.errors import UserError
from regard.files import write_text, writing
from regard.models import Transformer
from regard.recipe import Recipe
from regard.run.seal import SEAL, refuse_changed, refuse_other_model, seal
from regard.tasks import Objective, Translation
from regard.text import Vocabulary, train_vocabulary
from regard.training import Checkpoints, load_weights, read_weights
from regard.training.log import METRICS

RECIPE, JOINT, SRC, TGT = "recipe.toml", "tokenizer.json", "src.tokenizer.json", "tgt.tokenizer.json"
STORES = "store"

# Groups of settings that a run's weights and data depend on: these may not change when it goes on.
FIXED = ("task", "start_from", "text", "model", "data")
FREE = {"data": {"root", "workers", "test", "src_lang", "tgt_lang"}}

Say = Callable[[str], None]
Progress = Callable[[int, int | None], None]


@dataclass(frozen=True)
class Run:
    """One folder and its recipe."""

    folder: Path
    recipe: Recipe

    @classmethod
    def create(cls, folder: Path, recipe: Recipe) -> "Run":
        """Make the folder. Paths are kept whole, so that the run can be used from anywhere."""
        recipe = with_whole_paths(recipe)
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            write_text(folder / RECIPE, recipe.to_toml() + "\n")
        return cls(folder, recipe)

    @classmethod
    def open(cls, folder: str | Path) -> "Run":
        """Open a folder that `create` made."""
        folder = Path(folder)
        if not (folder / RECIPE).is_file():
            what = "is not a run: it has no recipe.toml" if folder.is_dir() else "there is no such folder"
            near = sorted(path.parent for base in {folder, folder.parent} for path in base.glob(f"*/{RECIPE}"))
            raise UserError(
                f"{folder}: {what}",
                f"runs near it: {', '.join(map(str, near))}" if near else "regard train RECIPE makes one",
            )
        return cls(folder, build(Recipe, read_toml(folder / RECIPE), str(folder / RECIPE)))

    def resumed_with(self, recipe: Recipe) -> "Run":
        """The same run with another recipe's settings; refused where the weights would no longer fit them."""
        changed = self.changed_group(recipe)
        if changed is not None:
            raise UserError(
                f"{self.folder} was begun with other settings in [{changed}]",
                f"go on with its own recipe (regard train {self.folder}), or start another run with --folder FOLDER",
            )
        return Run.create(self.folder, recipe)

    def begun_anew(self, recipe: Recipe) -> "Run":
        """The same folder for another recipe; only for a run that was never trained."""
        for name in (JOINT, SRC, TGT, SEAL) if self.changed_group(recipe) else ():
            (self.folder / name).unlink(missing_ok=True)
        return Run.create(self.folder, recipe)

    def changed_group(self, recipe: Recipe) -> str | None:
        """The first group of settings that the weights depend on and that `recipe` sets otherwise.

        Where the data lies may change; what it holds is known by its content.
        """
        mine, theirs = (each.model_dump(exclude=FREE) for each in (self.recipe, with_whole_paths(recipe)))
        return next((group for group in FIXED if mine[group] != theirs[group]), None)

    @property
    def start(self) -> "Run | None":
        """The run this one begins with, if it does not begin with nothing."""
        return Run.open(self.recipe.start_from) if self.recipe.start_from else None

    @property
    def was_trained(self) -> bool:
        """Whether there is anything that cannot simply be made again."""
        return bool(self.checkpoints.all()) or (self.folder / METRICS).exists()

    @property
    def checkpoints(self) -> Checkpoints:
        return Checkpoints(self.folder / "checkpoints", keep=self.recipe.training.keep)

    @cached_property
    def vocabularies(self) -> tuple[Vocabulary, Vocabulary]:
        """Source and target vocabulary; one and the same where they are joint."""
        refuse_changed(self.folder, self.recipe)
        if self.recipe.text.joint:
            joint = Vocabulary.load(self.folder / JOINT)
            return joint, joint
        return Vocabulary.load(self.folder / SRC), Vocabulary.load(self.folder / TGT)

    def make_vocabularies(self, say: Say) -> None:
        """Learn what is not there yet, from the training text alone."""
        text, longest = self.recipe.text, 32 * self.recipe.data.max_length

        def sides(src: bool, tgt: bool) -> Iterator[str]:
            for corpus in self.recipe.data.train:
                for pair in read_pairs(corpus, self.recipe.data.folder):
                    wanted = [pair.src] * src + [pair.tgt] * tgt
                    yield from (text for text in wanted if len(text) <= longest)

        if self.start is not None:
            refuse_other_model(self.start.folder, self.start.recipe, self.recipe)
        wanted = {JOINT: (True, True)} if text.joint else {SRC: (True, False), TGT: (False, True)}
        for name, (src, tgt) in wanted.items():
            if self.start is not None:
                Vocabulary.load(self.start.folder / name).save(self.folder / name)
            elif not (self.folder / name).exists():
                say(f"learning the vocabulary ({text.kind}, at most {text.vocab_size:,} pieces)")
                train_vocabulary(sides(src, tgt), text).save(self.folder / name)
        seal(self.folder, self.recipe, tuple(wanted))

    def store(self, part: str, progress: Progress | None = None) -> Store:
        """The tokenised pairs of "train", "valid" or "test"."""
        data = self.recipe.data
        corpora: list[Corpus] = getattr(data, part)
        if not corpora:
            raise UserError(f"{self.folder / RECIPE} names no {part} data", f"give it: data.{part}=...")
        filters = Filters.of(data) if part == "train" else KEEP_ALL
        folder = self.folder / STORES / part
        store = open_or_build(folder, corpora, data.folder, *self.vocabularies, filters, data.workers, progress)
        self.refuse_longer_than_positions(store, corpora)
        return store

    def refuse_longer_than_positions(self, store: Store, corpora: Iterable[Corpus]) -> None:
        """Learned positions end somewhere; what goes beyond them has no likelihood."""
        if self.recipe.model.positions != "learned":
            return
        longest = int(max(store.src_lengths.max(), store.tgt_lengths.max()))
        if longest > self.recipe.model.max_positions:
            raise UserError(
                f"{', '.join(map(str, corpora))} holds a sentence of {longest:,} tokens, and model.max_positions is "
                f"{self.recipe.model.max_positions}",
                'shorten or remove it, or train with model.positions = "sinusoidal"',
            )

    def training_store(self, progress: Progress | None = None) -> Store | DroppingStore:
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
        corpora: Iterable[Corpus] = getattr(self.recipe.data, part)
        return [(src, tgt) for corpus in corpora for src, tgt, _ in read_pairs(corpus, self.recipe.data.folder)]

    def task(self, decoding: DecodingSettings | None = None) -> Translation:
        """The task as it is used after training."""
        training = self.recipe.training
        longest = self.recipe.data.max_length
        return Translation(
            *self.vocabularies,
            objective=Objective(training.label_smoothing, training.r_drop),
            decoding=decoding or self.recipe.decoding,
            max_source=longest,
            max_target=self.recipe.model.max_positions if self.recipe.model.positions == "learned" else None,
        )

    def new_model(self) -> Transformer:
        """A model with fresh weights, whatever run it starts from."""
        src, tgt = self.vocabularies
        return Transformer(self.recipe.model, len(src), len(tgt))

    def first_model(self) -> Transformer:
        """The model as training begins: with fresh weights, or the best ones of the run it starts from."""
        model = self.new_model()
        if self.start is not None:
            path = self.start.checkpoints.resolve("best")
            load_weights(model, read_weights(path), str(path))
        return model

    def model(self, checkpoint: str = "best", device: torch.device | None = None) -> Transformer:
        """The model with the weights of a checkpoint, ready to be used."""
        path = self.checkpoints.resolve(checkpoint)
        with torch.device("meta"):
            model = self.new_model()
        model = model.to_empty(device="cpu")
        load_weights(model, read_weights(path), str(path))
        return model.to(device or torch.device("cpu")).eval()


def with_whole_paths(recipe: Recipe) -> Recipe:
    """The recipe with paths that mean the same wherever one stands."""
    data = recipe.data.model_copy(update={"root": str(recipe.data.folder.absolute())})
    start = str(Path(recipe.start_from).expanduser().absolute()) if recipe.start_from else ""
    return recipe.model_copy(update={"data": data, "start_from": start})
