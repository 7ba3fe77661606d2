"""Attachment scores are those of conll18_ud_eval.py, the script of the CoNLL 2018 shared task."""

from pathlib import Path

import pytest

from regard.data.fields import DEPENDENCIES
from regard.data.formats import read_examples
from regard.data.sources import Source
from regard.metrics.parsing import Parse, attachment_scores, counts_by_relation

GOLD = """\
# text = Don't the dogs get fed by him?
1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_
1\tDo\tdo\tAUX\t_\t_\t6\taux\t_\t_
2\tn't\tnot\tPART\t_\t_\t6\tadvmod\t_\t_
3\tthe\tthe\tDET\t_\t_\t4\tdet\t_\t_
4\tdogs\tdog\tNOUN\t_\t_\t6\tnsubj:pass\t_\t_
5\tget\tget\tAUX\t_\t_\t6\taux:pass\t_\t_
6\tfed\tfeed\tVERB\t_\t_\t0\troot\t_\t_
6.1\tfed\tfeed\tVERB\t_\t_\t_\t_\t_\t_
7\tby\tby\tADP\t_\t_\t8\tcase\t_\t_
8\thim\the\tPRON\t_\t_\t6\tobl:agent\t_\tSpaceAfter=No
9\t?\t?\tPUNCT\t_\t_\t6\tpunct\t_\t_

1\tYes\tyes\tINTJ\t_\t_\t0\troot\t_\tSpaceAfter=No
2\t.\t.\tPUNCT\t_\t_\t1\tpunct\t_\t_

"""
ERRORS = {
    "6\tnsubj:pass": "6\tnsubj:outer",  # only the subtype is wrong: right
    "6\taux:pass": "6\tcop",  # the relation is wrong
    "8\tcase": "6\tcase",  # the head is wrong
    "6\tobl:agent": "7\tobj",  # both are wrong
    "1\tpunct": "1\tdiscourse:x",
}
"""Dependencies of the treebank, and what the parser predicts in their place."""
OFFICIAL = {"uas": 100 * 9 / 11, "las": 100 * 7 / 11}
"""Scores of conll18_ud_eval.py for these two files: UAS 81.82, LAS 63.64."""


def read(path: Path, text: str) -> list[Parse]:
    path.write_text(text, encoding="utf-8")
    sentences = read_examples([Source(file=path.name)], path.parent, DEPENDENCIES)
    return [Parse(sentence["heads"], sentence["relations"]) for sentence in sentences]


def predicted() -> str:
    text = GOLD
    for gold, wrong in ERRORS.items():
        text = text.replace(gold, wrong)
    return text


def test_the_scores_of_the_official_script(tmp_path: Path) -> None:
    gold, system = read(tmp_path / "gold.conllu", GOLD), read(tmp_path / "system.conllu", predicted())
    scores = attachment_scores(system, gold)
    assert {name: score.value for name, score in scores.items()} == pytest.approx(OFFICIAL)
    assert {name: score.value for name, score in attachment_scores(gold, gold).items()} == {"uas": 100, "las": 100}
    assert "11 words" in scores["las"].signature and "punctuation included" in scores["las"].signature


def test_counts_of_each_relation(tmp_path: Path) -> None:
    counts = counts_by_relation(read(tmp_path / "s.conllu", predicted()), read(tmp_path / "g.conllu", GOLD))
    assert (counts["nsubj"].correct, counts["nsubj"].predicted, counts["nsubj"].gold) == (1, 1, 1)
    assert (counts["punct"].correct, counts["punct"].predicted, counts["punct"].gold) == (1, 1, 2)
    assert (counts["obj"].correct, counts["obj"].predicted, counts["obj"].gold) == (0, 1, 0)
    assert (counts["case"].correct, counts["case"].predicted, counts["case"].gold) == (0, 1, 1)


def test_other_words_are_an_error() -> None:
    with pytest.raises(ValueError):
        attachment_scores([Parse([0], ["root"])], [Parse([0, 1], ["root", "punct"])])
    with pytest.raises(ValueError):
        attachment_scores([], [])
