"""Dropout for what is read in sequence: the same components are missing at every step of a stretch.

    locked       x_t <- m * x_t,  one mask m for all t               Gal & Ghahramani 2016, section 4
    words        E[w] <- m_w E[w],  m_w for the whole row of a word   Gal & Ghahramani 2016, section 4.2
    weights      U <- M * U,  one mask for a whole stretch            Wan et al. 2013; Merity et al. 2017, section 2

With a new mask at every step noise accumulates along the sequence and drowns what the state should keep; with one
mask a stretch is read by one thinned network. Kept values are multiplied by 1 / (1 - p), so that means stay.

B columns, T tokens, D components, V vocabulary.
"""

import torch.nn.functional as F
from torch import Tensor


def locked_dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """x (B, T, D), with a mask for each column and component that holds for all T."""
    if not (training and p):
        return x
    return x * F.dropout(x.new_ones(x.size(0), 1, x.size(2)), p)


def word_dropout(x: Tensor, ids: Tensor, vocabulary: int, p: float, training: bool) -> Tensor:
    """x (B, T, D), the vectors of ids (B, T): a dropped word is missing wherever it stands in the stretch."""
    if not (training and p):
        return x
    return x * F.dropout(x.new_ones(vocabulary), p)[ids].unsqueeze(-1)


def weight_drop(weight: Tensor, p: float) -> Tensor:
    """A recurrent matrix with entries missing: DropConnect, drawn once and used at every step."""
    return F.dropout(weight, p)
