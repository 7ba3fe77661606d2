"""regard ladder: from a recipe to a table, Markdown, JSON and a page."""

import json
from pathlib import Path

from tests.cli.command import fails, regard


def test_a_ladder_of_two_variants(recipe: Path, tmp_path: Path) -> None:
    command = ("ladder", recipe, "--variants", "bahdanau,plain", "--steps", 3, "--folder", tmp_path / "ladder")
    result = regard(*command)
    assert result.status == 0, result.err
    assert result.lines[2].startswith("Encoder-decoder without attention") and "Additive attention" in result.out
    files = [tmp_path / "ladder" / f"ladder.{ending}" for ending in ("md", "json", "html")]
    assert all(path.exists() for path in files)
    assert files[0].read_text(encoding="utf-8").count("\n|") == 4
    again = regard(*command, "--json")
    assert again.err.count("finished") == 2
    values = json.loads(again.out)
    assert [row["paper"] for row in values["rows"]] == ["Sutskever et al. 2014", "Bahdanau et al. 2014"]
    assert values["runs"][0]["steps"] == 3 and values["failures"] == []
    assert {**values, "files": None} == {**json.loads(files[1].read_text(encoding="utf-8")), "files": None}


def test_a_failed_variant_is_reported_and_gives_exit_status_1(recipe: Path, tmp_path: Path) -> None:
    result = regard("ladder", recipe, "plain:model.d_model=0", "--variants", "plain", "--folder", tmp_path / "ladder")
    assert result.status == 1
    assert "plain, seed 1 failed" in result.out and "model.d_model" in result.out


def test_errors_before_anything_is_trained(recipe: Path, tmp_path: Path) -> None:
    folder = ("--folder", tmp_path / "ladder")
    assert fails("ladder", recipe, "--variants", "attention", *folder).code == "unknown-variant"
    assert fails("ladder", recipe, "--seeds", "one", *folder).code == "invalid-option"
    assert fails("ladder", "nummbers", *folder).code == "unknown-recipe"
    assert fails("ladder", recipe, "training.stepz=3", *folder).code == "unknown-setting"
    assert not (tmp_path / "ladder").exists()
