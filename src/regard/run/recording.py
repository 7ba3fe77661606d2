"""Look into a model from outside: record its activations by name, and switch off heads, layers and other parts.

    encoder.input               what enters the first layer: embeddings with positions
    encoder.0.self.query        (B, H, T, K); key and value too, as the score uses them
    encoder.0.self.scores       (B, H, T, S), before mask and softmax
    encoder.0.self.weights      (B, H, T, S)
    encoder.0.self.heads        (B, H, T, K): what each head hands to the output projection
    encoder.0.self.output       (B, T, D): output of the sublayer
    encoder.0.self.residual     (B, T, D): the residual stream after the sublayer
    decoder.0.cross.weights     attention to the source
    logits                      the output of the model

Names follow the modules of the model, so every other module has its output here too: `encoder.0.feedforward.output`,
`encoder.0.self.norm.output`, `encoder.pooler.weights`. Hooks do all of it; no layer has code for this.

B inputs, H heads, T queries, S keys, K head size, D model.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.attend import masked_softmax
from regard.attention.layouts import Layout, PaddedPattern
from regard.attention.multihead import MultiHeadAttention, unrotated
from regard.attention.recurrent_attention import AttentionOutput, SourceAttention
from regard.attention.scores import scaled_dot
from regard.config import nearest
from regard.errors import UserError
from regard.layers import convolution
from regard.layers.blocks import DecoderLayer, EncoderLayer, FeedForward, TransformerStack
from regard.layers.embeddings import OutputProjection
from regard.layers.positions import NoPositions, Positions
from regard.layers.residual import NoSublayer, Residual
from regard.models.pooling import AttentivePooler
from regard.tasks.base import Prediction

Attention = MultiHeadAttention | SourceAttention | convolution.MultiStepAttention
Layer = EncoderLayer | DecoderLayer | convolution.ConvolutionalEncoderLayer | convolution.ConvolutionalDecoderLayer

Heads = Mapping[str, Collection[int]] | Collection[tuple[int, int]]
"""Heads by the name of their attention, {"encoder.0.self": [1]}, or pairs (layer, head) for a model with one stack."""
Layers = Collection[str | int]
"""Layers by name, {"encoder.0"}, or by number for a model with one stack."""


class Recording(dict[str, Tensor]):
    """The activations of a model for one example, by name, and the prediction that they belong to."""

    def __init__(self, prediction: Prediction) -> None:
        super().__init__()
        self.prediction = prediction

    def __missing__(self, name: str) -> Tensor:
        close = nearest(name, list(self))
        raise KeyError(f"no activation is called {name!r}" + (f"; did you mean {close!r}?" if close else ""))

    def keep(self, name: str, value: Tensor) -> None:
        """Add a value. Values of single steps are joined; another call of a module gets a number."""
        value = value.detach()
        if name in self and value.dim() > 2 and value.size(-2) == 1:
            self[name] = torch.cat([self[name], value], dim=-2)
            return
        calls = sum(other == name or other.startswith(f"{name}#") for other in self)
        self[f"{name}#{calls + 1}" if calls else name] = value

    def __repr__(self) -> str:
        return "\n".join(f"{name:40} {tuple(value.shape)}" for name, value in self.items())


def module_names(model: nn.Module) -> dict[str, nn.Module]:
    """The modules of a model by their names in a recording."""
    names, inner = {}, set[nn.Module]()
    for path, module in model.named_modules():
        if isinstance(module, nn.Dropout) or module in inner:
            continue
        if isinstance(module, Attention):  # its parts have names of their own: query, key, value ..
            inner |= set(module.modules())
        cross = isinstance(module, SourceAttention | convolution.MultiStepAttention)
        name = re.sub(r"(?<=\w\.)layers\.|\btransformer\.", "", path)
        name = re.sub(r"\b(?:cross|source)_attention", "cross", name)
        name = re.sub(r"\battention(?=$|_residual)", "cross" if cross else "self", name)
        names[name.replace("_residual.", ".")] = module
    return names


@torch.no_grad()
def record(model: nn.Module, call: Callable[[], object], prediction: Prediction) -> Recording:
    """Everything that the modules of a model compute while `call` runs it."""
    recording = Recording(prediction)
    if next(model.parameters(), None) is None:
        raise UserError(
            f"a {type(model).__name__} has no activations", "record a model with layers", code="unsupported-option"
        )
    with ExitStack() as stack:
        for name, module in module_names(model).items():
            if name:
                stack.enter_context(recorded(name, module, recording))
        stack.callback(model.register_forward_hook(lambda *event: recording.keep("logits", logits(event[2]))).remove)
        call()
    return recording


def logits(output: object) -> Tensor:
    output = output[0] if isinstance(output, tuple) else output
    output = next(iter(vars(output).values())) if not isinstance(output, Tensor | OutputProjection) else output
    return output.logits() if isinstance(output, OutputProjection) else output


@contextmanager
def recorded(name: str, module: nn.Module, recording: Recording) -> Iterator[None]:
    """Record one module until the end of the block."""

    def after(module: nn.Module, inputs: tuple[Any, ...], output: object) -> None:
        for key, value in attention_values(module, inputs, output):
            recording.keep(f"{name}.{key}", value)
        first = output[0] if isinstance(output, tuple) and output else output
        if isinstance(first, Tensor):
            recording.keep(f"{name}.output", first)

    hooks = [module.register_forward_hook(after)]
    if isinstance(module, TransformerStack):
        hooks.append(module.register_forward_pre_hook(lambda _, inputs: recording.keep(f"{name}.input", inputs[0])))
    if isinstance(module, MultiHeadAttention):

        def before_output(_: nn.Module, inputs: tuple[Tensor]) -> None:
            recording.keep(f"{name}.heads", module.heads(inputs[0]).transpose(-3, -2))

        hooks.append(module.output.register_forward_pre_hook(before_output))
    post = module.post if isinstance(module, Residual) else None

    def record_post(x: Tensor, y: Tensor, *layout: Layout | None) -> Tensor:
        assert post is not None
        stream = post(x, y, *layout)
        recording.keep(name.replace("_residual", ".residual"), stream)
        return stream

    with replaced(module, "post", record_post) if post else ExitStack():
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()


def attention_values(module: nn.Module, inputs: tuple[Any, ...], output: object) -> Iterator[tuple[str, Tensor]]:
    """Yield (name, tensor) for query, key, value, scores, weights and sometimes heads; a pooler has only weights. The
    tensors are computed again from the inputs."""
    if isinstance(module, AttentivePooler):
        yield "weights", module.weights(*inputs)
    elif isinstance(module, SourceAttention):
        query, memory, _ = inputs
        assert isinstance(output, AttentionOutput)
        values = (query, memory.keys, memory.values, module.scoring(query, memory.keys), output.weights, output.context)
        yield from zip(
            ("query", "key", "value", "scores", "weights", "heads"), (x[:, None] for x in values), strict=True
        )
    elif isinstance(module, MultiHeadAttention | convolution.MultiStepAttention):
        pattern: PaddedPattern = inputs[-1]
        scored = None
        if isinstance(module, convolution.MultiStepAttention):
            x, g, memory, _ = inputs
            q, k, v = convolution.scaled_sum(module.query(x), g).to(x.dtype)[:, :, None], memory.keys, memory.values
        else:
            x, memory, _ = inputs
            scored = module.scored_attention
            q = module.rotate(module.heads(module.query(x)), pattern.queries.positions)
            k, v = module.project_keys_values(memory, pattern.keys.positions)
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        scores = scaled_dot(q, k) if scored is None else scored.scoring(q, k)
        if scored is not None and scored.position_bias is not None:
            scores = scores + scored.position_bias.scores(q, pattern.distances)
        weights = masked_softmax(scores, pattern.mask)
        yield from zip(("query", "key", "value", "scores", "weights"), (q, k, v, scores, weights), strict=True)
        if isinstance(module, convolution.MultiStepAttention):
            yield "heads", weights @ v


# ---- heads, layers and parts switched off ----------------------------------------------------------------------------


def count_heads(model: nn.Module) -> dict[str, int]:
    """The number of heads of each attention by its name, for example "decoder.0.cross"."""
    found = ((name, module) for name, module in module_names(model).items() if isinstance(module, Attention))
    return {name: module.num_heads if isinstance(module, MultiHeadAttention) else 1 for name, module in found}


@contextmanager
def without(model: nn.Module, heads: Heads, layers: Layers, parts: Collection[str] = ()) -> Iterator[None]:
    """Run a model without some heads, layers and parts until the end of the block. The output of a head is zero before
    the output projection. A layer hands on its input unchanged. Parts are those in `PARTS`."""
    names = module_names(model)
    attentions = {name: module for name, module in names.items() if isinstance(module, Attention)}
    blocks = {name: module for name, module in names.items() if isinstance(module, Layer)}
    by_name: dict[str, set[int]] = {}
    pairs: Any = heads.items() if isinstance(heads, Mapping) else ((layer, [head]) for layer, head in heads)
    for name, numbers in pairs:
        by_name.setdefault(find(name, attentions, "attention"), set()).update(numbers)
    with ExitStack() as stack:
        for name, numbers in by_name.items():
            attention, count = attentions[name], count_heads(model)[name]
            for number in numbers - set(range(count)):
                raise invalid(f"{name} has {count} heads, from 0 to {count - 1}, and no head {number}", "heads")
            stack.callback(switch_off_heads(attention, sorted(numbers)))
        for layer in layers:
            stack.enter_context(skipped(blocks[find(layer, blocks, "layer")]))
        for part in parts:
            for module in find_parts(model, part):
                stack.enter_context(switched_off(module))
        yield


PARTS = {"positions": Positions | MultiHeadAttention, "residual": Residual, "feedforward": FeedForward}


def find_parts(model: nn.Module, part: str) -> list[nn.Module]:
    """The modules of a part; a UserError if the model has none."""
    if part not in PARTS:
        raise invalid(f"there is no part {part!r}; choose one of {', '.join(PARTS)}", "parts")
    found: list[nn.Module] = [module for module in model.modules() if isinstance(module, PARTS[part])]
    if all(isinstance(module, MultiHeadAttention | NoPositions | NoSublayer) for module in found):
        raise invalid(f"the model has no {part} that can be switched off", "parts")
    return found


@contextmanager
def switched_off(module: nn.Module) -> Iterator[None]:
    """Let a residual connection add nothing, an attention know no positions, and any other module give zeros."""
    with ExitStack() as stack:
        if isinstance(module, Residual):
            post = module.post
            stack.enter_context(replaced(module, "post", lambda x, *rest: post(torch.zeros_like(x), *rest)))
        elif isinstance(module, MultiHeadAttention):
            stack.enter_context(replaced(module, "rotate", unrotated))
            if module.scored_attention is not None:
                stack.enter_context(replaced(module.scored_attention, "position_bias", None))
        else:
            stack.callback(module.register_forward_hook(lambda *event: torch.zeros_like(event[2])).remove)
        yield


def find(name: object, modules: Mapping[str, nn.Module], kind: str) -> str:
    """The name of a module; a number counts the modules of a model that has one stack of them."""
    where = "heads" if kind == "attention" else "layers"
    if not modules:
        raise invalid(f"the model has no {kind} that can be switched off", where)
    if isinstance(name, int):
        stacks = {re.sub(r"\d+", "", other) for other in modules}
        if len(stacks) > 1:
            raise invalid(f"{name} can be one of several; use names: {', '.join(modules)}", where)
        name = dict(enumerate(modules)).get(name, name)
    if name not in modules:
        close = nearest(str(name), list(modules))
        raise invalid(f"there is no {kind} {name!r}; did you mean {close or next(iter(modules))!r}?", where)
    return str(name)


def invalid(problem: str, where: str) -> UserError:
    return UserError(problem, code="invalid-option", where=where)


def switch_off_heads(attention: nn.Module, numbers: list[int]) -> Callable[[], None]:
    """Set the outputs of heads to zero; the result removes the hook."""
    if isinstance(attention, SourceAttention):
        return attention.register_forward_hook(
            lambda module, inputs, output: replace(output, context=torch.zeros_like(output.context))
        ).remove

    def zero(_: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        size = attention.head_dim if isinstance(attention, MultiHeadAttention) else inputs[0].size(-1)
        index = torch.tensor(numbers, device=inputs[0].device)
        return (inputs[0].unflatten(-1, (-1, int(size))).index_fill(-2, index, 0).flatten(-2),)

    output: nn.Module = attention.output  # type: ignore[assignment]
    return output.register_forward_pre_hook(zero).remove


@contextmanager
def skipped(layer: nn.Module) -> Iterator[None]:
    """Let a layer hand on its input."""
    with ExitStack() as stack:
        if isinstance(layer, convolution.ConvolutionalEncoderLayer | convolution.ConvolutionalDecoderLayer):
            stack.enter_context(replaced(layer, "forward", lambda x, *_: x))
            stack.enter_context(replaced(layer, "step", lambda x, past, *_: (x, past)))
        for residual in (module for module in layer.children() if isinstance(module, Residual)):
            stack.enter_context(replaced(residual, "post", lambda x, y, *_: x))
        yield


@contextmanager
def replaced(module: nn.Module, method: str, function: Callable[..., object] | None) -> Iterator[None]:
    """Replace a method of one module until the end of the block; an earlier replacement comes back."""
    before = vars(module).get(method)
    object.__setattr__(module, method, function)
    try:
        yield
    finally:
        object.__delattr__(module, method)
        if before is not None:
            object.__setattr__(module, method, before)
