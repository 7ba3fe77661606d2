"""BPE-dropout against byte pair encoding itself, and against the algorithm's own promises."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.dropout import segment
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings
from regard.text.symbols import to_bytes

VOCAB = train_tokenizer(
    ["low lower lowest newer wider", "the lowest newest widest", "banana bandana banana"] * 4,
    TextSettings(vocab_size=320),
)
RANKS = VOCAB.merge_ranks


# Few letters in every order: many merges compete for the same place, so their order matters.
DENSE = train_tokenizer(
    ["".join(random.Random(seed).choices("abc ", k=80)) for seed in range(40)], TextSettings(vocab_size=330)
)


@given(text=st.one_of(st.text(), st.text(alphabet="abc ", max_size=40), st.text(alphabet="ab", max_size=40)))
@settings(max_examples=200)
def test_rate_zero_is_byte_pair_encoding(text: str) -> None:
    ranks = DENSE.merge_ranks
    pieces = [piece for word in DENSE.words(text) for piece in segment(word, ranks, 0.0, random.Random(1))]
    assert [DENSE.token_ids[piece] for piece in pieces] == DENSE.encode(text)


def test_rate_one_leaves_bytes() -> None:
    assert segment("lowest", RANKS, 1.0, random.Random(1)) == list("lowest")


def test_pieces_are_known_and_spell_the_word() -> None:
    rng = random.Random(7)
    seen = {tuple(segment("lowest", RANKS, 0.3, rng)) for _ in range(200)}
    assert len(seen) > 3
    for pieces in seen:
        assert all(piece in VOCAB.token_ids for piece in pieces)
        assert b"".join(to_bytes(piece) for piece in pieces) == b"lowest"


def test_a_seed_fixes_the_cut() -> None:
    cuts = [[segment("bandana", RANKS, 0.5, random.Random(seed)) for seed in range(20)] for _ in range(2)]
    assert cuts[0] == cuts[1]


def test_a_merge_is_dropped_at_the_rate() -> None:
    rng = random.Random(3)
    kept = sum(segment("ab", {("a", "b"): 0}, 0.25, rng) == ["ab"] for _ in range(4000))
    assert abs(kept / 4000 - 0.75) < 0.03
