"""Print the table of docs/cluster.md: memory and time of training on 1 to 64 GPUs, from `regard.training.costs`.

    python -m benchmarks.cluster

Nothing is measured here. The model is calibrated with one H200 (docs/ledger.md) and was checked on one GPU only.
"""

from regard.training.costs import Plan

SIZES = {"base": (63_082_496, 512, 12), "big": (214_245_376, 1024, 12), "1 billion": (1_015_000_000, 2048, 16)}
"""Parameters, width and layers."""
TOKENS, TOTAL = 25_000, 100_000_000_000
"""Tokens per GPU and step; tokens of a training."""


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
