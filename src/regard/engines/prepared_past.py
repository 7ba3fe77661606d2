"""The past of a search as trees: a hypothesis is a path, and copying it is a matter of saying where the path runs.

A beam search rearranges its hypotheses at every step. Moving their keys and values along would copy the whole past of
every layer each time. Here nothing moves: every token ever written is a node, its keys and values are written once, and
a table says which nodes each hypothesis stands on.

    a - b - d        d stands on a b d        0  0  .  0  .        0 is seen, . is minus infinity
      \\
        c - e        e stands on a c e        0  .  0  .  0
                                              a  b  c  d  e

Added to the scores before the softmax, the table lets every hypothesis see its own path and nothing else. To rearrange
hypotheses is to rearrange rows of the table, which all layers share, and all hypotheses of a sentence attend in one
product. Nodes that no hypothesis stands on any more are swept out when room runs short.

G trees, W hypotheses a tree, n nodes a tree, L layers, H heads, K head size.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

ROOM = 32
"""Nodes a tree has room for at first."""


class Nodes:
    """Keys and values (L, 2, G, H, room, K), of which the first `used` nodes of every tree are written.

    Several pasts may share them, as each only ever writes behind its own nodes. One that finds somebody else's nodes
    there has to move to a copy; `used` is how it knows.
    """

    def __init__(self, tensor: Tensor, used: int = 0) -> None:
        self.tensor, self.used = tensor, used

    @property
    def room(self) -> int:
        return self.tensor.size(4)

    def moved(self, count: int, room: int) -> "Nodes":
        """The first `count` nodes, copied to where there is `room`."""
        tensor = self.tensor.new_empty(*self.tensor.shape[:4], room, self.tensor.size(5))
        tensor.narrow(4, 0, count).copy_(self.tensor.narrow(4, 0, count))
        return Nodes(tensor, count)

    def keep(self, trees: Tensor, count: int) -> "Nodes":
        """The first `count` nodes of these trees, copied to where there is as much room."""
        tensor = self.tensor.new_empty(*self.tensor.shape[:2], len(trees), *self.tensor.shape[3:])
        torch.index_select(self.tensor.narrow(4, 0, count), 2, trees, out=tensor.narrow(4, 0, count))
        return Nodes(tensor, count)


@dataclass(frozen=True)
class Past:
    """`count` nodes in each tree, and the table `sees` (G, W, n); None where every hypothesis sees every node."""

    nodes: Nodes
    count: int = 0
    sees: Tensor | None = None

    @classmethod
    def empty(cls, trees: int, layers: int, num_heads: int, head_dim: int, like: Tensor) -> "Past":
        """Trees without a node."""
        return cls(Nodes(like.new_empty(layers, 2, trees, num_heads, ROOM, head_dim)))

    @property
    def trees(self) -> int:
        return self.nodes.tensor.size(2)

    def planted(self, trees: int) -> "Past":
        """As many other trees, without a node."""
        layers, _, _, num_heads, _, head_dim = self.nodes.tensor.shape
        return Past.empty(trees, layers, num_heads, head_dim, like=self.nodes.tensor)

    def grown(self, width: int) -> "Past":
        """A further node for each of `width` hypotheses, seen by that one alone; keys and values are to be filled."""
        past = self if self.count + width <= self.nodes.room else self._swept()
        count, nodes = past.count + width, past.nodes
        if count > nodes.room or nodes.used != past.count:
            nodes = nodes.moved(past.count, nodes.room if count <= nodes.room else max(count, 2 * nodes.room))
        nodes.used = count
        if width == 1:
            sees = None if past.sees is None else F.pad(past.sees, (0, 1))
        else:
            own = torch.full((width, width), -torch.inf, device=nodes.tensor.device, dtype=nodes.tensor.dtype)
            own = own.fill_diagonal_(0.0).expand(past.trees, -1, -1)
            sees = own if past.sees is None else torch.cat([past.sees, own], dim=2)
        return Past(nodes, count, sees)

    def reorder(self, parents: Tensor) -> "Past":
        """`parents` (G, W'): hypothesis w of tree g continues the path of parents[g, w]."""
        if self.sees is not None:
            sees = self.sees.gather(1, parents[:, :, None].expand(-1, -1, self.count))
            return Past(self.nodes, self.count, sees)
        if parents.size(1) == 1:
            return self
        return Past(self.nodes, self.count, self.nodes.tensor.new_zeros(*parents.shape, self.count))

    def keep(self, trees: Tensor) -> "Past":
        """Only these trees, in this order; one may be asked for twice."""
        sees = None if self.sees is None else self.sees.index_select(0, trees)
        return Past(self.nodes.keep(trees, self.count), self.count, sees)

    def mask(self) -> Tensor | None:
        """(G * H, W, n), to be added to the scores of every layer; None where nothing is hidden."""
        if self.sees is None:
            return None
        num_heads = self.nodes.tensor.size(3)
        return self.sees[:, None].expand(-1, num_heads, -1, -1).reshape(-1, *self.sees.shape[1:])

    def layers(self, width: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """For each layer keys (G * H, K, n), transposed, and values (G * H, n, K); and both of the newest nodes,
        (2, G, H, W, K), to be filled."""
        nodes = self.nodes.tensor.narrow(4, 0, self.count)
        keys, values = nodes.flatten(2, 3).unbind(1)
        newest = nodes.narrow(4, self.count - width, width)
        return zip(keys.transpose(2, 3).unbind(0), values.unbind(0), newest.unbind(0), strict=True)

    def _swept(self) -> "Past":
        """Without the nodes nobody stands on, where that frees half of the room."""
        if self.sees is None:
            return self
        alive = (self.sees == 0).any(dim=1)
        most = int(alive.sum(dim=1).max())
        if 2 * most > self.nodes.room:
            return self
        # The living come first; a tree that has fewer than another is filled up with dead ones, which nobody sees.
        order = alive.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :most]
        sees = self.sees.gather(2, order[:, None].expand(-1, self.sees.size(1), -1))
        tensor = torch.empty_like(self.nodes.tensor)
        index = order[:, None, :, None].expand(*self.nodes.tensor.shape[:4], most, self.nodes.tensor.size(5))
        tensor[..., :most, :] = self.nodes.tensor.gather(4, index)
        return Past(Nodes(tensor, most), most, sees)
