"""`regard split`: no sentence is in two splits, growth moves nothing, and the splits have the requested sizes."""

import json
import lzma
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import hold_out as module
from regard.data.fields import PAIRS
from regard.data.formats import read_examples
from regard.data.hold_out import LEFT_OUT, SplitReport, assign_pairs, hash_pairs, split_corpora
from regard.data.sources import Source
from regard.data.split import SplitPlan, hash_sentence, normalize_sentence
from regard.errors import UserError
from regard.run_files import SPLITS

NOTHING = np.empty(0, np.uint64)
Sides = tuple[str, str]


def assignments(pairs: Iterable[Sides], plan: SplitPlan, exclude: Iterable[str] = ()) -> list[str]:
    """The split of each pair."""
    keys = hash_pairs(({"src": src, "tgt": tgt} for src, tgt in pairs), plan.seed)
    excluded = np.array([hash_sentence(sentence, plan.seed) for sentence in exclude], np.uint64)
    return [(*SPLITS, *LEFT_OUT)[code] for code in assign_pairs(keys, excluded, plan)[0]]


def grid(sources: int, translations: int = 1) -> list[Sides]:
    return [(f"source {i}", f"Ziel {i} {j}") for i in range(sources) for j in range(translations)]


words = st.text("abAB .!", min_size=1, max_size=4)


@settings(max_examples=120)
@given(
    st.lists(st.tuples(words, words), min_size=1, max_size=40),
    st.lists(words, max_size=3),
    st.sampled_from(["src", "tgt", "both"]),
    st.integers(0, 3) | st.floats(0, 0.45),
    st.integers(0, 3) | st.floats(0, 0.45),
    st.integers(0, 5),
)
def test_parts_share_no_sentence_and_every_pair_has_a_reason(
    pairs: list[Sides], exclude: list[str], by: str, valid: float, test: float, seed: int
) -> None:
    plan = SplitPlan(valid, test, by, seed)  # type: ignore[arg-type]
    try:
        found = assignments(pairs, plan, exclude)
    except UserError as error:
        assert error.code == "no-data"
        return
    parts = {
        name: [pair for pair, assigned in zip(pairs, found, strict=True) if assigned == name]
        for name in (*SPLITS, *LEFT_OUT)
    }
    sides = {"src": [0], "tgt": [1], "both": [0, 1]}[by]
    for one, other in (("train", "valid"), ("train", "test"), ("valid", "test")):
        for side in sides:
            assert not {normalize_sentence(pair[side]) for pair in parts[one]} & {
                normalize_sentence(pair[side]) for pair in parts[other]
            }
    for name in ("train", "valid"):
        assert not {normalize_sentence(text) for pair in parts[name] for text in pair} & set(
            map(normalize_sentence, exclude)
        )
    for name, size in (("valid", valid), ("test", test)):
        drawn = [normalize_sentence(pair[sides[0]]) for pair in parts[name]]
        assert len(drawn) == len(set(drawn)), "one translation each"
        assert isinstance(size, float) or len(drawn) == size
    assert all(not src.strip() or not tgt.strip() for src, tgt in parts["empty"])
    assert all(pairs.index(pair) < len(pairs) - 1 - pairs[::-1].index(pair) for pair in parts["duplicate"])
    assert len(set(parts["train"])) == len(parts["train"])


def test_shares_are_kept_and_growing_moves_nothing() -> None:
    small, large = grid(2000), grid(6000)
    plan = SplitPlan(valid=0.1, test=0.2)
    before, after = assignments(small, plan), assignments(large[3000:] + large[:3000], plan)
    assert before == after[3000:5000]
    assert after.count("test") / 6000 == pytest.approx(0.2, abs=0.02)
    assert after.count("valid") / 6000 == pytest.approx(0.1, abs=0.02)
    assert assignments(small, SplitPlan(valid=0.1, test=0.2, seed=2)) != before


def test_a_larger_test_set_holds_the_smaller_one_and_leaves_valid_alone() -> None:
    pairs = grid(1000)
    small, large = assignments(pairs, SplitPlan(100, 50)), assignments(pairs, SplitPlan(100, 90))
    assert {i for i, split in enumerate(small) if split == "test"} < {
        i for i, split in enumerate(large) if split == "test"
    }
    assert [split == "valid" for split in small] == [split == "valid" for split in large]


def test_a_number_comes_with_the_share_that_draws_the_same() -> None:
    pairs = grid(1500, translations=2)
    keys = hash_pairs(({"src": src, "tgt": tgt} for src, tgt in pairs), 1)
    by_number, shares = assign_pairs(keys, NOTHING, SplitPlan(40, 70, "both"))
    written = json.loads(json.dumps(shares))
    by_share, again = assign_pairs(keys, NOTHING, SplitPlan(written["valid"], written["test"], "both"))
    assert (by_number == by_share).all() and again == shares
    assert [(by_number == code).sum() for code in range(3)] == [3000 - 2 * 110, 40, 70]
    assert (by_number == len(SPLITS) + LEFT_OUT.index("further")).sum() == 110


def test_both_keeps_the_other_side_of_what_is_held_out_out_of_training() -> None:
    pairs = [*grid(100), *((f"other {i}", f"ZIEL {i}, 0!") for i in range(100))]
    held = {i for i, split in enumerate(assignments(pairs, SplitPlan(10, 10, "both"))) if split in ("valid", "test")}
    found = assignments(pairs, SplitPlan(10, 10, "both"))
    for i in held:
        assert found[(i + 100) % 200] == "shared"
    assert found.count("shared") == 20
    assert assignments(pairs, SplitPlan(10, 10, "src")).count("train") == 180


def test_excluded_sentences_stay_in_test_alone() -> None:
    pairs = grid(60)
    exclude = ["Source 1!", "ziel 2 0", *(f"source {i}" for i in range(20, 40))]
    found = assignments(pairs, SplitPlan(valid=5, test=20), exclude)
    hit = [found[i] for i in (1, 2, *range(20, 40))]
    assert set(hit) == {"excluded", "test"}
    assert found.count("excluded") == hit.count("excluded")
    assert found.count("valid") == 5


def split(folder: Path, plan: SplitPlan, content: str, **more: object) -> SplitReport:
    (folder / "pairs.tsv").write_text(content, encoding="utf-8")
    return split_corpora([Source(file="pairs.tsv")], folder, folder / "out", plan, **more)  # type: ignore[arg-type]


CONTENT = "".join(f"{src}\t{tgt}\n" for src, tgt in grid(50, 2)) + " \tblank\nsource 1\tZiel 1 0\n"


def test_files_come_back_as_they_were_written(tmp_path: Path) -> None:
    (tmp_path / "bar.tsv").write_text("nobody\tZiel 3 1\n", encoding="utf-8")
    told: list[tuple[int, int | None]] = []
    report = split(
        tmp_path, SplitPlan(5, 10), CONTENT, exclude=[tmp_path / "bar.tsv"], endings=("en.xz", "de.gz"),
        progress=lambda done, total: told.append((done, total)),
    )  # fmt: skip
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        ["report.json", *(f"{part}.{ending}" for part in SPLITS for ending in ("en.xz", "de.gz"))]
    )
    assert report.read == 102 and (report.left_out["empty"], report.left_out["duplicate"]) == (1, 1)
    assert sum(report.left_out.values()) + sum(part.pairs for part in report.splits.values()) == 102
    lines = CONTENT.split("\n")
    for name, part in report.splits.items():
        corpus = Source(src=f"{name}.en.xz", tgt=f"{name}.de.gz")
        pairs = ["\t".join(pair.values()) for pair in read_examples([corpus], tmp_path / "out", PAIRS)]
        assert len(pairs) == part.pairs
        assert pairs == sorted(pairs, key=lines.index), "in the order they were read"
        assert len({pair.split("\t")[0] for pair in pairs}) == part.sources
    assert json.loads((tmp_path / "out" / "report.json").read_text())["splits"]["test"]["pairs"] == 10
    assert told[0] == (1, None) and told[-1] == (102, 102)


def test_a_part_of_size_zero_is_not_written(tmp_path: Path) -> None:
    report = split(tmp_path, SplitPlan(), CONTENT)
    assert set(report.splits) == {"train"} and report.shares == {"valid": 0.0, "test": 0.0}
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["report.json", "train.src", "train.tgt"]


def test_a_line_break_inside_a_sentence_becomes_a_space(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"src": "one\\r\\ntwo", "tgt": "x\\ry\\u2028z\\r"}\n', encoding="utf-8")
    split_corpora([Source(file="a.jsonl")], tmp_path, tmp_path / "out", SplitPlan())
    assert (tmp_path / "out" / "train.src").read_bytes() == b"one  two\n"
    assert (tmp_path / "out" / "train.tgt").read_bytes() == "x y\u2028z \n".encode()


@pytest.mark.parametrize(
    ("plan", "code", "where"),
    [
        (lambda: SplitPlan(test=-1), "invalid-setting", "test"),
        (lambda: SplitPlan(valid=1.0), "invalid-setting", "valid"),
        (lambda: SplitPlan(valid=float("nan")), "invalid-setting", "valid"),
        (lambda: SplitPlan(seed=-1), "invalid-setting", "seed"),
        (lambda: SplitPlan(test=51), "no-data", "test"),
        (lambda: SplitPlan(valid=30, test=21), "no-data", "valid"),
        (lambda: SplitPlan(valid=20, test=30), "no-data", "train"),
        (lambda: SplitPlan(valid=0.6, test=0.6), "no-data", "valid, test"),
        (lambda: SplitPlan(valid=1e-12), "no-data", "valid"),
    ],
)  # fmt: skip
def test_a_size_that_is_not_possible_is_refused_and_nothing_is_written(
    tmp_path: Path, plan: Callable[[], SplitPlan], code: str, where: str
) -> None:
    with pytest.raises(UserError) as error:
        split(tmp_path, plan(), CONTENT)
    assert (error.value.code, error.value.where) == (code, where)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert split(tmp_path, SplitPlan(), CONTENT).read == 102, "an empty one is used"
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    with pytest.raises(UserError) as error:
        split(tmp_path, SplitPlan(), "a\tb\n")
    assert (error.value.code, error.value.where) == ("folder-exists", f"{tmp_path}/out")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


@pytest.mark.parametrize("later", ["a\tb\n", CONTENT + "more\tmehr\n"], ids=["shorter", "longer"])
def test_a_corpus_that_changes_between_the_readings_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: str
) -> None:
    def changed(*arguments: object) -> object:
        (tmp_path / "pairs.tsv").write_text(later, encoding="utf-8")
        return assign_pairs(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "assign_pairs", changed)
    with pytest.raises(UserError) as error:
        split(tmp_path, SplitPlan(), CONTENT)
    assert error.value.code == "changed-file"
    assert not (tmp_path / "out").exists()


def test_memory_holds_hashes_and_not_text(tmp_path: Path) -> None:
    rows = 20_000
    with lzma.open(tmp_path / "long.tsv.xz", "wt", encoding="utf-8", preset=0) as file:
        file.writelines(f"{i} {'a ' * 100}\t{i} {'b ' * 100}\n" for i in range(rows))
    corpus = Source(file="long.tsv.xz")
    split_corpora([Source(file="pairs.tsv")], _tiny(tmp_path), tmp_path / "warm", SplitPlan(1, 1, "both"))
    tracemalloc.start()
    try:
        split_corpora([corpus], tmp_path, tmp_path / "out", SplitPlan(100, 100, "both"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < rows * 120, "the text is 400 bytes a pair"


def _tiny(folder: Path) -> Path:
    (folder / "pairs.tsv").write_text(CONTENT, encoding="utf-8")
    return folder


@pytest.mark.parametrize("endings", [("../x", "de"), ("en", ""), ("a/b", "de")])
def test_an_ending_is_part_of_a_name_and_not_a_path(tmp_path: Path, endings: tuple[str, str]) -> None:
    (tmp_path / "p.tsv").write_text("a\tb\n", encoding="utf-8")
    with pytest.raises(UserError) as error:
        split_corpora([Source(file="p.tsv")], tmp_path, tmp_path / "out", SplitPlan(), endings=endings)
    assert (error.value.code, error.value.where) == ("invalid-setting", "endings")
    assert not (tmp_path / "out").exists()
