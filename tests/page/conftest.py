"""A real server of tiny runs and a real browser for the tests of this folder."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.conftest import TinyRun
from tests.serve.make import make_app, running

from regard.run.model import Model

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-extensions", "--no-first-run", "--disable-sync",
]  # fmt: skip
LIMIT = 20_000
"""Milliseconds that a page may take to show something."""

READY = "#inside[aria-busy=false] .thumb"
"""There when the attention of the latest text is shown."""

OpenPage = Callable[..., Any]


@dataclass
class Seen:
    """What a page asked for, and what went wrong in it."""

    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def watch(self, page: "Page") -> None:
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)


@pytest.fixture(scope="module")
def browser() -> "Iterator[Browser]":
    """One browser for all tests of a file. It ends with them: Playwright has an event loop as long as it runs."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@dataclass(frozen=True)
class Served:
    """A running server: its address, and the models of its runs."""

    address: str
    models: dict[str, Model]
    folders: dict[str, Path]


@pytest.fixture(scope="module")
def served(tiny_run: TinyRun, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Two translation runs, "numbers" with beam search and "recurrent", and a classification run "reviews"."""
    numbers = tmp_path_factory.mktemp("served") / "numbers"
    shutil.copytree(tiny_run("translation"), numbers)
    recipe = numbers / "recipe.toml"
    text = recipe.read_text(encoding="utf-8")
    recipe.write_text(text.replace('search = "greedy"', 'search = "beam"'), encoding="utf-8")
    folders = {
        "numbers": numbers,
        "recurrent": tiny_run("translation", "recurrent"),
        "reviews": tiny_run("classification"),
    }
    app = make_app(folders, ["numbers=en:de", "recurrent=en:de"])
    models = {name: run.model for name, run in app.state.service.runs.items()}
    with running(app) as address:
        yield Served(address, models, folders)


@contextmanager
def opened(
    browser: "Browser", address: str, prepare: "Callable[[Page], object] | None" = None, **options: Any
) -> "Iterator[Page]":
    """A page in a browser of its own, prepared before it loads; at the end no error, no request to another host."""
    context = browser.new_context(**{"locale": "en-US", "viewport": {"width": 1200, "height": 900}, **options})
    context.set_default_timeout(LIMIT)
    page, seen = context.new_page(), Seen()
    seen.watch(page)
    if prepare is not None:
        prepare(page)
    page.goto(address)
    yield page
    context.close()
    assert not seen.errors
    origin = address.split("/")[0] + "//" + address.split("/")[2]
    assert [url for url in seen.requests if not url.startswith(origin)] == []


@pytest.fixture
def open_page(browser: "Browser", served: Served) -> Iterator[OpenPage]:
    """open_page(): the page of the server with its example answered; options are those of `opened`."""
    pages = []

    def open_one(**options: Any) -> "Page":
        manager = opened(browser, served.address, **options)
        page = manager.__enter__()
        pages.append(manager)
        page.wait_for_selector("#inside[aria-busy=false]")
        return page

    yield open_one
    for manager in pages:
        manager.__exit__(None, None, None)
