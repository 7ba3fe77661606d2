"""The drawn architecture has every parameter of every kind of model once, and its parts in their order."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import torch
from tests.conftest import TinyRun
from tests.pages import ROOT
from tests.tiny import TASKS, Table, recipe_values
from torch import nn

from regard.messages import localize
from regard.run.architecture import model_columns, recipe_architecture
from regard.run.model import Model
from regard.tasks.operations import model_on_meta
from regard.tasks.planned import planned_task
from regard.tasks.registry import build_recipe, load_recipe
from regard.viz.architecture import Architecture, Part

VARIANTS: dict[str, tuple[str, Table]] = {
    f"{task}-{kind}": (task, model)
    for task, (_, models) in TASKS.items()
    for kind, model in models.items()
    if (task, kind) != ("parsing", "mask-predict")
}
TRANSLATION: dict[str, Table] = {
    "luong": {"kind": "recurrent", "decoder": "luong", "d_model": 8, "d_embedding": 6},
    "luong-both": {"kind": "recurrent", "decoder": "luong", "encoder": "both", "d_model": 8, "tie": "all"},
    "experts": {"d_model": 16, "num_heads": 2, "experts": 3},
    "flstm": {"kind": "recurrent", "cell": "flstm", "d_model": 8, "d_embedding": 6},
    "glstm": {"kind": "recurrent", "cell": "glstm-2", "d_model": 8, "d_embedding": 6},
    "plain": {"kind": "recurrent", "decoder": "plain", "d_model": 8, "d_embedding": 6},
    "untied": {"kind": "convolutional", "d_model": 8, "tie": "none"},
    "ssru": {"d_model": 16, "num_heads": 2, "decoder_layer": "ssru", "gated": True, "tie": "none", "norm": "pre"},
    "relative": {"d_model": 16, "num_heads": 2, "positions": "relative", "score": "scaled_dot", "window": 3},
    "buckets": {"d_model": 16, "num_heads": 2, "positions": "buckets", "max_distance": 40},
    "concat": {"d_model": 16, "num_heads": 2, "positions": "learned", "combine": "concat"},
    "additive": {"d_model": 16, "num_heads": 2, "score": "additive", "residual": False, "norm_kind": "rms"},
    "bare": {"d_model": 16, "num_heads": 2, "d_ff": 0, "norm_kind": "none", "positions": "none"},
}
VARIANTS |= {f"translation-{name}": ("translation", values) for name, values in TRANSLATION.items()}
VARIANTS |= {
    f"language-{kind}": ("language", {"kind": kind, "d_model": 8}) for kind in ("bilstm", "markov", "rnn-sigmoid")
}


def parts_of(shown: Architecture) -> list[Part]:
    return [part for column in shown.columns for stack in column.stacks for part in stack.parts]


@pytest.mark.parametrize("variant", VARIANTS)
def test_parts_add_up_to_the_model(variant: str) -> None:
    task, model = VARIANTS[variant]
    recipe = build_recipe(recipe_values(task) | {"model": model} | mask_predict(model), variant, allow_unused=True)
    shown = recipe_architecture(recipe)
    built = model_on_meta(planned_task(recipe, ["0", "1"]))
    assert shown.parameters == sum(parameter.numel() for parameter in built.parameters())
    assert "other weights" not in {part.name for part in parts_of(shown)}
    drawn = shown.svg(chinese=False)
    texts = [element.text for element in ET.fromstring(drawn).iter() if element.tag.endswith("text")]
    assert f"{shown.parameters:,} parameters" in texts and drawn == shown.svg(chinese=False)
    for part in parts_of(shown):
        assert part.name in texts and (not part.parameters or f"{part.parameters:,}" in texts)
        assert localize(part.name, chinese=True) in shown.svg(chinese=True)
    readers = [part for part in parts_of(shown) if part.reads]
    assert (
        bool(readers) == (len([column for column in shown.columns if column.name != "not used"]) > 1)
        or "bilstm" in variant
    )


def mask_predict(model: Table) -> Table:
    return {"decoding": {"search": "mask_predict"}} if model.get("kind") == "mask-predict" else {}


def test_the_transformer_of_the_paper() -> None:
    shown = recipe_architecture(load_recipe("wmt14-en-de-base"))
    attention, feedforward, norm = 4 * (512 * 512 + 512), 2 * 512 * 2048 + 2048 + 512, 2 * 512
    encoder, decoder = attention + feedforward + 2 * norm, 2 * attention + feedforward + 3 * norm
    assert shown.parameters == 37_000 * 512 + 6 * (encoder + decoder)
    layers = [stack for column in shown.columns for stack in column.stacks if stack.name]
    assert [(stack.repeat, stack.parameters) for stack in layers] == [(6, encoder), (6, decoder)]
    names = [[(part.name, part.skips, part.reads) for part in stack.parts] for stack in layers]
    add = ("add and LayerNorm", 1, "")
    first, last = [("self-attention", 0, ""), add], [("feed-forward", 0, ""), add]
    assert names == [[*first, *last], [*first, ("cross-attention", 0, "K, V"), add, *last]]
    masks = [part.details[-1] for stack in layers for part in stack.parts if part.kind == "attention"]
    assert masks == ["padding mask", "causal mask", "padding mask"]


@pytest.mark.parametrize("name", ["architecture.svg", "architecture.zh.svg"])
def test_the_picture_in_the_docs_is_the_one_that_is_drawn(name: str) -> None:
    drawn = recipe_architecture(load_recipe("wmt14-en-de-base")).svg(chinese=".zh." in name)
    assert (ROOT / "docs" / "pictures" / name).read_text(encoding="utf-8") == drawn


def test_a_norm_before_the_sublayer_is_skipped_too() -> None:
    values = recipe_values("translation")
    shown = recipe_architecture(build_recipe(values, "pre"))
    (layer,) = [stack for stack in shown.columns[0].stacks if stack.name]
    assert [(part.name, part.skips) for part in layer.parts[:3]] == [
        ("LayerNorm", 0),
        ("self-attention", 0),
        ("add", 2),
    ]


def test_a_trained_model_and_its_text(tiny_run: TinyRun) -> None:
    model = Model.load(tiny_run("translation"), device="cpu")
    shown = model.architecture()
    assert shown.parameters == sum(parameter.numel() for parameter in model.model.parameters())
    assert str(shown).splitlines()[0] == model.task.recipe.model.summary
    assert shown._repr_html_().startswith("<svg")


def test_labels_and_sizes_follow_from_the_data(tmp_path: Path) -> None:
    with_data = build_recipe(recipe_values("classification", root=tmp_path), "missing")
    assert parts_of(recipe_architecture(with_data))[-1].shape == "(B, 2)"
    assert len(recipe_architecture(with_data).notes) == 3
    assert len(recipe_architecture(load_recipe("numbers")).notes) == 2


def test_a_model_of_a_plug_in() -> None:
    model = nn.ModuleDict({"first": nn.Linear(2, 3), "second": nn.Linear(3, 1, bias=False)})
    model.register_parameter("own", nn.Parameter(torch.zeros(2, 3)))
    (column,) = model_columns(model)
    assert [(part.name, part.parameters) for stack in column.stacks for part in stack.parts] == [
        ("first", 9),
        ("second", 3),
        ("other weights", 6),
    ]
