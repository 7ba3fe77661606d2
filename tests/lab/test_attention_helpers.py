"""Parity of the formulas in the experiments on attention."""

import math

import pytest
import torch

from regard.attention.attend import attend
from regard.attention.layouts import Padded
from regard.lab.experiments.coreference import FIRST, IT, SECOND, WORDS, sentences
from regard.lab.experiments.global_local import effective
from regard.lab.experiments.hard_or_soft import REINFORCE, SOFT, Lookup, build_kind, gradient_noise, loss, pairs
from regard.lab.experiments.layer_types import ATTENTION, CONVOLUTION, RECURRENT, RESTRICTED, path_length
from regard.lab.experiments.own_weight import diagonal_share
from regard.lab.experiments.padding import MaskedAfter
from regard.lab.experiments.scale import softmax_statistics
from regard.lab.toys import generator_of, seeded


def test_effective_keys_and_trace_of_the_jacobian() -> None:
    scores = torch.randn(1, 6, generator=generator_of(1))
    jacobian = torch.autograd.functional.jacobian(lambda e: e.softmax(dim=-1), scores[0])
    keys, trace = softmax_statistics(scores)
    assert trace == pytest.approx(float(jacobian.trace()), rel=1e-5)
    assert keys == pytest.approx(math.exp(float(torch.distributions.Categorical(logits=scores[0]).entropy())), rel=1e-5)


def test_effective_words_of_weights_that_do_not_sum_to_one() -> None:
    assert effective(torch.tensor([[0.2, 0.2, 0.0, 0.0]])) == pytest.approx(2)
    assert effective(torch.tensor([[3.0, 0.0]])) == pytest.approx(1)


def test_share_of_the_diagonal() -> None:
    weights = torch.tensor([[0.6, 0.4, 0.0], [0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    assert diagonal_share(weights) == pytest.approx(2 / 3)


def test_it_refers_to_the_noun_at_its_place() -> None:
    batch = sentences(generator_of(1), 50)
    rows = torch.arange(50)
    assert torch.equal(batch["ids"][rows, batch["right"]], batch["labels"][:, IT])
    assert set((batch["right"] + batch["other"]).tolist()) == {FIRST + SECOND}
    words = [WORDS[number] for number in batch["ids"][0].tolist()]
    assert words[0] == words[3] == "the" and words[5:9] == ["because", "it", "was", "too"]


def test_a_mask_after_the_softmax_scales_the_output() -> None:
    q, k, v = (torch.randn(1, 5, 1, 4, generator=generator_of(1, name)) for name in "qkv")
    layout = Padded(torch.tensor([3]), 5)
    found = MaskedAfter(layout, layout, causal=False).attend(q, k, v, 0.0)
    _, weights = attend(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
    right, _ = attend(q.transpose(1, 2), k[:, :3].transpose(1, 2), v[:, :3].transpose(1, 2))
    kept = weights[..., :3].sum(dim=-1, keepdim=True)
    torch.testing.assert_close(found.transpose(1, 2), right * kept)


@pytest.mark.parametrize(("kind", "length"), [(ATTENTION, 1), (RECURRENT, 32), (CONVOLUTION, 32), (RESTRICTED, 2)])
def test_path_length(kind: str, length: int) -> None:
    seeded(1)
    assert path_length(kind, torch.randn(1, 33, 8, generator=generator_of(1))) == length


def test_reinforce_has_the_gradient_of_the_expected_loss() -> None:
    """The mean over samples approaches the gradient of sum_s a_s loss(m_s), computed position by position."""
    seeded(1)
    model = Lookup(build_kind(REINFORCE)).train()
    batch = pairs(generator_of(1), 2)
    weight = model.attention.scoring.weight
    assert isinstance(weight, torch.Tensor)
    samples = 5000
    many = {name: tensor.repeat(samples, 1) for name, tensor in batch.items()}
    mean = torch.autograd.grad(loss(model, many).sum, weight)[0] / samples
    memory = model.letters(batch["letters"]) + model.digits(batch["digits"])
    scores = model.attention.scoring(model.letters(batch["asked"]), model.attention.scoring.keys(memory))[:, 0]
    log_p = model.output(memory).log_softmax(dim=-1)  # (B, PAIRS, DIGITS)
    nll = -log_p.gather(2, batch["labels"][:, None].expand(-1, memory.size(1), -1))[..., 0]
    (expected,) = torch.autograd.grad((scores.softmax(dim=-1) * nll.detach()).sum(), weight)
    assert float((mean - expected).norm() / expected.norm()) < 0.25


def test_soft_attention_has_no_noise() -> None:
    seeded(1)
    assert gradient_noise(Lookup(build_kind(SOFT)).train(), pairs(generator_of(1), 4), 3) == 0
