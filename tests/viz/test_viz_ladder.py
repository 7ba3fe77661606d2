"""The ladder as text and as a page: means and deviations, the best value marked, safe, in two languages."""

import json
import re
from typing import Any

import numpy as np
import pytest
from tests.viz.test_viz_report import HOSTILE, Page, distribution, unpack

from regard.messages import Message, localize
from regard.viz.ladder import (
    COLUMNS,
    Gallery,
    LadderPage,
    LadderPicture,
    LadderRow,
    ladder_data,
    ladder_markdown,
    ladder_table,
    render_ladder,
)

WEIGHTS = distribution(3, 4)


def page(**changes: Any) -> LadderPage:
    shared = {"parameters": [1e6, 1e6], "tokens": [2.5e6, 2.5e6]}
    plain = {"bleu": [10.0, 14.0], "perplexity": [9.0, 9.0], **shared}
    additive = {"bleu": [30.0, 30.0], "perplexity": [3.0, 4.0], "aer": [0.25], **shared}
    parts: dict[str, Any] = {
        "title": "numbers",
        "rows": [
            LadderRow("Plain", "Sutskever et al. 2014", plain),
            LadderRow(Message("Additive attention"), "Bahdanau et al. 2014", additive),
        ],
        "facts": {"corpus": "numbers (train)"},
        "galleries": [
            Gallery(
                "forty two",
                "zweiundvierzig",
                [
                    LadderPicture("Plain", "zwei", has_attention=False),
                    LadderPicture(
                        Message("Additive attention"), "zweiundvierzig", list("abc"), list("wxyz"), WEIGHTS, (2, 0)
                    ),
                ],
            )
        ],
        "failures": [("hard, seed 1", "out of memory")],
    }
    return LadderPage(**(parts | changes))


def test_a_row_has_means_and_deviations() -> None:
    names, rows = ladder_table(page())
    assert names == ["variant", "BLEU", "perplexity", "AER", "parameters (M)", "training tokens (M)"]
    assert rows[0] == ["Plain", "12.0 ± 2.8", "9.00 ± 0.00", "–", "1.00 ± 0.00", "2.50 ± 0.00"]
    assert rows[1] == ["Additive attention", "30.0 ± 0.0", "3.50 ± 0.71", "0.250", "1.00 ± 0.00", "2.50 ± 0.00"]


def test_titles_are_chinese_in_a_chinese_terminal_and_on_the_page() -> None:
    names, rows = ladder_table(page(), "zh")
    assert names[:3] == ["模型", "BLEU", "困惑度"] and localize(rows[1][0], chinese=True) == "加性注意力"
    budget = Message("{steps:,} steps of {tokens:,} tokens", steps=2000, tokens=64)
    shown = ladder_data(page(facts={"budget": budget}))
    assert [row["zh"] for row in shown["rows"]] == ["Plain", "加性注意力"]
    assert shown["facts"] == [["budget", {"en": "2,000 steps of 64 tokens", "zh": "2,000 步，每步 64 个词元"}]]


def test_a_long_number_is_short_in_the_table_and_on_the_page() -> None:
    rows = [LadderRow("a", "", {"word_perplexity": [5.2e21, 5.4e21], "training_speed": [99_999_999.0] * 2})]
    _, (cells,) = ladder_table(page(rows=rows))
    assert cells == ["a", "5.3e+21 ± 1.4e+20", "99,999,999 ± 0"]
    (row,) = ladder_data(page(rows=rows))["rows"]
    assert row["cells"]["word_perplexity"]["mean"] == "5.3e+21"
    assert row["cells"]["word_perplexity"]["deviation"] == "1.4e+20"


def test_the_best_value_of_a_column_is_marked() -> None:
    cells = [row["cells"] for row in ladder_data(page())["rows"]]
    assert [row["bleu"]["best"] for row in cells] == [False, True]
    assert [row["perplexity"]["best"] for row in cells] == [False, True]
    assert cells[1]["aer"]["best"] is False, "the only one"
    assert not any(row["parameters"]["best"] for row in cells)
    assert [row["bleu"]["share"] for row in cells] == [0.4, 1.0] and cells[0]["perplexity"]["share"] is None
    equal = page(rows=[LadderRow("a", "", {"bleu": [0.0]}), LadderRow("b", "", {"bleu": [0.0]})])
    assert not any(row["cells"]["bleu"]["best"] for row in ladder_data(equal)["rows"])


def test_which_direction_of_each_measure_is_better() -> None:
    better = {column.key: column.better for column in COLUMNS}
    assert {key for key, sign in better.items() if sign == 1} == {
        "bleu", "chrf", "exact", "training_speed", "decoding_speed",
    }  # fmt: skip
    assert {key for key, sign in better.items() if sign == -1} == {"perplexity", "word_perplexity", "bits", "aer"}
    for column in COLUMNS:
        rows = [LadderRow(name, "", {column.key: [value]}) for name, value in (("a", 2.0), ("b", 3.0))]
        best = page(rows=rows).best(column)
        assert best == (None if not column.better else (3.0 if column.better > 0 else 2.0) / column.unit)


def test_text_cannot_break_the_markdown_table() -> None:
    text = ladder_markdown(page(rows=[LadderRow("a|b\n<i>", "c", {"bleu": [1.0]})]))
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert rows == ["| variant | paper | BLEU |", "| --- | --- | ---: |", "| a\\|b &lt;i> | c | 1.0 |"]
    assert "- hard, seed 1 failed: out of memory" in text and text.startswith("# numbers\n")


def test_pictures_keep_their_weights_and_mark_models_without_attention() -> None:
    shown = Page(render_ladder(page())).block("data")["sentences"][0]
    without, drawn = shown["pictures"]
    assert without["map"] is None and not without["has_attention"] and drawn["head"] == [2, 0]
    assert np.abs(unpack(drawn["map"])[0, 0] - WEIGHTS).max() < 1 / 255


def test_the_page_loads_nothing_and_runs_one_script() -> None:
    text = render_ladder(page())
    assert not re.search(r"https?:|\bsrc\s*=|@import|url\(|<link|<iframe|fetch\(|XMLHttpRequest|import\(", text)
    policy = next(a["content"] for _, a in Page(text).elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None and "default-src 'none'" in policy and "unsafe" not in policy


def test_hostile_text_is_shown_as_text() -> None:
    row = LadderRow(HOSTILE, HOSTILE, {"bleu": [1.0]}, HOSTILE)
    gallery = Gallery(HOSTILE, HOSTILE, [LadderPicture(HOSTILE, HOSTILE, [HOSTILE], [HOSTILE], [[1.0]])])
    text = render_ladder(page(title=HOSTILE, rows=[row], galleries=[gallery], failures=[(HOSTILE, HOSTILE)]))
    assert [tag for tag, _ in Page(text).elements] == [tag for tag, _ in Page(render_ladder(page())).elements]
    shown = Page(text).block("data")
    assert shown["rows"][0]["en"] == shown["sentences"][0]["pictures"][0]["output"] == HOSTILE


def test_both_languages_have_every_text_that_the_script_uses() -> None:
    drawn = Page(render_ladder(page()))
    words = drawn.block("words")
    english, chinese = words["en"], words["zh"]
    assert english.keys() == chinese.keys() and all(value.strip() for value in (*english.values(), *chinese.values()))
    slots = [{key: set(re.findall(r"\{\w+\}", text)) for key, text in each.items()} for each in (english, chinese)]
    assert slots[0] == slots[1]
    program = "".join(text for tag, attributes, text in drawn.raw if tag == "script" and not attributes)
    asked = set(re.findall(r'say\("(\w+)"[,)]', program)) | {
        f"{kind}_{column.key}" for column in COLUMNS for kind in ("column", "about")
    }
    assert asked <= english.keys()
    unused = [key for key in english.keys() - asked if not re.search(rf'"{key}"', program)]
    assert all(key.startswith("name_") for key in unused), unused


def test_weights_of_another_shape_are_refused() -> None:
    wrong = LadderPicture("Additive", "x", ["a"], ["b"], WEIGHTS)
    with pytest.raises(ValueError, match="Additive attention has the shape"):
        render_ladder(page(galleries=[Gallery("s", "t", [wrong])]))


def test_the_same_ladder_gives_the_same_bytes() -> None:
    assert render_ladder(page()).encode() == render_ladder(page()).encode()
    assert json.dumps(ladder_data(LadderPage("nothing", [])))


def test_which_values_are_better() -> None:
    more = {column.key for column in COLUMNS if column.better == 1}
    less = {column.key for column in COLUMNS if column.better == -1}
    assert more == {"bleu", "chrf", "exact", "training_speed", "decoding_speed"}
    assert less == {"perplexity", "word_perplexity", "bits", "aer"}
    assert {column.key for column in COLUMNS if column.has_bar} == {"bleu", "chrf", "exact"}
    for column in COLUMNS:
        rows = [LadderRow(name, "", {column.key: [value * column.unit]}) for name, value in (("a", 1.0), ("b", 2.0))]
        best = [row["cells"][column.key]["best"] for row in ladder_data(page(rows=rows))["rows"]]
        assert best == [column.key in less, column.key in more]
