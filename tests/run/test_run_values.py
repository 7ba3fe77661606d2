"""Values that the room `run` computes: features, differences, engines, evaluations, manifests and events of a run."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.conftest import TinyRun
from tests.tiny import write_recipe
from torch import Tensor

from regard.errors import UserError
from regard.export.huggingface import largest_difference, logits_of
from regard.metrics.score import Score
from regard.run import model as module
from regard.run.chat import Conversation, turns_read
from regard.run.distill import Distilled, count_lines, distill
from regard.run.embedding import Features, combine, layer_numbers
from regard.run.model import Evaluation, Model, Translator, check_engine, random_weights
from regard.run.run import Run, absolutize
from regard.run.train import check_folder, train, was_restarted
from regard.tasks.registry import load_recipe
from regard.training.events import Event, TrainingEnded, TrainingStarted, ValidationRecord


def refused(call: Any, *arguments: object) -> tuple[str, str]:
    """The code and the place of the error of a call."""
    with pytest.raises(UserError) as error:
        call(*arguments)
    return error.value.code, error.value.where


# ---- features --------------------------------------------------------------------------------------------------------


def test_the_width_of_features() -> None:
    assert [Features(layers, "concat").width(16, 4) for layers in ("last", "-2:", "all")] == [16, 32, 80]
    assert Features("all", "sum").width(16, 4) == Features("-2:", "mean").width(16, 4) == 16


def test_numbers_of_layers_at_their_borders() -> None:
    assert [layer_numbers(text, 5) for text in ("-5", "4", "0:1", ":2", " 1 , 2 ")] == [[0], [4], [0], [0, 1], [1, 2]]
    for text in ("5", "-6", "", "x", "3:3", "1,,2", "1:2:3"):
        assert refused(layer_numbers, text, 5) == ("invalid-option", "layers")


def test_layers_are_combined() -> None:
    states = [torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 6.0]])]
    assert combine(states, "concat").tolist() == [[1, 2, 3, 6]]
    assert combine(states, "sum").tolist() == [[4, 8]] and combine(states, "mean").tolist() == [[2, 4]]


def test_features_that_do_not_exist() -> None:
    assert Features("-1", pool="pooler").pool == "pooler" and Features(pool="pooler").layers == "last"
    assert refused(lambda: Features("all", pool="pooler")) == ("invalid-option", "layers")
    assert refused(lambda: Features(combine="product")) == ("invalid-option", "combine")
    assert refused(lambda: Features(pool="median")) == ("invalid-option", "pool")


# ---- exports ---------------------------------------------------------------------------------------------------------


def test_the_largest_difference_of_all_outputs() -> None:
    def model(first: float, second: float) -> Any:
        return lambda x: (x + first, 2 * x + second)

    x = torch.zeros(2, 2)
    assert largest_difference(model(0.0, 0.0), model(0.25, -3.0), [x]) == 3.0
    assert largest_difference(lambda x: x, lambda x: x - 0.5, [x]) == 0.5  # type: ignore[arg-type]
    assert len(logits_of(x)) == 1 and len(logits_of((x, x))) == 2


# ---- models and evaluations ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        ((1, "fp32", "tpu", None), "engine"),
        ((1, "fp32", "torch", "int8"), "quantization"),
        ((2, "fp32", "ctranslate2", None), "engine"),
        ((1, "bf16", "ctranslate2", "int8"), "precision"),
    ],
)
def test_engines_that_contradict_other_options(arguments: tuple[Any, ...], where: str) -> None:
    assert refused(check_engine, *arguments)[1] == where
    check_engine(2, "bf16", "torch", None)
    check_engine(1, "fp32", "ctranslate2", "int8")
    check_engine(1, "auto", "readable", None)


def test_an_evaluation_as_values(tiny_run: TinyRun) -> None:
    model = Model.load(tiny_run("classification"), device="cpu")
    reports: list[tuple[int, int | None]] = []
    evaluation = model.evaluate("test", name="other", progress=lambda done, total: reports.append((done, total)))
    assert reports == sorted(reports) and reports[-1] == (24, 24)
    values = evaluation.to_json()
    assert (values["run"], values["checkpoint"], values["data"]) == (str(model.run.folder), "best", "other")
    assert values["options"] == {} and values["seconds"] >= 0
    assert [item["text"] for item in values["examples"]] == [item["text"] for item in list(model.task.read("test"))]
    assert values["examples"][0]["prediction"]["label"] in ("good", "bad")
    assert evaluation.to_json(texts=False) == {**values, "examples": 24}
    assert model.evaluate("valid").data == "valid"
    some = model.evaluate(examples=evaluation.examples[:3])
    assert len(some.predictions) == 3 and some.data == "test"
    assert refused(lambda: model.evaluate("test", beam=3)) == ("unsupported-option", "beam")


def test_scores_without_examples_have_no_options(tiny_run: TinyRun) -> None:
    model = Model.load(tiny_run("language"), device="cpu")
    evaluation = model.evaluate("test")
    assert evaluation.examples == [] and evaluation.scores
    assert refused(lambda: model.evaluate("test", search="greedy")) == ("unsupported-option", "search")


def test_a_comparison_is_of_the_second_with_the_first(tiny_run: TinyRun) -> None:
    model = Model.load(tiny_run("classification"), device="cpu")
    good = model.evaluate("test")
    flipped = {"good": "bad", "bad": "good"}
    bad = replace(good, predictions=[item | {"label": flipped[item["label"]]} for item in good.predictions])
    assert isinstance(good, Evaluation) and isinstance(good.scores[0], Score)
    (first, *_), (second, *_) = model.compare(bad, good), model.compare(good, bad)
    assert first.delta == -second.delta != 0 and (first.base, first.other) == (second.other, second.base)


def test_only_weights_are_rounded(tiny_run: TinyRun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.runtime._probe_bf16", lambda: None)
    rounded = Model.load(tiny_run("classification"), device="cpu", precision="bf16")
    assert next(rounded.model.parameters()).dtype == torch.bfloat16
    assert next(Model.load(tiny_run("classification"), device="cpu").model.parameters()).dtype == torch.float32
    counted = Model.load(tiny_run("language", "ngram"), device="cpu", precision="bf16").model
    assert all(tensor.dtype != torch.bfloat16 for tensor in counted.state_dict().values())


@pytest.mark.parametrize("key", ["random_weights", "other"])
def test_random_weights_of_imports(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "read_progress", lambda path: {key: ["a.weight"]})
    run: Any = SimpleNamespace(checkpoints=SimpleNamespace(resolve=lambda name: Path(name)))
    assert random_weights(run, "best") == (("a.weight",) if key != "other" else ())


# ---- chat and distillation -------------------------------------------------------------------------------------------


def test_a_source_is_as_long_as_the_model_reads(tiny_run: TinyRun) -> None:
    translator = Translator.load(tiny_run("translation"), device="cpu")
    conversation = Conversation(translator)
    assert conversation.max_turns == turns_read(translator.task.recipe) == 1
    limit = translator.task.max_source - 1
    longest = " ".join(["one"] * limit)
    assert len(translator.task.src_tokenizer.encode(longest)) == limit
    assert conversation.source([longest]) == longest
    assert len(conversation.source([f"{longest} two"]).split()) <= limit
    assert conversation.source(["three", longest]) == longest


def test_files_of_a_distillation(tiny_run: TinyRun, tmp_path: Path) -> None:
    assert count_lines(iter([b"a\n", b"b\n"])) == (2, hashlib.sha256(b"a\nb\n").hexdigest())
    made = Distilled(Path("a b/train.src"), Path("a b/train.tgt"), 3, 1)
    assert made.source == f'{{src="{Path.cwd()}/a b/train.src", tgt="{Path.cwd()}/a b/train.tgt"}}'
    translator = Translator.load(tiny_run("translation"), device="cpu")
    distill(translator, tmp_path, "valid")
    written = (tmp_path / "valid.src").stat().st_ino, (tmp_path / "valid.tgt").stat().st_ino
    again = distill(translator, tmp_path, "valid")
    assert (again.lines, again.before) == (10, 10)
    assert ((tmp_path / "valid.src").stat().st_ino, (tmp_path / "valid.tgt").stat().st_ino) == written
    (tmp_path / "valid.tgt").unlink()
    assert distill(translator, tmp_path, "valid").before == 0
    assert (tmp_path / "valid.src").stat().st_ino == written[0], "the sources are written once"


# ---- runs ------------------------------------------------------------------------------------------------------------


def test_the_manifest_of_a_run(tiny_run: TinyRun) -> None:
    folder = tiny_run("classification")
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["format"] == 1 and {"tokenizer.json", "labels.json"} <= set(manifest["files"])
    assert set(manifest["settings"]) == {"text", "model"}
    assert manifest["settings"]["model"]["d_model"] == 32


def test_paths_of_a_recipe_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    recipe = load_recipe(write_recipe(tmp_path, "classification"))
    data = recipe.data.model_copy(update={"root": "somewhere"})
    changed = absolutize(recipe.model_copy(update={"data": data, "start_from": "~/run"}))
    assert changed.data.root == str(tmp_path / "somewhere") and changed.start_from == str(tmp_path / "home" / "run")
    assert absolutize(recipe).start_from == ""


def test_settings_that_may_change_when_a_run_goes_on(tiny_run: TinyRun, tmp_path: Path) -> None:
    run = Run.open(tiny_run("translation"))

    def with_data(**values: object) -> Any:
        return run.recipe.model_copy(update={"data": run.recipe.data.model_copy(update=values)})

    assert run.changed_group(with_data(root=str(tmp_path), workers=3, test=[], src_lang="en", tgt_lang="de")) is None
    assert run.changed_group(with_data(max_length=17)) == "data"
    training = run.recipe.training.model_copy(update={"max_steps": 7})
    assert run.changed_group(run.recipe.model_copy(update={"training": training})) is None
    assert run.changed_group(run.recipe.model_copy(update={"start_from": str(tmp_path)})) == "start_from"


def test_a_folder_that_is_not_a_run_names_those_near_it(tiny_run: TinyRun) -> None:
    folder = tiny_run("translation")
    with pytest.raises(UserError) as error:
        Run.open(folder.parent)
    assert str(folder) in error.value.remedy and error.value.where == str(folder.parent)
    assert refused(Run.open, folder, "language", "parsing") == ("wrong-task", str(folder))
    assert Run.open(folder, "language", "translation").folder == folder


def test_a_folder_with_a_lock_and_leftovers_is_empty(tmp_path: Path) -> None:
    check_folder(tmp_path / "missing")
    for name in (".lock", ".old.3.partial"):
        (tmp_path / name).touch()
    check_folder(tmp_path)
    (tmp_path / "notes.txt").touch()
    assert refused(check_folder, tmp_path) == ("not-a-run", str(tmp_path))
    (tmp_path / "recipe.toml").touch()
    check_folder(tmp_path)


@pytest.mark.parametrize(("count", "expected"), [(None, False), ("0", False), ("1", True)])
def test_a_process_that_was_restarted_resumes(
    count: str | None, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if count is None:
        monkeypatch.delenv("TORCHELASTIC_RESTART_COUNT", raising=False)
    else:
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", count)
    assert was_restarted() == expected


class Recorded:
    """A log that keeps all events."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def log(self, event: Event) -> None:
        self.events.append(event)

    def close(self) -> None:
        pass


def test_a_model_of_counts_is_saved_with_its_scores(tmp_path: Path) -> None:
    log: Any = Recorded()
    recipe = load_recipe(write_recipe(tmp_path, "language", "ngram"))
    trained = train(recipe, tmp_path / "run", report=lambda _: None, log=log)
    started, validated, ended = log.events
    assert started == TrainingStarted(0, 1) and isinstance(ended, TrainingEnded)
    assert isinstance(validated, ValidationRecord)
    outcome, monitor = trained.outcome, recipe.training.monitor
    assert (outcome.step, outcome.best_step, outcome.best) == (1, 1, outcome.metrics[monitor])
    assert (validated.step, dict(validated.metrics)) == (1, dict(outcome.metrics))
    (saved,) = trained.run.checkpoints.all()
    state = json.loads((saved / "state.json").read_text(encoding="utf-8"))
    text = json.dumps(state)
    assert saved.name == "step-00000001" and f'"monitor": "{monitor}"' in text and '"epoch": 1.0' in text
    weights: dict[str, Tensor] = trained.run.model("best").state_dict()
    assert weights and trained.run.checkpoints.resolve("best") == saved
