"""The store holds what the files say, is made once, and never outlives what it was made from."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard.data import digests as digests_module
from regard.data import parallel as parallel_module
from regard.data.arrays import META, SEEN, Ragged, RaggedWriter, damaged, made_from, map_array, smallest_unsigned
from regard.data.corpora import Corpus
from regard.data.filters import KEEP_ALL, RATIO_FROM, FilterReport, Filters
from regard.data.parallel import ALONE, count_workers, map_in_order
from regard.data.settings import DataSettings
from regard.data.store import Encoder, Store, open_or_build
from regard.errors import UserError
from regard.files import digest
from regard.text import EOS, TextSettings, train_vocabulary

WORDS = ["der", "die", "hund", "katze", "haus", "baum", "läuft", "groß", "the", "dog", "cat", "house", "tree", "runs"]
VOCAB = train_vocabulary([" ".join(WORDS)] * 4, TextSettings(vocab_size=400))
CHARS = train_vocabulary(WORDS, TextSettings(kind="char", vocab_size=300))
ALL_FILTERS = Filters(max_length=40, max_ratio=3.0, drop_empty=True, drop_identical=True, drop_duplicates=True)


def sentences(count: int, seed: int = 1) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    return [
        (" ".join(rng.choices(WORDS, k=rng.randint(1, 9))), " ".join(rng.choices(WORDS, k=5))) for _ in range(count)
    ]


def write(folder: Path, pairs: list[tuple[str, str]], name: str = "a.tsv") -> list[Corpus]:
    (folder / name).write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs), encoding="utf-8")
    return [Corpus(file=name)]


def make(folder: Path, corpora: list[Corpus], filters: Filters = KEEP_ALL, **rest: Any) -> Store:
    return open_or_build(folder / "store", corpora, folder, VOCAB, CHARS, filters, **{"workers": 1, **rest})


def texts(store: Store) -> list[tuple[str, str]]:
    return [(VOCAB.decode(store.src(i)), CHARS.decode(store.tgt(i))) for i in range(len(store))]


def test_rows_are_the_texts_and_the_end(tmp_path: Path) -> None:
    pairs = [*sentences(30), ("", ""), ("日本", "x" * 3000)]
    store = make(tmp_path, write(tmp_path, pairs))
    assert texts(store) == pairs
    for index, (src, tgt) in enumerate(pairs):
        assert store.src(index).tolist() == [*VOCAB.encode(src), EOS]
        assert store.tgt(index).tolist() == [*CHARS.encode(tgt), EOS]
        assert store.src_lengths[index] == len(store.src(index))
        assert store.tgt_lengths[index] == len(store.tgt(index))
    assert store.report == FilterReport(read=32, empty=0, too_long=0, ratio=0, identical=0, duplicate=0, kept=32)
    assert store.at_epoch(7) is store


def test_many_rows_at_once(tmp_path: Path) -> None:
    store = make(tmp_path, write(tmp_path, sentences(20)))
    wanted = np.array([7, 0, 7, 19])
    values, lengths = store.sources(wanted)
    assert np.split(values, np.cumsum(lengths)[:-1])[2].tolist() == store.src(7).tolist()
    assert values.tolist() == [number for index in wanted for number in store.src(index)]
    assert store.targets(wanted)[1].tolist() == store.tgt_lengths[wanted].tolist()


def test_filters_leave_out_and_count(tmp_path: Path) -> None:
    good = [("der hund läuft", "the dog runs"), ("die katze", "the cat")]
    bad = [
        ("", "the dog"),
        ("  ", "the dog"),
        ("der", ""),
        ("dog", "dog"),
        good[0],
        ("der " * 60, "the " * 8),
        ("der", "the dog " * 4),
        ("x" * 1_000_000, "x"),
    ]
    store = make(tmp_path, write(tmp_path, good + bad), ALL_FILTERS)
    assert texts(store) == good
    assert store.report == FilterReport(read=10, empty=3, too_long=2, ratio=1, identical=1, duplicate=1, kept=2)
    table = store.report.table()
    assert "too long    2   20.00%" in table
    assert table.count("\n") == 6
    clean = FilterReport(read=10, empty=0, too_long=0, ratio=0, identical=0, duplicate=0, kept=10).table()
    assert [line.split()[0] for line in clean.splitlines()] == ["read", "kept"]


def test_the_first_of_equal_pairs_stays_in_place(tmp_path: Path) -> None:
    pairs = sentences(50)
    store = make(tmp_path, write(tmp_path, pairs + pairs[::-1] + pairs), Filters(drop_duplicates=True))
    assert texts(store) == list(dict.fromkeys(pairs))
    assert store.report.duplicate == 150 - len(store)


def test_sides_do_not_flow_into_each_other(tmp_path: Path) -> None:
    store = make(tmp_path, write(tmp_path, [("ab", "c"), ("a", "bc")]), Filters(drop_duplicates=True))
    assert len(store) == 2


def test_settings_become_filters() -> None:
    corpus = [Corpus(file="a.tsv")]
    settings = DataSettings(train=corpus, valid=corpus, max_length=9, max_ratio=2.5, drop_identical=True)
    expected = Filters(max_length=9, max_ratio=2.5, drop_empty=True, drop_identical=True, drop_duplicates=True)
    assert Filters.of(settings) == expected


def test_a_megabyte_is_judged_unseen() -> None:
    filters = Filters(max_length=10)
    assert filters.judge_text("x" * 101, "y", 10, 10) == "too_long"
    assert filters.judge_text("x" * 100, "y", 10, 10) is None


@pytest.mark.parametrize(
    ("src", "tgt", "reason"),
    [(40, 40, None), (41, 5, "too_long"), (40, 13, "ratio"), (40, 14, None), (RATIO_FROM, 1, None), (1, 17, "ratio")],
)
def test_lengths_are_judged(src: int, tgt: int, reason: str | None) -> None:
    assert ALL_FILTERS.judge_lengths(src, tgt) == reason
    assert KEEP_ALL.judge_lengths(src, tgt) is None


def test_nothing_left_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no pair is left of a\.tsv") as caught:
        make(tmp_path, write(tmp_path, [("", "x"), ("", "y")]), ALL_FILTERS)
    assert "empty" in caught.value.remedy
    assert [path.name for path in tmp_path.iterdir()] == ["a.tsv"]


def written(folder: Path) -> dict[str, bytes]:
    """What a store holds, but for the memory of when it was read."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != SEEN}


def test_any_number_of_processes_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_module, "CHUNK_ITEMS", 7)
    monkeypatch.setattr(parallel_module, "ALONE", 2)
    corpora = write(tmp_path, sentences(300) + sentences(40))
    alone = make(tmp_path, corpora, ALL_FILTERS)
    content = written(tmp_path / "store")
    (tmp_path / "store" / "meta.json").unlink()
    seen: list[tuple[int, int | None]] = []
    store = make(tmp_path, corpora, ALL_FILTERS, workers=2, progress=lambda done, total: seen.append((done, total)))
    assert written(tmp_path / "store") == content
    assert texts(store) == texts(alone)
    assert seen[0] == (7, None)
    assert seen[-1] == (340, None)


def test_an_error_in_the_input_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_module, "CHUNK_ITEMS", 7)
    monkeypatch.setattr(parallel_module, "ALONE", 2)
    corpora = write(tmp_path, sentences(100))
    with (tmp_path / "a.tsv").open("ab") as stream:
        stream.write(b"alone\n")
    with pytest.raises(UserError, match=r"a\.tsv, line 101 has 1 column"):
        make(tmp_path, corpora, workers=2)
    assert [path.name for path in tmp_path.iterdir()] == ["a.tsv"]


def identity(folder: Path) -> tuple[int, int]:
    meta = (folder / "store" / "meta.json").stat()
    return meta.st_ino, meta.st_mtime_ns


def test_unchanged_is_opened_and_changed_is_made_anew(tmp_path: Path) -> None:
    corpora = write(tmp_path, sentences(20))
    make(tmp_path, corpora)
    made = identity(tmp_path)
    make(tmp_path, write(tmp_path, sentences(20)), workers=2)
    assert identity(tmp_path) == made, "the same content written again"

    edited = [*sentences(19), ("neu", "new")]
    assert texts(make(tmp_path, write(tmp_path, edited))) == edited
    seen = {made, identity(tmp_path)}
    swapped = make(tmp_path, [Corpus(file="a.tsv", src_column=1, tgt_column=0)])
    assert texts(swapped) == [(tgt, src) for src, tgt in edited]
    seen.add(identity(tmp_path))
    make(tmp_path, corpora, Filters(max_length=30))
    seen.add(identity(tmp_path))
    other = train_vocabulary(["ein anderer Text"], TextSettings(vocab_size=300, min_frequency=1))
    open_or_build(tmp_path / "store", corpora, tmp_path, other, CHARS, KEEP_ALL)
    seen.add(identity(tmp_path))
    open_or_build(tmp_path / "store", [*corpora, *corpora], tmp_path, other, CHARS, KEEP_ALL)
    seen.add(identity(tmp_path))
    assert len(seen) == 6


def believe_everything_old(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was just written is remembered as if it had lain there; the names of files as they are read whole."""
    read: list[str] = []

    def reading(path: Path) -> str:
        read.append(path.name)
        return digest(path)

    monkeypatch.setattr(digests_module, "TICK", -(10**18))
    monkeypatch.setattr(digests_module, "digest", reading)
    return read


def test_a_store_is_read_whole_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = believe_everything_old(monkeypatch)
    corpora = write(tmp_path, sentences(20))
    made = make(tmp_path, corpora)
    arrays = sorted(path.name for path in (tmp_path / "store").iterdir() if path.suffix != ".json")
    assert sorted(read) == sorted(["a.tsv", *arrays, *arrays]), "the arrays once to seal them, once where they lie"
    read.clear()
    assert texts(make(tmp_path, corpora)) == texts(made)
    assert read == []
    (tmp_path / "store" / "kept").touch()
    make(tmp_path, corpora)
    assert read == ["kept"]


def test_lengths_are_mapped_and_not_read(tmp_path: Path) -> None:
    store = make(tmp_path, write(tmp_path, sentences(40) + sentences(40)), Filters(drop_duplicates=True))
    assert isinstance(store.src_lengths.base, np.memmap)
    assert store.src_lengths.tolist() == [len(store.src(index)) for index in range(len(store))]
    assert store.tgt_lengths.tolist() == [len(store.tgt(index)) for index in range(len(store))]


def test_bits_lost_under_an_untouched_look_are_found_by_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    believe_everything_old(monkeypatch)
    corpora = write(tmp_path, sentences(20))
    make(tmp_path, corpora)
    assert damaged(tmp_path / "store") == []
    victim, memory = tmp_path / "store" / "tgt.ids", tmp_path / "store" / SEEN
    content = bytearray(victim.read_bytes())
    content[3] ^= 1
    victim.write_bytes(content)
    seen, look = json.loads(memory.read_text())["files"], victim.stat()
    whole = seen[str(victim)][-1]
    seen[str(victim)] = [look.st_size, look.st_ino, look.st_mtime_ns, look.st_ctime_ns, whole]
    memory.write_text(json.dumps({"files": seen, "checksum": digests_module.checksum(seen)}))
    make(tmp_path, corpora)
    assert victim.read_bytes() == content, "nothing shows it from outside"
    assert damaged(tmp_path / "store") == ["tgt.ids"]
    victim.unlink()
    assert damaged(tmp_path / "store") == ["tgt.ids"]
    (tmp_path / "store" / META).write_text("{}")
    assert damaged(tmp_path / "store") == [META]


def test_another_format_is_made_anew_from_the_same_text(tmp_path: Path) -> None:
    corpora = write(tmp_path, sentences(20))
    store = make(tmp_path, corpora)
    meta = tmp_path / "store" / META
    content = json.loads(meta.read_text())
    del content["checksum"], content["format"]
    meta.write_text(json.dumps({**content, "checksum": digests_module.checksum(content)}))
    assert made_from(tmp_path / "store") == store.fingerprint, "it is no other text"
    make(tmp_path, corpora)
    assert "format" in json.loads(meta.read_text())


@pytest.mark.parametrize("trusting", [False, True])
@pytest.mark.parametrize("name", ["src.ids", "src.lengths", "tgt.offsets", "kept", "meta.json"])
@pytest.mark.parametrize("damage", ["cut", "gone", "edited"])
def test_a_damaged_store_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, damage: str, trusting: bool
) -> None:
    if trusting:
        believe_everything_old(monkeypatch)
    pairs = sentences(20)
    corpora = write(tmp_path, pairs)
    make(tmp_path, corpora)
    victim = tmp_path / "store" / name
    written_at = victim.stat().st_ctime_ns
    while (tmp_path / "a.tsv").stat().st_ctime_ns <= written_at:  # until the clock of the file system has ticked
        (tmp_path / "a.tsv").touch()
    if damage == "cut":
        victim.write_bytes(victim.read_bytes()[:-1])
    elif damage == "gone":
        victim.unlink()
    elif name == "meta.json":
        victim.write_text(json.dumps({**json.loads(victim.read_text()), "src_dtype": "uint32"}))
    else:
        content = bytearray(victim.read_bytes())
        content[len(content) // 2] ^= 1
        victim.write_bytes(content)
    assert texts(make(tmp_path, corpora)) == pairs


def test_missing_files_are_named_even_with_a_store(tmp_path: Path) -> None:
    corpora = write(tmp_path, sentences(5))
    make(tmp_path, corpora)
    (tmp_path / "a.tsv").unlink()
    with pytest.raises(UserError, match=r"a\.tsv: no such file"):
        make(tmp_path, corpora)


def test_builtin_corpora_are_stored_too(tmp_path: Path) -> None:
    dates = [Corpus(builtin="dates", part="valid")]
    store = make(tmp_path, dates)
    made = identity(tmp_path)
    assert len(store) == 1000
    assert make(tmp_path, dates).report == store.report
    assert identity(tmp_path) == made


def test_numbers_take_as_few_bytes_as_they_need(tmp_path: Path) -> None:
    assert smallest_unsigned(1 << 16) == np.uint16
    assert smallest_unsigned((1 << 16) + 1) == np.uint32
    with RaggedWriter(tmp_path, "rows", np.uint32) as writer:
        writer.append(np.array([1, 2, 70_000]), np.array([2, 0, 1]))
        writer.append(np.array([], np.uint32), np.array([], np.int64))
        writer.append(np.array([5]), np.array([1]))
    rows = Ragged(tmp_path, "rows", np.uint32)
    values, lengths = rows.gather(np.array([3, 1, 2, 0]))
    assert values.tolist() == [5, 70_000, 1, 2]
    assert lengths.tolist() == [1, 0, 1, 2]
    (tmp_path / "empty").touch()
    assert map_array(tmp_path / "empty", np.int64).tolist() == []


def test_zero_workers_means_every_core() -> None:
    assert count_workers(0) >= 1
    assert count_workers(3) == 3


def test_a_process_that_dies_is_reported() -> None:
    with pytest.raises(UserError, match="ended unexpectedly"):
        list(map_in_order(Encoder.from_json, ("damaged", "damaged", KEEP_ALL), iter([[]] * (ALONE + 1)), 2))
