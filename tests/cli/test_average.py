"""regard average: the mean of checkpoints as a checkpoint."""

import json
from pathlib import Path

import pytest
from tests.cli.command import fails, regard, sentences

from regard.run.run import Run
from regard.run.train import validate_checkpoint
from regard.run_files import MODEL
from regard.training.checkpoint import TRAINING, read_progress, read_training, read_weights, write_checkpoint

NAMES = ["step-00000120", "step-00000240"]


def test_the_average_is_the_mean_and_can_be_used(copied: Path) -> None:
    result = regard("average", copied)
    assert f"averaged 2 checkpoints ({', '.join(NAMES)})" in result.out
    assert f"regard translate {copied} --checkpoint averaged" in result.out
    assert "training.keep=5" in result.err
    first, second, mean = (read_weights(copied / "checkpoints" / name) for name in (*NAMES, "averaged"))
    for name, tensor in mean.items():
        assert tensor.double().sub((first[name].double() + second[name].double()) / 2).abs().max() < 1e-6
    used = regard("translate", copied, "--checkpoint", "averaged", stdin=sentences()[0])
    assert (used.status, len(used.lines)) == (0, 1)


def test_training_starts_from_a_compressed_average(copied: Path, tmp_path: Path) -> None:
    small, pairs = tmp_path / "small", tmp_path / "a.tsv"
    assert regard("average", copied).status == 0
    assert regard("compress", copied, "--folder", small, "--checkpoint", "averaged").status == 0
    pairs.write_text("".join(f"{text}\t{text}\n" for text in sentences()), encoding="utf-8")
    settings = (f"start_from={small}", f"data.train={pairs}", f"data.valid={pairs}", "training.max_steps=1")
    result = regard("train", "translation", *settings, "--folder", tmp_path / "tuned")
    assert result.status == 0, result.err
    begun = read_weights(Run.open(small).checkpoints.resolve("best"))
    tuned = read_weights(Run.open(tmp_path / "tuned").checkpoints.resolve("best"))
    assert begun.keys() == tuned.keys()
    assert all((tuned[name] - tensor).abs().max() < 0.01 for name, tensor in begun.items())


@pytest.mark.parametrize("spoilt", [False, True])
def test_the_average_is_compared_with_the_best_checkpoint(copied: Path, spoilt: bool) -> None:
    if spoilt:  # the older checkpoint has other weights
        path = copied / "checkpoints" / NAMES[0]
        weights = {name: tensor * -1 for name, tensor in read_weights(path).items()}
        write_checkpoint(path, {MODEL: weights, TRAINING: read_training(path)}, read_progress(path))
    values = json.loads(regard("average", copied, "--json").out)
    metrics = validate_checkpoint(Run.open(copied), "averaged")
    best = read_progress(copied / "checkpoints" / values["best"])
    assert (values["monitor"], values["score"]) == ("exact_match", metrics["exact_match"])
    assert values["best_score"] == best["score"] == best["best"] > 0
    assert values["better"] == (values["score"] >= values["best_score"]) == (not spoilt)
    printed = regard("average", copied).out
    assert f"{values['score']:.4g}" in printed and ("--last" in printed) == spoilt
    assert "score" not in json.loads(regard("average", copied, "--no-validate", "--json").out)


def test_validation_of_a_checkpoint_gives_the_metrics_of_training(copied: Path) -> None:
    run = Run.open(copied)
    for name in NAMES:
        assert validate_checkpoint(run, name) == read_progress(run.checkpoints.resolve(name))["metrics"]


def test_an_average_without_validation_data_is_saved(copied: Path) -> None:
    recipe = copied / "recipe.toml"
    recipe.write_text(recipe.read_text(encoding="utf-8").replace("valid.src", "nowhere.src"), encoding="utf-8")
    result = regard("average", copied, "--json")
    assert result.status == 0 and "score" not in json.loads(result.out) and "nowhere.src" in result.err
    assert (copied / "checkpoints" / "averaged").is_dir()


def test_the_checkpoints_can_be_named(copied: Path) -> None:
    values = json.loads(regard("average", copied, "--checkpoints", ",".join(NAMES), "--json").out)
    assert (values["checkpoint"], values["averaged"]) == ("averaged", NAMES)
    repeated = json.loads(regard("average", copied, "--checkpoints", ",".join([*NAMES, "last"]), "--json").out)
    assert repeated["averaged"] == NAMES
    assert fails("average", copied, "--checkpoints", f"last,{NAMES[1]}").code == "too-few-checkpoints"
    assert fails("average", copied, "--checkpoints", "step-7,last").code == "no-checkpoint"


def test_one_checkpoint_has_no_mean(recipe: Path, tmp_path: Path) -> None:
    assert regard("train", recipe, "training.max_steps=1", "--folder", tmp_path / "run").status == 0
    assert fails("average", tmp_path / "run", "--last", 3).code == "too-few-checkpoints"
