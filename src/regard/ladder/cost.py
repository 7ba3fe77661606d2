"""The cost of training in floating-point operations (FLOPs), in two ways.

    C = 6 N D            N parameters without embeddings, D tokens           Kaplan et al. 2020, section 2.1
    C = seconds G P      G devices, P operations per second of each          Vaswani et al. 2017, table 2

The first counts what the model needs: a weight takes part in one multiplication and one addition for each token, and in
twice as many in the backward pass. It leaves out attention scores and the product with the output matrix, which is an
embedding matrix. The source tokens of a translation pass the encoder and the target tokens the decoder, so D is half of
the sum of both. The ladder shows this one: it is the same on every device.

The second counts what the devices could have computed in the time. Table 2 of the paper:

    base model    12 hours    8 P100    9.5e12    3.3e18
    big model     3.5 days    8 P100    9.5e12    2.3e19
"""

from torch import nn

from regard.layers.embeddings import TokenEmbedding

SUSTAINED_FLOPS = {"K80": 2.8e12, "K40": 3.7e12, "M40": 6.0e12, "P100": 9.5e12}
"""Single-precision operations per second of a GPU that Vaswani et al. 2017 assume (section 6.1, footnote 5)."""


def parameters_without_embeddings(model: nn.Module) -> int:
    """N: the parameters of a model but those of embeddings and of output matrices of the vocabulary."""
    embeddings = (module for module in model.modules() if isinstance(module, TokenEmbedding | nn.Embedding))
    excluded = {id(parameter) for module in embeddings for parameter in module.parameters()}
    return sum(parameter.numel() for parameter in model.parameters() if id(parameter) not in excluded)


def model_flops(parameters: int, tokens: float) -> float:
    """6 N D."""
    return 6.0 * parameters * tokens


def device_flops(seconds: float, devices: int, flops_per_second: float) -> float:
    """seconds G P."""
    return seconds * devices * flops_per_second
