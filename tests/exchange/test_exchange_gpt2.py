"""GPT-2 as a language-model run: the tokens, logits and greedy continuations of transformers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.exchange.byte_level import HARD_TEXTS, learn, write
from torch import nn

from regard.errors import UserError
from regard.exchange.folders import open_model
from regard.exchange.gpt2 import END, read_gpt2, read_tokenizer
from regard.run.importing import import_model
from regard.run.model import Model
from regard.text.symbols import BOS, PAD

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")  # transformers' own deprecations are not ours to mend


def saved(folder: Path, **options: Any) -> Any:
    """A model of theirs with random weights in a folder, with its vocabulary."""
    vocab, merges = learn([], [END])
    torch.manual_seed(1)
    values = dict(vocab_size=len(vocab), n_embd=16, n_layer=2, n_head=4, n_positions=64) | options
    config = transformers.GPT2Config(bos_token_id=vocab[END], eos_token_id=vocab[END], **values)
    model = transformers.GPT2LMHeadModel(config).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    write(folder, vocab, merges)
    return model


@pytest.mark.parametrize("options", [{}, {"n_inner": 20, "vocab_size": 336, "activation_function": "relu"}])
@torch.no_grad()
def test_logits_equal_transformers(options: dict[str, Any], tmp_path: Path) -> None:
    theirs = saved(tmp_path / "theirs", **options)
    imported = import_model(tmp_path / "theirs", tmp_path / "run")
    assert imported.random_weights == [] and imported.run.recipe.task == "language"
    _, rows = read_tokenizer(tmp_path / "theirs", theirs.config.vocab_size)
    ids = torch.randint(3, len(rows), (3, 12), generator=torch.Generator().manual_seed(2))
    logits = imported.run.model()(ids)[0].logits()
    expected = theirs(torch.tensor(rows)[ids]).logits[..., rows]
    real = [token for token in range(len(rows)) if token not in (PAD, BOS)]
    torch.testing.assert_close(logits[..., real], expected[..., real], atol=1e-5, rtol=1e-5)
    assert float(logits[..., [PAD, BOS]].max()) < -500


def test_tokens_and_greedy_continuations_equal_transformers(tmp_path: Path) -> None:
    theirs = saved(tmp_path / "theirs")
    tokenizer = transformers.GPT2Tokenizer.from_pretrained(tmp_path / "theirs")
    tokenizer.save_pretrained(tmp_path / "json")
    for folder in ("theirs", "json"):
        ours, rows = read_tokenizer(tmp_path / folder, theirs.config.vocab_size)
        for text in HARD_TEXTS:
            assert [rows[token] for token in ours.encode(text)] == tokenizer(text)["input_ids"]
            assert ours.decode(ours.encode(text)) == text
    model: Any = Model.load(import_model(tmp_path / "theirs", tmp_path / "run").run.folder)
    prompts = ["the cat", "a", "naïve café, 12"]
    task = model.task.configure(search="greedy", max_length=8)
    predictions = list(task.predict(model.engine, [{"text": prompt} for prompt in prompts]))
    for prompt, prediction in zip(prompts, predictions, strict=True):
        given = tokenizer(prompt, return_tensors="pt")
        expected = theirs.generate(**given, do_sample=False, max_new_tokens=8, pad_token_id=0)[0].tolist()
        tokens = prediction["continuations"][0]["tokens"]
        assert [rows[token] for token in tokens] == expected and len(tokens) > len(task.tokenizer.encode(prompt))


def test_what_is_not_a_language_model_is_refused(tmp_path: Path) -> None:
    saved(tmp_path / "theirs", layer_norm_epsilon=1e-6)
    with pytest.raises(UserError) as error:
        import_model(tmp_path / "theirs", tmp_path / "run")
    assert error.value.code == "unsupported" and error.value.where.endswith("config.json:layer_norm_epsilon")
    saved(tmp_path / "other")
    files = open_model(tmp_path / "other")
    with pytest.raises(UserError) as error:
        read_gpt2(replace(files, tensors=files.tensors | {"score.weight": torch.ones(2)}))
    assert error.value.code == "unsupported"
