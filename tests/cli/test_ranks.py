"""Commands that two processes do together, as torchrun starts them: the bytes of one process."""

import os
import pickletools
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from zipfile import is_zipfile

import numpy as np
import pytest
import torch
from safetensors import safe_open
from tests.cli.command import fails, regard
from tests.tiny import train_sentences, translate_words, write_recipe
from tests.training.ranks import run_ranks
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from regard import work
from regard.engines import stepper_engine
from regard.errors import UserError
from regard.run import embedding, scoring
from regard.run.run import Run
from regard.runtime import RuntimeSettings, is_final, open_world
from regard.tasks import encoders
from regard.training.checkpoint import read_weights
from regard.training.distributed import Ranks
from regard.work import Work, compute_all, recall_all

pytestmark = pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="needs gloo")
SMALL = 40
"""Tokens per batch, so that both processes have some."""


def command(*arguments: str) -> None:
    """Run a command as a rank; only rank 0 prints."""
    for module in (encoders, embedding):
        setattr(module, "BATCH_TOKENS", SMALL)  # noqa: B010
    torch.set_num_threads(1)
    result = regard(*arguments)
    assert result.status == 0, result.err
    assert os.environ.get("RANK", "0") == "0" or not result.out + result.err


def count_batches(folder: str, *arguments: str) -> None:
    """Run a command as a rank, and leave a file with the number of batches that it decoded."""
    decode, count = vars(stepper_engine)["decode"], 0

    def counted(*args: object, **options: object) -> object:
        nonlocal count
        count += 1
        return decode(*args, **options)

    setattr(stepper_engine, "decode", counted)  # noqa: B010
    command(*arguments)
    (Path(folder) / f"rank-{os.environ['RANK']}").write_text(str(count))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("\n".join([*train_sentences()[:40], "", "one two"]) + "\n")
    return path


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = encoders.BATCH_TOKENS
    yield
    for module in (encoders, embedding):
        setattr(module, "BATCH_TOKENS", before)  # noqa: B010


def test_translations_are_the_bytes_of_one_process_and_both_decode(trained: Path, text: Path, tmp_path: Path) -> None:
    options = ["--input", str(text), "--batch-tokens", str(SMALL), "--engine", "readable", "--scores", "--output"]
    command("translate", str(trained), *options, str(tmp_path / "one"))
    run_ranks(2, count_batches, str(tmp_path), "translate", str(trained), *options, str(tmp_path / "two"))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    counts = [int((tmp_path / f"rank-{rank}").read_text()) for rank in range(2)]
    assert min(counts) > 1 and abs(counts[0] - counts[1]) <= 1


def test_predictions_vectors_and_scores_are_the_bytes_of_one_process(
    classifier: Path, text: Path, tmp_path: Path
) -> None:
    def arguments(name: str) -> list[list[str]]:
        given = ["--input", str(text), "--output"]
        return [
            ["predict", str(classifier), *given, str(tmp_path / f"{name}.csv")],
            ["embed", str(classifier), *given, str(tmp_path / f"{name}.npy")],
            ["evaluate", str(classifier), "--on", "valid", "--output", str(tmp_path / f"{name}.json")],
        ]

    for one, two in zip(arguments("one"), arguments("two"), strict=True):
        command(*one)
        run_ranks(2, command, *two)
        left, right = Path(one[-1]).read_text("latin-1"), Path(two[-1]).read_text("latin-1")
        if one[0] == "evaluate":  # the time differs
            left, right = (text.partition('"seconds"')[0] + text.partition('"examples"')[2] for text in (left, right))
        assert left == right and len(left) > 100


def test_distilled_data_are_the_bytes_of_one_process(trained: Path, tmp_path: Path) -> None:
    for name, run in (("one", command), ("two", lambda *given: run_ranks(2, command, *given))):
        for _ in range(2):  # the second time there is nothing left to do
            run(
                "distill", str(trained), "--on", "valid", "--batch-tokens", str(SMALL), "--folder", str(tmp_path / name)
            )
    names = ("valid.src", "valid.tgt", "valid.manifest.json")
    assert all((tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes() for name in names)


def test_back_translations_are_the_bytes_of_one_process(trained: Path, text: Path, tmp_path: Path) -> None:
    def arguments(name: str) -> list[str]:
        return ["backtranslate", str(trained), str(text), "-o", str(tmp_path / name), "--device", "cpu"]

    command(*arguments("one.tsv"))
    run_ranks(2, partial(command, *arguments("two.tsv")))
    assert (tmp_path / "one.tsv").read_bytes() == (tmp_path / "two.tsv").read_bytes() != b""


def count_costs(folder: str, *arguments: str) -> None:
    """Run a command as a rank, and leave a file with the number of batches that it scored."""
    forced, count = vars(scoring)["forced_costs"], 0

    def counted(*args: object) -> object:
        nonlocal count
        count += 1
        return forced(*args)

    for name, value in (("forced_costs", counted), ("BATCH_TOKENS", SMALL)):
        setattr(scoring, name, value)
    command(*arguments)
    (Path(folder) / f"rank-{os.environ['RANK']}").write_text(str(count))


def test_scores_of_pairs_are_the_bytes_of_one_process_and_both_compute(trained: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "pairs.tsv"
    corpus.write_text("".join(f"{line}\t{translate_words(line)}\n" for line in train_sentences()[:40]), "utf-8")

    def arguments(name: str) -> list[str]:
        return ["score", str(trained), str(corpus), "--columns", "1,2", "-o", str(tmp_path / name), "--device", "cpu"]

    command(*arguments("one.tsv"))
    run_ranks(2, count_costs, str(tmp_path), *arguments("two.tsv"))
    assert (tmp_path / "one.tsv").read_bytes() == (tmp_path / "two.tsv").read_bytes() != b""
    counts = [int((tmp_path / f"rank-{rank}").read_text()) for rank in range(2)]
    assert min(counts) > 1 and abs(counts[0] - counts[1]) <= 1


def test_stdin_and_other_engines_need_one_process(monkeypatch: pytest.MonkeyPatch, trained: Path) -> None:
    for name, value in (("WORLD_SIZE", "2"), ("RANK", "0"), ("TORCHELASTIC_RUN_ID", "x")):
        monkeypatch.setenv(name, value)
    result = fails("translate", trained, "--engine", "ctranslate2")
    assert result.code == "unsupported-option" and "torchrun" in result.err
    monkeypatch.setattr("regard.cli.options.WeightOptions.join_processes", lambda self: None)
    monkeypatch.setattr("regard.run.model.open_world", lambda settings, alone: one_world(settings))
    assert "--input" in fails("translate", trained, stdin="one\n").err


def fail(folder: str, *, first: int) -> None:
    """Run a command as a rank, with a missing recipe from rank `first` on; leave a file with what it printed."""
    rank = int(os.environ["RANK"])
    store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    if rank >= first:
        (Path(folder) / f"rank-{rank}").write_text(regard("train", "missing.toml").err)
        store.set(f"printed {rank}", "")
    store.wait(["printed 1"])
    assert is_final(), "a restarted process ends at once"


@pytest.mark.parametrize("first", [0, 1])
def test_an_error_is_printed_by_one_process_even_if_only_that_has_it(tmp_path: Path, first: int) -> None:
    run_ranks(2, partial(fail, str(tmp_path), first=first))
    errors = "".join(path.read_text() for path in tmp_path.glob("rank-*"))
    assert errors.count("missing.toml") == 1 and errors.startswith("error [missing-file]")


def one_world(settings: object) -> object:
    from tests.training.toy import cpu_world

    return cpu_world()


def square_all(folder: str, stop: int) -> None:
    """Keep squares in a file, as the rank of a team; fail at number `stop`."""
    team = Ranks.of(open_world(RuntimeSettings(device="cpu")))
    computed: list[int] = []

    def square(number: int) -> int:
        if number == stop:
            raise UserError("stopped", code="stopped")
        computed.append(number)
        return number * number

    found: list[int] = []
    try:
        with Work(path=Path(folder) / "unfinished", made_from={}, team=team) as work:
            found += recall_all((n, partial(square, n), 1.0) for n in range(9))
            assert list(compute_all(partial(abs, -n) for n in range(3))) == [0, 1, 2]
    except UserError:
        assert stop < 9
    assert found == [n * n for n in range(9 if stop > 8 else stop - stop % 2)]
    if stop > 8:
        assert work.batches == (0 if team and team.rank else 9)
        assert min(computed) >= 4, "what is in the file is not computed again"


def test_two_processes_continue_what_they_kept(tmp_path: Path) -> None:
    run_ranks(2, square_all, str(tmp_path), 5)
    assert (tmp_path / "unfinished").read_bytes().count(b"\n") == 2 + 4
    assert work.BEGIN in (tmp_path / "unfinished").read_bytes()
    run_ranks(2, square_all, str(tmp_path), 99)
    assert not (tmp_path / "unfinished").exists()


def check_validation(folder: str, expected: dict[str, float]) -> None:
    """The metrics of the last checkpoint on the validation data, in small batches, are as expected."""
    assert validate(folder) == expected


def validate(folder: str) -> dict[str, float]:
    torch.set_num_threads(1)
    run = Run.open(folder)
    world = open_world(run.recipe.runtime)
    task = run.task.configure(batch_tokens=SMALL)
    data = task.validation_data(run.folder, run.store("valid", lambda _: None), world)
    with torch.no_grad(), Work(team=Ranks.of(world)):
        return dict(task.validate(run.model("last", world.device), data).metrics)


def test_validation_has_the_metrics_of_one_process(trained: Path) -> None:
    run_ranks(2, check_validation, str(trained), validate(str(trained)))


def test_other_commands_use_a_run_of_sharded_training(tmp_path: Path) -> None:
    """Nothing has to be consolidated: every checkpoint has the whole weights."""
    recipe, run = write_recipe(tmp_path, "translation"), tmp_path / "run"
    settings = ("runtime.parallel=shard", "training.max_steps=40", "training.validate_every=20")
    run_ranks(2, command, "train", str(recipe), *settings, "--folder", str(run))
    assert len(list(run.glob("checkpoints/step-00000040/training-*-of-00002.safetensors"))) == 2
    for arguments in (["compress", run, "--folder", tmp_path / "small"], ["average", run, "--last", "2"]):
        command(*map(str, arguments))
    command("export", str(run), "--folder", str(tmp_path / "exported"), "--min-identical", "0")
    command("import", str(tmp_path / "exported"), "--folder", str(tmp_path / "imported"))
    translations = [
        regard("translate", folder, "--device", "cpu", "--beam", 4, stdin="one two three\nsix\n").out
        for folder in (run, tmp_path / "imported")
    ]
    assert translations[0] == translations[1] and translations[0].count("\n") == 2
    assert regard("translate", tmp_path / "small", "--device", "cpu", stdin="one\n").status == 0


def test_a_sharded_recurrent_language_model_has_the_weights_of_a_replicated_one(tmp_path: Path) -> None:
    """Its first state is made outside the forward pass, when each process has only a part of the weights."""
    steps = {"training.max_steps": 2, "training.validate_every": 2, "training.warmup": 1}
    recipe = write_recipe(tmp_path, "language", "lstm", steps)
    for parallel in ("replicate", "shard"):
        given = [f"runtime.parallel={parallel}", "--folder", str(tmp_path / parallel)]
        run_ranks(2, command, "train", str(recipe), *given)
    one, other = (read_weights(tmp_path / name / "checkpoints" / "step-00000002") for name in ("replicate", "shard"))
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_no_file_of_a_run_is_a_pickle(trained: Path) -> None:
    """Recipe, tokenizers, stores, checkpoints, converted weights: no file can be read as a pickle or a zip."""
    files = [path for path in trained.rglob("*") if path.is_file()]
    for path in files:
        assert not is_zipfile(path), path.name
        with pytest.raises(ValueError):
            list(pickletools.genops(path.read_bytes()))
        if path.suffix == ".npy":
            np.load(path, allow_pickle=False)
        elif path.suffix == ".safetensors":
            with safe_open(path, "pt") as file:
                assert list(file.keys())
    assert {".json", ".toml", ".safetensors"} <= {path.suffix for path in files}
