"""Memory and time of training, computed before anything is trained.

P parameters, D model width, L layers, N tokens per process and micro-batch, n processes.

    memory = 16 P / shards + activations                 fp32 weights 4, gradients 4, Adam's moments 8 bytes each
    activations = N L (34 D)                              16-bit, fused attention (Korthikanti et al. 2022, equation 1)
                  N L (2 D) + one layer                   with activation checkpointing: only the inputs of layers
"""

from dataclasses import dataclass

import torch

from regard.runtime import World, total_memory

STATE_BYTES = 16
"""Bytes per parameter: weight, gradient and two moments in fp32."""
ACTIVATION_BYTES, INPUT_BYTES = 34, 2
"""Bytes per token, layer and unit of width that a layer keeps in 16 bits; those of its input."""
USABLE = 0.9
"""Share of a device's memory that training may use; the rest is for buffers and fragments."""


def activation_memory(tokens: int, layers: int, d_model: int, world: World) -> int:
    """Bytes that a micro-batch of so many tokens keeps for the backward pass."""
    again = world.activation_checkpointing
    kept = INPUT_BYTES * layers + ACTIVATION_BYTES if again else ACTIVATION_BYTES * layers
    return tokens * d_model * kept * (1 if world.precision == "bf16" else 2)


def training_memory(parameters: int, activations: int, shards: int = 1) -> int:
    """Bytes of one process whose model is sharded over `shards` processes."""
    return STATE_BYTES * parameters // shards + activations


def device_memory(world: World) -> int:
    """Usable bytes of this process's GPU, or of its share of the machine."""
    on_gpu = world.device.type == "cuda"
    total = torch.cuda.mem_get_info(world.device)[1] if on_gpu else total_memory() // world.local_size
    return int(USABLE * total)


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
