"""Parsing is translation plus a tree: which hypothesis is chosen, what is repaired, what is scored."""

from pathlib import Path
from typing import Any

import pytest
from tests.tasks.make import make_recipe, make_task, validation

from regard.config import build
from regard.decoding.engine import DecodingRequest
from regard.decoding.hypothesis import Hypothesis
from regard.errors import UserError
from regard.metrics.parsing import bracket_scores
from regard.run.model import Model
from regard.run.train import train
from regard.tasks.base import Prediction
from regard.tasks.parsing import TREE_TOKENS, Parsing, ParsingRecipe, parse_of, tree_of
from regard.tasks.registry import load_recipe
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer
from regard.trees import Tree, linearize, normalize, parsed, to_brackets, tree_example, words
from regard.viz.content import Table

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


def translation(texts: list[str], scores: list[float], parts: int = 1) -> Prediction:
    """The prediction of the translation that a parse is made of."""
    hypotheses = [{"text": text, "score": score} for text, score in zip(texts, scores, strict=True)]
    return {"translation": " ".join(texts) if parts > 1 else texts[0], "hypotheses": hypotheses, "parts": parts}


def vocabularies() -> tuple[Tokenizer, Tokenizer]:
    pairs = [(str(example["src"]), str(example["tgt"])) for example in map(tree_example, gold())]
    source = train_tokenizer([src for src, _ in pairs], TextSettings(kind="word", min_frequency=1))
    return source, train_tokenizer([tgt for _, tgt in pairs], TREE_TOKENS)


class Oracle:
    """An engine that knows the gold trees, and says them as it is told to spoil them."""

    def __init__(self, task: Parsing, spoil: dict[int, str]) -> None:
        pairs = [(str(example["src"]), str(example["tgt"])) for example in map(tree_example, gold())]
        texts = [spoil.get(number, tgt) for number, (_, tgt) in enumerate(pairs)]
        self.known = {
            tuple(task.src_tokenizer.encode(src)): task.tgt_tokenizer.encode(text)
            for (src, _), text in zip(pairs, texts, strict=True)
        }

    def decode(self, request: DecodingRequest) -> list[list[Hypothesis]]:
        return [[Hypothesis(self.known[tuple(source[:-1])], -1.0, -1.0, True)] for source in request.sources]


def test_every_bracket_is_one_piece() -> None:
    _, target = vocabularies()
    for tree in gold():
        tokens = str(tree_example(tree)["tgt"])
        assert len(target.encode(tokens)) == len(tokens.split()) and target.decode(target.encode(tokens)) == tokens


def test_the_first_hypothesis_that_is_a_tree_is_chosen_and_the_best_is_repaired_if_there_is_none() -> None:
    sentence = ["a", "b"]
    texts = ["(S XX )NP )S", "(NP XX XX XX )NP", "(S XX XX )S", "(NP XX XX )NP"]
    parse = parse_of(sentence, translation(texts, [0, -1, -2, -3]))
    assert (parse["tree"], parse["repaired"], parse["score"]) == ("(ROOT (S (XX a) (XX b)))", False, -2)
    assert parse["tokens"] == ["(S", "XX", "XX", ")S"]
    parse = parse_of(sentence, translation(texts[:2], [0, -1]))
    assert (parse["tree"], parse["repaired"], parse["score"]) == ("(ROOT (S (XX a) (XX b)))", True, 0)
    parse = parse_of(sentence, translation(["(S XX )S", "(S XX )S"], [-1, -2], parts=2))
    assert (parse["score"], parse["parts"]) == (-1.5, 2)


def test_sentences_keep_their_order_and_blank_sentences_stay_blank() -> None:
    task = make_task(Parsing, *vocabularies())
    sentences = [words(tree) for tree in gold()]
    engine = Oracle(task, {1: "(S (NP XX )NP (VP XX"})
    parses = list(task.predict(engine, [{"words": each} for each in (sentences[2], [], *sentences[:2])]))
    assert [parse["repaired"] for parse in parses] == [False, False, False, True]
    assert [parse["tree"] for parse in parses][:2] == ["(ROOT (NP (XX -LRB-) (XX x) (XX -RRB-)))", ""]
    assert parses[3]["tree"] == "(ROOT (S (NP (XX We)) (VP (XX slept) (XX in) (XX .))))"


def test_validation_scores_brackets_against_the_gold_trees() -> None:
    task = make_task(Parsing, *vocabularies())
    examples = [{"words": words(tree), "tree": to_brackets(tree)} for tree in gold()]
    perfect = list(task.predict(Oracle(task, {}), examples))
    scores = task.monitored_scores(examples, perfect)
    assert scores == {"f1": 100, "precision": 100, "recall": 100, "complete": 100, "repaired": 0}
    spoilt = list(task.predict(Oracle(task, {1: "(S (NP XX )NP (VP XX XX )VP XX )S"}), examples))
    scores = task.monitored_scores(examples, spoilt)
    # EVALB's brackets: 4 + 4 + 1 gold (the full stop does not count), one of them is missing.
    assert scores["precision"] == 100 and scores["recall"] == pytest.approx(100 * 8 / 9)
    assert scores["complete"] == pytest.approx(200 / 3)
    predicted = [tree_of(parse["tree"]) for parse in spoilt]
    assert task.score(examples, spoilt)["f1"] == bracket_scores(predicted, gold())["f1"]
    assert validation(examples=examples).examples == examples


def test_parts_of_speech_that_the_model_predicts_stay_in_the_tree_and_change_no_bracket() -> None:
    examples = [{"words": words(tree), "tree": to_brackets(tree)} for tree in gold()]
    plain, source = make_task(Parsing, *vocabularies()), {"file": "a.ptb", "leaves": "tags"}
    assert not plain.predicts_tags
    settings = {"data.train": [source, {"file": "b.ptb"}], "data.valid": source}
    target = train_tokenizer([" ".join(linearize(tree, "tags")) for tree in gold()], TREE_TOKENS)
    task = make_task(Parsing, plain.src_tokenizer, target, settings=settings)
    said = {number: " ".join(linearize(tree, "tags")) for number, tree in enumerate(gold())}
    perfect = list(task.predict(Oracle(task, said), examples))
    assert [parse["tree"] for parse in perfect] == [example["tree"] for example in examples]
    scores = {name: score.value for name, score in task.score(examples, perfect).items()}
    assert scores == {"f1": 100, "precision": 100, "recall": 100, "complete": 100, "tagging": 100, "repaired": 0}
    wrong = said | {0: said[0].replace(". )S", "NN )S").replace("DT", "NN")}  # EVALB would leave the sentence out
    parses = list(task.predict(Oracle(task, wrong), examples))
    assert "(NN .)" in parses[0]["tree"] and "(NN the)" in parses[0]["tree"]
    scores = {name: score.value for name, score in task.score(examples, parses).items()}
    assert scores["f1"] == scores["complete"] == 100 and scores["tagging"] == pytest.approx(100 * 10 / 12)
    assert task.describe(examples[0], parses[0]).correct and "NN" in task.describe(examples[0], parses[0]).lines()[2]
    table = task.tables(examples, parses, False)[0]
    assert isinstance(table, Table) and {row[0] for row in table.rows} == {"S", "NP", "VP", "ADVP"}
    as_words = make_task(
        Parsing, *vocabularies(), settings=settings | {"data.train": [source, source | {"leaves": "words"}]}
    )
    assert not as_words.predicts_tags
    blank = task.score([{**examples[0]}], [{"tree": "", "repaired": False}])
    assert blank["f1"].value == blank["tagging"].value == 0 and blank["tagging"].signature == "5 words"


def test_greedy_search_in_validation_has_no_loop_guard() -> None:
    task = make_task(Parsing, *vocabularies())
    assert not task.writing.quick_search(task.decoding).loop_guard


def test_the_defaults_are_a_parsers() -> None:
    recipe = make_recipe(Parsing, {})
    assert (recipe.model.kind, getattr(recipe.model, "tie", ""), recipe.text.joint) == ("transformer", "output", False)
    assert (recipe.training.monitor, recipe.data.max_ratio) == ("f1", 0)
    assert (recipe.decoding.beam, recipe.decoding.nbest, recipe.decoding.extra_length) == (10, 10, 300)
    assert make_recipe(Parsing, {"decoding.beam": 3}).decoding.nbest == 3
    greedy = make_recipe(Parsing, {"decoding.search": "greedy"}).decoding
    assert (greedy.nbest, greedy.extra_length) == (1, 300)
    task = make_task(Parsing, *vocabularies())
    for settings, options in ((recipe.decoding, {"search": "greedy"}), (greedy, {"beam": 2}), (greedy, {"alpha": 0.5})):
        changed = make_task(Parsing, task.src_tokenizer, task.tgt_tokenizer, settings).configure(**options)
        assert not changed.decoding.loop_guard


@pytest.mark.parametrize(
    ("changes", "keys"),
    [
        ({"data": GIVEN["data"] | {"train": {"builtin": "dates", "split": "train"}}}, "data.train.0.builtin"),
        ({"data": GIVEN["data"] | {"test": {"src": "a", "tgt": "b"}}}, "data.test.0.src"),
        ({"model": {"kind": "mask-predict"}, "decoding": {"search": "mask_predict"}}, "model.kind"),
        ({"model": {"tie": "all"}}, "model.tie"),
        ({"text": {"joint": True}}, "text.joint"),
        ({"training": {"monitor": "bleu"}}, "training.monitor"),
    ],
)
def test_settings_that_a_parser_cannot_use_are_errors(changes: dict[str, Any], keys: str) -> None:
    with pytest.raises(UserError) as error:
        build(ParsingRecipe, {**GIVEN, **changes}, "t", ParsingRecipe.defaults)
    assert error.value.where == keys


def test_a_run_keeps_two_vocabularies_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "gold.ptb").write_text(GOLD, encoding="utf-8")
    values = GIVEN | {
        "data": {"root": str(tmp_path), "workers": 1, **{part: {"file": "gold.ptb"} for part in ("train", "valid")}},
        "text": {"kind": "bpe", "vocab_size": 300, "dropout": 0.5},
        "model": {"size": "tiny", "d_model": 16, "num_heads": 2, "d_ff": 16},
        "training": {"max_steps": 1, "warmup": 1, "validate_every": 1, "batch_tokens": 256},
        "runtime": {"device": "cpu", "threads": 1},
    }
    run = train(build(ParsingRecipe, values, "t"), tmp_path / "run", report=lambda text: None).run
    assert run.task.name == "parsing" and len(list((tmp_path / "run").glob("*.tokenizer.json"))) == 2
    source, target = run.task.src_tokenizer, run.task.tgt_tokenizer  # type: ignore[attr-defined]
    assert "(NP" in target.tokens(target.encode("(NP XX )NP"))[0] and len(target) < 290
    assert len(source.encode("saw")) > 0
    longer = {**values, "training": values["training"] | {"max_steps": 2, "validate_every": 2}}
    again = train(build(ParsingRecipe, longer, "t"), tmp_path / "run", resume=True, report=lambda text: None)
    assert again.outcome.step == 2 and set(again.outcome.metrics) >= {"loss", "f1", "repaired"}
    (parse,) = Model.load(tmp_path / "run", device="cpu").predict(["Ada saw the dog ."], search="greedy", max_length=9)
    assert words(tree_of(parse["tree"])) == ["Ada", "saw", "the", "dog", "."]


@pytest.mark.parametrize("name", ["gum", "craft", "small-trees"])
def test_the_recipes_train_on_toy_trees(name: str, tmp_path: Path) -> None:
    (tmp_path / "toy.ptb").write_text(GOLD, encoding="utf-8")
    small = (
        "model.d_model=16", "model.d_ff=16", "model.num_heads=2", "model.encoder_layers=1", "model.decoder_layers=1",
        "training.max_steps=1", "training.warmup=0", "training.validate_every=1", "training.batch_tokens=512",
        "data.workers=1", f"data.root={tmp_path.as_posix()}", "runtime.device=cpu", "runtime.threads=1",
        *(f'data.{part}={{ file = "toy.ptb" }}' for part in ("train", "valid", "test")),
    )  # fmt: skip
    trained = train(load_recipe(name, small), tmp_path / "run", report=lambda text: None)
    assert trained.outcome.step == 1 and trained.outcome.best is not None
