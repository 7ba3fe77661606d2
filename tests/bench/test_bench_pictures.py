"""Every picture of docs/ideas has a function that draws it."""

import random
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from benchmarks.pictures import LANGUAGE, Studio, drawings, language_recipe, main
from benchmarks.pictures_computed import DRAWINGS
from benchmarks.pictures_reading import one_sentence, question, told

from regard.metrics.spans import stray

PICTURES = Path(__file__).parents[2] / "docs" / "ideas" / "pictures"


def test_every_picture_has_a_function() -> None:
    names = {path.stem for path in PICTURES.glob("*.svg")}
    assert set(drawings(Studio(Path("runs/pictures")))) == {name for name in names if not name.endswith(".zh")}
    assert {name for name in names if name.endswith(".zh")} <= {f"{name}.zh" for name in names}


@pytest.mark.parametrize("name", DRAWINGS)
def test_pictures_without_training(name: str, tmp_path: Path) -> None:
    main(["--only", name, "--output", str(tmp_path)])
    drawn, shown = ((folder / f"{name}.svg").read_text(encoding="utf-8") for folder in (tmp_path, PICTURES))
    assert [element.tag for element in ET.fromstring(drawn).iter()]
    if name in ("masks", "chat", "parsing", "tags"):  # nothing is rounded in these
        assert drawn == shown


@pytest.mark.parametrize("name", LANGUAGE)
def test_recipes_of_the_language_models(name: str) -> None:
    assert language_recipe(name).model.kind == LANGUAGE[name]["kind"]


def test_an_unknown_picture_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "sunset"])
    assert "there is no picture sunset" in capsys.readouterr().err


def test_answers_and_tags_of_generated_texts() -> None:
    rng = random.Random(1)
    for _ in range(50):
        asked, tagged = question(rng), one_sentence(rng)
        (answer,) = asked["answers"]
        assert asked["context"][answer["start"] :].startswith(f"{answer['text']} ")
        assert not stray(tagged["tags"]) and len(tagged["tags"]) == len(tagged["words"]) == len(told([tagged]).split())
