"""The recipes read files in the format of their data sets: tiny files as the data sets have them."""

import json
from pathlib import Path
from typing import Any

import pytest

from regard.data.formats import read_examples
from regard.errors import UserError
from regard.metrics.glue import GLUE_SCORES, glue_average
from regard.metrics.spans import best_threshold
from regard.recipe_files import shipped_recipes
from regard.tasks.registry import load_recipe

MNLI_HEAD = (
    "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse\t"
    "sentence1\tsentence2\tlabel1"
)
MNLI_ROW = '0\t31193\t31193n\tgovernment\t( A b )\t( C d )\t(ROOT (NP A b))\t(ROOT (NP C d))\tHe said "no.\tHe left.'
PAIR = {"text": 'He said "no.', "pair": "He left.", "label": "neutral"}
CONLL = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O
German JJ B-NP B-MISC

Peter NNP B-NP B-PER
Blackburn NNP I-NP I-PER
"""
SQUAD: dict[str, Any] = {
    "version": "v2.0",
    "data": [{"title": "Normans", "paragraphs": [{
        "context": "The Normans were in Normandy.",
        "qas": [
            {"question": "Where?", "id": "1", "answers": [{"text": "Normandy", "answer_start": 20}],
             "is_impossible": False},
            {"question": "Who gave?", "id": "2", "answers": [], "is_impossible": True,
             "plausible_answers": [{"text": "Normans", "answer_start": 4}]},
        ],
    }]}],
}  # fmt: skip
FILES: dict[str, tuple[dict[str, str], list[dict[str, Any]]]] = {
    "mnli": (
        {
            "train.tsv": f"{MNLI_HEAD}\tgold_label\n{MNLI_ROW}\tneutral\tneutral\n",
            "dev_matched.tsv": f"{MNLI_HEAD}\tlabel2\tlabel3\tlabel4\tlabel5\tgold_label\n"
            f"{MNLI_ROW}\tneutral\tneutral\tentailment\tneutral\tneutral\tneutral\n",
        },
        [PAIR],
    ),
    "qqp": (
        dict.fromkeys(
            ("train.tsv", "dev.tsv"),
            "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n1\t2\t3\tHow \"so?\tWhy so?\t1\n",
        ),
        [{"text": 'How "so?', "pair": "Why so?", "label": "duplicate"}],
    ),
    "qnli": (
        dict.fromkeys(
            ("train.tsv", "dev.tsv"), "index\tquestion\tsentence\tlabel\n0\tWhen?\tIn 1999.\tnot_entailment\n"
        ),
        [{"text": "When?", "pair": "In 1999.", "label": "not_entailment"}],
    ),
    "wnli": (
        dict.fromkeys(("train.tsv", "dev.tsv"), "index\tsentence1\tsentence2\tlabel\n0\tI stuck it.\tIt bled.\t1\n"),
        [{"text": "I stuck it.", "pair": "It bled.", "label": "yes"}],
    ),
    "conll-2003": (
        dict.fromkeys(("train.txt", "valid.txt", "test.txt"), CONLL),
        [
            {"words": ["EU", "rejects", "German"], "tags": ["B-ORG", "O", "B-MISC"]},
            {"words": ["Peter", "Blackburn"], "tags": ["B-PER", "I-PER"]},
        ],
    ),
    "squad-v2": (
        dict.fromkeys(("train-v2.0.json", "dev-v2.0.json"), json.dumps(SQUAD)),
        [
            {"question": "Where?", "answers": [{"text": "Normandy", "start": 20}]},
            {"question": "Who gave?", "answers": []},
        ],
    ),
    "bert-base-128": (
        dict.fromkeys(("wikipedia.txt", "books.txt"), "One sentence.\nAnother one.\n\nNext document.\n"),
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_recipe_reads_the_format_of_its_data(tmp_path: Path, name: str) -> None:
    files, expected = FILES[name]
    for file, text in files.items():
        (tmp_path / file).write_text(text, encoding="utf-8")
    path = next(path for path in shipped_recipes() if path.stem == name)
    recipe = load_recipe(path, [f"data.root={tmp_path}"])
    for split in ("train", "test"):
        sources = getattr(recipe.data, split)
        found = list(read_examples(sources, recipe.data.folder, recipe.fields)) if sources else []
        assert len(found) == len(expected) or not expected
        for example, values in zip(found, expected, strict=False):
            assert {key: example[key] for key in values} == values
    assert found if expected else list(read_examples(recipe.data.train, recipe.data.folder, recipe.fields))


def test_the_second_phase_of_bert_has_the_model_of_the_first() -> None:
    paths = {path.stem: path for path in shipped_recipes()}
    first, second = (load_recipe(paths[f"bert-base-{length}"]) for length in (128, 512))
    assert first.model == second.model and first.text == second.text
    training = [recipe.training for recipe in (first, second)]
    lengths = [recipe.data.max_length for recipe in (first, second)]  # type: ignore[attr-defined]
    assert [t.batch_tokens // length for t, length in zip(training, lengths, strict=True)] == [256, 256]
    assert [t.max_steps for t in training] == [900_000, 100_000] and lengths == [128, 512]
    sizes = ("layers", "d_model", "num_heads", "d_ff")
    assert [getattr(first.model, name) for name in sizes] == [12, 768, 12, 3072]


def test_the_glue_score_is_that_of_the_server() -> None:
    """BERT-large on the leaderboard: 80.5 with WNLI 65.1."""
    bert = {
        "cola": [60.5], "sst-2": [94.9], "mrpc": [89.3, 85.4], "sts-b": [87.6, 86.5], "qqp": [72.1, 89.3],
        "mnli": [86.7, 85.9], "qnli": [92.7], "rte": [70.1], "wnli": [65.1],
    }  # fmt: skip
    assert round(glue_average(bert), 1) == 80.5
    assert set(bert) == set(GLUE_SCORES)
    without = {task: values for task, values in bert.items() if task != "wnli"}
    assert glue_average(without, without=["wnli"]) == pytest.approx((9 * glue_average(bert) - 65.1) / 8)
    with pytest.raises(UserError) as error:
        glue_average(without)
    assert error.value.where == "wnli"


def test_the_best_threshold_is_that_of_all_thresholds() -> None:
    margins, right = [-3.0, 1.0, -1.0, 2.0, -2.0, 0.5], [1.0, 0.4, 0.0, 0.0, 0.0, 0.9]
    answerable = [True, True, False, False, False, True]
    threshold, value = best_threshold(margins, right, answerable)

    def mean(limit: float) -> float:
        chosen = [r if m + limit < 0 else float(not a) for m, r, a in zip(margins, right, answerable, strict=True)]
        return sum(chosen) / len(chosen)

    assert value == pytest.approx(mean(threshold)) == pytest.approx(max(mean(t / 8) for t in range(-40, 40)))
    assert best_threshold([1.0, 2.0], [0.0, 0.0], [False, False])[1] == 1
