"""T5 as a translation run: the tokens, logits and greedy outputs of transformers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.exchange.sentencepiece_files import model_file
from torch import nn

from regard.attention.layouts import Padded
from regard.errors import UserError
from regard.exchange.folders import open_model
from regard.exchange.t5 import UNUSED, read_t5, read_tokenizer
from regard.layers.positions import bucket_of
from regard.run.importing import import_model
from regard.run.model import Translator
from regard.text.symbols import BOS, PAD

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")  # transformers' own deprecations are not ours to mend
WORDS = {
    "▁": -2.0,
    "▁the": -3.0,
    "▁cat": -4.0,
    "▁ca": -4.5,
    "ts": -5.0,
    "▁sat": -4.2,
    "naï": -6.0,
    "ve": -5.5,
    ".": -3.3,
    "注": -7.0,
}
LETTERS = {letter: -8.0 - number / 9 for number, letter in enumerate("abcdefghijklmnopqrstuvwxyz,!.")}
PIECES = [
    ("<pad>", 0.0, 3),
    ("</s>", 0.0, 3),
    ("<unk>", 0.0, 2),
    *((text, score, 1) for text, score in (WORDS | LETTERS).items()),
]
TEXTS = ["the cats sat.", "  the   cat ", "naïve cats, naïve!", "注意 cat", "xyz ☃☃ a", ""]


def saved(folder: Path, spm: bool = False, vocabulary: int = 0, **options: Any) -> tuple[Any, Any]:
    """A model and a tokenizer of theirs in a folder; the tokenizer as spiece.model or as tokenizer.json."""
    extra = [(f"<extra_id_{number}>", 0.0) for number in reversed(range(5))]
    vocab = [(text, score) for text, score, _ in PIECES] + extra
    tokenizer = transformers.T5Tokenizer(vocab=vocab, extra_ids=5)
    torch.manual_seed(1)
    config = transformers.T5Config(
        vocab_size=vocabulary or len(vocab), d_model=16, d_kv=6, d_ff=24, num_layers=2, num_decoder_layers=1,
        num_heads=3, relative_attention_num_buckets=8, relative_attention_max_distance=12, decoder_start_token_id=0,
        **options,
    )  # fmt: skip
    model = transformers.T5ForConditionalGeneration(config).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    if spm:
        (folder / "spiece.model").write_bytes(model_file(PIECES))
    else:
        tokenizer.save_pretrained(folder)
    return model, tokenizer


VARIANTS: dict[str, dict[str, Any]] = {
    "1.0": {"spm": True},
    "1.1": {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "vocabulary": 50},
}


@pytest.mark.parametrize("variant", VARIANTS)
@torch.no_grad()
def test_logits_and_greedy_outputs_equal_transformers(variant: str, tmp_path: Path) -> None:
    theirs, tokenizer = saved(tmp_path / "theirs", **VARIANTS[variant])
    imported = import_model(tmp_path / "theirs", tmp_path / "run")
    assert imported.random_weights == [] and imported.run.recipe.task == "translation"
    files = open_model(tmp_path / "theirs")
    ours, rows = read_tokenizer(files.folder, files.config, theirs.config.vocab_size)
    generator = torch.Generator().manual_seed(2)
    src, tgt = (torch.randint(3, len(rows), (3, size), generator=generator) for size in (17, 15))
    tgt[:, 0] = BOS
    lengths = torch.tensor([17, 6, 1])
    mask = torch.arange(17) < lengths[:, None]
    model = imported.run.model()
    logits = model(Padded.of(src, lengths), Padded.of(tgt, torch.tensor([15, 15, 15]))).logits()
    table = torch.tensor(rows)
    outputs = theirs(input_ids=table[src], attention_mask=mask.long(), decoder_input_ids=table[tgt])
    real = [token for token in range(len(rows)) if token not in (PAD, BOS)]
    torch.testing.assert_close(logits[..., real], outputs.logits[..., rows][..., real], atol=1e-5, rtol=1e-5)

    translator = Translator.load(tmp_path / "run", device="cpu")
    texts = [text for text in TEXTS if text.strip()]
    greedy = [item["translation"] for item in translator.predict(texts, search="greedy", max_length=12)]
    for text, translation in zip(texts, greedy, strict=True):
        given = tokenizer(text, return_tensors="pt")
        blocked = [[0]]  # <pad>, which ours never generate
        output = theirs.generate(**given, max_new_tokens=12, do_sample=False, num_beams=1, bad_words_ids=blocked)[0]
        ids = [int(token) for token in output if token not in (0, 1)]
        assert translation == ours.decode(rows.index(token, 2) for token in ids)


def test_tokens_equal_transformers(tmp_path: Path) -> None:
    for name, spm in (("spm", True), ("json", False)):
        theirs, tokenizer = saved(tmp_path / name, spm=spm)
        files = open_model(tmp_path / name)
        ours, rows = read_tokenizer(files.folder, files.config, theirs.config.vocab_size)
        for text in TEXTS:
            assert [rows[token] for token in ours.encode(text)] == tokenizer(text, add_special_tokens=False)[
                "input_ids"
            ]


def test_buckets_of_distances() -> None:
    theirs = transformers.models.t5.modeling_t5.T5Attention._relative_position_bucket
    distances = torch.arange(-300, 300)[None]
    for causal in (True, False):
        for buckets, farthest in ((32, 128), (8, 12), (6, 40)):
            expected = theirs(distances, not causal, buckets, farthest)
            assert torch.equal(bucket_of(distances, buckets, farthest, causal), expected)


def test_other_tokenizers_are_refused(tmp_path: Path) -> None:
    saved(tmp_path / "theirs", spm=True)
    (tmp_path / "theirs" / "spiece.model").write_bytes(model_file(PIECES[2:]))
    with pytest.raises(UserError) as error:
        import_model(tmp_path / "theirs", tmp_path / "run")
    assert error.value.code == "damaged-file" and error.value.where.endswith("spiece.model")


def test_a_table_of_older_folders_is_left_out(tmp_path: Path) -> None:
    saved(tmp_path / "theirs", spm=True)
    files = open_model(tmp_path / "theirs")
    older = replace(files, tensors=files.tensors | {UNUSED: torch.zeros(8, 3)})
    assert read_t5(older).weights.keys() == read_t5(files).weights.keys()
    with pytest.raises(UserError) as error:
        read_t5(replace(files, tensors=files.tensors | {"other": torch.zeros(1)}))
    assert error.value.code == "unsupported"
