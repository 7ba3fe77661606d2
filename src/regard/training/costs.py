"""Memory of training, computed before anything is trained.

P parameters, D model width, L layers, N tokens per process and micro-batch, n processes.

    memory = 16 P / shards + activations                 fp32 weights 4, gradients 4, Adam's moments 8 bytes each
    activations = N L (34 D)                              16-bit, fused attention (Korthikanti et al. 2022, equation 1)
                  N L (2 D) + one layer                   with activation checkpointing: only the inputs of layers
"""

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
