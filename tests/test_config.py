"""Settings: overlays of defaults, settings without effect, errors with codes and keys."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pytest
from pydantic import Tag, model_validator

from regard.config import (
    MAX_PROBLEMS,
    Field,
    SettingError,
    Settings,
    Unused,
    apply_overrides,
    build,
    by_kind,
    describe,
    nearest,
    shorten,
    unless,
)  # fmt: skip
from regard.errors import UserError
from regard.reading import read_toml


class Source(Settings):
    file: str = Field(description="a file")
    limit: int = Field(0, description="number of lines")
    limit_seed: int = Field(1, description="seed of the sample")

    def no_effect(self) -> Iterator[Unused]:
        yield from unless(self.limit > 0, "limit > 0", "limit_seed")


class Training(Settings):
    schedule: Literal["paper", "linear", "constant"] = Field("paper", description="learning rate schedule")
    warmup: int = Field(10, ge=0, description="warmup steps")
    max_steps: int = Field(100, ge=1, description="optimizer steps")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.schedule == "linear" and self.warmup >= self.max_steps:
            raise SettingError("warmup", "must be less than max_steps")
        return self

    def no_effect(self) -> Iterator[Unused]:
        yield from unless(self.schedule != "constant", "schedules other than constant", "warmup")


class Small(Settings):
    kind: Literal["small"] = "small"
    width: int = Field(8, description="width")


class Deep(Settings):
    """A deep model."""

    kind: Literal["deep", "deeper"] = "deep"
    layers: int = Field(2, description="layers")
    dropout: float = Field(0.1, description="dropout")


class Recipe(Settings):
    name: str = Field(pattern="^[a-z]+$", description="a name of small letters")
    data: list[Source] = Field([], description="sources")
    model: Annotated[Annotated[Small, Tag("small")] | Annotated[Deep, Tag("deep")], by_kind("small")] = Small()
    training: Training = Training()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.model.kind == "deep" and self.training.max_steps < 5:
            raise SettingError("training.max_steps", "a deep model needs 5 steps")
        return self

    def no_effect(self) -> Iterator[Unused]:
        yield from unless(self.model.kind != "small", 'model.kind = "deep"', "training.max_steps")


def refused(values: dict[str, Any], defaults: dict[str, object] | None = None) -> tuple[str, str]:
    with pytest.raises(UserError) as error:
        build(Recipe, {"name": "x", **values}, "test.toml", defaults)
    return error.value.code, error.value.where


@pytest.mark.parametrize(
    ("values", "code", "where"),
    [
        ({"nam": 1}, "unknown-setting", "nam"),
        ({"training": {"warmpu": 1}}, "unknown-setting", "training.warmpu"),
        ({"model": {"kind": "small", "layers": 3}}, "unknown-setting", "model.layers"),
        ({"data": [{"file": "a"}, {"fil": "b", "file": "c"}]}, "unknown-setting", "data.1.fil"),
        ({"data": [{}]}, "missing-setting", "data.0.file"),
        ({"name": "X"}, "invalid-setting", "name"),
        ({"training": {"warmup": -1}}, "invalid-setting", "training.warmup"),
        ({"training": {"warmup": "many"}}, "invalid-setting", "training.warmup"),
        ({"model": {"kind": "wide"}}, "invalid-setting", "model.kind"),
        ({"model": 3}, "invalid-setting", "model"),
        ({"training": {"schedule": "linear", "warmup": 100}}, "invalid-setting", "training.warmup"),
        ({"model": {"kind": "deep"}, "training": {"max_steps": 4}}, "invalid-setting", "training.max_steps"),
        ({"nam": 1, "data": [{}]}, "invalid-settings", "data.0.file, nam"),
        ({"nam": 1, "foo": 2}, "unknown-setting", "nam, foo"),
    ],
)
def test_problems_have_a_code_and_the_key_as_written(values: dict[str, Any], code: str, where: str) -> None:
    assert refused(values) == (code, where)


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({"training": {"schedule": "constant", "warmup": 5}}, "training.warmup"),
        ({"training": {"max_steps": 50}}, "training.max_steps"),
        ({"data": [{"file": "a"}, {"file": "b", "limit_seed": 2}]}, "data.1.limit_seed"),
    ],
)
def test_settings_without_effect_are_refused(values: dict[str, Any], where: str) -> None:
    assert refused(values) == ("unused-setting", where)
    assert build(Recipe, {"name": "x", **values}, "test.toml", allow_unused=True).name == "x"


def test_defaults_written_out_are_accepted_where_they_have_no_effect() -> None:
    for values in ({"name": "x"}, {"name": "x", "training": {"schedule": "constant"}}):
        recipe = build(Recipe, values, "test.toml")
        assert build(Recipe, recipe.model_dump(), "test.toml") == recipe


def test_an_overlay_changes_defaults_and_values_change_the_overlay() -> None:
    defaults = {"training.schedule": "linear", "training.warmup": 3, "training.max_steps": 50}
    recipe = build(Recipe, {"name": "x"}, "test.toml", defaults)
    assert (recipe.training.schedule, recipe.training.warmup) == ("linear", 3)
    assert build(Recipe, recipe.model_dump(), "test.toml", defaults) == recipe
    recipe = build(Recipe, {"name": "x", "training": {"warmup": 4}}, "test.toml", defaults)
    assert (recipe.training.schedule, recipe.training.warmup) == ("linear", 4)
    assert refused({"training": {"max_steps": 100}}, defaults) == ("unused-setting", "training.max_steps")
    assert refused({"training": 3}, defaults) == ("invalid-setting", "training")


def test_an_overlay_does_not_change_the_given_table() -> None:
    values: dict[str, Any] = {"name": "x", "training": {}}
    build(Recipe, values, "test.toml", {"training.warmup": 3})
    assert values == {"name": "x", "training": {}}


def test_an_overlay_chooses_a_kind_and_changes_the_settings_of_a_kind() -> None:
    defaults = {"model.dropout": 0.5, "model.kind": "deep"}
    assert build(Recipe, {"name": "x"}, "test.toml", defaults).model == Deep(dropout=0.5)
    assert build(Recipe, {"name": "x", "model": {"kind": "small"}}, "test.toml", defaults).model == Small()
    assert build(Recipe, {"name": "x"}, "test.toml", {"model.dropout": 0.5}).model == Small()


def test_every_setting_is_described_with_its_default_and_kinds() -> None:
    settings = {s.name: s for s in describe(Recipe, {"training.warmup": 3}, lists=True) if s.name != "model.kind"}
    assert list(settings) == [
        "name", "data", "data.file", "data.limit", "data.limit_seed", "model.width", "model.layers", "model.dropout",
        "training.schedule", "training.warmup", "training.max_steps",
    ]  # fmt: skip
    assert settings["training.warmup"].field.default == 3 and settings["training.max_steps"].field.default == 100
    assert Training.model_fields["warmup"].default == 10
    assert settings["model.layers"].kinds == ("deep", "deeper") and settings["name"].kinds == ()
    kinds = [s for s in describe(Recipe) if s.name == "model.kind"]
    assert [s.help for s in kinds][1] == "A deep model."


@pytest.mark.parametrize(
    ("name", "nearest_name"),
    [("ms", "training.max_steps"), ("training.max_step", "training.max_steps"), ("warmpu", "training.warmup")],
)
def test_nearest_name(name: str, nearest_name: str) -> None:
    assert nearest(name, ["name", "training.warmup", "training.max_steps"]) == nearest_name


def test_overrides() -> None:
    values = {"training": {"warmup": 1}}
    overrides = [" training.warmup = 2 ", "name=x y", "model.kind = deep ", 'data=[{file="a"}]']
    assert apply_overrides(values, overrides) == {
        "training": {"warmup": 2}, "name": "x y", "model": {"kind": "deep"}, "data": [{"file": "a"}],
    }  # fmt: skip
    assert values == {"training": {"warmup": 1}}
    for override in ("training", "=3", "a..b=1", "name.x=1"):
        with pytest.raises(UserError) as error:
            apply_overrides({"name": "x"}, [override])
        assert (error.value.code, error.value.where) == ("bad-override", override)


@pytest.mark.parametrize(("content", "code"), [(None, "missing-file"), (b"a =", "bad-toml"), (b"a='\xff'", "not-utf8")])
def test_reading_errors_have_codes(tmp_path: Path, content: bytes | None, code: str) -> None:
    path = tmp_path / "recipe.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError) as error:
        read_toml(path)
    assert (error.value.code, error.value.where) == (code, str(path))


@pytest.mark.parametrize(
    "override", ["a." * 100_000 + "a=1", "training.max_steps=" + "9" * 5_000, "x=" + "[" * 1_500 + "]" * 1_500]
)
def test_an_override_without_a_bound_is_refused(override: str) -> None:
    with pytest.raises(UserError) as error:
        apply_overrides({}, [override])
    assert error.value.code == "bad-override" and len(str(error.value)) < 1_000


def test_an_error_explains_the_first_of_many_problems() -> None:
    values = {f"{number} {'x' * 10_000}": 1 for number in range(1_000)}
    with pytest.raises(UserError) as error:
        build(Training, values, "recipe")
    assert error.value.code == "unknown-setting" and error.value.where.count(",") == MAX_PROBLEMS - 1
    assert "1000" in error.value.problem
    with pytest.raises(UserError) as error:
        build(Training, {"warmup": "x" * 10_000}, "recipe")
    assert error.value.where == "warmup" and len(str(error.value)) < 1_000


def test_long_texts_are_shortened() -> None:
    assert shorten("x" * 200) == "x" * 200 and shorten("x" * 201) == "x" * 200 + "..."
    assert shorten("abc", 2) == "ab..." and shorten("ab", 2) == "ab"
