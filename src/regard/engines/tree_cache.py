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

INITIAL_CAPACITY = 32
"""Nodes a tree has room for at first."""


class NodeBuffer:
    """Keys and values (L, 2, G, H, room, K), of which the first `used` nodes of every tree are written.

    Several pasts may share them, as each only ever writes behind its own nodes. One that finds somebody else's nodes
    there has to move to a copy; `used` is how it knows.
    """

    def __init__(self, tensor: Tensor, used: int = 0) -> None:
        self.tensor, self.used = tensor, used

    @property
    def capacity(self) -> int:
        return self.tensor.size(4)

    def resized(self, count: int, capacity: int) -> "NodeBuffer":
        """The first `count` nodes, copied to where there is `capacity`."""
        tensor = self.tensor.new_empty(*self.tensor.shape[:4], capacity, self.tensor.size(5))
        tensor.narrow(4, 0, count).copy_(self.tensor.narrow(4, 0, count))
        return NodeBuffer(tensor, count)

    def keep(self, trees: Tensor, count: int) -> "NodeBuffer":
        """The first `count` nodes of these trees, copied to where there is as much room."""
        tensor = self.tensor.new_empty(*self.tensor.shape[:2], len(trees), *self.tensor.shape[3:])
        torch.index_select(self.tensor.narrow(4, 0, count), 2, trees, out=tensor.narrow(4, 0, count))
        return NodeBuffer(tensor, count)


@dataclass(frozen=True)
class TreeKVCache:
    """`count` nodes in each tree, and the table `path_mask` (G, W, n); None where every hypothesis sees every node."""

    nodes: NodeBuffer
    count: int = 0
    path_mask: Tensor | None = None

    @classmethod
    def empty(cls, trees: int, layers: int, num_heads: int, head_dim: int, like: Tensor) -> "TreeKVCache":
        """Trees without a node."""
        return cls(NodeBuffer(like.new_empty(layers, 2, trees, num_heads, INITIAL_CAPACITY, head_dim)))

    @property
    def trees(self) -> int:
        return self.nodes.tensor.size(2)

    def new_trees(self, trees: int) -> "TreeKVCache":
        """As many other trees, without a node."""
        layers, _, _, num_heads, _, head_dim = self.nodes.tensor.shape
        return TreeKVCache.empty(trees, layers, num_heads, head_dim, like=self.nodes.tensor)

    def append(self, width: int) -> "TreeKVCache":
        """A further node for each of `width` hypotheses, seen by that one alone; keys and values are to be filled."""
        cache = self if self.count + width <= self.nodes.capacity else self._compacted()
        count, nodes = cache.count + width, cache.nodes
        if count > nodes.capacity or nodes.used != cache.count:
            nodes = nodes.resized(
                cache.count, nodes.capacity if count <= nodes.capacity else max(count, 2 * nodes.capacity)
            )
        nodes.used = count
        if width == 1:
            path_mask = None if cache.path_mask is None else F.pad(cache.path_mask, (0, 1))
        else:
            new_nodes = torch.full((width, width), -torch.inf, device=nodes.tensor.device, dtype=nodes.tensor.dtype)
            new_nodes = new_nodes.fill_diagonal_(0.0).expand(cache.trees, -1, -1)
            path_mask = new_nodes if cache.path_mask is None else torch.cat([cache.path_mask, new_nodes], dim=2)
        return TreeKVCache(nodes, count, path_mask)

    def reorder(self, parents: Tensor) -> "TreeKVCache":
        """`parents` (G, W'): hypothesis w of tree g continues the path of parents[g, w]."""
        if self.path_mask is not None:
            path_mask = self.path_mask.gather(1, parents[:, :, None].expand(-1, -1, self.count))
            return TreeKVCache(self.nodes, self.count, path_mask)
        if parents.size(1) == 1:
            return self
        return TreeKVCache(self.nodes, self.count, self.nodes.tensor.new_zeros(*parents.shape, self.count))

    def keep(self, trees: Tensor) -> "TreeKVCache":
        """Only these trees, in this order; one may be asked for twice."""
        path_mask = None if self.path_mask is None else self.path_mask.index_select(0, trees)
        return TreeKVCache(self.nodes.keep(trees, self.count), self.count, path_mask)

    def mask(self) -> Tensor | None:
        """(G * H, W, n), to be added to the scores of every layer; None where nothing is hidden."""
        if self.path_mask is None:
            return None
        num_heads = self.nodes.tensor.size(3)
        return self.path_mask[:, None].expand(-1, num_heads, -1, -1).reshape(-1, *self.path_mask.shape[1:])

    def layers(self, width: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """For each layer keys (G * H, K, n), transposed, and values (G * H, n, K); and both of the newest nodes,
        (2, G, H, W, K), to be filled."""
        nodes = self.nodes.tensor.narrow(4, 0, self.count)
        keys, values = nodes.flatten(2, 3).unbind(1)
        newest = nodes.narrow(4, self.count - width, width)
        return zip(keys.transpose(2, 3).unbind(0), values.unbind(0), newest.unbind(0), strict=True)

    def _compacted(self) -> "TreeKVCache":
        """Without the nodes nobody stands on, where that frees half of the room."""
        if self.path_mask is None:
            return self
        alive = (self.path_mask == 0).any(dim=1)
        most = int(alive.sum(dim=1).max())
        if 2 * most > self.nodes.capacity:
            return self
        # The living come first; a tree that has fewer than another is filled up with dead ones, which nobody sees.
        order = alive.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :most]
        path_mask = self.path_mask.gather(2, order[:, None].expand(-1, self.path_mask.size(1), -1))
        tensor = torch.empty_like(self.nodes.tensor)
        index = order[:, None, :, None].expand(*self.nodes.tensor.shape[:4], most, self.nodes.tensor.size(5))
        tensor[..., :most, :] = self.nodes.tensor.gather(4, index)
        return TreeKVCache(NodeBuffer(tensor, most), most, path_mask)
