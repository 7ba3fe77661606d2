"""Opens every page of the built book in Chromium: `python -m book.walk` counts what a reader would notice.

Both languages, wide and on a phone, light and dark: no error in the console, no page wider than the window, no request
to another host. Then it searches in both languages and fails if a search does not find its page.
`--shots FOLDER PAGE ...` saves screenshots of some pages.
"""

import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from threading import Thread
from typing import Any

from playwright.sync_api import sync_playwright

from book.__main__ import SITE

WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")
QUERIES = {
    "search.html?q=beam+search": "guide.html",
    "zh/search.html?q=残差连接": "lab/depth.html",
    "zh/search.html?q=为什么要多头": "lab/heads.html",
    "zh/search.html?q=束搜索": "guide.html",
}
"""Searches, and a page that each must find."""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


def walk(names: list[str], shots: Path | None) -> list[str]:
    """Open pages of the site in all ways, then search; return what is wrong, one line each."""
    wrong: list[str] = []
    seen: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE)))
    Thread(target=server.serve_forever, daemon=True).start()
    host = f"http://127.0.0.1:{server.server_port}/"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for width, scheme in product(WIDTHS, SCHEMES):
            page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page.on("console", lambda message: seen.append(message.text) if message.type == "error" else None)
            page.on("pageerror", lambda error: seen.append(str(error)))
            page.on("request", lambda request: seen.append(request.url))
            for name in names:
                page.goto(host + name)
                if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
                    seen.append("wider than the window")
                wrong += [f"{name} {width} {scheme}: {item}" for item in seen if not item.startswith((host, "data:"))]
                seen.clear()
                if shots:
                    page.screenshot(path=shots / f"{name.replace('/', '-')}-{width}-{scheme}.png")
            for query, target in QUERIES.items():
                page.goto(host + query)
                page.wait_for_selector(f"#search-results a[href*='{target}']", timeout=30_000)
        browser.close()
    server.shutdown()
    return wrong


def main() -> int:
    shots = Path(sys.argv[2]) if sys.argv[1:2] == ["--shots"] else None
    names = sys.argv[3:] or sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))
    wrong = walk(names, shots)
    print(*wrong, f"{len(names)} pages, {len(names) * 4} views, {len(QUERIES)} searches: {len(wrong)} wrong", sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
