"""The whole examination: a healthy recipe passes, text with a defect fails, and a remedy comes with it."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.run.doctor_ward import GERMAN, read_pairs, write_pairs, write_recipe
from typer.testing import CliRunner

from regard.cli.doctor import doctor
from regard.cli.options import grouped
from regard.recipe import load_recipe
from regard.run.doctor import Check, examine, healthy
from regard.run.doctor import survey as surveying
from regard.run.doctor.survey import Reservoir


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    return write_recipe(tmp_path)


def quickly(recipe: Path, *overrides: str) -> dict[str, Check]:
    """Everything that takes no time, by name."""
    return {check.name: check for check in examine(recipe, overrides, quick=True)}


def wholly(recipe: Path, upto: str, overrides: Sequence[str] = ()) -> dict[str, Check]:
    """The examination up to a check."""
    found = {}
    for check in examine(recipe, overrides):
        found[check.name] = check
        if check.name == upto:
            break
    return found


def test_what_is_read_as_source_and_target_is_shown(recipe: Path) -> None:
    (src, tgt), *rest = read_pairs(recipe.parent, "train")
    write_pairs(recipe.parent, "train", [(tgt, f"{src} {'x' * 100}"), *rest])
    shown = quickly(recipe)["pairs"].finding
    assert f"train: {tgt} -> {src} xx" in shown, (
        "the doctor cannot know that it is swapped, but whoever reads can see it"
    )
    assert "x" * 61 not in shown
    assert [line.split(":")[0] for line in shown.splitlines()[1:]] == ["train", "valid", "test"]


def test_a_healthy_recipe_passes_and_nothing_is_left_behind(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(recipe.parent)
    before = sorted(recipe.parent.rglob("*"))
    checks = list(examine(recipe))
    assert {check.name: check.status for check in checks} == dict.fromkeys(
        [
            "recipe", "device", "files", "pairs", "unseen test", "filters", "vocabulary", "held-out lengths",
            "first loss", "no leaks", "gradients", "schedule", "memory", "disk", "learns by heart", "time",
        ],
        "pass",
    )  # fmt: skip
    assert all(not check.remedy for check in checks)
    assert healthy(checks)
    assert sorted(recipe.parent.rglob("*")) == before


def test_quick_leaves_out_what_takes_long_and_says_so(recipe: Path) -> None:
    found = quickly(recipe)
    assert {name for name, check in found.items() if check.status == "skip"} == {"learns by heart", "time"}
    assert "--quick reads no further" in found["files"].finding
    assert healthy(found.values())


def test_a_setting_nobody_knows_ends_the_examination(recipe: Path) -> None:
    found = quickly(recipe, "training.max_step=5")
    assert list(found) == ["recipe", "the rest"]
    assert found["recipe"].status == "fail" and "max_steps" in found["recipe"].remedy
    assert not healthy(found.values())


def test_files_out_of_step_are_named_with_their_lines(recipe: Path) -> None:
    path = recipe.parent / "train.de"
    path.write_text(path.read_text(encoding="utf-8") + "noch eine Zeile\n", encoding="utf-8")
    check = wholly(recipe, "the rest")["files"]
    assert check.status == "fail"
    assert "300 lines" in check.finding and "301" in check.finding and check.remedy


def test_a_line_that_is_no_utf8_is_named(recipe: Path) -> None:
    path = recipe.parent / "test.de"
    path.write_bytes(path.read_bytes().replace("fünf".encode(), "fünf".encode("latin1")))
    check = wholly(recipe, "the rest")["files"]
    assert check.status == "fail" and "not UTF-8" in check.finding and "iconv" in check.remedy


def test_without_a_test_corpus_there_is_a_warning(recipe: Path) -> None:
    check = wholly(recipe, "files", ["data.test=[]"])["files"]
    assert check.status == "warn" and "data.test" in check.remedy


@pytest.mark.parametrize(("copies", "status"), [(0, "pass"), (1, "warn"), (10, "fail")])
def test_test_pairs_in_the_training_data_are_counted_and_found(recipe: Path, copies: int, status: str) -> None:
    folder = recipe.parent
    write_pairs(folder, "train", read_pairs(folder, "train") + read_pairs(folder, "test")[:copies])
    check = wholly(recipe, "unseen test")["unseen test"]
    assert check.status == status
    if copies:
        assert f"{copies} of 40 pairs of test" in check.finding and "line 301" in check.finding
        assert "take these pairs out" in check.remedy and "valid" not in check.finding


def test_filters_that_leave_little_fail_with_the_reason(recipe: Path) -> None:
    folder = recipe.parent
    skewed = [
        (src + " one two three" * 5, GERMAN[0] if n % 3 else tgt)
        for n, (src, tgt) in enumerate(read_pairs(folder, "train"))
    ]
    write_pairs(folder, "train", skewed)
    check = wholly(recipe, "filters", ["data.max_ratio=3.0", "data.max_length=200"])["filters"]
    assert check.status == "fail" and "ratio 6" in check.finding and "data.max_ratio" in check.remedy


def test_filters_that_leave_nothing_fail_before_the_model_is_looked_at(recipe: Path) -> None:
    found = quickly(recipe, "data.max_length=2")
    assert found["filters"].status == "fail" and "no examples are left" in found["filters"].finding
    assert "too long" in found["filters"].remedy and "first loss" not in found


def test_duplicates_are_counted_beyond_the_sample(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = recipe.parent
    write_pairs(folder, "train", read_pairs(folder, "train") * 3)
    monkeypatch.setattr(surveying, "SAMPLE", 30)
    found = wholly(recipe, "schedule", ["training.max_steps=100000", "training.max_epochs=2.0"])
    assert found["filters"].status == "fail" and "duplicate 66.7%" in found["filters"].finding
    assert "in a sample of 30" in found["filters"].finding and "drop_duplicates" in found["filters"].remedy
    assert "train 900" in found["files"].finding
    # A hundred pairs or so fill a step or two; the whole is planned for, not the sample.
    assert int(found["schedule"].finding.split()[0]) > 20


def test_text_in_another_script_is_spelled_in_bytes(recipe: Path) -> None:
    folder = recipe.parent
    foreign = [("один два три четыре", tgt) for _, tgt in read_pairs(folder, "valid")]
    write_pairs(folder, "valid", foreign)
    check = quickly(recipe)["vocabulary"]
    assert check.status == "fail" and "100.0% of words in bytes" in check.finding and "vocab_size" in check.remedy


def test_words_cut_into_many_pieces_are_a_warning(recipe: Path) -> None:
    folder = recipe.parent
    for part in ("train", "valid"):
        write_pairs(folder, part, [(src.replace(" ", ""), tgt) for src, tgt in read_pairs(folder, part)])
    check = quickly(recipe, "text.vocab_size=265", "data.max_length=200")["vocabulary"]
    assert check.status == "warn" and "vocab_size" in check.remedy


def test_held_out_lines_longer_than_any_learnt_are_a_warning(recipe: Path) -> None:
    folder = recipe.parent
    write_pairs(folder, "test", [(src * 20, tgt) for src, tgt in read_pairs(folder, "test")])
    check = quickly(recipe)["held-out lengths"]
    assert check.status == "warn" and "test 100.0%" in check.finding and "data.max_length" in check.remedy


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU to be had")
def test_a_gpu_that_is_not_there_fails(recipe: Path) -> None:
    check = quickly(recipe, "runtime.device=cuda")["device"]
    assert check.status == "fail" and "runtime.device=cpu" in check.remedy


def test_a_gpu_left_unused_and_too_many_threads_are_warnings(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.run.doctor.costs.count_workers", lambda workers: 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 8)
    check = wholly(recipe, "device")["device"]
    assert check.status == "warn" and "runtime.threads=1" in check.remedy
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    check = wholly(recipe, "device")["device"]
    assert check.status == "warn" and "runtime.device=auto" in check.remedy


def test_reading_tells_how_far_it_is(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surveying, "TELL_EVERY", 100)
    told: list[tuple[str, int]] = []
    surveying.survey(load_recipe(recipe).data, seed=1, progress=lambda part, done: told.append((part, done)))
    assert told == [("train", 100), ("train", 200), ("train", 300)]


def test_a_quick_look_shares_itself_out_among_the_corpora(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surveying, "QUICK_SAMPLE", 50)
    data = load_recipe(recipe).data
    found = surveying.survey(data.model_copy(update={"train": [*data.train, *data.valid]}), seed=1, quick=True)
    sample = found.parts["train"].sample
    assert found.parts["train"].pairs == 50 and not found.whole
    assert sample == read_pairs(recipe.parent, "train")[:25] + read_pairs(recipe.parent, "valid")[:25]
    assert found.leaked["valid"] and not found.leaked["test"]


@settings(deadline=None, max_examples=40, derandomize=True, database=None)
@given(st.integers(1, 20), st.integers(0, 60), st.integers(0, 5))
def test_a_sample_is_of_the_asked_size_and_in_order(size: int, stream: int, seed: int) -> None:
    reservoir = Reservoir(size, seed)
    for number in range(stream):
        reservoir.offer({"src": f"{number}", "tgt": ""})
    kept = [int(src) for src, _ in reservoir.in_order()]
    assert reservoir.seen == stream and len(kept) == min(size, stream)
    assert kept == sorted(set(kept)) and set(kept) <= set(range(stream))


def test_a_sample_is_fair() -> None:
    """Each of 20 pairs is among 5 in a quarter of the samples: 100 of 400, within four standard deviations."""
    counts = [0] * 20
    for seed in range(400):
        reservoir = Reservoir(5, seed)
        for number in range(20):
            reservoir.offer({"src": f"{number}", "tgt": ""})
        for src, _ in reservoir.in_order():
            counts[int(src)] += 1
    assert all(65 <= count <= 135 for count in counts)


def command(*arguments: str) -> tuple[int, str]:
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command()(grouped(doctor))
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    return result.exit_code, result.stdout


def test_the_command_prints_each_finding_and_ends_with_its_verdict(recipe: Path) -> None:
    status, out = command(str(recipe), "--quick")
    assert status == 0 and "pass  first loss: " in out and out.endswith("2 not examined\n")
    status, out = command(str(recipe), "training.warmup=5000", "--quick")
    assert status == 1 and "fail  schedule: " in out and "-> the rate never reaches" in out


def test_the_command_speaks_json(recipe: Path) -> None:
    status, out = command(str(recipe), "training.nonsense=1", "--json")
    verdict = json.loads(out)
    assert status == 1 and verdict["healthy"] is False
    assert [check["status"] for check in verdict["checks"]] == ["fail", "skip"]
    assert os.linesep not in out.rstrip()
