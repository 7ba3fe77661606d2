"""regard inspect for models that read: what looked at what, and what was said."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.command import refused, regard


def test_pieces_look_at_each_other(classifier: Path, tmp_path: Path) -> None:
    svg, page = tmp_path / "a.svg", tmp_path / "a.html"
    done = regard("inspect", classifier, "a lovely film", "--svg", svg, "--output", page)
    assert done.status == 0, done.err
    assert done.out.startswith("→ good") and "attention, layer 2 of 2, mean of 2 heads" in done.out
    assert "lovely" in svg.read_text(encoding="utf-8") and "good (" in svg.read_text(encoding="utf-8")
    assert "a lovely film" in page.read_text(encoding="utf-8")
    found = json.loads(regard("inspect", classifier, "a lovely film\tby Ada", "--json", "--output", page).out)
    (drawn,) = found["maps"]
    assert drawn["rows"] == ["[CLS]", "a", "lovely", "film", "[SEP]", "by", "Ada", "[SEP]"] == drawn["columns"]
    assert np.shape(drawn["weights"]) == (2, 2, 8, 8) and found["said"]["label"] == "good"
    np.testing.assert_allclose(np.sum(drawn["weights"], axis=-1), 1, atol=1e-3)
    one = regard("inspect", classifier, "a lovely film", "--layer", "1", "--head", "2", "--output", page)
    assert "attention, layer 1 of 2, head 2 of 2" in one.out


def test_a_recurrent_reader_shows_what_it_heard(recurrent: Path, tmp_path: Path) -> None:
    done = regard("inspect", recurrent, "a lovely film", "--json", "--output", tmp_path / "a.html")
    (drawn,) = json.loads(done.out)["maps"]
    assert drawn["name"] == "pooling" and drawn["rows"] == ["pooled"] and len(drawn["columns"]) == 5
    assert np.sum(drawn["weights"]) == pytest.approx(1, abs=1e-3)
    assert "pooling" in regard("inspect", recurrent, "a lovely film", "--output", tmp_path / "a.html").out


def test_every_task_can_be_looked_at(
    tagger: Path, answerer: Path, chooser: Path, rater: Path, pretrained: Path, tmp_path: Path
) -> None:
    for run, text, shown in (
        (tagger, "Ada reads 5 film in Oslo .", "B-PER"),
        (answerer, "Who lives there ?\tMax lives in Rome .", "[["),
        (chooser, "the film is the\tsong\tfilm", "→"),
        (rater, "a film\tthe film", "."),
        (pretrained, "a [MASK] film", "→"),
    ):
        done = regard("inspect", run, text, "--output", tmp_path / "a.html")
        assert done.status == 0, done.err
        assert shown in done.out and "attention, layer 2 of 2" in done.out


def test_what_cannot_be_looked_at_is_refused(classifier: Path, tagger: Path, pretrained: Path) -> None:
    assert "the text is blank" in refused("inspect", classifier, " ")
    assert "are for translators" in refused("inspect", classifier, "a", "--beam", "3")
    assert "are for translators" in refused("inspect", classifier, "a", "--target", "b")
    assert "there is no layer 3" in refused("inspect", pretrained, "a", "--layer", "3")
    assert "is read in 5 parts" in refused("inspect", tagger, "Ada reads 5 film . " * 15)
    assert "the text is not JSON" in refused("inspect", classifier, "{")
