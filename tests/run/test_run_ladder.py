"""The ladder: rungs differ in nothing but their model, what is finished stays finished, what fails stops nobody."""

import json
from pathlib import Path
from typing import Any

import pytest

from regard.data import builtin
from regard.data.sources import Split
from regard.errors import UserError
from regard.files import locked, read_json
from regard.run import Run, ladder
from regard.run.judging import Measuring
from regard.run.ladder import RESULT, Interrupted, Ladder, climb, open_ladder
from regard.run.ladder_page import ladder_page, results
from regard.run.rungs import FLIGHTS, RUNGS, TEXT_RUNGS
from regard.training.loop import Outcome

FLIGHT = FLIGHTS["translation"]
find_rungs = FLIGHT.find
SMALL = [
    "data.workers=1", "text.vocab_size=300", "model.d_model=16", "model.d_ff=32", "model.num_heads=2",
    "training.batch_tokens=256", "decoding.max_length=12", "runtime.device=cpu", "runtime.threads=1",
]  # fmt: skip
SIZES: dict[Split, int] = {"train": 120, "valid": 12, "test": 24}


@pytest.fixture(autouse=True)
def few_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    for part, size in SIZES.items():
        monkeypatch.setitem(builtin.NUMBERS, part, size)


def small(folder: Path, *settings: str, steps: int = 4) -> Ladder:
    return open_ladder(
        "numbers", [*SMALL, *settings], folder, steps, None, Measuring(timed=8, aligned=8, pictures=2)
    )  # fmt: skip


def quiet(text: str) -> None:
    """Nobody listens."""


@pytest.mark.parametrize("base", ["small-numbers", "dates", "multi30k-en-de", "tatoeba-en-de"])
def test_rungs_differ_from_the_base_in_their_model_alone(base: str, tmp_path: Path) -> None:
    found = open_ladder(base, [], tmp_path, 100, 1.5, Measuring())
    for rung in RUNGS:
        recipe = found.recipe(rung, seed=7)
        assert recipe.runtime.seed == 7 and recipe.training == found.base.training and recipe.text == found.base.text
        assert recipe.training.max_steps == 100 and recipe.training.max_minutes == 1.5
        changed = {"train"} if rung.taught_by else set()
        assert recipe.data.model_dump(exclude=changed) == found.base.data.model_dump(exclude=changed)
        assert recipe.model.shared_vocabulary == found.base.model.shared_vocabulary, "the same matrices are tied"
        assert (recipe.model == found.base.model) == (not rung.settings)
    models = [found.recipe(rung, 1).model for rung in RUNGS if not rung.taught_by]
    assert len({model.model_dump_json() for model in models}) == len(models), "no two rungs are the same"


def test_names_titles_and_teachers() -> None:
    assert len({rung.name for rung in RUNGS}) == len({rung.title for rung in RUNGS}) == len(RUNGS)
    assert all(rung.title_zh and rung.paper for rung in RUNGS)
    assert [rung.name for rung in find_rungs(["masked-distilled"])] == ["transformer", "masked-distilled"]
    assert [rung.name for rung in find_rungs()] == list(FLIGHT.climbed) and "alibi" not in FLIGHT.climbed
    with pytest.raises(UserError, match="no rung lstm") as refusal:
        find_rungs(["transformer", "lstm"])
    assert "bahdanau" in refusal.value.remedy


def test_a_setting_may_be_for_one_rung_alone(tmp_path: Path) -> None:
    found = small(tmp_path, "bahdanau:model.d_model=24")
    widths = {rung.name: found.recipe(rung, 1).model.d_model for rung in RUNGS}
    assert widths.pop("bahdanau") == 24 and set(widths.values()) == {16}


def test_shorter_training_warms_up_and_validates_sooner(tmp_path: Path) -> None:
    training = small(tmp_path, steps=10).base.training
    assert (training.max_steps, training.warmup, training.validate_every, training.log_every) == (10, 2, 10, 2)
    assert small(tmp_path, steps=1).base.training.warmup == 0
    values = {"training": {"validate_every": 5}}
    assert set(ladder.shorter(values, 100)) == {"training.warmup=20", "training.log_every=20"}, (
        "the defaults are longer"
    )


def test_a_recipe_that_is_no_transformers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="kind recurrent; the rungs change one of kind transformer"):
        open_ladder("numbers", ['model={kind="recurrent"}'], tmp_path, 5, None, Measuring())
    with pytest.raises(UserError, match="no rung lstm"):
        small(tmp_path, "lstm:model.d_model=24")


def test_climbing_measures_everything_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, wanted = small(tmp_path), find_rungs(["plain", "bahdanau", "transformer"])
    learnt: list[str] = []
    monkeypatch.setattr("regard.run.folder.train_tokenizer", counting(learnt))
    assert climb(found, wanted, [1, 2], quiet) == []
    assert len(learnt) == 1, "the others took the vocabulary of the first"
    page = ladder_page(found)
    assert [row.title for row in page.rows] == [rung.title for rung in wanted]
    for row in page.rows:
        measured = {key for key, values in row.values.items() if len(values) == 2} - {"aer"}
        speeds, sizes = {"decoding_speed", "training_speed"}, {"parameters", "tokens", "seconds"}
        assert measured == {"chrf", "exact", "perplexity"} | speeds | sizes
        assert "bleu" not in row.values, "numbers are right or wrong"
        assert row.values["tokens"][0] > 4 * 100 and min(row.values["seconds"]) > 0
    assert [len(row.values["aer"]) for row in page.rows] == [0, 2, 2], "no attention, no alignment"
    assert page.rows[2].values["tokens"] == page.rows[1].values["tokens"], "one budget"
    assert "d_model = 16" in page.rows[0].settings and "WIDTH" not in page.rows[0].settings
    assert [len(gallery.pictures) for gallery in page.galleries] == [3, 3]
    assert page.galleries[0].pictures[0].blind and page.galleries[0].pictures[1].weights is not None
    assert page.judged and page.facts["seeds"] == "1, 2"

    monkeypatch.setattr(ladder, "train", None)  # what is finished is neither trained nor judged again
    assert climb(found, wanted, [1, 2], quiet) == []


def counting(calls: list[str]) -> Any:
    from regard.text.factory import train_tokenizer

    def counted(lines: Any, settings: Any) -> Any:
        calls.append(settings.kind)
        return train_tokenizer(lines, settings)

    return counted


def test_more_steps_go_on_where_it_stopped_and_are_another_ladder(tmp_path: Path) -> None:
    wanted = find_rungs(["bahdanau"])
    shorter, longer = small(tmp_path, steps=4), small(tmp_path, steps=8)
    assert climb(shorter, wanted, [1], quiet) == []
    assert results(longer) == []
    assert climb(longer, wanted, [1], quiet) == []
    assert results(shorter) == [] and results(longer)[0]["steps"] == 8
    steps = [json.loads(line)["step"] for line in (tmp_path / "bahdanau-seed1/metrics.jsonl").read_text().splitlines()]
    assert steps == sorted(steps) and min(steps) <= 4, "the first steps were not trained again"


def test_what_was_trained_longer_is_not_judged_as_if_it_were_not(tmp_path: Path) -> None:
    wanted = find_rungs(["bahdanau"])
    longer, shorter = small(tmp_path, steps=6), small(tmp_path, steps=4)
    assert climb(longer, wanted, [1], quiet) == []
    (failure,) = climb(shorter, wanted, [1], quiet)
    assert "was trained 6 steps already, more than 4" in failure.reason
    assert results(shorter) == [] and results(longer)[0]["steps"] == 6


def test_a_rung_that_fails_stops_nobody(tmp_path: Path) -> None:
    found = small(tmp_path, "bahdanau:model.nonsense=1")
    failures = climb(found, find_rungs(["bahdanau", "convolutional"]), [1], quiet)
    assert [(failure.rung, failure.seed) for failure in failures] == [("bahdanau", 1)]
    assert "nonsense" in failures[0].reason
    page = ladder_page(found, failures)
    assert len(page.rows) == 1 and page.failures[0][0] == "bahdanau, seed 1"


def test_a_rung_that_another_process_climbs_is_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladder, "train", None)
    with locked(tmp_path / "bahdanau-seed1"):
        failures = climb(small(tmp_path), find_rungs(["bahdanau"]), [1], quiet)
    assert "another process" in failures[0].reason


def test_whoever_stops_it_stops_the_whole_ladder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: Any, **__: Any) -> Any:
        return type("Trained", (), {"outcome": Outcome(1, "interrupted", None, None, {})})

    monkeypatch.setattr(ladder, "train", stopped)
    with pytest.raises(Interrupted):
        climb(small(tmp_path), find_rungs(["bahdanau", "transformer"]), [1], quiet)


def test_a_student_learns_what_its_teacher_wrote(tmp_path: Path) -> None:
    found = small(tmp_path)
    assert "not finished" in climb(found, find_rungs(["masked-distilled"])[1:], [1], quiet)[0].reason
    assert climb(found, find_rungs(["masked-distilled"]), [1], quiet) == []
    taught = Run.open(tmp_path / "masked-distilled-seed1").recipe.data.train[0]
    assert len(Path(taught.tgt).read_text(encoding="utf-8").splitlines()) == SIZES["train"]
    result = read_json(tmp_path / "masked-distilled-seed1" / RESULT)
    assert [reading["title"] for reading in result["readings"]] == [f"T\u00a0=\u00a0{passes}" for passes in (1, 4, 10)]
    assert [row.title.split(", ")[-1] for row in ladder_page(found).rows[1:]] == [
        reading["title"] for reading in result["readings"]
    ]


def test_models_that_only_write_have_a_ladder_of_their_own(tmp_path: Path) -> None:
    sides = [f'data.{part}={{ builtin = "numbers", split = "{part}", side = "tgt" }}' for part in SIZES]
    small_text = [
        "data.unknown_below=0", "data.bptt=16", "data.workers=1", 'text.kind="char"', "text.vocab_size=300",
        "model.d_model=16", "training.batch_tokens=64", "runtime.device=cpu", "runtime.threads=1",
    ]  # fmt: skip
    found = open_ladder("wikitext-2-lstm", [*sides, *small_text], tmp_path, 3, None, Measuring())
    wanted = found.flight.find()
    assert wanted == list(TEXT_RUNGS)
    assert climb(found, wanted, [1], quiet) == []
    page = ladder_page(found)
    assert [column.key for column in page.columns][:3] == ["perplexity", "word_perplexity", "bits"]
    assert all(row.values["perplexity"][0] > 1 and not row.values["bleu"] for row in page.rows)
    counted, *trained = page.rows
    assert not counted.values["parameters"] and all(row.values["tokens"] for row in trained)
    assert len({row.values["perplexity"][0] for row in page.rows}) == len(wanted)
