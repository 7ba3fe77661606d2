"""The report page: whole, harmless, without network, and its weights can be read back."""

import base64
import hashlib
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.viz.content import Description, Marked, Matrix, Preformatted, Shaded, Shares, Table, truncate
from regard.viz.document import embed
from regard.viz.report import (
    MAX_POINTS,
    AttentionMap,
    MonitorCurve,
    Report,
    ShownExample,
    attention_maps,
    pack_map,
    page_data,
    render,
    write_report,
)

MODEST = settings(max_examples=40)
HOSTILE = "</script><script>alert(1)</script><!-- <b> & \u2028 \" '"


def distribution(*shape: int, seed: int = 0) -> np.ndarray:
    values = np.random.default_rng(seed).gamma(0.3, size=shape) + 1e-9
    return np.asarray(values / values.sum(-1, keepdims=True))


def example(source: str = "the cat", output: str = "猫", correct: bool | None = True) -> ShownExample:
    pieces, target = [*source.split(), "</s>"], [*output.split(), "</s>"]
    S, T = len(pieces), len(target)
    maps = attention_maps(
        pieces, target, distribution(2, 4, S, S), distribution(2, 4, T, T), distribution(2, 4, T, S, seed=1)
    )
    return ShownExample(source, "参考", output, correct, maps)


def report(**changes: Any) -> Report:
    parts: dict[str, Any] = {
        "title": "English to Chinese",
        "facts": {"model": "transformer", "parameters": "8.4 M"},
        "curves": {"train": [(1, 3.0), (2, 2.0)], "validation": [(2, 2.5)]},
        "scores": [("BLEU", 31.4, "nrefs:1|tok:zh")],
        "examples": [example(), example("a dog", "狗", False), ShownExample("x", "y", "z")],
        "learning_rate": [(1, 1e-4), (2, 2e-4)],
    }
    return Report(**(parts | changes))


class Page(HTMLParser):
    """The page as a browser parses it: elements with their attributes, and the text of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[tuple[str, dict[str, str | None], str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1][0] in ("script", "style", "title") and data.strip():
            self.raw.append((*self.elements[-1], data))

    def block(self, name: str) -> Any:
        return json.loads("".join(text for _, attributes, text in self.raw if attributes.get("id") == name))


def unpack(packed: dict[str, Any]) -> np.ndarray:
    values = np.frombuffer(base64.b64decode(packed["weights"]), dtype=np.uint8) / 255
    return values.reshape(packed["layers"], packed["heads"], len(packed["rows"]), len(packed["columns"]))


@MODEST
@given(st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(0, 6), st.integers(1, 6)), st.integers(0, 99))
def test_weights_come_back(shape: tuple[int, int, int, int], seed: int) -> None:
    weights = distribution(*shape, seed=seed).astype(np.float32)
    packed = json.loads(embed(pack_map(AttentionMap("cross", ["r"] * shape[2], ["c"] * shape[3], weights))))
    assert unpack(packed).shape == shape
    assert np.abs(unpack(packed) - weights).max(initial=0) < 1 / 255


def test_every_map_layer_and_head_is_in_the_page() -> None:
    given_report = report()
    shown = Page(render(given_report)).block("data")
    assert [len(each["maps"]) for each in shown["examples"]] == [3, 3, 0]
    for packed, attention in zip(shown["examples"][0]["maps"], given_report.examples[0].attention or (), strict=True):
        assert packed["name"] == attention.name
        assert (packed["rows"], packed["columns"]) == (list(attention.rows), list(attention.columns))
        assert np.abs(unpack(packed) - np.asarray(attention.weights)).max() < 1 / 255


def test_maps_of_an_encoder_decoder() -> None:
    maps = attention_maps(["a", "b"], ["x", "y", "z"], decoder=distribution(1, 1, 3, 3), cross=distribution(1, 1, 3, 2))
    assert [each.name for each in maps] == ["decoder", "cross"]
    assert maps[0].columns == ["<s>", "x", "y"] and maps[0].rows == ["x", "y", "z"]
    assert maps[1].columns == ["a", "b"]


@pytest.mark.parametrize(
    "weights",
    [
        np.ones((1, 1, 2, 3)),
        np.ones((2, 2)),
        np.full((1, 1, 2, 2), 2.0),
        np.full((1, 1, 2, 2), np.nan),
        np.ones((0, 1, 2, 2)),
    ],
)
def test_weights_that_are_no_attention_are_refused(weights: np.ndarray) -> None:
    with pytest.raises(ValueError, match="cross attention"):
        pack_map(AttentionMap("cross", ["a", "b"], ["c", "d"], weights))


def test_two_maps_of_one_name_are_refused() -> None:
    twice = [AttentionMap("cross", ["a"], ["b"], [[[[1.0]]]])] * 2
    with pytest.raises(ValueError, match="cross, cross"):
        render(report(examples=[ShownExample("a", "b", "c", None, twice)]))


def test_the_page_reaches_for_nothing_outside_itself() -> None:
    text = render(report())
    assert not re.search(r"https?:|\bsrc\s*=|@import|url\(|<link|<iframe|fetch\(|XMLHttpRequest|import\(", text)
    elements = [tag for tag, _ in Page(text).elements]
    assert elements.count("script") == 3 and "img" not in elements


def test_the_policy_allows_exactly_this_program_and_style() -> None:
    page = Page(render(report()))
    policy = next(a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None and "default-src 'none'" in policy and "unsafe" not in policy
    for tag, attributes, content in page.raw:
        if tag == "style" or (tag == "script" and not attributes):
            digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
            assert f"{tag}-src 'sha256-{digest}'" in policy


def test_hostile_text_is_only_text() -> None:
    maps = [AttentionMap(HOSTILE, [HOSTILE], [HOSTILE], [[[[1.0]]]])]
    hostile = report(
        title=HOSTILE,
        facts={HOSTILE: HOSTILE},
        curves={HOSTILE: [(1, 1.0)]},
        scores=[(HOSTILE, 1.0, HOSTILE)],
        examples=[ShownExample(HOSTILE, HOSTILE, HOSTILE, None, maps)],
    )
    text = render(hostile)
    page, plain = Page(text), Page(render(report()))
    assert [tag for tag, _ in page.elements] == [tag for tag, _ in plain.elements]
    assert "<script>alert" not in text
    shown = page.block("data")
    assert (
        shown["examples"][0]["source"] == shown["facts"][0][0] == shown["examples"][0]["maps"][0]["rows"][0] == HOSTILE
    )
    assert "".join(content for tag, _, content in page.raw if tag == "title").startswith("</script>")


@MODEST
@given(st.text(alphabet=st.characters(), max_size=40) | st.just("\ud83d"))
def test_any_text_survives_the_page(text: str) -> None:
    embedded = embed([text])
    assert not set("<>&") & set(embedded)
    assert json.loads(embedded) == [text]
    embedded.encode("utf-8")


def test_tables_matrices_and_texts_are_plain_values() -> None:
    table = Table("classes", {"class": "text", "F1": "percent", "examples": "count", "error": "number"},
                  [["good", 12.345, 1234, 0.00012], ["bad", 100.0, 2, -3.5]])  # fmt: skip
    assert table.numeric == ["F1", "examples", "error"]
    assert table.texts() == [["good", "12.35", "1,234", "0.00012"], ["bad", "100.00", "2", "-3.5"]]
    example = ShownExample(
        Shaded("", ["a", "b"], [0.12345, 2.0], 12.0, "bits"), Marked("Ada met", [(0, 3, "PER")]),
        Shares(["x", "y"], [0.75555, 0.2]), False, None, 0.75555,
    )  # fmt: skip
    matrix, drawn = Matrix("confusion matrix", ["a", "b"], [[1, 2], [3, 4]]), Preformatted("S\n│")
    monitor = MonitorCurve("F1", [(1, 50.0), (2, math.nan)], 1)
    shown = Page(
        render(report(tables=[table, matrix], examples=[example, ShownExample(drawn, "", "")], monitor=monitor))
    ).block("data")
    assert shown["tables"] == [
        {"title": "classes", "columns": [list(item) for item in table.columns.items()],
         "rows": [["good", 12.345, 1234, 0.00012], ["bad", 100.0, 2, -3.5]]},
        {"title": "confusion matrix", "labels": ["a", "b"], "counts": [[1, 2], [3, 4]]},
    ]  # fmt: skip
    first, second = shown["examples"]
    assert first["source"] == {"tokens": ["a", "b"], "values": [0.123, 2.0], "full": 12.0, "unit": "bits"}
    assert first["reference"] == {"text": "Ada met", "spans": [[0, 3, "PER"]]}
    assert first["output"] == {"names": ["x", "y"], "shares": [0.7556, 0.2]} and first["confidence"] == 0.7556
    assert second["source"] == {"preformatted": "S\n│"} and second["confidence"] is None
    assert shown["monitor"] == {"name": "F1", "points": [[1, 50.0], [2, None]], "best": 1}
    assert page_data(report(monitor=MonitorCurve("F1", [])))["monitor"] is None
    with pytest.raises(ValueError, match="confusion"):
        Matrix("confusion matrix", ["a"], [[1, 2]]).to_json()


def test_a_loss_that_is_no_number_is_a_gap() -> None:
    shown = page_data(
        report(curves={"train": [(1, math.nan), (2, math.inf), (3, 1 / 3)]}, scores=[("loss", math.nan, "")])
    )
    assert shown["curves"][0]["points"] == [[1, None], [2, None], [3, 0.333333]]
    assert shown["scores"][0][1] is None


def test_a_long_curve_is_thinned_and_keeps_its_spikes() -> None:
    points = [(float(n), 1.0) for n in range(50_000)]
    points[31_234] = (31_234.0, 99.0)
    points[40_001] = (40_001.0, math.nan)
    shown = page_data(report(curves={"train": points}))["curves"][0]["points"]
    assert len(shown) <= MAX_POINTS + 2
    assert [31_234, 99] in shown and [40_001, None] in shown
    assert shown[0][0] == 0 and shown[-1][0] == 49_999
    assert [step for step, _ in shown] == sorted(step for step, _ in shown)


def test_the_same_report_gives_the_same_bytes(tmp_path: Path) -> None:
    write_report(tmp_path / "new" / "report.html", report())
    assert (tmp_path / "new" / "report.html").read_bytes() == render(report()).encode()


def test_an_empty_report_is_a_page() -> None:
    shown = Page(render(Report("nothing yet"))).block("data")
    assert shown["examples"] == shown["curves"] == shown["scores"] == shown["rate"] == []


def test_both_languages_say_everything_the_program_asks_for() -> None:
    words = Page(render(report())).block("words")
    english, chinese = words["en"], words["zh"]
    assert english.keys() == chinese.keys()
    assert all(value.strip() for value in [*english.values(), *chinese.values()])
    slots = {key: set(re.findall(r"\{\w+\}", text)) for key, text in english.items()}
    assert slots == {key: set(re.findall(r"\{\w+\}", text)) for key, text in chinese.items()}
    program = "".join(
        text for tag, attributes, text in Page(render(report())).raw if tag == "script" and not attributes
    )
    asked = set(re.findall(r'say\("(\w+)"[,)]', program))
    assert asked <= english.keys() and len(asked) > 20
    unused = [key for key in english if not re.search(rf'"{key}"|\b{key}:', program)]
    assert all(key.startswith(("map_", "about_", "name_", "title_")) for key in unused)


def test_weights_may_be_off_by_rounding_and_maps_may_have_no_start() -> None:
    def packed(weight: float) -> list[int]:
        content = pack_map(AttentionMap("cross", ["a"], ["b"], [[[[weight]]]]))
        return list(base64.b64decode(content["weights"]))

    assert [packed(weight) for weight in (-0.001, 0.5, 1.001)] == [[0], [128], [255]]
    for weight in (-0.002, 1.002):
        with pytest.raises(ValueError, match="between 0 and 1"):
            packed(weight)
    (shifted,) = attention_maps(["a"], ["x", "y"], decoder=distribution(1, 1, 2, 2), start=None)
    assert shifted.columns == ["x", "y"]
    (empty,) = attention_maps(["a"], [], decoder=np.zeros((1, 1, 0, 0)))
    assert empty.columns == []


def test_only_a_curve_of_too_many_points_is_thinned() -> None:
    points = [(n, float(n % 7)) for n in range(MAX_POINTS + 1)]
    (whole,) = page_data(report(curves={"a": points[:-1], "none": []}))["curves"]
    assert whole["points"] == [list(point) for point in points[:-1]]
    (thinned,) = page_data(report(curves={"a": points}))["curves"]
    assert thinned["points"][0] == [0, 0.0] and thinned["points"][-1] == [MAX_POINTS, float(MAX_POINTS % 7)]
    assert 0.6 * MAX_POINTS < len(thinned["points"]) < MAX_POINTS


def test_lines_for_a_log_have_two_hundred_characters() -> None:
    source, reference = "a b\n" * 50, "a b\n" * 50 + "c d"
    assert len(source) == 200
    shown = Description(source, [Preformatted("x"), Shares(["good", "bad"], [0.25, 0.75], best=1)], reference)
    assert shown.lines() == (source, " ".join(["a b"] * 50 + ["c d"])[:199] + "…", "bad (75%)")
    assert truncate("a " * 3, 5) == "a a a" and truncate("a a ab", 5) == "a a …"
    assert Description("", ["one", "two"]).lines() == ("", "", "one")
