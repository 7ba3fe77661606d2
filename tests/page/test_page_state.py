"""What the page says and keeps: busy signs, limits, languages, examples, and the state after a reload."""

from typing import TYPE_CHECKING, Any

import pytest
from tests.page.conftest import READY, OpenPage, Served, opened
from tests.page.test_page_browser import SENTENCE, show, type_text
from tests.viz.test_viz_tree import one

from regard.viz.tree import tree_svg

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

ALL = [[a, b] for a in ("en", "de", "fr") for b in ("en", "de", "fr") if a != b]


def change_runs(page: "Page", **values: Any) -> None:
    """The server's answer about its first run has these values."""

    def answer(route: "Route") -> None:
        found = route.fetch().json()
        first, *others = found["runs"]
        top = {key: value for key, value in values.items() if key in found}
        route.fulfill(json={**found, **top, "runs": [{**first, **values}, *others]})

    page.route("**/page/runs", answer)


def echo_translations(page: "Page") -> None:
    """A run of all directions whose translations are its inputs; every text is German if it has "ei", else English,
    but "Tom" is unsure."""
    change_runs(page, directions=ALL)

    def translation(route: "Route") -> None:
        text = route.request.post_data_json["text"]
        source = "de" if "ei" in text else "en"
        detected = [{"language": source, "confidence": 0.9}]
        problems = ["unsure-language"] if text == "Tom" else []
        if problems:
            detected = [
                {"language": code, "confidence": share} for code, share in (("en", 0.5), ("de", 0.3), ("fr", 0.1))
            ]
        found = {"text": text, "links": [], "source": source, "detected": detected, "problems": problems}
        route.fulfill(json={**found, "sentences": []})

    page.route("**/page/translate", translation)
    nothing: dict[str, Any] = {"input": "", "output": [], "hypotheses": [], "maps": []}
    page.route("**/page/predict", lambda route: route.fulfill(json=nothing))


def release(page: "Page", held: "list[Route]") -> None:
    """Let the request that a route holds go on, as soon as the route has it."""
    while not held:
        page.evaluate("null")
    held.pop().continue_()


def target(page: "Page") -> str:
    return page.locator(".language-bar select").nth(1).input_value()


def test_an_old_translation_beside_a_new_text_is_marked_at_once(open_page: OpenPage) -> None:
    page, held = open_page(), list["Route"]()
    assert page.is_hidden("#busy") and page.get_attribute("#output", "aria-busy") == "false"
    page.route("**/page/translate", lambda route: held.append(route))
    with page.expect_request("**/page/translate"):
        page.fill("#source", SENTENCE)
        assert page.is_visible("#busy"), "before the request is sent"
        for part in ("#output", "#inside"):
            assert page.get_attribute(part, "aria-busy") == "true"
    release(page, held)
    page.wait_for_selector(READY)
    assert page.is_hidden("#busy") and page.get_attribute("#output", "aria-busy") == "false"
    page.select_option("#run", "reviews")
    page.route("**/page/predict", lambda route: held.append(route))
    with page.expect_request("**/page/predict"):
        page.fill("#field-text", "a film")
        assert page.get_attribute(".answer", "aria-busy") == "true" and page.is_visible("#busy")
    release(page, held)
    page.wait_for_selector(".answer[aria-busy=false] .share")


def test_a_text_above_the_limit_is_kept_and_not_sent(browser: "Browser", served: Served) -> None:
    sent: list[str] = []
    with opened(browser, served.address, lambda page: change_runs(page, limit=300)) as page:
        page.wait_for_selector("#inside[aria-busy=false]")
        page.on("request", lambda request: sent.append(request.url))
        text = "six " * 74 + "\N{GRINNING FACE}" * 5
        page.fill("#source", text)
        page.wait_for_selector("#output .problem")
        shown = page.inner_text("#output")
        assert "301" in shown and "300" in shown and sent == []
        assert page.input_value("#source") == text and page.inner_text("#count").startswith("301 / 300")
        page.fill("#source", text[:-1])
        page.wait_for_selector("#output[aria-busy=false]:not(:has(.problem))")
        assert sent != []


def test_a_long_text_scrolls_in_its_box(open_page: OpenPage) -> None:
    page = open_page(viewport={"width": 1000, "height": 600})
    type_text(page, "one two three!\n" * 60)
    heights = {name: page.locator(name).bounding_box()["height"] for name in ("#source", ".mirror", "#output")}
    assert max(heights.values()) <= 301 and heights["#source"] == heights[".mirror"]
    page.evaluate("document.getElementById('source').scrollTop = 250")
    while page.evaluate("document.querySelector('.mirror').scrollTop") != 250:
        page.wait_for_load_state()
    page.hover("#output .linked >> nth=0")
    assert page.evaluate("document.querySelector('.mirror').scrollTop") == 250, "marks stay below their words"
    widths = page.evaluate("['#source', '.mirror'].map((name) => document.querySelector(name).clientWidth)")
    assert widths[0] == widths[1], "lines break at the same words"


def test_the_page_starts_with_an_example_in_the_focused_field(open_page: OpenPage) -> None:
    page = open_page()
    focused = "[document.activeElement.id, document.getSelection().toString()]"
    identity, selected = page.evaluate(focused)
    assert identity == "source" and selected == page.input_value("#source") != ""
    assert page.inner_text("#output").strip()


@pytest.mark.parametrize(("locale", "expected"), [("fr-FR", "fr"), ("sv-SE", "de")])
def test_the_target_is_the_language_of_the_browser(
    browser: "Browser", served: Served, locale: str, expected: str
) -> None:
    with opened(browser, served.address, echo_translations, locale=locale) as page:
        page.wait_for_selector("#inside[aria-busy=false]")
        assert target(page) == expected
        page.locator(".language-bar select").nth(1).select_option("de")
        page.wait_for_selector("#inside[aria-busy=false]")
        page.evaluate("sessionStorage.clear()")
        page.goto("about:blank")
        page.goto(served.address)
        page.wait_for_selector("#inside[aria-busy=false]")
        assert target(page) == "de", "the choice of a person comes first"


def test_a_text_in_the_target_language_gets_another_target(browser: "Browser", served: Served) -> None:
    with opened(browser, served.address, echo_translations, locale="en-US") as page:
        page.wait_for_selector("#inside[aria-busy=false]")
        assert target(page) == "en" and "nach Hause" in page.input_value("#source"), "an example in another language"
        page.fill("#source", "one two")
        page.wait_for_selector("#output[aria-busy=false]:has-text('one two')")
        assert target(page) == "de"
        page.locator(".language-bar select").nth(1).select_option("en")
        page.wait_for_selector("#output[aria-busy=false]:has-text('one two')")
        assert target(page) == "en", "a person has chosen it"


def test_an_unsure_language_is_said_with_its_probable_candidates(browser: "Browser", served: Served) -> None:
    with opened(browser, served.address, echo_translations, locale="en-US") as page:
        for text, language in (("Tom", "Unsure, English 50 %, German 30 %"), ("one two", "English 90 %")):
            page.fill("#source", text)
            page.wait_for_selector(f"#output[aria-busy=false]:has-text('{text}')")
            assert page.inner_text("#detected") == language


def test_a_run_without_curves_has_no_training_tab(browser: "Browser", served: Served) -> None:
    with opened(browser, served.address, lambda page: change_runs(page, curves=False)) as page:
        page.wait_for_selector("#inside[aria-busy=false]")
        assert page.locator("#tab-training").count() == 0
        page.select_option("#run", "recurrent")
        page.wait_for_selector("#tab-training")


@pytest.mark.parametrize("words", [12, 60])
def test_a_wide_tree_is_scaled_or_scrolls(open_page: OpenPage, words: int) -> None:
    page = open_page(viewport={"width": 1000, "height": 700})
    picture = tree_svg(one("(S " + "(NP (NN telescope)) " * words + ")"))

    def answer(route: "Route") -> None:
        route.fulfill(json={**route.fetch().json(), "output": [{"picture": picture, "text": "a tree"}]})

    page.route("**/page/predict", answer)
    page.select_option("#run", "reviews")
    page.fill("#field-text", "a film")
    page.wait_for_selector(".answer[aria-busy=false] .picture svg")
    sizes = "(box) => [box.clientWidth, box.scrollWidth, box.firstChild.getBoundingClientRect().width]"
    room, reach, wide = page.locator(".answer .picture").evaluate(sizes)
    own = float(picture.split('width="')[1].split('"')[0])
    assert wide == pytest.approx(max(0.7 * own, min(room, own)), abs=1)
    assert reach == pytest.approx(max(room, wide), abs=1), "all of it can be reached"
    assert page.evaluate("document.documentElement.scrollWidth") <= 1000


def test_a_phone_shows_the_numbers_of_the_arithmetic(open_page: OpenPage) -> None:
    page = open_page(viewport={"width": 360, "height": 740})
    type_text(page)
    show(page, "arithmetic", ".step-table")
    right = "(cells) => Math.max(...cells.map((cell) => cell.getBoundingClientRect().right))"
    assert page.locator(".step-table td.figure").evaluate_all(right) <= 360
    assert page.locator(".step-table th:visible").first.evaluate("(head) => head.getBoundingClientRect().left") >= 0
    heads = page.locator(".step-table thead th:visible").count()
    assert heads == page.locator(".step-table tbody tr").nth(1).locator("th:visible, td:visible").count()


def test_a_reload_keeps_texts_languages_and_tab(open_page: OpenPage) -> None:
    page = open_page()
    type_text(page)
    page.locator(".language-bar select").nth(0).select_option("en")
    show(page, "beam", ".beam .node")
    page.reload()
    page.wait_for_selector("#inside[aria-busy=false] .beam .node")
    assert page.input_value("#source") == SENTENCE and target(page) == "de"
    assert page.locator(".language-bar select").nth(0).input_value() == "en"
    page.select_option("#run", "reviews")
    page.fill("#field-text", "a lovely film")
    page.wait_for_selector(".answer[aria-busy=false] .share")
    page.reload()
    page.wait_for_selector(".answer[aria-busy=false] .share")
    assert page.input_value("#field-text") == "a lovely film"


def test_a_link_opens_the_page_as_it_was(open_page: OpenPage, served: Served) -> None:
    page = open_page()
    page.goto("about:blank")
    page.goto(f"{served.address}/#zh/run=recurrent&from=en&to=de&src=one+two+%2F+six&tab=arithmetic")
    page.wait_for_selector("#inside[aria-busy=false] .step-table")
    assert page.input_value("#source") == "one two / six" and page.input_value("#run") == "recurrent"
    assert page.get_attribute("html", "lang") == "zh-Hans"
    page.goto(f"{served.address}/#en/run=none&from=xx&to=yy&tab=zz&src=six")
    page.wait_for_selector(READY)
    assert page.input_value("#source") == "six" and target(page) == "de"


def test_a_form_offers_an_example(open_page: OpenPage, served: Served) -> None:
    page = open_page()
    page.select_option("#run", "reviews")
    page.click(".samples button")
    page.wait_for_selector(".answer[aria-busy=false] .share")
    text = page.input_value("#field-text")
    assert text and page.inner_text(".answer .share.first bdi") == served.models["reviews"].predict(text)["label"]
    assert page.locator(".samples").count() == 0


def test_too_many_texts_are_not_cut(browser: "Browser", served: Served) -> None:
    context = browser.new_context(viewport={"width": 1000, "height": 900})
    page = context.new_page()
    page.goto(served.address)
    page.select_option("#run", "reviews")
    page.click("#tab-vectors")
    page.fill("#lines", "\n".join(f"film {number}" for number in range(51)))
    page.wait_for_selector("#panel .problem")
    page.fill("#lines", "\n".join(f"film {number}" for number in range(50)))
    page.wait_for_selector(".text-dot")
    assert page.locator(".text-dot").count() == 50
    context.close()
