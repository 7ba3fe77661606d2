"""The linear probe reads what is linear; a window of characters does not notice changes before it."""

import torch

from regard.lab.experiments.markov import CHARACTERS, HISTORY, WINDOW, build, effects, probe


def test_probe_reads_a_linear_code() -> None:
    generator = torch.Generator().manual_seed(0)
    codes = torch.randn(len(CHARACTERS), 40, generator=generator)
    y, test_y = torch.randint(len(CHARACTERS), (2, 2000), generator=generator)
    assert probe(codes[y], y, codes[test_y], test_y) == 1
    noise = torch.randn(2, 2000, 40, generator=generator)
    assert probe(noise[0], y, noise[1], test_y) < 0.2


def test_a_window_has_no_effect_beyond_it() -> None:
    torch.manual_seed(0)
    ids = torch.randint(len(CHARACTERS), (8, 12))
    found = effects(build(WINDOW).eval(), ids, 10, torch.Generator().manual_seed(0))
    assert min(found[:HISTORY]) > 0 and max(found[HISTORY:]) == 0
