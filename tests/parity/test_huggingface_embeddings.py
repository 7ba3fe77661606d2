"""Embeddings equal the hidden states of Hugging Face's BERT with the same weights, and the means of sentence encoders.

Nothing is downloaded: the model is small and random, saved by transformers and imported.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import nn

from regard.run.importing import import_model
from regard.run.model import Model
from regard.text.bert import SPECIALS, BertTokenizer

pytestmark = pytest.mark.filterwarnings("ignore")  # deprecations inside transformers

WORDS = ["the", "cat", "sat", "on", "mat", ".", "a", "dog", "and", "##s"]
TEXTS = ["the cats sat on the mat .", "a dog", "on the mat sat the dog and the cat and the dogs", "the cat", "cat"]


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, Model]:
    """The model and the tokenizer of transformers, and the imported run."""
    import transformers

    folder: Path = tmp_path_factory.mktemp("huggingface")
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=len(SPECIALS) + len(WORDS), hidden_size=16, num_hidden_layers=3, num_attention_heads=4,
        intermediate_size=24, max_position_embeddings=24,
    )  # fmt: skip
    model = transformers.BertForPreTraining(config).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder / "model")
    own_tokenizer = BertTokenizer([*SPECIALS, *WORDS])
    own_tokenizer.save(folder / "model" / "tokenizer.json")
    own_tokenizer.save_vocab_txt(folder / "model" / "vocab.txt")
    tokenizer = transformers.BertTokenizerFast(vocab=str(folder / "model" / "vocab.txt"))
    import_model(folder / "model", folder / "run")
    return model.bert, tokenizer, Model.load(folder / "run", device="cpu")


def reference_states(model: Any, tokenizer: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any], Any]:
    """Hidden states (L, B, T, D) of all texts in a batch, the attention mask (B, T), and pooled vectors (B, D)."""
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        outputs = model(**batch, output_hidden_states=True)
    return torch.stack(outputs.hidden_states).numpy(), batch["attention_mask"].numpy(), outputs.pooler_output.numpy()


def test_tokens_of_selected_layers(imported: tuple[Any, Any, Model]) -> None:
    model, tokenizer, run = imported
    states, mask, pooled = reference_states(model, tokenizer)
    for layers, selected in (("last", states[-1:]), ("-2:", states[-2:]), ("all", states), ("0", states[:1])):
        for row, item in enumerate(run.embed(TEXTS, layers=layers, pool="tokens")):
            expected = np.concatenate(list(selected[:, row]), axis=-1)[mask[row] == 1]
            np.testing.assert_allclose(item.vector, expected, atol=2e-5)
    for row, item in enumerate(run.embed(TEXTS, pool="pooler")):
        np.testing.assert_allclose(item.vector, pooled[row], atol=2e-5)
    for row, item in enumerate(run.embed(TEXTS, pool="cls")):
        np.testing.assert_allclose(item.vector, states[-1, row, 0], atol=2e-5)


def test_normalized_means_equal_those_of_sentence_encoders(imported: tuple[Any, Any, Model]) -> None:
    """The mean over all tokens, [CLS] and [SEP] included, divided by its norm."""
    model, tokenizer, run = imported
    states, mask, _ = reference_states(model, tokenizer)
    mask = mask[..., None]
    mean = (states[-1] * mask).sum(axis=1) / mask.sum(axis=1).clip(min=1e-9)
    expected = mean / np.linalg.norm(mean, axis=1, keepdims=True)
    vectors = np.stack([item.vector for item in run.embed(TEXTS, pool="mean", normalize=True)])
    np.testing.assert_allclose(vectors, expected, atol=2e-5)
    np.testing.assert_allclose(vectors @ vectors.T, expected @ expected.T, atol=5e-5)
