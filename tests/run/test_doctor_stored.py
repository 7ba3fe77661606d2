"""The doctor reads the tokenised pairs of a run whole, which training does only once."""

from pathlib import Path

import pytest
from tests.run.doctor_ward import write_recipe

from regard.recipe import load_recipe
from regard.run.doctor import Check, examine
from regard.run.doctor.stored import NAME
from regard.run.folder import Run


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = write_recipe(tmp_path)
    run = Run.create(tmp_path / "run", load_recipe(path))
    run.make_vocabularies(lambda _: None)
    run.store("train")
    run.store("valid")
    return path


def look(recipe: Path, quick: bool = False) -> Check | None:
    """The check of the pairs, if there is one."""
    for check in examine(recipe, folder=recipe.parent / "run", quick=quick):
        if check.name in (NAME, "filters"):
            return check if check.name == NAME else None
    raise AssertionError("the examination ended too soon")


def test_whole_stores_pass_and_a_flipped_bit_is_named(recipe: Path) -> None:
    store = recipe.parent / "run" / "store"
    found = look(recipe)
    assert found is not None and found.status == "pass"
    assert "(train, valid)" in found.finding
    content = bytearray((store / "valid" / "src.values").read_bytes())
    content[5] ^= 1
    (store / "valid" / "src.values").write_bytes(content)
    found = look(recipe)
    assert found is not None and found.status == "fail"
    assert found.finding.endswith(f"{store / 'valid'}: src.values")
    assert f"remove {store / 'valid'}:" in found.remedy
    assert (store / "valid" / "src.values").read_bytes() == content, "the doctor changes nothing"


def test_a_quick_look_leaves_them_out_and_says_so(recipe: Path) -> None:
    found = look(recipe, quick=True)
    assert found is not None and found.status == "skip"


def test_a_run_that_was_never_prepared_has_none_to_look_at(recipe: Path) -> None:
    (recipe.parent / "run").rename(recipe.parent / "elsewhere")
    assert look(recipe, quick=True) is None
