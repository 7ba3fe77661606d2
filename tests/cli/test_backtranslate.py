"""regard backtranslate: pairs from text of the target language; a tag keeps them apart in training."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.command import fails, regard
from tests.tiny import train_sentences

from regard.data.encoders import KEEP_ALL, PairEncoder
from regard.data.fields import PAIRS
from regard.data.formats import read_examples
from regard.data.sources import Source
from regard.errors import UserError
from regard.run.model import Translator
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings
from regard.text.symbols import BACK_TRANSLATED, EOS

WORDS = ("one", "two", "three", "four", "five")
GERMAN = ("eins", "zwei", "drei", "vier", "fuenf")


def test_each_line_is_the_target_of_its_translation(trained: Path, tmp_path: Path) -> None:
    lines, out = train_sentences()[:20], tmp_path / "back.tsv"
    (tmp_path / "a.txt").write_text("\n".join([*lines[:9], "", *lines[9:15]]) + "\n", encoding="utf-8")
    (tmp_path / "b.txt").write_text("\n".join(lines[15:]), encoding="utf-8")
    result = regard("backtranslate", trained, tmp_path / "a.txt", tmp_path / "b.txt", "-o", out, "--json")
    assert result.status == 0, result.err
    assert json.loads(result.out) == {"pairs": 20, "dropped": 0, "output": str(out)}
    translations = Translator.load(trained, device="cpu").translate(lines)
    rows = [line.split("\t") for line in out.read_text(encoding="utf-8").splitlines()]
    assert rows == [["src", "tgt"], *map(list, zip(translations, lines, strict=True))]
    two = f"{tmp_path / 'c.en'},{tmp_path / 'c.de'}"
    assert regard("backtranslate", trained, tmp_path / "b.txt", "-o", two).status == 0
    assert (tmp_path / "c.de").read_text(encoding="utf-8").splitlines() == lines[15:]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b.txt", "back.tsv", "c.de", "c.en"]
    assert fails("backtranslate", trained, out, "-o", out).code == "overwrites-input"


def test_a_direction_through_a_pivot_language_is_translated_in_two_steps(tmp_path: Path) -> None:
    (tmp_path / "a.de").write_text("Das Wetter ist heute sehr schön.\n", encoding="utf-8")
    for target, given in (("fr", ["--from", "de", "--to", "fr"]), ("en", ["--from", "de"])):
        result = regard("backtranslate", "translator", tmp_path / "a.de", "-o", tmp_path / "out.tsv", *given)
        assert result.status == 0, result.err
        row = (tmp_path / "out.tsv").read_text(encoding="utf-8").splitlines()[1]
        expected = regard("translate", "translator", "--input", tmp_path / "a.de", "--from", "de", "--to", target)
        assert row.split("\t")[0] == expected.out.strip()


def test_a_back_translated_source_begins_with_one_tag(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("one two\teins zwei\n", encoding="utf-8")
    sources = [Source(file="a.tsv"), Source(file="a.tsv", back_translated=True)]
    both = Source(file="a.tsv", back_translated=True, src_lang="en", tgt_lang="de", directions="both")
    pairs = list(read_examples([*sources, both], tmp_path, PAIRS))
    assert [bool(pair.get("back_translated")) for pair in pairs] == [False, True, True, False]
    tokenizer = train_tokenizer(["one two eins zwei"], TextSettings(vocab_size=300), [BACK_TRANSLATED])
    encoder, tag = PairEncoder(tokenizer, tokenizer, KEEP_ALL), tokenizer.back_translation_tag
    assert tag is not None
    ids = tokenizer.encode("one two")
    rows = [encoder([pair]).columns["src"][0] for pair in pairs[:2]]
    assert [row.tolist() for row in rows] == [[*ids, EOS], [tag, *ids, EOS]]
    assert tokenizer.decode(rows[1]) == "one two" and tokenizer.tokens([tag]) == [BACK_TRANSLATED]
    assert tag not in tokenizer.encode(BACK_TRANSLATED)  # text that spells the tag stays text
    other = train_tokenizer(["one two eins zwei"], TextSettings(vocab_size=300))
    with pytest.raises(UserError) as error:
        PairEncoder(other, other, KEEP_ALL)([pairs[1]])
    assert error.value.where == "back_translated"


def test_a_model_tells_tagged_sources_from_others(trained: Path, tmp_path: Path) -> None:
    """Four of five pairs are wrong, but tagged: translations without a tag follow the others."""
    draw = np.random.default_rng(1)
    rows = [draw.integers(0, 5, draw.integers(1, 5)) for _ in range(300)]
    right = [(" ".join(WORDS[i] for i in row), " ".join(GERMAN[i] for i in row)) for row in rows]
    wrong = [(src, " ".join(GERMAN[::-1][WORDS.index(word)] for word in src.split())) for src, _ in right]
    for name, pairs in (("real", right), ("back", wrong)):
        (tmp_path / f"{name}.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in pairs), encoding="utf-8")
    train = f'[{{file="{tmp_path}/real.tsv"}}, {{file="{tmp_path}/back.tsv", back_translated=true, repeat=4}}]'
    data = [f"data.train={train}", f'data.valid=[{{file="{tmp_path}/real.tsv"}}]', "data.test=[]", "text.kind=bpe"]
    result = regard("train", trained / "recipe.toml", *data, "text.vocab_size=400", "--folder", tmp_path / "run")
    assert result.status == 0, result.err
    translated = Translator.load(tmp_path / "run", device="cpu").translate([src for src, _ in right[:50]])
    assert sum(found == tgt for found, (_, tgt) in zip(translated, right, strict=False)) >= 45
