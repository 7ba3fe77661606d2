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

from regard.lab.old_form import (
    POSITION_NAMES,
    Effort,
    Experiment,
    Panel,
    Question,
    Record,
    Results,
    Text,
    Verdict,
    above,
    decide,
)
from regard.lab.toys import build_tagger, generator_of, rectangle, seeded
from regard.layers.positions import frequencies, sinusoid

WIDTH, WORDS, LENGTH, PLACES = 64, 16, 12, 256
FOLLOWS, STAYS = "change beyond the shuffling", "change at the same place"
SMALLEST = 1e-16
"""Smaller errors are recorded as this one: they are rounding."""


def rotation(offset: int, width: int) -> Tensor:
    """M_k (D, D) with PE(p + k) = M_k PE(p): a rotation by k w_i for each pair of components.

    sin((p + k) w) =  cos(k w) sin(p w) + sin(k w) cos(p w)
    cos((p + k) w) = -sin(k w) sin(p w) + cos(k w) cos(p w)
    """
    angles = offset * frequencies(width, torch.device("cpu")).double()
    rows = torch.stack([angles.cos(), angles.sin(), -angles.sin(), angles.cos()], dim=1).view(-1, 2, 2)
    return torch.block_diag(*rows)


def changes(kind: str, seed: int) -> tuple[float, float]:
    """|f(P x) - P f(x)| and |f(P x) - f(x)|, relative to |f(x)|, of an encoder as it is initialised."""
    seeded(seed, "weights")
    encoder = build_tagger(WORDS, WORDS, layers=2, d_model=WIDTH, positions=kind).encoder.double().eval()
    ids = torch.randint(WORDS, (8, LENGTH), generator=generator_of(seed, "words"))
    order = torch.randperm(LENGTH, generator=generator_of(seed, "order"))
    with torch.no_grad():
        plain, shuffled = encoder(rectangle(ids)), encoder(rectangle(ids[:, order]))
    size = plain.norm()
    return float((shuffled - plain[:, order]).norm() / size), float((shuffled - plain).norm() / size)


class PositionVectors(Experiment):
    """Products and rotations of sinusoidal positions, and the change of outputs under shuffling."""

    name = "position-vectors"
    topic = "positions"
    title = Text("What positions tell a model", "位置编码告诉模型什么")
    questions = (
        Question(
            "001:184, 003:190-199, 004:523-527",
            Text("What do position encodings mean, what are they good for?", "位置编码有什么意义和优缺点？"),
            Text(
                "Without them a shuffled input gives the same output. Each position has a vector of its own, and the "
                "vector of p + k is a linear function of that of p.",
                "没有位置时，打乱输入，输出也不会有任何改变。每个位置的向量唯一，且 p + k 处的向量是 p 处向量的线性"
                "函数。",
            ),
        ),
    )
    hypothesis = Text(
        "Without positions the output does not change at all when the words are shuffled.",
        "没有位置时，打乱词序，输出不会有任何改变。",
    )
    varied = Text("the kind of positions; the distance of two positions", "位置的种类；两个位置的距离")
    measured = Text(
        "change of the outputs when words are shuffled; dot products of sinusoidal vectors; error of the rotation",
        "打乱词序时输出的变化；正弦位置向量的点积；旋转矩阵的误差",
    )
    refuted_if = Text("the output at a place changes when words are shuffled", "打乱词序后，同一位置上的输出变了")
    panels = (
        Panel(
            "shuffle",
            Text("outputs of a shuffled sentence", "打乱后的句子的输出"),
            Text("positions", "位置"),
            Text("relative change", "相对变化"),
            kind="bars",
            names={
                **POSITION_NAMES,
                FOLLOWS: Text("against the shuffled outputs", "与同样打乱的输出相比"),
                STAYS: Text("against the outputs in place", "与原位置的输出相比"),
            },
        ),
        Panel(
            "product",
            Text("dot product of two positions", "两个位置的点积"),
            Text("distance", "距离"),
            Text("product / square of the length", "点积 / 长度的平方"),
            names={
                "mean": Text("mean over places", "各位置的平均"),
                "spread": Text("difference between places", "各位置之间的差"),
            },
        ),
        Panel(
            "rotation",
            Text("error of the linear map of an offset", "偏移的线性映射的误差"),
            Text("offset", "偏移"),
            Text("largest error", "最大误差"),
            log="xy",
            names={
                "sinusoidal": Text("sinusoidal, rotation by the formula", "正弦，由公式给出的旋转"),
                "random": Text("random vectors, best linear map", "随机向量，最优线性映射"),
            },
        ),
    )
    papers = ("Vaswani et al. 2017, section 3.5", "Shaw et al. 2018")
    seconds = 1

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        for kind in POSITION_NAMES:
            follows, stays = changes(kind, seed)
            record("shuffle", FOLLOWS, kind, follows)
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
            record("rotation", "sinusoidal", distance, max(float(error), SMALLEST))
            fitted = torch.linalg.lstsq(random[:-distance], random[distance:]).solution
            error = (random[distance:] - random[:-distance] @ fitted).abs().max()
            record("rotation", "random", distance, float(error))

    def judge(self, results: Results) -> Verdict:
        stays, follows = (results.values("shuffle", series, "none") for series in (STAYS, FOLLOWS))
        return Verdict(
            decide(above([1e-6], stays), above(stays, [0.1])),
            Text(
                "Without positions the output at a place changes by {stays:.0%} when words are shuffled; it follows "
                "its "
                "word with an error of {follows:.0e}. With sinusoidal positions that error is {sinusoidal:.2f}, rotary "
                "{rotary:.2f}, ALiBi {alibi:.2f}. The rotation of an offset is exact up to {error:.0e}.",
                "没有位置时，打乱词序后同一位置的输出变化 {stays:.0%}，而输出跟随各自的词，误差为 {follows:.0e}。"
                "正弦位置的这一误差为 {sinusoidal:.2f}，旋转位置 {rotary:.2f}，ALiBi {alibi:.2f}。"
                "偏移对应的旋转矩阵的误差不超过 {error:.0e}。",
            ),
            {
                "stays": results.mean("shuffle", STAYS, "none"),
                "follows": max(follows),
                "sinusoidal": results.mean("shuffle", FOLLOWS, "sinusoidal"),
                "rotary": results.mean("shuffle", FOLLOWS, "rotary"),
                "alibi": results.mean("shuffle", FOLLOWS, "alibi"),
                "error": max(results.mean("rotation", "sinusoidal", x) for x in results.xs("rotation", "sinusoidal")),
            },
        )
