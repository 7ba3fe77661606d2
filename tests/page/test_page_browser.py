"""The page in a real browser, against a real server of tiny runs. Waiting is for elements, never for time."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.cli.command import regard
from tests.page.conftest import READY, OpenPage, Served, opened

from regard.run.inspecting import inspect_attention
from regard.run.page_data import beam_json, prediction_json

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

SENTENCE = "one two three"


def type_text(page: "Page", text: str = SENTENCE) -> None:
    """Type a text and wait for its attention."""
    page.fill("#source", text)
    page.wait_for_selector(READY)


def show(page: "Page", tab: str, selector: str) -> None:
    page.click(f"#tab-{tab}")
    page.wait_for_selector(selector)


def number(text: str) -> float:
    return float(text.replace("−", "-"))


def numbers(page: "Page", selector: str) -> list[float]:
    return [number(text) for text in page.locator(selector).all_inner_texts()]


def test_typing_gives_a_translation_and_attention(open_page: OpenPage, served: Served) -> None:
    page, model = open_page(), served.models["numbers"]
    page.locator("#source").press_sequentially(SENTENCE)  # it replaces the example, which is selected
    page.wait_for_selector(READY)
    expected = model.predict(SENTENCE, nbest=4)
    assert page.inner_text("#output") == expected["translation"]
    assert page.inner_text("#detected").split()[-2:] == ["90", "%"]
    assert page.inner_text("#count").startswith(f"{len(SENTENCE)} /")
    texts = page.locator(".alternative .text-of").all_inner_texts()
    assert texts == [item["text"] for item in expected["hypotheses"]]
    scores = numbers(page, ".alternative .figure")
    assert scores == pytest.approx([item["score"] for item in expected["hypotheses"]], abs=0.006)
    layers, heads = np.shape(model.explain(SENTENCE).maps[-1].weights)[:2]
    assert page.locator(".thumb").count() == layers * (heads + 1) + 1


def test_hypotheses_with_the_same_text_are_listed_once(open_page: OpenPage) -> None:
    page = open_page()

    def answer(route: "Route") -> None:
        result = route.fetch().json()
        first, second, *others = result["hypotheses"]
        route.fulfill(json={**result, "hypotheses": [first, {**second, "text": first["text"]}, *others]})

    page.route("**/page/predict", answer)
    type_text(page)
    texts = page.locator(".alternative .text-of").all_inner_texts()
    assert len(texts) == len(set(texts)) == 3
    with page.expect_response("**/page/predict") as chosen:
        page.locator(".alternative").nth(1).click()
    assert chosen.value.request.post_data_json["chosen"] == 2


def test_a_head_large_and_by_keys(open_page: OpenPage, served: Served) -> None:
    page = open_page()
    type_text(page)
    page.locator(".overview tbody tr").nth(1).locator(".thumb").nth(1).click()
    assert page.get_attribute(".overview tbody tr:nth-child(2) td:nth-child(3) .thumb", "aria-pressed") == "true"
    weights = np.asarray(served.models["numbers"].explain(SENTENCE).maps[-1].weights)[1, 1]
    page.keyboard.press("ArrowUp")
    assert page.get_attribute(".overview tbody tr:nth-child(1) td:nth-child(3) .thumb", "aria-pressed") == "true"
    page.keyboard.press("ArrowDown")
    page.focus(".matrix")
    for key in ("ArrowDown", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    assert number(page.inner_text(".reading .strong").split()[-1]) == pytest.approx(weights[1, 0], abs=0.01)
    page.get_by_role("group", name="View").get_by_role("button").nth(1).click()
    page.wait_for_selector(".lines .chip")
    page.get_by_role("group", name="Which attention").get_by_role("button").nth(0).click()
    assert page.locator(".lines .chip").count() == 2 * len(served.models["numbers"].explain(SENTENCE).maps[0].rows)


def test_arithmetic_has_the_numbers_of_the_model(open_page: OpenPage, served: Served) -> None:
    page = open_page()
    type_text(page)
    show(page, "arithmetic", ".step-table")
    steps = inspect_attention(served.models["numbers"], SENTENCE).arithmetic("cross", 1, 0)
    page.locator(".query button").nth(2).click()
    rows = page.locator(".step-table tbody tr:not(.query-row)")
    cells = [rows.nth(n).locator("td.figure").all_inner_texts() for n in range(rows.count())]
    found = np.array([[number(cell) for cell in row] for row in cells])
    expected = np.stack([steps.products[2], steps.products[2] * steps.scale, steps.weights[2]], axis=1)
    assert np.abs(found - expected).max() < 0.001
    total = page.inner_text(".formula").partition(";")[0].rpartition("=")[2]
    assert number(total) == pytest.approx(float(steps.outputs[2, 0]), abs=0.001)
    page.locator(".steps button").nth(0).click()
    page.hover(".step-table tbody tr:nth-child(3)")
    total = page.inner_text(".formula").rpartition("=")[2]
    assert number(total) == pytest.approx(float(steps.products[2, 1]), abs=0.001)
    page.focus('.key-name[aria-pressed="true"]')
    page.keyboard.press("ArrowDown")
    total = page.inner_text(".formula").rpartition("=")[2]
    assert number(total) == pytest.approx(float(steps.products[2, 2]), abs=0.001)
    page.get_by_role("group", name="Which attention").get_by_role("button").nth(1).click()
    page.wait_for_selector(".step-table .masked")
    page.locator(".query button").nth(0).click()
    assert page.locator(".step-table .masked").count() == rows.count() - 1, "the first position sees itself only"


def test_the_beam_as_a_tree(open_page: OpenPage, served: Served) -> None:
    page, tree = open_page(), beam_json(served.models["numbers"], SENTENCE)
    type_text(page)
    show(page, "beam", ".beam .node")
    outcomes = [node[6] for node in tree["nodes"]]
    assert page.locator(".beam g[data-node]").count() == len(outcomes)
    assert page.locator(".beam g.pruned").count() == outcomes.count("pruned")
    path, place = [], tree["leaves"][0]
    while place is not None:
        path.append(place)
        place = tree["nodes"][place][1]
    best = page.locator(".beam g.best").evaluate_all("nodes => nodes.map((node) => Number(node.dataset.node))")
    assert sorted(best) == sorted(path)
    page.focus(".beam")
    page.keyboard.press("ArrowLeft")
    assert page.get_attribute(".beam g.pointed", "data-node") == str(path[1])
    page.uncheck("#inside .tick-box input")
    assert page.locator(".beam g[data-node]").count() == len(outcomes) - outcomes.count("pruned")
    widths = page.get_by_role("group", name="Beam size")
    widths.get_by_role("button", name="2", exact=True).click()
    widths.get_by_role("button", name="2", exact=True, pressed=True).wait_for()
    assert page.locator(".beam .rank").count() == 2


def test_alternatives_and_alignment(open_page: OpenPage, served: Served) -> None:
    page = open_page()
    type_text(page)
    second = prediction_json(served.models["numbers"], SENTENCE, chosen=1)
    page.locator(".alternative").nth(1).click()
    page.wait_for_selector('li:nth-child(2) .alternative[aria-pressed="true"]')
    names = page.locator(".matrix text").count()
    assert names == len(second["maps"][-1]["rows"]) + len(second["maps"][-1]["columns"])
    page.hover("#output .linked >> nth=0")
    assert page.locator("#output .marked").count() >= 1
    assert page.inner_text(".mirror mark") in SENTENCE.split()
    page.focus("#output")
    page.keyboard.press("ArrowRight")
    assert page.locator("#output .marked").count() >= 1
    page.keyboard.press("Escape")
    assert page.locator("#output .marked").count() == 0
    box = page.locator("#source").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 22, box["y"] + 24)
    page.wait_for_selector("#output .marked")


def test_two_sentences(open_page: OpenPage) -> None:
    page = open_page()
    type_text(page, "one two! six six five!")
    page.get_by_role("button", name="Next sentence").click()
    page.wait_for_selector(".sentence-chooser:has-text('2')")
    page.wait_for_selector(".matrix:has-text('five')")


def test_the_second_step_of_a_translation_through_a_third_language_is_named(open_page: OpenPage) -> None:
    page = open_page()
    page.fill("#source", "seven")
    page.wait_for_selector(READY)
    assert page.locator("#second-step").count() == 0
    page.route("**/page/predict", lambda route: route.fulfill(json={**route.fetch().json(), "input": "sieben"}))
    page.fill("#source", "eight")
    page.wait_for_selector(READY)
    assert "sieben" in (page.text_content("#second-step") or "")
    page.keyboard.press("Escape")
    page.keyboard.press("5")
    page.wait_for_selector("#second-step", state="detached")


def test_a_long_text_is_shown_as_it_becomes_known(open_page: OpenPage, served: Served) -> None:
    page, sentences = open_page(), [f"{first} two three!" for first in ("one", "four", "five", "six")] * 5
    streams: list[str] = []
    page.on("request", lambda request: streams.append(request.url) if request.url.endswith("stream") else None)
    type_text(page, " ".join(sentences))
    expected = [served.models["numbers"].predict(sentence)["translation"] for sentence in sentences]
    assert page.inner_text("#output").split() == " ".join(expected).split() and len(streams) == 1
    assert page.inner_text(".sentence-chooser span").split()[-1] == "20"


def test_two_runs_side_by_side(open_page: OpenPage, served: Served) -> None:
    page = open_page()
    type_text(page, "six one two")
    page.select_option("#other", "recurrent")
    page.wait_for_selector("#compare .side-map")
    outputs = page.locator("#compare .output").all_inner_texts()
    assert outputs == [served.models[name].predict("six one two")["translation"] for name in ("numbers", "recurrent")]
    assert bool(page.locator("#compare mark").count()) == (outputs[0] != outputs[1])


def test_language_and_theme(open_page: OpenPage) -> None:
    page = open_page(color_scheme="light")
    type_text(page)

    def ground() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    english, light = page.inner_text("#inside"), ground()
    page.click("#languages [data-lang=zh]")
    page.wait_for_selector("html[lang=zh-Hans]")
    assert page.input_value("#source") == SENTENCE and page.inner_text("#inside") != english
    assert re.search(r"[\u4e00-\u9fff]", page.inner_text("#tab-attention"))
    assert page.inner_text(".summary") == "Transformer，编码器 1 层，解码器 2 层，每层 2 个头，宽度 32"
    page.click("#themes [data-theme=dark]")
    assert ground() != light
    page.reload()
    page.wait_for_selector("#source")
    assert page.get_attribute("html", "lang") == "zh-Hans" and ground() != light, "the choice is remembered"
    page.click("#themes [data-theme=auto]")
    assert ground() == light
    page.emulate_media(color_scheme="dark")
    assert ground() != light


def test_a_phone_has_no_horizontal_scroll(open_page: OpenPage) -> None:
    page = open_page(viewport={"width": 360, "height": 740}, color_scheme="dark")
    type_text(page, "one two three four five six one two")
    page.select_option("#other", "recurrent")
    page.wait_for_selector("#compare .side-map")
    shown = {"attention": ".matrix", "arithmetic": ".step-table", "beam": ".beam .node", "training": ".plot"}
    for tab, selector in shown.items():
        show(page, tab, selector)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_keys(open_page: OpenPage) -> None:
    page = open_page()
    type_text(page)
    page.keyboard.press("Escape")
    page.keyboard.press("3")
    page.wait_for_selector(".beam .node")
    page.focus("#tab-beam")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector(".step-table")
    assert page.evaluate("document.activeElement.id") == "tab-arithmetic"
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "source"
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    page.wait_for_selector("#help[open]")
    page.keyboard.press("Escape")
    named = "[...document.querySelectorAll('button, select, textarea, canvas.strip, svg[role]')]"
    bare = f"{named}.filter((e) => !e.ariaLabel && !e.textContent.trim() && e.offsetParent).length"
    assert page.evaluate(bare) == 0, "every control has a name"


def test_a_classifier_and_vectors(open_page: OpenPage, served: Served) -> None:
    page = open_page()
    page.select_option("#run", "reviews")
    page.fill("#field-text", "a lovely film")
    page.wait_for_selector(".answer[aria-busy=false] .share")
    expected = served.models["reviews"].predict("a lovely film")
    assert page.inner_text(".answer .share.first bdi") == expected["label"]
    show(page, "arithmetic", ".step-table")
    show(page, "vectors", "#lines")
    page.fill("#lines", "a lovely film\na dull book\na great film")
    page.wait_for_selector(".text-dot")
    assert page.locator(".text-dot").count() == 3 and page.locator(".neighbours tr").count() == 2


def test_curves_grow_while_a_run_trains(open_page: OpenPage, served: Served) -> None:
    page = open_page()
    page.clock.install()
    show(page, "training", ".plot")
    before = page.locator(".curve").first.get_attribute("d")
    path = served.folders["numbers"] / "metrics.jsonl"
    last = json.loads([line for line in path.read_text().splitlines() if '"train"' in line][-1])
    line: dict[str, Any] = {**last, "step": last["step"] + 500}
    with path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(line) + "\n")
    page.clock.fast_forward(3000)
    page.wait_for_selector(f".panel .reading:has-text('{line['step']:,}')")
    assert page.locator(".curve").first.get_attribute("d") != before


def test_curves_are_shown_if_the_page_is_drawn_again_before_they_arrive(open_page: OpenPage) -> None:
    page, held = open_page(), list["Route"]()
    type_text(page)
    page.route("**/page/curves*", lambda route: held.append(route))
    with page.expect_request("**/page/curves*"):
        page.click("#tab-training")
    page.click("#languages [data-lang=zh]")
    page.wait_for_selector("html[lang=zh-Hans]")
    held[0].continue_()
    page.wait_for_selector(".plot")


def test_additive_attention(open_page: OpenPage, served: Served) -> None:
    page = open_page()
    page.select_option("#run", "recurrent")
    type_text(page)
    show(page, "arithmetic", ".step-table")
    steps = inspect_attention(served.models["recurrent"], SENTENCE).arithmetic("cross", 0, 0)
    found = numbers(page, ".step-table td.figure.share")
    assert found == pytest.approx(steps.weights[0].tolist(), abs=0.001)


def test_one_file_without_a_server(browser: "Browser", served: Served, tmp_path: Path) -> None:
    path, model = tmp_path / "page.html", served.models["numbers"]
    assert regard("inspect", served.folders["numbers"], SENTENCE, "--html", path, "--layer", 1, "--head", 2).status == 0
    with opened(browser, path.as_uri()) as page:
        page.wait_for_selector(".matrix")
        expected = model.predict(SENTENCE, nbest=4)
        assert page.locator(".aligned p").all_inner_texts() == [SENTENCE, expected["translation"]]
        assert page.locator(".alternative").count() == len(expected["hypotheses"])
        page.hover(".aligned p:first-child .linked >> nth=0")
        assert page.locator(".aligned p:last-child .marked").count() >= 1
        page.hover(".aligned p:last-child .linked >> nth=1")
        assert page.locator(".aligned p:first-child .marked").count() >= 1
        assert page.get_attribute(".overview tbody tr:nth-child(1) td:nth-child(3) .thumb", "aria-pressed") == "true"
        show(page, "arithmetic", ".step-table")
        steps = inspect_attention(model, SENTENCE).arithmetic("cross", 0, 1)
        assert numbers(page, ".step-table td.figure.share") == pytest.approx(steps.weights[0].tolist(), abs=0.001)
        show(page, "beam", ".beam .node")
        assert page.locator(".beam g[data-node]").count() == len(beam_json(model, SENTENCE)["nodes"])


def test_a_sentence_that_is_too_long_for_its_attention(open_page: OpenPage) -> None:
    page = open_page()
    page.fill("#source", "one " * 40)
    page.wait_for_selector("#inside .problem")
    assert page.inner_text("#output").strip()


def test_a_server_with_keys(browser: "Browser", served: Served) -> None:
    context = browser.new_context()
    page = context.new_page()
    keys: list[str | None] = []

    def answer(route: "Route") -> None:
        key = route.request.headers.get("authorization")
        keys.append(key)
        error = {"error": {"code": "missing-key", "message": "a key is needed"}}
        route.continue_() if key else route.fulfill(status=401, json=error)

    page.route("**/page/runs", answer)
    page.goto(served.address)
    page.fill("#key", "secret")
    page.locator("#key + button").click()
    page.wait_for_selector("#source")
    assert keys == [None, "Bearer secret"]
    context.close()


def test_a_server_that_does_not_answer(browser: "Browser", served: Served) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(served.address)
    page.wait_for_selector("#source")
    page.route("**/page/**", lambda route: route.abort())
    page.fill("#source", "six")
    page.wait_for_selector("#output .problem")
    page.unroute("**/page/**")
    page.fill("#source", "six six")
    page.wait_for_selector(READY)
    context.close()


def test_the_architecture_in_both_languages(open_page: OpenPage, served: Served) -> None:
    page, shown = open_page(), served.models["numbers"].architecture()
    show(page, "architecture", ".picture text")
    texts = page.locator(".picture text").all_text_contents()
    assert f"{shown.parameters:,} parameters" in texts and "cross-attention" in texts
    page.click("[data-lang=zh]")
    page.wait_for_selector(".picture text:has-text('交叉注意力')")


@pytest.mark.parametrize(("language", "label"), [("en", "Switch this head off"), ("zh", "关闭这个头")])
def test_a_head_is_switched_off_by_a_click(open_page: OpenPage, served: Served, language: str, label: str) -> None:
    page, model = open_page(), served.models["numbers"]
    page.click(f"[data-lang={language}]")
    type_text(page)
    whole = page.inner_text("#output")
    for head in (0, 1):
        page.locator(".overview tbody tr").nth(0).locator(".thumb").nth(head).click()
        assert page.inner_text("#switch-head") == label
        with page.expect_response("**/page/predict") as answered:
            page.click("#switch-head")
        assert answered.value.request.post_data_json["off"] == [f"cross/0/{n}" for n in range(head + 1)]
        page.wait_for_selector(f".overview tbody tr:nth-child(1) td:nth-child({head + 2}) .thumb.off")
    with model.without(heads={"decoder.0.cross": [0, 1]}):
        expected = model.predict(SENTENCE, nbest=4)["translation"]
    assert expected != whole
    page.wait_for_function("text => document.querySelector('#output').innerText === text", arg=expected)
    page.click("#all-heads-on")
    page.wait_for_function("text => document.querySelector('#output').innerText === text", arg=whole)
    page.wait_for_function("() => document.querySelector('.thumb.off') === null")  # maps come after the text
