"""Recurrent layers: the loop over words is the fused kernel, padding is never seen, and steps are the whole."""

import pytest
import torch
from torch import Tensor, nn

from regard.layers.recurrent import (
    CELLS,
    Bidirectional,
    Hidden,
    Recurrent,
    RecurrentLayer,
    RecurrentStack,
    reverse_sequences,
)

B, T, D_IN, K = 4, 7, 16, 8
LENGTHS = torch.tensor([7, 3, 1, 5])


def words() -> Tensor:
    return torch.randn(B, T, D_IN, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["full", "padded"])
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("cell", CELLS)
def test_the_loop_equals_the_fused_kernel(cell: str, backward: bool, lengths: Tensor | None) -> None:
    torch.manual_seed(0)
    layer = RecurrentLayer(cell, D_IN, K, backward).double()
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.8)
    x = words().requires_grad_()
    hidden = tuple(torch.randn(B, K, dtype=torch.float64, requires_grad=True) for _ in range(layer.cell.num_states))
    leaves = [x, *hidden, *layer.parameters()]

    def results(y: Tensor, after: Hidden) -> tuple[Tensor, ...]:
        total = (y * torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)).sum()
        total = total + sum((part.cumsum(-1) ** 2).sum() for part in after)
        return y, *after, *torch.autograd.grad(total, leaves)

    torch.testing.assert_close(results(*layer(x, lengths, hidden)), results(*layer.read(x, lengths, hidden)))


def test_the_gru_of_the_paper_resets_the_state_before_the_product() -> None:
    """Cho et al. 2014, equations 5 to 8, written with a matrix for each gate; torch's GRU gives something else."""
    torch.manual_seed(0)
    layer, other = (RecurrentLayer(cell, D_IN, K).double() for cell in ("gru-cho", "gru"))
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.8)
    other.load_state_dict(layer.state_dict())
    W, U, b, d = layer.matrices()
    (W_r, W_z, W_n), (U_r, U_z, U_n) = W.chunk(3), U.chunk(3)
    b_r, b_z, b_n = (b + d).chunk(3)
    x, h = words(), torch.zeros(B, K, dtype=torch.float64)
    for t in range(T):
        r = torch.sigmoid(x[:, t] @ W_r.T + h @ U_r.T + b_r)
        z = torch.sigmoid(x[:, t] @ W_z.T + h @ U_z.T + b_z)
        n = torch.tanh(x[:, t] @ W_n.T + (r * h) @ U_n.T + b_n)
        h = z * h + (1 - z) * n
    torch.testing.assert_close(layer(x)[1], (h,))
    assert not torch.allclose(other(x)[1][0], h)


def test_the_sigmoid_rnn_is_its_equation() -> None:
    torch.manual_seed(0)
    layer = RecurrentLayer("rnn-sigmoid", D_IN, K).double()
    W, U, b, d = layer.matrices()
    x, h = words(), torch.zeros(B, K, dtype=torch.float64)
    for t in range(T):
        h = 1 / (1 + torch.exp(-(x[:, t] @ W.T + b + h @ U.T + d)))
    torch.testing.assert_close(layer(x)[1], (h,))


@pytest.mark.parametrize("direction", ["forward", "backward", "both"])
@pytest.mark.parametrize("cell", CELLS)
def test_a_sentence_in_a_batch_is_the_sentence_alone(cell: str, direction: str) -> None:
    torch.manual_seed(0)
    stack = Recurrent(cell, D_IN, K, 3, direction).double()  # type: ignore[arg-type]
    x = words()
    y, kept = stack(x, LENGTHS)
    noisy, kept_noisy = stack(torch.where(torch.arange(T)[:, None] < LENGTHS[:, None, None], x, 1e3), LENGTHS)
    torch.testing.assert_close((noisy, kept_noisy), (y, kept), atol=0, rtol=0)
    for row, length in enumerate(LENGTHS.tolist()):
        alone, kept_alone = stack(x[row : row + 1, :length])
        torch.testing.assert_close(y[row, :length], alone[0])
        assert (y[row, length:] == 0).all()
        for level, level_alone in zip(kept, kept_alone, strict=True):
            for part, part_alone in zip(level, level_alone, strict=True):
                torch.testing.assert_close(part[row], part_alone[0])


def test_the_last_state_is_that_of_the_last_word_read() -> None:
    torch.manual_seed(0)
    both = Bidirectional("gru", D_IN, K).double()
    y, (h,) = both(words(), LENGTHS)
    torch.testing.assert_close(h[:, :K], y[torch.arange(B), LENGTHS - 1, :K])
    torch.testing.assert_close(h[:, K:], y[:, 0, K:])


def test_sentences_are_turned_within_their_length() -> None:
    x = torch.arange(8).view(2, 4, 1)
    assert reverse_sequences(x, torch.tensor([4, 2]))[:, :, 0].tolist() == [[3, 2, 1, 0], [5, 4, 6, 7]]


@pytest.mark.parametrize("cell", CELLS)
def test_steps_over_hypotheses_are_the_whole(cell: str) -> None:
    """Each of W hypotheses goes on by itself, as if it were a sentence."""
    torch.manual_seed(0)
    stack = RecurrentStack(cell, D_IN, K, 2).double()
    x = torch.randn(B, 3, T, D_IN, dtype=torch.float64)
    expected, _ = stack(x.flatten(0, 1))
    hidden = stack.initial_state(B, 3)
    for t, step in enumerate(stack.inputs(x).unbind(2)):
        hidden = stack.step(step, hidden)
        torch.testing.assert_close(hidden[-1][0].flatten(0, 1), expected[:, t])


def test_a_long_sentence_of_forgetting_and_of_remembering_stays_exact() -> None:
    """The cell of an LSTM is rebuilt from products of forget gates; they may be 0 or 1 to the last bit."""
    torch.manual_seed(0)
    layer = RecurrentLayer("lstm", D_IN, K)
    nn.init.uniform_(layer.matrices()[2].data.chunk(4)[1], -90, 90)
    x, lengths = torch.randn(3, 300, D_IN), torch.tensor([300, 200, 10])
    torch.testing.assert_close(layer(x, lengths)[1], layer.read(x, lengths)[1])


def test_dropout_is_between_layers_alone() -> None:
    torch.manual_seed(0)
    stack = Recurrent("gru", D_IN, K, 1, dropout=0.5).double()
    torch.testing.assert_close(stack(words()), stack(words()))
    deep = Recurrent("gru", D_IN, K, 2, dropout=0.5).double()
    assert not torch.equal(deep(words())[0], deep(words())[0])
    first, second = deep(words()), deep(words())
    torch.testing.assert_close(first[1][0], second[1][0])


def test_an_lstm_begins_by_remembering() -> None:
    torch.manual_seed(0)
    W, U, b, d = RecurrentLayer("lstm", D_IN, K).matrices()
    assert b.tolist() == [0.0] * K + [1.0] * K + [0.0] * 2 * K and not d.any()
    for u in U.chunk(4):
        torch.testing.assert_close(u @ u.T, torch.eye(K), atol=1e-5, rtol=0)
    assert W.abs().max() <= (6 / (D_IN + K)) ** 0.5


@pytest.mark.parametrize("cell", CELLS)
def test_half_precision_around_a_layer_leaves_its_own(cell: str) -> None:
    torch.manual_seed(0)
    stack, x = Recurrent(cell, D_IN, K, 2, "both"), words().float()
    expected, _ = stack(x, LENGTHS)
    with torch.autocast("cpu", torch.bfloat16):
        y, _ = stack(x.bfloat16(), LENGTHS)
    assert y.dtype == torch.float32
    torch.testing.assert_close(y, expected, atol=2e-2, rtol=0)
