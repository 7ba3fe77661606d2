"""A new task is one file (tests/largest_letter.py): every command works with it, and nothing in src knows it."""

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.cli.command import fails, regard

from regard.plugins import module_name
from regard.tasks.registry import TASKS

PLUGIN = Path(__file__).parents[1] / "largest_letter.py"
RECIPE = """
name = "letters"
task = "largest-letter"
[data]
root = "{root}"
workers = 1
train = {{ file = "train.csv", columns = {{ word = "Wort", letter = "Buchstabe" }} }}
valid = {{ file = "valid.csv", word = "Wort", letter = "Buchstabe" }}
test = {{ file = "test.csv", word = "Wort", letter = "Buchstabe" }}
[runtime]
threads = 1
[training]
max_steps = 200
batch_tokens = 256
schedule = "constant"
learning_rate = 1e-2
warmup = 0
validate_every = 100
log_every = 50
"""


@pytest.fixture(scope="module", autouse=True)
def plugin() -> Iterator[None]:
    """The plugin is loaded during these tests only."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("REGARD_PLUGINS", str(PLUGIN))
        yield
    TASKS.pop("largest-letter", None)
    sys.modules.pop(module_name(PLUGIN), None)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random words with their largest letters; no word is in two splits."""
    folder, rng = tmp_path_factory.mktemp("letters"), random.Random(1)
    words = list(dict.fromkeys("".join(rng.choices("abcdefghijklmnop", k=rng.randint(1, 9))) for _ in range(600)))
    for split, part in (("train", words[:400]), ("valid", words[400:440]), ("test", words[440:480])):
        rows = "".join(f"{word},{max(word)}\n" for word in part)
        (folder / f"{split}.csv").write_text(f"Wort,Buchstabe\n{rows}", encoding="utf-8")
    path = folder / "letters.toml"
    path.write_text(RECIPE.format(root=folder.as_posix()), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(recipe: Path) -> Path:
    result = regard("train", recipe, "--folder", recipe.parent / "run")
    assert result.status == 0, result.err
    assert "train: 400 examples" in result.err and f"regard predict {recipe.parent / 'run'}" in result.out
    return recipe.parent / "run"


def test_train_kill_and_resume(recipe: Path, run: Path, tmp_path: Path) -> None:
    """A killed and resumed training has the weights of one that was not interrupted."""
    command = [sys.executable, "-m", "regard", "train", str(recipe), "--folder", str(tmp_path / "killed")]
    with subprocess.Popen([*command, "training.checkpoint_every=25"], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "step 100/" in line:
                os.kill(process.pid, signal.SIGKILL)
                break
    saved = sorted(path.name for path in (tmp_path / "killed" / "checkpoints").glob("step-*"))
    assert saved and "step-00000200" not in saved
    resumed = regard("train", tmp_path / "killed", "training.checkpoint_every=0")
    assert resumed.status == 0, resumed.err
    weights = Path("checkpoints") / "step-00000200" / "model.safetensors"
    assert (run / weights).read_bytes() == (tmp_path / "killed" / weights).read_bytes()


def test_evaluate(run: Path, recipe: Path, tmp_path: Path) -> None:
    values = json.loads(regard("evaluate", run, "--json", "--report", tmp_path / "a.html").out)
    assert values["scores"][0]["value"] > 90 and values["examples"] == 40
    assert "<html" in Path(values["report"]).read_text(encoding="utf-8")
    assert "accuracy" in regard("evaluate", run, "--on", "valid").out
    same = regard("evaluate", run, "--file", recipe.parent / "test.csv", "--json", "--output", tmp_path / "file.json")
    assert json.loads(same.out)["scores"] == values["scores"]
    compared = json.loads(regard("evaluate", run, "--against", run, "--json").out)
    assert compared["comparison"][0]["delta"] == 0
    assert fails("evaluate", run, "--beam", 3).code == "unsupported-option"


def test_predict(run: Path) -> None:
    result = regard("predict", run, stdin='banana\n{"word": "cafe", "letter": "a", "id": 7}\n')
    banana, cafe = map(json.loads, result.lines)
    assert (banana["word"], banana["letter"]) == ("banana", "n")
    assert (cafe["letter"], cafe["predicted_letter"], cafe["id"]) == ("a", "f", 7)
    assert regard("predict", run, "--interactive", stdin="banana\n").out.strip() == "n"
    assert fails("predict", run, '{"wrod": "a"}').code == "missing-key"


def test_inspect(run: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    values = json.loads(regard("inspect", run, "banana", "--json", "--output", page).out)
    (attention,) = values["maps"]
    assert attention["columns"] == list("banana") and sum(attention["weights"][0][0][0]) == pytest.approx(1, abs=1e-3)
    assert "banana" in page.read_text(encoding="utf-8")
    assert "pooling" in regard("inspect", run, "banana", "--output", page).out


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu(recipe: Path, tmp_path: Path) -> None:
    """Nothing in the example names a device."""
    trained = regard("train", recipe, "--folder", tmp_path / "run", "runtime.device=cuda")
    assert trained.status == 0, trained.err
    assert json.loads(regard("evaluate", tmp_path / "run", "--json").out)["scores"][0]["value"] > 90
    assert json.loads(regard("predict", tmp_path / "run", "banana").out)["letter"] == "n"
    assert regard("inspect", tmp_path / "run", "banana", "--output", tmp_path / "page.html").status == 0


def test_recipes_list_its_settings() -> None:
    rows = json.loads(regard("recipes", "--settings", "--json").out)
    of = {row["of"] for row in rows if row["setting"] == "training.monitor" and row["default"] == '"accuracy"'}
    assert "largest-letter" in ", ".join(of)


def test_without_the_plugin_the_task_is_unknown(run: Path) -> None:
    command = [sys.executable, "-m", "regard", "predict", str(run), "a"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "REGARD_PLUGINS": ""})
    assert done.returncode == 1 and "[unknown-task]" in done.stderr and "REGARD_PLUGINS" in done.stderr


def test_doctor(recipe: Path) -> None:
    """Every check that applies: a word has no tokenizer, no limit of length and no labels that are counted."""
    result = json.loads(regard("doctor", recipe, "--json", "--folder", recipe.parent / "other").out)
    statuses = {check["name"]: check["status"] for check in result["checks"]}
    assert statuses == {
        "recipe": "pass", "device": "pass", "files": "pass", "examples": "pass", "overlap": "pass",
        "first-loss": "pass", "gradients": "pass", "schedule": "pass", "memory": "pass", "disk": "pass",
        "overfit": "pass", "time": "pass",
    }, result  # fmt: skip


def test_as_an_installed_package(run: Path, tmp_path: Path) -> None:
    """An entry point takes the place of REGARD_PLUGINS."""
    (tmp_path / "letters.py").write_text(PLUGIN.read_text(encoding="utf-8"), encoding="utf-8")
    info = tmp_path / "letters-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: letters\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[regard.tasks]\nletters = letters\n", encoding="utf-8")
    paths = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "REGARD_PLUGINS": "", "PYTHONPATH": paths}
    command = [sys.executable, "-m", "regard", "predict", str(run), "banana"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["letter"] == "n"


def test_the_example_is_short_and_imports_public_names_only() -> None:
    source = PLUGIN.read_text(encoding="utf-8")
    modules = set(re.findall(r"^from (regard[\w.]*) import", source, re.MULTILINE))
    assert modules <= {"regard", "regard.tasks"} and source.count("\n") <= 120
