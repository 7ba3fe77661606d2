"""The models of the ladder: every row is a valid recipe, and the rows of table 3 change one thing each."""

import pytest

from regard.errors import UserError
from regard.tasks.registry import load_recipe
from regard.tasks.variants import LANGUAGE_VARIANTS, TRANSLATION_VARIANTS


def test_every_variant_of_a_translation_is_a_recipe() -> None:
    model = load_recipe("multi30k-en-de").model
    for variant in TRANSLATION_VARIANTS.variants:
        recipe = load_recipe("multi30k-en-de", TRANSLATION_VARIANTS.settings(variant, model))
        assert recipe.task == "translation", variant.name
        if variant.settings and variant.name.partition("-")[0] in ("A", "B", "C", "D"):
            name, value = variant.settings[-1].split("=")
            assert f"-{value}" in variant.name, "its name says what it changes"
            group, _, key = name.partition(".")
            assert float(getattr(getattr(recipe, group), key)) == float(value)


def test_the_rows_of_table_3() -> None:
    rows = {
        "A": "heads-1 heads-2 heads-8 heads-16 heads-32",
        "B": "key-16 key-32",
        "C": "layers-1 layers-2 layers-6 width-128 width-512 inner-256 inner-2048",
        "D": "dropout-0.0 dropout-0.1 dropout-0.5 smoothing-0.0 smoothing-0.2",
    }
    names = [f"{row}-{name}" for row, names in rows.items() for name in names.split()]
    assert [variant.name for variant in TRANSLATION_VARIANTS.select(["table-3"])] == ["transformer", "learned", *names]


def test_selection() -> None:
    names = [variant.name for variant in TRANSLATION_VARIANTS.select()]
    assert names[0] == "plain" and names[-1] == "masked-distilled" and "single-head" not in names
    assert [v.name for v in TRANSLATION_VARIANTS.select(["masked-distilled"])] == ["transformer", "masked-distilled"]
    assert [v.name for v in LANGUAGE_VARIANTS.select(["lstm", "gru"])] == ["gru", "lstm"], "in the order of the list"
    with pytest.raises(UserError) as error:
        TRANSLATION_VARIANTS.select(["transformer", "lstm"])
    assert (error.value.code, error.value.where) == ("unknown-variant", "lstm")
