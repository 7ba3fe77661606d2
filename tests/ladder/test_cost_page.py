"""The cost page: our own count follows from the recipes, and hours follow from the measured time per step."""

import re

import pytest
from benchmarks.pictures_computed import recipe_flops
from tests.pages import ROOT, read

from regard.tasks.registry import load_recipe


@pytest.mark.parametrize("ending", [".md", ".zh.md"])
@pytest.mark.parametrize(("size", "paper"), [("base", 12 * 3600), ("big", 3.5 * 86_400)])
def test_costs_and_hours(ending: str, size: str, paper: float) -> None:
    page, measured = read(ROOT / "docs" / "ideas" / f"cost{ending}"), read(ROOT / "docs" / "performance.md")
    for pair in ("en-de", "en-fr"):
        mantissa, exponent = f"{recipe_flops(f'wmt14-{pair}-{size}'):.1e}".split("e+")
        assert f"{mantissa} \\cdot 10^{{{exponent}}}" in page
    mantissa, exponent = f"{paper * 8 * 9.5e12:.1e}".split("e+")
    assert f"{mantissa} \\cdot 10^{{{exponent}}}" in page
    milliseconds = re.findall(rf"\| {size} \| \*\*regard.*?([\d.]+) ms", measured)[0]
    steps = load_recipe(f"wmt14-en-fr-{size}").training.max_steps
    hours = steps * float(milliseconds) / 1000 / 3600
    assert f"| {steps:,} | {milliseconds} ms | {hours:.1f} |" in page


def test_the_french_recipes_are_those_of_the_paper() -> None:
    for size, steps in (("base", 100_000), ("big", 300_000)):
        recipe = load_recipe(f"wmt14-en-fr-{size}")
        assert (recipe.text.kind, recipe.text.vocab_size) == ("wordpiece", 32_000)  # type: ignore[attr-defined]
        assert (recipe.training.max_steps, recipe.training.batch_tokens) == (steps, 25_000)
        assert recipe.model.model_dump()["dropout"] == 0.1
