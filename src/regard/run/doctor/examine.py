"""The straight line of an examination, from the recipe to the clock:

recipe -> device -> files -> vocabularies -> stores -> model -> memory, disk and time

Each check is yielded as soon as it is known. What later checks stand on ends the line when it fails.
"""

import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from regard.errors import UserError
from regard.models.masked import MaskedSettings
from regard.recipe import LanguageRecipe, PretrainingRecipe, TranslationRecipe, load_recipe
from regard.recipe.understanding import UnderstandingRecipe
from regard.run.doctor import costs, learning, stored, texts
from regard.run.doctor.check import FIRST_THIS, Check, guarded
from regard.run.doctor.language import examine_language
from regard.run.doctor.patient import Patient
from regard.run.doctor.pretraining import examine_pretraining
from regard.run.doctor.survey import Progress, Survey, survey, write_sample
from regard.run.doctor.understanding import examine_understanding
from regard.run.folder import STORES
from regard.run.seal import SEAL
from regard.run.translation import TranslationRun
from regard.runtime import World, close_world, open_world


def examine(
    source: str | Path,
    overrides: Sequence[str] = (),
    *,
    folder: Path | None = None,
    quick: bool = False,
    progress: Progress | None = None,
) -> Iterator[Check]:
    """Examine a recipe before hours are spent on it. Nothing is written but into a temporary folder.

    `folder` is where the run would be. `quick` reads only the beginning of the files and trains nothing.
    """
    name = "recipe"
    try:
        recipe = load_recipe(source, overrides)
        yield Check(name, "pass", f"{recipe.name}: every setting is known and fits the others")
        name = "device"
        world = open_world(recipe.runtime)
        yield costs.check_device(recipe, world)
        name = "files"
        if isinstance(recipe, LanguageRecipe):
            yield from examine_language(recipe, world, quick)
            return
        if isinstance(recipe, UnderstandingRecipe):
            yield from examine_understanding(recipe, world, quick)
            return
        if isinstance(recipe, PretrainingRecipe):
            yield from examine_pretraining(recipe, world, quick)
            return
        found = survey(recipe.data, recipe.runtime.seed, quick, progress)
        yield texts.check_files(recipe.data, found)
        yield texts.show_pairs(found)
        yield texts.check_overlap(found)
        place = folder or Path("runs") / recipe.name
        if (place / STORES).is_dir():
            yield stored.check_stores(place / STORES, quick)
        name = "filters"
        with tempfile.TemporaryDirectory(prefix="regard-doctor-") as temporary:
            patient = prepare(recipe, world, found, Path(temporary))
            yield from _examine_text(recipe, patient, found)
            yield from _examine_model(patient, place, quick)
    except UserError as error:
        yield Check(name, "fail", error.problem, error.remedy)
        yield FIRST_THIS
    finally:
        close_world()


def prepare(recipe: TranslationRecipe, world: World, found: Survey, temporary: Path) -> Patient:
    """A run in a temporary folder with the vocabularies and stores of the sample; raises where no pair is left."""
    sampled = recipe.model_copy(update={"data": write_sample(temporary, recipe.data, found)})
    run: TranslationRun = TranslationRun.create(temporary / "run", sampled)
    run.make_vocabularies(lambda _: None)
    (run.folder / SEAL).unlink()  # nothing here is kept: the model is tried with other settings too, without dropout
    patient = Patient(run, world, found.parts["train"].pairs)
    _ = patient.store
    return patient


def _examine_text(recipe: TranslationRecipe, patient: Patient, found: Survey) -> Iterator[Check]:
    vocabularies = patient.run.vocabularies
    yield texts.check_filters(recipe.data, patient.store.report, found)
    yield texts.check_vocabulary(vocabularies, recipe.data, found, recipe.text.vocab_size)
    yield texts.check_lengths(vocabularies[0], recipe.data, found)


def _examine_model(patient: Patient, folder: Path, quick: bool) -> Iterator[Check]:
    in_order = not isinstance(
        patient.run.recipe.model, MaskedSettings
    )  # others see the words they are asked for, masked
    for name, check in (
        *((("first loss", learning.check_first_loss), ("no leaks", learning.check_leaks)) if in_order else ()),
        ("gradients", learning.check_gradients),
        ("schedule", costs.check_schedule),
        ("memory", costs.check_memory),
    ):
        yield guarded(name, partial(check, patient))
    yield guarded("disk", lambda: costs.check_disk(patient, folder))
    for name, slow in (("learns by heart", learning.check_overfit), ("time", costs.check_time)):
        skipped = Check(name, "skip", "takes a while; ask without --quick")
        yield skipped if quick else guarded(name, partial(slow, patient))
