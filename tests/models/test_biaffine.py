"""Biaffine scores are those of the equations, written as loops; padding and other tokens do not matter."""

from itertools import product

import torch
from pydantic import TypeAdapter
from torch import Tensor

from regard.attention.layouts import Padded
from regard.models.biaffine import BiaffineHead, BiaffineParser, possible_heads
from regard.models.text_encoder import EncoderSettings, build_encoder

D, A, K, L = 6, 5, 4, 3
LOWEST = torch.finfo(torch.float32).min


def head() -> BiaffineHead:
    torch.manual_seed(0)
    return BiaffineHead(D, A, K, L, dropout=0.5).double().eval()


def words() -> Tensor:
    """[CLS] two tokens of a word, a word, [SEP]; [CLS] a word, [SEP], padding."""
    return torch.tensor([[False, True, False, True, False], [False, True, False, False, False]])


def test_scores_are_those_of_the_equations() -> None:
    part, h = head(), torch.randn(2, 5, D, dtype=torch.float64)
    torch.nn.init.normal_(part.arcs.bias)
    arcs, relations = part(h, words())
    d, a = part.dependent_arc(h), part.head_arc(h)
    e, b = part.dependent_relation(h), part.head_relation(h)
    u, w, v, linear = part.arcs.weight, part.arcs.bias, part.relations.weight, part.relations.linear
    expected_arcs, expected_relations = torch.zeros_like(arcs), torch.zeros_like(relations)
    for row, i, j in product(range(2), range(5), range(5)):
        expected_arcs[row, i, j] = d[row, i] @ u @ a[row, j] + w @ a[row, j]
        both = torch.cat([e[row, i], b[row, j]])
        for label in range(L):
            linear_part = linear.weight[label] @ both + linear.bias[label]
            expected_relations[row, i, j, label] = e[row, i] @ v[label] @ b[row, j] + linear_part
    allowed = possible_heads(words())
    torch.testing.assert_close(arcs[allowed], expected_arcs[allowed])
    torch.testing.assert_close(relations, expected_relations)


def test_relations_of_given_heads() -> None:
    part, h = head(), torch.randn(2, 5, D, dtype=torch.float64)
    heads = torch.tensor([[0, 3, 0, 0, 0], [0, 0, 0, 0, 0]])
    arcs, relations = part(h, words(), heads)
    all_arcs, all_relations = part(h, words())
    torch.testing.assert_close(arcs, all_arcs)
    expected = torch.stack([all_relations[row, torch.arange(5), heads[row]] for row in range(2)])
    torch.testing.assert_close(relations, expected)


def test_heads_are_words_and_the_root_but_not_the_word_itself() -> None:
    allowed = possible_heads(words())
    assert allowed[0, 1].tolist() == [True, False, False, True, False]
    assert allowed[0, 3].tolist() == [True, True, False, False, False]
    assert allowed[1, 1].tolist() == [True, False, False, False, False], "the only word is the root"
    assert allowed.any(dim=-1).all(), "every softmax has something to choose from"
    arcs, _ = head()(torch.randn(2, 5, D, dtype=torch.float64), words())
    assert (arcs[~allowed] <= LOWEST).all() and arcs.softmax(dim=-1).isfinite().all()


def test_a_sentence_has_the_same_scores_in_any_batch() -> None:
    for kind in ("recurrent", "transformer", "bert"):
        torch.manual_seed(1)
        shape = dict(kind=kind, d_model=8) | ({} if kind == "recurrent" else dict(num_heads=2, d_ff=8, layers=1))
        encoder = build_encoder(TypeAdapter(EncoderSettings).validate_python(shape), 20)
        model = BiaffineParser(encoder, BiaffineHead(8, A, K, L, 0.1), 0.1).eval()
        ids, lengths = torch.randint(5, 20, (2, 5)), torch.tensor([5, 3])
        both = model(Padded.of(ids, lengths), None, words())
        alone = model(Padded.of(ids[1:, :3], lengths[1:]), None, words()[1:, :3])
        torch.testing.assert_close(both.arcs[1, :3, :3], alone.arcs[0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(both.relations[1, :3, :3], alone.relations[0], rtol=1e-4, atol=1e-5)
        scores = model(Padded.of(ids, lengths), None, words(), torch.zeros(2, 5, dtype=torch.long))
        (scores.arcs[words()][:, 0].sum() + scores.relations.sum()).backward()
        trained = [name for name, weight in model.named_parameters() if weight.requires_grad]
        assert not any("pooler" in name for name in trained)
        assert all(weight.grad is not None for weight in model.parameters() if weight.requires_grad)
