"""Print the table of docs/cluster.md: memory and time of training on 1 to 64 GPUs.

    python -m benchmarks.cluster

Nothing is measured here. The model is calibrated with one H200 (docs/ledger.md) and was checked on one GPU only.
"""

from dataclasses import dataclass

import torch

from regard.runtime import World
from regard.training.costs import activation_memory, training_memory

SIZES = {"base": (63_082_496, 512, 12), "big": (214_245_376, 1024, 12), "1 billion": (1_015_000_000, 2048, 16)}
"""Parameters, width and layers."""
TOKENS, TOTAL = 25_000, 100_000_000_000
"""Tokens per GPU and step; tokens of a training."""

MEASURED = ((63_082_496, 1.95e6), (214_245_376, 7.52e5))
"""Parameters and tokens per second of base and big on one H200 in bf16: the calibration (docs/ledger.md)."""
NODE_GPUS, NODE_BANDWIDTH, NETWORK_BANDWIDTH = 8, 300e9, 50e9
"""Assumed: GPUs per node, and bytes per second and GPU that a collective moves inside a node and between nodes."""


@dataclass(frozen=True)
class Plan:
    """Estimated memory and speed of training an encoder-decoder on many GPUs, none of which has to be there.

    compute        3 P N / E          6 P/2 N operations: a source or target token passes about half the parameters
    E              3 P tokens/s       operations per second, measured with base up to its size, then with big
    communication  2 4P (n-1)/n / B   DDP sums fp32 gradients over n GPUs with bandwidth B, here without overlap
    """

    parameters: int
    d_model: int
    layers: int
    tokens: int
    """Tokens per GPU and step."""
    gpus: int

    def memory(self, shards: int = 1) -> int:
        """Bytes per GPU, sharded over `shards` of them."""
        world = World(0, self.gpus, 0, torch.device("cpu"), "bf16")
        return training_memory(
            self.parameters, activation_memory(self.tokens, self.layers, self.d_model, world), shards
        )

    @property
    def step_seconds(self) -> float:
        """Seconds of a step: compute, then communication."""
        parameters, speed = MEASURED[0] if self.parameters <= MEASURED[0][0] else MEASURED[-1]
        compute = self.parameters * self.tokens / (parameters * speed)
        bandwidth = NODE_BANDWIDTH if self.gpus <= NODE_GPUS else NETWORK_BANDWIDTH
        return compute + 8 * self.parameters * (self.gpus - 1) / self.gpus / bandwidth

    @property
    def tokens_per_second(self) -> float:
        return self.gpus * self.tokens / self.step_seconds


def rows() -> list[str]:
    """The lines of the table."""
    lines = []
    for name, (parameters, width, layers) in SIZES.items():
        for gpus in (1, 8, 16, 64):
            plan = Plan(parameters, width, layers, TOKENS, gpus)
            memory = " / ".join(f"{plan.memory(shards) / 1e9:.0f}" for shards in sorted({1, min(gpus, 8)}))
            speed, hours = plan.tokens_per_second, TOTAL / plan.tokens_per_second / 3600
            lines.append(f"| {name} | {gpus} | {memory} | {speed / 1e6:.2f} M | {hours:.1f} |")
    return lines


if __name__ == "__main__":
    print("\n".join(rows()))
