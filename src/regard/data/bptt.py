"""Batches of a language model: contiguous streams of text for truncated backpropagation through time.

Every line of a tokenised text ends with the end symbol. So the text is treated as a circle, and the token before the
first one is the end of the last line.

    text          a b c d e f g h i j k l
    3 streams     a b|c d      The recurrent state at the end of one segment is the initial state of the next segment
                  e f|g h      of the same stream. Gradients stay inside a segment (truncated backpropagation through
                  i j|k l      time, Williams and Peng 1990).

Each epoch of training begins at a random offset. The tokens of a step are a function of (seed, step).

B streams, T tokens of a segment.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from regard.data.arrays import Array
from regard.data.batch import WHOLE, Batch, Share, Step
from regard.data.store import Store
from regard.errors import UserError
from regard.seeding import rng
from regard.text.symbols import PAD


@dataclass(frozen=True)
class TokenizedText:
    """A text as one sequence of tokens; every line ends with the end symbol."""

    ids: Array
    """(N,)"""
    lines: int
    words: int
    """Words between spaces, and one for the end of each line."""
    characters: int
    """Characters, the ends of lines included."""
    fingerprint: str = ""

    @classmethod
    def of(cls, store: Store) -> "TokenizedText":
        """The text of a store that a `LineEncoder` made."""
        counts = store.counts
        return cls(store.values("tokens"), counts["examples"], counts["words"], counts["characters"], store.fingerprint)

    def __len__(self) -> int:
        """N, the number of tokens."""
        return len(self.ids)


class ContiguousStreams:
    """A text cut into streams that are read in parallel, in segments of at most `max_length` tokens.

    A segment is a batch of
        source    (B, T) tokens that the model reads, one behind the labels
        labels    (B, T) tokens to predict; PAD where a stream is one token shorter than others
        reset     () True if the streams begin with this segment, and the state is empty
    """

    def __init__(self, ids: Array, streams: int, max_length: int) -> None:
        self.ids = ids
        self._starts = np.arange(streams + 1) * len(ids) // streams
        stream_length = int(np.diff(self._starts).max())
        self.segments = -(-stream_length // max_length)
        # Segments differ in length by one token at most: a short last segment would be a step on few tokens.
        self._edges = np.arange(self.segments + 1) * stream_length // self.segments

    def segment(self, index: int, streams: Array, offset: int = 0, shard: int = 0) -> Batch:
        """One segment of some streams of the text that begins at token `offset`."""
        first, last = self._edges[index : index + 2]
        positions = self._starts[streams][:, None] + np.arange(first, last)
        inside = positions < self._starts[streams + 1][:, None]
        arrays = {
            "source": self._take(positions + offset - 1),
            "labels": np.where(inside, self._take(positions + offset), PAD),
            "reset": np.array(index == 0),
        }
        return Batch.of(arrays, tokens=int(inside.sum()), shard=shard)

    def count(self, index: int) -> int:
        """Labels of one segment over all streams."""
        first, last = self._edges[index : index + 2]
        return int((np.diff(self._starts) - first).clip(0, last - first).sum())

    def _take(self, positions: Array) -> Array:
        return self.ids[positions % len(self.ids)].astype(np.int64)


class BPTTBatches:
    """Steps of training over a text; a `BatchSource`. An epoch reads every token once."""

    def __init__(self, ids: Array, batch_tokens: int, bptt: int, seed: int, share: Share = WHOLE) -> None:
        """A step has `batch_tokens / bptt` streams, or fewer, so that each has at least one full segment."""
        streams = min(batch_tokens // bptt, max(1, len(ids) // bptt))
        if streams < share.count:
            raise UserError(
                f"with `training.batch_tokens = {batch_tokens}` and `data.bptt = {bptt}`, {len(ids):,} tokens "
                f"give {streams} streams, fewer than processes times `training.accumulation` ({share.count})",
                "increase `training.batch_tokens` or reduce `data.bptt`",
                code="invalid-setting",
                where="training.batch_tokens",
            )
        self._text, self._seed = ContiguousStreams(ids, streams, bptt), seed
        shards = np.array_split(np.arange(streams), share.count)
        self._streams = {shard: shards[shard] for shard in share.shards}

    def batch(self, step: int) -> Step:
        """This rank's share of a step."""
        epoch, index = divmod(step, self._text.segments)
        offset = int(rng(self._seed, epoch).integers(len(self._text.ids)))
        micro_batches = [self._text.segment(index, streams, offset, shard) for shard, streams in self._streams.items()]
        count = self._text.count(index)
        return Step(micro_batches, count, count, epoch)

    def steps_in_epoch(self, epoch: int = 0) -> int:
        """Number of steps of an epoch, the same for all epochs."""
        return self._text.segments


def contiguous_segments(ids: Array, streams: int, max_length: int) -> Iterator[Batch]:
    """A whole text from its beginning, for a model with recurrent state. Every token is a label once."""
    text = ContiguousStreams(ids, streams, max_length)
    return (text.segment(index, np.arange(streams)) for index in range(text.segments))


def sliding_windows(ids: Array, length: int, rows: int) -> Iterator[Batch]:
    """A whole text in overlapping windows of `length` tokens, `rows` at a time, for a model without state.

    Every token is a label once, in the later half of a window. So it has half a window of context before it, or the
    beginning of the text.
    """
    length = min(length, len(ids))
    stride = -(-length // 2)
    firsts = np.arange(0, len(ids), stride)  # the first label of each window; it has `stride` labels
    for labelled in np.array_split(firsts, -(-len(firsts) // rows)):
        starts = (labelled + stride - length).clip(0, len(ids) - length)
        positions = starts[:, None] + np.arange(length)
        has_label = (positions >= labelled[:, None]) & (positions < labelled[:, None] + stride)
        arrays = {
            "source": ids[positions - 1].astype(np.int64),
            "labels": np.where(has_label, ids[positions], PAD).astype(np.int64),
            "reset": np.array(True),
        }
        yield Batch.of(arrays, tokens=int(has_label.sum()))
