"""Data in parts: the rows and order of one process, whatever the number of parts; kills, damage and missing parts."""

import multiprocessing
import os
import random
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.data import parts as parts_module
from regard.data import pools
from regard.data.batch import Share, Step
from regard.data.pairs import Pairs
from regard.data.planning import Budget
from regard.data.pools import PooledBatches
from regard.data.store import damaged_files
from regard.errors import UserError
from regard.files import digest
from regard.recipe import Recipe
from regard.run.preparing import load_plan, prepare_parts, run_here, run_on_cluster, share_out
from regard.run.run import Run
from regard.run.train import train
from regard.tasks.registry import load_recipe
from regard.text.symbols import PAD
from regard.training.log import Logs

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "é", "字"]


def write_pairs(path: Path, count: int, seed: int = 1) -> list[str]:
    """Lines of a .tsv with duplicates, empty sides and pairs that a filter leaves out."""
    generator = random.Random(seed)
    lines = []
    for number in range(count):
        source = " ".join(generator.choices(WORDS, k=generator.randint(1, 7)))
        target = source.upper() if number % 17 else " "
        lines.append(f"{source}\t{target if number % 23 else ' '.join([target] * 30)}")
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return lines


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(parts_module, "SLICE_BYTES", 200)
    write_pairs(tmp_path / "a.tsv", 300)
    lines = write_pairs(tmp_path / "b.tsv", 120, seed=2)
    for side, column in (("de", 0), ("en", 1)):
        text = "".join(f"{line.split(chr(9))[column]}\n" for line in lines)
        (tmp_path / f"c.{side}").write_text(text, encoding="utf-8")
    write_pairs(tmp_path / "valid.tsv", 20, seed=3)
    path = tmp_path / "small.toml"
    path.write_text(
        f"""
task = "translation"
name = "small"
[data]
root = "{tmp_path}"
workers = 1
max_length = 64
train = [{{file = "a.tsv"}}, {{src = "c.de", tgt = "c.en"}}]
valid = [{{file = "valid.tsv"}}]
[text]
kind = "bpe"
vocab_size = 300
[model]
size = "custom"
d_model = 16
num_heads = 2
d_ff = 32
encoder_layers = 1
decoder_layers = 1
[training]
max_steps = 4
batch_tokens = 200
learning_rate = 0.001
warmup = 1
validate_every = 4
[runtime]
device = "cpu"
""",
        encoding="utf-8",
    )
    return path


def load(path: Path, *settings: str) -> Recipe:
    return load_recipe(str(path), list(settings))


def prepare(path: Path, folder: Path, count: int, *settings: str, **options: Any) -> Pairs:
    prepare_parts(load(path, *settings), folder, count, report=lambda _: None, **options)
    return store_of(folder)


def store_of(folder: Path) -> Pairs:
    pairs = Run.open(folder).store("train", lambda _: None)
    assert isinstance(pairs, Pairs)
    return pairs


def rows(pairs: Pairs) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return [(tuple(pairs.src(row).tolist()), tuple(pairs.tgt(row).tolist())) for row in range(len(pairs))]


def content(folder: Path) -> dict[str, str]:
    """sha256 of every file of the training store except the digests, which depend on times."""
    store = folder / "store" / "train"
    files = (path for path in store.rglob("*") if path.is_file() and path.name not in ("digests.json", "plan.json"))
    return {str(path.relative_to(store)): digest(path) for path in files}


def single(path: Path, folder: Path, *settings: str) -> Pairs:
    """The store that one process writes without parts."""
    run = Run.create(folder, load(path, *settings))
    run.prepare(lambda _: None)
    return store_of(folder)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 40])
def test_parts_have_the_rows_of_a_single_store(recipe: Path, tmp_path: Path, count: int) -> None:
    whole = single(recipe, tmp_path / "single")
    parted = prepare(recipe, tmp_path / "parts", count)
    assert parted.is_parted and not whole.is_parted
    assert len(load_plan(tmp_path / "parts")[1].slices) >= min(2 * count, 8)
    assert rows(parted) == rows(whole)
    assert vars(parted.account) == vars(whole.account)
    assert parted.account.dropped["duplicate"] > 0 and parted.account.dropped["empty"] > 0
    assert parted.fingerprint == whole.fingerprint
    assert damaged_files(tmp_path / "parts" / "store" / "train") == []


def test_groups_of_partitions_find_the_same_duplicates(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = prepare(recipe, tmp_path / "one", 5)
    monkeypatch.setattr(parts_module, "GROUP_BYTES", 2000)
    monkeypatch.setattr(parts_module, "KEY_ROWS", 10)
    several = prepare(recipe, tmp_path / "several", 5)
    assert load_plan(tmp_path / "one")[1].groups == 1 and load_plan(tmp_path / "several")[1].groups == 16
    assert rows(one) == rows(several)


def test_remote_files_are_cut_and_read_by_several_processes(recipe: Path, tmp_path: Path) -> None:
    text = recipe.read_text().replace(f'root = "{tmp_path}"', f'root = "file://{tmp_path}"')
    recipe.with_name("remote.toml").write_text(text.replace("workers = 1", "workers = 2"))
    local, remote = (prepare(tmp_path / name, tmp_path / name[:-5], 5) for name in ("small.toml", "remote.toml"))
    assert len(load_plan(tmp_path / "remote")[1].slices) > 5
    assert rows(remote) == rows(local)


def test_validation_pairs_in_the_training_data_are_reported_once(recipe: Path, tmp_path: Path) -> None:
    lines = (tmp_path / "a.tsv").read_text(encoding="utf-8").splitlines()
    (tmp_path / "valid.tsv").write_text(f"{lines[0]}\n{lines[1]}\nnew\tNEW\n", encoding="utf-8")
    reports: list[str] = []
    prepare_parts(load(recipe), tmp_path / "run", 3, report=reports.append)
    assert [line for line in reports if "2 of 3 distinct examples of valid (66.7%) occur in train" in line]
    reports.clear()
    train(load(recipe), tmp_path / "run", report=reports.append, log=Logs())
    assert not [line for line in reports if "occur in train" in line]


def test_without_removal_of_duplicates(recipe: Path, tmp_path: Path) -> None:
    setting = "data.drop_duplicates=false"
    assert rows(prepare(recipe, tmp_path / "parts", 5, setting)) == rows(single(recipe, tmp_path / "single", setting))
    assert not (tmp_path / "parts" / "store" / "train" / "duplicates").exists()


def test_the_filters_of_data_clean_leave_out_the_same_pairs(recipe: Path, tmp_path: Path) -> None:
    settings = ["data.clean.near_duplicates=0", "data.clean.max_word=4", "data.src_lang=en", "data.tgt_lang=de"]
    whole, parted = single(recipe, tmp_path / "single", *settings), prepare(recipe, tmp_path / "parts", 5, *settings)
    assert rows(parted) == rows(whole)
    assert vars(parted.account) == vars(whole.account)
    assert parted.account.dropped["long_word"] > 0 and parted.account.dropped["duplicate"] > 0


def test_rows_in_any_order_and_statistics_of_lengths(recipe: Path, tmp_path: Path) -> None:
    whole, parted = single(recipe, tmp_path / "single"), prepare(recipe, tmp_path / "parts", 6)
    order = np.random.default_rng(1).integers(0, len(whole), 500)
    for name in ("sources", "targets"):
        for ours, theirs in zip(getattr(parted, name)(order), getattr(whole, name)(order), strict=True):
            assert np.array_equal(ours, theirs)
    assert np.array_equal(parted.src_lengths[order], whole.src_lengths[order])
    for name in ("sum", "max", "mean", "std"):
        assert getattr(parted.tgt_lengths, name)() == pytest.approx(getattr(whole.tgt_lengths, name)())


def test_an_array_of_processes_writes_the_same_bytes(recipe: Path, tmp_path: Path) -> None:
    prepare(recipe, tmp_path / "at-once", 4)
    quiet: dict[str, Any] = {"report": lambda _: None}
    prepare_parts(load(recipe), tmp_path / "array", 4, 0, **quiet)
    for part in (3, 1, 4, 2):
        prepare_parts(load(recipe), tmp_path / "array", 4, part, **quiet)
    written = content(tmp_path / "array")
    assert written and not any(name.startswith(("kept", "manifest")) for name in written)
    prepare_parts(load(recipe), tmp_path / "array", 4, **quiet)
    assert content(tmp_path / "array") == content(tmp_path / "at-once")
    with pytest.raises(UserError, match="part 5 of 4"):
        prepare_parts(load(recipe), tmp_path / "array", 4, 5, **quiet)
    with pytest.raises(UserError, match="in this process"):
        prepare_parts(load(recipe), tmp_path / "array", 4, 1, on="tcp://localhost:1", **quiet)


def test_what_earlier_plans_left_is_removed(recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(recipe, tmp_path / "run", 3)
    expected = content(tmp_path / "run")
    prepare(recipe, tmp_path / "run", 1, "data.drop_duplicates=false")
    assert {path.name for path in (tmp_path / "run/store/train").iterdir()} >= {"parts", "manifest.json"}
    assert len([*(tmp_path / "run/store/train").glob("*/*")]) == 2
    monkeypatch.setattr(parts_module, "GROUP_BYTES", 2000)
    prepare(recipe, tmp_path / "run", 7)
    monkeypatch.undo()
    monkeypatch.setattr(parts_module, "SLICE_BYTES", 200)
    prepare(recipe, tmp_path / "run", 3)
    assert content(tmp_path / "run") == expected


def test_training_keeps_parts_that_are_not_complete(recipe: Path, tmp_path: Path) -> None:
    quiet: dict[str, Any] = {"report": lambda _: None}
    prepare_parts(load(recipe), tmp_path / "run", 3, 0, **quiet)
    prepare_parts(load(recipe), tmp_path / "run", 3, 2, **quiet)
    before = content(tmp_path / "run")
    with pytest.raises(UserError, match="incomplete") as error:
        train(load(recipe), tmp_path / "run", **quiet)
    assert error.value.code == "outdated-parts"
    assert before and content(tmp_path / "run") == before


def test_a_part_needs_a_plan_that_is_current(recipe: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"plan\.json does not exist"):
        prepare_parts(load(recipe), tmp_path / "run", 2, 1)
    prepare_parts(load(recipe), tmp_path / "run", 2, 0, report=lambda _: None)
    with (tmp_path / "a.tsv").open("a", encoding="utf-8") as stream:
        stream.write("new\tNEW\n")
    with pytest.raises(UserError, match=r"a\.tsv changed after"):
        prepare_parts(load(recipe), tmp_path / "run", 2, 1)


def test_text_that_is_added_later_adds_parts(recipe: Path, tmp_path: Path) -> None:
    prepare(recipe, tmp_path / "run", 4)
    before = content(tmp_path / "run")
    times = {name: (tmp_path / "run/store/train" / name).stat().st_mtime_ns for name in before}
    text = recipe.read_text(encoding="utf-8")
    recipe.write_text(text.replace('tgt = "c.en"}]', 'tgt = "c.en"}, {file = "b.tsv"}]'), encoding="utf-8")
    more = prepare(recipe, tmp_path / "run", 4)
    for name in before:
        if name.startswith(("parts", "kept")):  # the same files, not written again
            path = tmp_path / "run/store/train" / name
            assert digest(path) == before[name] and path.stat().st_mtime_ns == times[name]
    assert more.account.read == 300 + 120 + 120


def test_text_that_is_added_later_keeps_the_tokenizers(recipe: Path, tmp_path: Path) -> None:
    prepare(recipe, tmp_path / "run", 4, "text.vocab_size=400")
    before, names = digest(tmp_path / "run/tokenizer.json"), set(content(tmp_path / "run"))
    lines = "".join(f"{'zebra quartz ' * 5}{number}\tVORTEX GLYPH {number}\n" for number in range(200))
    (tmp_path / "new.tsv").write_text(lines, encoding="utf-8")
    text = recipe.read_text(encoding="utf-8")
    recipe.write_text(text.replace('tgt = "c.en"}]', 'tgt = "c.en"}, {file = "new.tsv"}]'), encoding="utf-8")
    prepare(recipe, tmp_path / "run", 4, "text.vocab_size=400")
    assert digest(tmp_path / "run/tokenizer.json") == before
    assert {name for name in names if name.startswith("parts")} < set(content(tmp_path / "run"))
    parts = {item.name for item in load_plan(tmp_path / "run")[1].slices}
    assert {path.name for path in (tmp_path / "run/store/train/parts").iterdir()} == parts
    text = recipe.read_text(encoding="utf-8")
    recipe.write_text(text.replace('"new.tsv"', '"new.tsv", back_translated = true'), encoding="utf-8")
    prepare(recipe, tmp_path / "run", 4, "text.vocab_size=400")  # with a tag, which needs a new tokenizer
    assert digest(tmp_path / "run/tokenizer.json") != before


def test_a_part_of_a_changed_recipe_is_refused(recipe: Path, tmp_path: Path) -> None:
    prepare_parts(load(recipe), tmp_path / "run", 2, 0, report=lambda _: None)
    with pytest.raises(UserError, match="recipe") as error:
        prepare_parts(load(recipe, "data.max_length=5"), tmp_path / "run", 2, 1)
    assert error.value.code == "outdated-plan"
    prepare_parts(load(recipe, "training.max_steps=5", "data.workers=2"), tmp_path / "run", 2, 1)


def test_rows_with_other_columns_are_an_error_at_every_cut(recipe: Path, tmp_path: Path) -> None:
    lines = [f"one two {number}\tTHREE FOUR" for number in range(100, 200)]
    (tmp_path / "a.tsv").write_text("\n".join(lines), encoding="utf-8")
    prepare(recipe, tmp_path / "run", 4)  # later the tokenizers are there, and no process reads all text
    first = next(item.line for item in load_plan(tmp_path / "run")[1].slices if item.line > 1) - 1
    wider = [*lines[:first], *(line.replace("E F", "E\tF") for line in lines[first:])]
    (tmp_path / "a.tsv").write_text("\n".join(wider), encoding="utf-8")
    with pytest.raises(UserError, match="has 3 columns, the first row 2"):
        prepare(recipe, tmp_path / "run", 4)


def test_a_file_that_changes_while_it_is_read_is_no_part(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare_parts(load(recipe), tmp_path / "run", 2, 0, report=lambda _: None)
    corpus, plan = load_plan(tmp_path / "run")

    def read(*arguments: Any) -> Any:
        text = (tmp_path / "a.tsv").read_text(encoding="utf-8")
        (tmp_path / "a.tsv").write_text(text.replace("one", "six"), encoding="utf-8")
        return read_slice(*arguments)

    read_slice = parts_module.read_slice
    monkeypatch.setattr(parts_module, "read_slice", read)
    with pytest.raises(UserError, match=r"a\.tsv changed after"):
        parts_module.do_item(corpus, plan, "parts", 0)
    assert not [*(tmp_path / "run/store/train/parts").glob("*")]


def _die_while_writing(folder: Path, number: int) -> None:
    """Write a part, and be killed when all of its data but not its manifest is written."""
    corpus, plan = load_plan(folder)
    parts_module._KeyWriter.flush = lambda self: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]
    parts_module.do_item(corpus, plan, "parts", number)


def test_a_killed_process_leaves_no_half_part(recipe: Path, tmp_path: Path) -> None:
    prepare(recipe, tmp_path / "whole", 3)
    prepare_parts(load(recipe), tmp_path / "run", 3, 0, report=lambda _: None)
    process = multiprocessing.get_context("spawn").Process(target=_die_while_writing, args=(tmp_path / "run", 1))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    store = tmp_path / "run" / "store" / "train"
    assert [path for path in (store / "parts").iterdir() if not path.name.startswith(".")] == []
    prepare(recipe, tmp_path / "run", 3)
    assert content(tmp_path / "run") == content(tmp_path / "whole")  # and what the process left is removed


def test_a_missing_part_is_an_error(recipe: Path, tmp_path: Path) -> None:
    prepare(recipe, tmp_path / "run", 3)
    shutil.rmtree(next((tmp_path / "run/store/train/parts").iterdir()))
    with pytest.raises(UserError, match=r"parts in .* are incomplete, damaged"):
        store_of(tmp_path / "run")
    assert len(prepare(recipe, tmp_path / "run", 3))  # the same command writes it again


def test_a_damaged_part_is_refused(recipe: Path, tmp_path: Path) -> None:
    prepare(recipe, tmp_path / "run", 3)
    store = tmp_path / "run/store/train"
    file = next((store / "parts").glob("*/src.values"))
    data = file.read_bytes()
    file.write_bytes(data[:-2])
    with pytest.raises(UserError, match=r"src\.values: it has"):
        rows(store_of(tmp_path / "run"))
    file.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    assert [name for name in damaged_files(store) if name.endswith("src.values")]
    shutil.rmtree(store / "kept")
    with pytest.raises(UserError, match="sha256 differs"):
        prepare(recipe, tmp_path / "run", 3)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (["data.valid=[]"], "cannot be held out"),
        (["text.dropout=0.1"], "BPE-dropout needs a table"),
        (["data.clean.near_duplicates=0.9"], "near-duplicates are not found"),
    ],
)
def test_what_parts_cannot_do(recipe: Path, tmp_path: Path, settings: list[str], problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        prepare_parts(load(recipe, *settings), tmp_path / "run", 2)


def test_several_processes_and_their_errors(tmp_path: Path) -> None:
    assert len(list(run_here(_touch, range(5), 2))) == 5
    with pytest.raises(UserError, match="three is wrong"):
        list(run_here(_fail_at_three, range(5), 2))


def test_every_process_gets_about_the_same_text() -> None:
    sizes = [7, 1, 1, 9, 1, 1, 1, 1, 5, 3]
    shares = share_out(range(10), sizes, 3)
    assert sorted(number for share in shares for number in share) == list(range(10))
    assert [sum(sizes[number] for number in share) for share in shares] == [10, 10, 10]


def _touch(number: int) -> None: ...


def _fail_at_three(number: int) -> None:
    if number == 3:
        raise UserError("three is wrong", "count to two")


def test_a_cluster_needs_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(UserError, match="needs the package distributed") as raised:
        list(run_on_cluster("tcp://localhost:1", _touch, range(3)))
    assert "regard[cluster]" in raised.value.remedy


def test_a_cluster_does_the_items_and_passes_errors_on() -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(1, processes=False, dashboard_address=":0", threads_per_worker=1) as cluster:
        address = cluster.scheduler_address
        assert len(list(run_on_cluster(address, _touch, range(5)))) == 5
        with pytest.raises(UserError, match="three is wrong"):
            list(run_on_cluster(address, _fail_at_three, range(5)))


def test_training_on_parts_resumes_exactly(recipe: Path, tmp_path: Path) -> None:
    quiet: dict[str, Any] = {"report": lambda _: None}
    constant = "training.schedule=constant"
    for folder in ("whole", "stopped"):
        prepare(recipe, tmp_path / folder, 4, constant)
    whole = train(load(recipe, constant), tmp_path / "whole", **quiet)
    train(load(recipe, constant, "training.max_steps=2"), tmp_path / "stopped", **quiet)
    resumed = train(load(recipe, constant), tmp_path / "stopped", resume=True, **quiet)
    assert whole.outcome.step == resumed.outcome.step == 4
    assert whole.outcome.metrics == resumed.outcome.metrics


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_every_pair_is_in_one_batch_of_each_epoch(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packed: bool, blocks: bool
) -> None:
    if blocks:
        use_blocks(monkeypatch)
    pairs = prepare(recipe, tmp_path / "run", 4)
    batches = PooledBatches(pairs, Budget(200), 1, packed=packed)
    steps = batches.steps_in_epoch(0)

    def rows(source: PooledBatches, step: int) -> list[tuple[bytes, bytes]]:
        _, examples, indices = source.examples_of(step)
        assert isinstance(examples, Pairs) and len(indices)
        return [(examples.src(index).tobytes(), examples.tgt(index).tobytes()) for index in indices]

    orders = [[row for step in range(first, first + steps) for row in rows(batches, step)] for first in (0, steps)]
    all_rows = [(pairs.src(index).tobytes(), pairs.tgt(index).tobytes()) for index in range(len(pairs))]
    assert sorted(orders[0]) == sorted(orders[1]) == sorted(all_rows)
    assert orders[0] != orders[1]
    assert rows(PooledBatches(pairs, Budget(200), 1, packed=packed), steps + 1) == rows(batches, steps + 1)


def use_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut small corpora into pools of blocks, as large ones are."""
    for name, value in (("SHUFFLED", 0), ("BLOCKS", 7), ("POOL_EXAMPLES", 60), ("POOL_BATCHES", 1)):
        monkeypatch.setattr(pools, name, value)


def test_ranks_share_the_batches_of_one_process(recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rank reads the tokens of its own share, and all ranks make the same global batch."""
    use_blocks(monkeypatch)
    store = prepare(recipe, tmp_path / "run", 4)
    whole = PooledBatches(store, Budget(200), 1)
    ranks = [PooledBatches(store, Budget(200), 1, Share(rank, 3, 2)) for rank in range(3)]

    def rows(step: Step) -> list[list[int]]:
        """Source and labels of every example without its padding; batches that repeat an example have no labels."""
        used = [batch for batch in step.micro_batches if batch.labels.any()]
        sides = [(batch["source"].tolist(), batch.labels.tolist()) for batch in used]
        return sorted(
            [token for token in (*source, *labels) if token != PAD]
            for sources, targets in sides
            for source, labels in zip(sources, targets, strict=True)
        )

    for step in (0, 3, whole.steps_in_epoch(0) + 2):
        expected, parts = whole.batch(step), [rank.batch(step) for rank in ranks]
        assert len({(part.count, part.tokens, part.epoch) for part in [*parts, expected]}) == 1
        assert sorted(row for part in parts for row in rows(part)) == rows(expected)
    _, examples, indices = ranks[0].examples_of(0)
    assert isinstance(examples, Pairs) and len(examples.src(indices[1]))
    with pytest.raises(IndexError):
        examples.src(indices[2])  # which another rank has read
