"""The small language of the lab, its masking and its linear probe."""

import torch

from regard.lab.small_world import (
    CLS,
    IDS,
    MASK,
    PAD,
    SEP,
    SPECIALS,
    ambiguous,
    linear_probe,
    make_world,
    mask_tokens,
    next_tokens,
    word_tags,
)
from regard.lab.toys import IGNORE, generator_of


def test_sentences_are_complete_and_ambiguous_only_by_word() -> None:
    world = make_world(1, documents=50)
    assert len(world) == 300
    for ids, length, tags in zip(world.ids, world.lengths, world.tags, strict=True):
        assert ids[0] == CLS and ids[length - 1] == SEP and (ids[length:] == PAD).all()
        assert ((tags != IGNORE) == (ids >= len(SPECIALS))).all()
    assert set(word_tags(world)[ambiguous(world)].tolist()) == {1, 2}  # adjective and noun


def test_a_document_hangs_together() -> None:
    world = make_world(1, documents=2, sentences=3)
    nouns = [
        [word for word, tag in zip(*row, strict=True) if tag == 2]
        for row in zip(world.ids.tolist(), world.tags.tolist(), strict=True)
    ]
    assert [row[0] for row in (nouns[1], nouns[2], nouns[4])] == [row[-1] for row in (nouns[0], nouns[1], nouns[3])]


def test_masking_has_its_rate_and_shares() -> None:
    ids = torch.randint(len(SPECIALS), len(IDS), (200, 50), generator=generator_of(1))
    ids[:, 0] = CLS
    inputs, labels = mask_tokens(ids, generator_of(2), rate=0.4, shares=(0.5, 0.3, 0.2))
    chosen = labels != IGNORE
    assert not chosen[:, 0].any() and (labels[chosen] == ids[chosen]).all()
    assert (inputs[~chosen] == ids[~chosen]).all()
    assert abs(float(chosen[:, 1:].double().mean()) - 0.4) < 0.02
    masked = inputs[chosen] == MASK
    changed = (inputs[chosen] != ids[chosen]) & ~masked
    assert abs(float(masked.double().mean()) - 0.5) < 0.03
    assert abs(float(changed.double().mean()) - 0.3) < 0.03


def test_next_tokens_are_those_after() -> None:
    labels = next_tokens(torch.tensor([[CLS, 7, 8, SEP, PAD]]))
    assert labels.tolist() == [[7, 8, SEP, IGNORE, IGNORE]]


def test_a_linear_probe_is_least_squares() -> None:
    random = generator_of(3)
    x = torch.randn(200, 3, generator=random)
    labels = (x[:, 0] + 0.3 * torch.randn(200, generator=random) > 0).long()
    ones = torch.cat([x, torch.ones(200, 1)], dim=1)
    weights = torch.linalg.lstsq(ones, torch.nn.functional.one_hot(labels, 2).float()).solution
    expected = ((ones @ weights).argmax(dim=1) == labels).double().mean()
    assert linear_probe((x, labels), (x, labels), penalty=0.0) == float(expected)
