"""The ladder: variants differ in their model only, finished ones are not repeated, failures do not stop the others."""

import json
from pathlib import Path
from typing import Any

import pytest

from regard.data import builtin
from regard.data.sources import Split
from regard.errors import UserError
from regard.files import Manifest, locked
from regard.ladder import ladder
from regard.ladder.ladder import RESULT, Interrupted, Ladder, open_ladder, read_results, run_ladder
from regard.ladder.measuring import Measurement, parameters_without_embeddings
from regard.ladder.page import ladder_page
from regard.run.run import Run
from regard.tasks.variants import LANGUAGE_VARIANTS, TRANSLATION_VARIANTS
from regard.text.factory import train_tokenizer
from regard.training.loop import Outcome

ROWS = {name for name in TRANSLATION_VARIANTS.groups["table-3"] if name not in ("transformer", "learned")}
VARIANTS = tuple(variant for variant in TRANSLATION_VARIANTS.variants if variant.name not in ROWS)
select = TRANSLATION_VARIANTS.select
SMALL = [
    "data.workers=1", "text.vocab_size=300", "model.d_model=16", "model.d_ff=32", "model.num_heads=2",
    "training.batch_tokens=256", "decoding.max_length=12", "runtime.device=cpu", "runtime.threads=1",
]  # fmt: skip
SIZES: dict[Split, int] = {"train": 120, "valid": 12, "test": 24}


@pytest.fixture(autouse=True)
def small_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    for split, size in SIZES.items():
        monkeypatch.setitem(builtin.NUMBERS, split, size)


def small_ladder(folder: Path, *settings: str, steps: int = 4) -> Ladder:
    measurement = Measurement(timed=8, aligned=8, pictures=2)
    return open_ladder("numbers", [*SMALL, *settings], folder, steps, None, measurement)


def quiet(text: str) -> None:
    """Report nothing."""


@pytest.mark.parametrize("base", ["small-numbers", "dates", "multi30k-en-de", "tatoeba-en-de"])
def test_variants_differ_from_the_base_recipe_in_their_model_only(base: str, tmp_path: Path) -> None:
    opened = open_ladder(base, [], tmp_path, 100, 1.5, Measurement())
    for variant in VARIANTS:
        recipe = opened.recipe(variant, seed=7)
        assert recipe.runtime.seed == 7 and recipe.training == opened.base.training and recipe.text == opened.base.text
        assert recipe.training.max_steps == 100 and recipe.training.max_minutes == 1.5
        changed = {"train"} if variant.teacher else set()
        assert recipe.data.model_dump(exclude=changed) == opened.base.data.model_dump(exclude=changed)
        assert recipe.model.shared_vocabulary == opened.base.model.shared_vocabulary, "the same matrices are tied"
        assert (recipe.model == opened.base.model) == (not variant.settings)
    models = [opened.recipe(variant, 1).model for variant in VARIANTS if not variant.teacher]
    assert len({model.model_dump_json() for model in models}) == len(models), "no two variants are the same"


def test_every_row_of_table_3_changes_one_thing(tmp_path: Path) -> None:
    opened = open_ladder("multi30k-en-de", [], tmp_path, 100, None, Measurement())
    base = opened.base.model_dump(include={"model", "training"})
    rows = opened.variants.select(["table-3"])
    assert {row.name for row in rows} == {*ROWS, "transformer", "learned"}
    for row in rows:
        recipe = opened.recipe(row, 1).model_dump(include={"model", "training"})
        changed = {(group, key) for group in base for key, value in base[group].items() if recipe[group][key] != value}
        changed -= {("model", "size")}
        assert len(changed) == (0 if row.name == "transformer" else 2 if "layers" in row.name else 1), row.name
    assert not ROWS & set(opened.variants.defaults)


def test_names_titles_and_teachers() -> None:
    everything = TRANSLATION_VARIANTS.variants
    names, titles = {variant.name for variant in everything}, {variant.title for variant in everything}
    assert len(names) == len(titles) == len(everything)
    assert all(variant.title and variant.paper for variant in everything)
    assert [variant.name for variant in select(["masked-distilled"])] == ["transformer", "masked-distilled"]
    defaults = TRANSLATION_VARIANTS.defaults
    assert [variant.name for variant in select()] == list(defaults) and "alibi" not in defaults
    with pytest.raises(UserError) as error:
        select(["transformer", "lstm"])
    assert (error.value.code, error.value.where) == ("unknown-variant", "lstm")
    assert "bahdanau" in error.value.remedy


def test_a_setting_can_be_for_one_variant_only(tmp_path: Path) -> None:
    opened = small_ladder(tmp_path, "bahdanau:model.d_model=24")
    widths = {variant.name: opened.recipe(variant, 1).model.d_model for variant in VARIANTS}
    assert widths.pop("bahdanau") == 24 and set(widths.values()) == {16}


def test_a_short_training_has_short_intervals(tmp_path: Path) -> None:
    training = small_ladder(tmp_path, steps=10).base.training
    assert (training.max_steps, training.warmup, training.validate_every, training.log_every) == (10, 2, 10, 2)
    assert small_ladder(tmp_path, steps=1).base.training.warmup == 0
    values = {"training": {"validate_every": 5}}
    settings = set(ladder.shorten_intervals(values, 100))
    assert settings == {"training.warmup=20", "training.log_every=20"}, "the defaults are longer"


def test_a_recipe_without_variants_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        open_ladder("numbers", ['model={kind="recurrent"}'], tmp_path, 5, None, Measurement())
    assert (error.value.code, error.value.where) == ("unsupported-model", "model.kind")
    with pytest.raises(UserError) as error:
        small_ladder(tmp_path, "lstm:model.d_model=24")
    assert (error.value.code, error.value.where) == ("unknown-variant", "lstm")
    with pytest.raises(UserError) as error:
        open_ladder("sst-2", [], tmp_path, 5, None, Measurement())
    assert error.value.code == "unsupported-task"


def test_everything_is_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened, selected = small_ladder(tmp_path), select(["plain", "bahdanau", "transformer"])
    trained: list[str] = []

    def count(lines: Any, settings: Any, symbols: Any = ()) -> Any:
        trained.append(settings.kind)
        return train_tokenizer(lines, settings, symbols)

    monkeypatch.setattr("regard.tasks.seq2seq.train_tokenizer", count)
    assert run_ladder(opened, selected, [1, 2], quiet) == []
    assert len(trained) == 1, "the others copied the vocabulary of the first"
    page = ladder_page(opened)
    assert [row.title for row in page.rows] == [variant.title for variant in selected]
    for row in page.rows:
        measured = {key for key, values in row.values.items() if len(values) == 2} - {"aer"}
        speeds, sizes = {"decoding_speed", "training_speed"}, {"parameters", "tokens", "flops", "seconds"}
        assert measured == {"chrf", "exact", "perplexity"} | speeds | sizes
        assert "bleu" not in row.values, "exact match replaces it"
        assert row.values["tokens"][0] > 4 * 100 and min(row.values["seconds"]) > 0
    assert [len(row.values["aer"]) for row in page.rows] == [0, 2, 2], "no attention, no alignment"
    assert page.rows[2].values["tokens"] == page.rows[1].values["tokens"], "the same budget"
    weights = parameters_without_embeddings(Run.open(opened.run_folder("transformer", 1)).model("best"))
    assert page.rows[2].values["flops"][0] == 6 * weights * page.rows[2].values["tokens"][0] / 2
    assert "d_model = 16" in page.rows[0].settings and "WIDTH" not in page.rows[0].settings
    assert [len(gallery.pictures) for gallery in page.galleries] == [3, 3]
    without, additive, _ = page.galleries[0].pictures
    assert not without.has_attention and additive.weights is not None
    assert page.has_one_reference and page.facts["seeds"] == "1, 2"

    monkeypatch.setattr(ladder, "train", None)  # finished variants are neither trained nor measured again
    assert run_ladder(opened, selected, [1, 2], quiet) == []


def test_more_steps_resume_the_runs_and_give_other_results(tmp_path: Path) -> None:
    selected = select(["bahdanau"])
    shorter, longer = small_ladder(tmp_path, steps=4), small_ladder(tmp_path, steps=8)
    assert run_ladder(shorter, selected, [1], quiet) == []
    assert read_results(longer) == []
    assert run_ladder(longer, selected, [1], quiet) == []
    assert read_results(shorter) == [] and read_results(longer)[0]["steps"] == 8
    steps = [json.loads(line)["step"] for line in (tmp_path / "bahdanau-seed1/metrics.jsonl").read_text().splitlines()]
    assert steps == sorted(steps) and min(steps) <= 4, "the first steps were not trained again"


def test_a_run_that_was_trained_longer_is_not_measured(tmp_path: Path) -> None:
    selected = select(["bahdanau"])
    longer, shorter = small_ladder(tmp_path, steps=6), small_ladder(tmp_path, steps=4)
    assert run_ladder(longer, selected, [1], quiet) == []
    (failure,) = run_ladder(shorter, selected, [1], quiet)
    assert failure.code == "trained-longer"
    assert read_results(shorter) == [] and read_results(longer)[0]["steps"] == 6


def test_a_failure_does_not_stop_the_others(tmp_path: Path) -> None:
    opened = small_ladder(tmp_path, "bahdanau:model.nonsense=1")
    failures = run_ladder(opened, select(["bahdanau", "convolutional"]), [1], quiet)
    assert [(item.variant, item.seed, item.code) for item in failures] == [("bahdanau", 1, "unknown-setting")]
    assert "nonsense" in failures[0].reason
    page = ladder_page(opened, failures)
    assert len(page.rows) == 1 and page.failures[0][0] == "bahdanau, seed 1"


def test_a_variant_that_another_process_trains_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladder, "train", None)
    with locked(tmp_path / "bahdanau-seed1"):
        failures = run_ladder(small_ladder(tmp_path), select(["bahdanau"]), [1], quiet)
    assert failures[0].code == "in-use"


def test_an_interruption_stops_the_ladder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> Any:
        return type("Trained", (), {"outcome": Outcome(1, "interrupted", None, None, {})})

    monkeypatch.setattr(ladder, "train", interrupted)
    with pytest.raises(Interrupted):
        run_ladder(small_ladder(tmp_path), select(["bahdanau", "transformer"]), [1], quiet)


def test_a_student_needs_the_validation_data_of_the_others(tmp_path: Path) -> None:
    opened = small_ladder(tmp_path, "data.valid=[]")
    teacher, student = select(["masked-distilled"])
    assert opened.recipe(teacher, 1).data.held_out == ("valid",)
    with pytest.raises(UserError) as error:
        opened.recipe(student, 1)
    assert (error.value.code, error.value.where) == ("no-data", "data.valid")


def test_a_student_is_trained_on_the_translations_of_its_teacher(tmp_path: Path) -> None:
    opened = small_ladder(tmp_path)
    assert run_ladder(opened, select(["masked-distilled"])[1:], [1], quiet)[0].code == "unfinished-teacher"
    assert run_ladder(opened, select(["masked-distilled"]), [1], quiet) == []
    (source,) = Run.open(tmp_path / "masked-distilled-seed1").recipe.data.train
    assert len(Path(str(source.tgt)).read_text(encoding="utf-8").splitlines()) == SIZES["train"]
    result = Manifest.read(tmp_path / "masked-distilled-seed1" / RESULT).facts
    titles = [search["title"] for search in result["searches"]]
    assert titles == [f"T\u00a0=\u00a0{iterations}" for iterations in (1, 4, 10)]
    assert [row.title.split(", ")[-1] for row in ladder_page(opened).rows[1:]] == titles


def test_language_models_have_their_own_variants(tmp_path: Path) -> None:
    sides = [f'data.{split}={{ builtin = "numbers", split = "{split}", side = "tgt" }}' for split in SIZES]
    small = [
        "data.min_word_count=0", "data.bptt=16", "data.workers=1", 'text.kind="char"', "text.vocab_size=300",
        "model.d_model=16", "training.batch_tokens=64", "runtime.device=cpu", "runtime.threads=1",
    ]  # fmt: skip
    opened = open_ladder("wikitext-2-lstm", [*sides, *small], tmp_path, 3, None, Measurement())
    selected = opened.variants.select()
    assert [variant.name for variant in selected] == list(LANGUAGE_VARIANTS.defaults)
    assert run_ladder(opened, selected, [1], quiet) == []
    page = ladder_page(opened)
    assert [column.key for column in page.columns][:3] == ["perplexity", "word_perplexity", "bits"]
    assert all(row.values["perplexity"][0] > 1 and not row.values["bleu"] for row in page.rows)
    ngram, *others = page.rows
    assert not ngram.values["parameters"] and all(row.values["tokens"] for row in others)
    assert len({row.values["perplexity"][0] for row in page.rows}) == len(selected)
