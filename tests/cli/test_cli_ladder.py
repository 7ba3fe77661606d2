"""regard ladder: one command from a recipe to a table, Markdown, JSON and a page."""

import json
from pathlib import Path

from tests.cli.command import refused, regard


def test_a_ladder_of_two_rungs(recipe: Path, tmp_path: Path) -> None:
    command = ("ladder", recipe, "--rungs", "bahdanau,plain", "--steps", 3, "--folder", tmp_path / "ladder")
    done = regard(*command)
    assert done.status == 0, done.err
    assert done.lines[2].startswith("Encoder-decoder without attention") and "Additive attention" in done.out
    files = [tmp_path / "ladder" / f"ladder.{ending}" for ending in ("md", "json", "html")]
    assert all(path.exists() for path in files)
    assert files[0].read_text(encoding="utf-8").count("\n|") == 4
    again = regard(*command, "--json")
    assert again.err.count("finished") == 2
    values = json.loads(again.out)
    assert [row["paper"] for row in values["rows"]] == ["Sutskever et al. 2014", "Bahdanau et al. 2014"]
    assert values["runs"][0]["steps"] == 3 and values["failures"] == []
    assert {**values, "files": None} == {**json.loads(files[1].read_text(encoding="utf-8")), "files": None}


def test_a_rung_that_fails_is_told_and_ends_with_a_failure(recipe: Path, tmp_path: Path) -> None:
    done = regard("ladder", recipe, "plain:model.d_model=0", "--rungs", "plain", "--folder", tmp_path / "ladder")
    assert done.status == 1
    assert "plain, seed 1 failed" in done.out and "model.d_model" in done.out


def test_mistakes_are_refused_before_anything_is_trained(recipe: Path, tmp_path: Path) -> None:
    folder = ("--folder", tmp_path / "ladder")
    assert "no rung attention" in refused("ladder", recipe, "--rungs", "attention", *folder)
    assert "1,2,3" in refused("ladder", recipe, "--seeds", "one", *folder)
    assert "neither a recipe file" in refused("ladder", "nummbers", *folder)
    assert "there is no such setting" in refused("ladder", recipe, "training.stepz=3", *folder)
    assert not (tmp_path / "ladder").exists()
