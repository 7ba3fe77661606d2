"""The gallery as a browser draws it; needs Chromium, and is skipped without it."""

import subprocess
from pathlib import Path

import pytest
from tests.lab.made import DOUBLES, MADE
from tests.viz.test_viz_browser import BROWSER, Drawn

from regard.lab.experiment import Effort
from regard.lab.gallery import write_gallery
from regard.lab.running import run_experiment

pytestmark = pytest.mark.skipif(BROWSER is None, reason="Chromium is not installed")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_in_a_browser(language: str, tmp_path: Path) -> None:
    run_experiment(DOUBLES, Effort(), tmp_path)
    page = write_gallery(tmp_path, list(MADE.values()))
    command = [
        str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", "--disable-extensions", "--no-zygote",
        f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", f"{page.as_uri()}#{language}/doubles",
    ]  # fmt: skip
    result = subprocess.run(command, capture_output=True, timeout=60, check=True)
    drawn = Drawn(result.stdout.decode())
    assert [text for _, text in drawn.find("footer") if text], "the program of the page ran to its end"
    assert [attributes["id"] for attributes, _ in drawn.find("article")] == ["lab-timed", "lab-doubles", "lab-switched"]
    assert len(drawn.find("svg", "chart")) == 2 and drawn.find("path", "line") and not drawn.find("parsererror")
    titles = [text for _, text in drawn.find("h3")]
    assert (DOUBLES.texts.title.zh if language == "zh" else DOUBLES.texts.title.en) in titles
    assert len(drawn.find("span", "confirmed")) == 2, "in the contents and at its title"
    assert ("二倍为 2.20" if language == "zh" else "twice is 2.20") in drawn.find("p", "verdict")[0][1]
    assert [attributes.get("open") for attributes, _ in drawn.find("details")] == [None] * 4
