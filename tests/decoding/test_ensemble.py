"""Ensembles average probabilities."""

import pytest
import torch
from hypothesis import settings
from tests.decoding.mock_stepper import SYMBOLS, MockStepper

from regard.decoding.beam import beam_search
from regard.decoding.constraints import Rules
from regard.decoding.stepper import Ensemble

PROPERTY = settings(max_examples=40)


def test_an_ensemble_averages_probabilities() -> None:
    models, weights = [MockStepper(8, seed) for seed in (1, 2, 3)], [1.0, 2.0, 5.0]
    ensemble = Ensemble(models, weights)
    state = ensemble.start([0, 1])
    _, state = ensemble.step(torch.full((2, 1), SYMBOLS.bos), state)
    state = state.reorder(torch.tensor([[0, 0], [0, 0]]))
    logits, state = ensemble.step(torch.tensor([[3, 4], [5, 6]]), state)
    logits, state = ensemble.step(torch.tensor([[7, 7]]), state.keep(torch.tensor([1])).reorder(torch.tensor([[1, 0]])))
    for index, text in enumerate([(SYMBOLS.bos, 6, 7), (SYMBOLS.bos, 5, 7)]):
        members = [torch.tensor(model.logits(1, text)).softmax(-1) for model in models]
        mean = sum(weight / 8 * member for weight, member in zip(weights, members, strict=True))
        assert isinstance(mean, torch.Tensor)
        torch.testing.assert_close(logits[0, index].exp(), mean)


def test_an_ensemble_of_the_same_model_is_that_model() -> None:
    model, max_new_tokens = MockStepper(9), torch.tensor([8, 3])
    alone = beam_search(model, [0, 1], max_new_tokens, Rules(SYMBOLS), width=3, nbest=3)
    twice = beam_search(Ensemble([model, model]), [0, 1], max_new_tokens, Rules(SYMBOLS), width=3, nbest=3)
    for one, other in zip(alone, twice, strict=True):
        assert [hypothesis.tokens for hypothesis in one] == [hypothesis.tokens for hypothesis in other]
        assert [h.score for h in one] == pytest.approx([h.score for h in other], abs=1e-4)


def test_invalid_ensembles_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one member"):
        Ensemble([])
    with pytest.raises(ValueError, match="positive weights"):
        Ensemble([MockStepper(8)], [0.5, 0.5])
    with pytest.raises(ValueError, match="positive weights"):
        Ensemble([MockStepper(8), MockStepper(8)], [1.0, -1.0])
    different = Ensemble([MockStepper(8), MockStepper(9)])
    with pytest.raises(ValueError, match="vocabularies"):
        different.step(torch.zeros((1, 1), dtype=torch.long), different.start([0]))
