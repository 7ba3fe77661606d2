"""The book: its sources, its search and its checks. `make docs` builds it and checks every page of the site."""

import re
from pathlib import Path

import pytest
from tests.pages import ROOT, blocks

sphinx = pytest.importorskip("sphinx", reason="pip install 'regard[dev]'")

from book.check import check_site  # noqa: E402
from book.conf import ChineseSearch, mathml  # noqa: E402
from book.reference import MAKERS  # noqa: E402
from book.stage import CHINESE_SPACE, CONTENTS, all_pages, definitions, stage  # noqa: E402

from regard.cli.settings import setting_rows  # noqa: E402
from regard.cli.shell import COMMANDS  # noqa: E402


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("book")
    stage(folder)
    return folder


def trees(page: Path) -> list[str]:
    """The pages in the toctrees of a staged page."""
    lines = "\n".join(blocks(page, r"\{toctree\}")).splitlines()
    return [line for line in lines if line and not line.startswith(":")]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_page_is_in_one_toctree(staged: Path, language: str) -> None:
    folder = staged / language
    listed = [
        (page.parent / name).relative_to(folder).as_posix() for page in folder.rglob("index.md") for name in trees(page)
    ]
    pages = {path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.md")}
    code = {name for name in pages if name.startswith("source/") and name != "source/index"}
    assert sorted(listed) == sorted(pages - code - {"index"})


def test_pages_of_the_contents_exist(staged: Path) -> None:
    """Pages that the contents name are in the book; two of them may come later."""
    named = {name for part in CONTENTS["part"] for name in part["pages"]}
    assert {name for name in named if not (staged / "en" / f"{name}.md").exists()} <= {
        "groundwork/index",
        "answers",
        "equations",
    }


def test_links_between_languages_and_to_code_are_html(staged: Path) -> None:
    page, chinese = (staged / language / "ideas" / "multi-head.md" for language in ("en", "zh"))
    assert '<a class="reference" hreflang="zh" href="../zh/ideas/multi-head.html">中文</a>' in page.read_text("utf-8")
    text = chinese.read_text(encoding="utf-8")
    assert 'href="../../ideas/multi-head.html">English</a>' in text and "](index.md)" in text
    assert 'href="../../source/regard/attention/attend.py.html"' in text
    for path in staged.rglob("*.md"):
        assert not re.search(r"\]\([^)]*\.zh\.md", path.read_text(encoding="utf-8")), path.name


def test_reference_lists_every_command_setting_and_name() -> None:
    commands, settings, python = ("\n".join(make()) for make in MAKERS.values())
    assert re.findall(r"^### regard (\w+)$", commands, re.MULTILINE) == list(COMMANDS)
    assert {row["setting"] for row in setting_rows()} == set(re.findall(r"^`([\w.]+)` [=(]", settings, re.MULTILINE))
    assert {"translate", "Translator", "Transformer"} <= set(re.findall(r"^### (\w+)$", python, re.MULTILINE))


def test_every_formula_becomes_mathml() -> None:
    count = 0
    for path in [path for pages in all_pages().values() for path in pages.values()]:
        text = re.sub(r"^```.*?^```|`[^`\n]*`", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for formula in re.findall(r"\$\$(.+?)\$\$|\$([^$\s](?:[^$]*[^$\s])?)\$", text, re.DOTALL):
            made = mathml("".join(formula))
            assert made.startswith("<math") and "\\" not in made, (path.name, formula)
            count += 1
    assert count > 500


def test_names_of_functions_are_set_apart() -> None:
    thin = '<mspace width="0.167em"/>'
    assert f"<mi>p</mi>{thin}<mi>log</mi>{thin}<mi>p</mi>" in mathml(r"- p \log p")
    assert thin not in mathml(r"\log(x)") + mathml(r"\log_2") + mathml(r"x_i y")


def test_chinese_punctuation_has_no_spaces_beside_it() -> None:
    spaced = "其中 $Q$ 、 $K$ 的（ $d$ ）\n和 $V$ 。\nBERT： $x$\n"
    assert CHINESE_SPACE.sub("", spaced) == "其中 $Q$、$K$ 的（$d$）\n和 $V$。BERT：$x$\n"


def test_chinese_is_searched_by_pairs_of_characters() -> None:
    found = set(ChineseSearch({}).split("多头注意力 in BERT"))
    assert {"多头", "头注", "注意", "意力", "力", "BERT", "in"} <= found and "多头注" not in found


def test_a_wrong_site_is_found(tmp_path: Path) -> None:
    def write(name: str, body: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(body, encoding="utf-8")

    write("index.html", '<a href="zh/index.html#a">x</a><a href="https://example.org">fine</a>')
    write("zh/index.html", '<p id="a"><a href="../index.html">x</a>')
    assert check_site(tmp_path) == []
    write("index.html", '<a href="zh/index.html#b">x</a><a href="no.html">x</a><script src="//cdn.org/x.js"></script>')
    write("lost.html", '<img src="http://example.org/x.png"><code>**</code> **no bold。**text')
    write("style.css", "@import 'https://example.org/x.css'; a { background: url(data:image/png;base64,) }")
    assert check_site(tmp_path) == [
        "index.html: loads //cdn.org/x.js", "index.html: dead link index.html#b", "index.html: dead link no.html#",
        "lost.html: shows Markdown:  **no bold。**text",
        "lost.html: loads http://example.org/x.png", "lost.html: no link to zh/lost.html",
        "style.css: loads https://example.org/x.css", "lost.html: not within 3 clicks of the front page",
    ]  # fmt: skip


def test_every_page_has_a_twin() -> None:
    english, chinese = all_pages().values()
    assert sorted(english.keys() ^ chinese.keys()) == []
    for name, path in english.items():
        other = chinese[name]
        assert f"[中文]({other.name})" in path.read_text(encoding="utf-8"), path.relative_to(ROOT)
        assert f"[English]({path.name})" in other.read_text(encoding="utf-8"), other.relative_to(ROOT)


@pytest.mark.parametrize("name", ["equations.md", "equations.zh.md"])
def test_equations_name_functions_that_exist(name: str) -> None:
    page = ROOT / "docs" / name
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| ") and "$" in line]
    links = [(row, re.findall(r"\[`([\w.]+)`\]\(([^)]+)\)", row)) for row in rows]
    assert [row for row, found in links if not found and "(8)" not in row] == []
    for _, found in links:
        for function, file in found:
            assert function in definitions((page.parent / file).resolve()), function


def test_every_numbered_equation_is_listed() -> None:
    """Bahdanau et al. number 7 equations, Luong et al. 10, Vaswani et al. 3."""
    parts = (ROOT / "docs" / "equations.md").read_text(encoding="utf-8").split("\n## ")[1:]
    counts = [len(set(re.findall(r"^\| (\(\d+\)) \|", part, re.MULTILINE))) for part in parts]
    assert counts == [7, 10, 3, 0]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_equations_are_within_three_clicks(staged: Path, language: str) -> None:
    """Follow links from the front page: to the table, and from each of its rows to the line that defines the function.

    The toctrees of the front page are the sidebar of every page.
    """
    assert "equations" in trees(staged / language / "index.md")
    assert re.search(r"\]\(equations\.md\)", (staged / language / "index.md").read_text(encoding="utf-8"))
    rows = re.findall(r"^\| .*\$.*$", (staged / language / "equations.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) == 47
    for row in rows:
        links = re.findall(r'href="(?:\.\./)?(source/[^"#]+)\.html#L-(\d+)"[^>]*>`(?:\w+\.)?(\w+)`<', row)
        for page, line, function in links:
            shown = (staged / "en" / f"{page}.md").read_text(encoding="utf-8")
            found = re.search(rf'<a id="L-{line}" .*', shown)
            assert found and function in found.group(), row


def test_walk_finds_what_a_reader_would_notice(tmp_path: Path) -> None:
    pytest.importorskip("playwright", reason="pip install playwright")
    from book.walk import CHROMIUM, walk

    if not CHROMIUM:
        pytest.skip("no Chromium")

    (tmp_path / "good.html").write_text('<link rel=icon href="data:,"><p id="a"><a href="good.html#a">x</a>')
    (tmp_path / "bad.html").write_text(
        '<link rel=icon href="data:,"><article style="overflow: hidden"><p style="width: 500px">wide</article>'
        '<img src="none.png"><a href="good.html#b">x</a><script>f()</script><img src="http://127.0.0.2:9/x.png">'
    )
    wrong, counts = walk(tmp_path, ["good.html", "bad.html"])
    assert (counts["views"], counts["links"], counts["pictures"]) == (8, 2, 2)
    assert not any(line.startswith("good.html") for line in wrong)
    for scheme in ("light", "dark"):
        assert any(line.startswith(f"bad.html 390 {scheme}: cut off at the right") for line in wrong)
        assert any(re.match(rf"bad.html 1280 {scheme}: not loaded: http.*/none.png", line) for line in wrong)
        assert f"bad.html 1280 {scheme}: http://127.0.0.2:9/x.png" in wrong
        assert f"bad.html 1280 {scheme}: f is not defined" in wrong
    assert not any("cut off" in line for line in wrong if "1280" in line)
    assert wrong[-1] == "bad.html: dead link good.html#b"
