"""Mask-predict against the equations of the paper, written as loops over one sentence and one length."""

import math

import pytest
import torch
from torch import Tensor

from regard.attention.layouts import Padded
from regard.decoding.engine import DecodingRequest
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import DecodingSettings
from regard.decoding.stepper import Symbols
from regard.engines.mask_predict import MaskPredict, least_likely, mask_predict, top_lengths
from regard.errors import UserError
from regard.models.masked import MaskedSettings, MaskedTransformer

SYMBOLS = Symbols(bos=1, eos=2, pad=0)
V, L = 30, 16
SOURCES = [[5, 9, 4, 2], [7, 2], [3, 8, 8, 21, 14, 6, 2], [11, 12, 13, 2], [2]]
LIMITS = [12, 12, 30, 3, 12]


@pytest.fixture(scope="module")
def model() -> MaskedTransformer:
    torch.manual_seed(3)
    settings = dict(size="tiny", d_model=32, num_heads=4, d_ff=64, norm="pre", max_length=L)
    made = MaskedTransformer(MaskedSettings.model_validate(settings), V, V).eval()
    with torch.no_grad():  # surer of itself than a new model is, so that no two words are as good as each other
        for parameter in made.parameters():
            parameter.mul_(2.0)
    return made


def engine(model: MaskedTransformer) -> MaskPredict:
    return MaskPredict(model, SYMBOLS, torch.device("cpu"))


def settings(**given: int) -> DecodingSettings:
    return DecodingSettings.model_validate(dict(search="mask_predict") | given)


def reference_mask_predict(
    model: MaskedTransformer, source: list[int], prefix: list[int], count: int, iterations: int
) -> tuple[list[int], float]:
    """Section 3 for one sentence of `count` words: the text, and the sum of the log p of what was not given."""
    words = prefix + [SYMBOLS.bos] * (count - len(prefix))
    log_p = [math.inf] * len(prefix) + [0.0] * (count - len(prefix))
    free = count - len(prefix)
    for t in range(iterations):
        n = free * (iterations - t) // iterations
        masked = sorted(range(len(prefix), count), key=lambda i: log_p[i])[:n] if t else range(len(prefix), count)
        seen = [SYMBOLS.bos if i in masked else word for i, word in enumerate(words)] + [SYMBOLS.eos]
        logits = predicted(model, source, seen)
        for i in masked:
            row = logits[i].log_softmax(-1)
            row[:3] = -math.inf
            words[i], log_p[i] = int(row.argmax()), float(row.max())
    return words, sum(log_p[len(prefix) :])


@torch.no_grad()
def predicted(model: MaskedTransformer, source: list[int], target: list[int]) -> Tensor:
    src, tgt = (Padded.of(torch.tensor([row]), torch.tensor([len(row)])) for row in (source, target))
    logits: Tensor = model(src, tgt)[0].logits()[0]
    return logits


@torch.no_grad()
def reference_search(
    model: MaskedTransformer, source: list[int], limit: int, prefix: list[int], iterations: int, candidates: int
) -> list[Hypothesis]:
    src = Padded.of(torch.tensor([source]), torch.tensor([len(source)]))
    log_p = model.predict_length(model.encode(src)[1])[0].log_softmax(-1).tolist()
    allowed = [n for n in range(L) if len(prefix) <= n <= len(prefix) + limit - 1]
    actual = []
    for count in sorted(allowed, key=lambda n: -log_p[n])[:candidates]:
        words, total = reference_mask_predict(model, source, prefix, count, iterations)
        total += log_p[count]
        actual.append(Hypothesis(words, total / (count - len(prefix) + 1), total, finished=True))
    return sorted(actual, key=lambda hypothesis: -hypothesis.score)


def assert_same(actual: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [each.tokens for each in actual] == [each.tokens for each in expected]
    for mine, other in zip(actual, expected, strict=True):
        assert mine.score == pytest.approx(other.score, abs=1e-4)
        assert mine.log_prob == pytest.approx(other.log_prob, abs=1e-3)
        assert mine.finished and not mine.looped


@pytest.mark.parametrize("iterations", [1, 2, 3, 5, 10])
@pytest.mark.parametrize("prefixes", [None, [[], [20, 21], [9], [17], [6, 6, 6]]])
def test_batches_equal_single_sentences(
    model: MaskedTransformer, iterations: int, prefixes: list[list[int]] | None
) -> None:
    decoding_settings = settings(iterations=iterations, length_candidates=4, nbest=4)
    actual = engine(model).decode(DecodingRequest(SOURCES, LIMITS, decoding_settings, prefixes=prefixes or ()))
    for i, (source, limit) in enumerate(zip(SOURCES, LIMITS, strict=True)):
        prefix = prefixes[i] if prefixes else []
        assert_same(actual[i], reference_search(model, source, limit, prefix, iterations, 4))
        assert all(each.tokens[: len(prefix)] == prefix for each in actual[i])
        assert all(len(each.tokens) - len(prefix) < limit for each in actual[i])
        assert not {0, 1, 2} & {token for each in actual[i] for token in each.tokens[len(prefix) :]}


def test_iterations_change_the_result(model: MaskedTransformer) -> None:
    """Or the test above would hold for a search that never mends anything."""
    results = [
        engine(model).decode(DecodingRequest(SOURCES, LIMITS, settings(iterations=n, length_candidates=4)))
        for n in (1, 10)
    ]
    assert [a[0].tokens for a in results[0]] != [a[0].tokens for a in results[1]]


def test_one_iteration_is_the_argmax_of_one_pass(model: MaskedTransformer) -> None:
    (actual,) = engine(model).decode(DecodingRequest([SOURCES[2]], [30], settings(iterations=1, length_candidates=1)))
    count = len(actual[0].tokens)
    logits = predicted(model, SOURCES[2], [SYMBOLS.bos] * count + [SYMBOLS.eos])
    logits[:, :3] = -math.inf
    assert actual[0].tokens == logits[:count].argmax(-1).tolist()


def test_results_do_not_depend_on_batch_tokens(model: MaskedTransformer) -> None:
    together = engine(model).decode(DecodingRequest(SOURCES, LIMITS, settings(iterations=4)))
    apart = engine(model).decode(DecodingRequest(SOURCES, LIMITS, settings(iterations=4, batch_tokens=1)))
    for mine, other in zip(together, apart, strict=True):
        assert_same(mine, other)


def test_one_new_token_is_the_end_symbol(model: MaskedTransformer) -> None:
    actual = engine(model).decode(DecodingRequest([[5, 2], [5, 2]], [1, 1], settings(nbest=3), prefixes=[[], [9, 9]]))
    assert [[each.tokens for each in texts] for texts in actual] == [[[]], [[9, 9]]]


def test_empty_input(model: MaskedTransformer) -> None:
    assert engine(model).decode(DecodingRequest([], [], settings())) == []


def test_uncertain_words_are_predicted_again() -> None:
    """A model that knows places 0 and 2 at once, and the others only when it sees those."""
    sure, certain = torch.tensor([5, 6, 7, 8]), {0: 5.0, 1: 0.2, 2: 4.0, 3: 0.1}
    seen = []

    def predict(words: Tensor) -> Tensor:
        seen.append(words[0].tolist())
        logits = torch.zeros(1, 5, 10)
        hints = bool(words[0, 0] == 5) and bool(words[0, 2] == 7)
        for i in range(4):
            token = int(sure[i]) if certain[i] > 1 or hints else 9
            logits[0, i, token] = certain[i] + 5 * hints
        return logits

    words = torch.tensor([[1, 1, 1, 1, 2]])
    free = torch.tensor([[True, True, True, True, False]])
    actual, log_p = mask_predict(predict, words, free, 2, SYMBOLS)
    assert seen == [[1, 1, 1, 1, 2], [5, 1, 7, 1, 2]]
    assert actual.tolist() == [[5, 6, 7, 8, 2]]
    assert log_p[0, 4] == 0 and bool((log_p[0, :4] < 0).all())


def test_among_equal_words_the_first_is_masked() -> None:
    log_p = torch.tensor([[-1.0, -2.0, -2.0, -0.5], [-1.0, -1.0, -1.0, -9.0]])
    free = torch.tensor([[True] * 4, [True, True, True, False]])
    masked = least_likely(log_p, free, torch.tensor([[1], [2]]))
    assert masked.tolist() == [[False, True, False, False], [True, True, False, False]]


def test_lengths_are_within_their_bounds() -> None:
    log_p = torch.tensor([[9.0, 1.0, 2.0, 3.0, 4.0], [0.0, 5.0, 1.0, 1.5, 2.0]]).log_softmax(1)
    owners, counts, actual = top_lengths(log_p, torch.tensor([1, 0]), torch.tensor([3, 40]), 4)
    assert owners.tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert counts.tolist() == [3, 2, 1, 1, 4, 3, 2]
    torch.testing.assert_close(actual, log_p[owners, counts])


def test_unsupported_requests_are_refused(model: MaskedTransformer) -> None:
    with pytest.raises(UserError) as error:
        engine(model).decode(DecodingRequest(SOURCES, LIMITS, DecodingSettings(search="greedy")))
    assert (error.value.code, error.value.where) == ("unsupported", "decoding.search")
    with pytest.raises(UserError) as error:
        engine(model).decode(DecodingRequest([[5, 2]], [9], settings(), prefixes=[[7] * L]))
    assert (error.value.code, error.value.where) == ("too-long", "prefix")
    broken = MaskedTransformer(model.settings, V, V).eval()
    with torch.no_grad():
        broken.transformer.tgt_embedding.weight.fill_(math.nan)
    with pytest.raises(UserError) as error:
        engine(broken).decode(DecodingRequest(SOURCES, LIMITS, settings()))
    assert error.value.code == "not-finite"
