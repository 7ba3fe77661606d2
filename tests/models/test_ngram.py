"""n-grams, held to the equations of modified Kneser-Ney written out with dictionaries."""

import math
from collections import Counter
from itertools import product

import numpy as np
import pytest
import torch

from regard.attention.layouts import Padded, Tokens
from regard.decoding.engine import DecodingRequest
from regard.decoding.settings import DecodingSettings
from regard.decoding.stepper import Symbols
from regard.engines.stepper_engine import StepperEngine
from regard.models.ngram import NGram, NGramSettings, discounts

Gram = tuple[int, ...]


class KneserNey:
    """Chen & Goodman 1998, section 3, as it stands there: every sum is a loop over a dictionary."""

    def __init__(self, ids: list[int], order: int, vocabulary: int) -> None:
        self.order, self.vocabulary = order, vocabulary
        occurring = [Counter(tuple(ids[i : i + k]) for i in range(len(ids) - k + 1)) for k in range(order + 2)]
        self.counts: list[Counter[Gram]] = [Counter()]
        for k in range(1, order):
            after: Counter[Gram] = Counter()
            for gram in occurring[k + 1]:
                after[gram[1:]] += 1
            self.counts.append(after)
        self.counts.append(occurring[order])
        self.discounts = [self.estimate(counts) for counts in self.counts]

    @staticmethod
    def estimate(counts: Counter[Gram]) -> list[float]:
        n = [sum(c == i for c in counts.values()) for i in range(5)]
        usual = [0.0, 0.5, 1.0, 1.5]
        if 0 in n[1:4]:
            return usual
        y = n[1] / (n[1] + 2 * n[2])
        found = [0.0, 1 - 2 * y * n[2] / n[1], 2 - 3 * y * n[3] / n[2], 3 - 4 * y * n[4] / n[3]]
        return found if all(0 <= d <= i for i, d in enumerate(found)) else usual

    def p(self, word: int, history: Gram) -> float:
        history = history[-(self.order - 1) :] if self.order > 1 else ()
        return self.smoothed(word, history)

    def smoothed(self, word: int, history: Gram) -> float:
        k = len(history) + 1
        lower = self.smoothed(word, history[1:]) if history else 1 / self.vocabulary
        following = {gram: c for gram, c in self.counts[k].items() if gram[:-1] == history}
        total = sum(following.values())
        if not total:
            return lower
        discount = self.discounts[k]
        c = following.get((*history, word), 0)
        freed = sum(discount[min(c, 3)] for c in following.values())
        return (c - discount[min(c, 3)]) / total + freed / total * lower


def text(length: int, vocabulary: int, seed: int = 0) -> list[int]:
    """Words of very unequal frequency, so that counts of one, two, three and more occur in every order."""
    draw = np.random.default_rng(seed)
    return np.minimum(draw.geometric(0.25, size=length) - 1, vocabulary - 2).tolist()


@pytest.mark.parametrize(("order", "length"), [(1, 300), (2, 300), (3, 400), (5, 400), (3, 2), (4, 1), (3, 0)])
def test_probabilities_are_those_of_the_equations(order: int, length: int) -> None:
    vocabulary = 12
    ids = text(length, vocabulary)
    model = NGram.count(np.array(ids, dtype=np.uint16), order, vocabulary)
    slow = KneserNey(ids, order, vocabulary)
    for k in range(1, order + 1):
        assert model.orders[k - 1].discounts.tolist() == pytest.approx(slow.discounts[k][1:], abs=1e-12)
    for heard in (ids[:60], text(80, vocabulary, seed=1), list(range(vocabulary))):
        expected = [math.log(slow.p(word, tuple(heard[:t]))) for t, word in enumerate(heard)]
        found = model.log_probs(torch.tensor(heard, dtype=torch.long))
        assert found.tolist() == pytest.approx(expected, abs=1e-9)


def test_estimated_discounts_and_usual_ones_both_occur() -> None:
    """The texts above reach either branch."""
    estimated = [order.discounts.tolist() for order in NGram.count(np.array(text(400, 12)), 5, 12).orders]
    assert 0 < estimated.count([0.5, 1.0, 1.5]) < 5
    assert discounts(np.array([1, 1, 1, 2, 2, 3, 4])).tolist() == pytest.approx([3 / 7, 2 - 9 / 14, 3 - 12 / 7])
    assert discounts(np.array([1, 2, 3, 3, 3, 3, 3])).tolist() == [0.5, 1.0, 1.5], "a negative discount is none"
    assert discounts(np.array([7, 7])).tolist() == [0.5, 1.0, 1.5]


def test_every_history_has_a_distribution_and_no_word_is_impossible() -> None:
    vocabulary, order = 7, 3
    ids = [0, 1, 2, 0, 1, 3, 0, 1, 2, 4, 4, 4, 1]  # words 5 and 6 never occur; the last pair occurs once, at the end
    model = NGram.count(np.array(ids), order, vocabulary)
    slow = KneserNey(ids, order, vocabulary)
    for first, second in product(range(vocabulary), repeat=2):
        state = model.start(source(1))
        for token in (first, second):
            logits, state = model.step(torch.tensor([[token]]), state)
        p = logits.double().exp()[0, 0]
        assert float(p.sum()) == pytest.approx(1, abs=1e-6)
        assert float(p.min()) > 0
        assert p.tolist() == pytest.approx([slow.p(w, (first, second)) for w in range(vocabulary)], abs=1e-7)
    rows = torch.tensor([[0, -1, -1], [0, 1, -1], [0, 1, 2]])
    torch.testing.assert_close(model.distribution(rows).sum(-1), torch.ones(3, dtype=torch.float64), atol=1e-12, rtol=0)


def test_an_n_gram_that_has_counted_nothing_expects_every_word_alike() -> None:
    model = NGram(NGramSettings(order=3), 4)
    assert model.log_probs(torch.tensor([1, 2, 3])).exp().tolist() == pytest.approx([0.25] * 3)
    logits, _ = model.step(torch.tensor([[2]]), model.start(source(1)))
    assert logits.exp().flatten().tolist() == pytest.approx([0.25] * 4)


def test_stepping_scores_what_scoring_a_text_does_and_states_can_be_rearranged() -> None:
    vocabulary = 9
    model = NGram.count(np.array(text(500, vocabulary)), 4, vocabulary)
    heard = torch.tensor([text(12, vocabulary, seed) for seed in (3, 4)])
    expected = torch.stack([model.log_probs(row) for row in heard]).float()
    state = model.start(source(2))
    for t in range(11):
        tokens = heard[:, t : t + 1]
        if t == 4:  # two hypotheses; the second is what goes on
            state = state.reorder(torch.tensor([[0, 0], [0, 0]]))
        if t >= 4:
            tokens = torch.cat([(tokens + 1) % vocabulary, tokens], dim=1)
        if t == 8:
            state = state.keep(torch.tensor([1, 0])).keep(torch.tensor([1, 0])).reorder(torch.tensor([[1, 1], [1, 1]]))
        logits, state = model.step(tokens, state)
        found = logits[:, -1].gather(1, heard[:, t + 1 : t + 2])[:, 0]
        torch.testing.assert_close(found, expected[:, t + 1], atol=1e-5, rtol=1e-5)


def test_tables_of_any_size_come_back_from_a_state_dict() -> None:
    model = NGram.count(np.array(text(200, 10)), 3, 10)
    again = NGram(NGramSettings(order=3), 10)
    again.load_state_dict({name: tensor.clone() for name, tensor in model.state_dict().items()})
    heard = torch.tensor(text(50, 10, seed=5))
    assert torch.equal(again.log_probs(heard), model.log_probs(heard))
    assert sorted(model.state_dict()) == sorted(
        f"orders.{k}.{name}" for k in range(3) for name in ("keys", "counts", "discounts")
    )


def test_a_counted_language_can_be_generated() -> None:
    """The searches write on what was counted: 3 4 5 6 and the end, over and over."""
    model = NGram.count(np.array([2, 3, 4, 5, 6] * 50), 3, 8)
    engine = StepperEngine(model, Symbols(bos=2, eos=2, pad=0), torch.device("cpu"))
    for search in ("greedy", "beam"):
        found = engine.decode(DecodingRequest([[2]], [9], DecodingSettings(search=search)))
        assert found[0][0].tokens == [3, 4, 5, 6]


def test_an_n_gram_is_not_trained() -> None:
    model = NGram(NGramSettings(order=2), 5)
    with pytest.raises(NotImplementedError, match="counted, not trained"):
        model(torch.zeros(1, 3, dtype=torch.long))
    assert (
        model.initial_state(3) == {} and not model.is_stateful and model.attentions(torch.zeros(1, 1)).decoder is None
    )
    assert "2-gram" in model.settings.summary


def source(sentences: int) -> Tokens:
    return Padded.of(torch.full((sentences, 1), 2), torch.ones(sentences, dtype=torch.long))
