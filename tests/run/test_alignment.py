"""Links by cross-attention: right words, right characters, in batches, and the head that links equal words."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np
import pytest
import torch
from tests.conftest import TinyRun
from tests.tiny import number_sentences, translate_words

from regard.attention.layouts import Attentions, Tokens
from regard.documents.segment import Link
from regard.errors import UserError
from regard.ladder.alignment import BETWEEN_SPACES
from regard.run.alignment import (
    ALIGNMENT_FILE,
    AlignmentHead,
    align,
    choose_head,
    encode_pairs,
    list_heads,
    measure_heads,
    save_head,
    word_groups,
)
from regard.run.model import Translator
from regard.tasks.writing import LEFT_TO_RIGHT
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings
from regard.text.symbols import EOS

SOURCES = [*number_sentences()[-20:], "one", "two six"]
TRANSLATIONS = [translate_words(line) for line in SOURCES]
GOOD = AlignmentHead(2, 1)


class FakeNetwork(torch.nn.Module):
    """Two layers with two heads; head 1 of layer 2 reads position p of the source for position p of the target."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def attentions(self, src: Tokens, tgt: Tokens) -> Attentions:
        B, T, S = *tgt.ids.shape, src.ids.size(1)
        weights = torch.rand(B, 2, 2, T, S, generator=torch.Generator().manual_seed(1))
        weights[:, GOOD.layer - 1, GOOD.head - 1] = torch.eye(max(T, S))[:T, :S]
        return Attentions(cross=weights)


def fake_translator(folder: Path, *texts: str, kind: Literal["char", "bpe"] = "char") -> Any:
    """A translator of equal texts with one tokenizer."""
    tokenizer = train_tokenizer(texts, TextSettings(kind=kind, vocab_size=300))
    task = SimpleNamespace(
        src_tokenizer=tokenizer, tgt_tokenizer=tokenizer, max_source=64, max_target=None, writing=LEFT_TO_RIGHT,
        source_row=lambda ids: [*ids, EOS], parse=lambda text: {"src": text}, tags=lambda example: [],
        recipe=SimpleNamespace(has_attention=True),
    )  # fmt: skip
    return SimpleNamespace(task=task, model=FakeNetwork(), run=SimpleNamespace(folder=folder))


def texts_of(link: Link, source: str, target: str) -> tuple[str, str]:
    return source[link[0] : link[1]], target[link[2] : link[3]]


@pytest.mark.parametrize("kind", ["transformer", "recurrent"])
def test_a_model_that_translates_words_links_them(tiny_run: TinyRun, kind: str) -> None:
    translator = Translator.load(tiny_run("translation", kind if kind != "transformer" else ""), device="cpu")
    aligned = align(translator, SOURCES, TRANSLATIONS)
    pairs = [
        texts_of(link, *texts) for *texts, links in zip(SOURCES, TRANSLATIONS, aligned, strict=True) for link in links
    ]
    assert len(pairs) == sum(len(line.split()) for line in SOURCES)
    assert sum(translate_words(source) == target for source, target in pairs) > 0.8 * len(pairs)
    assert aligned == [
        align(translator, [source], [target])[0] for source, target in zip(SOURCES, TRANSLATIONS, strict=True)
    ]
    assert align(translator, ["one", " "], ["", "x"]) == [(), ()]


def test_a_token_knows_its_characters(tmp_path: Path) -> None:
    text = "Ja, 你好龘 naïve 👍!"
    save_head(SimpleNamespace(folder=tmp_path), GOOD)  # type: ignore[arg-type]
    kinds: tuple[Literal["char", "bpe"], ...] = ("char", "bpe")
    for kind in kinds:
        translator = fake_translator(tmp_path, "Ja, 你好 na", kind=kind)
        links = align(translator, [text], [text])[0]
        assert all(source == target for source, target in (texts_of(link, text, text) for link in links))
        assert {place for link in links for place in range(link[2], link[3])} == {
            place for place, character in enumerate(text) if character != " "
        }


@pytest.mark.parametrize("text", ["twenty-one days", "  a   b ", "Größe 注意 x", ""])
@pytest.mark.parametrize("kind", ["char", "bpe"])
def test_words_have_the_tokens_that_write_them(text: str, kind: Literal["char", "bpe"], tmp_path: Path) -> None:
    translator = fake_translator(tmp_path, "twenty-one days", kind=kind)
    ((side, _),) = encode_pairs(translator, [text], [text])
    groups = word_groups(side, BETWEEN_SPACES)
    assert list(groups) == list(range(len(text.split())))
    for word, tokens in zip(text.split(), groups.values(), strict=True):
        assert word == translator.task.src_tokenizer.decode(side.ids[n] for n in tokens).strip()


def test_weights_of_every_head_and_every_mean() -> None:
    weights = np.random.default_rng(0).random((2, 3, 4, 5))
    heads = list_heads(2, 3)
    assert len(heads) == 2 * (3 + 1) + 1
    for head in heads:
        layers = weights if not head.layer else weights[head.layer - 1 : head.layer]
        selected = layers if not head.head else layers[:, head.head - 1 : head.head]
        assert head.mean(weights) == pytest.approx(selected.mean(axis=(0, 1)))
        assert (head.select(weights) == head.mean(weights)[:-1]).all()


def test_the_head_that_links_equal_words_is_the_best(tmp_path: Path) -> None:
    texts = ["a b c 1 2 3!", "x y z 7 8 9.", "你 好 x 5 6"]
    measured = measure_heads(fake_translator(tmp_path, *texts), texts, texts)
    assert measured[0].head == GOOD
    assert measured[0].share == 1.0 > measured[1].share


def test_the_file_of_a_run_names_the_head(tiny_run: TinyRun, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(tiny_run("translation"), folder)
    translator = Translator.load(folder, device="cpu")
    before = align(translator, SOURCES, TRANSLATIONS)
    assert choose_head(translator.run, 2, 2) == AlignmentHead(2)
    assert choose_head(translator.run, 6, 8) == AlignmentHead(5)
    save_head(translator.run, AlignmentHead(1, 2, 1))
    assert choose_head(translator.run, 2, 2) == AlignmentHead(1, 2, 1)
    assert align(translator, SOURCES, TRANSLATIONS) != before
    for wrong in ('{"layer": 3}', '{"layer": 1, "head": -1}', '{"layer": "1"}', "["):
        (folder / ALIGNMENT_FILE).write_text(wrong)
        with pytest.raises(UserError) as error:
            align(translator, SOURCES, TRANSLATIONS)
        assert error.value.code == "damaged-file"
