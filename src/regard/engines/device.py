"""Decoding on a GPU without waiting: a step is recorded once and replayed, and sentences flow through its slots.

Launched one by one from Python, the kernels of a decoding step take longer to launch than to run, and every look at a
result ("is it done?") makes one side wait for the other. So a whole step, from the embedding to the choice of the next
tokens, is recorded as a CUDA graph over buffers of fixed shape and replayed as one launch:

    waiting sentences -> encode -> [ slot | slot | ... | slot ] -> harvest finished slots -> hypotheses
                                     ^  step, step, step ...  |
                                     +--- `done`, one step late --- the host

The host runs one step ahead of what it has seen. A sentence that is done leaves its slot to the next one waiting
("continuous batching", Yu et al. 2022); slots that are done or empty only idle. On a CPU the same step runs as it
stands, which is how it is tested everywhere.

B slots, W hypotheses, S source, T target, D model.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import torch
from torch import Tensor

from regard.attention import Padded, Tokens
from regard.decoding import DecodingSettings, Hypothesis, Symbols
from regard.decoding.hypothesis import Texts
from regard.decoding.search import rules_of
from regard.engines.device_decoder import Room, SlotDecoder, StackedDecoder
from regard.engines.device_search import BeamSlots, GreedySlots, SlotSearch
from regard.engines.kernels import Kernels, TorchKernels
from regard.engines.searching import Searching
from regard.models import Transformer

AHEAD = 1
"""Steps the host launches before it looks at what the one before them did."""
REFILL = 8
"""New sentences are read when one in so many slots is free: reading a few at a time wastes the encoder."""
SHORTEST_TARGET, SHORTEST_SOURCE = 64, 32
"""The smallest rooms; each next is twice as large, so that few have to be recorded."""


class Played:
    """A step that runs as it stands."""

    def __init__(self, step: Callable[[], None], done: Tensor) -> None:
        self.step, self.done = step, done

    def launch(self) -> "Seen":
        """One step; what is done after it can be seen later."""
        self.step()
        return Seen(self.done.clone())


class Seen:
    """What was done after a step."""

    def __init__(self, done: Tensor, arrived: torch.cuda.Event | None = None) -> None:
        self.done, self.arrived = done, arrived

    def look(self) -> list[bool]:
        if self.arrived is not None:
            self.arrived.synchronize()
        flags: list[bool] = self.done.tolist()
        return flags


class Replayed:
    """A step recorded as a CUDA graph; `done` travels to the host behind it while the next is under way."""

    def __init__(self, step: Callable[[], None], done: Tensor) -> None:
        self.done = done
        aside = torch.cuda.Stream(done.device)
        aside.wait_stream(torch.cuda.current_stream(done.device))
        with torch.cuda.stream(aside):
            for _ in range(3):  # compiles kernels and sets up libraries, neither of which can be recorded
                step()
        torch.cuda.current_stream(done.device).wait_stream(aside)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):  # other threads may go on
            step()
        copies = [torch.empty(done.shape, dtype=done.dtype, pin_memory=True) for _ in range(AHEAD + 2)]
        self.copies = deque((copy, torch.cuda.Event()) for copy in copies)

    def launch(self) -> Seen:
        """See `Played.launch`."""
        self.graph.replay()
        copy, arrived = self.copies[0]
        self.copies.rotate(-1)
        copy.copy_(self.done, non_blocking=True)
        arrived.record()
        return Seen(copy, arrived)


class Bench:
    """Slots of one shape for one kind of search, and the step that moves all of them."""

    def __init__(self, decoder: SlotDecoder, search: SlotSearch) -> None:
        self.decoder, self.search, self.room = decoder, search, decoder.room
        self.device = search.done.device
        self.play = (Replayed if self.device.type == "cuda" else Played)(self._step, search.done)

    def _step(self) -> None:
        """Everything between two tokens; nothing here depends on what the tensors hold."""
        position = self.search.position.clone()
        parents = self.search.advance(self.decoder.step(self.search.tokens, position))
        if parents is not None:
            self.decoder.follow(parents, position)

    def admit(self, slots: Sequence[int], sources: Sequence[Sequence[int]], limits: Sequence[int]) -> None:
        """Read these sources and let their sentences begin in these slots."""
        where = self._send(np.array(slots))
        self.decoder.admit(where, self._padded(sources))
        self.search.admit(where, self._send(np.array(limits)))

    def harvest(self, slots: Sequence[int]) -> Texts:
        """What was found in these slots, still on the device."""
        return self.search.texts(self._send(np.array(slots)))

    def _padded(self, sources: Sequence[Sequence[int]]) -> Tokens:
        lengths = np.array([len(source) for source in sources])
        ids = np.zeros((len(sources), lengths.max()), dtype=np.int64)
        ids[np.arange(ids.shape[1]) < lengths[:, None]] = np.concatenate([np.asarray(ids) for ids in sources])
        return Padded.of(self._send(ids), self._send(lengths))

    def _send(self, array: np.ndarray) -> Tensor:
        """To the device, without waiting for it."""
        tensor = torch.from_numpy(array.astype(np.int64))
        return tensor.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else tensor


@dataclass(frozen=True)
class Parts:
    """What a step is made of: arithmetic, and the two searches."""

    kernels: Kernels
    greedy: type[GreedySlots]
    beam: type[BeamSlots]


def parts_for(device: torch.device) -> Parts:
    """Triton's on a GPU (triton comes with torch there), torch's elsewhere."""
    if device.type != "cuda":
        return Parts(TorchKernels(), GreedySlots, BeamSlots)
    from regard.engines.device_search_triton import BeamKernelSlots, GreedyKernelSlots
    from regard.engines.kernels_triton import TritonKernels

    return Parts(TritonKernels(), GreedyKernelSlots, BeamKernelSlots)


class DeviceEngine:
    """Greedy and beam search for one Transformer, as its weights are now; everything else searches as usual.

    `slots` sentences are decoded at once, fewer where their caches would take more than `memory` bytes. The first use
    of a shape records its step, which takes a moment; the next use finds it there.
    """

    def __init__(
        self,
        model: Transformer,
        symbols: Symbols,
        *,
        slots: int = 512,
        memory: int = 16 * 2**30,
        parts: Parts | None = None,
    ) -> None:
        if model.training:
            raise ValueError("the model is in training mode; call model.eval() first")
        if slots < 1:
            raise ValueError(f"slots = {slots}, and a sentence needs one")
        self.model, self.symbols, self.slots, self.memory = model, symbols, slots, memory
        self.device = model.tgt_embedding.weight.device
        self.parts = parts or parts_for(self.device)
        with torch.inference_mode():
            self.stacked = StackedDecoder(model)
        self.benches: OrderedDict[tuple[object, ...], Bench] = OrderedDict()

    def renew(self) -> None:
        """The model's weights have been written over: take them anew. What was recorded stays."""
        with torch.inference_mode():
            for layer in self.stacked.layers:
                layer.renew()
            for bench in self.benches.values():
                bench.decoder.renew()

    def decode(
        self,
        sources: Sequence[Sequence[int]],
        limits: Sequence[int],
        settings: DecodingSettings,
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        numbers: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """See `Engine.decode`."""
        if len(limits) != len(sources):
            raise ValueError(f"{len(limits)} limits for {len(sources)} sources")
        if min(limits, default=1) < 1:
            raise ValueError("every sentence needs a limit of one token or more")
        answers: list[list[Hypothesis]] = [[] for _ in sources]
        plain = torch.autocast(self.device.type, enabled=False)
        with torch.inference_mode(), plain, torch.cuda.device_of(self.model.tgt_embedding.weight):
            if not self.covers(limits, settings, prefixes):
                readable = Searching(self.model, self.symbols, self.device)
                return readable.decode(sources, limits, settings, prefixes=prefixes, numbers=numbers)
            for group in _by_room(sources, limits):
                bench = self._bench([sources[i] for i in group], [limits[i] for i in group], settings)
                for members, texts in self._flow(bench, group, sources, limits):
                    for sentence, found in zip(members, texts.hypotheses(), strict=True):
                        ended = [hypothesis for hypothesis in found if hypothesis.finished]
                        answers[sentence] = ended or found
        return answers

    def covers(
        self, limits: Sequence[int], settings: DecodingSettings, prefixes: Sequence[Sequence[int]] | None = None
    ) -> bool:
        """Whether slots can do this: no sampling, no forced beginnings, no constraints, no positions not learned."""
        known = (
            self.model.settings.positions != "learned" or max(limits, default=0) <= self.model.settings.max_positions
        )
        return (
            settings.search in ("greedy", "beam") and not settings.no_repeat_ngram and not any(prefixes or ()) and known
        )

    def _flow(
        self, bench: Bench, group: Sequence[int], sources: Sequence[Sequence[int]], limits: Sequence[int]
    ) -> list[tuple[list[int], Texts]]:
        """Let these sentences, longest first, flow through the slots; what is found stays on the device till then."""
        waiting = deque(sorted(group, key=lambda i: (-limits[i], -len(sources[i]))))
        seats: dict[int, tuple[int, int]] = {}  # slot -> its sentence, and the step it began at
        free = deque(range(bench.room.slots))
        under_way: deque[tuple[int, Seen]] = deque()
        found: list[tuple[list[int], Texts]] = []
        step = 0
        while waiting or seats:
            if waiting and len(free) * REFILL >= bench.room.slots:
                entering = {free.popleft(): waiting.popleft() for _ in range(min(len(free), len(waiting)))}
                members = list(entering.values())
                bench.admit(list(entering), [sources[i] for i in members], [limits[i] for i in members])
                seats |= {slot: (sentence, step) for slot, sentence in entering.items()}
            under_way.append((step, bench.play.launch()))
            step += 1
            # By then every sentence has reached its limit: there is nothing to run ahead of.
            last = max(begun + limits[sentence] for sentence, begun in seats.values())
            while len(under_way) > (AHEAD if step < last else 0):
                at, seen = under_way.popleft()
                flags = seen.look()
                ended = [slot for slot, (_, begun) in seats.items() if flags[slot] and at >= begun]
                if ended:
                    found.append(([seats.pop(slot)[0] for slot in ended], bench.harvest(ended)))
                    free.extend(ended)
        return found

    def _bench(self, sources: list[Sequence[int]], limits: list[int], settings: DecodingSettings) -> Bench:
        """The bench these sentences fit on, made now or found among those made before."""
        width = settings.beam if settings.search == "beam" else 1
        positions, source = _room(max(limits), SHORTEST_TARGET), _room(max(map(len, sources)), SHORTEST_SOURCE)
        slots = min(_room(len(sources), 1), self.slots)
        while slots > 1 and Room(slots, width, positions, source).bytes(self.model) > self.memory:
            slots //= 2
        room = Room(slots, width, positions, source)
        key = (room, settings.search, settings.nbest, settings.alpha, settings.loop_guard)
        if key not in self.benches:
            self._make_space(room)
            self.benches[key] = self._build(room, settings)
        self.benches.move_to_end(key)
        return self.benches[key]

    def _make_space(self, room: Room) -> None:
        """Forget the benches used longest ago, until this room fits into the memory beside the others."""
        while self.benches:
            taken = sum(bench.room.bytes(self.model) for bench in self.benches.values())
            if taken + room.bytes(self.model) <= self.memory:
                break
            self.benches.popitem(last=False)

    def _build(self, room: Room, settings: DecodingSettings) -> Bench:
        rules, parts = rules_of(settings, self.symbols), self.parts
        search: SlotSearch
        if settings.search == "beam":
            search = parts.beam(room, rules, parts.kernels, self.device, settings.nbest)
        else:
            search = parts.greedy(room, rules, parts.kernels, self.device)
        return Bench(SlotDecoder(self.stacked, room, parts.kernels), search)


def _room(size: int, least: int) -> int:
    """The smallest of least, 2 least, 4 least ... that holds `size`."""
    return least << max(0, (size - 1).bit_length() - (least - 1).bit_length())


def _by_room(sources: Sequence[Sequence[int]], limits: Sequence[int]) -> Iterator[list[int]]:
    """Sentences in groups that want a room of the same length, so that one long text does not make all slots long."""

    def room(i: int) -> int:
        return max(_room(limits[i], SHORTEST_TARGET), _room(len(sources[i]), SHORTEST_SOURCE))

    for _, members in groupby(sorted(range(len(sources)), key=room), key=room):
        yield list(members)
