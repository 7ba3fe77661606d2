"""Pictures of the page for the documentation, taken in Chromium from a real server.

    python -m benchmarks.screenshots                                the bundled runs: translator and languages
    python -m benchmarks.screenshots runs/de languages --output /tmp/pictures
    python -m benchmarks.screenshots --only page-beam,page-beam.zh  some of them; .zh: in Chinese

A picture in Chinese needs a Chinese font, e.g. fonts-noto-cjk.

It needs Playwright and Chromium (`--chromium PATH` if it is not on the PATH). Pictures have 256 colours, so that they
stay small.
"""

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.servers import running_server
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
TEXT, TARGET = "The old man reads a book in the garden because the weather is good.", "de"
TEXTS = (
    "Good morning, how are you?", "I would like a cup of tea.", "Where is the station?",
    "Guten Morgen, wie geht es dir?", "Ich hätte gern eine Tasse Tee.", "Wo ist der Bahnhof?",
    "Bonjour, comment vas-tu ?", "Je voudrais une tasse de thé.", "Où est la gare ?",
    "Buenos días, ¿cómo estás?", "Quisiera una taza de té.", "¿Dónde está la estación?",
    "早上好，你好吗？", "我想要一杯茶。", "车站在哪里？",
)  # fmt: skip
CHINESE = "因为今天天气很好，所以我想和朋友一起出去走走。"
LINES = {"en": 15, "zh-Hans": 14}
"""The token whose attention is shown as lines, by language of the page."""
COLOURS = 256
LIMIT = 60_000
"""Milliseconds that a page may take, the time to load the models included."""


def attention(page: Page) -> None:
    """The page with a translation, its alternatives, and one head."""
    page.locator(".overview tbody tr").nth(-2).locator(".thumb").nth(1).click()
    words = page.locator("#output .linked")
    words.nth(min(2, words.count() - 1)).hover()


def lines(page: Page) -> None:
    """One head as lines."""
    attention(page)
    page.mouse.move(1, 1)
    page.locator("#inside .controls .choice").nth(1).locator("button").nth(1).click()
    page.focus(".lines")
    for _ in range(LINES[str(page.get_attribute("html", "lang"))]):
        page.keyboard.press("ArrowDown")


def arithmetic(page: Page) -> None:
    """One head step by step."""
    page.locator(".overview tbody tr").nth(-2).locator(".thumb").nth(1).click()
    page.click("#tab-arithmetic")
    page.wait_for_selector(".step-table")
    page.locator(".query button").nth(2).click()


def beam(page: Page) -> None:
    """The beam as a tree."""
    page.click("#tab-beam")
    page.wait_for_selector(".beam .node")


def words(page: Page) -> None:
    """Other words for one word of the translation, and marks on the unsure ones."""
    page.check("#unsure")
    places = page.locator("#output .linked")
    places.nth(min(6, places.count() - 1)).click()
    page.wait_for_selector("#word-menu .offers button")


def classes(page: Page) -> None:
    """A classifier: the language of a text, and the vectors of several texts."""
    page.select_option("#run", "languages")
    page.fill("#field-text", "Guten Morgen, wie geht es dir?")
    page.wait_for_selector(".answer[aria-busy=false] .share")
    page.click("#tab-vectors")
    page.fill("#lines", "\n".join(TEXTS))
    page.wait_for_selector(".text-dot")


WIDE = {"viewport": {"width": 1180, "height": 1240}}
PHONE = {"viewport": {"width": 360, "height": 1240}, "device_scale_factor": 2}
SHOTS: dict[str, tuple[dict[str, Any], str, str, Callable[[Page], None], str]] = {
    "page": (WIDE, TEXT, TARGET, attention, ""),
    "page-dark": (WIDE | {"color_scheme": "dark"}, TEXT, TARGET, attention, ""),
    "page-phone": (PHONE, TEXT, TARGET, attention, ""),
    "page-words": (WIDE, TEXT, TARGET, words, "#ask"),
    "page-attention": (WIDE, TEXT, TARGET, lines, "#inside"),
    "page-arithmetic": (WIDE, TEXT, TARGET, arithmetic, "#inside"),
    "page-beam": (WIDE, TEXT, TARGET, beam, "#inside"),
    "page-classes": (WIDE, TEXT, TARGET, classes, ""),
}
"""Options of the browser, text, target language, what is done, and the part of the page; "" is what a window shows."""
SHOTS |= {
    f"{name}.zh": (browser | {"locale": "zh-CN"}, CHINESE, "en", act, part)
    for name, (browser, _, _, act, part) in SHOTS.items()
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", default=["translator", "languages"], help="runs; the first one translates")
    parser.add_argument("--output", type=Path, default=Path("docs/pictures"))
    parser.add_argument("--only", default=",".join(SHOTS))
    parser.add_argument("--chromium", default=shutil.which("chromium") or shutil.which("google-chrome"))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    with running_server(options.runs, "--device", "cpu") as (address, _), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=options.chromium, args=ARGUMENTS)
        for name in options.only.split(","):
            path = options.output / f"{name}.png"
            take(browser, address, path, *SHOTS[name])
            print(f"{path}: {path.stat().st_size:,} bytes")
        browser.close()


def take(
    browser: Browser, address: str, path: Path, options: dict[str, Any], text: str, target: str,
    act: Callable[[Page], None], part: str,
) -> None:  # fmt: skip
    """Type a text, do something with the page, and take a picture."""
    context = browser.new_context(**{"locale": "en-US", "color_scheme": "light", "reduced_motion": "reduce", **options})
    context.set_default_timeout(LIMIT)
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("#source")
    targets = page.locator(".language-bar select")
    if targets.count() > 1 and targets.nth(1).locator(f"option[value={target}]").count():
        targets.nth(1).select_option(target)
    page.fill("#source", text)
    page.wait_for_selector("#inside[aria-busy=false] .thumb")
    act(page)
    if part:
        page.locator(part).screenshot(path=path)
    else:
        page.screenshot(path=path)
    context.close()
    picture = Image.open(path).convert("RGB")
    picture.quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main()
