"""regard translate --engine: every engine gives the same translations."""

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.cli.command import fails, regard
from tests.tiny import number_sentences, translate_words

from regard.decoding.stepper import Ensemble, Symbols
from regard.engines.fused import FusedTransformer
from regard.engines.stepper_engine import StepperEngine
from regard.exchange.ctranslate2 import write_ctranslate2
from regard.files import Manifest
from regard.models.transformer import Transformer
from regard.run.model import Translator

LINES = number_sentences()[:12]
TEXT = "\n".join(LINES) + "\n"
EXPORT = Path("exports/ctranslate2-int8-best")


def test_every_engine_gives_the_same_translations(copied: Path) -> None:
    pytest.importorskip("ctranslate2")
    for search in (["--search", "greedy"], ["--beam", 3]):
        readable = regard("translate", copied, "--engine", "readable", *search, stdin=TEXT)
        assert readable.lines == [translate_words(line) for line in LINES]
        for engine in (["torch"], ["ctranslate2"], ["ctranslate2", "--quantization", "float32"]):
            assert regard("translate", copied, "--engine", *engine, *search, stdin=TEXT).out == readable.out, engine


def test_the_first_use_of_an_engine_reports_its_export(copied: Path) -> None:
    pytest.importorskip("ctranslate2")
    first, second = (regard("translate", copied, "--engine", "ctranslate2", stdin=TEXT).err for _ in range(2))
    assert "ctranslate2" in first and "ctranslate2" not in second
    shutil.rmtree(copied / EXPORT)
    assert "ctranslate2" in regard("inspect", copied, "one two", "--engine", "ctranslate2").err


def test_every_engine_gives_the_same_scores(copied: Path) -> None:
    pytest.importorskip("ctranslate2")
    options = ("--beam", 4, "--nbest", 2, "--prefix", "eins")

    def scores(*engine: object) -> list[float]:
        lines = regard("translate", copied, *options, "--engine", *engine, stdin=TEXT).lines
        return [float(line.rpartition(" ||| ")[2]) for line in lines[::2]]

    readable = scores("readable")
    assert scores("torch") == pytest.approx(readable, abs=2e-4)
    assert scores("ctranslate2", "--quantization", "float32") == pytest.approx(readable, abs=2e-4)


def test_torch_uses_fused_layers_on_a_cpu(trained: Path) -> None:
    def stepper(*runs: Path, **options: Any) -> Any:
        engine = Translator.load(*runs, device="cpu", **options).engine
        assert isinstance(engine, StepperEngine)
        return engine.stepper

    assert isinstance(stepper(trained), FusedTransformer)
    assert isinstance(stepper(trained, engine="readable"), Transformer)
    several = stepper(trained, trained)
    assert isinstance(several, Ensemble) and all(isinstance(each, FusedTransformer) for each in several.steppers)


@pytest.mark.parametrize("options", [{}, {"precision": "auto"}])
def test_a_cpu_computes_in_32_bits_by_default(trained: Path, options: dict[str, str]) -> None:
    for engine in ("torch", "readable"):
        translator = Translator.load(trained, device="cpu", engine=engine, **options)
        assert {weight.dtype for weight in translator.models[0].parameters()} == {torch.float32}


def test_a_model_is_converted_once_and_again_if_it_changed(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ctranslate2")
    made: list[Path] = []

    def counted(model: Transformer, symbols: Symbols, folder: Path, quantization: str) -> None:
        made.append(folder)
        write_ctranslate2(model, symbols, folder, quantization)

    monkeypatch.setattr("regard.export.targets.write_ctranslate2", counted)

    def conversions() -> int:
        before = len(made)
        translator = Translator.load(copied, engine="ctranslate2")
        assert translator.translate(LINES) == [translate_words(line) for line in LINES]
        return len(made) - before

    assert conversions() == 1
    assert [folder.parents[1] for folder in made] == [copied / EXPORT.parent], "written beside its place"
    assert sorted(path.name for path in (copied / EXPORT).iterdir()) == [
        "config.json", "manifest.json", "model.bin", "shared_vocabulary.json", "tokenizer.json",
    ]  # fmt: skip
    assert conversions() == 0
    content = bytearray((copied / EXPORT / "model.bin").read_bytes())
    content[len(content) // 2] ^= 1
    (copied / EXPORT / "model.bin").write_bytes(content)
    assert conversions() == 1, "a file that is damaged"
    manifest = copied / EXPORT / "manifest.json"
    manifest.write_text("{", encoding="utf-8")
    assert conversions() == 1, "a damaged manifest"
    Manifest(2, {"weights": "others"}).write(manifest)
    assert conversions() == 1, "other weights"
    assert conversions() == 0


def test_the_model_is_loaded_only_if_it_is_needed(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ctranslate2")
    assert regard("translate", copied, "--engine", "ctranslate2", stdin=TEXT).status == 0
    monkeypatch.setattr("regard.tasks.translation.Translation.new_model", lambda task: pytest.fail("it is not needed"))
    assert regard("translate", copied, "--engine", "ctranslate2", stdin=TEXT).lines[0] == translate_words(LINES[0])


def test_the_model_of_a_read_only_run_is_converted_elsewhere(copied: Path) -> None:
    pytest.importorskip("ctranslate2")
    shutil.rmtree(copied / "exports", ignore_errors=True)  # of an earlier test with the same run
    (copied / "exports").write_text("in the way", encoding="utf-8")
    drawn = regard("translate", copied, "--engine", "ctranslate2", "--top-k", 1, stdin=TEXT)  # which loads it once more
    assert drawn.lines == [translate_words(line) for line in LINES]
    assert (copied / "exports").is_file()


def test_errors(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = shutil.copytree(trained, tmp_path / "other")
    assert fails("translate", trained, "--engine", "tensorflow").code == "invalid-option"
    assert fails("translate", trained, "--quantization", "int8").code == "unsupported-option"
    engine = ("--engine", "ctranslate2")
    assert fails("translate", trained, other, *engine).code == "unsupported-option"
    assert fails("translate", trained, *engine, "--precision", "bf16").code == "unsupported-option"
    assert fails("translate", trained, "--engine", "onnx", "--device", "cuda").code == "unsupported-option"
    assert "int8" in fails("translate", trained, *engine, "--quantization", "int3", stdin="one\n").err
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    assert "pip install 'regard[ctranslate2]'" in fails("translate", trained, *engine, stdin="one\n").err
