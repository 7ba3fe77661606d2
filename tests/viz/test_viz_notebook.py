"""viz/notebook.py: predictions and attention as HTML, by hand; nothing in a text is markup."""

import re
import xml.etree.ElementTree as ET

import numpy as np

from regard.viz.arcs import arcs_svg
from regard.viz.content import DependencyTree, Description, Marked, Preformatted, Shares
from regard.viz.notebook import block_html, descriptions_html, maps_html, table_html
from regard.viz.report import AttentionMap


def cells(html: str) -> list[list[str]]:
    """The texts of the rows of a table, headers included."""
    return [["".join(cell.itertext()) for cell in row] for row in ET.fromstring(html).iter("tr")]


def test_blocks() -> None:
    assert block_html("<b> & c") == "&lt;b&gt; &amp; c"
    assert block_html(Preformatted("a\n <b>")) == "<pre>a\n &lt;b&gt;</pre>"
    tree = ["Ada", "sleeps"], [2, 0], ["nsubj", "root"]
    assert block_html(DependencyTree(*tree)) == arcs_svg(*tree)
    marked = block_html(Marked("Ada met <Bob> in Oslo", [(17, 21, "LOC"), (0, 3, "PER")]))
    assert marked == "<mark>Ada <sub>PER</sub></mark> met &lt;Bob&gt; in <mark>Oslo <sub>LOC</sub></mark>"
    assert block_html(Marked("nothing", [], summary="no <names>")) == "no &lt;names&gt;"
    shares = block_html(Shares(["a<b", "c"], [0.75, 0.25]))
    assert re.findall(r"width:(\d+)px", shares) == ["90", "30"], "of 120 pixels"
    assert [re.sub(r"<[^>]*>", "", line).strip() for line in shares.split("</div>")] == ["a&lt;b 75.0%", "c 25.0%", ""]


def test_a_table_has_twenty_rows_and_counts_the_others() -> None:
    assert cells(table_html(["x<", "y"], [["1", "<b>2</b>"]])) == [["x<", "y"], ["1", "2"]]
    whole, cut = (table_html(["n"], [[str(n)] for n in range(count)]) for count in (20, 1021))
    assert cells(whole) == [["n"], *([str(n)] for n in range(20))]
    assert cut == f"{whole}<p>1,001 more</p>"


def test_a_reference_is_shown_if_there_is_one() -> None:
    items = [Description("one", ["eins", Preformatted("!")]), Description("two", ["zwei"], "ZWEI")]
    assert cells(descriptions_html(items[:1])) == [["input", "output"], ["one", "eins!"]]
    assert cells(descriptions_html(items)) == [
        ["input", "output", "reference"],
        ["one", "eins!", ""],
        ["two", "zwei", "ZWEI"],
    ]


def test_attention_is_the_mean_of_the_heads_of_each_layer() -> None:
    weights = np.zeros((2, 2, 25, 30))
    weights[0, 0, 1, 2], weights[0, 1, 1, 2], weights[1, 0, 19, 19], weights[1, 1, 20, 20] = 0.5, 1.0, 0.4, 1.0
    rows, columns = [f"r{n}" for n in range(25)], [f"c{n}" for n in range(30)]
    picture = maps_html([AttentionMap("cross", rows, columns, weights)])
    assert re.findall(r"<title>(r.*?)</title>", picture) == ["r1 → c2: 0.750", "r19 → c19: 0.200"]
    texts = [item.text for item in ET.fromstring(picture).iter() if item.tag.endswith("text")]
    assert texts.count("r19") == texts.count("c19") == 2 and "r20" not in texts and "c20" not in texts
    assert [text for text in texts if text and text.startswith("cross")] == ["cross 0", "cross 1"]
    assert maps_html([]) == ""
