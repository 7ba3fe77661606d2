"""regard inspect: predictions, heat maps, pages and pictures, for every task."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from tests.cli.command import fails, regard
from tests.conftest import TinyRun
from tests.tiny import number_sentences, translate_words

from regard.run.model import Model

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


def test_a_figure_of_every_head_with_a_title(copied: Path, tmp_path: Path) -> None:
    figure, titled = tmp_path / "a.svg", ("--title", "Every head <1>")
    values = json.loads(regard("inspect", copied, SENTENCE, "--figure", figure, "--all-heads", *titled, "--json").out)
    picture = figure.read_text(encoding="utf-8")
    weights = np.array(values["maps"][-1]["weights"])
    assert values["figure"] == str(figure) and "Every head &lt;1&gt;" in picture and "cross attention" not in picture
    told = [float(weight) for weight in re.findall(r"<title>[^<]*: ([\d.]+)</title>", picture)]
    assert told == pytest.approx(weights[weights > 0.00499].tolist(), abs=0.0006)
    assert regard("inspect", copied, SENTENCE, "--figure", figure, "--title", "").status == 0
    assert 'class="title"' not in figure.read_text(encoding="utf-8").split("</style>")[1]
    assert fails("inspect", copied, SENTENCE, "--title", "a").code == "unsupported-option"
    assert fails("inspect", copied, SENTENCE, "--all-heads").code == "unsupported-option"
    assert fails("inspect", copied, SENTENCE, "--figure", tmp_path / "a.jpg").code == "unsupported-format"


@pytest.mark.parametrize(("name", "start"), [("a.pdf", b"%PDF-"), ("a.png", b"\x89PNG")])
def test_a_figure_for_a_paper(copied: Path, tmp_path: Path, name: str, start: bytes) -> None:
    pytest.importorskip("vl_convert")
    assert regard("inspect", copied, SENTENCE, "--figure", tmp_path / name).status == 0
    assert (tmp_path / name).read_bytes().startswith(start)


def test_json(copied: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    values = json.loads(regard("inspect", copied, SENTENCE, "--json", "--output", page).out)
    assert (values["src"], values["prediction"]["translation"]) == (SENTENCE, translate_words(SENTENCE))
    assert values["report"] == str(page) and values["figure"] is None
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
    pair = '{"text": "a lovely film", "pair": "by Ada"}'
    values = json.loads(regard("inspect", classifier, pair, "--json", "--output", page).out)
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


@pytest.mark.parametrize(
    ("task", "kind", "text"),
    [
        ("tagging", "recurrent", "Ada reads 5 film in Oslo ."),
        ("answering", "recurrent", "Who lives there ?\tMax lives in Rome ."),
        ("language", "ngram", "the cat"),
    ],
)
def test_models_without_attention_are_refused(
    task: str, kind: str, text: str, tiny_run: TinyRun, tmp_path: Path
) -> None:
    run, page, svg = tiny_run(task, kind), tmp_path / "a.html", tmp_path / "a.svg"
    assert fails("inspect", run, text, "--output", page, "--svg", svg).code == "no-attention"
    assert not page.exists() and not svg.exists()
    model = Model.load(run)
    assert model.explain(text).maps == [] and not model.task.recipe.has_attention
    assert not any("inspect" in command for command in model.task.next_commands("run", "text"))


def test_attention_of_a_language_model(tiny_run: TinyRun, tmp_path: Path) -> None:
    run, page, svg = tiny_run("language", "transformer"), tmp_path / "a.html", tmp_path / "a.svg"
    options = ("--search", "greedy", "--output", page)
    values = json.loads(regard("inspect", run, "the cat", "--json", "--svg", svg, *options).out)
    (continuation,), (attention,) = values["prediction"]["continuations"], values["maps"]
    generated = json.loads(regard("generate", run, "the cat", "--search", "greedy", "--json").out)["texts"]
    assert [continuation] == generated, "recording the attention changes nothing"
    assert attention["rows"] == [*continuation["text"].split(), "⟨/s⟩"] and continuation["finished"]
    assert attention["columns"] == ["⟨/s⟩", *attention["rows"][:-1]], "a token attends to those before it"
    weights = np.array(attention["weights"])
    assert attention["name"] == "decoder" and weights.shape == (1, 2, *[len(attention["rows"])] * 2)
    np.testing.assert_allclose(weights.sum(-1), 1, atol=1e-3)
    assert not np.triu(weights[0, 0], 1).any() and weights[0, 0, -1, -1] > 0
    shown = regard("inspect", run, "the cat", *options).out
    assert shown.startswith(continuation["text"]) and "attention, layer 1 of 1, mean of 2 heads" in shown
    assert f"{continuation['text']}; attention, layer 1" in svg.read_text(encoding="utf-8")
    assert continuation["text"] in page.read_text(encoding="utf-8")
    assert "regard inspect run text" in Model.load(run).task.next_commands("run", "text")


def test_attention_of_a_given_continuation(tiny_run: TinyRun, tmp_path: Path) -> None:
    run, options = tiny_run("language", "transformer"), ("--json", "--output", tmp_path / "a.html")
    values = json.loads(regard("inspect", run, "the cat", "--target", " sees the sea", *options).out)
    (continuation,), (attention,) = values["prediction"]["continuations"], values["maps"]
    assert continuation["text"] == "the cat sees the sea" and continuation["log_prob"] is None
    assert attention["rows"] == ["the", "cat", "sees", "the", "sea", "⟨/s⟩"]
    short = json.loads(regard("inspect", run, "the cat", "--max-length", "3", "--search", "greedy", *options).out)
    assert len(short["maps"][0]["rows"]) == 2 + 3 and not short["prediction"]["continuations"][0]["finished"]
    assert fails("inspect", run, "the cat " * 90).code == "too-long"


@pytest.mark.parametrize(
    ("task", "kind", "text"),
    [
        ("translation", "", SENTENCE),
        ("language", "transformer", "the cat"),
        ("parsing", "", "the cat slept ."),
        ("classification", "recurrent", "a lovely film"),
        ("answering", "", "Who lives there ?\tMax lives in Rome ."),
        ("pretraining", "", "a [MASK] film"),
    ],
)
def test_recording_attention_changes_no_prediction(task: str, kind: str, text: str, tiny_run: TinyRun) -> None:
    model = Model.load(tiny_run(task, kind))
    (before,) = model.predict([text])
    explanation = model.explain(text)
    assert explanation.maps and [explanation.prediction] == [before] == model.predict([text])


def test_the_architecture_of_a_run_and_of_a_recipe(
    copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = regard("inspect", copied, "--architecture")
    assert "cross-attention: 2 heads of 16, padding mask" in result.out
    assert (copied / "architecture.svg").read_text(encoding="utf-8").startswith("<svg")
    values = json.loads(regard("inspect", "wmt14-en-de-base", "--architecture", "--json").out)
    assert values["parameters"] == 63_082_496 and Path(values["figure"]).exists()
    assert regard("inspect", copied / "recipe.toml", "--architecture", "--figure", "a.pdf").status == 0
    assert (tmp_path / "a.pdf").read_bytes().startswith(b"%PDF")
    assert fails("inspect", copied).code == "missing-input"
    assert fails("inspect", "no-such-recipe", "--architecture").code == "unknown-recipe"
