"""viz/panel.py: predictions for a terminal."""

from regard.viz.panel import Screen


def test_tags_are_below_wide_words_and_lines_are_wrapped() -> None:
    tagged = list(zip(["Ada", "读", "书", "\x1b[2J"], ["B-PER", "O", "NOUN", "X"], strict=True))
    assert Screen(colour=False, columns=80).tags(tagged) == "Ada   读 书   ␛[2J\nB-PER    NOUN X"
    narrow = Screen(colour=False, columns=12).tags(tagged).split("\n")
    assert narrow == ["Ada   读", "B-PER", "书   ␛[2J", "NOUN X"]


def test_bars() -> None:
    bars = Screen(colour=False, columns=60).bars([("yes", 0.75), ("no", 0.25)]).split("\n")
    assert bars == ["→ yes  " + "█" * 18 + " " * 6 + "  75%", "  no   " + "█" * 6 + " " * 18 + "  25%"]


def test_a_marked_span() -> None:
    text = "x" * 300 + " here " + "y" * 300
    marked = Screen(colour=False, columns=60).marked(text, 301, 305)
    assert "x [[here]] y" in marked and marked.count("…") == 2
    assert "[[" not in Screen(colour=True, columns=60).marked(text, 301, 305)
