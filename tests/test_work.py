"""regard/work.py: progress; results that are kept, whatever happens to the process, and used only if right."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.faults import failed_everywhere, killed_everywhere, leftovers

from regard.errors import UserError
from regard.files import replacing
from regard.work import Interrupted, Work, pack_array, recall, unpack_array

INPUTS = list(range(10))
EXPECTED = b"".join(b"%d\n" % (3 * item) for item in INPUTS)


def triple(inputs: Iterator[int], computed: list[int], stop_at: int = -1) -> Iterator[int]:
    """Each number times three, in batches of two."""
    for first in inputs:
        batch = [first, next(inputs)]

        def compute(batch: list[int] = batch) -> list[int]:
            if stop_at in batch:
                raise KeyboardInterrupt
            computed.extend(batch)
            return [3 * item for item in batch]

        yield from recall(batch, compute)


def work_in(
    folder: Path, stop_at: int = -1, made_from: str = "a", progress: list[tuple[int, int | None]] | None = None
) -> list[int]:
    """Write the results to a file; return the inputs that were computed."""
    computed: list[int] = []

    def report(done: int, total: int | None) -> None:
        if progress is not None:
            progress.append((done, total))

    path, made = folder / "out.unfinished", {"input": made_from, "same": 1}
    work, output = Work(report, len(INPUTS), path, made), replacing(folder / "out")
    with work, output as temporary, temporary.open("wb") as stream:
        for result in work.count(triple(work.feed(INPUTS), computed, stop_at)):
            stream.write(b"%d\n" % result)
    return computed


def test_stopped_work_continues_after_the_last_batch(tmp_path: Path) -> None:
    progress: list[tuple[int, int | None]] = []
    with pytest.raises(Interrupted) as stop:
        work_in(tmp_path, stop_at=5)
    assert (stop.value.done, stop.value.path) == (4, tmp_path / "out.unfinished")
    assert [path.name for path in tmp_path.iterdir()] == ["out.unfinished"], "there is no half output"
    assert work_in(tmp_path, progress=progress) == [4, 5, 6, 7, 8, 9]
    assert progress == [(4, 10), (6, 10), (8, 10), (10, 10)], "the rate does not count what was read"
    assert (tmp_path / "out").read_bytes() == EXPECTED and [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("damage", ["half", "letter", "tail", "empty"])
def test_damaged_results_are_computed_again(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "out.unfinished"
    with pytest.raises(Interrupted):
        work_in(tmp_path, stop_at=7)
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 5
    changed = {
        "half": [*lines[:4], lines[4][:-9]],
        "letter": [*lines[:4], lines[4].replace(b"12, 15", b"12, 16")],
        "tail": [*lines[:4], b"garbage\n", lines[4]],
        "empty": [],
    }[damage]
    path.write_bytes(b"".join(changed))
    assert work_in(tmp_path) == ([4, 5, 6, 7, 8, 9] if changed else INPUTS)
    assert (tmp_path / "out").read_bytes() == EXPECTED


def test_results_of_other_inputs_are_not_used(tmp_path: Path) -> None:
    with pytest.raises(Interrupted):
        work_in(tmp_path, stop_at=5)
    with Work(None, 10, tmp_path / "out.unfinished", {"input": "b", "same": 1}) as work:
        assert work.changed == ["input"] and not work.is_continued
    with pytest.raises(Interrupted):
        work_in(tmp_path, stop_at=5)
    assert work_in(tmp_path, made_from="b") == INPUTS


def test_a_file_of_somebody_else_stays(tmp_path: Path) -> None:
    (tmp_path / "out.unfinished").write_text("my notes\n", encoding="utf-8")
    with pytest.raises(UserError) as error:
        work_in(tmp_path)
    assert (error.value.code, error.value.where) == ("unwritable", str(tmp_path / "out.unfinished"))
    assert (tmp_path / "out.unfinished").read_text(encoding="utf-8") == "my notes\n"


def test_two_processes_do_not_write_one_output(tmp_path: Path) -> None:
    with Work(None, 10, tmp_path / "out.unfinished"), pytest.raises(UserError) as error:
        work_in(tmp_path)
    assert error.value.code == "in-use"


@pytest.mark.parametrize("kill", [True, False])
def test_a_fault_at_any_moment_leaves_the_old_output_or_the_new_one(tmp_path: Path, kill: bool) -> None:
    def prepare(folder: Path) -> None:
        (folder / "out").write_bytes(b"before\n")

    computed = []
    for folder in (killed_everywhere if kill else failed_everywhere)(tmp_path, prepare, work_in):
        assert (folder / "out").read_bytes() in (b"before\n", EXPECTED)
        computed.append(len(work_in(folder)))
        assert (folder / "out").read_bytes() == EXPECTED
        assert [path.name for path in folder.iterdir()] == ["out"] and not leftovers(folder)
    assert set(computed) >= {10, 8, 6, 4, 2}, "results that were computed are used"


def test_without_work_results_are_only_computed(tmp_path: Path) -> None:
    array = np.array([[0.1, -np.inf], [1e-45, 3.0]], np.float32)
    assert recall([1], lambda: [1, 2]) == [1, 2]
    assert np.array_equal(unpack_array(pack_array(array)), array)
    with Work(None, 2, tmp_path / "out.unfinished") as work:
        restored = unpack_array(recall([1], lambda: pack_array(array)))
        assert restored.dtype == np.float32 and np.array_equal(restored, array) and work.batches == 1
