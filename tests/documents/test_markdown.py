"""Markdown and JSON: all but the text stays; checked with markdown-it, the json module and random files."""

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from tests.documents.translators import Translate, anything, backwards, identity

from regard.documents.document import open_file
from regard.documents.segment import Segment, SegmentTranslation
from regard.errors import UserError

PAGE = """---
title: Front matter
---
# The *first* heading #

A paragraph with **two bold** words, `inline code`, [a link](https://x.org/a_b "title") and
a second line with an ![image of it](a.png) and <b>tags</b>.@@
Hard \\* break, [reference link][one], [one] and a note[^1]. <https://auto.link>

Setext heading
==============

- pears and plums
  go on here
- [x] done task
    1. nested item
> quoted text
> goes on

| Left cell | Right `a|b` cell |
|:----------|-----------------:|
| one \\| two | three four |

```python
print("not translated")
```

    indented code stays

<div align="center">
  Block of <i>HTML</i>
</div>

<!-- a comment

with a blank line -->

***

[one]: https://one.example/x "Its title"
[^1]: The text of a note
""".replace("@@", "  ")


def translated(name: str, content: str | bytes, translate: Translate = backwards) -> str:
    data = content.encode() if isinstance(content, str) else content
    symbols = tuple(f"⦅{n}⦆" for n in range(8))
    document = open_file(name, data, language="en", placeholders=symbols)
    return document.render([translate(segment) for segment in document.segments]).decode()


def sentences(name: str, content: str) -> list[str]:
    return [segment.text for segment in open_file(name, content.encode(), language="en").segments]


def skeleton(page: str) -> list[Any]:
    """Blocks, and for each paragraph its inline marks, targets and code in any order."""
    found: list[Any] = []
    for token in MarkdownIt("commonmark").enable("table").parse(page):
        found.append((token.type, token.level, token.content if token.type in ("fence", "code_block") else ""))
        marks = [
            (
                child.type,
                child.attrs.get("href") or child.attrs.get("src"),
                child.content * (child.type == "code_inline"),
            )
            for child in token.children or ()
            if child.type not in ("text", "softbreak", "image")
        ]
        found.append(sorted(marks, key=str))
    return found


def test_a_page_of_everything() -> None:
    page = PAGE.split("---\n", 2)[2]
    assert translated("a.md", PAGE, identity) == PAGE
    result = translated("a.md", PAGE)
    assert skeleton(result.split("---\n", 2)[2]) == skeleton(page)
    for kept in (
        "title: Front matter",
        'print("not translated")',
        "    indented code stays",
        "[x] ",
        "[one]: https://one",
    ):
        assert kept in result
    assert "CELL LEFT" in result and "HTML" in result and "HEADING" in result
    assert "# HEADING *FIRST* THE #\n" in result
    found = sentences("a.md", PAGE)
    assert "pears and plums go on here" in found and "nested item" in found and "The text of a note" in found
    assert not any("indented" in item or "Front" in item or "comment" in item for item in found)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_line_ends_and_marks_stay(end: str, bom: bytes) -> None:
    data = bom + PAGE.replace("\n", end).encode()
    document = open_file("a.md", data, language="en")
    assert document.render([identity(item) for item in document.segments]) == data
    assert document.render([backwards(item) for item in document.segments]).count(end.encode()) == data.count(
        end.encode()
    )
    assert translated("a.md", data.rstrip(), identity).encode() == data.rstrip().removeprefix(bom) or bom


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("2 * 3 * 4 is it", ["2 * 3 * 4 is it"]),
        ("a snake_case_name here", ["a snake_case_name here"]),
        ("**open bold", ["**open bold"]),
        ("[no link] here", ["[no link] here"]),
        ("* * *", []),
        ("````\n```\ncode\n````\ntext", ["text"]),
        ("- item\n\n  second paragraph\n\n        deep code", ["item", "second paragraph"]),
        ("text\n    not code", ["text not code"]),
        ("![only alt](x.png)", ["only alt"]),
        ("", []),
    ],
)
def test_what_is_read_as_text(page: str, expected: list[str]) -> None:
    assert sentences("a.md", page) == expected
    assert translated("a.md", page, identity) == page


MARKS = """word Two,* ** _ __ ~~ ` `` [ ] ( ) ![ ](u) [a][b] < <b> </b> <!-- --> \\* | --- # ## - + 1. > ``` ~~~ & &amp;
{{y}} %s 你好 . !"""
PIECES = st.sampled_from([*MARKS.split(), "{% x %}", " ", "  ", "\t", "\n", "\n\n", "\r\n", "\n    ", "\n- ", "\\"])


@settings(max_examples=150, derandomize=True, deadline=None)
@given(st.lists(PIECES, max_size=25).map("".join), st.integers(0, 99))
def test_any_markdown(page: str, seed: int) -> None:
    assert translated("a.md", page, identity) == page
    document = open_file("a.md", page.encode())
    document.render([anything(seed)(segment) for segment in document.segments])


# ---- JSON ------------------------------------------------------------------------------------------------------------

VALUES = {
    "title": "Hello {{name}}",
    "nested": {"a.b": ["One two", 3, None, True, "x_y", "src/main.js", "en-US"]},
    "quote": 'Say "hi" \\ now',
    "lines": "First line\nSecond <b>line</b>",
    "icu": "{n, plural, one {# file} other {# files}}",
    "empty": "",
}


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    return [shape(item) for item in value] if isinstance(value, list) else "" if isinstance(value, str) else value


def test_json_values_are_translated_and_keys_are_kept() -> None:
    text = json.dumps(VALUES, indent=2, ensure_ascii=False) + "\n"
    result = translated("de.json", text)
    read = json.loads(result)
    assert shape(read) == shape(VALUES)
    assert read["title"] == "{{name}} HELLO" and read["quote"] == 'NOW \\ " HI " SAY'
    assert read["nested"]["a.b"] == ["TWO ONE", 3, None, True, "x_y", "src/main.js", "en-US"]
    assert read["lines"].split("\n")[0] == "LINE FIRST" and read["icu"] == VALUES["icu"]
    assert translated("de.json", text, identity) == text


@pytest.mark.parametrize(
    "text",
    [
        '{"a" : "b\\/c d", "e":"caf\\u00e9 x"}',
        '["one two" ,\r\n\t"\\ud83d\\ude00 hi"]',
        '"just one"',
        "[1e5, -0.0, {}]",
        '["\\ud800 x"]',
    ],
)
def test_unchanged_json_keeps_its_bytes(text: str) -> None:
    assert translated("a.json", text, identity) == text
    json.loads(translated("a.json", text))


def test_escapes_follow_the_file() -> None:
    assert translated("a.json", '["caf\\u00e9 x"]') == '["X CAF\\u00c9"]'
    assert translated("a.json", '["café x"]') == '["X CAFÉ"]'


@pytest.mark.parametrize(("text", "where"), [('{"a": 1,\n2}', "line 2"), ("[" * 100_000, "line 1"), ("", "line 1")])
def test_broken_json_is_refused(text: str, where: str) -> None:
    with pytest.raises(UserError) as error:
        open_file("a.json", text.encode())
    assert (error.value.code, error.value.where) == ("bad-json", where)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(
    st.recursive(st.text() | st.integers() | st.booleans(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)),
    st.integers(0, 99),
)
def test_any_json(value: Any, seed: int) -> None:
    text = json.dumps(value, ensure_ascii=bool(seed % 2), indent=seed % 3 or None)
    if not seed % 2:
        text = text.encode("utf-8", "replace").decode()
    assert translated("a.json", text, identity) == text
    assert shape(json.loads(translated("a.json", text, anything(seed)))) == shape(json.loads(text))


SIZE = 5000


def test_large_files_take_linear_time() -> None:
    rng = random.Random(1)
    for piece in ("[", "](a", "`a ", "**a ", "<a ", "| a ", "- a\n", "_a", "\\"):
        page = "".join(piece for _ in range(SIZE)) + str(rng.random())
        open_file("a.md", page.encode())


@pytest.mark.parametrize("mark", ["*", "**", "***", "__", "~~"])
def test_emphasis_without_words_leaves_no_marks(mark: str) -> None:
    def one_word(segment: Segment) -> SegmentTranslation:
        return SegmentTranslation("w", links=((0, 3, 0, 1),))

    page = f"One {mark}two{mark} {mark}three{mark}\n"
    assert translated("a.md", page, one_word) == f"{mark}w{mark}\n"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_tables_and_html_after_a_paragraph_with_any_line_ends(end: str) -> None:
    page = "| One two | 3 |\n|--|:-:|\n| Four five | `a|b` |\n\nSix seven\n<div>\nEight nine\n</div>\n".replace(
        "\n", end
    )
    assert sentences("a.md", page) == ["One two", "Four five", "Six seven", "Eight nine"]
    expected = page.replace("One two", "TWO ONE").replace("Four five", "FIVE FOUR")
    expected = expected.replace("Six seven", "SEVEN SIX").replace("Eight nine", "NINE EIGHT")
    assert translated("a.md", page) == expected
    closing = "One <i>two</i>\n</div>\n".replace("\n", end)
    assert translated("a.md", closing) == closing.replace("One <i>two</i>", "<i>TWO</i> ONE")
