"""A BERT with the head of a task: the same outputs as transformers, and an exact round trip."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from regard.attention.layouts import Padded
from regard.errors import UserError
from regard.exchange.bert import (
    SEQUENCE_CLASSIFICATION,
    SEQUENCE_REGRESSION,
    FineTunedBert,
    read_bert_tokenizer,
    read_finetuned,
    read_head,
    write_finetuned,
)
from regard.models.bert import Bert, BertSettings
from regard.models.text_encoder import EncoderWithHead
from regard.run.importing import import_model
from regard.run.run import Run
from regard.tasks.registry import TASKS
from regard.text.bert import SPECIALS, BertTokenizer
from regard.training.weights import load_weights, weights_of

pytestmark = pytest.mark.filterwarnings("ignore")  # transformers' own deprecations are not ours to mend
V, T = 40, 9
HEADS = {name: task.exchange.head for name, task in TASKS.items() if task.exchange and task.exchange.head}
LENGTHS = torch.tensor([9, 4, 7])
LABELS = ("good", "bad", "ugly")
NAMED = {"classification": 3, "regression": 1, "tagging": 3, "answering": 2, "choice": 1}


def vocabulary() -> BertTokenizer:
    return BertTokenizer([*SPECIALS, *(chr(ord("a") + n) for n in range(V - 5))])


def saved(task: str, folder: Path) -> Any:
    """A model of theirs for a task, every weight far from where it began, in a folder."""
    import transformers

    torch.manual_seed(1)
    named = {number: LABELS[number] for number in range(3)}
    kinds: dict[str, Any] = {
        "classification": dict(id2label=named, label2id={label: n for n, label in named.items()}),
        "tagging": dict(id2label=named, label2id={label: n for n, label in named.items()}),
        "regression": dict(num_labels=1, problem_type="regression"),
        "answering": {},
        "choice": {},
    }
    config = transformers.BertConfig(
        vocab_size=V, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24,
        max_position_embeddings=256, attn_implementation="eager", **kinds[task],
    )  # fmt: skip
    model = getattr(transformers, HEADS[task].architecture)(config).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    vocabulary().save_vocab_txt(folder / "vocab.txt")
    return model


def ours(loaded: FineTunedBert) -> EncoderWithHead:
    outputs = len(loaded.weights["head.bias"])
    model = EncoderWithHead(Bert(loaded.settings, V), outputs, loaded.head.pooled, 0.1).eval()
    load_weights(model, weights_of(model) | loaded.weights, "test")
    return model


def batch() -> tuple[Tensor, Tensor, Tensor]:
    """ids, segments and their attention mask."""
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(5, V, (3, T), generator=generator)
    mask = (torch.arange(T) < LENGTHS[:, None]).long()
    return ids * mask, torch.randint(0, 2, (3, T), generator=generator), mask


@torch.no_grad()
def their_answers(model: Any, task: str) -> Tensor:
    ids, segments, mask = batch()
    given = dict(input_ids=ids, token_type_ids=segments, attention_mask=mask)
    if task == "choice":  # one example of three choices
        return model(**{name: tensor[None] for name, tensor in given.items()}).logits[0, :, None]
    loaded = model(**given)
    return torch.stack([loaded.start_logits, loaded.end_logits], -1) if task == "answering" else loaded.logits


@torch.no_grad()
def our_answers(model: EncoderWithHead) -> Tensor:
    ids, segments, _ = batch()
    return model(Padded.of(ids, LENGTHS), segments)


def compare(task: str, actual: Tensor, expected: Tensor) -> None:
    real = batch()[2].bool() if not HEADS[task].pooled else slice(None)
    torch.testing.assert_close(actual[real], expected[real], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("task", HEADS)
def test_outputs_equal_transformers_and_round_trip_is_exact(task: str, tmp_path: Path) -> None:
    import transformers

    other = saved(task, tmp_path / "theirs")
    loaded = read_finetuned(tmp_path / "theirs")
    assert loaded.head == HEADS[task] and len(loaded.weights["head.bias"]) == NAMED[task]
    assert loaded.labels == {"classification": LABELS, "tagging": LABELS, "answering": ("answerable",)}.get(task, ())
    compare(task, our_answers(ours(loaded)), their_answers(other, task))

    write_finetuned(tmp_path / "ours", loaded, vocabulary())
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("theirs", "ours"))
    assert before.keys() == after.keys() and all(torch.equal(before[key], after[key]) for key in before)
    again = getattr(transformers, HEADS[task].architecture).from_pretrained(tmp_path / "ours").eval()
    assert again.config.id2label == other.config.id2label
    assert read_head(json.loads((tmp_path / "ours" / "config.json").read_text())) == HEADS[task]
    compare(task, their_answers(again, task), their_answers(other, task))


@pytest.mark.parametrize("task", HEADS)
def test_transformers_reads_what_is_written(task: str, tmp_path: Path) -> None:
    import transformers

    torch.manual_seed(4)
    settings, head = BertSettings(size="tiny", d_model=16, d_ff=24, max_positions=12), HEADS[task]
    model = EncoderWithHead(Bert(settings, V), NAMED[task], head.pooled, 0.1).eval()
    labels = LABELS if task in ("classification", "tagging") else ()
    write_finetuned(tmp_path / "bert", FineTunedBert(head, labels, settings, weights_of(model)), vocabulary())
    other = getattr(transformers, head.architecture).from_pretrained(tmp_path / "bert").eval()
    compare(task, our_answers(model), their_answers(other, task))
    if labels:
        assert [other.config.id2label[number] for number in range(3)] == list(labels)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "bert")
    read = vocabulary().build_input(vocabulary().tokenize("a b"), vocabulary().tokenize("c"))
    assert tokenizer("a b", "c").input_ids == read.ids


def test_no_answer_labels_survive_the_round_trip(tmp_path: Path) -> None:
    saved("answering", tmp_path / "theirs")
    loaded = replace(read_finetuned(tmp_path / "theirs"), labels=("answerable", "unanswerable"))
    write_finetuned(tmp_path / "ours", loaded, vocabulary())
    assert read_finetuned(tmp_path / "ours").labels == loaded.labels
    import_model(tmp_path / "ours", tmp_path / "run")
    import_model(tmp_path / "theirs", tmp_path / "other")
    tasks: list[Any] = [Run.open(tmp_path / name).task for name in ("run", "other")]
    assert [task.no_answer for task in tasks] == [True, False]


def test_the_head_of_a_config() -> None:
    one = {"architectures": ["BertForSequenceClassification"]}
    assert read_head(one) == SEQUENCE_CLASSIFICATION
    assert read_head(one | {"id2label": {"0": "LABEL_0"}}) == SEQUENCE_REGRESSION
    assert read_head(one | {"problem_type": "regression", "id2label": {"0": "a", "1": "b"}}) == SEQUENCE_REGRESSION
    assert read_head(one | {"problem_type": "single_label_classification"}) == SEQUENCE_CLASSIFICATION
    assert read_head({"architectures": ["BertModel"]}) is None and read_head({}) is None
    with pytest.raises(UserError) as error:
        read_head(one | {"problem_type": "multi_label_classification"})
    assert (error.value.code, error.value.where) == ("unsupported", "problem_type")


@pytest.mark.parametrize(
    ("changes", "code", "key"),
    [
        ({"id2label": {"0": "a", "1": "b"}}, "damaged-file", "id2label"),
        ({"id2label": {"0": "a", "1": "a", "2": "c"}}, "damaged-file", "id2label"),
        ({"id2label": {"1": "a", "2": "b", "3": "c"}}, "damaged-file", "id2label"),
        ({"architectures": ["BertModel"]}, "unsupported", "architectures"),
    ],
)
def test_labels_that_do_not_fit_are_refused(changes: dict[str, Any], code: str, key: str, tmp_path: Path) -> None:
    saved("classification", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(UserError) as error:
        read_finetuned(tmp_path)
    assert (error.value.code, error.value.where) == (code, f"{tmp_path / 'config.json'}:{key}")


def test_a_missing_head_is_an_error(tmp_path: Path) -> None:
    saved("answering", tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    save_file(
        {key: x for key, x in tensors.items() if not key.startswith("qa_outputs")}, tmp_path / "model.safetensors"
    )
    with pytest.raises(UserError) as error:
        read_finetuned(tmp_path)
    assert (error.value.code, error.value.where) == (
        "damaged-file",
        f"{tmp_path / 'model.safetensors'}:qa_outputs.weight",
    )


FIXED = {
    "model_type": "bert", "is_decoder": False, "add_cross_attention": False, "position_embedding_type": "absolute",
    "tie_word_embeddings": True,
}  # fmt: skip


@pytest.mark.parametrize("task", HEADS)
def test_the_config_of_an_export(task: str, tmp_path: Path) -> None:
    settings = BertSettings(size="tiny", d_model=16, num_heads=4, d_ff=24, layers=2, max_positions=12, dropout=0.25)
    labels = LABELS if task in ("classification", "tagging") else ()
    model = EncoderWithHead(Bert(settings, V), NAMED[task], HEADS[task].pooled, 0.1)
    write_finetuned(tmp_path / "bert", FineTunedBert(HEADS[task], labels, settings, weights_of(model)), vocabulary())
    config = json.loads((tmp_path / "bert" / "config.json").read_text())
    shape = {
        "architectures": [HEADS[task].architecture], "hidden_size": 16, "num_attention_heads": 4,
        "intermediate_size": 24, "num_hidden_layers": 2, "hidden_dropout_prob": 0.25, "max_position_embeddings": 12,
        "type_vocab_size": 2, "layer_norm_eps": 1e-12, "vocab_size": V, "initializer_range": 0.02, "pad_token_id": 0,
    }  # fmt: skip
    assert {key: config[key] for key in FIXED | shape} == FIXED | shape
    names = labels or tuple(f"LABEL_{number}" for number in range(NAMED[task]))
    expected = None if task == "choice" else {str(number): name for number, name in enumerate(names)}
    assert config.get("id2label") == expected
    assert config.get("label2id") == (None if task == "choice" else {name: n for n, name in enumerate(names)})
    problems = {"classification": "single_label_classification", "regression": "regression"}
    assert config.get("problem_type") == problems.get(task)
    pooler = any("pooler" in name for name in load_file(tmp_path / "bert" / "model.safetensors"))
    assert pooler == (task in ("classification", "regression", "choice"))


@pytest.mark.parametrize("key", FIXED)
def test_a_bert_of_another_kind_is_refused(key: str, tmp_path: Path) -> None:
    saved("classification", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    for name in FIXED:
        config.pop(name, None)
    (tmp_path / "config.json").write_text(json.dumps(config))
    read_finetuned(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config | {key: "other" if key == "model_type" else 7}))
    with pytest.raises(UserError) as error:
        read_finetuned(tmp_path)
    assert (error.value.code, error.value.where) == ("unsupported", f"{tmp_path / 'config.json'}:{key}")


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, (True, None, True)),
        ({"do_lower_case": False, "strip_accents": True}, (False, True, True)),
        ({"strip_accents": False, "tokenize_chinese_chars": False}, (True, False, False)),
    ],
)
def test_settings_of_a_tokenizer(config: dict[str, Any], expected: tuple[Any, ...], tmp_path: Path) -> None:
    vocabulary().save_vocab_txt(tmp_path / "vocab.txt")
    if config:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    loaded = read_bert_tokenizer(tmp_path)
    assert (loaded.lowercase, loaded.strip_accents, loaded.split_chinese) == expected


def test_a_config_without_epsilon_has_the_usual_one(tmp_path: Path) -> None:
    saved("classification", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"layer_norm_eps": 1e-5}))
    assert read_finetuned(tmp_path).settings.epsilon == 1e-5
    del config["layer_norm_eps"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert read_finetuned(tmp_path).settings.epsilon == 1e-12
    del config["hidden_size"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError) as error:
        read_finetuned(tmp_path)
    assert (error.value.code, error.value.where) == ("damaged-file", f"{tmp_path / 'config.json'}:hidden_size")
