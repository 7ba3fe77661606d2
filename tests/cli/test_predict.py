"""regard predict: plain text and JSON in, JSON out, and prompts on a terminal, for every task."""

import gzip
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import fails, regard
from tests.conftest import TinyRun
from tests.tiny import DATA, LABELLED

from regard.run.model import Model

TEXTS = ["a lovely film by Ada in 7", "an awful play", "", "great", "a dull song by Bob in 12 and another one " * 20]


def predictions(*arguments: object, stdin: str | bytes = b"") -> list[dict[str, Any]]:
    result = regard("predict", *arguments, stdin=stdin)
    assert result.status == 0, result.err
    return [json.loads(line) for line in result.lines]


def rounded(value: Any) -> Any:
    """A value with all numbers rounded to four digits."""
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


def test_text_and_json_give_the_same_classes(classifier: Path, tmp_path: Path) -> None:
    (prediction,) = predictions(classifier, "a lovely film by Ada in 7")
    assert prediction["text"] == "a lovely film by Ada in 7" and prediction["label"] == "good"
    assert sum(prediction["probabilities"].values()) == pytest.approx(1) and prediction["probability"] > 0.5
    (best,) = predictions(classifier, "a lovely film by Ada in 7", "--top", 1)
    assert best["probabilities"] == {"good": prediction["probability"]} and len(prediction["probabilities"]) == 2
    lines = ["a dull book", '{"text": "a dull book", "label": "good", "number": 7}', "", ' {  "text": "a\\tb"}']
    plain, labelled, blank, tab = predictions(classifier, stdin="\n".join(lines) + "\n")
    others = {**plain, "label": "good", "predicted_label": plain["label"], "number": 7}
    assert labelled == others, "the label of the input stays, and so do other keys"
    assert blank["text"] == "" and tab["text"] == "a\tb"
    (tmp_path / "in.txt").write_text("a dull book\n", encoding="utf-8")
    result = regard("predict", classifier, "-i", tmp_path / "in.txt", "-o", tmp_path / "out.jsonl")
    assert result.status == 0 and result.out == ""
    assert rounded(json.loads((tmp_path / "out.jsonl").read_text(encoding="utf-8"))) == rounded(plain)


def test_truncated_texts_are_counted(classifier: Path, answerer: Path, chooser: Path) -> None:
    result = regard("predict", classifier, stdin="a dull book\n" + "a dull book " * 40 + "\n")
    whole, truncated = (json.loads(line) for line in result.lines)
    max_length = LABELLED["data"]["max_length"]
    assert "truncated" not in whole and truncated["truncated"] == 3 * 40 + 2 - max_length
    assert "1 of 2 texts" in result.err
    question, context = "who " * 200, "Ada lives in Oslo . " * 30
    model = Model.load(answerer)
    (prediction,) = model.predict([{"question": question, "context": context}])
    assert prediction["truncated"] == 200 - DATA["answering"]["max_question"], "a long context is read in windows"
    (prediction,) = Model.load(chooser).predict([{"text": "a film " * 200, "choices": ["a", "b"]}])
    assert prediction["truncated"] > 600


def test_predictions_do_not_depend_on_the_other_examples(
    classifier: Path, tagger: Path, answerer: Path, chooser: Path
) -> None:
    contexts = ["Ada lives in Oslo .", "Max lives in Rome . " * 9, "Eve lives in Bonn . Bob lives in Lima ."]
    inputs: dict[Path, list[Any]] = {
        classifier: TEXTS,
        tagger: [*TEXTS, "Ada reads 5 film in Oslo . " * 9],
        answerer: [{"question": "Who lives there ?", "context": context} for context in contexts],
        chooser: [
            {"text": "the film is the", "choices": choices} for choices in (["a", "b"], ["film", "book", "song"])
        ],
    }
    for run, examples in inputs.items():
        model = Model.load(run)
        together = model.predict(examples)
        alone = [prediction for example in examples for prediction in model.predict([example])]
        assert [rounded(item) for item in together] == [rounded(item) for item in alone]
        assert len(together) == len(examples)


def test_labelled_tasks_and_pretraining(
    regressor: Path, tagger: Path, answerer: Path, chooser: Path, pretrained: Path
) -> None:
    (number,) = predictions(regressor, stdin="a film\tthe film\n")
    assert number["pair"] == "the film" and isinstance(number["score"], float)
    tags, empty = predictions(tagger, stdin="Ada reads 5 film in Oslo.\n\n")
    assert tags["words"] == ["Ada", "reads", "5", "film", "in", "Oslo", "."], "a full stop is a word"
    assert tags["tags"] == ["B-PER", "O", "O", "O", "O", "B-LOC", "O"] and empty["tags"] == []
    assert [entity["text"] for entity in tags["entities"]] == ["Ada", "Oslo"]
    question = {"question": "Who lives there ?", "context": "Max lives in Rome .", "id": "q", "answers": []}
    (one,) = predictions(answerer, json.dumps(question))
    (several,) = predictions(answerer, json.dumps(question), "--nbest", "3")
    assert one["id"] == "q" and "nbest" not in one and one["answers"] == []
    assert one["context"][one["start"] : one["end"]] == one["answer"] and several["answer"] == one["answer"]
    assert len(several["nbest"]) == 3 and several["nbest"][0]["answer"] == one["answer"]
    assert predictions(answerer, stdin="Who lives there ?\tMax lives in Rome .\n")[0]["answer"] == one["answer"]
    (choice,) = predictions(chooser, stdin="the film is the\tsong\tfilm\n")
    assert choice["choices"][choice["label"]] == choice["choice"] and len(choice["probabilities"]) == 2
    masked, pair = predictions(pretrained, stdin="a [MASK] film by Ada .\na fine film\ta dull book\n")
    assert len(masked["masks"]) == 1 and len(masked["masks"][0]) == 5 and "next" not in masked
    assert pair["masks"] == [] and 0 <= pair["next"] <= 1


def test_tasks_that_write_text(trained: Path, language: Path, parser: Path, tiny_run: TinyRun) -> None:
    (translation,) = predictions(trained, stdin='{"text": "one two six"}\n')
    assert translation["src"] == "one two six" and translation["translation"] == "eins zwei sechs"
    (several,) = predictions(trained, "one two six", "--nbest", 2)
    assert several["hypotheses"][0]["text"] == "eins zwei sechs" and len(several["hypotheses"]) == 2
    (tree,) = predictions(parser, "the cat slept .", "--json")
    assert tree["words"] == ["the", "cat", "slept", "."] and tree["tree"].startswith("(ROOT (S (NP")
    (continuation,) = predictions(language, "the cat")
    assert continuation["continuations"][0]["text"].startswith("the cat")
    counted = predictions(tiny_run("language", "ngram"), "the cat")
    assert counted[0]["continuations"][0]["text"].startswith("the cat")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ('{"text": ', "not-json"),
        ('{"txt": "a"}', "missing-key"),
        ('{"text": ["a"]}', None),
        ('{"text": null}', "missing-key"),
        ('{"text": "\\ud800"}', None),
        ('{"text": "a", "other": "\\udc00"}', None),
        ("{" * 100_000, "not-json"),
        ('{"text": "a", "other": ' + "[" * 900 + "]" * 900 + "}", "not-json"),
    ],
)
def test_a_bad_line_is_named_by_its_number(classifier: Path, line: str, code: str | None, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    result = fails("predict", classifier, "--output", output, stdin=f"a fine film\n{line}\n")
    assert "stdin, line 2" in result.err
    assert code is None or result.code == code
    assert not output.exists(), "complete or not at all"


def test_unusual_bytes(classifier: Path, tagger: Path, tmp_path: Path) -> None:
    assert "stdin, line 1" in fails("predict", classifier, stdin=b"\xff\xfe\n").err
    control = "".join(map(chr, [*range(1, 9), *range(14, 28), 31, 0x7F])) + "\ufeff\ufffd\U0010ffff"
    (prediction,) = predictions(classifier, stdin=f"a fine{control} film\x1b[2J\n")
    assert prediction["text"] == f"a fine{control} film\x1b[2J"
    (tmp_path / "texts.txt").write_bytes(b"a fine film\na fine\0 film\n")
    (tmp_path / "texts.tsv").write_bytes(b"text\na fine film\nfine\0 film\n")
    for place, arguments in (
        ("stdin, line 2", []),
        ("texts.txt, line 2", ["-i", tmp_path / "texts.txt"]),
        ("texts.tsv, line 3", ["-i", tmp_path / "texts.tsv"]),
    ):
        refused = fails("predict", classifier, *arguments, stdin="" if arguments else "a fine film\na fine\0 film\n")
        assert refused.code == "nul-character" and place in refused.err, "UTF-16, or no text at all"
    assert predictions(classifier, stdin="lovely " * 150_000 + "\n")[0]["label"] == "good"
    (tags,) = predictions(tagger, stdin="Ada reads 5 film in Oslo . " * 500 + "\n")
    assert len(tags["words"]) == len(tags["tags"]) == 3500, "read in many windows, without a gap"


def test_errors(
    classifier: Path, regressor: Path, answerer: Path, chooser: Path, trained: Path, tmp_path: Path
) -> None:
    assert fails("predict", classifier, "a", "--nbest", "2").code == "unsupported-option"
    assert fails("predict", answerer, "a\tb", "--top", "2").code == "unsupported-option"
    assert fails("predict", classifier, "a", "--top", "0").code == "invalid-option"
    assert fails("predict", answerer, "a\tb", "--nbest", "0").code == "invalid-option"
    assert fails("predict", answerer, "Who?").code == "bad-line"
    result = fails("predict", regressor, stdin="a\tb\na\tb\tc\n")
    assert result.code == "bad-line" and "stdin, line 2" in result.err
    assert fails("predict", chooser, "the film\tfilm").code == "bad-line"
    assert fails("predict", chooser, '{"text": "a", "choices": ["b"]}').status == 1
    assert fails("predict", trained, stdin='{"source": "one"}\n').code == "missing-key"
    assert fails("predict", classifier, "-i", __file__, "-o", __file__).code == "overwrites-input"
    assert fails("predict", classifier, "a", "-i", __file__).code == "conflicting-options"
    for run in (classifier, answerer):
        copy = Path(shutil.copytree(run, tmp_path / run.name))
        (copy / "labels.json").unlink()
        result = fails("predict", copy, '{"text": "a", "question": "a", "context": "a"}')
        assert result.code == "missing-file" and "labels.json" in result.err


def test_a_person_is_asked_for_every_key(
    classifier: Path, tagger: Path, answerer: Path, chooser: Path, regressor: Path, pretrained: Path, trained: Path
) -> None:
    bars = regard("predict", classifier, stdin='a dull book\n\n{"text": \na great song\n', terminal=True)
    assert bars.status == 0 and bars.err.count("text> ") == 5, "without --interactive on a terminal"
    assert bars.code == "" and "[not-json]" in bars.err and bars.out.count("█") > 10 and "\x1b[" in bars.out
    plain = regard("predict", classifier, "--interactive", stdin="a dull book\n")
    assert "\x1b" not in plain.out and plain.out.split()[:2] == ["→", "bad"]
    tags = regard("predict", tagger, "--interactive", stdin="Ada reads 5 film in Oslo .\n").out.split("\n")
    assert tags[1].startswith("Ada ") and tags[2].startswith("B-PER"), tags
    assert tags[2].index("B-LOC") == tags[1].index("Oslo")
    typed = "Eve lives in Bonn .\nWho lives there ?\n\nMax lives in Oslo .\nWho lives there ?\n"
    answers = regard("predict", answerer, "--interactive", stdin=typed)
    assert answers.err.count("context> ") == 2 and "[[" in answers.out and "lives in" in answers.out
    choices = regard("predict", chooser, "--interactive", stdin="the film is the\nsong\nfilm\n\nthe song\n")
    assert "choice 3 (blank: no more)> " in choices.err and choices.out.count("→") == 1
    both = [
        regard("predict", regressor, "--interactive", stdin=lines)
        for lines in ("a film\tthe film\n", "a film\nthe film\n")
    ]
    assert both[0].out == both[1].out and "pair> " in both[1].err, "a model trained with pairs asks for pairs"
    assert both[0].out.strip().replace(".", "").strip("-").isdigit()
    assert '"' not in regard("predict", tagger, "--interactive", stdin='{"words": ["Ada"]}\n').out, "JSON can be typed"
    assert "no [MASK]" in regard("predict", pretrained, "--interactive", stdin="a film\n").out
    assert "eins zwei sechs" in regard("predict", trained, "--interactive", stdin="one two six\n").out


def test_a_tab_separates_two_texts_only_for_a_model_of_pairs(classifier: Path, regressor: Path) -> None:
    single, blank = predictions(classifier, stdin="a dull\tbook\na dull book\n")
    assert single["text"] == "a dull\tbook" and "pair" not in single
    assert single["probabilities"] == blank["probabilities"], "a tab is read as a blank"
    (number,) = predictions(regressor, stdin="a film\tthe film\n")
    assert (number["text"], number["pair"]) == ("a film", "the film")
    (pair,) = predictions(classifier, '{"text": "a dull", "pair": "book"}')
    assert pair["pair"] == "book", "a second text that is named is read"


def test_an_interruption_leaves_no_output(classifier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(model: Model, inputs: Iterator[Any], **_: Any) -> Any:
        next(inputs)
        yield {"text": "a"}, {"label": "good"}
        raise KeyboardInterrupt

    monkeypatch.setattr(Model, "stream_pairs", interrupted)
    result = regard("predict", classifier, "a", "--output", tmp_path / "out.jsonl")
    assert result.status == 130 and result.err == "" and not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize("name", ["a.xml", "a.XML.gz", "a.html", "a.docx", "a.pdf"])
def test_an_unknown_extension_is_refused(
    classifier: Path, language: Path, pretrained: Path, tmp_path: Path, name: str
) -> None:
    file, output = tmp_path / name, tmp_path / "out"
    content = b"<p>a dull book</p>\n"
    file.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    for command, run in (("predict", classifier), ("generate", language), ("embed", pretrained)):
        assert fails(command, run, "-i", file, "-o", output).code == "unsupported-file"
        assert not output.exists()
    assert fails("evaluate", classifier, "--file", file).code == "invalid-setting"
    if name in ("a.docx", "a.pdf"):
        assert fails("evaluate", language, "--file", file).code == "invalid-setting"
    else:  # a corpus of any extension; markup is said to be read as text
        result = regard("evaluate", language, "--file", file, "-o", output)
        assert result.status == 0 and f"{file} is read as plain text" in result.err
    (prediction,) = predictions(classifier, stdin=content)
    assert prediction["text"] == "<p>a dull book</p>"
