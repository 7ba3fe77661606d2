"""regard distill: the translations of a teacher; the files do not depend on interruptions."""

import json
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.cli.command import fails, regard, translated
from tests.tiny import train_sentences

from regard.errors import UserError
from regard.files import Manifest, digest
from regard.run import distill as module
from regard.run.distill import distill, source_lines
from regard.run.model import Translator


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_LINES", 50)


@pytest.fixture(scope="module")
def teacher(trained: Path) -> Translator:
    return Translator.load(trained, device="cpu")


class InterruptionError(Exception):
    """The process was stopped."""


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != ".lock"}


def test_one_line_per_source_and_the_setting_to_train_on_them(trained: Path, tmp_path: Path) -> None:
    sources, folder = train_sentences(), tmp_path / "distilled"
    result = regard("distill", trained, "--folder", folder, "--beam", 2)
    assert result.status == 0, result.err
    assert (folder / "train.src").read_text(encoding="utf-8").splitlines() == sources
    lines = (folder / "train.tgt").read_text(encoding="utf-8").splitlines()
    assert len(lines) == len(sources)
    assert lines == regard("translate", trained, "--beam", 2, stdin="\n".join(sources)).lines
    assert sum(line == translated(source) for line, source in zip(lines, sources, strict=True)) > 190
    manifest = Manifest.read(folder / "train.manifest.json")
    assert isinstance(manifest.inputs, dict)
    assert manifest.inputs["runs"] == [str(trained)] and manifest.inputs["checkpoint"] == "best"
    assert (manifest.inputs["decoding"]["search"], manifest.inputs["decoding"]["beam"]) == ("beam", 2)
    sums = [manifest.files[name]["sha256"] for name in ("train.src", "train.tgt")]
    assert sums == [digest(folder / "train.src"), digest(folder / "train.tgt")]
    setting = f'data.train={{src="{folder / "train.src"}", tgt="{folder / "train.tgt"}"}}'
    assert f"regard train RECIPE '{setting}'" in result.out
    student = regard(
        "train", trained / "recipe.toml", setting, "training.max_steps=2", "--folder", tmp_path / "student"
    )
    assert student.status == 0, student.err


def test_copies_of_a_repeated_source_are_translated_once(teacher: Translator) -> None:
    task: Any = teacher.task
    once, recipe = list(source_lines(teacher, "train")), task.recipe
    repeated = [source.model_copy(update={"repeat": 3}) for source in recipe.data.train]
    data = recipe.data.model_copy(update={"train": repeated})
    other: Any = SimpleNamespace(task=replace(task, recipe=recipe.model_copy(update={"data": data})))
    assert len(list(other.task.read("train"))) == 3 * len(once)
    assert list(source_lines(other, "train")) == once


def test_a_limit_takes_a_fixed_sample_in_order(teacher: Translator, tmp_path: Path) -> None:
    every = list(source_lines(teacher, "train"))
    sample = list(source_lines(teacher, "train", limit=40))
    assert len(sample) == 40 and sample == [line for line in every if line in sample]
    assert set(source_lines(teacher, "train", limit=10)) < set(sample)  # a smaller sample is part of a larger one
    assert list(source_lines(teacher, "train", limit=len(every) + 1)) == every
    assert distill(teacher, tmp_path, limit=40).lines == 40
    assert (tmp_path / "train.src").read_bytes() == b"".join(sample)


@pytest.mark.parametrize("damage", [b"", b"half a line", b"a whole line\nhalf", b"a\nb\nc\n"])
def test_a_continued_distillation_gives_the_same_files(teacher: Translator, tmp_path: Path, damage: bytes) -> None:
    complete, interrupted, count = tmp_path / "complete", tmp_path / "interrupted", len(train_sentences())
    assert distill(teacher, complete).before == 0

    def stop(done: int, total: int | None) -> None:
        if done >= 100:
            raise InterruptionError

    with pytest.raises(InterruptionError):
        distill(teacher, interrupted, progress=stop)
    assert not (interrupted / "train.tgt").exists(), "the final name appears when the file is complete"
    with (interrupted / "train.tgt.unfinished").open("ab") as stream:
        stream.write(damage)
    progress = []
    continued = distill(teacher, interrupted, progress=lambda done, total: progress.append((done, total)))
    assert (continued.before, continued.lines) == (100, count)
    assert progress == [(100, count), (150, count), (count, count)]
    assert files(interrupted) == files(complete)


def test_an_interrupted_distillation_is_not_continued_with_other_settings(teacher: Translator, tmp_path: Path) -> None:
    def stop(done: int, total: int | None) -> None:
        raise InterruptionError

    with pytest.raises(InterruptionError):
        distill(teacher, tmp_path, progress=stop)
    with pytest.raises(UserError) as error:
        distill(teacher, tmp_path, beam=3)
    assert (error.value.code, error.value.where) == ("changed-settings", "decoding")


def test_sources_without_a_manifest_are_used_if_they_are_the_same(teacher: Translator, tmp_path: Path) -> None:
    """An earlier version wrote them before its manifest."""
    distill(teacher, tmp_path, "valid")
    before = files(tmp_path)
    for name in ("valid.tgt", "valid.manifest.json"):
        (tmp_path / name).unlink()
    distill(teacher, tmp_path, "valid")
    assert files(tmp_path) == before
    (tmp_path / "valid.manifest.json").unlink()
    (tmp_path / "valid.tgt").unlink()
    (tmp_path / "valid.src").write_text("other text\n", encoding="utf-8")
    with pytest.raises(UserError) as error:
        distill(teacher, tmp_path, "valid")
    assert (error.value.code, error.value.where) == ("not-distilled", str(tmp_path / "valid.src"))


def test_finished_files_are_not_made_again(teacher: Translator, tmp_path: Path) -> None:
    first = distill(teacher, tmp_path / "out")

    def never(done: int, total: int | None) -> None:
        raise AssertionError("there is nothing to translate")

    again = distill(teacher, tmp_path / "out", progress=never)
    assert (again.before, again.lines) == (first.lines, first.lines)


def test_damaged_files_are_made_again(teacher: Translator, tmp_path: Path) -> None:
    distilled = distill(teacher, tmp_path / "out")
    before = files(tmp_path / "out")
    distilled.tgt.write_text("something else\n", encoding="utf-8")
    distilled.src.unlink()
    distill(teacher, tmp_path / "out")
    assert files(tmp_path / "out") == before


def test_another_split_as_json(trained: Path, tmp_path: Path) -> None:
    result = regard("distill", trained, "--on", "valid", "--folder", tmp_path / "out", "--json")
    values = json.loads(result.out)
    assert (values["lines"], values["before"], Path(values["tgt"]).name) == (10, 0, "valid.tgt")
    assert values["setting"].startswith("data.valid={src="), "they are not proposed for training"
    assert "data.train=" not in regard("distill", trained, "--on", "valid", "--folder", tmp_path / "out").out


def test_files_of_others_are_not_overwritten(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "train.tgt").write_text("other text\n", encoding="utf-8")
    assert fails("distill", trained, "--folder", tmp_path).code == "not-distilled"
    assert (tmp_path / "train.tgt").read_text(encoding="utf-8") == "other text\n"


def test_other_settings_need_another_folder(teacher: Translator, tmp_path: Path) -> None:
    distill(teacher, tmp_path, "valid")
    before = files(tmp_path)
    with pytest.raises(UserError) as error:
        distill(teacher, tmp_path, "valid", beam=3)
    assert (error.value.code, error.value.where) == ("changed-settings", "decoding")
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    ("options", "code"), [(["--on", "all"], "invalid-option"), (["--nbest", "3"], "unsupported-option")]
)
def test_errors(trained: Path, tmp_path: Path, options: list[str], code: str) -> None:
    assert fails("distill", trained, "--folder", tmp_path / "out", *options).code == code
    assert not (tmp_path / "out").exists()


def test_every_chunk_is_on_the_disk_before_the_next(
    teacher: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    reported: list[tuple[int, int | None]] = []
    unfinished = tmp_path / "train.tgt.unfinished"

    def sync(number: int) -> None:
        if unfinished.exists() and os.fstat(number).st_ino == unfinished.stat().st_ino:
            synced.append(unfinished.read_bytes().count(b"\n") - 2)

    monkeypatch.setattr("os.fsync", sync)
    distilled = distill(teacher, tmp_path, progress=lambda done, total: reported.append((done, total)))
    total = len(train_sentences())
    chunks = [*range(50, total, 50), total]
    assert synced == list(range(len(chunks) + 1)) and reported == [(done, total) for done in [0, *chunks]]
    assert (distilled.lines, distilled.before) == (total, 0)
