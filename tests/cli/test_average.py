"""regard average: the mean of checkpoints as a checkpoint."""

import json
from pathlib import Path

from tests.cli.command import fails, regard, sentences

from regard.training.checkpoint import read_weights

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
