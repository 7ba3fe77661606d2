"""The store holds what the examples say, is built once, and is never used after what it was made from changed."""

import json
import random
from functools import cache
from mmap import mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard import processes
from regard.data import digests as digests_module
from regard.data.accounts import Account
from regard.data.encoders import KEEP_ALL, Filters, PairEncoder
from regard.data.examples import Example
from regard.data.pairs import Pairs
from regard.data.store import DIGESTS, damaged_files, fingerprint_of, open_or_build
from regard.errors import UserError
from regard.files import checksum, digest
from regard.run_files import MANIFEST
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings
from regard.text.symbols import EOS
from regard.text.tokenizer import Tokenizer

WORDS = ["der", "die", "hund", "katze", "haus", "baum", "läuft", "groß", "the", "dog", "cat", "house", "tree", "runs"]
ALL_FILTERS = Filters(max_length=40, max_ratio=3.0, drop_empty=True, drop_identical=True, drop_duplicates=True)
TextPairs = list[tuple[str, str]]


@cache
def subwords() -> Tokenizer:
    return train_tokenizer([" ".join(WORDS)] * 4, TextSettings(vocab_size=400))


@cache
def characters() -> Tokenizer:
    return train_tokenizer(WORDS, TextSettings(kind="char", vocab_size=300))


def sentences(count: int, seed: int = 1) -> TextPairs:
    rng = random.Random(seed)
    return [
        (" ".join(rng.choices(WORDS, k=rng.randint(1, 9))), " ".join(rng.choices(WORDS, k=5))) for _ in range(count)
    ]


def examples_of(pairs: TextPairs) -> list[Example]:
    return [{"src": src, "tgt": tgt} for src, tgt in pairs]


def open_pairs(folder: Path, pairs: TextPairs, filters: Filters = KEEP_ALL, **options: Any) -> Pairs:
    """The store of some pairs, which are their own identity."""
    encoder = PairEncoder(subwords(), characters(), filters)
    options = {"workers": 1, **options}
    return Pairs(open_or_build(folder / "store", repr(pairs), lambda: iter(examples_of(pairs)), encoder, **options))


def texts(store: Pairs) -> TextPairs:
    return [(subwords().decode(store.src(i)), characters().decode(store.tgt(i))) for i in range(len(store))]


def test_rows_are_the_texts_and_the_end_symbol(tmp_path: Path) -> None:
    pairs = [*sentences(30), ("", ""), ("日本", "x" * 3000)]
    store = open_pairs(tmp_path, pairs)
    assert texts(store) == pairs
    for index, (src, tgt) in enumerate(pairs):
        assert store.src(index).tolist() == [*subwords().encode(src), EOS]
        assert store.tgt(index).tolist() == [*characters().encode(tgt), EOS]
        assert store.src_lengths[index] == len(store.src(index))
        assert store.tgt_lengths[index] == len(store.tgt(index))
    assert store.account == Account("pairs", 32, 32)
    assert store.at_epoch(7) is store


def test_many_rows_are_gathered_at_once(tmp_path: Path) -> None:
    store = open_pairs(tmp_path, sentences(20))
    indices = np.array([7, 0, 7, 19])
    values, lengths = store.sources(indices)
    assert np.split(values, np.cumsum(lengths)[:-1])[2].tolist() == store.src(7).tolist()
    assert values.tolist() == [token for index in indices for token in store.src(index)]
    assert store.targets(indices)[1].tolist() == store.tgt_lengths[indices].tolist()


def test_filters_drop_and_count(tmp_path: Path) -> None:
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
    store = open_pairs(tmp_path, good + bad, ALL_FILTERS)
    assert texts(store) == good
    left_out = dict(empty=3, too_long=2, ratio=1, identical=1, duplicate=1)
    assert store.account == Account("pairs", 10, 2, left_out)
    table = store.account.table()
    assert "too long    2   20.00%" in table
    assert table.count("\n") == 6


def test_the_first_of_equal_pairs_stays_in_its_position(tmp_path: Path) -> None:
    pairs = sentences(50)
    store = open_pairs(tmp_path, pairs + pairs[::-1] + pairs, Filters(drop_duplicates=True))
    assert texts(store) == list(dict.fromkeys(pairs))
    assert store.account.dropped["duplicate"] == 150 - len(store)


def test_pairs_with_the_same_characters_are_not_duplicates(tmp_path: Path) -> None:
    assert len(open_pairs(tmp_path, [("ab", "c"), ("a", "bc")], Filters(drop_duplicates=True))) == 2


def test_no_examples_left_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        open_pairs(tmp_path, [("", "x"), ("", "y")], ALL_FILTERS, data="a.tsv")
    assert (error.value.code, error.value.where) == ("no-data", "a.tsv")
    assert "empty: 2" in error.value.remedy
    assert not list(tmp_path.iterdir())


def content(folder: Path) -> dict[str, bytes]:
    """Files of a store without the cache of digests."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != DIGESTS}


def test_any_number_of_processes_writes_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "CHUNK_ITEMS", 7)
    monkeypatch.setattr(processes, "SINGLE_PROCESS_CHUNKS", 2)
    pairs = sentences(300) + sentences(40)
    single = open_pairs(tmp_path, pairs, ALL_FILTERS)
    expected = content(tmp_path / "store")
    (tmp_path / "store" / MANIFEST).unlink()
    seen: list[tuple[int, int | None]] = []
    store = open_pairs(tmp_path, pairs, ALL_FILTERS, workers=2, progress=lambda done, total: seen.append((done, total)))
    assert content(tmp_path / "store") == expected
    assert texts(store) == texts(single)
    assert (seen[0], seen[-1]) == ((7, None), (340, None))


def test_an_error_in_the_examples_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "CHUNK_ITEMS", 7)
    monkeypatch.setattr(processes, "SINGLE_PROCESS_CHUNKS", 2)

    def examples() -> Any:
        yield from examples_of(sentences(100))
        raise UserError("line 101 has one column", code="bad-line", where="a.tsv:101")

    with pytest.raises(UserError) as error:
        open_or_build(tmp_path / "store", "a", examples, PairEncoder(subwords(), characters(), KEEP_ALL), workers=2)
    assert error.value.code == "bad-line"
    assert not list(tmp_path.iterdir())


def made_at(folder: Path) -> tuple[int, int]:
    status = (folder / "store" / MANIFEST).stat()
    return status.st_ino, status.st_mtime_ns


def test_unchanged_is_opened_and_changed_is_built_again(tmp_path: Path) -> None:
    open_pairs(tmp_path, sentences(20))
    times = {made_at(tmp_path)}
    open_pairs(tmp_path, sentences(20), workers=2)
    assert {made_at(tmp_path)} == times, "the same content"
    edited = [*sentences(19), ("neu", "new")]
    assert texts(open_pairs(tmp_path, edited)) == edited
    times.add(made_at(tmp_path))
    open_pairs(tmp_path, edited, Filters(max_length=30))
    times.add(made_at(tmp_path))
    other = train_tokenizer(["ein anderer Text"], TextSettings(vocab_size=300, min_frequency=1))
    for tokenizers in ((other, characters()), (other, other)):
        encoder = PairEncoder(*tokenizers, KEEP_ALL)
        open_or_build(tmp_path / "store", repr(edited), lambda: examples_of(edited), encoder)
        times.add(made_at(tmp_path))
    assert len(times) == 5


def treat_every_file_as_old(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Cache the digests of new files too; return the names of files as they are read."""
    read: list[str] = []

    def reading(path: Path) -> str:
        read.append(path.name)
        return digest(path)

    monkeypatch.setattr(digests_module, "TICK", -(10**18))
    monkeypatch.setattr(digests_module, "digest", reading)
    return read


def test_a_store_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = treat_every_file_as_old(monkeypatch)
    made = open_pairs(tmp_path, sentences(20), Filters(drop_duplicates=True))
    assert sorted(read) == sorted(path.name for path in (tmp_path / "store").iterdir() if path.suffix != ".json")
    read.clear()
    assert texts(open_pairs(tmp_path, sentences(20), Filters(drop_duplicates=True))) == texts(made)
    assert read == []
    (tmp_path / "store" / "rows").touch()
    open_pairs(tmp_path, sentences(20), Filters(drop_duplicates=True))
    assert read == ["rows"]


def test_lengths_are_mapped_and_not_read(tmp_path: Path) -> None:
    store = open_pairs(tmp_path, sentences(40) + sentences(40), Filters(drop_duplicates=True))
    assert isinstance(getattr(store.src_lengths.base, "obj", None), mmap)
    assert store.src_lengths.tolist() == [len(store.src(index)) for index in range(len(store))]
    assert store.tgt_lengths.tolist() == [len(store.tgt(index)) for index in range(len(store))]


def test_lost_bits_are_found_by_reading_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    treat_every_file_as_old(monkeypatch)
    open_pairs(tmp_path, sentences(20))
    assert damaged_files(tmp_path / "store") == []
    victim, cache_file = tmp_path / "store" / "tgt.values", tmp_path / "store" / DIGESTS
    damaged = bytearray(victim.read_bytes())
    damaged[3] ^= 1
    victim.write_bytes(damaged)
    entries, status = json.loads(cache_file.read_text())["files"], victim.stat()
    sha256 = entries[str(victim)][-1]
    entries[str(victim)] = [status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, sha256]
    cache_file.write_text(json.dumps({"files": entries, "checksum": checksum(entries)}))
    open_pairs(tmp_path, sentences(20))
    assert victim.read_bytes() == damaged, "the file system does not show it"
    assert damaged_files(tmp_path / "store") == ["tgt.values"]
    victim.unlink()
    assert damaged_files(tmp_path / "store") == ["tgt.values"]
    (tmp_path / "store" / MANIFEST).write_text("{}")
    assert damaged_files(tmp_path / "store") == [MANIFEST]


def test_another_format_is_built_again_from_the_same_examples(tmp_path: Path) -> None:
    store = open_pairs(tmp_path, sentences(20))
    manifest = tmp_path / "store" / MANIFEST
    values = json.loads(manifest.read_text())
    del values["sha256"]
    values["format"] -= 1
    manifest.write_text(json.dumps({**values, "sha256": checksum(values)}))
    assert fingerprint_of(tmp_path / "store") == store.fingerprint, "it is no other text"
    open_pairs(tmp_path, sentences(20))
    assert json.loads(manifest.read_text())["format"] == values["format"] + 1


def test_a_store_of_an_older_version_is_built_again(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "meta.json").write_text('{"format": 3, "fingerprint": "0"}')
    assert fingerprint_of(tmp_path / "store") is None
    assert texts(open_pairs(tmp_path, sentences(5))) == sentences(5)
    assert not (tmp_path / "store" / "meta.json").exists()


@pytest.mark.parametrize("trusting", [False, True])
@pytest.mark.parametrize("name", ["src.values", "src.lengths", "tgt.offsets", "rows", MANIFEST])
@pytest.mark.parametrize("damage", ["cut", "gone", "edited"])
def test_a_damaged_store_is_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, damage: str, trusting: bool
) -> None:
    if trusting:
        treat_every_file_as_old(monkeypatch)
    pairs, filters = sentences(20), Filters(drop_duplicates=True)
    open_pairs(tmp_path, pairs, filters)
    victim, clock = tmp_path / "store" / name, tmp_path / "clock"
    clock.touch()
    while clock.stat().st_ctime_ns <= victim.stat().st_ctime_ns:  # until the clock of the file system has ticked
        clock.touch()
    if damage == "cut":
        victim.write_bytes(victim.read_bytes()[:-1])
    elif damage == "gone":
        victim.unlink()
    elif name == MANIFEST:
        victim.write_text(json.dumps({**json.loads(victim.read_text()), "dtypes": {"src": "uint32"}}))
    else:
        damaged = bytearray(victim.read_bytes())
        damaged[len(damaged) // 2] ^= 1
        victim.write_bytes(damaged)
    assert texts(open_pairs(tmp_path, pairs, filters)) == pairs
