"""BPE-dropout: the same text, other tokens in each epoch, exact lengths, and reproducible."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from regard import processes
from regard.data import dropout as dropout_module
from regard.data.dropout import BPEDropout, open_or_build_dropout
from regard.data.encoders import KEEP_ALL, PairEncoder
from regard.data.pairs import Pairs
from regard.data.planning import Batches, Budget
from regard.data.store import DIGESTS, open_or_build
from regard.run_files import MANIFEST
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings
from regard.text.symbols import EOS
from regard.text.tokenizer import Tokenizer

LINES = [
    ("der kleine hund schläft unter dem großen baum", "the little dog sleeps under the big tree"),
    ("die katze läuft über das große haus", "the cat runs over the big house"),
    ("", "日本 and\u2003more"),
    ("zwei hunde laufen unter den bäumen", "two dogs run under the trees"),
    ("der baum", "the tree"),
] * 4


@cache
def tokenizer() -> Tokenizer:
    return train_tokenizer([side for pair in LINES for side in pair], TextSettings(vocab_size=420))


def pairs_of(folder: Path, pairs: list[tuple[str, str]], src: Tokenizer, tgt: Tokenizer) -> Pairs:
    examples = [{"src": src_text, "tgt": tgt_text} for src_text, tgt_text in pairs]
    return Pairs(open_or_build(folder / "store", repr(pairs), lambda: examples, PairEncoder(src, tgt, KEEP_ALL), 1))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Pairs:
    return pairs_of(tmp_path_factory.mktemp("corpus"), LINES, tokenizer(), tokenizer())


def make(
    folder: Path, store: Pairs, rate: float = 0.2, seed: int = 5, max_length: int = 256, workers: int = 1
) -> BPEDropout:
    return open_or_build_dropout(folder / "dropout", store, tokenizer(), tokenizer(), rate, seed, max_length, workers)


def test_the_text_stays_and_the_tokens_change(store: Pairs, tmp_path: Path) -> None:
    dropping = make(tmp_path, store)
    assert len(dropping) == len(store)
    cuts = set()
    for number in range(4):
        epoch = dropping.at_epoch(number)
        for index, (src, tgt) in enumerate(LINES):
            assert tokenizer().decode(epoch.src(index)) == src
            assert tokenizer().decode(epoch.tgt(index)) == tgt
            assert epoch.src(index)[-1] == EOS
            assert len(epoch.src(index)) == epoch.src_lengths[index]
            assert len(epoch.tgt(index)) == epoch.tgt_lengths[index]
        cuts.add(tuple(epoch.src(0).tolist()))
    assert len(cuts) > 1
    assert epoch.src_lengths.sum() > store.src_lengths.sum()


def test_rate_zero_is_the_store(store: Pairs, tmp_path: Path) -> None:
    epoch = make(tmp_path, store, rate=0.0).at_epoch(1)
    everything = np.arange(len(store))
    assert epoch.sources(everything)[0].tolist() == store.sources(everything)[0].tolist()
    assert epoch.targets(everything)[1].tolist() == store.targets(everything)[1].tolist()


def test_rows_do_not_depend_on_other_rows(store: Pairs, tmp_path: Path) -> None:
    epoch = make(tmp_path, store).at_epoch(2)
    wanted = np.array([11, 3, 3, 0])
    assert epoch.sources(wanted)[0].tolist() == [number for index in wanted for number in epoch.src(index)]


def test_no_pair_gets_longer_than_max_length(store: Pairs, tmp_path: Path) -> None:
    longest = int(max(store.src_lengths.max(), store.tgt_lengths.max()))
    dropping = make(tmp_path, store, rate=0.9, max_length=longest)
    plain = 0
    for number in range(3):
        epoch = dropping.at_epoch(number)
        assert max(epoch.src_lengths.max(), epoch.tgt_lengths.max()) <= longest
        for index in range(len(store)):
            plain += epoch.src(index).tolist() == store.src(index).tolist() and store.src_lengths[index] > 2
    assert plain > 0


def test_any_number_of_processes_writes_the_same(store: Pairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dropout_module, "CHUNK_PAIRS", 1)
    monkeypatch.setattr(dropout_module, "CHUNK_WORDS", 2)
    monkeypatch.setattr(processes, "SINGLE_PROCESS_CHUNKS", 2)
    make(tmp_path, store)
    make(tmp_path / "again", store, workers=2)
    one, two = (
        {path.name: path.read_bytes() for path in folder.iterdir() if path.name != DIGESTS}
        for folder in (tmp_path / "dropout", tmp_path / "again" / "dropout")
    )
    assert one == two


def test_tables_are_opened_if_current_and_built_if_not(store: Pairs, tmp_path: Path) -> None:
    make(tmp_path, store)
    meta = tmp_path / "dropout" / MANIFEST
    made = meta.stat().st_ino, meta.stat().st_mtime_ns
    make(tmp_path, store)
    assert (meta.stat().st_ino, meta.stat().st_mtime_ns) == made
    (tmp_path / "dropout" / "src.segmentations.values").write_bytes(b"")
    assert tokenizer().decode(make(tmp_path, store).at_epoch(0).src(0)) == LINES[0][0]
    first = make(tmp_path, store, seed=5).at_epoch(0).sources(np.arange(len(store)))[0].tolist()
    assert make(tmp_path, store, seed=6).at_epoch(0).sources(np.arange(len(store)))[0].tolist() != first


def test_batches_have_the_planned_lengths(store: Pairs, tmp_path: Path) -> None:
    batches = Batches(make(tmp_path, store, rate=0.5), Budget(80), seed=1)
    for step in range(20):
        drawn = batches.batch(step)
        (batch,) = drawn.micro_batches
        rows = len(batch.labels)
        assert rows * max(batch["source"].shape[1], batch.labels.shape[1]) <= 80 or rows == 1
        assert drawn.tokens == batch.tokens


def test_a_side_without_merges_is_unchanged(tmp_path: Path) -> None:
    trees = ["(S (NP XX )NP (VP XX (NP XX XX )NP )VP XX )S", "(NP XX )NP", "(S ( )S"]
    brackets = train_tokenizer(trees, TextSettings(kind="token", min_frequency=1))
    store = pairs_of(tmp_path, [("the little dog", tree) for tree in trees], tokenizer(), brackets)
    dropping = open_or_build_dropout(tmp_path / "dropout", store, tokenizer(), brackets, 0.5, 1, 256, 1)
    cuts = set()
    for number in range(4):
        epoch = dropping.at_epoch(number)
        assert all(epoch.tgt(index).tolist() == store.tgt(index).tolist() for index in range(len(trees)))
        cuts.add(tuple(epoch.src(0).tolist()))
    assert len(cuts) > 1


@pytest.mark.parametrize("rows", [1, 3, 19, 20, 21])
def test_lengths_are_computed_in_chunks(
    rows: int, store: Pairs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropout = make(tmp_path, store)
    whole = dropout.at_epoch(3)
    monkeypatch.setattr(dropout_module, "CHUNK_ROWS", rows)
    monkeypatch.setattr(np, "empty", lambda shape, dtype: np.full(shape, -7, dtype))
    chunked = dropout.at_epoch(3)
    assert chunked.src_lengths.tolist() == whole.src_lengths.tolist()
    assert chunked.tgt_lengths.tolist() == whole.tgt_lengths.tolist()
