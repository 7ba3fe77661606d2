"""Decoding on a GPU: CUDA graphs and continuous batching.

Launching the kernels of a decoding step one by one from Python takes longer than running them, and each time the host
asks for a result ("is it done?"), one side waits for the other. So a whole step, from the embedding to the selection of
the next tokens, is captured as a CUDA graph over buffers of fixed shape, and replayed with one launch:

    waiting sentences -> prefill -> [ slot | slot | ... | slot ] -> collect finished slots -> hypotheses
                                      ^  step, step, step ...  |
                                      +--- `done`, one step late --- the host

The host runs one step ahead of what it has read. A finished sentence gives its slot to the next waiting one
("continuous batching", Yu et al. 2022). Slots that are done or empty are idle. On a CPU the same step runs eagerly, so
it is tested everywhere.

Shapes: B slots, W hypotheses, S source, T target, D model.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from regard.attention.layouts import Padded
from regard.decoding.engine import DecodingRequest
from regard.decoding.hypothesis import Hypothesis, HypothesisBatch
from regard.decoding.search import build_rules
from regard.decoding.settings import DecodingSettings
from regard.decoding.stepper import Symbols
from regard.engines.device_decoder import FusedDecoder, SlotDecoder, SlotShape
from regard.engines.device_kernels import Kernels, TorchKernels
from regard.engines.device_search import BeamSlots, GreedySlots, SearchSlots
from regard.engines.stepper_engine import StepperEngine
from regard.models.transformer import Transformer

LOOKAHEAD = 1
"""Steps that the host launches before it reads the result of an earlier step."""
REFILL = 8
"""New sentences are encoded when one slot in eight is free: encoding a few at a time is inefficient."""
MAX_CAPTURED = 2**15
"""Source tokens that are encoded with a graph, which keeps its memory."""
MIN_TARGET, MIN_SOURCE = 64, 32
"""The smallest lengths of a slot. Larger ones are powers of two times these, so that few graphs are captured."""


class DoneFlags:
    """The `done` flags after one step, possibly still on their way to the host."""

    def __init__(self, done: Tensor, copied: torch.cuda.Event | None = None) -> None:
        self.done, self.copied = done, copied

    def read(self) -> list[bool]:
        """Wait for the copy and return the flags (B,)."""
        if self.copied is not None:
            self.copied.synchronize()
        flags: list[bool] = self.done.tolist()
        return flags


class DecodingStep:
    """A step that runs directly, without a graph."""

    def __init__(self, step: Callable[[], None], done: Tensor) -> None:
        self.step, self.done = step, done

    def launch(self) -> DoneFlags:
        self.step()
        return DoneFlags(self.done.clone())


class DecodingGraphStep:
    """A step captured as a CUDA graph; `done` is copied to the host while the next step runs."""

    def __init__(self, step: Callable[[], None], done: Tensor) -> None:
        self.done, self.graph = done, capture(step, done.device)
        copies = [torch.empty(done.shape, dtype=done.dtype, pin_memory=True) for _ in range(LOOKAHEAD + 2)]
        self.copies = deque((copy, torch.cuda.Event()) for copy in copies)

    def launch(self) -> DoneFlags:
        """Replay the graph and start the copy of `done`."""
        self.graph.replay()
        copy, copied = self.copies[0]
        self.copies.rotate(-1)
        copy.copy_(self.done, non_blocking=True)
        copied.record()
        return DoneFlags(copy, copied)


def capture(work: Callable[[], None], device: torch.device) -> torch.cuda.CUDAGraph:
    """Capture what `work` launches; it must be allowed to run several times."""
    warmup = torch.cuda.Stream(device)
    warmup.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(warmup):
        for _ in range(3):  # compiles kernels and initialises libraries, which a capture cannot contain
            work()
    torch.cuda.current_stream(device).wait_stream(warmup)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # other threads may use the GPU
        work()
    return graph


class SlotBatch:
    """Slots of one shape for one search, and the step that advances all of them."""

    def __init__(self, decoder: SlotDecoder, search: SearchSlots) -> None:
        self.decoder, self.search, self.shape = decoder, search, decoder.shape
        self.device = search.done.device
        self.step = (DecodingGraphStep if self.device.type == "cuda" else DecodingStep)(self._step, search.done)
        # By number of sentences: what they are read from, and the graph that encodes them and starts their search.
        self.prefills: dict[int, tuple[Tensor, torch.cuda.CUDAGraph]] = {}

    def _step(self) -> None:
        """Everything between two tokens. The operations do not depend on the values of the tensors."""
        position = self.search.position.clone()
        parents = self.search.advance(self.decoder.step(self.search.tokens, position))
        if parents is not None:
            self.decoder.reorder(parents, position)

    def prefill(self, slots: Sequence[int], request: DecodingRequest) -> None:
        """Encode the sources and start their sentences in these slots; one sentence, or all slots, with a graph."""
        count = len(slots)
        captured = count in (1, self.shape.slots) and count * self.shape.source <= MAX_CAPTURED
        size = self.shape.source if captured else max(map(len, request.sources))
        lengths, sentences = np.array(list(map(len, request.sources))), np.zeros((count, 3 + size), dtype=np.int64)
        sentences[:, :3] = np.stack([slots, request.max_new_tokens, lengths], axis=1)
        sentences[:, 3:][np.arange(size) < lengths[:, None]] = np.concatenate(list(map(np.asarray, request.sources)))
        sent = self._send(sentences)
        if not captured or self.device.type != "cuda":
            self._prefill(sent)
            return
        if count not in self.prefills:
            self.prefills[count] = sent, capture(lambda: self._prefill(sent), self.device)
        inputs, graph = self.prefills[count]
        inputs.copy_(sent)
        graph.replay()

    def _prefill(self, sentences: Tensor) -> None:
        """Slot, maximum length, number of tokens and tokens of sentences, (n, 3 + S)."""
        slots, max_new_tokens, lengths = sentences[:, :3].T.contiguous().unbind()
        self.decoder.prefill(slots, Padded.of(sentences[:, 3:], lengths))
        self.search.prefill(slots, max_new_tokens)

    def collect(self, slots: Sequence[int]) -> HypothesisBatch:
        """The hypotheses of these slots, still on the device."""
        return self.search.hypotheses(self._send(np.array(slots)))

    def _send(self, array: np.ndarray) -> Tensor:
        """Copy to the device without waiting for the copy."""
        tensor = torch.from_numpy(array.astype(np.int64))
        return tensor.pin_memory().to(self.device, non_blocking=True) if self.device.type == "cuda" else tensor


@dataclass(frozen=True)
class Backend:
    """The implementation of a step: kernels and the two searches."""

    kernels: Kernels
    greedy: type[GreedySlots]
    beam: type[BeamSlots]


def backend_for(device: torch.device) -> Backend:
    """Triton on a GPU (torch for GPUs contains it), torch elsewhere."""
    if device.type != "cuda":
        return Backend(TorchKernels(), GreedySlots, BeamSlots)
    from regard.engines.device_kernels_triton import TritonKernels
    from regard.engines.device_search_triton import TritonBeamSlots, TritonGreedySlots

    return Backend(TritonKernels(), TritonGreedySlots, TritonBeamSlots)


class DeviceEngine:
    """Greedy and beam search for one Transformer with its current weights. Other searches use `StepperEngine`.

    Up to `slots` sentences are decoded at once; fewer if their KV caches need more than `memory` bytes. The first use
    of a shape captures its graph, which takes a few seconds. Later uses reuse it.
    """

    def __init__(
        self,
        model: Transformer,
        symbols: Symbols,
        *,
        slots: int = 512,
        memory: int = 16 * 2**30,
        backend: Backend | None = None,
    ) -> None:
        if model.training:
            raise ValueError("the model is in training mode; call model.eval() first")
        if slots < 1:
            raise ValueError(f"slots = {slots}; at least one is needed")
        self.model, self.symbols, self.slots, self.memory = model, symbols, slots, memory
        self.device = model.tgt_embedding.weight.device
        self.backend = backend or backend_for(self.device)
        with torch.inference_mode():
            self.decoder = FusedDecoder(model)
        self.slot_batches: OrderedDict[tuple[object, ...], SlotBatch] = OrderedDict()

    def reload_weights(self) -> None:
        """Read the weights of the model again after they have changed. Captured graphs stay valid."""
        with torch.inference_mode():
            for layer in self.decoder.layers:
                layer.reload_weights()
            for batch in self.slot_batches.values():
                batch.decoder.reload_weights()

    def decode(self, request: DecodingRequest) -> list[list[Hypothesis]]:
        """Decode with slots where `supports` allows it, otherwise with the reference engine."""
        no_autocast = torch.autocast(self.device.type, enabled=False)
        with torch.inference_mode(), no_autocast, torch.cuda.device_of(self.model.tgt_embedding.weight):
            if not self.supports(request):
                return StepperEngine(self.model, self.symbols, self.device).decode(request)
            results: list[list[Hypothesis]] = [[] for _ in request.sources]
            for index, hypotheses in request.decode_groups(list(_group_by_shape(request)), self._decode):
                results[index] = hypotheses
            return results

    def _decode(self, part: DecodingRequest) -> list[list[Hypothesis]]:
        results: list[list[Hypothesis]] = [[] for _ in part.sources]
        for indices, batch in self._run(self._slot_batch(part), part):
            for index, hypotheses in zip(indices, batch.hypotheses(), strict=True):
                finished = [hypothesis for hypothesis in hypotheses if hypothesis.finished]
                results[index] = finished or hypotheses
        return results

    def supports(self, request: DecodingRequest) -> bool:
        """True if slots can decode this: no sampling, prefixes or constraints, no more positions than were learned."""
        model, settings = self.model.settings, request.settings
        fits = model.positions != "learned" or max(request.max_new_tokens, default=0) <= model.max_positions
        searches = settings.search in ("greedy", "beam") and not settings.no_repeat_ngram
        return fits and searches and not any(request.prefixes)

    def _run(self, batch: SlotBatch, request: DecodingRequest) -> list[tuple[list[int], HypothesisBatch]]:
        """Continuous batching: indices of sentences and their hypotheses, which stay on the device until the end."""
        sources, max_new_tokens = request.sources, request.max_new_tokens
        waiting = deque(sorted(range(len(request)), key=lambda i: (-max_new_tokens[i], -len(sources[i]))))
        running: dict[int, tuple[int, int]] = {}  # slot -> its sentence, and the step at which it started
        free = deque(range(batch.shape.slots))
        in_flight: deque[tuple[int, DoneFlags]] = deque()
        collected: list[tuple[list[int], HypothesisBatch]] = []
        step = 0
        while waiting or running:
            if waiting and len(free) * REFILL >= batch.shape.slots:
                new = {free.popleft(): waiting.popleft() for _ in range(min(len(free), len(waiting)))}
                batch.prefill(list(new), request.select(list(new.values())))
                running |= {slot: (sentence, step) for slot, sentence in new.items()}
            in_flight.append((step, batch.step.launch()))
            step += 1
            # At `last` every sentence has reached its maximum length, so no further step is launched ahead.
            last = max(start + max_new_tokens[sentence] for sentence, start in running.values())
            while len(in_flight) > (LOOKAHEAD if step < last else 0):
                launched, done = in_flight.popleft()
                flags = done.read()
                ended = [slot for slot, (_, start) in running.items() if flags[slot] and launched >= start]
                if ended:
                    collected.append(([running.pop(slot)[0] for slot in ended], batch.collect(ended)))
                    free.extend(ended)
        return collected

    def _slot_batch(self, request: DecodingRequest) -> SlotBatch:
        settings = request.settings
        width = settings.beam if settings.search == "beam" else 1
        positions = _round_up(max(request.max_new_tokens), MIN_TARGET)
        source = _round_up(max(map(len, request.sources)), MIN_SOURCE)
        slots = min(_round_up(len(request), 1), self.slots)
        while slots > 1 and SlotShape(slots, width, positions, source).bytes(self.model) > self.memory:
            slots //= 2
        return self.slot_batch(SlotShape(slots, width, positions, source), settings)

    def slot_batch(self, shape: SlotShape, settings: DecodingSettings) -> SlotBatch:
        """Slots of this shape for this search, reused or new."""
        key = (shape, settings.search, settings.nbest, settings.alpha, settings.loop_guard)
        if key not in self.slot_batches:
            while self.slot_batches:  # delete the least recently used slots until this shape fits into the memory
                used = sum(batch.shape.bytes(self.model) for batch in self.slot_batches.values())
                if used + shape.bytes(self.model) <= self.memory:
                    break
                self.slot_batches.popitem(last=False)
            self.slot_batches[key] = self._build(shape, settings)
        self.slot_batches.move_to_end(key)
        return self.slot_batches[key]

    def _build(self, shape: SlotShape, settings: DecodingSettings) -> SlotBatch:
        rules, backend = build_rules(settings, self.symbols), self.backend
        search: SearchSlots
        if settings.search == "beam":
            search = backend.beam(shape, rules, backend.kernels, self.device, settings.nbest)
        else:
            search = backend.greedy(shape, rules, backend.kernels, self.device)
        return SlotBatch(SlotDecoder(self.decoder, shape, backend.kernels), search)


class ValidationEngine:
    """An engine for a model in training: call it with the model to decode with its current weights.

    Capturing a graph takes seconds, copying weights takes no time. So a copy of the model keeps its captured graphs,
    and each validation copies the new weights into it.
    """

    def __init__(self, symbols: Symbols, dtype: torch.dtype) -> None:
        self.symbols, self.dtype = symbols, dtype
        self.engine: DeviceEngine | None = None

    def __call__(self, model: nn.Module) -> DeviceEngine | StepperEngine[Any]:
        if not isinstance(model, Transformer) or not model.is_standard:  # the reference engine knows every part
            return StepperEngine(cast(Any, model), self.symbols, next(model.parameters()).device)
        with torch.autocast(model.tgt_embedding.weight.device.type, enabled=False), torch.inference_mode():
            if self.engine is None:
                sizes = (len(embedding.weight) for embedding in (model.src_embedding, model.tgt_embedding))
                copy = Transformer(model.settings, *sizes).to(model.tgt_embedding.weight.device, self.dtype).eval()
                copy.load_state_dict(model.state_dict())
                self.engine = DeviceEngine(copy, self.symbols)
            else:
                self.engine.model.load_state_dict(model.state_dict())
                self.engine.reload_weights()
        return self.engine


def _round_up(size: int, minimum: int) -> int:
    """The smallest of minimum, 2 minimum, 4 minimum ... that is at least `size`."""
    return minimum << max(0, (size - 1).bit_length() - (minimum - 1).bit_length())


def _group_by_shape(request: DecodingRequest) -> Iterator[list[int]]:
    """Indices of sentences grouped by the slot length they need, so that one long sentence does not lengthen all."""

    def length(i: int) -> int:
        return max(_round_up(request.max_new_tokens[i], MIN_TARGET), _round_up(len(request.sources[i]), MIN_SOURCE))

    for _, group in groupby(sorted(range(len(request)), key=length), key=length):
        yield list(group)
