"""The ladder: every rung of run/rungs.py trained on the same text with the same budget, and judged alike.

A rung is a run as any other, in FOLDER/RUNG-seedN, with what was measured of it in a ladder.json beside its weights. So
a ladder that was stopped goes on, several processes climb different rungs of it at once (each run has its lock), and
whoever comes last puts the page together.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from regard.config import Table, apply_overrides, read_toml
from regard.errors import UserError
from regard.files import locked, read_json, write_json, write_text
from regard.recipe import Recipe, build_recipe, find_recipe
from regard.run.folder import RECIPE, STORES, Run, Say, with_whole_paths
from regard.run.judging import JUDGES, Measuring, training_facts
from regard.run.rungs import FLIGHTS, Flight, Rung
from regard.run.train import train
from regard.run.translator import Translator
from regard.training.settings import TrainingSettings

RESULT, FORMAT = "ladder.json", 2
SHARED = ("data", "text")  # rungs with the same of these read the same tokens
TO_CLIMB = "begin with a recipe such as numbers, or wikitext-2-lstm for models that only write"


@dataclass(frozen=True)
class Ladder:
    """A folder, the recipe that all rungs change, what is changed of single rungs, and how they are judged."""

    folder: Path
    values: Table
    source: str
    own: dict[str, list[str]] = field(default_factory=dict)
    measuring: Measuring = field(default_factory=Measuring)

    @cached_property
    def base(self) -> Recipe:
        """The recipe that the rungs change."""
        return build_recipe(self.values, self.source)

    @property
    def flight(self) -> Flight:
        """The rungs of the recipe's task."""
        if self.base.task not in FLIGHTS:
            raise UserError(f"{self.source} is a recipe of {self.base.task}, which has no ladder", TO_CLIMB)
        return FLIGHTS[self.base.task]

    def recipe(self, rung: Rung, seed: int) -> Recipe:
        """The recipe of one rung."""
        settings = self.flight.settings(rung, self.base.model)
        if rung.taught_by:
            settings.append(taught(self.distilled(rung, seed)))
        settings += [f"runtime.seed={seed}", f"name={rung.name}-seed{seed}", *self.own.get(rung.name, [])]
        return build_recipe(apply_overrides(self.values, settings), f"the rung {rung.name}")

    def run_folder(self, rung: str, seed: int) -> Path:
        return self.folder / f"{rung}-seed{seed}"

    def distilled(self, rung: Rung, seed: int) -> Path:
        """Where the translations lie that a rung learns from."""
        return (self.folder / f"distilled-by-{rung.taught_by}-seed{seed}").absolute()

    @property
    def test(self) -> Any:
        """What the rungs are judged on."""
        return self.base.data.test or self.base.data.valid

    @property
    def mark(self) -> str:
        """What makes two results comparable: the recipe they change, and how they were measured."""
        told = {
            "recipe": self.base.model_dump(exclude={"runtime", "name", "about"}),
            "measured": asdict(self.measuring),
        }
        return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()


def open_ladder(
    source: str, settings: Sequence[str], folder: Path, steps: int | None, minutes: float | None, measuring: Measuring
) -> Ladder:
    """A ladder over a recipe; settings as `RUNG:NAME=VALUE` are for one rung alone."""
    own: dict[str, list[str]] = {}
    shared = []
    for setting in settings:
        name, colon, rest = setting.partition(":")
        if colon and "=" not in name:
            own.setdefault(name, []).append(rest)
        else:
            shared.append(setting)
    path = find_recipe(source)
    values = apply_overrides(read_toml(path), shared)
    if steps is not None:
        values = apply_overrides(values, [f"training.max_steps={steps}", *shorter(values, steps)])
    if minutes is not None:
        values = apply_overrides(values, [f"training.max_minutes={minutes}"])
    found = Ladder(folder, values, str(path), own, measuring)
    if found.base.model.kind != found.flight.kind:
        raise UserError(
            f"{path} is the recipe of a model of kind {found.base.model.kind}; the rungs change one of kind "
            f"{found.flight.kind}",
            TO_CLIMB,
        )
    found.flight.find(list(own))
    return found


def shorter(values: Table, steps: int) -> Iterator[str]:
    """What must be shorter when training is."""
    training = values.get("training", {})
    for name, share, least in (("warmup", 5, 0), ("validate_every", 1, 1), ("log_every", 5, 1)):
        if training.get(name, TrainingSettings.model_fields[name].default) > steps // share:
            yield f"training.{name}={max(least, steps // share)}"


@dataclass(frozen=True)
class Failure:
    """A rung that could not be climbed, and why."""

    rung: str
    seed: int
    reason: str


class Interrupted(Exception):  # noqa: N818
    """Somebody asked to stop; what was trained is saved."""


def climb(ladder: Ladder, rungs: Sequence[Rung], seeds: Sequence[int], say: Say) -> list[Failure]:
    """Train and judge what is not finished; a rung that fails is noted, and the others go on."""
    failures = []
    for seed in seeds:
        for rung in rungs:
            folder = ladder.run_folder(rung.name, seed)
            try:
                if finished(ladder, rung, seed):
                    say(f"{folder}: finished")
                else:
                    write_json(folder / RESULT, climb_one(ladder, rung, seed, say))
                continue
            except Interrupted:
                raise
            except UserError as problem:
                failures.append(Failure(rung.name, seed, f"{problem.problem} ({problem.remedy})"))
            except Exception as problem:  # whatever is wrong with one model is no reason to lose the others
                failures.append(Failure(rung.name, seed, f"{type(problem).__name__}: {problem}"))
            say(f"{folder} failed: {failures[-1].reason}")
    return failures


def finished(ladder: Ladder, rung: Rung, seed: int) -> bool:
    """Whether this rung was trained and judged as this ladder asks for."""
    path = ladder.run_folder(rung.name, seed) / RESULT
    return path.exists() and read_json(path).get("made_of") == made_of(ladder, rung, seed)


def made_of(ladder: Ladder, rung: Rung, seed: int) -> dict[str, str]:
    """What a result depends on."""
    dump = ladder.recipe(rung, seed).model_dump(mode="json", exclude={"about"})
    recipe = hashlib.sha256(json.dumps(dump, sort_keys=True).encode()).hexdigest()
    return {"format": str(FORMAT), "ladder": ladder.mark, "recipe": recipe}


def climb_one(ladder: Ladder, rung: Rung, seed: int, say: Say) -> dict[str, Any]:
    """Train one rung, or go on with it, and judge it."""
    folder = ladder.run_folder(rung.name, seed)
    with locked(folder):  # somebody else's, if it is refused; the training takes it again
        pass
    if rung.taught_by:
        teach(ladder, rung, seed, say)
    recipe = ladder.recipe(rung, seed)
    say(f"\n{rung.title} ({rung.paper}), seed {seed}, in {folder}")
    share_preparation(ladder, recipe, folder)
    trained = train(recipe, folder, resume=(folder / RECIPE).exists(), say=lambda _: None)
    if trained.outcome.reason == "interrupted":
        raise Interrupted
    if trained.outcome.step > recipe.training.max_steps:
        raise UserError(
            f"{folder} was trained {trained.outcome.step:,} steps already, more than {recipe.training.max_steps:,}",
            "write as many --steps, or climb in another --folder",
        )
    return {
        "made_of": made_of(ladder, rung, seed),
        "rung": rung.name,
        "seed": seed,
        "model": recipe.model.summary,
        "settings": ladder.flight.settings(rung, ladder.base.model) + ladder.own.get(rung.name, []),
        **training_facts(folder),
        **JUDGES[recipe.task](folder, ladder.base.data.valid, ladder.test, ladder.measuring, rung.readings),
    }


def share_preparation(ladder: Ladder, recipe: Recipe, folder: Path) -> None:
    """Take vocabulary and tokenised text from a rung that learns from the same; what is opened is checked."""
    if (folder / RECIPE).exists():
        return
    for path in sorted(ladder.folder.glob(f"*/{RECIPE}")):
        sibling = Run.open(path.parent).recipe
        complete = (path.parent / STORES / "valid").exists()
        if complete and all(getattr(sibling, group) == getattr(with_whole_paths(recipe), group) for group in SHARED):
            Run.create(folder, recipe)
            shutil.copytree(path.parent / STORES, folder / STORES)
            for vocabulary in path.parent.glob("*tokenizer.json"):
                write_text(folder / vocabulary.name, vocabulary.read_text(encoding="utf-8"))
            return


def teach(ladder: Ladder, rung: Rung, seed: int, say: Say) -> None:
    """Let the rung that teaches this one translate the training text (Kim and Rush 2016)."""
    from regard.run.distill import distill

    teacher = ladder.run_folder(rung.taught_by, seed)
    if not finished(ladder, ladder.flight.find([rung.taught_by])[0], seed):
        raise UserError(f"{rung.name} learns from {teacher}, which is not finished", f"climb {rung.taught_by} first")
    say(f"\n{teacher} translates the training text for {rung.name}")
    distill(Translator.load(teacher, device=ladder.base.runtime.device), ladder.distilled(rung, seed), search="greedy")


def taught(folder: Path) -> str:
    """The setting that makes a run learn from distilled text."""
    return f'data.train={{ src = "{(folder / "train.src").as_posix()}", tgt = "{(folder / "train.tgt").as_posix()}" }}'
