"""Parsing is translation plus a tree: what is chosen, what is repaired, what is scored, and what a recipe refuses."""

import re
from pathlib import Path
from typing import Any

import pytest

from regard.config import build
from regard.decoding.engine import DecodingRequest
from regard.decoding.hypothesis import Hypothesis
from regard.errors import UserError
from regard.metrics.brackets import bracket_scores
from regard.recipe import ParsingRecipe, load_recipe
from regard.recipe.parsing import ParserDecodingSettings
from regard.run import ParsingRun, Translator, train
from regard.run.parsing import TREE_TOKENS
from regard.run.translator import searching
from regard.tasks import Parsing, Prediction
from regard.tasks.parsing import as_parse, tree_scores
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer
from regard.trees import Tree, normalize, parsed, tree_example, words

GOLD = """(ROOT (S (NP (NNP Ada)) (VP (VBD saw) (NP (DT the) (NN dog))) (. .)))
(ROOT (S (NP (PRP We)) (VP (VBD slept) (PRT (RP in))) (. .)))
(ROOT (NP (-LRB- -LRB-) (NN x) (-RRB- -RRB-)))"""
GIVEN: dict[str, Any] = {
    "name": "t",
    "task": "parsing",
    "data": {part: {"builtin": "trees", "split": part} for part in ("train", "valid")},
}


def gold() -> list[Tree]:
    return [tree for each in parsed(GOLD.splitlines()) if (tree := normalize(each)) is not None]


def hypothesis(score: float) -> Hypothesis:
    return Hypothesis([], score, score, True)


def vocabularies() -> tuple[Tokenizer, Tokenizer]:
    pairs = [tree_example(tree) for tree in gold()]
    source = train_tokenizer([pair["src"] for pair in pairs], TextSettings(kind="word", min_frequency=1))
    return source, train_tokenizer([pair["tgt"] for pair in pairs], TREE_TOKENS)


class Oracle:
    """An engine that knows the gold trees, and says them as it is told to spoil them."""

    def __init__(self, task: Parsing, spoil: dict[int, str]) -> None:
        pairs = [tree_example(tree) for tree in gold()]
        texts = [spoil.get(number, tgt) for number, tgt in enumerate(pair["tgt"] for pair in pairs)]
        self.known = {
            tuple(task.src_vocabulary.encode(pair["src"])): task.tgt_vocabulary.encode(text)
            for pair, text in zip(pairs, texts, strict=True)
        }

    def decode(self, request: DecodingRequest) -> list[list[Hypothesis]]:
        return [[Hypothesis(self.known[tuple(source[:-1])], -1.0, -1.0, True)] for source in request.sources]


def test_every_bracket_is_one_piece() -> None:
    _, target = vocabularies()
    for tree in gold():
        tokens = tree_example(tree)["tgt"]
        assert len(target.encode(tokens)) == len(tokens.split()) and target.decode(target.encode(tokens)) == tokens


def test_the_likeliest_tree_is_taken_and_the_likeliest_text_repaired_where_there_is_none() -> None:
    sentence = ["a", "b"]
    texts = ["(S XX )NP )S", "(NP XX XX XX )NP", "(S XX XX )S", "(NP XX XX )NP"]
    found = as_parse(sentence, Prediction("a b", texts, [hypothesis(-n) for n in range(4)]))
    assert (found.brackets, found.repaired, found.score) == ("(ROOT (S (XX a) (XX b)))", False, -2)
    assert found.tokens == ["(S", "XX", "XX", ")S"]
    found = as_parse(sentence, Prediction("a b", texts[:2], [hypothesis(-n) for n in range(2)]))
    assert (found.brackets, found.repaired, found.score) == ("(ROOT (S (XX a) (XX b)))", True, 0)
    parts = Prediction("a b", ["(S XX )S (S XX )S"], [hypothesis(-1), hypothesis(-2)], parts=2)
    assert (as_parse(sentence, parts).score, as_parse(sentence, parts).parts) == (-1.5, 2)


def test_sentences_come_back_in_order_blank_for_blank_and_brackets_are_read_as_people_write_them() -> None:
    task = Parsing(*vocabularies())
    sentences = [words(tree) for tree in gold()]
    engine: Any = Oracle(task, {1: "(S (NP XX )NP (VP XX"})
    found = list(task.parse(engine, [sentences[2], [], *sentences[:2]]))
    assert [parse.words for parse in found] == [sentences[2], [], *sentences[:2]]
    assert [parse.repaired for parse in found] == [False, False, False, True]
    assert found[0].brackets == "(ROOT (NP (XX -LRB-) (XX x) (XX -RRB-)))" and found[1].brackets == ""
    assert found[3].brackets == "(ROOT (S (NP (XX We)) (VP (XX slept) (XX in) (XX .))))"


def test_validation_scores_brackets_against_the_gold_trees() -> None:
    task = Parsing(*vocabularies(), valid_trees=gold(), valid_scores=("f1",))
    outputs = [tree_example(tree)["tgt"] for tree in gold()]
    perfect = task.valid_metrics(outputs, outputs)
    assert perfect == {"f1": 100, "precision": 100, "recall": 100, "complete": 100, "repaired": 0}
    outputs[1] = "(S (NP XX )NP (VP XX XX )VP XX )S"
    spoilt = task.valid_metrics(outputs, outputs)
    # EVALB's brackets: 4 + 4 + 1 gold (the full stop does not count), one of them not found.
    assert spoilt["precision"] == 100 and spoilt["recall"] == pytest.approx(100 * 8 / 9)
    assert spoilt["complete"] == pytest.approx(200 / 3)
    assert Parsing(*vocabularies()).valid_metrics([], []) == {}
    found = [as_parse(words(tree), Prediction("", [text], [])) for tree, text in zip(gold(), outputs, strict=True)]
    assert tree_scores(found, gold())["f1"] == bracket_scores([parse.tree for parse in found], gold())["f1"]


def test_greedy_search_in_validation_takes_no_row_of_words_for_a_loop() -> None:
    assert not Parsing(*vocabularies(), decoding=ParserDecodingSettings()).quick.loop_guard


def test_the_defaults_are_a_parsers() -> None:
    recipe = build(ParsingRecipe, GIVEN, "t")
    assert (recipe.model.kind, getattr(recipe.model, "tie", ""), recipe.text.joint) == ("transformer", "output", False)
    assert (recipe.training.monitor, recipe.data.max_ratio) == ("f1", 0)
    assert (recipe.decoding.beam, recipe.decoding.nbest, recipe.decoding.extra_length) == (10, 10, 300)
    assert build(ParsingRecipe, {**GIVEN, "decoding": {"beam": 3}}, "t").decoding.nbest == 3
    greedy = build(ParsingRecipe, {**GIVEN, "decoding": {"search": "greedy"}}, "t").decoding
    assert (greedy.nbest, greedy.extra_length) == (1, 300)
    for settings, changes in ((recipe.decoding, {"search": "greedy"}), (greedy, {"beam": 2}), (greedy, {"alpha": 0.5})):
        assert not build(ParserDecodingSettings, searching(settings, changes), "decoding").loop_guard


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": GIVEN["data"] | {"train": {"builtin": "dates", "split": "train"}}}, "data.train.0.builtin: "),
        ({"data": GIVEN["data"] | {"test": {"src": "a", "tgt": "b"}}}, "data.test.0.src: "),
        ({"model": {"kind": "masked"}, "decoding": {"search": "mask_predict"}}, "token by token"),
        ({"model": {"tie": "all"}}, 'write model.tie = "output"'),
        ({"text": {"joint": True}}, "text.joint: must be False"),
        ({"training": {"monitor": "bleu"}}, "did you mean f1"),
    ],
)
def test_what_cannot_be_parsed_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as refused:
        build(ParsingRecipe, {**GIVEN, **changes}, "t")
    assert re.search(message, refused.value.remedy)


def test_a_run_keeps_two_vocabularies_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "gold.ptb").write_text(GOLD, encoding="utf-8")
    values = GIVEN | {
        "data": {"root": str(tmp_path), "workers": 1, **{part: {"file": "gold.ptb"} for part in ("train", "valid")}},
        "text": {"kind": "bpe", "vocab_size": 300, "dropout": 0.5},
        "model": {"size": "tiny", "d_model": 16, "num_heads": 2, "d_ff": 16},
        "training": {"max_steps": 1, "warmup": 1, "validate_every": 1, "batch_tokens": 256},
        "runtime": {"device": "cpu", "threads": 1},
    }
    run = train(build(ParsingRecipe, values, "t"), tmp_path / "run", say=lambda text: None).run
    assert isinstance(run, ParsingRun) and len({path.name for path in (tmp_path / "run").glob("*.tokenizer.json")}) == 2
    source, target = run.vocabularies
    assert "(NP" in target.tokens(target.encode("(NP XX )NP"))[0] and len(target) < 290
    assert len(source.encode("saw")) > 0
    longer = {**values, "training": values["training"] | {"max_steps": 2, "validate_every": 2}}
    again = train(build(ParsingRecipe, longer, "t"), tmp_path / "run", resume=True, say=lambda text: None)
    assert again.outcome.step == 2 and set(again.outcome.metrics) >= {"loss", "f1", "repaired"}
    text = Translator.load(tmp_path / "run", device="cpu").translate("Ada saw the dog .", search="greedy", max_length=9)
    assert isinstance(text, str), "a parser translates too, into tokens"


@pytest.mark.parametrize("name", ["gum", "craft", "small-trees"])
def test_the_recipes_train_on_toy_trees(name: str, tmp_path: Path) -> None:
    (tmp_path / "toy.ptb").write_text(GOLD, encoding="utf-8")
    small = (
        "model.d_model=16", "model.d_ff=16", "model.num_heads=2", "model.encoder_layers=1", "model.decoder_layers=1",
        "training.max_steps=1", "training.warmup=0", "training.validate_every=1", "training.batch_tokens=512",
        "data.workers=1", f"data.root={tmp_path.as_posix()}", "runtime.device=cpu", "runtime.threads=1",
        *(f'data.{part}={{ file = "toy.ptb" }}' for part in ("train", "valid")),
    )  # fmt: skip
    trained = train(load_recipe(name, small), tmp_path / "run", say=lambda text: None)
    assert trained.outcome.step == 1 and trained.outcome.best is not None
