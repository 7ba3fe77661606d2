"""Train every variant of a recipe on the same data with the same budget, and measure all of them in the same way.

A variant is an ordinary run in FOLDER/VARIANT-seedN, with its measurements in a ladder.json beside its weights. So a
ladder that was stopped can be continued, several processes can train different variants of one ladder (each run has its
lock), and the page is made from what is finished.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

from regard.config import SettingsTable, apply_overrides, drop_unused
from regard.errors import UserError
from regard.files import JsonObject, Manifest, checksum, locked, write_text
from regard.ladder.measuring import Measurement, measure, training_facts
from regard.messages import Message
from regard.reading import read_toml
from regard.recipe import Recipe
from regard.recipe_files import earlier_names, find_recipe
from regard.run.distill import distill
from regard.run.model import Translator
from regard.run.run import Run, absolutize
from regard.run.train import train
from regard.run_files import MANIFEST, RECIPE, STORES
from regard.tasks.base import Report
from regard.tasks.registry import build_recipe, task_of
from regard.tasks.variants import Variant, VariantSet
from regard.training.settings import TrainingSettings

RESULT, FORMAT = "ladder.json", 3
SHARED_GROUPS = ("data", "text")
"""Runs with the same settings in these groups have the same tokenizers and stores."""
BASE_RECIPES = "use a recipe such as numbers, or wikitext-2-lstm for language models"


@dataclass(frozen=True)
class Ladder:
    """A folder, the recipe that all variants change, settings of single variants, and how all are measured."""

    folder: Path
    values: SettingsTable
    source: str
    variant_settings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Further settings of a variant, by its name."""
    measurement: Measurement = field(default_factory=Measurement)

    @cached_property
    def base(self) -> Recipe:
        """The recipe that the variants change."""
        return build_recipe(self.values, self.source)

    @cached_property
    def variants(self) -> VariantSet:
        variants = task_of(self.base).variants
        if variants is None:
            problem = f"{self.source} has task {self.base.task}, for which there are no variants"
            raise UserError(problem, BASE_RECIPES, code="unsupported-task", where=self.source)
        return variants

    def recipe(self, variant: Variant, seed: int) -> Recipe:
        """The recipe of one variant; settings of the base recipe that have no effect on it are left out."""
        settings = self.variants.settings(variant, self.base.model)
        if variant.teacher:
            if self.base.data.held_out:  # other sentences would be held out of the translations
                problem = f"{variant.name} is trained on other data, but {self.source} holds out part of `data.train`"
                remedy = "set `data.valid` and `data.test` (made by `regard split`), or leave this variant out"
                raise UserError(problem, remedy, code="no-data", where="data.valid")
            path = (self.distilled_folder(variant, seed) / "train").as_posix()
            settings.append(f'data.train={{ src = "{path}.src", tgt = "{path}.tgt" }}')
        settings += [f"runtime.seed={seed}", f"name={variant.name}-seed{seed}"]
        values, source = apply_overrides(self.values, settings), f"the variant {variant.name}"
        built = build_recipe(values, source, allow_unused=True)
        values = drop_unused(built, values, built.defaults)
        return build_recipe(apply_overrides(values, self.variant_settings.get(variant.name, [])), source)

    def run_folder(self, variant: str, seed: int) -> Path:
        return self.folder / f"{variant}-seed{seed}"

    def distilled_folder(self, variant: Variant, seed: int) -> Path:
        """The folder of the teacher's translations that a variant is trained on."""
        return (self.folder / f"distilled-by-{variant.teacher}-seed{seed}").absolute()

    @property
    def test_split(self) -> str:
        """The split that the variants are evaluated on."""
        return "test" if self.base.data.test else "valid"

    @cached_property
    def config_hash(self) -> str:
        """A hash of the base recipe and of the way of measuring: results are comparable if it is equal."""
        recipe = earlier_names(self.base.model_dump(mode="json", exclude={"runtime", "name", "about"}))
        return checksum({"recipe": recipe, "measurement": asdict(self.measurement)})

    def inputs(self, variant: Variant, seed: int) -> dict[str, str]:
        """JSON that identifies the inputs of a result."""
        recipe = earlier_names(self.recipe(variant, seed).model_dump(mode="json", exclude={"about"}))
        return {"ladder": self.config_hash, "recipe": checksum(recipe)}


def open_ladder(
    source: str, settings: Sequence[str], folder: Path, steps: int | None, minutes: float | None, how: Measurement
) -> Ladder:
    """A ladder over a recipe; a setting `VARIANT:NAME=VALUE` is for one variant only."""
    variant_settings: dict[str, list[str]] = {}
    shared = []
    for setting in settings:
        name, colon, value = setting.partition(":")
        if colon and "=" not in name:
            variant_settings.setdefault(name, []).append(value)
        else:
            shared.append(setting)
    path = find_recipe(source)
    values = apply_overrides(read_toml(path), shared)
    if steps is not None:
        values = apply_overrides(values, [f"training.max_steps={steps}", *shorten_intervals(values, steps)])
    if minutes is not None:
        values = apply_overrides(values, [f"training.max_minutes={minutes}"])
    ladder = Ladder(folder, values, str(path), variant_settings, how)
    if ladder.base.model.kind != ladder.variants.kind:
        kind, other = ladder.base.model.kind, ladder.variants.kind
        problem = f"{path} has `model.kind = {kind}`, but the variants need {other}"
        raise UserError(problem, BASE_RECIPES, code="unsupported-model", where="model.kind")
    ladder.variants.select(list(variant_settings))
    return ladder


def shorten_intervals(values: SettingsTable, steps: int) -> Iterator[str]:
    """Settings that fit warm-up, validation and logging to a short training."""
    training = values.get("training", {})
    for name, share, minimum in (("warmup", 5, 0), ("validate_every", 1, 1), ("log_every", 5, 1)):
        if training.get(name, TrainingSettings.model_fields[name].default) > steps // share:
            yield f"training.{name}={max(minimum, steps // share)}"


@dataclass(frozen=True)
class VariantFailure:
    """A variant that could not be trained or measured, and why."""

    variant: str
    seed: int
    reason: str
    code: str = ""
    """The code of the UserError; empty for any other exception."""


class Interrupted(Exception):  # noqa: N818
    """The user stopped the training; its checkpoint is saved."""


def run_ladder(
    ladder: Ladder, variants: Sequence[Variant], seeds: Sequence[int], report: Report
) -> list[VariantFailure]:
    """Train and measure every variant that is not finished; the failure of one does not stop the others."""
    failures = []
    for seed in seeds:
        for variant in variants:
            folder = ladder.run_folder(variant.name, seed)
            try:
                if is_finished(ladder, variant, seed):
                    report(Message("{folder}: finished", folder=folder))
                else:
                    run_variant(ladder, variant, seed, report)
                continue
            except Interrupted:
                raise
            except UserError as error:
                reason = f"{error.problem} ({error.remedy})" if error.remedy else error.problem
                failures.append(VariantFailure(variant.name, seed, reason, error.code))
            except Exception as error:  # a bug in one model must not cost the results of the others
                failures.append(VariantFailure(variant.name, seed, f"{type(error).__name__}: {error}"))
            report(Message("{name} failed: {reason}", name=folder, reason=failures[-1].reason))
    return failures


def is_finished(ladder: Ladder, variant: Variant, seed: int) -> bool:
    """True if the variant was trained and measured with the settings of this ladder."""
    manifest = Manifest.read_or_none(ladder.run_folder(variant.name, seed) / RESULT)
    return manifest is not None and manifest.is_current(ladder.inputs(variant, seed), FORMAT)


def read_results(ladder: Ladder) -> list[JsonObject]:
    """The results in the folder that are comparable with this ladder, in the order of the variants."""
    order = {variant.name: index for index, variant in enumerate(ladder.variants.variants)}
    manifests = [Manifest.read_or_none(path) for path in sorted(ladder.folder.glob(f"*/{RESULT}"))]
    current = [(each.inputs, each.facts) for each in manifests if each and each.format == FORMAT]
    same = [
        facts for inputs, facts in current if isinstance(inputs, dict) and inputs.get("ladder") == ladder.config_hash
    ]
    results = [facts for facts in same if facts.get("variant") in order]
    return sorted(results, key=lambda result: (order[result["variant"]], result["seed"]))


def run_variant(ladder: Ladder, variant: Variant, seed: int, report: Report) -> None:
    """Train one variant, or resume it, measure it and write its result."""
    folder = ladder.run_folder(variant.name, seed)
    with locked(folder):  # an error if another process trains it; `train` takes the lock again
        pass
    if variant.teacher:
        distill_for(ladder, variant, seed, report)
    recipe = ladder.recipe(variant, seed)
    facts = {"title": variant.title, "paper": variant.paper, "seed": seed, "folder": folder}
    report(Message("\n{title} ({paper}), seed {seed}, in {folder}", **facts))
    copy_preparation(ladder, recipe, folder)
    outcome = train(recipe, folder, resume=(folder / RECIPE).exists(), report=lambda _: None).outcome
    if outcome.reason == "interrupted":
        raise Interrupted
    if outcome.step > recipe.training.max_steps:
        problem = f"{folder} was already trained for {outcome.step:,} steps, more than {recipe.training.max_steps:,}"
        remedy = "increase `--steps`, or choose a different `--folder`"
        raise UserError(problem, remedy, code="trained-longer", where=folder)
    settings = ladder.variants.settings(variant, ladder.base.model)
    result = {
        "variant": variant.name,
        "seed": seed,
        "model": recipe.model.summary,
        "settings": [*settings, *ladder.variant_settings.get(variant.name, [])],
        **training_facts(folder),
        **measure(folder, ladder.test_split, ladder.measurement, variant.searches, ladder.variants.has_alignment),
    }
    Manifest(FORMAT, ladder.inputs(variant, seed), facts=result).write(folder / RESULT)


def copy_preparation(ladder: Ladder, recipe: Recipe, folder: Path) -> None:
    """Copy tokenizers and stores of a variant with the same data; they are checked when they are opened."""
    if (folder / RECIPE).exists():
        return
    for path in sorted(ladder.folder.glob(f"*/{RECIPE}")):
        other = Run.open(path.parent).recipe
        complete = (path.parent / STORES / "valid").exists()
        if complete and all(getattr(other, group) == getattr(absolutize(recipe), group) for group in SHARED_GROUPS):
            run = Run.create(folder, recipe)
            shutil.copytree(path.parent / STORES, folder / STORES)
            for name in task_of(recipe).artifacts(recipe):
                write_text(folder / name, (path.parent / name).read_text(encoding="utf-8"))
            manifest = Manifest.read_or_none(path.parent / MANIFEST)
            run.write_manifest(manifest.inputs if manifest else None)
            return


def distill_for(ladder: Ladder, variant: Variant, seed: int, report: Report) -> None:
    """Translate the training data with the teacher of a variant (Kim and Rush 2016)."""
    teacher = ladder.run_folder(variant.teacher, seed)
    if not is_finished(ladder, ladder.variants.select([variant.teacher])[0], seed):
        problem = f"{variant.name} is trained on translations of {teacher}, which is not finished"
        raise UserError(problem, f"train {variant.teacher} first", code="unfinished-teacher", where=teacher)
    report(Message("\n{teacher} translates the training data for {student}", teacher=teacher, student=variant.name))
    translator = Translator.load(teacher, device=ladder.base.runtime.device)
    distill(translator, ladder.distilled_folder(variant, seed), search="greedy")
