"""Vectors of texts equal those of Hugging Face's BERT with the same weights, and the means of sentence encoders.

Nothing is fetched: the model is small and random, saved as theirs and imported as any other.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import nn

from regard import Predictor
from regard.run.importing import import_model
from regard.text.bert import SPECIALS, BertTokenizer

pytestmark = pytest.mark.filterwarnings("ignore")  # transformers' own deprecations are not ours to mend

WORDS = ["the", "cat", "sat", "on", "mat", ".", "a", "dog", "and", "##s"]
TEXTS = ["the cats sat on the mat .", "a dog", "on the mat sat the dog and the cat and the dogs", "the cat", "cat"]


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, Predictor]:
    """Their model, their tokenizer, and ours of the same folder."""
    import transformers

    folder: Path = tmp_path_factory.mktemp("theirs")
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=len(SPECIALS) + len(WORDS), hidden_size=16, num_hidden_layers=3, num_attention_heads=4,
        intermediate_size=24, max_position_embeddings=24,
    )  # fmt: skip
    model = transformers.BertForPreTraining(config).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder / "model")
    vocabulary = BertTokenizer([*SPECIALS, *WORDS])
    vocabulary.save(folder / "model" / "tokenizer.json")
    vocabulary.save_vocab_txt(folder / "model" / "vocab.txt")
    tokenizer = transformers.BertTokenizerFast(vocab=str(folder / "model" / "vocab.txt"))
    import_model(folder / "model", folder / "run")
    return model.bert, tokenizer, Predictor.load(folder / "run", device="cpu")


def their_states(model: Any, tokenizer: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any], Any]:
    """Hidden states (layers, B, T, D) of all texts in a batch, which tokens are real (B, T), and pooled vectors."""
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        found = model(**batch, output_hidden_states=True)
    return torch.stack(found.hidden_states).numpy(), batch["attention_mask"].numpy(), found.pooler_output.numpy()


def test_tokens_of_chosen_layers(imported: tuple[Any, Any, Predictor]) -> None:
    model, tokenizer, ours = imported
    states, real, pooled = their_states(model, tokenizer)
    for layers, chosen in (("last", states[-1:]), ("-2:", states[-2:]), ("all", states), ("0", states[:1])):
        found = list(ours.embed(TEXTS, layers=layers, pool="tokens"))
        for row, each in enumerate(found):
            expected = np.concatenate(list(chosen[:, row]), axis=-1)[real[row] == 1]
            np.testing.assert_allclose(each.vector, expected, atol=2e-5)
    for row, each in enumerate(ours.embed(TEXTS, pool="pooler")):
        np.testing.assert_allclose(each.vector, pooled[row], atol=2e-5)
    for row, each in enumerate(ours.embed(TEXTS, pool="cls")):
        np.testing.assert_allclose(each.vector, states[-1, row, 0], atol=2e-5)


def test_normalised_means_are_those_of_sentence_encoders(imported: tuple[Any, Any, Predictor]) -> None:
    """The mean over all real tokens, [CLS] and [SEP] among them, then divided by its length."""
    model, tokenizer, ours = imported
    states, real, _ = their_states(model, tokenizer)
    mask = real[..., None]
    mean = (states[-1] * mask).sum(axis=1) / mask.sum(axis=1).clip(min=1e-9)
    expected = mean / np.linalg.norm(mean, axis=1, keepdims=True)
    found = np.stack([each.vector for each in ours.embed(TEXTS, pool="mean", normalize=True)])
    np.testing.assert_allclose(found, expected, atol=2e-5)
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=5e-5)
