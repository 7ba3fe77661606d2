"""Errors of every command: a code, the file, line or setting, and no traceback."""

import errno
from pathlib import Path

import pytest
from tests.cli.command import Result, fails, regard

from regard.run.run import Run

SHORT = ("training.max_steps=1",)


@pytest.fixture
def text(recipe: Path, tmp_path: Path) -> Path:
    """A copy of the recipe and its files that a test may change."""
    for file in recipe.parent.glob("*.???"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    content = recipe.read_text(encoding="utf-8").replace(recipe.parent.as_posix(), tmp_path.as_posix())
    path = tmp_path / "words.toml"
    path.write_text(content, encoding="utf-8")
    return path


def train(recipe: Path, *more: str) -> Result:
    return fails("train", recipe, *SHORT, *more, "--folder", recipe.parent / "run")


def test_a_missing_recipe(tmp_path: Path) -> None:
    result = fails("train", tmp_path / "my.toml")
    assert result.code == "missing-file" and "my.toml" in result.err
    result = fails("train", "dtaes")
    assert result.code == "unknown-recipe" and "did you mean dates?" in result.err


def test_a_recipe_that_is_not_toml(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text("name = \n", encoding="utf-8")
    result = fails("train", path)
    assert result.code == "bad-toml" and "my.toml" in result.err and "line 1" in result.err


def test_a_missing_file(text: Path) -> None:
    (text.parent / "train.tgt").unlink()
    result = train(text)
    assert result.code == "missing-file" and "train.tgt" in result.err and "train.src" in result.err


def test_the_same_command_works_once_the_mistake_is_corrected(text: Path) -> None:
    (text.parent / "valid.tgt").rename(text.parent / "elsewhere")
    assert train(text).code == "missing-file"
    before = (text.parent / "run" / "tokenizer.json").read_bytes()
    (text.parent / "elsewhere").rename(text.parent / "valid.tgt")
    assert regard("train", text, *SHORT, "text.kind=char", "--folder", text.parent / "run").status == 0
    assert (text.parent / "run" / "tokenizer.json").read_bytes() != before
    assert train(text).code == "run-exists"


def test_files_with_different_numbers_of_lines(text: Path) -> None:
    with (text.parent / "train.src").open("a", encoding="utf-8") as stream:
        stream.write("one\n")
    result = train(text)
    assert "197" in result.err and "196" in result.err


def test_a_file_that_is_not_utf8(text: Path) -> None:
    with (text.parent / "valid.tgt").open("ab") as stream:
        stream.write(b"f\xfcnf\n")
    with (text.parent / "valid.src").open("ab") as stream:
        stream.write(b"five\n")
    result = train(text)
    assert "valid.tgt, line 11" in result.err and "0xfc" in result.err


def test_an_empty_file(text: Path) -> None:
    for side in ("src", "tgt"):
        (text.parent / f"train.{side}").write_text("", encoding="utf-8")
    result = train(text)
    assert "train.src" in result.err


def test_input_that_is_not_utf8(trained: Path, tmp_path: Path) -> None:
    result = fails("translate", trained, stdin=b"one\n\xff\n")
    assert "stdin, line 2" in result.err
    file = tmp_path / "in.txt"
    file.write_bytes(b"one\ntwo\n\xff\n")
    assert f"{file}, line 3" in fails("translate", trained, "-i", file).err


@pytest.mark.parametrize(
    ("setting", "nearest"),
    [
        ("training.max_step=5", "did you mean training.max_steps?"),
        ("trainig.max_steps=5", "did you mean training?"),
        ("lr=0.1", "did you mean training.learning_rate?"),
        ("training.lr=0.1", "did you mean training.learning_rate?"),
        ("qqq=1", "regard recipes --settings"),
        ('data.test=[{file="a.tsv"}, {fil="b.tsv"}]', "did you mean data.test.1.file?"),
    ],
)
def test_an_unknown_setting(recipe: Path, setting: str, nearest: str) -> None:
    result = fails("train", recipe, setting)
    assert result.code == "unknown-setting" and nearest in result.err


def test_a_setting_of_another_kind_of_model(recipe: Path) -> None:
    result = fails("train", recipe, 'model={kind="recurrent", size="tiny", sise="tiny"}')
    assert "model.size" in result.err and "model.sise" in result.err
    assert "kind = transformer or mask-predict" in result.err
    result = fails("train", recipe, 'model={kind="mask-predict", size="tiny"}', "decoding.search=greedy")
    assert "decoding.search" in result.err
    assert "data.train" in fails("train", recipe, "data.train=[]").err


def test_settings_with_wrong_values(recipe: Path) -> None:
    result = fails("train", recipe, "model.num_heads=many", "training.clip=-1")
    assert "2 settings" in result.err and "model.num_heads" in result.err and "training.clip" in result.err
    assert "name" in fails("train", recipe, "name=a b").err
    assert "training" in fails("train", recipe, "training").err


@pytest.mark.parametrize("command", ["translate", "evaluate", "average"])
def test_a_folder_that_is_not_a_run(command: str, tmp_path: Path, trained: Path) -> None:
    assert fails(command, tmp_path).code == "not-a-run"
    result = fails(command, trained.parent / "wrods")
    assert result.code == "not-a-run" and str(trained) in result.err, "runs near it are named"
    assert fails("train", tmp_path).code == "not-a-run"


def test_a_run_without_its_tokenizer(copied: Path) -> None:
    (copied / "tokenizer.json").unlink()
    result = fails("translate", copied, stdin="one")
    assert result.code == "missing-file" and "tokenizer.json" in result.err


def test_paths_that_cannot_be_written(
    recipe: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file.txt"
    file.write_text("", encoding="utf-8")
    for arguments, path in (
        (("train", recipe, *SHORT, "--folder", file / "run"), file / "run"),
        (("train", recipe, *SHORT, "--folder", "/proc/nowhere/run"), "/proc/nowhere/run"),
        (("translate", trained, "-o", file / "out"), file / "out"),
        (("inspect", trained, "one", "--output", file / "x.html"), file / "x.html"),
    ):
        result = fails(*arguments, stdin="one")
        assert result.code == "unwritable" and str(path) in result.err

    def forbidden(path: Path, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "mkdir", forbidden)
    result = fails("train", recipe, *SHORT, "--folder", tmp_path / "run")
    assert result.code == "unwritable" and f"{tmp_path / 'run'}" in result.err and "Permission denied" in result.err


def test_a_full_disk_while_a_page_is_written(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, *_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    (copied / "inspect.html").unlink(missing_ok=True)
    monkeypatch.setattr(Path, "write_text", full)
    assert fails("inspect", copied, "one").code == "disk-full"
    assert not (copied / "inspect.html").exists()


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ("training.learning_rate=inf", "training.learning_rate"),
        ("runtime.threads=100000", "runtime.threads"),
        ("name=..", "name"),
        ("decoding={search='sample', temperature=1e-300}", "decoding.temperature"),
    ],
)
def test_values_out_of_range(recipe: Path, tmp_path: Path, setting: str, name: str) -> None:
    result = fails("train", recipe, setting, "--folder", tmp_path / "run")
    assert result.code == "invalid-setting" and name in result.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["x" * 300 + ".tsv", "~nobody-of-this-name/x.tsv"])
def test_an_impossible_file_name(recipe: Path, tmp_path: Path, name: str) -> None:
    assert name in fails("train", recipe, f"data.train={{ file = '{name}' }}", "--folder", tmp_path / "run").err


def test_a_very_long_run_name() -> None:
    assert fails("translate", "x" * 5000, stdin="one").code == "invalid-name"


def test_settings_that_contradict_each_other(language: Path, tmp_path: Path) -> None:
    recipe = language.parents[1] / "language.toml"
    for settings, name in (
        (["training.batch_tokens=8"], "data.bptt"),
        (["training.r_drop=1.0"], "training.r_drop"),
        (["decoding.search=mask_predict"], "decoding.search"),
        (['model={kind="transformer",positions="learned",max_positions=8}'], "model.max_positions"),
        ([f"start_from={language}", 'model={kind="ngram"}'], "start_from"),
    ):
        assert name in fails("train", recipe, *settings, "--folder", tmp_path / "new").err


def test_runs_to_start_from(language: Path, trained: Path, tmp_path: Path) -> None:
    recipe = language.parents[1] / "language.toml"
    for settings in ([f"start_from={language}", "data.min_word_count=0"], [f"start_from={trained}"]):
        result = fails("train", recipe, *settings, "--folder", tmp_path / "new")
        assert result.code == "incompatible-start"
    (tmp_path / "other.txt").write_text("the king likes zebras .\n" * 40, encoding="utf-8")
    settings = [f"start_from={language}", f'data.train={{file="{tmp_path}/other.txt"}}', "training.max_steps=1"]
    folder = tmp_path / "further"
    done = regard("train", recipe, *settings, "training.warmup=0", "--folder", folder)
    assert done.status == 0, done.err
    for name in ("words.txt", "tokenizer.json"):
        assert (folder / name).read_bytes() == (language / name).read_bytes()
    assert "train: 240 tokens" in done.err and "zebras" not in (folder / "words.txt").read_text(encoding="utf-8")
    assert Run.open(folder).recipe.start_from == str(language)
