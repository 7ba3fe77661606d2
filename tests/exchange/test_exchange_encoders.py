"""RoBERTa and DistilBERT as runs: the tokens, outputs and predictions of transformers."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.exchange.byte_level import HARD_TEXTS, learn, write
from tokenizers import AddedToken
from torch import Tensor, nn

from regard.attention.layouts import Padded
from regard.errors import UserError
from regard.exchange.bert import read_roberta_tokenizer
from regard.run.importing import import_model
from regard.run.model import Model
from regard.run.run import Run
from regard.run.train import train
from regard.tasks.registry import build_recipe
from regard.text.bert import SPECIALS, BertTokenizer

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")  # transformers' own deprecations are not ours to mend
LABELS = {0: "good", 1: "bad", 2: "ugly"}
NAMED = dict(id2label=LABELS, label2id={label: number for number, label in LABELS.items()})
ROBERTA_SPECIALS = ["<s>", "<pad>", "</s>", "<unk>"]
TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "classification": ("SequenceClassification", NAMED),
    "regression": ("SequenceClassification", dict(num_labels=1, problem_type="regression")),
    "tagging": ("TokenClassification", NAMED),
    "answering": ("QuestionAnswering", {}),
    "choice": ("MultipleChoice", {}),
    "pretraining": ("MaskedLM", {}),
}
FAMILIES = ("Roberta", "DistilBert")


def saved(family: str, task: str, folder: Path) -> Any:
    """A model of theirs with random weights in a folder, and its tokenizer."""
    name, options = TASKS[task]
    torch.manual_seed(1)
    if family == "Roberta":
        vocab, merges = learn(ROBERTA_SPECIALS, ["<mask>"])
        config = transformers.RobertaConfig(
            vocab_size=len(vocab), hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24,
            max_position_embeddings=258, type_vocab_size=1, layer_norm_eps=1e-5, **options,
        )  # fmt: skip
        write(folder, vocab, merges)
    else:
        tokens = BertTokenizer([*SPECIALS, *"abcdefghijklmnopqrstuvwxyz.,", *(f"##{letter}" for letter in "abcdest")])
        config = transformers.DistilBertConfig(
            vocab_size=len(tokens), dim=16, n_layers=2, n_heads=4, hidden_dim=24, max_position_embeddings=256, **options
        )
        folder.mkdir()
        tokens.save_vocab_txt(folder / "vocab.txt")
    model = getattr(transformers, f"{family}For{name}")(config).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    return model


def inputs(run: Run) -> tuple[Tensor, Tensor, Tensor]:
    """ids, lengths and attention mask of some texts."""
    pad, lengths = run.task.tokenizer.pad, torch.tensor([9, 4, 7])  # type: ignore[attr-defined]
    ids = torch.randint(5, 30, (3, 9), generator=torch.Generator().manual_seed(2))
    mask = torch.arange(9) < lengths[:, None]
    return ids.masked_fill(~mask, pad), lengths, mask


@torch.no_grad()
def our_outputs(run: Run, task: str) -> Tensor:
    ids, lengths, _ = inputs(run)
    model, tokens = run.model(), Padded.of(ids, lengths)
    segments = torch.arange(9).ge(4).long().expand_as(ids)  # both texts of a pair are of the only segment
    if task == "pretraining":
        logits = model(tokens, segments, torch.arange(ids.numel()))[0].logits()
        return logits.unflatten(0, ids.shape)
    return model(tokens, segments)


@torch.no_grad()
def their_outputs(model: Any, run: Run, task: str) -> Tensor:
    ids, _, mask = inputs(run)
    given = dict(input_ids=ids, attention_mask=mask.long())
    if task == "choice":
        return model(**{name: tensor[None] for name, tensor in given.items()}).logits[0, :, None]
    outputs = model(**given)
    return torch.stack([outputs.start_logits, outputs.end_logits], -1) if task == "answering" else outputs.logits


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("family", FAMILIES)
def test_outputs_equal_transformers(family: str, task: str, tmp_path: Path) -> None:
    theirs = saved(family, task, tmp_path / "theirs")
    imported = import_model(tmp_path / "theirs", tmp_path / "run")
    assert imported.run.recipe.task == task
    if task in ("classification", "tagging"):
        assert imported.run.task.labels == tuple(LABELS.values())
    ours, expected = our_outputs(imported.run, task), their_outputs(theirs, imported.run, task)
    per_token = task in ("tagging", "answering", "pretraining")
    real = inputs(imported.run)[2] if per_token else slice(None)
    torch.testing.assert_close(ours[real], expected[real], atol=1e-5, rtol=1e-5)


def test_the_tokenizer_of_roberta(tmp_path: Path) -> None:
    vocab, merges = learn(ROBERTA_SPECIALS, ["<mask>"])
    write(tmp_path / "files", vocab, merges)
    pairs, mask = [tuple(merge.split(" ")) for merge in merges], AddedToken("<mask>", lstrip=True)
    theirs = transformers.RobertaTokenizer(vocab=vocab, merges=pairs, mask_token=mask)
    theirs.save_pretrained(tmp_path / "json")
    for folder in ("files", "json"):
        ours = read_roberta_tokenizer(tmp_path / folder)
        for text in [*HARD_TEXTS, "the <mask> sat", "<mask><mask> x"]:
            assert ours.encode(text) == theirs(text, add_special_tokens=False)["input_ids"]
            pair = ours.build_input(ours.tokenize(text), ours.tokenize("a cat"))
            assert pair.ids == theirs(text, "a cat")["input_ids"]
            if "<" not in text:
                assert ours.decode(ours.encode(text)) == text
        spans = theirs("the naïve cat", add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        assert ours.tokenize("the naïve cat").spans == spans
    assert ours.tokens(ours.encode("a cat"))[1].startswith("␣")


def test_masked_words_and_embeddings_of_roberta(tmp_path: Path) -> None:
    theirs = saved("Roberta", "pretraining", tmp_path / "theirs")
    model = Model.load(import_model(tmp_path / "theirs", tmp_path / "run").run.folder)
    prediction = model.predict("the <mask> sat on the mat")
    mask = AddedToken("<mask>", lstrip=True)
    tokenizer = transformers.RobertaTokenizer.from_pretrained(tmp_path / "theirs", mask_token=mask)
    ids = tokenizer("the <mask> sat on the mat", return_tensors="pt")
    with torch.no_grad():
        logits = theirs(**ids).logits[0, ids["input_ids"][0].tolist().index(tokenizer.mask_token_id)]
    best = prediction["masks"][0][0]
    assert best["probability"] == pytest.approx(float(logits.softmax(-1).max()), abs=1e-5)
    assert best["token"].replace("␣", " ") == tokenizer.decode([int(logits.argmax())])


def test_answers_of_roberta_have_two_separators(tmp_path: Path) -> None:
    theirs = saved("Roberta", "answering", tmp_path / "theirs")
    model = Model.load(import_model(tmp_path / "theirs", tmp_path / "run").run.folder)
    tokenizer = transformers.RobertaTokenizer.from_pretrained(tmp_path / "theirs")
    question, context = "who sat?", "a cat and a hat sat on the mat"
    given = tokenizer(question, context, return_tensors="pt", return_offsets_mapping=True)
    spans = given.pop("offset_mapping")[0].tolist()
    with torch.no_grad():
        start, end = theirs(**given).start_logits[0], theirs(**given).end_logits[0]
    first = len(tokenizer(question)["input_ids"]) + 1
    scores = {
        (i, j): float(start[i] + end[j])
        for i in range(first, len(spans) - 1)
        for j in range(i, min(i + 30, len(spans) - 1))
    }
    i, j = max(scores, key=scores.__getitem__)
    prediction = model.predict({"question": question, "context": context})
    assert prediction["answer"] == context[spans[i][0] : spans[j][1]]


def test_a_file_of_weights_needs_its_config(tmp_path: Path) -> None:
    for name in ("model.safetensors", "model.onnx"):
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(UserError) as error:
            import_model(tmp_path / name, tmp_path / "run")
        assert error.value.code == "missing-file" and str(error.value.where).endswith("config.json")


def test_a_pickle_is_read_only_when_asked(tmp_path: Path) -> None:
    model = saved("DistilBert", "classification", tmp_path / "theirs")
    torch.save(model.state_dict(), tmp_path / "theirs" / "pytorch_model.bin")
    (tmp_path / "theirs" / "model.safetensors").unlink()
    with pytest.raises(UserError) as error:
        import_model(tmp_path / "theirs", tmp_path / "run")
    assert error.value.code == "missing-file"
    imported = import_model(tmp_path / "theirs", tmp_path / "run", allow_pickle=True)
    ours, expected = our_outputs(imported.run, "classification"), their_outputs(model, imported.run, "classification")
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)
    torch.save({"weight": Path("code")}, tmp_path / "theirs" / "pytorch_model.bin")
    with pytest.raises(UserError) as error:
        import_model(tmp_path / "theirs", tmp_path / "other", allow_pickle=True)
    assert error.value.code == "damaged-file"


def test_pretraining_continues_from_roberta(tmp_path: Path) -> None:
    saved("Roberta", "pretraining", tmp_path / "theirs")
    imported = import_model(tmp_path / "theirs", tmp_path / "run")
    (tmp_path / "text.txt").write_text(
        "the cat sat on the mat\na cat and a hat\n\nnaïve café in Zürich\nthe hat\n\n" * 4
    )
    data: dict[str, Any] = {"root": str(tmp_path), "max_length": 32, "next_sentence": False, "whole_words": True}
    data |= {split: {"file": "text.txt", "boundary": "blank"} for split in ("train", "valid")}
    training = {"max_steps": 2, "validate_every": 2, "batch_tokens": 64, "samples": 1}
    values = {"name": "more", "task": "pretraining", "start_from": str(tmp_path / "run"), "data": data}
    recipe = build_recipe(values | {"training": training, "runtime": {"device": "cpu"}}, "test")
    tuned = train(recipe, tmp_path / "more", report=lambda line: None).run
    assert tuned.recipe.text.kind == "imported"  # type: ignore[attr-defined]
    before, after = imported.run.model().state_dict(), tuned.model("last").state_dict()
    assert not torch.equal(before["bert.words.weight"], after["bert.words.weight"])
