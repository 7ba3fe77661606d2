"""Exports with a certificate: the exported model and the run translate alike, and what differs is an error."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.cli.command import fails, regard
from tests.conftest import TinyRun
from tests.tiny import number_sentences, translate_words

from regard.errors import UserError
from regard.files import digest
from regard.run import exporting
from regard.run.certificate import CERTIFICATE, Bounds, Certificate, default_bounds
from regard.run.certifying import is_same, leaves
from regard.run.export_examples import SENTENCES, Examples, built_in, comparison_examples, spread
from regard.run.export_readme import README, WRITE, fill
from regard.run.exporting import Exported, check_export, export_run
from regard.run.model import Model, Translator
from regard.run.run import Run

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
    match = re.search(r"```python\n(.*?)```", (folder / README).read_text(encoding="utf-8"), re.DOTALL)
    assert match is not None
    return match[1]


def test_the_certificate_of_an_export(onnx: Exported, run: Path) -> None:
    values = read(onnx.folder)
    assert values["difference"] < 1e-4 and values["identical"] == {"greedy": 1.0} and values["violations"] == []
    assert values["scores"]["exact match"] == [100.0, 100.0]
    assert (values["to"], values["quantization"], values["checkpoint"], values["run"]) == (
        "onnx", "float32", "best", str(run),
    )  # fmt: skip
    assert values["examples"] == 10 and values["source"] == "validation data"
    files = [path for path in onnx.folder.rglob("*") if path.is_file() and path.name != CERTIFICATE]
    assert {name: entry["sha256"] for name, entry in values["files"].items()} == {
        path.name: digest(path) for path in files
    }
    assert values["bytes"][1] == sum(path.stat().st_size for path in files)
    assert min(values["speed"]) > 0 and {"regard", "onnxruntime", "torch"} <= values["versions"].keys()


def test_the_example_of_a_program_stays_as_it_is(run: Path) -> None:
    program = fill(Run.open(run).task, WRITE, {"src": "SEND ALL LABELS, START AT SHOWN"})
    assert "print(translate('SEND ALL LABELS, START AT SHOWN'))" in program and "END" not in program.split("print")[0]


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

    monkeypatch.setattr(exporting, "write_graphs", copy)
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
    from regard.engines.onnx import onnx_engine
    from regard.tasks.seq2seq import SYMBOLS

    task: Any = Run.open(run).task.configure(search="beam", beam=4, nbest=3)
    examples = [{"src": line, "prefix": "eins"} for line in LINES[:4]]
    ours = task.predict(Model([Run.open(run)], device="cpu").engine, examples)
    theirs = task.predict(onnx_engine(onnx.folder, SYMBOLS), examples)
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
    for text in ("a lovely film", "a dull book"):
        best = ("bad", "good")[values["logits"](text)[0].argmax()]
        assert best == Model([run], device="cpu").predict(text)["label"]


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
    assert default_bounds("onnx", "int8", 9).logits > default_bounds("ctranslate2", "float16", 9).logits
    assert default_bounds("huggingface", "float32", 9).search < default_bounds("onnx", "float32", 9).search
    assert default_bounds("onnx", "float32", 5000).change(None, 0.5, None) == Bounds(1e-3, 0.5, 0.5, 0.1)
    assert default_bounds("onnx", "float32", 50).score == 2, "one of 50"


def test_identical_outputs_have_equal_texts_and_labels() -> None:
    first = leaves({"label": "a", "probabilities": {"a": 0.9, "b": 0.1}, "tags": ["O", 3]})
    assert is_same(first, leaves({"label": "a", "probabilities": {"a": 0.8, "b": 0.2}, "tags": ["O", 3]}), 0.0)
    assert not is_same(first, leaves({"label": "a", "probabilities": {"a": 0.9, "b": 0.1}, "tags": ["O", 4]}), 0.0)
    assert is_same([0.5], [0.505], 0.01) and not is_same([0.5], [0.52], 0.01)


def test_without_transformers_our_own_reader_compares(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "has_transformers", lambda: False)
    exported = export_run(Run.open(run), tmp_path / "out")
    assert exported.difference == 0 and exported.certificate.versions.keys() == {"regard", "python", "torch"}


def test_built_in_sentences_are_in_the_languages_of_a_run(run: Path) -> None:
    task = Run.open(run).task
    assert len(comparison_examples(task).examples) == 10, "the validation data"
    other = SimpleNamespace(directions=(("en", "de"), ("de", "en"), ("ru", "de")))
    examples = built_in(other)  # type: ignore[arg-type]
    assert {(item["from"], item["to"]) for item in examples} == set(other.directions)
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
