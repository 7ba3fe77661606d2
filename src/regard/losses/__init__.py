"""What training minimises. A loss is a sum and a count; whoever adds up micro-batches and ranks divides, once."""

from regard.losses.crossentropy import Loss, cross_entropy, r_drop
from regard.losses.projected import projected_cross_entropy, projected_r_drop
from regard.losses.reinforce import reinforced

__all__ = ["Loss", "cross_entropy", "projected_cross_entropy", "projected_r_drop", "r_drop", "reinforced"]
