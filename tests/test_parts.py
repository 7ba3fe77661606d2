"""Parts from outside (tests/outside_parts.py): recipes use them by name, and no fast engine ignores one."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.cli.command import regard
from tests.tiny import recipe_values, train_run
from torch import nn

from regard.attention.multihead import MultiHeadAttention
from regard.attention.scoring import SCORINGS
from regard.decoding.stepper import Symbols
from regard.engines.choose import fastest_engine
from regard.engines.fused import FusedTransformer
from regard.engines.stepper_engine import StepperEngine
from regard.errors import UserError
from regard.losses.crossentropy import LOSSES
from regard.models.backbone import POSITIONS
from regard.models.text_encoder import TEXT_ENCODERS
from regard.models.transformer import Transformer, TransformerSettings
from regard.models.translation import TRANSLATION_MODELS
from regard.plugins import load_plugins, module_name
from regard.recipe import Recipe
from regard.run.model import Model
from regard.tasks.registry import build_recipe, recipe_types

PLUGIN = Path(__file__).parent / "outside_parts.py"
PARTS: dict[str, tuple[str, dict[str, object]]] = {
    "positions": ("translation", {"model.positions": "triangle"}),
    "score": ("translation", {"model.score": "distance"}),
    "loss": ("translation", {"training.loss": "focal"}),
    "language positions": ("language", {"model": {"kind": "transformer", "d_model": 24, "num_heads": 2, "d_ff": 48,
                                                  "layers": 1, "positions": "triangle"}, "training.loss": "focal"}),
    "recurrent score": ("translation", {"model": {"kind": "recurrent", "d_model": 32, "d_embedding": 32,
                                                  "encoder": "backward", "score": "distance"}}),
    "translation kind": ("translation", {"model.kind": "mean"}),
    "encoder kind": ("classification", {"model": {"kind": "bag"}, "training.loss": "focal"}),
    "encoder positions": ("tagging", {"model.positions": "triangle", "model.score": "distance"}),
}  # fmt: skip
EXAMPLES = {"translation": "one two", "language": "one", "classification": "a lovely film", "tagging": "Ada saw Rome"}
SYMBOLS = Symbols(bos=1, eos=2, pad=0)


@pytest.fixture(scope="module", autouse=True)
def plugin() -> Iterator[None]:
    """The parts are there during these tests only."""
    models = {recipe: recipe.model_fields["model"].annotation for recipe in recipe_types(Recipe)}  # type: ignore[maybe-unrecognized-str-typeform]
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("REGARD_PLUGINS", str(PLUGIN))
        load_plugins()
        yield
    for recipe, annotation in models.items():
        recipe.model_fields["model"].annotation = annotation
        recipe.model_rebuild(force=True)
    POSITIONS.pop("triangle")
    SCORINGS.pop("distance")
    LOSSES.pop("focal")
    TEXT_ENCODERS.pop("bag")
    TRANSLATION_MODELS.pop("mean")
    sys.modules.pop(module_name(PLUGIN), None)


@pytest.mark.parametrize("part", PARTS)
def test_a_run_with_a_part(part: str, tmp_path: Path) -> None:
    """Train, evaluate, predict and inspect; the default engine gives what the reference gives."""
    task, settings = PARTS[part]
    run = train_run(tmp_path, task, settings={**settings, "training.max_steps": 20, "training.max_epochs": 0.0})
    text = EXAMPLES[task]
    model = Model.load(run)
    prediction = model.predict(text)
    if task == "translation":
        reference = Model.load(run, engine="readable").predict(text)
        assert prediction["translation"] == reference["translation"]
        assert prediction["score"] == pytest.approx(reference["score"], abs=1e-5)
    assert model.evaluate("valid").scores
    if model.task.recipe.has_attention:
        assert model.explain(text).maps


def test_the_settings_list_names_the_parts() -> None:
    rows = json.loads(regard("recipes", "--settings", "--json").out)
    types = {row["setting"]: row["type"] for row in rows}
    assert "triangle" in types["model.positions"] and "distance" in types["model.score"]
    assert "focal" in types["training.loss"]
    assert any(row["setting"] == "model.kind" and "bag" in row["type"] for row in rows)


@pytest.mark.parametrize(
    ("task", "settings", "where"),
    [
        ("translation", {"model.positions": "trapezium"}, "model.positions"),
        ("translation", {"model.score": "nearness"}, "model.score"),
        ("translation", {"training.loss": "fokal"}, "training.loss"),
        ("translation", {"model.kind": "average"}, "model.kind"),
        ("regression", {"training.loss": "focal"}, "training.loss"),
        ("translation", {"training.loss": "focal", "training.label_smoothing": 0.2}, "training.label_smoothing"),
    ],
)
def test_a_part_that_cannot_be_used(task: str, settings: dict[str, object], where: str) -> None:
    with pytest.raises(UserError) as error:
        build_recipe(recipe_values(task, settings=settings), "recipe")
    assert error.value.where == where
    assert ("REGARD_PLUGINS" in error.value.remedy) == (next(iter(settings.values())) not in LOSSES)


def test_a_run_without_its_plugin_names_the_variable(tmp_path: Path) -> None:
    run = train_run(tmp_path, "translation", settings={"model.positions": "triangle", "training.max_steps": 2})
    command = [sys.executable, "-m", "regard", "predict", str(run), "one"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "REGARD_PLUGINS": ""})
    assert done.returncode == 1 and "REGARD_PLUGINS" in done.stderr and "model.positions" in done.stderr


# ---- engines ---------------------------------------------------------------------------------------------------------


def tiny_transformer() -> Transformer:
    torch.manual_seed(1)
    return Transformer(TransformerSettings(size="tiny", d_model=16, num_heads=2, d_ff=32), 20, 20).eval()


class Halved(MultiHeadAttention):
    """An attention of one's own: half of the usual output."""

    def _attend(self, *arguments: Any) -> torch.Tensor:
        return super()._attend(*arguments) / 2


def with_another_attention(model: Transformer) -> None:
    attention = Halved(16, 2)
    attention.load_state_dict(model.encoder[0].attention.state_dict())
    model.encoder[0].attention = attention


def with_a_hook(model: Transformer) -> None:
    model.decoder[0].cross_attention.output.register_forward_hook(lambda module, inputs, output: output / 2)


def with_another_method(model: Transformer) -> None:
    model.decoder[0].feedforward.forward = lambda x, layout=None: x  # type: ignore[method-assign]


def with_another_norm(model: Transformer) -> None:
    model.decoder[0].feedforward_residual.norm = nn.Identity()


@pytest.mark.parametrize("change", [with_another_attention, with_a_hook, with_another_method, with_another_norm])
def test_a_fast_engine_never_ignores_a_change(change: Any) -> None:
    model, cpu = tiny_transformer(), torch.device("cpu")
    standard = fastest_engine([model], SYMBOLS, cpu)
    assert isinstance(standard, StepperEngine) and isinstance(standard.stepper, FusedTransformer)
    change(model)
    engine = fastest_engine([model], SYMBOLS, cpu)
    assert isinstance(engine, StepperEngine) and engine.stepper is model
