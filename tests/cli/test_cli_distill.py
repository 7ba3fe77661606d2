"""regard distill: a teacher's translations of its own sources, the same files however often it was interrupted."""

import json
from pathlib import Path

import pytest
from tests.cli.command import TRAIN_SHARE, refused, regard, sentences, translated

from regard.files import digest
from regard.run import Translator
from regard.run import distill as room
from regard.run.distill import distill

SOURCES = sentences()[:TRAIN_SHARE]


@pytest.fixture(autouse=True)
def short_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "LINES", 50)


@pytest.fixture(scope="module")
def teacher(trained: Path) -> Translator:
    return Translator.load(trained, device="cpu")


class PowerCutError(Exception):
    """The power went off."""


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


def test_a_line_for_each_source_and_the_settings_to_train_on_them(trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "distilled"
    done = regard("distill", trained, "-o", out, "--beam", 2)
    assert done.status == 0, done.err
    assert (out / "train.src").read_text(encoding="utf-8").splitlines() == SOURCES
    lines = (out / "train.tgt").read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(SOURCES)
    assert lines == regard("translate", trained, "--beam", 2, stdin="\n".join(SOURCES)).lines
    assert sum(line == translated(source) for line, source in zip(lines, SOURCES, strict=True)) > 190
    manifest = json.loads((out / "train.manifest.json").read_text(encoding="utf-8"))
    assert manifest["runs"] == [str(trained)] and manifest["checkpoint"] == "best"
    assert (manifest["decoding"]["search"], manifest["decoding"]["beam"]) == ("beam", 2)
    assert (manifest["src"], manifest["tgt"]) == (digest(out / "train.src"), digest(out / "train.tgt"))
    setting = f'data.train={{src="{out / "train.src"}", tgt="{out / "train.tgt"}"}}'
    assert f"regard train RECIPE '{setting}'" in done.out
    student = regard(
        "train", trained / "recipe.toml", setting, "training.max_steps=2", "--folder", tmp_path / "student"
    )
    assert student.status == 0, student.err


@pytest.mark.parametrize("damage", [b"", b"half a line", b"a whole line\nhalf", b"a\nb\nc\n"])
def test_interrupted_and_continued_it_gives_the_same_files(teacher: Translator, tmp_path: Path, damage: bytes) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert distill(teacher, whole).before == 0

    def stop(done: int, total: int | None) -> None:
        if done >= 100:
            raise PowerCutError

    with pytest.raises(PowerCutError):
        distill(teacher, broken, progress=stop)
    assert not (broken / "train.tgt").exists(), "nobody takes what is not whole for the whole"
    with (broken / "train.unfinished").open("ab") as stream:
        stream.write(damage)
    seen = []
    again = distill(teacher, broken, progress=lambda done, total: seen.append((done, total)))
    assert (again.before, again.lines) == (100, len(SOURCES))
    assert seen == [(150, len(SOURCES)), (len(SOURCES), len(SOURCES))]
    assert files(broken) == files(whole)


def test_when_all_is_done_nothing_is_done_again(teacher: Translator, tmp_path: Path) -> None:
    first = distill(teacher, tmp_path / "out")

    def never(done: int, total: int | None) -> None:
        raise AssertionError("nothing is left to translate")

    again = distill(teacher, tmp_path / "out", progress=never)
    assert (again.before, again.lines) == (first.lines, first.lines)


def test_a_damaged_translation_is_made_again(teacher: Translator, tmp_path: Path) -> None:
    found = distill(teacher, tmp_path / "out")
    before = files(tmp_path / "out")
    found.tgt.write_text("something else\n", encoding="utf-8")
    found.src.unlink()
    distill(teacher, tmp_path / "out")
    assert files(tmp_path / "out") == before


def test_any_part_and_as_json(trained: Path, tmp_path: Path) -> None:
    done = regard("distill", trained, "--on", "valid", "-o", tmp_path / "out", "--json")
    found = json.loads(done.out)
    assert (found["lines"], found["before"], Path(found["tgt"]).name) == (10, 0, "valid.tgt")
    assert found["setting"].startswith("data.train={src=")


def test_what_is_somebody_elses_is_left_alone(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "train.tgt").write_text("precious\n", encoding="utf-8")
    assert "was not made by distilling" in refused("distill", trained, "-o", tmp_path)
    assert (tmp_path / "train.tgt").read_text(encoding="utf-8") == "precious\n"


def test_another_way_wants_another_folder(trained: Path, tmp_path: Path) -> None:
    assert regard("distill", trained, "--on", "valid", "-o", tmp_path).status == 0
    before = files(tmp_path)
    assert "differs in decoding" in refused("distill", trained, "--on", "valid", "-o", tmp_path, "--beam", 3)
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    ("options", "said"),
    [(["--on", "all"], "write one of train, valid, test"), (["--nbest", "3"], "one translation of each source")],
)
def test_what_cannot_be_is_refused(trained: Path, tmp_path: Path, options: list[str], said: str) -> None:
    assert said in refused("distill", trained, "-o", tmp_path / "out", *options)
    assert not (tmp_path / "out").exists()
