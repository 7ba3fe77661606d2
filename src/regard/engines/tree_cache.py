"""A KV cache whose hypotheses are paths in trees, so that reordering them copies no keys and values.

A beam search reorders its hypotheses in every step. Moving their keys and values would copy the whole cache of every
layer each time. Here nothing moves: every generated token is a node whose keys and values are written once, and a mask
says which nodes belong to the path of each hypothesis.

    a - b - d        path of d: a b d        0  0  .  0  .        0 is visible, . is minus infinity
      \\
        c - e        path of e: a c e        0  .  0  .  0
                                             a  b  c  d  e

The mask is added to the scores before the softmax, so every hypothesis attends to its own path only. Reordering
hypotheses reorders the rows of the mask, which all layers share. All hypotheses of a sentence attend in one product.
Nodes that belong to no path are removed when the capacity is reached.

Shapes: G trees, W hypotheses a tree, n nodes a tree, L layers, H heads, K head size.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

INITIAL_CAPACITY = 32
"""Nodes for which a new tree has memory."""


class NodeBuffer:
    """Keys and values (L, 2, G, H, capacity, K), of which the first `used` nodes of every tree are written.

    Several caches may share a buffer, because each of them writes only behind its own nodes. A cache that finds other
    nodes there must move to a copy; `used` tells it.
    """

    def __init__(self, tensor: Tensor, used: int = 0) -> None:
        self.tensor, self.used = tensor, used

    @property
    def capacity(self) -> int:
        return self.tensor.size(4)

    def resized(self, count: int, capacity: int) -> "NodeBuffer":
        """A copy of the first `count` nodes with another capacity."""
        tensor = self.tensor.new_empty(*self.tensor.shape[:4], capacity, self.tensor.size(5))
        tensor.narrow(4, 0, count).copy_(self.tensor.narrow(4, 0, count))
        return NodeBuffer(tensor, count)

    def keep(self, trees: Tensor, count: int) -> "NodeBuffer":
        """A copy of the first `count` nodes of these trees, with the same capacity."""
        tensor = self.tensor.new_empty(*self.tensor.shape[:2], len(trees), *self.tensor.shape[3:])
        torch.index_select(self.tensor.narrow(4, 0, count), 2, trees, out=tensor.narrow(4, 0, count))
        return NodeBuffer(tensor, count)


@dataclass(frozen=True)
class TreeKVCache:
    """`count` nodes in each tree, and the mask of the paths (G, W, n); None if every hypothesis sees every node."""

    nodes: NodeBuffer
    count: int = 0
    path_mask: Tensor | None = None

    @classmethod
    def empty(cls, trees: int, layers: int, num_heads: int, head_dim: int, like: Tensor) -> "TreeKVCache":
        return cls(NodeBuffer(like.new_empty(layers, 2, trees, num_heads, INITIAL_CAPACITY, head_dim)))

    @property
    def trees(self) -> int:
        return self.nodes.tensor.size(2)

    def new_trees(self, trees: int) -> "TreeKVCache":
        """An empty cache with another number of trees."""
        layers, _, _, num_heads, _, head_dim = self.nodes.tensor.shape
        return TreeKVCache.empty(trees, layers, num_heads, head_dim, like=self.nodes.tensor)

    def append(self, width: int) -> "TreeKVCache":
        """Add one node for each of `width` hypotheses. The caller writes its keys and values (`layers`)."""
        cache = self if self.count + width <= self.nodes.capacity else self._compacted()
        count, nodes = cache.count + width, cache.nodes
        if count > nodes.capacity or nodes.used != cache.count:
            capacity = nodes.capacity if count <= nodes.capacity else max(count, 2 * nodes.capacity)
            nodes = nodes.resized(cache.count, capacity)
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
        """Only these trees, in this order; a tree may occur several times."""
        path_mask = None if self.path_mask is None else self.path_mask.index_select(0, trees)
        return TreeKVCache(self.nodes.keep(trees, self.count), self.count, path_mask)

    def mask(self) -> Tensor | None:
        """(G * H, W, n), to be added to the scores of every layer; None if nothing is hidden."""
        if self.path_mask is None:
            return None
        num_heads = self.nodes.tensor.size(3)
        return self.path_mask[:, None].expand(-1, num_heads, -1, -1).reshape(-1, *self.path_mask.shape[1:])

    def layers(self, width: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """For each layer: transposed keys (G * H, K, n), values (G * H, n, K), and the newest nodes (2, G, H, W, K),
        which the caller fills."""
        nodes = self.nodes.tensor.narrow(4, 0, self.count)
        keys, values = nodes.flatten(2, 3).unbind(1)
        newest = nodes.narrow(4, self.count - width, width)
        return zip(keys.transpose(2, 3).unbind(0), values.unbind(0), newest.unbind(0), strict=True)

    def _compacted(self) -> "TreeKVCache":
        """Without the nodes that belong to no path, if that frees half of the capacity."""
        if self.path_mask is None:
            return self
        alive = (self.path_mask == 0).any(dim=1)
        max_alive = int(alive.sum(dim=1).max())
        if 2 * max_alive > self.nodes.capacity:
            return self
        # Nodes on a path come first. A tree with fewer of them is padded with others, which are visible to no path.
        order = alive.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :max_alive]
        path_mask = self.path_mask.gather(2, order[:, None].expand(-1, self.path_mask.size(1), -1))
        tensor = torch.empty_like(self.nodes.tensor)
        index = order[:, None, :, None].expand(*self.nodes.tensor.shape[:4], max_alive, self.nodes.tensor.size(5))
        tensor[..., :max_alive, :] = self.nodes.tensor.gather(4, index)
        return TreeKVCache(NodeBuffer(tensor, max_alive), max_alive, path_mask)
