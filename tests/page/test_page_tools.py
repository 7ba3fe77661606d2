"""Files, code, glossary and links on the page, and words of a translation that a person changes."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest
from tests.page.conftest import READY, OpenPage, Served, opened
from tests.page.test_page_browser import SENTENCE, type_text

from regard.run.inspecting import next_tokens
from regard.run.page_data import beam_json

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CAPTION = "1\n00:00:01,000 --> 00:00:02,000\none two three\n"


def wait_for(page: "Page", expression: str) -> None:
    """Wait until an expression is true; the policy of the page forbids Playwright's own way."""
    while not page.evaluate(expression):
        page.wait_for_load_state()


def test_the_longest_of_overlapping_parts_is_shown(open_page: OpenPage) -> None:
    """The tokens of a letter such as Ö are bytes: one has the first byte, the next one the second and letters."""
    links = [[0, 4, 0, 1], [0, 4, 0, 3], [0, 4, 3, 5]]
    page = open_page()
    answer = {"text": "Öffne", "links": links, "source": "en", "sentences": [[0, 3]]}
    page.route("**/page/translate", lambda route: route.fulfill(json=answer))
    page.fill("#source", "one")
    page.wait_for_selector("#output:has-text('Öffne')")
    assert page.locator("#output .linked").all_inner_texts() == ["Öff", "ne"]


def test_a_file_is_translated_and_saved(open_page: OpenPage, served: Served) -> None:
    page = open_page()
    assert ".srt" in (page.get_attribute("#file", "accept") or "").split(",")
    file = {"name": "my film.srt", "mimeType": "text/plain", "buffer": CAPTION.encode()}
    with page.expect_download() as waited:
        page.set_input_files("#file", [file])
    translation = served.models["numbers"].predict(SENTENCE)["translation"]
    assert waited.value.suggested_filename == "my film_de.srt"
    assert Path(waited.value.path()).read_text(encoding="utf-8") == CAPTION.replace(SENTENCE, translation)
    page.wait_for_selector("#file-note:has-text('my film.srt')")


def test_a_file_that_cannot_be_translated(browser: "Browser", served: Served) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(served.address)
    page.wait_for_selector("#file", state="attached")
    page.set_input_files("#file", [{"name": "a.xyz", "mimeType": "text/plain", "buffer": b"one"}])
    page.wait_for_selector("#file-note.problem")
    context.close()


@pytest.mark.parametrize("run", ["numbers", "reviews"])
def test_the_code_of_a_request_gives_what_the_page_shows(open_page: OpenPage, served: Served, run: str) -> None:
    page, text = open_page(), 'it\'s "one" \\ two'
    page.select_option("#run", run)
    page.fill("#source" if run == "numbers" else "#field-text", text)
    page.wait_for_selector("#inside[aria-busy=false]")
    page.click("#code summary")
    curl, python = page.inner_text("#code-curl"), page.inner_text("#code-Python")
    words = shlex.split(curl.replace("\\\n", " "))
    assert words[0] == "curl" and words[2] == "-H" and words[4] == "-d"
    sent = httpx.post(words[1], content=words[5], headers=dict([words[3].split(": ")])).json()
    done = subprocess.run([sys.executable, "-c", python], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(sent)
    if run == "numbers":
        assert sent["translations"][0]["text"] == page.inner_text("#output")
    else:
        assert sent["predictions"][0]["label"] == page.inner_text(".answer .share.first bdi")


def test_a_glossary_changes_the_translation(open_page: OpenPage) -> None:
    page, bodies = open_page(), list[object]()
    page.on("request", lambda request: bodies.append(request.post_data_json) if "/translate" in request.url else None)
    page.click("#glossary-box summary")
    page.fill("#glossary", "two = ZWO\nno pair\n= nothing")
    type_text(page)
    assert "ZWO" in page.inner_text("#output")
    assert isinstance(bodies[-1], dict) and bodies[-1]["glossary"] == {"two": "ZWO"}
    page.reload()
    page.wait_for_selector(READY)
    assert page.input_value("#glossary").startswith("two = ZWO") and "ZWO" in page.inner_text("#output")


def test_a_link_to_what_is_shown(browser: "Browser", served: Served) -> None:
    with opened(browser, served.address, permissions=["clipboard-read", "clipboard-write"]) as page:
        page.wait_for_selector("#source")
        type_text(page, "one / two & six")
        page.click("#tab-beam")
        page.click("#share")
        page.wait_for_selector("#share:has-text('Copied')")
        link = page.evaluate("navigator.clipboard.readText()")
    with opened(browser, link) as page:
        page.wait_for_selector("#inside[aria-busy=false] .beam .node")
        assert page.input_value("#source") == "one / two & six"


def offered(page: "Page", place: int) -> list[tuple[str, float]]:
    """Click the word at a place of the translation; the tokens that are offered, with their probabilities."""
    page.locator("#output .linked").nth(place).click()
    page.wait_for_selector("#word-menu .offers")
    rows = page.locator("#word-menu .offers button").all_inner_texts()
    return [(name, float(share.rstrip(" %"))) for name, share in (row.split("\n") for row in rows)]


def test_another_word_and_the_rest_follows(open_page: OpenPage, served: Served) -> None:
    page, model = open_page(), served.models["numbers"]
    type_text(page)
    words = page.inner_text("#output").split()
    assert words == model.predict(SENTENCE)["translation"].split() and len(words) == 3
    example = {"src": SENTENCE, "prefix": words[0]}
    nodes = [node for node in beam_json(model, example, 8)["nodes"] if node[0] == 1 and not node[2].startswith("⟨")]
    best = sorted(((np.exp(node[3]), node[2]) for node in nodes if node[3] > np.log(0.0005)), reverse=True)[:8]
    found = offered(page, 1)
    assert [share for _, share in found] == pytest.approx([100 * share for share, _ in best], abs=0.51)
    assert found[0][0].strip("␣") == words[1] and len(found) > 1
    other = found[1][0].strip("␣")
    page.locator("#word-menu .offers button").nth(1).click()
    page.wait_for_selector(f"#output[aria-busy=false]:has-text('{other}')")
    expected = model.predict({"src": SENTENCE, "prefix": f"{words[0]} {other}"}, nbest=4)
    assert page.inner_text("#output") == expected["translation"] != " ".join(words)
    texts = page.locator(".alternative .text-of").all_inner_texts()
    assert texts == list(dict.fromkeys(item["text"] for item in expected["hypotheses"]))
    page.wait_for_selector(READY)
    page.fill("#source", SENTENCE + " ")
    page.wait_for_selector(READY)
    assert page.inner_text("#output").split() == words, "a new text has no such beginning"


def test_other_words_by_keys(open_page: OpenPage) -> None:
    page = open_page()
    type_text(page)
    page.focus("#output")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.wait_for_selector("#word-menu .offers button")
    assert page.get_attribute("#word-menu", "aria-label") == page.inner_text("#output").split()[0]
    page.keyboard.press("Escape")
    assert page.locator("#word-menu").count() == 0


def test_why_a_word(open_page: OpenPage, served: Served) -> None:
    page = open_page()
    type_text(page)
    page.click("#tab-beam")
    offered(page, 1)
    page.get_by_text("Why this word?").click()
    page.wait_for_selector(".stage .reading .who")
    cross = served.models["numbers"].explain(SENTENCE).maps[-1]
    weights = np.asarray(cross.weights).mean(axis=(0, 1))[1]
    assert page.inner_text(".stage .reading .who").strip("␣") == page.inner_text("#output").split()[1]
    shown = page.locator(".stage .reading .weight").first.inner_text()
    assert float(shown.split()[-1]) == pytest.approx(weights.max(), abs=0.01)
    assert shown.split()[0] == cross.columns[int(weights.argmax())].replace(" ", "␣")


def test_unsure_words_are_marked(open_page: OpenPage, served: Served) -> None:
    page, marked = open_page(), "[...(CSS.highlights.get('unsure') ?? [])].map(String)"
    page.check("#unsure")
    for text in (SENTENCE, "unknown six words"):
        type_text(page, text)
        wait_for(page, "CSS.highlights.has('unsure')")
        tree = beam_json(served.models["numbers"], text)
        path, place = list[Any](), tree["leaves"][0]
        while place is not None:
            path.insert(0, tree["nodes"][place])
            place = path[0][1]
        unsure = [node[2].strip("␣") for node in path if np.exp(node[3]) < 0.5 and not node[2].startswith("⟨")]
        words = re.findall(r"\w+", page.inner_text("#output"))
        assert page.evaluate(marked) == [word for word in words if word in unsure]
    page.uncheck("#unsure")
    assert page.evaluate("CSS.highlights.has('unsure')") is False


def test_next_tokens_and_their_temperature(open_page: OpenPage, served: Served) -> None:
    page, model = open_page(), served.models["numbers"]

    def shown() -> list[float]:
        return [float(text.rstrip(" %")) for text in page.locator("#panel .offers .figure").all_inner_texts()]

    type_text(page)
    with page.expect_response("**/page/next"):
        page.click("#tab-next")
    page.wait_for_selector("#panel .offers .figure")
    assert shown() == pytest.approx([100 * share for _, share in next_tokens(model, SENTENCE)], abs=0.051)
    with page.expect_response("**/page/next") as flat:
        page.fill("#temperature", "2")
    assert flat.value.request.post_data_json["temperature"] == 2
    page.wait_for_selector("output:has-text('2.0')")
    expected = [100 * share for _, share in next_tokens(model, SENTENCE, "", 2.0)]
    while shown() != pytest.approx(expected, abs=0.051):
        page.wait_for_load_state()
    name, _ = next_tokens(model, SENTENCE, "", 2.0)[0]
    with page.expect_response("**/page/next") as after:
        page.locator("#panel .offers button").first.click()
    assert after.value.request.post_data_json["prefix"] == name.strip("␣") == page.input_value("#begun")
