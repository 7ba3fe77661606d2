"""Commands that are stopped: what is done stays beside the output, and the same command continues to the same bytes."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cli.command import Result, regard, sentences

from regard.work import Work

SENTENCES = sentences()[:40]
HTML = "".join(f"<p>{line}</p>\n" for line in SENTENCES)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    for room in ("tasks.encoders", "tasks.pretraining", "run.embedding"):
        monkeypatch.setattr(f"regard.{room}.BATCH_TOKENS", 64)


class Stop:
    """Sends a signal when a number of batches is in the file, and counts the batches that are computed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.after, self.computed, append = 0, 0, Work._append

        def stop(work: Work, value: object) -> bytes:
            content = append(work, value)
            self.computed += isinstance(value, list)
            if isinstance(value, list) and self.computed == self.after:
                os.kill(os.getpid(), signal.SIGTERM if self.after % 2 else signal.SIGINT)
            return content

        monkeypatch.setattr(Work, "_append", stop)

    def at(self, batch: int, command: Callable[[], Result]) -> Result:
        self.after, self.computed = batch, 0
        return command()


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stop]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores Ctrl-C
    yield Stop(monkeypatch)
    signal.signal(signal.SIGINT, before)


CASES = {
    "translate": ("trained", ["translate"], "out.txt", "--batch-tokens 16"),
    "sample": ("trained", ["translate"], "out.txt", "--search sample --seed 3 --batch-tokens 16"),
    "compressed": ("trained", ["translate"], "out.txt.gz", "--batch-tokens 16 --json"),
    "document": ("trained", ["translate"], "out.html", "--batch-tokens 16"),
    "predict": ("classifier", ["predict"], "out.jsonl", ""),
    "table": ("classifier", ["predict"], "out.csv", ""),
    "tagging": ("tagger", ["predict"], "out.jsonl", ""),
    "masks": ("pretrained", ["predict"], "out.jsonl", ""),
    "language": ("language", ["predict"], "out.jsonl", "--batch-tokens 8 --max-length 5"),
    "parsing": ("parser", ["predict"], "out.ptb", "--batch-tokens 64"),
    "npy": ("classifier", ["embed"], "out.npy", ""),
    "npz": ("classifier", ["embed"], "out.npz", "--pool tokens"),
    "vectors": ("classifier", ["embed"], "out.jsonl", ""),
}


@pytest.mark.parametrize("case", CASES)
def test_a_stopped_command_continues(case: str, stop: Stop, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    fixture, command, name, options = CASES[case]
    run, output = request.getfixturevalue(fixture), tmp_path / name
    source = tmp_path / ("in.html" if case == "document" else "in.txt")
    text = HTML if case == "document" else "\n".join(SENTENCES) + "\n"
    source.write_text(text.replace(" ", " [MASK] ") if case == "masks" else text, encoding="utf-8")

    def call() -> Result:
        return regard(*command, run, "-i", source, "-o", output, *options.split())

    assert (whole := stop.at(0, call)).status == 0, whole.err
    expected, batches = output.read_bytes(), stop.computed
    assert batches > 4 and [path for path in tmp_path.iterdir() if path != source] == [output]
    output.unlink()
    for number in (1, 2):  # stopped twice
        stopped = stop.at(number, call)
        assert stopped.status == 130 and not output.exists()
        assert str(tmp_path / f"{name}.unfinished") in stopped.err
    assert stop.at(0, call).status == 0
    assert output.read_bytes() == expected and stop.computed == batches - 3
    assert [path for path in tmp_path.iterdir() if path != source] == [output]


def test_a_stopped_evaluation_continues(stop: Stop, trained: Path, tmp_path: Path) -> None:
    output = tmp_path / "scores.json"

    def call() -> Result:
        return regard("evaluate", trained, "--against", trained, "-o", output, "--batch-tokens", 16, "--json")

    def values() -> str:
        return output.read_text(encoding="utf-8").partition('"seconds"')[2].partition("\n")[2]

    assert stop.at(0, call).status == 0
    expected, batches = values(), stop.computed // 2
    output.unlink()
    assert batches > 2 and stop.at(batches + 1, call).status == 130 and not output.exists()
    assert stop.at(0, call).status == 0
    assert values() == expected and stop.computed == batches - 1, "the first run is not evaluated again"
    assert list(tmp_path.iterdir()) == [output]


def test_a_stopped_distillation_continues(stop: Stop, trained: Path, tmp_path: Path) -> None:
    def call(folder: str) -> Result:
        return regard("distill", trained, "--folder", tmp_path / folder, "--batch-tokens", 200)

    assert stop.at(0, lambda: call("whole")).status == 0
    batches = stop.computed
    stopped = stop.at(3, lambda: call("stopped"))
    assert stopped.status == 130 and "train.tgt.unfinished" in stopped.err
    assert stop.at(0, lambda: call("stopped")).status == 0 and stop.computed == batches - 3
    whole, other = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("whole", "stopped")
    )
    assert whole == other


def test_another_input_option_or_run_starts_anew(stop: Stop, copied: Path, tmp_path: Path) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("\n".join(SENTENCES) + "\n", encoding="utf-8")

    def call(*options: object) -> Result:
        return regard("translate", copied, "-i", source, "-o", output, "--batch-tokens", 16, *options)

    def changed(*options: object) -> str:
        """Stop the command, do it with a change, and compare with the same command in one go."""
        result = stop.at(0, lambda: call(*options))
        written, computed = output.read_bytes(), stop.computed
        output.unlink()
        assert stop.at(0, lambda: call(*options)).status == 0
        assert output.read_bytes() == written and stop.computed == computed, "nothing was taken over"
        return result.err

    assert stop.at(2, call).status == 130
    assert "changed: options" in changed("--beam", 2)
    assert stop.at(2, call).status == 130
    source.write_text("\n".join(SENTENCES[1:]) + "\n", encoding="utf-8")
    assert "changed: input" in changed()
    assert stop.at(2, call).status == 130
    recipe = copied / "recipe.toml"
    recipe.write_text(recipe.read_text(encoding="utf-8").replace("name =", "name=", 1) + "\n", encoding="utf-8")
    assert "changed: run" in changed()


def test_progress_has_a_total_for_files_and_tables(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    totals: list[int | None] = []
    monkeypatch.setattr("regard.viz.progress.ProgressLine.__call__", lambda _, done, total=None: totals.append(total))
    (tmp_path / "in.txt").write_text("one two\nthree\n", encoding="utf-8")
    (tmp_path / "in.csv").write_text('src,tgt\n"one\ntwo",a\nthree,b\nfour,c\n', encoding="utf-8")
    shutil.copy(tmp_path / "in.txt", tmp_path / "in")
    for name, total in {"in.txt": 2, "in.csv": 3, "in": 2}.items():
        totals.clear()
        assert regard("translate", trained, "-i", tmp_path / name).status == 0
        assert set(totals) == {total}
    totals.clear()
    assert regard("translate", trained, stdin="one\n").status == 0 and set(totals) == {None}
