"""The architecture of a run's model, or of the model that a recipe would train, part by part (viz/architecture.py).

architecture.toml names the modules of each model class in the order in which data go through them; the functions here
make parts of modules by their type. Each parameter counts in the first part that has it, so a tied matrix counts once,
and the numbers of all parts add up to the model's. A model of a plug-in is drawn with its modules in the order in which
they were made.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from pathlib import Path

from torch import nn

from regard.attention.multihead import MultiHeadAttention
from regard.errors import UserError
from regard.files import JsonObject
from regard.layers import blocks, convolution, norms, positions, recurrent, residual
from regard.layers.embeddings import TokenEmbedding
from regard.layers.experts import MixtureOfExperts
from regard.layers.ssru import SSRU
from regard.messages import Count, Message, find_message
from regard.models.settings import ModelSettings
from regard.reading import read_toml
from regard.recipe import Recipe
from regard.tasks.base import AnyTask
from regard.tasks.defaults import choose_defaults
from regard.tasks.operations import model_on_meta
from regard.tasks.planned import planned_task, read_labels
from regard.viz.architecture import Architecture, Column, Part, Stack

OUTPUT = {"name": "output projection and softmax", "kind": "output", "shape": "(B, T, V)"}
ConvolutionalLayer = convolution.ConvolutionalEncoderLayer | convolution.ConvolutionalDecoderLayer


def task_architecture(task: AnyTask, notes: Sequence[str] = ()) -> Architecture:
    """The parts of a task's model, which is built without memory."""
    letters = Message("B sentences, S source tokens, T tokens, V vocabulary")
    return Architecture(task.recipe.model.summary, model_columns(model_on_meta(task)), (letters, *notes))


def recipe_architecture(recipe: Recipe) -> Architecture:
    """The parts of the model that a recipe would train: with the largest vocabulary that it allows, and with the labels
    and default sizes that follow from its data. If the data are not there, a note says what is assumed."""
    notes, labels = [Message("before training: the vocabulary has its maximum size, `text.vocab_size`")], list[str]()
    try:
        recipe = choose_defaults(recipe, lambda _: None)
        labels = read_labels(recipe)
    except (UserError, OSError):
        labels = ["0", "1"]
        notes.append(Message("the data are not here: sizes have their defaults, and a classifier has 2 labels"))
    return task_architecture(planned_task(recipe, labels), notes)


def model_columns(model: nn.Module) -> tuple[Column, ...]:
    """The columns of a model. Weights that no part names are in a last part, so that none is left out."""
    reader, found = PartReader(), described_columns(model)
    if found is None:
        children = [{"module": name, "name": name, "kind": "other"} for name, _ in model.named_children()]
        found = [{"name": type(model).__name__, "source": "tokens (B, T)", "parts": children}]
    columns = [column for values in found if (column := reader.column(model, values)).stacks]
    if left := reader.count([model]):
        rest = Stack((Part("other", Message("other weights"), parameters=left),))
        columns[-1] = replace(columns[-1], stacks=(*columns[-1].stacks, rest))
    return tuple(columns)


@cache
def descriptions() -> JsonObject:
    return read_toml(Path(__file__).with_suffix(".toml"))


def described_columns(model: object) -> list[JsonObject] | None:
    """The columns in architecture.toml of a model, or of its class with this decoder or head; None if it has none."""
    known = [kind.__name__ for kind in type(model).mro() if kind.__name__ in descriptions()]
    entry: JsonObject = descriptions()[known[0]] if known else {}
    variants = [kind.__name__ for kind in type(getattr(model, "decoder", None)).mro()]
    variants.append("pooled" if getattr(model, "pooled", False) else "tokens")
    found: list[JsonObject] | None = next((entry[name] for name in variants if name in entry), entry).get("columns")
    return found


def values_of(model: object) -> JsonObject:
    """What shapes and details in architecture.toml may name: the settings of a model, and the size of its head."""
    head = getattr(model, "head", None)
    outputs = getattr(head, "out_features", 0) or len(getattr(attribute(head, "relations.weight"), "data", ()))
    settings = getattr(model, "settings", None) or attribute(model, "encoder.settings")
    return (
        {"pooling": "tanh(W h)"}
        | (settings.model_dump() if isinstance(settings, ModelSettings) else {})
        | {"outputs": outputs}
    )


@dataclass(frozen=True)
class Side:
    """What layers must know about the sequence that they read: the letter of its length, its mask, the settings."""

    length: str
    causal: bool
    settings: JsonObject

    def shape(self, size: int) -> str:
        return f"(B, {self.length}, {size:,})"


class PartReader:
    """Makes parts from modules; each parameter counts in the first part that has it."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def count(self, modules: Iterable[nn.Module]) -> int:
        """The number of parameters that no part before has."""
        weights = [each for module in modules for each in module.parameters()]
        new = {id(each): each.numel() for each in weights if id(each) not in self.seen}
        self.seen |= new.keys()
        return sum(new.values())

    def part(self, kind: str, name: str, modules: Sequence[nn.Module], shape: str, *details: str) -> Part:
        """A part; it says so if all its weights are those of an earlier part."""
        count = self.count(modules)
        shared = [Message("shared weights")] if has_weights(modules) and not count else []
        return Part(kind, name, (*filter(None, details), *shared), shape, count)

    def column(self, model: object, values: JsonObject) -> Column:
        """A column in architecture.toml."""
        source, settings = values.get("source", ""), values_of(model)
        side = Side("S" if "S" in source else "T", values.get("causal", getattr(model, "causal", False)), settings)
        stacks = [stack for spec in values["parts"] for stack in self.stacks(model, spec, side)]
        extra = [stack for spec in values.get("extra", ()) for stack in self.stacks(model, spec, side)]
        stacks += [replace(stack, is_extra=True) for stack in extra]
        return Column(find_message(values["name"]), find_message(source), tuple(stacks))

    def stacks(self, model: object, spec: str | JsonObject, side: Side) -> Iterator[Stack]:
        """The stacks of a part in architecture.toml."""
        values = {"module": spec} if isinstance(spec, str) else spec
        if values["module"].startswith("softmax "):
            values = {"module": values["module"].split()[1], **OUTPUT}
        found = [attribute(model, path) for path in values["module"].split()]
        modules = [module for module in found if isinstance(module, nn.Module)]
        inner = described_columns(modules[0]) if modules and "name" not in values else None
        if inner is not None:
            yield from self.column(modules[0], inner[0]).stacks
        elif "name" not in values:
            yield from grouped(layer for layer in self.layers(modules, side) if layer)
        elif modules and (values.get("keep") or has_weights(modules)):
            shape, details = (
                values.get("shape", ""),
                [text.format(**side.settings) for text in values.get("details", ())],
            )
            named = (
                values.get("kind", "feedforward"),
                find_message(values["name"]),
                modules,
                shape.format(**side.settings),
            )
            part = self.part(*named, *map(find_message, details))
            yield Stack((replace(part, reads=find_message(values.get("reads", ""))),))

    def layers(self, modules: Sequence[nn.Module], side: Side) -> Iterator[list[Part]]:
        """The parts of each layer of a module whose type says what it is."""
        first = modules[0]
        if isinstance(first, TokenEmbedding | nn.Embedding):
            rows, width = first.weight.shape
            size = f"{rows:,} × {width:,}"
            yield [self.part("embedding", Message("token embedding"), modules, side.shape(width), size)]
        elif isinstance(first, positions.Positions):
            kinds = [side.settings.get(name, "none") for name in ("positions", "relative_positions")]
            kinds = ["learned"] if isinstance(first, positions.Learned) else [kind for kind in kinds if kind != "none"]
            yield [self.part("embedding", Message("positions"), modules, "", *kinds)] if kinds else []
        elif isinstance(first, nn.LayerNorm | norms.RMSNorm | norms.BatchNorm | norms.NoNorm | nn.Identity):
            yield self.norm(first)
        elif isinstance(first, blocks.EncoderLayer | blocks.DecoderLayer):
            yield self.transformer_layer(first, side)
        elif isinstance(first, ConvolutionalLayer):
            yield self.convolutional_layer(first, side)
        elif isinstance(first, recurrent.RecurrentLayer | recurrent.Bidirectional):
            yield [self.recurrent_layer(first, side)]
        else:
            for layer in getattr(first, "layers", first).children():
                yield from self.layers([layer], side)

    def norm(self, module: nn.Module) -> list[Part]:
        """A norm by itself; none if it does nothing."""
        is_norm = not isinstance(module, norms.NoNorm | nn.Identity)
        return [self.part("norm", type(module).__name__, [module], "")] if is_norm else []

    def sublayer(self, part: Part, around: residual.Residual) -> list[Part]:
        """A sublayer with its norm and its residual connection, in the order of layers/residual.py."""
        norm, skips = self.norm(around.norm), not isinstance(around, residual.PostNormOnly | residual.PreNormOnly)
        if isinstance(around, residual.PreNorm):
            return [*norm, part, *([Part("norm", Message("add"), skips=1 + len(norm))] if skips else [])]
        name = Message("add and {norm}", norm=norm[0].name) if norm else Message("add")
        return [part, replace(norm[0] if norm else Part("norm", ""), name=name, skips=1)] if skips else [part, *norm]

    def transformer_layer(self, layer: nn.Module, side: Side) -> list[Part]:
        parts, sublayers = list[Part](), {"attention": "", "cross_attention": Message("K, V"), "feedforward": ""}
        for name, reads in sublayers.items():
            around = getattr(layer, f"{name}_residual", None)
            if around is not None and not isinstance(around, residual.NoSublayer):
                module = getattr(layer, name)
                part = self.feedforward(module, side) if name == "feedforward" else self.attention(module, side, reads)
                parts += self.sublayer(part, around)
        return parts

    def attention(self, module: MultiHeadAttention | SSRU, side: Side, reads: str) -> Part:
        """Self-attention, the unit in its place, or attention to a source if it reads one."""
        if isinstance(module, SSRU):
            return self.part("recurrent", "SSRU", [module], side.shape(module.input.out_features))
        masks = [Message("causal mask") if side.causal and not reads else Message("padding mask")]
        if side.settings.get("window") and not reads:
            masks.append(Message("window {size}", size=side.settings["window"]))
        score = side.settings.get("score", "scaled_dot")
        heads = Message("{heads:head} of {size}", heads=Count(module.num_heads), size=module.head_dim)
        name, shape = Message("self-attention"), side.shape(module.output.out_features)
        details = (heads, "" if score == "scaled_dot" else score, *masks)
        part = self.part("attention", Message("cross-attention") if reads else name, [module], shape, *details)
        return replace(part, reads=reads)

    def feedforward(self, module: blocks.FeedForward | MixtureOfExperts, side: Side) -> Part:
        if isinstance(module, MixtureOfExperts):
            experts = Message("{count} experts, {used} per token", count=len(module.experts), used=module.used)
            shape = side.shape(module.gate.shape[0])
            return self.part("feedforward", Message("mixture of experts"), [module], shape, experts)
        sizes = (module.fc1.in_features, module.fc1.out_features, module.fc2.out_features)
        gated = Message("gated") if isinstance(module, blocks.GatedFeedForward) else ""
        widths = " → ".join(f"{size:,}" for size in sizes)
        return self.part("feedforward", Message("feed-forward"), [module], side.shape(sizes[-1]), widths, gated)

    def recurrent_layer(self, layer: recurrent.RecurrentLayer | recurrent.Bidirectional, side: Side) -> Part:
        both = isinstance(layer, recurrent.Bidirectional)
        first = layer.forward_layer if isinstance(layer, recurrent.Bidirectional) else layer
        width, named = first.hidden_size * (2 if both else 1), getattr(first, "weights", first)
        direction = Message("right to left") if first.backward else Message("left to right")
        details = f"{named.input_size:,} → {width:,}", Message("both directions") if both else direction
        return self.part("recurrent", type(named).__name__, [layer], side.shape(width), *details)

    def convolutional_layer(self, layer: ConvolutionalLayer, side: Side) -> list[Part]:
        width, add = side.shape(side.settings["d_model"]), Part("norm", Message("add, × √½"))
        mask = Message("earlier tokens only") if side.causal else Message("padding mask")
        details = Message("{kernel} tokens, gated", kernel=side.settings["kernel"]), mask
        first = self.part("convolution", Message("convolution"), [layer.convolution], width, *details)
        if not isinstance(layer, convolution.ConvolutionalDecoderLayer):
            return [first, replace(add, skips=1)]
        head = Message("{heads:head} of {size}", heads=Count(1), size=side.settings["d_embedding"])
        cross = self.part(
            "attention", Message("cross-attention"), [layer.attention], width, head, Message("padding mask")
        )
        return [first, replace(cross, reads=Message("K, V")), replace(add, skips=1), replace(add, skips=3)]


def attribute(model: object, path: str) -> object:
    """The value of a dotted path; None if there is none."""
    for name in path.split("."):
        model = getattr(model, name, None)
    return model


def has_weights(modules: Iterable[nn.Module]) -> bool:
    return any(next(module.parameters(), None) is not None for module in modules)


def grouped(layers: Iterable[Sequence[Part]]) -> list[Stack]:
    """Layers as stacks: equal neighbours become one, with their number."""
    found = [(parts, len(list(same))) for parts, same in groupby(map(tuple, layers))]
    return [Stack(parts, Message("layer") if count > 1 or len(parts) > 1 else "", count) for parts, count in found]
