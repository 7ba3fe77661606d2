"""WordPiece by likelihood: the same tokens as a program that counts everything again for each merge."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.text.factory import train_tokenizer
from regard.text.settings import BertTextSettings, TextSettings
from regard.text.trainers import learn_by_likelihood, merge_neighbours

TOY = "ab ab ab ab ab ac ac ad db db cb xy xy"


def spell(word: str) -> tuple[str, ...]:
    return (word[0], *(f"##{letter}" for letter in word[1:]))


def by_counting(words: dict[tuple[str, ...], int], count: int, min_frequency: int) -> list[str]:
    """Merge by the definition; every count is made from nothing."""
    learnt: list[str] = []
    while len(learnt) < count:
        tokens, pairs = Counter[str](), Counter[tuple[str, str]]()
        for word, times in words.items():
            for token in word:
                tokens[token] += times
            for pair in pairwise(word):
                pairs[pair] += times
        frequent = sorted(pair for pair in pairs if pairs[pair] >= min_frequency)
        if not frequent:
            break
        best = max(frequent, key=lambda pair: pairs[pair] / (tokens[pair[0]] * tokens[pair[1]]))
        merged = best[0] + best[1].removeprefix("##")
        learnt += [] if merged in learnt else [merged]
        merged_words: Counter[tuple[str, ...]] = Counter()
        for word, times in words.items():
            merged_words[tuple(merge_neighbours(word, best, merged))] += times
        words = dict(merged_words)
    return learnt


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.dictionaries(st.text("abc", min_size=1, max_size=7), st.integers(1, 9), max_size=12), st.integers(1, 3))
def test_merges_are_those_of_the_definition(counts: dict[str, int], min_frequency: int) -> None:
    words = {spell(word): count for word, count in counts.items()}
    assert learn_by_likelihood(words, 9, min_frequency, "##") == by_counting(words, 9, min_frequency)


def test_frequency_joins_the_frequent_and_likelihood_those_that_belong_together() -> None:
    words = {spell(word): count for word, count in Counter(TOY.split()).items()}
    assert learn_by_likelihood(words, 1, 1, "##") == ["xy"]
    characters = {token for word in words for token in word}
    size = 5 + len(characters | {token.removeprefix("##") for token in characters}) + 1
    for merge_by, first in (("frequency", "ab"), ("likelihood", "xy")):
        chosen = BertTextSettings.model_validate({"vocab_size": size, "min_frequency": 1, "merge_by": merge_by})
        entries = train_tokenizer([TOY], chosen).entries
        assert entries[-1] == first
        bytes_only = TextSettings.model_validate(
            {"kind": "wordpiece", "vocab_size": 516, "min_frequency": 1, "merge_by": merge_by}
        )
        tokenizer = train_tokenizer([TOY.replace(" ", "\n")], bytes_only)
        assert len(tokenizer.encode(first)) == 1 and len(tokenizer) == 516


@pytest.mark.parametrize("kind", ["bert", "wordpiece"])
def test_a_learnt_vocabulary_is_full_and_the_same_each_time(kind: str) -> None:
    stems, ends = ("hold", "mark", "send"), ("er", "s", "")
    lines = [f"{a}{b}{c} {b}{c}ing" for a in ("un", "re", "de") for b in stems for c in ends]
    form = BertTextSettings if kind == "bert" else TextSettings
    size = 60 if kind == "bert" else 560
    chosen = form.model_validate({"kind": kind, "vocab_size": size, "min_frequency": 1, "merge_by": "likelihood"})
    first, second = train_tokenizer(lines, chosen), train_tokenizer(lines[::-1], chosen)
    assert first.to_json() == second.to_json() and len(first) == size
    assert [first.decode(first.encode(line)).replace(" ", "") for line in lines] == [
        line.replace(" ", "") for line in lines
    ]
