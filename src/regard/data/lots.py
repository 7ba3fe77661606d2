"""Drawing lots: what is drawn follows from the seeds alone, whatever was drawn before or elsewhere."""

import numpy as np


def generator(*seeds: int) -> np.random.Generator:
    """What decides everything that is drawn for these seeds: that of a run, then an epoch, a purpose, a step."""
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seeds)))
