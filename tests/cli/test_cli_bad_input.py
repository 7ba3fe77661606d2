"""Whatever a user gets wrong is named, with its file, line or key, and never answered with a traceback."""

import errno
from pathlib import Path

import pytest
from tests.cli.command import refused, regard

from regard.text.factory import load_tokenizer

SHORT = ("training.max_steps=1",)


@pytest.fixture
def text(recipe: Path, tmp_path: Path) -> Path:
    """A copy of the recipe and its files that a test may spoil."""
    for file in recipe.parent.glob("*.???"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    content = recipe.read_text(encoding="utf-8").replace(recipe.parent.as_posix(), tmp_path.as_posix())
    path = tmp_path / "words.toml"
    path.write_text(content, encoding="utf-8")
    return path


def train(recipe: Path, *more: str) -> str:
    return refused("train", recipe, *SHORT, *more, "--folder", recipe.parent / "run")


def test_a_recipe_that_is_not_there(tmp_path: Path) -> None:
    assert "my.toml: no such recipe" in refused("train", tmp_path / "my.toml")
    assert "did you mean dates?" in refused("train", "dtaes")


def test_a_recipe_that_is_no_toml(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text("name = \n", encoding="utf-8")
    said = refused("train", path)
    assert "my.toml is not valid TOML" in said
    assert "line 1" in said


def test_a_missing_file(text: Path) -> None:
    (text.parent / "train.tgt").unlink()
    said = train(text)
    assert "train.tgt: no such file" in said
    assert "train.src" in said


def test_once_a_mistake_is_mended_the_same_command_works(text: Path) -> None:
    (text.parent / "valid.tgt").rename(text.parent / "elsewhere")
    assert "valid.tgt: no such file" in train(text)
    before = load_tokenizer(text.parent / "run" / "tokenizer.json")
    (text.parent / "elsewhere").rename(text.parent / "valid.tgt")
    assert regard("train", text, *SHORT, "text.kind=char", "--folder", text.parent / "run").status == 0
    assert load_tokenizer(text.parent / "run" / "tokenizer.json").to_json() != before.to_json()
    assert "holds a run already" in train(text)


def test_sides_of_unequal_length(text: Path) -> None:
    with (text.parent / "train.src").open("a", encoding="utf-8") as stream:
        stream.write("one\n")
    said = train(text)
    assert "train.src has 197 lines" in said
    assert "train.tgt has 196" in said


def test_a_file_that_is_not_utf8(text: Path) -> None:
    with (text.parent / "valid.tgt").open("ab") as stream:
        stream.write(b"f\xfcnf\n")
    with (text.parent / "valid.src").open("ab") as stream:
        stream.write(b"five\n")
    assert "valid.tgt, line 11 is not UTF-8: byte 0xfc" in train(text)


def test_an_empty_file(text: Path) -> None:
    for side in ("src", "tgt"):
        (text.parent / f"train.{side}").write_text("", encoding="utf-8")
    assert "train.src is empty" in train(text)


def test_input_that_is_not_utf8_is_named_by_its_line(trained: Path, tmp_path: Path) -> None:
    assert "stdin, line 2 is not UTF-8" in refused("translate", trained, stdin=b"one\n\xff\n")
    file = tmp_path / "in.txt"
    file.write_bytes(b"one\ntwo\n\xff\n")
    assert f"{file}, line 3 is not UTF-8" in refused("translate", trained, "-i", file)


def test_an_unknown_setting_is_answered_with_the_nearest(recipe: Path) -> None:
    assert "training.max_step: there is no such setting; did you mean training.max_steps?" in refused(
        "train", recipe, "training.max_step=5"
    )
    assert "did you mean training?" in refused("train", recipe, "trainig.max_steps=5")
    for abbreviated in ("lr=0.1", "training.lr=0.1"):
        assert "did you mean training.learning_rate?" in refused("train", recipe, abbreviated)
    assert "regard recipes --settings lists them all" in refused("train", recipe, "qqq=1")
    said = refused("train", recipe, 'data.test=[{file="a.tsv"}, {fil="b.tsv"}]')
    assert "data.test.1.fil: there is no such setting; did you mean data.test.1.file?" in said


def test_a_setting_of_another_kind_of_model_says_whose_it_is(recipe: Path) -> None:
    said = refused("train", recipe, 'model={kind="recurrent", size="tiny", sise="tiny"}')
    assert "model.size: is for kind = transformer or masked, not recurrent; leave it out" in said
    assert "model.sise: there is no such setting" in said
    said = refused("train", recipe, 'model={kind="masked", size="tiny"}', "decoding.search=greedy")
    assert 'write decoding = { search = "mask_predict" }' in said
    assert "data.valid: must name at least one" in refused("train", recipe, "data.valid=[]")


def test_a_setting_of_the_wrong_type(recipe: Path) -> None:
    said = refused("train", recipe, "model.num_heads=many", "training.clip=-1")
    assert "2 settings cannot be used" in said
    assert "model.num_heads: must be a valid integer, not 'many'" in said
    assert "name: cannot be 'a b'; it is the run's name, of letters" in refused("train", recipe, "name=a b")
    assert "training.clip: must be greater than or equal to 0, not -1" in said


def test_a_setting_without_a_value(recipe: Path) -> None:
    assert "'training' is not a setting" in refused("train", recipe, "training")


@pytest.mark.parametrize("verb", ["translate", "evaluate", "average"])
def test_a_folder_that_is_no_run(verb: str, tmp_path: Path, trained: Path) -> None:
    assert f"{tmp_path}: is not a run: it has no recipe.toml" in refused(verb, tmp_path)
    said = refused(verb, trained.parent / "wrods")
    assert "there is no such folder" in said
    assert str(trained) in said
    assert "is not a run" in refused("train", tmp_path)


def test_a_run_whose_files_were_lost(copied: Path) -> None:
    (copied / "tokenizer.json").unlink()
    assert "tokenizer.json: no such vocabulary" in refused("translate", copied, stdin="one")


def test_a_place_that_cannot_be_written(
    recipe: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file.txt"
    file.write_text("", encoding="utf-8")
    assert f"{file / 'run'} cannot be written" in refused("train", recipe, *SHORT, "--folder", file / "run")
    assert "/proc/nowhere/run cannot be written" in refused("train", recipe, *SHORT, "--folder", "/proc/nowhere/run")
    assert f"{file / 'out'} cannot be written" in refused("translate", trained, "-o", file / "out", stdin="one")
    assert f"{file / 'x.html'} cannot be written" in refused("inspect", trained, "one", "--output", file / "x.html")

    def forbidden(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "mkdir", forbidden)
    said = refused("train", recipe, *SHORT, "--folder", tmp_path / "run")
    assert f"{tmp_path / 'run'} cannot be written: Permission denied" in said
    assert "choose a folder with write permission" in said


def test_a_full_disk_while_a_page_is_written(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, *_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_text", full)
    assert "the disk is full" in refused("inspect", copied, "one")
    assert not (copied / "inspect.html").exists()


@pytest.mark.parametrize(
    ("setting", "answer"),
    [
        ("training.learning_rate=inf", "training.learning_rate: must be a finite number"),
        ("runtime.threads=100000", "runtime.threads: must be less than or equal to"),
        ("name=..", "name: cannot be '..'"),
        ("decoding={search='sample', temperature=1e-300}", "decoding.temperature: must be greater than or equal to"),
    ],
)
def test_numbers_and_names_beyond_reason(recipe: Path, tmp_path: Path, setting: str, answer: str) -> None:
    assert answer in refused("train", recipe, setting, "--folder", tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["x" * 300 + ".tsv", "~nobody-of-this-name/x.tsv"])
def test_a_name_no_file_can_have(recipe: Path, tmp_path: Path, name: str) -> None:
    said = refused("train", recipe, f"data.train={{ file = '{name}' }}", "--folder", tmp_path / "run")
    assert name in said


def test_a_run_of_a_name_too_long() -> None:
    assert "so long a name" in refused("translate", "x" * 5000, stdin="one")


def test_an_evaluation_that_cannot_be_kept_is_refused_before_the_work(copied: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = refused("evaluate", copied, "--output", tmp_path / "file" / "scores.json")
    assert "cannot be written" in said and "translating" not in said
