"""Turns the repository's Markdown pages into Sphinx sources, one folder per language.

    README.md, docs/guide.md, docs/ideas/README.md            ->  en/index.md, en/guide.md, en/ideas/index.md
    README.zh.md, docs/guide.zh.md, docs/ideas/README.zh.md   ->  zh/index.md, zh/guide.md, zh/ideas/index.md

The files stay as a repository browser shows them; only links change. A link to a page in the other language becomes an
HTML link between the two sites, and a link to source code leads to a page that shows the code.
"""

import ast
import os
import re
import shutil
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_for_filename

from book.reference import MAKERS

ROOT = Path(__file__).parents[1]
CONTENTS = tomllib.loads(Path(__file__).with_name("contents.toml").read_text(encoding="utf-8"))
SITES = {"en": "", "zh": "zh/"}
"""The folder of each language on the site."""
TWINS = {"en": ("zh", "中文"), "zh": ("en", "English")}
CODE = re.compile(r"(^ *```.*?^ *```|`[^`\n]*`|\$\$.*?\$\$)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
CODE_LINK = re.compile(r"()\[(`[^`\n]+`)\]\(([^)\s]+)\)")
CHINESE_BREAK = re.compile(r"(?<=[\u3000-\u9fff\uff00-\uffef])\n *(?=[\u3000-\u9fff\uff00-\uffef])")
"""A line break within a Chinese sentence, which browsers would show as a space."""
CHINESE_SPACE = re.compile(
    r"(?<=[，。；：、（）！？]) (?=\$[^$\s]|\*\w)|(?<=[^$\s]\$) (?=[，。；：、（）！？])"
    r"|(?<=[，。；：、）！？])\n *(?=[A-Za-z\[$])"
)
"""A space or line break beside Chinese punctuation; GitHub reads a formula only between spaces."""
SHOWN = (".py", ".toml", ".conf")
"""Extensions of files that are shown on a page of their own."""


def page_name(path: Path) -> str | None:
    """The name on the site of a file in the repository, or None if it is no page: pages are in docs and at the top."""
    name = path.as_posix().removesuffix(".md").removesuffix(".zh")
    if path.suffix != ".md" or (len(path.parts) > 1 and path.parts[0] not in ("docs", "benchmarks")):
        return None
    if name.startswith("docs/"):
        return re.sub(r"\bREADME$", "index", name.removeprefix("docs/"))
    return {"README": "index"}.get(name, name.removesuffix("/README").lower())


def language_of(path: Path) -> str:
    return "zh" if path.name.endswith(".zh.md") else "en"


def all_pages() -> dict[str, dict[str, Path]]:
    """For each language, the Markdown files by their names on the site."""
    pages: dict[str, dict[str, Path]] = {language: {} for language in SITES}
    for path in [*sorted((ROOT / "docs").rglob("*.md")), *ROOT.glob("*.md"), *ROOT.glob("benchmarks/*.md")]:
        if name := page_name(path.relative_to(ROOT)):
            pages[language_of(path)][name] = path
    return pages


@cache
def definitions(file: Path) -> dict[str, int]:
    """The lines of functions, classes and methods in a Python file, by their names."""
    found: dict[str, int] = {}
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef):
            found |= {
                f"{node.name}.{item.name}": item.lineno for item in node.body if isinstance(item, ast.FunctionDef)
            }
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.setdefault(node.name, node.lineno)
    return found


class Stage:
    """The Sphinx sources of one language."""

    def __init__(self, language: str, folder: Path) -> None:
        self.language, self.folder = language, folder
        self.sources: set[Path] = set()

    def write(self, name: str, text: str) -> None:
        path = self.folder / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def adapt(self, file: Path, name: str) -> str:
        """A page's text whose links lead to pages on the site."""

        def replace(match: re.Match[str]) -> str:
            picture, label, link = match.groups()
            if re.match(r"[a-z]+:|#", link):
                return match.group()
            target, _, anchor = link.partition("#")
            path = Path(os.path.normpath(file.parent.relative_to(ROOT) / target))
            return picture + self.link(label, path, "#" * bool(anchor) + anchor, name)

        text = re.sub(r'^<a id="([^"]+)"></a>$', r"(\1)=", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
        parts = CODE.split(CODE_LINK.sub(replace, text))
        parts[::2] = [LINK.sub(replace, CHINESE_SPACE.sub("", CHINESE_BREAK.sub("", part))) for part in parts[::2]]
        return "".join(parts)

    def link(self, label: str, path: Path, anchor: str, name: str) -> str:
        """A link from page `name` to a file in the repository."""
        page, here = page_name(path), Path(name).parent
        if page and language_of(path) == self.language:
            return f"[{label}]({os.path.relpath(f'{page}.md', here)}{anchor})"
        if page:
            return self.foreign(label, f"{page}.html{anchor}", language_of(path), name)
        if path.suffix in SHOWN and (ROOT / path).is_file():
            self.sources.add(path)
            lines = definitions(ROOT / path) if path.suffix == ".py" else {}
            line = lines.get(label.strip("`").replace("\\", ""))
            return self.foreign(label, f"{source_name(path)}.html{f'#L-{line}' if line else ''}", "en", name)
        copied = path.as_posix().removeprefix("docs/")
        if (ROOT / path).is_file():
            (self.folder / copied).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, self.folder / copied)
        return f"[{label}]({os.path.relpath(copied, here)})"

    def foreign(self, label: str, target: str, language: str, name: str) -> str:
        """An HTML link to a page that this language's build does not contain."""
        address = os.path.relpath(SITES[language] + target, (Path(SITES[self.language]) / name).parent)
        return f'<a class="reference" hreflang="{language}" href="{address}">{label}</a>'

    def made_page(self, key: str, name: str, lines: str) -> str:
        """A page that is made from the code, with a link to its twin."""
        title, about = CONTENTS["made"][key][self.language]
        other, label = TWINS[self.language]
        return f"# {title}\n\n{self.foreign(label, f'{name}.html', other, name)}\n\n{about}\n\n{lines}"


def stage(folder: Path) -> None:
    """Write the Sphinx sources of both languages into a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    stages = {language: Stage(language, folder / language) for language in SITES}
    texts = {
        language: {name: stages[language].adapt(path, name) for name, path in pages.items()}
        for language, pages in all_pages().items()
    }
    files = sorted(stages["en"].sources | stages["zh"].sources)
    write_sources(stages["en"], files)
    reference = {name: "\n".join(make()) for name, make in MAKERS.items()}
    for language, made in stages.items():
        pages = texts[language]
        for key, text in reference.items():
            pages[f"reference/{key}"] = made.made_page(key, f"reference/{key}", text)
        shown = [(file.as_posix(), f"{source_name(file)}.html") for file in files]
        listed = "\n".join(f"- {made.foreign(label, target, 'en', 'source/index')}" for label, target in shown)
        pages["source/index"] = made.made_page("source", "source/index", listed)
        for name, text in pages.items():
            trees = contents(language, list(pages)) if name == "index" else folder_contents(name, text, list(pages))
            made.write(name, "".join([text, *trees]))


def contents(language: str, names: list[str]) -> Iterator[str]:
    """One toctree per part of the book."""
    folders = {name.removesuffix("index") for name in names if name.endswith("/index")}
    parts = [[name for name in part["pages"] if name in names] for part in CONTENTS["part"]]
    listed = {"index", *(name for part in parts for name in part)}
    parts[-1] += [name for name in names if name not in listed and f"{Path(name).parent}/" not in folders]
    for part, chosen in zip(CONTENTS["part"], parts, strict=True):
        yield toctree(f":caption: {part[language]}", chosen)


def folder_contents(name: str, text: str, names: list[str]) -> Iterator[str]:
    """The toctree of a folder's first page: all pages beside it, in the order of its links."""
    beside = [other for other in names if Path(other).parent == Path(name).parent and other != name]
    if name.endswith("/index") and beside:
        order = [Path(link).name for link in re.findall(r"\]\(([^)#]+)\.md", text)]
        beside.sort(key=lambda other: order.index(Path(other).name) if Path(other).name in order else len(order))
        yield toctree("", [Path(other).name for other in beside])


def toctree(caption: str, names: list[str]) -> str:
    return "\n".join(["\n\n```{toctree}", ":hidden:", caption, "", *names, "```", ""])


def source_name(path: Path) -> str:
    return f"source/{path.as_posix().removeprefix('src/')}"


def write_sources(made: Stage, files: list[Path]) -> None:
    """A page for each source file that a page links to."""
    shape = HtmlFormatter(linenos="inline", lineanchors="L", anchorlinenos=True, wrapcode=True)
    for file in files:
        code = highlight((ROOT / file).read_text(encoding="utf-8"), get_lexer_for_filename(file.name), shape)
        title = file.as_posix().removeprefix("src/regard/")
        made.write(
            source_name(file), f"---\norphan: true\nnosearch: true\n---\n# {title}\n\n`````{{raw}} html\n{code}`````\n"
        )
