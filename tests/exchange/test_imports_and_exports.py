"""Import and export: the run and the model of the other program give the same outputs."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.cli.command import fails, regard
from tests.conftest import TinyRun
from tests.exchange.test_exchange_bert import LABELS, saved, their_answers, vocabulary
from tests.exchange.test_marian_tokenizers import write_marian_folder

from regard.attention.layouts import Padded
from regard.errors import UserError
from regard.exchange.marian import read_marian
from regard.export.certificate import CERTIFICATE, Bounds
from regard.export.readme import README
from regard.files import digest
from regard.run.exporting import export_run
from regard.run.importing import import_model
from regard.run.model import Model, Translator
from regard.run.run import Run
from regard.run.train import train
from regard.tasks.registry import build_recipe
from regard.text.bert import BertTokenizer

pytestmark = pytest.mark.filterwarnings("ignore")  # transformers' own deprecations are not ours to mend
LOOSE = Bounds(100.0, 0.0, 0.0, 100.0)
TASKS = ("classification", "regression", "tagging", "answering", "choice")


def quiet(text: str) -> None:
    """Report nothing."""


def save_bert(folder: Path, kind: str = "BertModel") -> Any:
    import transformers

    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary()), hidden_size=16, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=24, max_position_embeddings=16,
    )  # fmt: skip
    model = getattr(transformers, kind)(config).eval()
    model.save_pretrained(folder)
    vocabulary().save_vocab_txt(folder / "vocab.txt")
    return model


def test_a_bert_without_heads_is_a_pretraining_run_with_random_heads(tmp_path: Path) -> None:
    other = save_bert(tmp_path / "bert")
    imported = import_model(tmp_path / "bert", tmp_path / "run")
    assert imported.run.recipe.task == "pretraining" and imported.run.recipe.data.train == []
    assert imported.run.recipe.model.size == "custom", "no named size has this shape"  # type: ignore[attr-defined]
    assert {name.split(".")[0] for name in imported.random_weights} == {"masked", "next"}
    assert imported.weights == sum(parameter.numel() for parameter in other.parameters())
    network: Any = Run.open(tmp_path / "run").model()
    ids = torch.randint(5, 40, (2, 6), generator=torch.Generator().manual_seed(1))
    h = network.bert(Padded.of(ids, torch.tensor([6, 6])))
    torch.testing.assert_close(h, other(input_ids=ids).last_hidden_state, atol=1e-5, rtol=1e-5)
    import_model(tmp_path / "bert", tmp_path / "again")
    copies = [
        load_file(next((tmp_path / name).glob("checkpoints/step-*/model.safetensors"))) for name in ("run", "again")
    ]
    assert all(torch.equal(copies[0][name], copies[1][name]) for name in imported.random_weights)
    assert export_run(imported.run, tmp_path / "out").difference == 0.0  # random weights are not exported
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("bert", "out"))
    assert before.keys() == after.keys() and all(torch.equal(before[key], after[key]) for key in before)
    pair = {"text": "un [MASK]", "pair": "cats"}
    model = Model([imported.run], device="cpu")
    with pytest.raises(UserError) as error:
        model.predict(pair)
    assert error.value.code == "missing-weights"
    assert "masks" not in model.explain(pair).prediction
    save_bert(tmp_path / "words", "BertForMaskedLM")
    half = Model([import_model(tmp_path / "words", tmp_path / "half").run], device="cpu")
    prediction = half.predict(pair)
    assert "masks" in prediction and "next" not in prediction, "its next-sentence head is random"
    save_bert(tmp_path / "whole", "BertForPreTraining")
    assert import_model(tmp_path / "whole", tmp_path / "other").random_weights == []


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o027, 0o640)])
@pytest.mark.parametrize(
    ("task", "kind", "program"),
    [
        ("translation", "", "huggingface"),
        ("translation", "", "ctranslate2"),
        ("pretraining", "", "huggingface"),
        ("tagging", "bert", "huggingface"),
    ],
)
def test_exported_files_have_the_permissions_of_other_files(
    task: str, kind: str, program: str, mask: int, mode: int, tiny_run: TinyRun, tmp_path: Path
) -> None:
    run, before = Run.open(tiny_run(task, kind)), os.umask(mask)
    try:
        export_run(run, tmp_path / "out", program)
    finally:
        os.umask(before)
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert len(files) >= 4
    assert {path.name: oct(path.stat().st_mode & 0o777) for path in files} == {path.name: oct(mode) for path in files}


@pytest.mark.parametrize("task", TASKS)
def test_a_finetuned_bert_gives_the_same_logits_and_comes_back_to_the_bit(
    task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = saved(task, tmp_path / "theirs")
    imported = import_model(tmp_path / "theirs", tmp_path / "run")
    run = Run.open(tmp_path / "run")
    assert run.recipe.task == task
    loaded: Any = run.task
    assert loaded.labels == {"classification": LABELS, "tagging": LABELS, "answering": ("answerable",)}.get(task, ())
    assert imported.random_weights == ([] if loaded.pooled else ["encoder.pooler.weight", "encoder.pooler.bias"])
    from tests.exchange.test_exchange_bert import compare, our_answers

    network: Any = run.model()
    compare(task, our_answers(network), their_answers(other, task))
    if imported.random_weights:
        with pytest.raises(UserError) as error:
            Model([run], device="cpu").embed(["cats"], pool="pooler")
        assert (error.value.code, error.value.where) == ("missing-weights", "pool")
    out = export_run(run, tmp_path / "out")
    assert out.difference < 1e-5 and out.certificate.source == "built-in sentences"
    monkeypatch.chdir(out.folder)
    exec((out.folder / README).read_text(encoding="utf-8").split("```")[1].removeprefix("python\n"), {})
    monkeypatch.chdir(tmp_path)
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("theirs", "out"))
    assert before.keys() == after.keys() and all(torch.equal(before[key], after[key]) for key in before)


def test_a_marian_model_translates_and_another_run_starts_from_it(tmp_path: Path) -> None:
    write_marian_folder(tmp_path / "opus")
    imported = import_model(tmp_path / "opus", tmp_path / "run")
    recipe: Any = imported.run.recipe
    assert imported.random_weights == [] and recipe.decoding.beam == 6
    assert (recipe.text.kind, recipe.text.joint, recipe.model.tie) == ("imported", False, "all")
    translator = Translator.load(tmp_path / "run", device="cpu")
    readable = Translator.load(tmp_path / "run", device="cpu", engine="readable")
    sentences = ["the cat", "cats", "the the cat sat"]
    assert translator.translate(sentences, max_length=20) == readable.translate(sentences, max_length=20)
    assert translator.translate("the cat", search="greedy", max_length=20).startswith("die")

    (tmp_path / "pairs.tsv").write_text("the cat\tdie Katze\ncats\tKatze\nthe cat sat\tdie Katze\n" * 4)
    data = {"root": str(tmp_path), "train": {"file": "pairs.tsv"}, "valid": {"file": "pairs.tsv"}, "max_length": 32}
    training = {"max_steps": 3, "validate_every": 3, "batch_tokens": 64, "samples": 0}
    values = {"name": "tuned", "start_from": str(tmp_path / "run"), "data": data, "training": training}
    recipe = build_recipe(values | {"runtime": {"device": "cpu"}}, "test")
    tuned = train(recipe, tmp_path / "tuned", report=quiet)
    assert tuned.outcome.step == 3
    weights = tuned.run.model("last").state_dict()
    assert any(not torch.equal(weights[name], tensor) for name, tensor in imported.run.model().state_dict().items())

    with pytest.raises(UserError) as error:
        train(imported.run.recipe, tmp_path / "run", resume=True, report=quiet)
    assert (error.value.code, error.value.where) == ("no-data", "data.train")
    with pytest.raises(UserError) as error:
        train(
            build_recipe(
                {name: values[name] for name in ("name", "data", "training")} | {"text": {"kind": "imported"}}, "test"
            ),
            tmp_path / "new",
            report=quiet,
        )
    assert (error.value.code, error.value.where) == ("unsupported", "text.kind")


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_translation_run_is_exported_and_imported_on_the_command_line(norm: str, tmp_path: Path) -> None:
    run = trained(tmp_path, norm=norm)
    out = regard("export", run, "--folder", tmp_path / "out")
    assert out.status == 0, out.err
    certificate = json.loads((tmp_path / "out" / CERTIFICATE).read_text(encoding="utf-8"))
    assert certificate["difference"] < 1e-5 and certificate["identical"]["greedy"] == 1
    back = regard("import", tmp_path / "out", "--folder", tmp_path / "back", "--json")
    assert back.status == 0, back.err
    values = json.loads(back.out)
    assert values["task"] == "translation" and values["random_weights"] == []
    one, other = (
        regard("translate", folder, "--device", "cpu", "--beam", 4, stdin="ab cd\nhi\n")
        for folder in (run, tmp_path / "back")
    )
    assert one.status == other.status == 0 and one.out == other.out
    assert "use it: regard translate" in regard("import", tmp_path / "out", "--folder", tmp_path / "third").out
    assert fails("import", tmp_path / "out", "--folder", tmp_path / "back").code == "folder-exists"
    assert fails("export", run, "--folder", tmp_path / "out").code == "folder-exists"


def test_an_export_for_ctranslate2_is_the_same_model(tmp_path: Path) -> None:
    run = trained(tmp_path, norm="pre")
    loose = ("--min-identical", 0)  # it has learnt nothing: all tokens are about equally likely
    out = regard("export", run, "--to", "ctranslate2", "--quantization", "float32", "--json", *loose)
    assert out.status == 0, out.err
    values = json.loads(out.out)
    folder = run / "exports" / "ctranslate2-best"
    assert 0 < values["difference"] < 1e-4 and Path(values["folder"]) == folder
    sums = json.loads((folder / CERTIFICATE).read_text(encoding="utf-8"))["files"]
    assert {name: entry["sha256"] for name, entry in sums.items()} == {
        path.name: digest(path) for path in folder.iterdir() if path.name != CERTIFICATE
    }
    assert "tokenizer.json" in sums
    small = regard("export", run, "--to", "ctranslate2", "--folder", tmp_path / "int8", "--json", *loose)
    assert json.loads(small.out)["difference"] > values["difference"]
    in_python = export_run(Run.open(run), tmp_path / "default", "ctranslate2", bounds=lambda _: LOOSE)
    assert in_python.difference == json.loads(small.out)["difference"], "int8 is the default in Python too"
    assert fails("export", run, "--quantization", "int8").code == "unsupported-option"
    assert fails("export", run, "--to", "tensorflow").code == "invalid-option"


def trained(folder: Path, **model: Any) -> Path:
    """A run of few steps."""
    words = ["ab", "cd", "efg", "hi"]
    for part, count in (("train", 40), ("valid", 5)):
        lines = [" ".join(words[(i * k) % 4] for k in range(1, 2 + i % 3)) for i in range(count)]
        (folder / f"{part}.tsv").write_text("".join(f"{line}\t{line[::-1]}\n" for line in lines), encoding="utf-8")
    shape = {"d_model": 8, "num_heads": 2, "d_ff": 16, "encoder_layers": 1, "decoder_layers": 1}
    values = {
        "name": "small",
        "data": {
            "root": str(folder), "train": {"file": "train.tsv"}, "valid": {"file": "valid.tsv"},
            "max_length": 24, "workers": 1,
        },
        "text": {"vocab_size": 280},
        "model": shape | model if model.get("kind", "transformer") == "transformer" else model,
        "training": {"max_steps": 2, "validate_every": 2, "batch_tokens": 128, "samples": 0},
        "runtime": {"device": "cpu"},
    }  # fmt: skip
    return train(build_recipe(values, "test"), folder / "run", report=quiet).run.folder


def test_models_without_a_counterpart_are_errors(tmp_path: Path) -> None:
    run = trained(tmp_path, kind="recurrent", d_model=8)
    assert fails("export", run, "--folder", tmp_path / "out").code == "unsupported-model"
    ctranslate2 = fails("export", run, "--to", "ctranslate2", "--folder", tmp_path / "out")
    assert ctranslate2.code == "unsupported-model"
    shutil.rmtree(run)
    learned = trained(tmp_path, positions="learned")
    assert fails("export", learned, "--folder", tmp_path / "out").code == "unsupported"
    assert not (tmp_path / "out").exists()


def test_a_failed_import_leaves_nothing(tmp_path: Path) -> None:
    save_bert(tmp_path / "bert")
    config = json.loads((tmp_path / "bert" / "config.json").read_text())
    target = tmp_path / "run"
    assert fails("import", tmp_path / "nowhere", "--folder", target).code == "missing-folder"
    assert fails("import", tmp_path, "--folder", target).code == "missing-file"
    (tmp_path / "bert" / "config.json").write_text(json.dumps(config | {"model_type": "llama"}))
    assert fails("import", tmp_path / "bert", "--folder", target).code == "unsupported-model"
    (tmp_path / "bert" / "config.json").write_text(json.dumps(config))
    weights = tmp_path / "bert" / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    assert fails("import", tmp_path / "bert", "--folder", target).code == "damaged-file"
    weights.write_bytes(whole)
    entries = tmp_path / "bert" / "vocab.txt"
    text = entries.read_text()
    entries.write_text(text.removesuffix("\n").rpartition("\n")[0] + "\n")
    assert fails("import", tmp_path / "bert", "--folder", target).code == "damaged-model"
    entries.unlink()
    assert fails("import", tmp_path / "bert", "--folder", target).code == "missing-file"
    entries.write_text(text)
    assert not target.exists() and not list(tmp_path.glob(".*.partial"))
    result = regard("import", tmp_path / "bert", "--folder", target)
    assert result.status == 0 and "has no masked" in result.err and "written to" in result.out


def test_the_folder_above_a_model_names_the_model(tmp_path: Path) -> None:
    for name in ("bert-tiny", "opus"):
        (tmp_path / "models" / name).mkdir(parents=True)
        (tmp_path / "models" / name / "config.json").write_text("{}", encoding="utf-8")
    result = fails("import", tmp_path / "models", "--folder", tmp_path / "run")
    assert result.code == "missing-file"
    assert str(tmp_path / "models" / "bert-tiny") in result.err and str(tmp_path / "models" / "opus") in result.err
    (tmp_path / "models" / "config.json").write_text("{}", encoding="utf-8")
    assert fails("import", tmp_path / "models", "--folder", tmp_path / "run").code == "unsupported-model"
    assert not (tmp_path / "run").exists()


def test_an_empty_folder_is_a_target_and_a_filled_one_is_not(tmp_path: Path) -> None:
    save_bert(tmp_path / "bert")
    for folder in (tmp_path / "run", tmp_path / "out"):
        folder.mkdir()
    run = import_model(tmp_path / "bert", tmp_path / "run").run
    export_run(run, tmp_path / "out")
    assert (tmp_path / "out" / "model.safetensors").is_file()
    written = digest(tmp_path / "out" / "model.safetensors")
    (tmp_path / "file").write_text("mine")
    for target in (tmp_path / "run", tmp_path / "out", tmp_path / "file"):
        with pytest.raises(UserError) as error:
            import_model(tmp_path / "bert", target)
        assert (error.value.code, error.value.where) == ("folder-exists", str(target))
        with pytest.raises(UserError) as error:
            export_run(run, target)
        assert (error.value.code, error.value.where) == ("folder-exists", str(target))
    assert (tmp_path / "file").read_text() == "mine"
    assert digest(tmp_path / "out" / "model.safetensors") == written


def test_an_imported_run_checks_its_vocabulary(tmp_path: Path) -> None:
    write_marian_folder(tmp_path / "opus")
    import_model(tmp_path / "opus", tmp_path / "run")
    path = tmp_path / "run" / "src.tokenizer.json"
    path.write_text(path.read_text().replace("▁cat", "▁dog"))
    with pytest.raises(UserError) as error:
        Translator.load(tmp_path / "run", device="cpu")
    assert (error.value.code, error.value.where) == ("damaged-file", str(path))
    assert read_marian(tmp_path / "opus").settings.output_bias


def test_exports_that_differ_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_bert(tmp_path / "bert")
    run = import_model(tmp_path / "bert", tmp_path / "run").run
    monkeypatch.setattr(
        "regard.export.huggingface.bert.read_bert_tokenizer",
        lambda _: BertTokenizer(vocabulary().entries, lowercase=False),
    )
    with pytest.raises(UserError) as error:
        export_run(run, tmp_path / "out")
    assert error.value.code == "export-differs"
    weights = run.model().state_dict()
    weights["bert.layers.0.feedforward.fc1.weight"][0, 0] = float("nan")
    run.checkpoints.save(1, weights, {}, {"best_step": 1})
    with pytest.raises(UserError) as error:
        export_run(run, tmp_path / "nan")
    assert error.value.code == "not-finite"
    assert not (tmp_path / "nan").exists()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None])
def test_weights_that_are_not_finite_are_not_imported(value: float | None, tmp_path: Path) -> None:
    save_bert(tmp_path / "bert")
    file, key = tmp_path / "bert" / "model.safetensors", "encoder.layer.0.output.dense.bias"
    weights = load_file(file)
    weights[key] = weights[key].int() if value is None else weights[key].index_fill(0, torch.tensor([3]), value)
    save_file(weights, file)
    with pytest.raises(UserError) as error:
        import_model(tmp_path / "bert", tmp_path / "run")
    assert (error.value.code, error.value.where) == ("not-finite", f"{file}:bert.{key}")
    assert not (tmp_path / "run").exists()
