"""The cost of training in floating-point operations (FLOPs).

    C = 6 N D            N parameters without embeddings, D tokens           Kaplan et al. 2020, section 2.1

It counts what the model needs: a weight takes part in one multiplication and one addition for each token, and in twice
as many in the backward pass. It leaves out attention scores and the product with the output matrix, which is an
embedding matrix. The source tokens of a translation pass the encoder and the target tokens the decoder, so D is half of
the sum of both. It is the same on every device, other than the estimate of Vaswani et al. 2017, table 2, from time and
speed of the devices.
"""

from torch import nn

from regard.layers.embeddings import TokenEmbedding


def parameters_without_embeddings(model: nn.Module) -> int:
    """N: the parameters of a model but those of embeddings and of output matrices of the vocabulary."""
    embeddings = (module for module in model.modules() if isinstance(module, TokenEmbedding | nn.Embedding))
    excluded = {id(parameter) for module in embeddings for parameter in module.parameters()}
    return sum(parameter.numel() for parameter in model.parameters() if id(parameter) not in excluded)


def model_flops(parameters: int, tokens: float) -> float:
    """6 N D."""
    return 6.0 * parameters * tokens
