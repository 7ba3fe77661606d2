"""Sinusoidal positions as vectors, and what shuffling does to a model with each kind of positions.

    PE(p, 2i) = sin(p w_i),   PE(p, 2i + 1) = cos(p w_i),   w_i = 10000^(-2i / D)

Each pair of components is a point on a circle that turns with p. So the dot product of two positions depends on their
distance only, sum_i cos((p - q) w_i), and the vector of p + k is a rotation M_k of that of p, the same for every p:
"linear in the offset". No two positions have the same vector.

Attention without positions is equivariant: if the words of a sentence are shuffled, the outputs are shuffled in the
same way, f(P x) = P f(x). They are not the same outputs in the same places, f(P x) = f(x). What does not change at all
is the output of one query if the rows of K and V are shuffled together: softmax(q K^T P^T) P V = softmax(q K^T) V.
"""

import torch
from torch import Tensor

from regard.attention.attend import attend
from regard.lab.experiment import Effort, Record, Results, Verdict, X, above, decide
from regard.lab.texts import Kind
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


def change_of_attention(seed: int, together: bool) -> float:
    """Relative change of attention if the rows of K are shuffled, those of V with them or not."""
    q, k, v = torch.randn(3, LENGTH, WIDTH, generator=generator_of(seed, "q, k, v"), dtype=torch.float64)
    order = torch.randperm(LENGTH, generator=generator_of(seed, "order"))
    plain, shuffled = attend(q, k, v)[0], attend(q, k[order], v[order] if together else v)[0]
    return float((shuffled - plain).norm() / plain.norm())


def measure(seed: int, effort: Effort, record: Record) -> None:
    for kind in POSITIONS:
        follows, stays = changes(kind, seed)
        record("shuffle", "change beyond the shuffling", kind, follows)
        record("shuffle", STAYS, kind, stays)
    record("keys", "change", "K and V", max(change_of_attention(seed, together=True), 1e-17))
    record("keys", "change", "K alone", change_of_attention(seed, together=False))
    for places in (64, PLACES, 4096):
        vectors = sinusoid(torch.arange(places).double(), WIDTH)
        apart = torch.cdist(vectors, vectors).fill_diagonal_(float("inf")).min()
        record("nearest", "distance", places, float(apart / vectors[0].norm()))
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
    """A change or an error below 1e-6 is rounding; one above 0.01 is none."""

    def exact(panel: str, series: str, *xs: X) -> Kind:
        values = [value for x in xs for value in results.values(panel, series, x)]
        return decide(above([1e-6], values), above(values, [0.01]))

    stays = results.values("shuffle", STAYS, "none")
    apart = [value for x in results.xs("nearest", "distance") for value in results.values("nearest", "distance", x)]
    return Verdict(
        decide(above([1e-6], stays), above(stays, [0.1])),
        findings={
            "moves": exact("shuffle", "change beyond the shuffling", "none"),
            "keys": exact("keys", "change", "K and V"),
            "offset": exact("rotation", "sinusoidal", *results.xs("rotation", "sinusoidal")),
            "unique": decide(above(apart, [0.01]), above([1e-6], apart)),
        },
    )
