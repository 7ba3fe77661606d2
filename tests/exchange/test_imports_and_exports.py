"""A model of another program becomes a run and a run a model of another program, and both say the same."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.cli.command import refused, regard
from tests.exchange.test_exchange_bert import LABELS, saved, their_answers, vocabulary
from tests.exchange.test_marian_tokenizers import write_marian_folder

from regard.attention.layouts import Padded
from regard.errors import UserError
from regard.exchange.marian import read_marian
from regard.recipe import build_recipe
from regard.run import Predictor, Run, Translator, exporting, train
from regard.run.doctor import examine
from regard.run.explaining import explain
from regard.run.exporting import export_run
from regard.run.importing import import_model
from regard.text.bert import BertTokenizer
from regard.training.log import Logs

pytestmark = pytest.mark.filterwarnings("ignore")  # transformers' own deprecations are not ours to mend
TASKS = ("classification", "regression", "tagging", "answering", "choice")


def duplicates(text: str) -> None:
    """Say nothing."""


def bare(folder: Path, kind: str = "BertModel") -> Any:
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


def test_a_bare_bert_is_a_pretrained_run_whose_questions_are_drawn(tmp_path: Path) -> None:
    other = bare(tmp_path / "bert")
    done = import_model(tmp_path / "bert", tmp_path / "run")
    assert done.run.recipe.task == "pretraining" and done.run.recipe.data.train == []
    assert {name.split(".")[0] for name in done.drawn} == {"masked", "next"}
    assert done.weights == sum(parameter.numel() for parameter in other.parameters())
    model = Run.open(tmp_path / "run").model()
    ids = torch.randint(5, 40, (2, 6), generator=torch.Generator().manual_seed(1))
    h = model.bert(Padded.of(ids, torch.tensor([6, 6])))
    torch.testing.assert_close(h, other(input_ids=ids).last_hidden_state, atol=1e-5, rtol=1e-5)
    import_model(tmp_path / "bert", tmp_path / "again")
    drawn = [
        load_file(next((tmp_path / name).glob("checkpoints/step-*/model.safetensors"))) for name in ("run", "again")
    ]
    assert all(torch.equal(drawn[0][name], drawn[1][name]) for name in done.drawn)
    assert export_run(done.run, tmp_path / "out").difference == 0.0  # and what was drawn is not given out as learnt
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("bert", "out"))
    assert before.keys() == after.keys() and all(torch.equal(before[key], after[key]) for key in before)
    pair = {"text": "un [MASK]", "pair": "cats"}
    with pytest.raises(UserError, match=r"was imported without what fills in \[MASK\]"):
        next(Predictor(done.run).predict([pair]))
    assert "masks" not in explain(Predictor(done.run), pair).said
    bare(tmp_path / "words", "BertForMaskedLM")
    half = Predictor(import_model(tmp_path / "words", tmp_path / "half").run)
    assert "masks" in (said := next(half.predict([pair]))) and "next" not in said, "nobody taught it what comes next"
    bare(tmp_path / "whole", "BertForPreTraining")
    assert import_model(tmp_path / "whole", tmp_path / "other").drawn == []


@pytest.mark.parametrize("task", TASKS)
def test_a_finetuned_bert_says_the_same_as_a_run_and_comes_back_to_the_bit(task: str, tmp_path: Path) -> None:
    other = saved(task, tmp_path / "theirs")
    done = import_model(tmp_path / "theirs", tmp_path / "run")
    run = Run.open(tmp_path / "run")
    assert run.recipe.task == task
    assert run.labels == {"classification": LABELS, "tagging": LABELS, "answering": ("answerable",)}.get(task, ())
    assert done.drawn == ([] if run.task().pooled else ["encoder.pooler.weight", "encoder.pooler.bias"])
    from tests.exchange.test_exchange_bert import compare, our_answers

    compare(task, our_answers(run.model()), their_answers(other, task))
    if done.drawn:
        with pytest.raises(UserError, match="without a pooler"):
            next(Predictor(run).embed(["cats"], pool="pooler"))
    assert {check.status for check in examine(str(tmp_path / "run"))} >= {"fail", "skip"}, "there is no data to examine"
    out = export_run(run, tmp_path / "out")
    assert out.difference == 0.0
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("theirs", "out"))
    assert before.keys() == after.keys() and all(torch.equal(before[key], after[key]) for key in before)


def test_a_marian_translates_is_scored_and_another_run_starts_from_it(tmp_path: Path) -> None:
    write_marian_folder(tmp_path / "opus")
    done = import_model(tmp_path / "opus", tmp_path / "run")
    assert done.drawn == [] and done.run.recipe.decoding.beam == 6
    assert (done.run.recipe.text.kind, done.run.recipe.text.joint, done.run.recipe.model.tie) == (
        "imported",
        False,
        "all",
    )
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
    tuned = train(recipe, tmp_path / "tuned", say=duplicates, log=Logs())
    assert tuned.outcome.step == 3
    weights = tuned.run.model("last").state_dict()
    assert any(not torch.equal(weights[name], tensor) for name, tensor in done.run.model().state_dict().items())

    with pytest.raises(UserError, match="names no train data: the model was not trained here"):
        train(done.run.recipe, tmp_path / "run", resume=True, say=duplicates, log=Logs())
    with pytest.raises(UserError, match='a tokenizer of kind "imported" comes with a model'):
        train(
            build_recipe(
                {name: values[name] for name in ("name", "data", "training")} | {"text": {"kind": "imported"}}, "test"
            ),
            tmp_path / "new",
            say=duplicates,
        )


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_translator_goes_out_and_comes_back_through_the_command_line(norm: str, tmp_path: Path) -> None:
    run = trained(tmp_path, norm=norm)
    out = regard("export", run, "--folder", tmp_path / "out")
    assert out.status == 0, out.err
    assert "read back, its logits differ from the run's by at most 0.0e+00" in out.out
    back = regard("import", tmp_path / "out", "--folder", tmp_path / "back", "--json")
    assert back.status == 0, back.err
    said = json.loads(back.out)
    assert said["task"] == "translation" and said["drawn"] == []
    one, other = (
        regard("translate", folder, "--device", "cpu", "--beam", 4, stdin="ab cd\nhi\n")
        for folder in (run, tmp_path / "back")
    )
    assert one.status == other.status == 0 and one.out == other.out
    assert "use it: regard translate" in regard("import", tmp_path / "out", "--folder", tmp_path / "third").out
    assert "is there already" in refused("import", tmp_path / "out", "--folder", tmp_path / "back")
    assert "is there already" in refused("export", run, "--folder", tmp_path / "out")


def test_ctranslate2_gets_the_same_model(tmp_path: Path) -> None:
    run = trained(tmp_path, norm="pre")
    out = regard("export", run, "--to", "ctranslate2", "--quantization", "float32", "--json")
    assert out.status == 0, out.err
    said = json.loads(out.out)
    assert 0 < said["difference"] < 1e-4 and Path(said["folder"]) == run / "exports" / "ctranslate2-best"
    assert (Path(said["folder"]) / "tokenizer.json").exists()
    small = regard("export", run, "--to", "ctranslate2", "--folder", tmp_path / "int8", "--json")
    assert json.loads(small.out)["difference"] > said["difference"]
    assert "--quantization is for --to ctranslate2" in refused("export", run, "--quantization", "int8")
    assert "write one of huggingface, ctranslate2" in refused("export", run, "--to", "onnx")


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
    return train(build_recipe(values, "test"), folder / "run", say=duplicates, log=Logs()).run.folder


def test_what_has_no_counterpart_is_refused(tmp_path: Path) -> None:
    run = trained(tmp_path, kind="recurrent", d_model=8)
    said = refused("export", run, "--folder", tmp_path / "out")
    assert "no model of transformers is like that of" in said and "task translation" in said
    assert "CTranslate2 cannot run the model of" in refused(
        "export", run, "--to", "ctranslate2", "--folder", tmp_path / "out"
    )
    shutil.rmtree(run)
    learned = trained(tmp_path, positions="learned")
    assert "model.positions = 'learned'" in refused("export", learned, "--folder", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_folders_that_cannot_be_read_are_refused_and_nothing_is_left(tmp_path: Path) -> None:
    bare(tmp_path / "bert")
    config = json.loads((tmp_path / "bert" / "config.json").read_text())
    target = tmp_path / "run"
    assert "there is no such folder" in refused("import", tmp_path / "nowhere", "--folder", target)
    assert "config.json: no such file" in refused("import", tmp_path, "--folder", target)
    (tmp_path / "bert" / "config.json").write_text(json.dumps(config | {"model_type": "gpt2"}))
    assert "model_type = 'gpt2' is none of bert, marian, pegasus" in refused(
        "import", tmp_path / "bert", "--folder", target
    )
    (tmp_path / "bert" / "config.json").write_text(json.dumps(config))
    weights = tmp_path / "bert" / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    assert "model.safetensors is damaged" in refused("import", tmp_path / "bert", "--folder", target)
    weights.write_bytes(whole)
    entries = tmp_path / "bert" / "vocab.txt"
    text = entries.read_text()
    entries.write_text(text.removesuffix("\n").rpartition("\n")[0] + "\n")
    assert "the model has 40 words, its vocabulary 39" in refused("import", tmp_path / "bert", "--folder", target)
    entries.unlink()
    assert "vocab.txt: no such file" in refused("import", tmp_path / "bert", "--folder", target)
    entries.write_text(text)
    assert not target.exists() and not list(tmp_path.glob(".*.partial"))
    done = regard("import", tmp_path / "bert", "--folder", target)
    assert done.status == 0 and "holds no masked" in done.err and "written to" in done.out


def test_a_run_made_of_theirs_notices_another_vocabulary(tmp_path: Path) -> None:
    write_marian_folder(tmp_path / "opus")
    import_model(tmp_path / "opus", tmp_path / "run")
    path = tmp_path / "run" / "src.tokenizer.json"
    path.write_text(path.read_text().replace("▁cat", "▁dog"))
    with pytest.raises(UserError, match="is damaged: it is not what the run was begun with"):
        Translator.load(tmp_path / "run", device="cpu")
    assert read_marian(tmp_path / "opus").settings.output_bias


def test_weights_that_are_no_numbers_and_other_pieces_are_kept_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare(tmp_path / "bert")
    run = import_model(tmp_path / "bert", tmp_path / "run").run
    monkeypatch.setattr(
        exporting, "read_bert_tokenizer", lambda _: BertTokenizer(vocabulary().entries, lowercase=False)
    )
    with pytest.raises(UserError, match="its vocabulary, read back, is another than the run's"):
        export_run(run, tmp_path / "out")
    weights = run.model().state_dict()
    weights["bert.layers.0.feedforward.fc1.weight"][0, 0] = float("nan")
    run.checkpoints.save(1, weights, {}, {"best_step": 1})
    with pytest.raises(UserError, match="are not all numbers"):
        export_run(run, tmp_path / "nan")
    assert not (tmp_path / "nan").exists()
