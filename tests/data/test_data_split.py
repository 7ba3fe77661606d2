"""No sentence is in two parts, growing moves nothing, and what is held out is what was asked for."""

import json
import lzma
import tracemalloc
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import split as module
from regard.data.corpora import Corpus, Pair, read_pairs
from regard.data.split import (
    LEFT_OUT,
    PARTS,
    SplitPlan,
    SplitReport,
    assign,
    key,
    normalise,
    read_keys,
    split_corpora,
)
from regard.errors import UserError

NOTHING = np.empty(0, np.uint64)
Sides = tuple[str, str]


def fates(pairs: Iterable[Sides], plan: SplitPlan, exclude: Iterable[str] = ()) -> list[str]:
    """What becomes of each pair."""
    keys = read_keys((Pair(src, tgt, line) for line, (src, tgt) in enumerate(pairs, 1)), plan.seed)
    excluded = np.array([key(sentence, plan.seed) for sentence in exclude], np.uint64)
    return [(*PARTS, *LEFT_OUT)[code] for code in assign(keys, excluded, plan)[0]]


def grid(sources: int, translations: int = 1) -> list[Sides]:
    return [(f"source {i}", f"Ziel {i} {j}") for i in range(sources) for j in range(translations)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Don’t  stop !", "don't stop"),
        ("“Wait,” he said.", '"wait" he said'),
        ("Ｈｅｌｌｏ\u00a0ﬁne", "hello fine"),
        ("STRASSE", "Straße?"),
        ("The Patriots , believing it , advanced .", "The Patriots, believing it, advanced."),
        ("日本。", "日 本"),
        ("café", "cafe\u0301"),
        ("soft\u00adhyphen", "softhyphen"),
    ],
)
def test_what_says_the_same_is_the_same(one: str, other: str) -> None:
    assert normalise(one) == normalise(other)
    assert key(one, 1) == key(other, 1)


def test_what_says_something_else_is_not() -> None:
    texts = ["C", "C++", "C#1", "10", "10€", "हिन", "हिनी", "...", "?!", "a", "ä"]
    assert len({key(text, 1) for text in texts}) == len(texts)
    assert key("a", 1) != key("a", 2)


words = st.text("abAB .!", min_size=1, max_size=4)


@settings(deadline=None, max_examples=120, derandomize=True, database=None)
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
        found = fates(pairs, plan, exclude)
    except UserError as error:
        assert "ask for fewer" in str(error) or "hold out fewer" in str(error)
        return
    parts = {
        name: [pair for pair, fate in zip(pairs, found, strict=True) if fate == name] for name in (*PARTS, *LEFT_OUT)
    }
    sides = {"src": [0], "tgt": [1], "both": [0, 1]}[by]
    for one, other in (("train", "valid"), ("train", "test"), ("valid", "test")):
        for side in sides:
            assert not {normalise(pair[side]) for pair in parts[one]} & {normalise(pair[side]) for pair in parts[other]}
    for name in ("train", "valid"):
        assert not {normalise(text) for pair in parts[name] for text in pair} & set(map(normalise, exclude))
    for name, size in (("valid", valid), ("test", test)):
        drawn = [normalise(pair[sides[0]]) for pair in parts[name]]
        assert len(drawn) == len(set(drawn)), "one translation each"
        assert isinstance(size, float) or len(drawn) == size
    assert all(not src.strip() or not tgt.strip() for src, tgt in parts["empty"])
    assert all(pairs.index(pair) < len(pairs) - 1 - pairs[::-1].index(pair) for pair in parts["duplicate"])
    assert len(set(parts["train"])) == len(parts["train"])


def test_shares_are_kept_and_growing_moves_nothing() -> None:
    small, large = grid(2000), grid(6000)
    plan = SplitPlan(valid=0.1, test=0.2)
    before, after = fates(small, plan), fates(large[3000:] + large[:3000], plan)
    assert before == after[3000:5000]
    assert after.count("test") / 6000 == pytest.approx(0.2, abs=0.02)
    assert after.count("valid") / 6000 == pytest.approx(0.1, abs=0.02)
    assert fates(small, SplitPlan(valid=0.1, test=0.2, seed=2)) != before


def test_a_larger_test_set_holds_the_smaller_one_and_leaves_valid_alone() -> None:
    pairs = grid(1000)
    small, large = fates(pairs, SplitPlan(100, 50)), fates(pairs, SplitPlan(100, 90))
    assert {i for i, fate in enumerate(small) if fate == "test"} < {i for i, fate in enumerate(large) if fate == "test"}
    assert [fate == "valid" for fate in small] == [fate == "valid" for fate in large]


def test_a_number_comes_with_the_share_that_draws_the_same() -> None:
    pairs = grid(1500, translations=2)
    keys = read_keys((Pair(src, tgt, 1) for src, tgt in pairs), 1)
    by_number, shares = assign(keys, NOTHING, SplitPlan(40, 70, "both"))
    written = json.loads(json.dumps(shares))
    by_share, again = assign(keys, NOTHING, SplitPlan(written["valid"], written["test"], "both"))
    assert (by_number == by_share).all() and again == shares
    assert [(by_number == code).sum() for code in range(3)] == [3000 - 2 * 110, 40, 70]
    assert (by_number == len(PARTS) + LEFT_OUT.index("further")).sum() == 110


def test_both_keeps_the_other_side_of_what_is_held_out_out_of_training() -> None:
    pairs = [*grid(100), *((f"other {i}", f"ZIEL {i}, 0!") for i in range(100))]
    held = {i for i, fate in enumerate(fates(pairs, SplitPlan(10, 10, "both"))) if fate in ("valid", "test")}
    found = fates(pairs, SplitPlan(10, 10, "both"))
    for i in held:
        assert found[(i + 100) % 200] == "shared"
    assert found.count("shared") == 20
    assert fates(pairs, SplitPlan(10, 10, "src")).count("train") == 180


def test_excluded_sentences_stay_in_test_alone() -> None:
    pairs = grid(60)
    exclude = ["Source 1!", "ziel 2 0", *(f"source {i}" for i in range(20, 40))]
    found = fates(pairs, SplitPlan(valid=5, test=20), exclude)
    hit = [found[i] for i in (1, 2, *range(20, 40))]
    assert set(hit) == {"excluded", "test"}
    assert found.count("excluded") == hit.count("excluded")
    assert found.count("valid") == 5


def split(folder: Path, plan: SplitPlan, content: str, **more: object) -> SplitReport:
    (folder / "pairs.tsv").write_text(content, encoding="utf-8")
    return split_corpora([Corpus(file="pairs.tsv")], folder, folder / "out", plan, **more)  # type: ignore[arg-type]


CONTENT = "".join(f"{src}\t{tgt}\n" for src, tgt in grid(50, 2)) + " \tblank\nsource 1\tZiel 1 0\n"


def test_files_come_back_as_they_were_written(tmp_path: Path) -> None:
    (tmp_path / "bar.tsv").write_text("nobody\tZiel 3 1\n", encoding="utf-8")
    told: list[tuple[int, int | None]] = []
    report = split(
        tmp_path, SplitPlan(5, 10), CONTENT, exclude=[tmp_path / "bar.tsv"], endings=("en.xz", "de.gz"),
        progress=lambda done, total: told.append((done, total)),
    )  # fmt: skip
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        ["report.json", *(f"{part}.{ending}" for part in PARTS for ending in ("en.xz", "de.gz"))]
    )
    assert report.read == 102 and (report.left_out["empty"], report.left_out["duplicate"]) == (1, 1)
    assert sum(report.left_out.values()) + sum(part.pairs for part in report.parts.values()) == 102
    lines = CONTENT.split("\n")
    for name, part in report.parts.items():
        corpus = Corpus(src=f"{name}.en.xz", tgt=f"{name}.de.gz")
        pairs = [f"{pair.src}\t{pair.tgt}" for pair in read_pairs(corpus, tmp_path / "out")]
        assert len(pairs) == part.pairs
        assert pairs == sorted(pairs, key=lines.index), "in the order they were read"
        assert len({pair.split("\t")[0] for pair in pairs}) == part.sources
    assert json.loads((tmp_path / "out" / "report.json").read_text())["parts"]["test"]["pairs"] == 10
    assert told[0] == (1, None) and told[-1] == (102, 102)


def test_a_part_of_size_zero_is_not_written(tmp_path: Path) -> None:
    report = split(tmp_path, SplitPlan(), CONTENT)
    assert set(report.parts) == {"train"} and report.shares == {"valid": 0.0, "test": 0.0}
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["report.json", "train.src", "train.tgt"]


def test_a_line_break_inside_a_sentence_becomes_a_space(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"src": "one\\r\\ntwo", "tgt": "x\\ry\\u2028z\\r"}\n', encoding="utf-8")
    split_corpora([Corpus(file="a.jsonl")], tmp_path, tmp_path / "out", SplitPlan())
    assert (tmp_path / "out" / "train.src").read_bytes() == b"one  two\n"
    assert (tmp_path / "out" / "train.tgt").read_bytes() == "x y\u2028z \n".encode()


@pytest.mark.parametrize(
    ("plan", "problem"),
    [
        (lambda: SplitPlan(test=-1), "test is -1"),
        (lambda: SplitPlan(valid=1.0), r"valid is 1\.0"),
        (lambda: SplitPlan(valid=float("nan")), "valid is nan"),
        (lambda: SplitPlan(seed=-1), "the seed is -1"),
        (lambda: SplitPlan(test=51), "test asks for 51 sentences, and there are 50"),
        (lambda: SplitPlan(valid=30, test=21), "valid asks for 30 sentences, and there are 29"),
        (lambda: SplitPlan(valid=20, test=30), "train would hold nothing of 102 pairs"),
        (lambda: SplitPlan(valid=0.6, test=0.6), "leave nothing to train on"),
        (lambda: SplitPlan(valid=1e-12), "valid would hold nothing"),
    ],
)  # fmt: skip
def test_what_cannot_be_held_out_is_refused_and_nothing_is_written(tmp_path: Path, plan: object, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        split(tmp_path, plan(), CONTENT)  # type: ignore[operator]
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert split(tmp_path, SplitPlan(), CONTENT).read == 102, "an empty one is used"
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    with pytest.raises(UserError, match="is there and not empty"):
        split(tmp_path, SplitPlan(), "a\tb\n")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


@pytest.mark.parametrize("later", ["a\tb\n", CONTENT + "more\tmehr\n"], ids=["shorter", "longer"])
def test_a_corpus_that_changes_between_the_readings_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: str
) -> None:
    def changed(*arguments: object) -> object:
        (tmp_path / "pairs.tsv").write_text(later, encoding="utf-8")
        return assign(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "assign", changed)
    with pytest.raises(UserError, match="changed while it was read"):
        split(tmp_path, SplitPlan(), CONTENT)
    assert not (tmp_path / "out").exists()


def test_memory_holds_hashes_and_not_text(tmp_path: Path) -> None:
    rows = 20_000
    with lzma.open(tmp_path / "long.tsv.xz", "wt", encoding="utf-8", preset=0) as file:
        file.writelines(f"{i} {'a ' * 100}\t{i} {'b ' * 100}\n" for i in range(rows))
    corpus = Corpus(file="long.tsv.xz")
    split_corpora([Corpus(file="pairs.tsv")], _tiny(tmp_path), tmp_path / "warm", SplitPlan(1, 1, "both"))
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
    with pytest.raises(UserError, match="the endings are"):
        split_corpora([Corpus(file="p.tsv")], tmp_path, tmp_path / "out", SplitPlan(), endings=endings)
    assert not (tmp_path / "out").exists()
