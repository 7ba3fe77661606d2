"""Opens every page of the built book in Chromium: `python -m book.walk` counts what a reader would notice.

Both languages, wide and on a phone, light and dark: no error in the console, nothing cut off at the right, no request
to another host, every picture loaded, every link within the site leads to a page and to an element of it. Then it
searches in both languages and fails if a search does not find its page. `--shots FOLDER PAGE ...` saves screenshots.
"""

import shutil
import sys
from collections import Counter
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote

from playwright.sync_api import TimeoutError as PlaywrightTimeout
from playwright.sync_api import sync_playwright

from book.__main__ import SITE

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")
QUERIES = {
    "search.html?q=beam+search": "guide.html",
    "search.html?q=attention": "ideas/multi-head.html",
    "zh/search.html?q=注意力": "ideas/multi-head.html",
    "zh/search.html?q=残差连接": "lab/depth.html",
    "zh/search.html?q=为什么要多头": "lab/heads.html",
    "zh/search.html?q=束搜索": "guide.html",
}
"""Searches, and a page that each must find."""
LOOK = """() => {
    const scrolls = (box) => box && (/auto|scroll/.test(getComputedStyle(box).overflowX) || scrolls(box.parentElement));
    const article = [...document.querySelectorAll("article *")];
    const cut = article.filter((box) => box.getBoundingClientRect().right > innerWidth + 1 && !scrolls(box));
    const wide = document.documentElement.scrollWidth > innerWidth;
    const links = [...document.links].map((link) => link.href);
    return {
        wrong: [
            ...(wide ? ["wider than the window"] : []),
            ...cut.slice(0, 1).map((box) => `cut off at the right: ${box.outerHTML.slice(0, 100)}`),
            ...[...document.images].filter((image) => !image.naturalWidth).map((image) => `not loaded: ${image.src}`),
        ],
        pictures: document.images.length,
        formulas: document.querySelectorAll("math").length,
        links: links.filter((link) => link.startsWith(location.origin)),
        names: [...document.querySelectorAll("[id], a[name]")].map((box) => box.id || box.name),
    };
}"""
"""What is wrong on a page, how many pictures and formulas it has, where its links lead, and what they can lead to."""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


class Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: Chromium stops loading when the walk goes on to the next page."""


def walk(site: Path, names: list[str], shots: Path | None = None) -> tuple[list[str], Counter[str]]:
    """Open pages of a site in all ways; return what is wrong, one line each, and counts."""
    wrong: list[str] = []
    seen: list[str] = []
    counts = Counter(pages=len(names))
    elements: dict[str, set[str]] = {}
    links: set[tuple[str, str]] = set()
    server = Server(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    Thread(target=server.serve_forever, daemon=True).start()
    host = f"http://127.0.0.1:{server.server_port}/"
    queries = list(QUERIES) if (site / "search.html").exists() else []
    with server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for width, scheme in product(WIDTHS, SCHEMES):
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page.on("console", lambda message: seen.append(message.text) if message.type == "error" else None)
            page.on("pageerror", lambda error: seen.append(str(error)))
            page.on("request", lambda request: seen.append(request.url))
            for name in [*names, *queries]:
                page.goto(host + name)
                if name in queries and not finds(page, QUERIES[name]):
                    seen.append(f"does not find {QUERIES[name]}")
                found = page.evaluate(LOOK)
                seen.extend(found["wrong"])
                counts.update(views=1, requests=sum(item.startswith(host) for item in seen))
                wrong += [f"{name} {width} {scheme}: {item}" for item in seen if not item.startswith((host, "data:"))]
                seen.clear()
                if name not in elements:
                    counts.update({key: found[key] for key in ("pictures", "formulas")})
                elements[name] = set(found["names"])
                links |= {(name, link.removeprefix(host)) for link in found["links"]}
                if shots:
                    page.screenshot(path=shots / f"{name.replace('/', '-')}-{width}-{scheme}.png")
            page.close()
        browser.close()
        server.shutdown()
    for name, link in sorted(links):
        path, _, anchor = link.partition("#")
        file = unquote(path.partition("?")[0])
        if not (site / file).is_file() or (anchor and file in elements and unquote(anchor) not in elements[file]):
            wrong.append(f"{name}: dead link {link}")
    return wrong, counts + Counter(links=len(links), searches=len(queries))


def finds(page: Any, target: str) -> bool:
    """Whether a page of search results comes to show a link to a page."""
    try:
        page.wait_for_selector(f"#search-results a[href*='{target}']", timeout=30_000)
    except PlaywrightTimeout:
        return False
    return True


def main() -> int:
    shots = Path(sys.argv[2]) if sys.argv[1:2] == ["--shots"] else None
    names = sys.argv[3:] or sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))
    wrong, counts = walk(SITE, names, shots)
    print(*wrong, ", ".join(f"{count} {name}" for name, count in counts.items()) + f": {len(wrong)} wrong", sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
