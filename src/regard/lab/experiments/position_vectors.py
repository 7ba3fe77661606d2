"""Sinusoidal positions as vectors, and what shuffling does to a model with each kind of positions.

    PE(p, 2i) = sin(p w_i),   PE(p, 2i + 1) = cos(p w_i),   w_i = 10000^(-2i / D)

Each pair of components is a point on a circle that turns with p. So the dot product of two positions depends on their
distance only, sum_i cos((p - q) w_i), and the vector of p + k is a rotation M_k of that of p, the same for every p:
"linear in the offset". No two positions have the same vector.

Attention without positions is equivariant: if the words of a sentence are shuffled, the outputs are shuffled in the
same way, f(P x) = P f(x). They are not the same outputs in the same places, f(P x) = f(x), as a note says.
"""

import torch
from torch import Tensor

from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toys import POSITIONS, build_tagger, generator_of, rectangle, seeded
from regard.layers.positions import frequencies, sinusoid

WIDTH, WORDS, LENGTH, PLACES = 64, 16, 12, 256
STAYS = "change at the same place"


def rotation(offset: int, width: int) -> Tensor:
    """M_k (D, D) with PE(p + k) = M_k PE(p): a rotation by k w_i for each pair of components.

    sin((p + k) w) =  cos(k w) sin(p w) + sin(k w) cos(p w)
    cos((p + k) w) = -sin(k w) sin(p w) + cos(k w) cos(p w)
    """
    angles = offset * frequencies(width, torch.device("cpu")).double()
    rows = torch.stack([angles.cos(), angles.sin(), -angles.sin(), angles.cos()], dim=1).view(-1, 2, 2)
    return torch.block_diag(*rows)


@torch.no_grad()
def changes(kind: str, seed: int) -> tuple[float, float]:
    """|f(P x) - P f(x)| and |f(P x) - f(x)|, relative to |f(x)|, of an encoder as it is initialised."""
    seeded(seed, "weights")
    encoder = build_tagger(WORDS, WORDS, layers=2, d_model=WIDTH, positions=kind).encoder.double().eval()
    ids = torch.randint(WORDS, (8, LENGTH), generator=generator_of(seed, "words"))
    order = torch.randperm(LENGTH, generator=generator_of(seed, "order"))
    plain, shuffled = encoder(rectangle(ids)), encoder(rectangle(ids[:, order]))
    size = plain.norm()
    return float((shuffled - plain[:, order]).norm() / size), float((shuffled - plain).norm() / size)


def measure(seed: int, effort: Effort, record: Record) -> None:
    for kind in POSITIONS:
        follows, stays = changes(kind, seed)
        record("shuffle", "change beyond the shuffling", kind, follows)
        record("shuffle", STAYS, kind, stays)
    vectors = sinusoid(torch.arange(PLACES).double(), WIDTH)
    products = vectors @ vectors.T / (WIDTH / 2)
    random = torch.randn(PLACES, WIDTH, generator=generator_of(seed, "vectors"), dtype=torch.float64)
    for distance in (0, 1, 2, 4, 8, 16, 32, 64, 128):
        diagonal = products.diagonal(distance)
        record("product", "mean", distance, float(diagonal.mean()))
        record("product", "spread", distance, float(diagonal.max() - diagonal.min()))
        if not distance:
            continue
        error = (vectors[distance:] - vectors[:-distance] @ rotation(distance, WIDTH).T).abs().max()
        record("rotation", "sinusoidal", distance, max(float(error), 1e-16))  # smaller errors are rounding
        fitted = torch.linalg.lstsq(random[:-distance], random[distance:]).solution
        error = (random[distance:] - random[:-distance] @ fitted).abs().max()
        record("rotation", "random", distance, float(error))


def judge(results: Results) -> Verdict:
    stays = results.values("shuffle", STAYS, "none")
    return Verdict(decide(above([1e-6], stays), above(stays, [0.1])))
