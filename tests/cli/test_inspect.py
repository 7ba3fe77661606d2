"""regard inspect: predictions, heat maps, pages and pictures, for every task."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from tests.cli.command import fails, regard
from tests.conftest import TinyRun
from tests.tiny import number_sentences, translate_words

SENTENCE = number_sentences()[0]


def test_a_heat_map_and_a_page(copied: Path) -> None:
    result = regard("inspect", copied, SENTENCE)
    assert result.lines[0] == translate_words(SENTENCE)
    assert "cross attention, layer 2 of 2, mean of 2 heads" in result.out
    assert "⟨/s⟩" in result.out
    assert "\x1b" not in result.out
    page = copied / "inspect.html"
    assert str(page) in result.out
    assert SENTENCE in page.read_text(encoding="utf-8")


def test_colours_on_a_terminal(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[48;2;" in regard("inspect", copied, SENTENCE, terminal=True).out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[48;2;" not in regard("inspect", copied, SENTENCE, terminal=True).out


def test_a_picture(copied: Path, tmp_path: Path) -> None:
    result = regard("inspect", copied, SENTENCE, "--layer", 1, "--head", 2, "--svg", tmp_path / "a.svg")
    picture = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert str(tmp_path / "a.svg") in result.out
    assert "cross attention, layer 1 of 2, head 2 of 2" in picture
    assert "⟨/s⟩ → " in picture, "each cell has a title"
    assert fails("inspect", copied, SENTENCE, "--svg", copied / "recipe.toml" / "a.svg").status == 1


def test_json(copied: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    values = json.loads(regard("inspect", copied, SENTENCE, "--json", "--output", page).out)
    assert (values["src"], values["prediction"]["translation"]) == (SENTENCE, translate_words(SENTENCE))
    assert values["report"] == str(page) and values["svg"] is None
    encoder, decoder, cross = values["maps"]
    assert [encoder["name"], decoder["name"], cross["name"]] == ["encoder", "decoder", "cross"]
    assert np.shape(cross["weights"])[:2] == (2, 2)
    for row in cross["weights"][1][0]:
        assert len(row) == len(cross["columns"])
        assert sum(row) == pytest.approx(1, abs=1e-3)


def test_a_read_only_folder(copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: not (path == copied and mode == os.W_OK))
    before = sorted(copied.rglob("*"))
    result = regard("inspect", copied, SENTENCE)
    assert result.status == 0
    assert "cross attention" in result.out and ".html" not in result.out
    assert "--output FILE" in result.err
    assert json.loads(regard("inspect", copied, SENTENCE, "--json").out)["report"] is None
    assert sorted(copied.rglob("*")) == before
    assert "--output" not in regard("inspect", copied, SENTENCE, "--output", tmp_path / "page.html").err
    assert (tmp_path / "page.html").exists()


def test_a_given_translation(copied: Path) -> None:
    values = json.loads(regard("inspect", copied, SENTENCE, "--target", "sechs sechs", "--json").out)
    assert values["prediction"]["translation"] == "sechs sechs"
    assert values["prediction"]["score"] is None
    assert "".join(values["maps"][2]["rows"]).replace("␣", " ") == "sechs sechs⟨/s⟩"


def test_attention_between_tokens(classifier: Path, tmp_path: Path) -> None:
    svg, page = tmp_path / "a.svg", tmp_path / "a.html"
    result = regard("inspect", classifier, "a lovely film", "--svg", svg, "--output", page)
    assert result.status == 0, result.err
    assert result.out.startswith("→ good") and "attention, layer 2 of 2, mean of 2 heads" in result.out
    assert "lovely" in svg.read_text(encoding="utf-8") and "good (" in svg.read_text(encoding="utf-8")
    assert "a lovely film" in page.read_text(encoding="utf-8")
    values = json.loads(regard("inspect", classifier, "a lovely film\tby Ada", "--json", "--output", page).out)
    (attention,) = values["maps"]
    assert attention["rows"] == ["[CLS]", "a", "lovely", "film", "[SEP]", "by", "Ada", "[SEP]"] == attention["columns"]
    assert np.shape(attention["weights"]) == (2, 2, 8, 8) and values["prediction"]["label"] == "good"
    np.testing.assert_allclose(np.sum(attention["weights"], axis=-1), 1, atol=1e-3)
    one = regard("inspect", classifier, "a lovely film", "--layer", "1", "--head", "2", "--output", page)
    assert "attention, layer 1 of 2, head 2 of 2" in one.out


def test_attention_pooling_of_a_recurrent_encoder(recurrent: Path, tmp_path: Path) -> None:
    result = regard("inspect", recurrent, "a lovely film", "--json", "--output", tmp_path / "a.html")
    (attention,) = json.loads(result.out)["maps"]
    assert attention["name"] == "pooling" and attention["rows"] == ["pooled"] and len(attention["columns"]) == 5
    assert np.sum(attention["weights"]) == pytest.approx(1, abs=1e-3)
    assert "pooling" in regard("inspect", recurrent, "a lovely film", "--output", tmp_path / "a.html").out


@pytest.mark.parametrize(
    ("task", "text", "rendered", "layers"),
    [
        ("parsing", "the cat slept .", "(S", 2),
        ("tagging", "Ada reads 5 film in Oslo .", "B-PER", 2),
        ("answering", "Who lives there ?\tMax lives in Rome .", "[[", 2),
        ("choice", "the film is the\tsong\tfilm", "→", 2),
        ("regression", "a film\tthe film", ".", 2),
        ("pretraining", "a [MASK] film", "→", 2),
    ],
)
def test_every_task_with_attention(
    task: str, text: str, rendered: str, layers: int, tiny_run: TinyRun, tmp_path: Path
) -> None:
    result = regard("inspect", tiny_run(task), text, "--output", tmp_path / "a.html")
    assert result.status == 0, result.err
    assert rendered in result.out and f"attention, layer {layers} of {layers}" in result.out


def test_errors(copied: Path, classifier: Path, tagger: Path, pretrained: Path, language: Path) -> None:
    assert fails("inspect", copied, SENTENCE, "--layer", 3).code == "invalid-option"
    assert fails("inspect", copied, SENTENCE, "--head", 0).code == "invalid-option"
    assert fails("inspect", copied, " ").code == "blank-input"
    assert fails("inspect", copied, "one " * 50).code == "too-long"
    assert fails("inspect", copied, "one", "--target", "eins " * 50).code == "too-long"
    assert fails("inspect", classifier, "a", "--beam", "3").code == "unsupported-option"
    assert fails("inspect", classifier, "a", "--target", "b").code == "unsupported-option"
    assert fails("inspect", pretrained, "a", "--layer", "3").code == "invalid-option"
    assert fails("inspect", tagger, "Ada reads 5 film . " * 15).code == "too-long"
    assert fails("inspect", classifier, "{").code == "not-json"
    assert fails("inspect", language, "the cat").code == "no-attention"
