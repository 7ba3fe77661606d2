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

from regard.attention.layouts import Padded, Tokens
from regard.decoding.hypothesis import Hypothesis, HypothesisBatch
from regard.decoding.search import build_rules
from regard.decoding.settings import DecodingSettings
from regard.decoding.stepper import Symbols
from regard.engines.device_decoder import FusedDecoder, SlotDecoder, SlotShape
from regard.engines.device_kernels import Kernels, TorchKernels
from regard.engines.device_search import BeamSlots, GreedySlots, SlotSearch
from regard.engines.stepper_engine import StepperEngine
from regard.models.transformer import Transformer

LOOKAHEAD = 1
"""Steps the host launches before it looks at what the one before them did."""
REFILL = 8
"""New sentences are read when one in so many slots is free: reading a few at a time wastes the encoder."""
MIN_TARGET, MIN_SOURCE = 64, 32
"""The smallest rooms; each next is twice as large, so that few have to be recorded."""


class EagerStep:
    """A step that runs as it stands."""

    def __init__(self, step: Callable[[], None], done: Tensor) -> None:
        self.step, self.done = step, done

    def launch(self) -> "DoneFlags":
        """One step; what is done after it can be seen later."""
        self.step()
        return DoneFlags(self.done.clone())


class DoneFlags:
    """What was done after a step."""

    def __init__(self, done: Tensor, arrived: torch.cuda.Event | None = None) -> None:
        self.done, self.arrived = done, arrived

    def look(self) -> list[bool]:
        if self.arrived is not None:
            self.arrived.synchronize()
        flags: list[bool] = self.done.tolist()
        return flags


class GraphStep:
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
        copies = [torch.empty(done.shape, dtype=done.dtype, pin_memory=True) for _ in range(LOOKAHEAD + 2)]
        self.copies = deque((copy, torch.cuda.Event()) for copy in copies)

    def launch(self) -> DoneFlags:
        """See `EagerStep.launch`."""
        self.graph.replay()
        copy, arrived = self.copies[0]
        self.copies.rotate(-1)
        copy.copy_(self.done, non_blocking=True)
        arrived.record()
        return DoneFlags(copy, arrived)


class SlotBatch:
    """Slots of one shape for one kind of search, and the step that moves all of them."""

    def __init__(self, decoder: SlotDecoder, search: SlotSearch) -> None:
        self.decoder, self.search, self.shape = decoder, search, decoder.shape
        self.device = search.done.device
        self.play = (GraphStep if self.device.type == "cuda" else EagerStep)(self._step, search.done)

    def _step(self) -> None:
        """Everything between two tokens; nothing here depends on what the tensors hold."""
        position = self.search.position.clone()
        parents = self.search.advance(self.decoder.step(self.search.tokens, position))
        if parents is not None:
            self.decoder.follow(parents, position)

    def prefill(self, slots: Sequence[int], sources: Sequence[Sequence[int]], max_new_tokens: Sequence[int]) -> None:
        """Read these sources and let their sentences begin in these slots."""
        where = self._send(np.array(slots))
        self.decoder.prefill(where, self._padded(sources))
        self.search.prefill(where, self._send(np.array(max_new_tokens)))

    def collect(self, slots: Sequence[int]) -> HypothesisBatch:
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
class Backend:
    """What a step is made of: arithmetic, and the two searches."""

    kernels: Kernels
    greedy: type[GreedySlots]
    beam: type[BeamSlots]


def backend_for(device: torch.device) -> Backend:
    """Triton's on a GPU (triton comes with torch there), torch's elsewhere."""
    if device.type != "cuda":
        return Backend(TorchKernels(), GreedySlots, BeamSlots)
    from regard.engines.device_kernels_triton import TritonKernels
    from regard.engines.device_search_triton import TritonBeamSlots, TritonGreedySlots

    return Backend(TritonKernels(), TritonGreedySlots, TritonBeamSlots)


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
        parts: Backend | None = None,
    ) -> None:
        if model.training:
            raise ValueError("the model is in training mode; call model.eval() first")
        if slots < 1:
            raise ValueError(f"slots = {slots}, and a sentence needs one")
        self.model, self.symbols, self.slots, self.memory = model, symbols, slots, memory
        self.device = model.tgt_embedding.weight.device
        self.parts = parts or backend_for(self.device)
        with torch.inference_mode():
            self.stacked = FusedDecoder(model)
        self.slot_batches: OrderedDict[tuple[object, ...], SlotBatch] = OrderedDict()

    def reload_weights(self) -> None:
        """The model's weights have been written over: take them anew. What was recorded stays."""
        with torch.inference_mode():
            for layer in self.stacked.layers:
                layer.reload_weights()
            for slot_batch in self.slot_batches.values():
                slot_batch.decoder.reload_weights()

    def decode(
        self,
        sources: Sequence[Sequence[int]],
        max_new_tokens: Sequence[int],
        settings: DecodingSettings,
        *,
        prefixes: Sequence[Sequence[int]] | None = None,
        sentence_ids: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """See `Engine.decode`."""
        if len(max_new_tokens) != len(sources):
            raise ValueError(f"{len(max_new_tokens)} limits for {len(sources)} sources")
        if min(max_new_tokens, default=1) < 1:
            raise ValueError("every sentence needs a limit of one token or more")
        answers: list[list[Hypothesis]] = [[] for _ in sources]
        plain = torch.autocast(self.device.type, enabled=False)
        with torch.inference_mode(), plain, torch.cuda.device_of(self.model.tgt_embedding.weight):
            if not self.supports(max_new_tokens, settings, prefixes):
                readable = StepperEngine(self.model, self.symbols, self.device)
                return readable.decode(sources, max_new_tokens, settings, prefixes=prefixes, sentence_ids=sentence_ids)
            for group in _group_by_shape(sources, max_new_tokens):
                slot_batch = self._slot_batch([sources[i] for i in group], [max_new_tokens[i] for i in group], settings)
                for members, texts in self._flow(slot_batch, group, sources, max_new_tokens):
                    for sentence, found in zip(members, texts.hypotheses(), strict=True):
                        ended = [hypothesis for hypothesis in found if hypothesis.finished]
                        answers[sentence] = ended or found
        return answers

    def supports(
        self, max_new_tokens: Sequence[int], settings: DecodingSettings, prefixes: Sequence[Sequence[int]] | None = None
    ) -> bool:
        """Whether slots can do this: no sampling, no forced beginnings, no constraints, no positions not learned."""
        known = (
            self.model.settings.positions != "learned"
            or max(max_new_tokens, default=0) <= self.model.settings.max_positions
        )
        return (
            settings.search in ("greedy", "beam") and not settings.no_repeat_ngram and not any(prefixes or ()) and known
        )

    def _flow(
        self,
        slot_batch: SlotBatch,
        group: Sequence[int],
        sources: Sequence[Sequence[int]],
        max_new_tokens: Sequence[int],
    ) -> list[tuple[list[int], HypothesisBatch]]:
        """Let these sentences, longest first, flow through the slots; what is found stays on the device till then."""
        waiting = deque(sorted(group, key=lambda i: (-max_new_tokens[i], -len(sources[i]))))
        running: dict[int, tuple[int, int]] = {}  # slot -> its sentence, and the step it began at
        free = deque(range(slot_batch.shape.slots))
        in_flight: deque[tuple[int, DoneFlags]] = deque()
        found: list[tuple[list[int], HypothesisBatch]] = []
        step = 0
        while waiting or running:
            if waiting and len(free) * REFILL >= slot_batch.shape.slots:
                entering = {free.popleft(): waiting.popleft() for _ in range(min(len(free), len(waiting)))}
                members = list(entering.values())
                slot_batch.prefill(list(entering), [sources[i] for i in members], [max_new_tokens[i] for i in members])
                running |= {slot: (sentence, step) for slot, sentence in entering.items()}
            in_flight.append((step, slot_batch.play.launch()))
            step += 1
            # By then every sentence has reached its limit: there is nothing to run ahead of.
            last = max(begun + max_new_tokens[sentence] for sentence, begun in running.values())
            while len(in_flight) > (LOOKAHEAD if step < last else 0):
                at, seen = in_flight.popleft()
                flags = seen.look()
                ended = [slot for slot, (_, begun) in running.items() if flags[slot] and at >= begun]
                if ended:
                    found.append(([running.pop(slot)[0] for slot in ended], slot_batch.collect(ended)))
                    free.extend(ended)
        return found

    def _slot_batch(
        self, sources: list[Sequence[int]], max_new_tokens: list[int], settings: DecodingSettings
    ) -> SlotBatch:
        """The bench these sentences fit on, made now or found among those made before."""
        width = settings.beam if settings.search == "beam" else 1
        positions, source = _round_up(max(max_new_tokens), MIN_TARGET), _round_up(max(map(len, sources)), MIN_SOURCE)
        slots = min(_round_up(len(sources), 1), self.slots)
        while slots > 1 and SlotShape(slots, width, positions, source).bytes(self.model) > self.memory:
            slots //= 2
        shape = SlotShape(slots, width, positions, source)
        key = (shape, settings.search, settings.nbest, settings.alpha, settings.loop_guard)
        if key not in self.slot_batches:
            self._evict(shape)
            self.slot_batches[key] = self._build(shape, settings)
        self.slot_batches.move_to_end(key)
        return self.slot_batches[key]

    def _evict(self, shape: SlotShape) -> None:
        """Forget the benches used longest ago, until this room fits into the memory beside the others."""
        while self.slot_batches:
            taken = sum(slot_batch.shape.bytes(self.model) for slot_batch in self.slot_batches.values())
            if taken + shape.bytes(self.model) <= self.memory:
                break
            self.slot_batches.popitem(last=False)

    def _build(self, shape: SlotShape, settings: DecodingSettings) -> SlotBatch:
        rules, parts = build_rules(settings, self.symbols), self.parts
        search: SlotSearch
        if settings.search == "beam":
            search = parts.beam(shape, rules, parts.kernels, self.device, settings.nbest)
        else:
            search = parts.greedy(shape, rules, parts.kernels, self.device)
        return SlotBatch(SlotDecoder(self.stacked, shape, parts.kernels), search)


def _round_up(size: int, least: int) -> int:
    """The smallest of least, 2 least, 4 least ... that holds `size`."""
    return least << max(0, (size - 1).bit_length() - (least - 1).bit_length())


def _group_by_shape(sources: Sequence[Sequence[int]], max_new_tokens: Sequence[int]) -> Iterator[list[int]]:
    """Sentences in groups that want a room of the same length, so that one long text does not make all slots long."""

    def shape(i: int) -> int:
        return max(_round_up(max_new_tokens[i], MIN_TARGET), _round_up(len(sources[i]), MIN_SOURCE))

    for _, members in groupby(sorted(range(len(sources)), key=shape), key=shape):
        yield list(members)
