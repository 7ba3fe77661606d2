"""REINFORCE against all places enumerated, in float64: its mean is the gradient of what is expected."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from benchmarks.rows import collate_pairs
from tests.tasks.make import make_task
from torch import Tensor, nn

from regard.attention.recurrent_attention import AttentionOutput, SampledAlignments, build_source_attention
from regard.layers.embeddings import OutputProjection
from regard.losses.crossentropy import cross_entropy
from regard.losses.projected import projected_cross_entropy, projected_r_drop
from regard.losses.reinforce import log_likelihoods, reinforce, returns
from regard.models.recurrent import RecurrentModel, RecurrentSettings
from regard.tasks.translation import Translation
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings
from regard.text.symbols import EOS, PAD

S, T, D, V = 3, 3, 4, 6  # source words, positions, width, vocabulary
LABELS = torch.tensor([[4, 1, 2]])


class Tiny(nn.Module):
    """A decoder whose every state depends on all places drawn before it: the draws are a tree of S^T leaves."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.source_attention = build_source_attention("general", "hard-reinforce", D, D, D, window=1)
        self.source_attention.kind.soft = 0.0  # the equations are of samples alone
        self.memory, self.state = nn.Parameter(torch.randn(1, S, D)), nn.Parameter(torch.randn(1, 1, D))
        self.cell, self.weight = nn.Linear(2 * D, D), nn.Parameter(2 * torch.randn(V, D))
        self.double()

    def forward(self) -> tuple[Tensor, Tensor, SampledAlignments]:
        memory, states, samples = self.source_attention.prepare(self.memory, torch.tensor([S])), [], []
        state: Tensor = self.state
        for t in range(T):
            attention = self.source_attention(state, memory, t)
            state = torch.tanh(self.cell(torch.cat([state, attention.context], dim=-1)))
            states.append(state)
            samples.append(attention.samples)
        return torch.cat(states, dim=1), self.weight, SampledAlignments.concatenate(samples)

    def drawing(
        self, places: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
    ) -> tuple[Tensor, Tensor, SampledAlignments]:
        """The result if exactly these positions are sampled, one after another."""
        lots = iter(places)
        noise = lambda like: 1e9 * F.one_hot(torch.tensor(next(lots)), S).expand_as(like)  # noqa: E731
        monkeypatch.setattr("regard.attention.recurrent_attention.gumbel", noise)
        return self()

    @property
    def learning(self) -> list[Tensor]:
        """All weights but the baseline's."""
        return [p for name, p in self.named_parameters() if "baseline" not in name]


def objective(hidden: Tensor, weight: Tensor, samples: SampledAlignments) -> Tensor:
    projection = OutputProjection(hidden, weight, samples=samples)
    loss = projected_cross_entropy(projection, LABELS)
    return reinforce(loss, projection, LABELS, strength=1.0, entropy=0.0, discount=1.0).sum


def flat(gradients: tuple[Tensor, ...]) -> Tensor:
    return torch.cat([gradient.flatten() for gradient in gradients])


def estimates(model: Tiny, monkeypatch: pytest.MonkeyPatch, baseline: Tensor | None) -> tuple[Tensor, Tensor]:
    """The probability of each way the lots may fall (S^T,), and the gradient estimated there."""
    probabilities, gradients = [], []
    for places in product(range(S), repeat=T):
        hidden, weight, samples = model.drawing(places, monkeypatch)
        if baseline is not None:
            samples = replace(samples, baseline=baseline.expand(1, T))
        probabilities.append(samples.log_p.sum().exp().detach())
        gradients.append(flat(torch.autograd.grad(objective(hidden, weight, samples), model.learning)))
    return torch.stack(probabilities), torch.stack(gradients)


def expected_gradient(model: Tiny, monkeypatch: pytest.MonkeyPatch) -> Tensor:
    """Of -sum_s p(s) log p(y | s), every p differentiated."""
    total = torch.zeros((), dtype=torch.float64)
    for places in product(range(S), repeat=T):
        hidden, weight, samples = model.drawing(places, monkeypatch)
        total = total + samples.log_p.sum().exp() * cross_entropy(hidden @ weight.T, LABELS).sum
    return flat(torch.autograd.grad(total, model.learning))


def test_the_mean_of_the_estimate_is_the_gradient_of_the_expected_likelihood(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Tiny()
    exact = expected_gradient(model, monkeypatch)
    p, estimated = estimates(model, monkeypatch, baseline=None)  # the baseline the module itself has
    torch.testing.assert_close(p.sum(), torch.ones((), dtype=torch.float64))
    torch.testing.assert_close(p @ estimated, exact)
    assert not torch.allclose(estimated[0], exact, rtol=0.01)  # one draw alone is another matter


def test_a_baseline_changes_no_expectation_only_how_far_a_draw_strays(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Tiny()
    exact, spreads = expected_gradient(model, monkeypatch), []
    for baseline in (torch.zeros(1, T), torch.tensor([[-9.0, -6.0, -3.0]]), torch.full((1, T), 100.0)):
        p, estimated = estimates(model, monkeypatch, baseline.double())
        torch.testing.assert_close(p @ estimated, exact)
        spreads.append(float(p @ (estimated - exact).square().sum(dim=1)))
    assert spreads[1] < spreads[0] < spreads[2]  # what is about right helps, what is wrong harms


def test_the_baseline_learns_what_to_expect(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Tiny()
    hidden, weight, samples = model.drawing((0, 2, 1), monkeypatch)
    found = torch.autograd.grad(objective(hidden, weight, samples), samples.baseline)[0]
    rewards = F.log_softmax(hidden @ weight.T, dim=-1).gather(2, LABELS[..., None])[..., 0]
    later = torch.stack([rewards[:, t:].sum(dim=1) for t in range(T)], dim=1)
    torch.testing.assert_close(found, samples.baseline - later)


def choices_of(shape: tuple[int, int]) -> SampledAlignments:
    return SampledAlignments(*(torch.randn(shape, dtype=torch.float64, requires_grad=True) for _ in range(3)))


def test_the_sum_is_what_it_says_and_the_likelihood_stays_plain() -> None:
    torch.manual_seed(0)
    labels = torch.tensor([[3, 1, 5, 2], [4, 2, 0, 0]])
    hidden, weight, samples = torch.randn(2, 4, D).double(), torch.randn(V, D).double(), choices_of((2, 4))
    projection = OutputProjection(hidden, weight, samples=samples)
    smoothed = projected_cross_entropy(projection, labels, smoothing=0.1)
    loss = reinforce(smoothed, projection, labels, strength=0.3, entropy=0.7, discount=0.5)
    plain = cross_entropy(hidden @ weight.T, labels, 0.1)
    expected, log_p = plain.sum.item(), F.log_softmax(hidden @ weight.T, dim=-1)
    for b, length in enumerate((4, 2)):
        for t in range(length):
            reward = sum(0.5 ** (u - t) * float(log_p[b, u, labels[b, u]]) for u in range(t, length))
            surprise = reward - samples.baseline[b, t].item()
            expected -= 0.3 * surprise * samples.log_p[b, t].item() + 0.7 * samples.entropy[b, t].item()
            expected += surprise**2 / 2
    assert loss.sum.item() == pytest.approx(expected)
    torch.testing.assert_close((loss.nll, loss.count), (plain.nll, plain.count))
    gradients = torch.autograd.grad(loss.sum, (samples.log_p, samples.entropy, samples.baseline))
    assert all((gradient[1, 2:] == 0).all() for gradient in gradients)  # padding teaches nothing


def test_two_passes_teach_as_their_mean() -> None:
    torch.manual_seed(0)
    one, weight, samples = torch.randn(1, T, D).double(), torch.randn(V, D).double(), choices_of((1, T))
    single = OutputProjection(one, weight, samples=samples)
    once = reinforce(projected_cross_entropy(single, LABELS), single, LABELS)
    both = SampledAlignments(*(torch.cat([x, x]) for x in (samples.log_p, samples.entropy, samples.baseline)))
    double = OutputProjection(torch.cat([one, one]), weight, samples=both)
    paired = projected_r_drop(double, LABELS, strength=5.0)  # equal passes have no divergence
    twice = reinforce(paired, double, LABELS)
    torch.testing.assert_close(twice.sum, once.sum)


def test_likelihoods_are_found_some_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.losses.reinforce.MAX_LOGITS", {"cpu": 3 * V})  # scores of three rows
    torch.manual_seed(0)
    hidden, weight = torch.randn(2, 5, D), torch.randn(V, D)
    labels = torch.tensor([[3, 1, 5, 2, 4], [4, 2, 0, 0, 0]])
    expected = -F.cross_entropy(
        (hidden @ weight.T).flatten(0, 1), labels.flatten(), ignore_index=0, reduction="none"
    ).view(2, 5)
    torch.testing.assert_close(log_likelihoods(hidden, weight, labels), expected)


@pytest.mark.parametrize("discount", [0.0, 0.9, 1.0])
def test_returns_add_up_what_is_still_to_come(discount: float) -> None:
    rewards = torch.tensor([[-1.0, -2.0, -4.0], [3.0, 0.0, 5.0]], dtype=torch.float64)
    expected = [[sum(discount ** (u - t) * row[u] for u in range(t, 3)) for t in range(3)] for row in rewards.tolist()]
    torch.testing.assert_close(returns(rewards, discount), torch.tensor(expected, dtype=torch.float64))


def test_places_are_learned_from_how_well_it_went() -> None:
    """The word at place t of the answer is the t-th from the end: each position must find its place in the source."""
    torch.manual_seed(0)
    words, places, queries = nn.Embedding(9, 16), nn.Embedding(5, 16), nn.Embedding(5, 16)
    source_attention, output = (
        build_source_attention("general", "hard-reinforce", 16, 16, 16, window=1),
        nn.Linear(16, 9),
    )
    parts = nn.ModuleList([words, places, queries, source_attention, output])
    optimizer = torch.optim.Adam(parts.parameters(), lr=0.01)
    at = torch.arange(5)

    def attend(src: Tensor) -> AttentionOutput:
        memory = source_attention.prepare(words(src) + places(at), torch.full((len(src),), 5))
        return source_attention(queries(at).expand(len(src), -1, -1), memory, at)

    for _ in range(150):
        src = torch.randint(1, 9, (32, 5))
        found, labels = attend(src), src.flip(1)
        projection = OutputProjection(found.context, output.weight, samples=found.samples)
        optimizer.zero_grad()
        learned = reinforce(projected_cross_entropy(projection, labels), projection, labels)
        (learned.sum / learned.count).backward()
        optimizer.step()
    parts.eval()
    src = torch.randint(1, 9, (200, 5))
    found = attend(src)
    assert (found.weights.argmax(dim=-1) == 4 - at).float().mean() > 0.98
    assert ((found.context @ output.weight.T).argmax(dim=-1) == src.flip(1)).float().mean() > 0.98


@pytest.mark.parametrize("r_drop", [0.0, 2.0])
def test_a_translation_model_that_draws_is_trained_so_and_judged_by_likelihood(r_drop: float) -> None:
    torch.manual_seed(0)
    vocabulary = train_tokenizer(["one two three", "eins zwei drei"], TextSettings(vocab_size=270))
    training = {"training.label_smoothing": 0.0, "training.r_drop": r_drop}
    task = make_task(Translation, vocabulary, vocabulary, settings=training)
    settings = RecurrentSettings(d_model=8, d_embedding=8, attention="hard-reinforce", dropout=0.1)
    model = RecurrentModel(settings, len(vocabulary), len(vocabulary))
    rows = [np.array([*vocabulary.encode(text), EOS]) for text in ("one two", "eins zwei", "three", "drei")]
    batch = collate_pairs([(rows[0], rows[1]), (rows[2], rows[3])])
    loss = task.loss(model, batch)
    assert loss.count == (batch.labels != PAD).sum() and loss.sum.item() > loss.nll.item()
    loss.sum.backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in model.parameters())
    judged = task.loss(model.eval(), batch)
    assert judged.sum.item() == pytest.approx(judged.nll.item())
    torch.testing.assert_close(task.loss(model, batch).nll, judged.nll)  # nothing is drawn now
