"""Checks the built site: no dead links, nothing from other hosts, every page near the front page."""

import re
from collections import deque
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

RESOURCES = {
    "script": "src",
    "img": "src",
    "link": "href",
    "iframe": "src",
    "source": "src",
    "object": "data",
    "use": "href",
}
EXTERNAL = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)
MARKDOWN = re.compile(r".{,20}(?:\*\*|\]\(|```).{,20}")
"""Markup that was not read, such as two asterisks that begin no bold text."""
CODE = ("code", "pre", "script", "style")
MAX_CLICKS = 3
MADE_BY_SPHINX = ("genindex.html", "search.html")


class Page(HTMLParser):
    """The links, resources and anchors of an HTML file."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file
        self.links: list[str] = []
        self.resources: list[str] = []
        self.anchors: set[str] = set()
        self.marks: list[str] = []
        self.code = 0
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.code += tag in CODE
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if RESOURCES.get(tag) in found:
            self.resources.append(found[RESOURCES[tag]])

    def handle_endtag(self, tag: str) -> None:
        self.code -= tag in CODE

    def handle_data(self, data: str) -> None:
        self.marks += [] if self.code else MARKDOWN.findall(data)

    @cached_property
    def targets(self) -> list[tuple[Path, str]]:
        """The files within the site that this page links to or loads, each with an anchor."""
        inside = [link.partition("#") for link in [*self.links, *self.resources] if not EXTERNAL.match(link)]
        return [(self.resolve(path), unquote(anchor)) for path, _, anchor in inside]

    def resolve(self, link: str) -> Path:
        path = unquote(link.partition("?")[0])
        return (self.file.parent / path).resolve() if path else self.file


def check_site(site: Path) -> list[str]:
    """What is wrong with a built site, one line each."""
    site = site.resolve()
    pages = {file: Page(file) for file in sorted(site.rglob("*.html"))}
    wrong = []
    for file, page in pages.items():
        name = file.relative_to(site)
        wrong += [f"{name}: shows Markdown: {mark}" for mark in page.marks]
        wrong += [f"{name}: loads {item}" for item in page.resources if EXTERNAL.match(item) and item[:5] != "data:"]
        for target, anchor in page.targets:
            known = pages[target].anchors if target in pages else None
            if not target.is_file() or (anchor and known is not None and anchor not in known):
                wrong.append(f"{name}: dead link {target.name}#{anchor}")
        english = name.as_posix().removeprefix("zh/")
        twin = site / (english if name.parts[0] == "zh" else f"zh/{english}")
        if not english.startswith(("source/", *MADE_BY_SPHINX)) and twin not in {target for target, _ in page.targets}:
            wrong.append(f"{name}: no link to {twin.relative_to(site)}")
    for style in site.rglob("*.css"):
        loaded = re.findall(r"(?:url\(|@import )\s*['\"]?((?:https?:)?//[^'\")]+)", style.read_text(encoding="utf-8"))
        wrong += [f"{style.relative_to(site)}: loads {item}" for item in loaded]
    near = clicks(site / "index.html", pages)
    far = [file for file in pages if near.get(file, MAX_CLICKS + 1) > MAX_CLICKS]
    return wrong + [f"{file.relative_to(site)}: not within {MAX_CLICKS} clicks of the front page" for file in far]


def clicks(start: Path, pages: dict[Path, Page]) -> dict[Path, int]:
    """How many links a reader follows from the first page to each other one."""
    found, queue = {start.resolve(): 0}, deque([start.resolve()])
    while queue:
        file = queue.popleft()
        for target, _ in pages[file].targets:
            if target in pages and target not in found:
                found[target] = found[file] + 1
                queue.append(target)
    return found
