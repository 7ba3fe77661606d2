"""Exports with a certificate: the exported model and the run translate alike, and what differs is an error."""

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.cli.command import fails, regard
from tests.conftest import TinyRun
from tests.tiny import number_sentences, translate_words

from regard.engines.graphs import GraphModel
from regard.errors import UserError
from regard.export import huggingface, targets
from regard.export.certificate import CERTIFICATE, Bounds, Certificate, default_bounds
from regard.export.comparing import is_same, leaves
from regard.export.examples import SENTENCES, Examples, built_in, comparison_examples, spread
from regard.export.readme import README, render_readme
from regard.export.target import Trained
from regard.export.targets import CTranslate2, Onnx
from regard.files import Manifest, digest
from regard.run.exporting import Exported, check_export, export_run
from regard.run.model import Model, Translator
from regard.run.run import Run
from regard.tasks.languages import Languages

pytestmark = pytest.mark.filterwarnings("ignore")  # deprecations inside torch.onnx, onnxscript and transformers
LINES = number_sentences()[:12]
GRAPH_FILES = ("encoder.onnx", "decoder.onnx", "graphs.json")


@pytest.fixture(scope="module")
def run(tiny_run: TinyRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shutil.copytree(tiny_run("translation"), tmp_path_factory.mktemp("exports") / "run")


@pytest.fixture(scope="module")
def onnx(run: Path) -> Exported:
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    return export_run(Run.open(run), run.parent / "onnx", "onnx")


def read(folder: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((folder / CERTIFICATE).read_text(encoding="utf-8"))
    return values


def program_in(folder: Path) -> str:
    """The program in README.md."""
    return program_of((folder / README).read_text(encoding="utf-8"))


def program_of(text: str) -> str:
    match = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert match is not None
    return match[1]


def test_the_certificate_of_an_export(onnx: Exported, run: Path) -> None:
    values = read(onnx.folder)
    assert values["difference"] < 1e-4 and values["identical"] == {"greedy": 1.0} and values["violations"] == []
    assert values["scores"]["exact match"] == [100.0, 100.0]
    assert (values["to"], values["quantization"], values["checkpoint"]) == ("onnx", "float32", "best")
    assert values["run"] == "../run" and (onnx.folder / values["run"]).resolve() == run.resolve()
    assert values["examples"] == 10 and values["source"] == "validation data"
    files = [path for path in onnx.folder.rglob("*") if path.is_file() and path.name != CERTIFICATE]
    assert {name: entry["sha256"] for name, entry in values["files"].items()} == {
        path.name: digest(path) for path in files
    }
    assert values["bytes"][1] == sum(path.stat().st_size for path in files)
    assert min(values["speed"]) > 0 and {"regard", "onnxruntime", "torch"} <= values["versions"].keys()


def test_the_example_of_a_program_stays_as_it_is(run: Path) -> None:
    opened = Run.open(run)
    target = Onnx(Trained(opened.task, opened.folder, opened.model))
    program = program_of(render_readme(target, run, {"src": "{{ eos }} isn't <b>{% end %}"}))
    assert """print(translate("{{ eos }} isn't <b>{% end %}"))""" in program


def test_an_export_names_no_file_of_this_machine(onnx: Exported) -> None:
    import regard

    place = str(Path(regard.__file__).parent).encode()
    assert not any(place in path.read_bytes() for path in onnx.folder.glob("*.onnx"))


def test_the_same_sentence_has_the_same_translation_everywhere(
    onnx: Exported, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ctranslate2")
    transformers = pytest.importorskip("transformers")

    def copy(folder: Path, *_: object) -> None:  # the export above, which takes seconds
        for name in GRAPH_FILES:
            shutil.copy(onnx.folder / name, folder / name)

    monkeypatch.setattr(targets, "write_graphs", copy)
    expected = [translate_words(line) for line in LINES]
    for search in ({"search": "greedy"}, {"search": "beam", "beam": 3}):
        for engine in ("torch", "readable", "onnx"):
            assert Translator.load(run, device="cpu", engine=engine).translate(LINES, **search) == expected, engine
        exact = Translator.load(run, engine="ctranslate2", quantization="float32")
        assert exact.translate(LINES, **search) == expected
    stdin = "".join(f"{line}\n" for line in LINES)
    for options in ((), ("--engine", "onnx")):
        assert regard("translate", run, "--device", "cpu", *options, stdin=stdin).lines == expected
    folder = export_run(Run.open(run), tmp_path / "huggingface").folder
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    ids = tokenizer(LINES, return_tensors="pt", padding=True)
    assert tokenizer.batch_decode(model.generate(**ids), skip_special_tokens=True) == expected


def test_scores_of_hypotheses_are_those_of_torch(onnx: Exported, run: Path) -> None:
    import torch

    from regard.engines.graphs import open_onnx
    from regard.engines.stepper_engine import StepperEngine
    from regard.tasks.seq2seq import SYMBOLS

    task: Any = Run.open(run).task.configure(search="beam", beam=4, nbest=3)
    examples = [{"src": line, "prefix": "eins"} for line in LINES[:4]]
    ours = task.predict(Model([Run.open(run)], device="cpu").engine, examples)
    stepper: Any = open_onnx(onnx.folder)
    theirs = task.predict(StepperEngine(stepper, SYMBOLS, torch.device("cpu")), examples)
    for one, other in zip(ours, theirs, strict=True):
        assert [item["tokens"] for item in one["hypotheses"]] == [item["tokens"] for item in other["hypotheses"]]
        scores = [[item["score"] for item in prediction["hypotheses"]] for prediction in (one, other)]
        assert scores[0] == pytest.approx(scores[1], abs=1e-4)


def test_the_program_in_the_readme_translates(
    onnx: Exported, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = program_in(onnx.folder)
    assert "regard" not in source and "torch" not in source
    monkeypatch.chdir(onnx.folder)
    values: dict[str, Any] = {}
    exec(source, values)
    assert [values["translate"](line) for line in LINES] == [translate_words(line) for line in LINES]
    assert capsys.readouterr().out.split() == translate_words(read_example(source)).split()


def read_example(source: str) -> str:
    """The sentence in the last line of a program."""
    match = re.search(r"translate\('(.*)'\)\)\n$", source)
    assert match is not None
    return match[1]


def test_torch_programs_run_in_a_process_without_regard(run: Path, tmp_path: Path) -> None:
    folder = export_run(Run.open(run), tmp_path / "out", "torch-export").folder
    assert read(folder)["difference"] < 1e-5
    source = program_in(folder)
    checked = f"import sys\nsys.modules['regard'] = None\n{source}"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", checked], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == translate_words(read_example(source)), done.stderr


def test_weights_in_8_bits_and_a_text_encoder(
    tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxscript")
    run = Run.open(tiny_run("classification", "bert"))
    exported = export_run(run, tmp_path / "out", "onnx", quantization="int8")
    assert 0 < exported.difference < 0.5 and exported.certificate.identical == {"predictions": 1.0}
    assert exported.certificate.scores["accuracy"][0] == exported.certificate.scores["accuracy"][1]
    monkeypatch.chdir(exported.folder)
    values: dict[str, Any] = {}
    exec(program_in(exported.folder), values)
    for text in ("a lovely film", "a dull book", f"a lovely film {'by Ada ' * 40} dull dull dull dull"):
        best = ("bad", "good")[values["logits"](text)[0].argmax()]
        assert best == Model([run], device="cpu").predict(text)["label"]


@pytest.mark.parametrize("pair", [False, True])
def test_programs_truncate_as_the_run_does(
    pair: bool, tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run.open(tiny_run("regression", "bert"))
    folder = export_run(run, tmp_path / "out", "torch-export", limit=4).folder
    monkeypatch.chdir(folder)
    values: dict[str, Any] = {}
    exec(program_in(folder), values)
    model, long = Model([run], device="cpu"), "a play by Ada in 475 the book " * 40
    for texts in ([long, "the book"], ["the book", long], [long, long]) if pair else ([long],):
        expected = model.predict(dict(zip(("text", "pair"), texts, strict=False)))
        assert expected["truncated"] and float(values["logits"](*texts)[0, 0]) == pytest.approx(
            expected["score"], abs=1e-5
        )


@pytest.mark.parametrize("to", ["torch-export", "huggingface"])
def test_an_exported_tagger_prints_a_label_for_each_word(
    to: str, tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("transformers")
    run = Run.open(tiny_run("tagging", "bert"))
    folder = export_run(run, tmp_path / "out", to, limit=4).folder
    words = comparison_examples(run.task, limit=1).examples[0]["words"]
    monkeypatch.chdir(folder)
    exec(program_in(folder), {})
    tags = Model([run], device="cpu").predict({"words": words})["tags"]
    assert capsys.readouterr().out.splitlines()[-1] == str(list(zip(words, tags, strict=True)))


def test_transformers_truncates_at_the_length_of_the_run(tiny_run: TinyRun, tmp_path: Path) -> None:
    run = Run.open(tiny_run("classification", "bert"))
    folder = export_run(run, tmp_path / "out", limit=4).folder
    config = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    recipe: Any = run.recipe
    assert config["model_max_length"] == recipe.data.max_length < recipe.model.max_positions


def test_a_certificate_covers_texts_that_are_too_long(
    tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A graph that is wrong at full length fails, though every example is short."""
    run = Run.open(tiny_run("classification", "bert"))
    recipe: Any = run.recipe
    forward = GraphModel.forward

    def wrong(self: GraphModel, tokens: Any, *more: Any) -> Any:
        logits: Any = forward(self, tokens, *more)
        return -logits if tokens.ids.size(1) == recipe.data.max_length else logits

    monkeypatch.setattr(GraphModel, "forward", wrong)
    with pytest.raises(UserError) as error:
        export_run(run, tmp_path / "out", "torch-export", limit=4)
    assert error.value.code == "export-differs"


@pytest.mark.parametrize(("task", "kind"), [("language", "transformer"), ("pretraining", ""), ("dependencies", "")])
def test_other_tasks(task: str, kind: str, tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exported = export_run(Run.open(tiny_run(task, kind)), tmp_path / "out", "torch-export", limit=8)
    assert exported.difference < 1e-4 and set(exported.certificate.identical.values()) == {1.0}
    monkeypatch.chdir(exported.folder)
    exec(program_in(exported.folder), {})


def test_an_export_is_checked_again(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    folder = tmp_path / "out"
    assert regard("export", run, "--to", "ctranslate2", "--folder", folder).status == 0
    lines = tmp_path / "lines.txt"
    lines.write_text("one two\nsix\n", encoding="utf-8")
    result = regard("export", "--check", folder, "--sentences", lines, "--json")
    values = json.loads(result.out)
    assert result.status == 0 and values["examples"] == 2 and values["source"] == "lines.txt"
    assert fails("export", "--check", folder, "--max-difference", 0).code == "export-differs"
    weights = folder / "model.bin"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert fails("export", "--check", folder, run).code == "damaged-file"


def test_a_check_takes_no_bounds_from_the_certificate(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    exported = export_run(Run.open(run), tmp_path / "out", "ctranslate2", bounds=lambda _: Bounds(9.0, 0.0, 0.0, 100.0))
    assert check_export(exported.folder).bounds == default_bounds(CTranslate2.search_bound, "int8", 10)
    path = exported.folder / CERTIFICATE
    manifest = Manifest.read(path)
    for bounds in ({}, {"logits": 1e9, "identical": 0.0, "search": 0.0, "score": 1e9}):
        replace(manifest, facts={**manifest.facts, "bounds": bounds}).write(path)
        assert fails("export", "--check", exported.folder, "--max-difference", 0).code == "export-differs"
        assert check_export(exported.folder).bounds.identical == 0.5


def test_outside_of_its_bounds_nothing_is_written(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    with pytest.raises(UserError) as error:
        export_run(Run.open(run), tmp_path / "out", "ctranslate2", bounds=lambda _: Bounds(0.0, 0.0, 0.0, 100.0))
    assert (error.value.code, error.value.where) == ("export-differs", str(tmp_path / "out"))
    assert list(tmp_path.iterdir()) == []
    options = ("export", run, "--to", "ctranslate2", "--folder", tmp_path / "out")
    assert fails(*options, "--max-difference", 0).code == "export-differs"
    assert regard(*options, "--min-identical", 90).status == 2, "a share, not percent"
    assert list(tmp_path.iterdir()) == []
    assert fails("export").code == "missing-option"


def test_other_weights_are_another_export(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    exported = export_run(Run.open(run), tmp_path / "out", "ctranslate2")
    other = shutil.copytree(run, tmp_path / "run")
    opened = Run.open(other)
    weights = {name: tensor + 0.1 for name, tensor in opened.model().state_dict().items()}
    opened.checkpoints.save(999, weights, {}, {"best_step": 999})
    with pytest.raises(UserError) as error:
        check_export(exported.folder, Run.open(other))
    assert error.value.code == "export-differs"


def test_bounds_of_a_certificate() -> None:
    def certificate(**changes: Any) -> Certificate:
        values: dict[str, Any] = dict(
            to="onnx", quantization="float32", run="", checkpoint="", program="", examples=1, source="", directions={},
            output="logits", difference=1e-3, identical={"greedy": 0.99, "beam 4": 0.99}, scores={"BLEU": (10.0, 9.9)},
            bytes=(1, 1), speed=(1.0, 1.0), threads=1, versions={}, bounds=Bounds(1e-3, 0.99, 0.99, 0.11),
        )  # fmt: skip
        return Certificate(**(values | changes))

    assert certificate().violations() == []
    worse: list[dict[str, Any]] = [
        {"difference": 1.1e-3}, {"difference": float("nan")}, {"identical": {"greedy": 0.98}},
        {"identical": {"beam 4": 0.98}}, {"scores": {"BLEU": (10.0, 9.8)}}, {"scores": {"BLEU": (9.8, 10.0)}},
    ]  # fmt: skip
    assert [len(certificate(**changes).violations()) for changes in worse] == [1] * len(worse)
    assert certificate(scores={"exact match": (10.0, 0.0)}).violations() == []
    assert default_bounds(1.0, "int8", 9).logits > default_bounds(1.0, "float16", 9).logits
    assert huggingface.HuggingFace.search_bound < CTranslate2.search_bound < Onnx.search_bound == 1
    assert default_bounds(0.8, "float32", 9).search < default_bounds(1.0, "float32", 9).search
    assert default_bounds(1.0, "float32", 5000).change(None, 0.5, None) == Bounds(1e-3, 0.5, 0.5, 0.1)
    assert default_bounds(1.0, "float32", 50).score == 2, "one of 50"


def test_identical_outputs_have_equal_texts_and_labels() -> None:
    first = leaves({"label": "a", "probabilities": {"a": 0.9, "b": 0.1}, "tags": ["O", 3]})
    assert is_same(first, leaves({"label": "a", "probabilities": {"a": 0.8, "b": 0.2}, "tags": ["O", 3]}), 0.0)
    assert not is_same(first, leaves({"label": "a", "probabilities": {"a": 0.9, "b": 0.1}, "tags": ["O", 4]}), 0.0)
    assert is_same([0.5], [0.505], 0.01) and not is_same([0.5], [0.52], 0.01)


def test_without_transformers_our_own_reader_compares(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface, "has_transformers", lambda: False)
    exported = export_run(Run.open(run), tmp_path / "out")
    assert exported.difference == 0 and exported.certificate.versions.keys() == {"regard", "python", "torch"}


def test_built_in_sentences_are_in_the_languages_of_a_run(run: Path) -> None:
    task = Run.open(run).task
    assert len(comparison_examples(task).examples) == 10, "the validation data"
    directions = (("en", "de"), ("de", "en"), ("ru", "de"))
    examples = built_in(SimpleNamespace(languages=Languages(directions)))  # type: ignore[arg-type]
    assert {(item["from"], item["to"]) for item in examples} == set(directions)
    assert all(item["src"] in SENTENCES["de" if item["from"] == "de" else "en"] for item in examples)
    found = Examples(spread(examples, 6), "")
    assert found.directions == {"en-de": 2, "de-en": 2, "ru-de": 2}


def test_a_missing_package_and_unsupported_models(
    run: Path, tiny_run: TinyRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = tiny_run("language", "ngram")
    assert fails("export", counted, "--to", "torch-export", "--folder", tmp_path / "out").code == "unsupported-model"
    wrong = fails("export", run, "--to", "onnx", "--quantization", "int3", "--folder", tmp_path / "out")
    assert wrong.code == "invalid-setting"
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    missing = fails("translate", run, "--engine", "onnx", stdin="one\n")
    assert missing.code == "missing-package" and "regard[onnx]" in missing.err
    assert fails("export", run, "--to", "onnx", "--folder", tmp_path / "out").code == "missing-package"
    assert not (tmp_path / "out").exists()
