"""regard predict: plain text and JSON in, JSON out, whatever the task; and what a person sees who is asked."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import refused, regard

from regard import Predictor
from regard.cli.predict_screen import Drawing
from regard.run.given import stretches

TEXTS = ["a lovely film by Ada in 7", "an awful play", "", "great", "a dull song by Bob in 12 and another one " * 20]


def said(*arguments: object, stdin: str | bytes = b"") -> list[dict[str, Any]]:
    done = regard("predict", *arguments, stdin=stdin)
    assert done.status == 0, done.err
    return [json.loads(line) for line in done.lines]


def test_classes_of_text_and_json_alike(classifier: Path, tmp_path: Path) -> None:
    (found,) = said(classifier, "a lovely film by Ada in 7")
    assert found["text"] == "a lovely film by Ada in 7" and found["label"] == "good"
    assert sum(found["probabilities"].values()) == pytest.approx(1) and found["probability"] > 0.5
    lines = ["a dull book", '{"text": "a dull book", "label": "good", "number": 7}', "", ' {  "text": "a\\tb"}']
    plain, labelled, blank, tab = said(classifier, stdin="\n".join(lines) + "\n")
    assert labelled == {**plain, "number": 7}, "the gold label is not repeated, keys of one's own are"
    assert blank["text"] == "" and tab["text"] == "a\tb"
    (tmp_path / "in.txt").write_text("a dull book\n", encoding="utf-8")
    done = regard("predict", classifier, "--input", tmp_path / "in.txt", "--output", tmp_path / "out.jsonl")
    assert done.status == 0 and done.out == ""
    assert rounded(json.loads((tmp_path / "out.jsonl").read_text(encoding="utf-8"))) == rounded(plain)


def test_what_there_was_no_room_for_is_told(classifier: Path, answerer: Path, chooser: Path) -> None:
    done = regard("predict", classifier, stdin="a dull book\n" + "a dull book " * 40 + "\n")
    whole, cut = (json.loads(line) for line in done.lines)
    longest = Predictor.load(classifier).longest
    assert "unread" not in whole and cut["unread"] == 3 * 40 + 2 - longest
    assert "1 of 2 were longer" in done.err
    question, text = "who " * 200, "Ada lives in Oslo . " * 30
    (asked,) = Predictor.load(answerer).predict([{"question": question, "context": text}])
    assert asked["unread"] == 200 - Predictor.load(answerer).task.max_question, "a long context is read in windows"
    (chosen,) = Predictor.load(chooser).predict([{"text": "a film " * 200, "choices": ["a", "b"]}])
    assert chosen["unread"] > 600


def test_one_by_one_is_all_together(classifier: Path, tagger: Path, answerer: Path, chooser: Path) -> None:
    contexts = ["Ada lives in Oslo .", "Max lives in Rome . " * 9, "Eve lives in Bonn . Bob lives in Lima ."]
    given: dict[Path, list[Any]] = {
        classifier: TEXTS,
        tagger: [*TEXTS, "Ada reads 5 film in Oslo . " * 9],
        answerer: [{"question": "Who lives there ?", "context": context} for context in contexts],
        chooser: [{"text": "the film is the", "choices": list(rest)} for rest in ("ab", ["film", "book", "song"])],
    }
    for run, examples in given.items():
        predictor = Predictor.load(run)
        together = list(predictor.predict(examples))
        alone = [found for example in examples for found in predictor.predict([example])]
        assert [rounded(found) for found in together] == [rounded(found) for found in alone]
        assert len(together) == len(examples)


def rounded(value: Any) -> Any:
    """With numbers to four digits."""
    if isinstance(value, float):
        return round(value, 4)
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list) else value


def test_numbers_tags_answers_choices_and_masks(
    rater: Path, tagger: Path, answerer: Path, chooser: Path, pretrained: Path
) -> None:
    (number,) = said(rater, stdin="a film\tthe film\n")
    assert number["pair"] == "the film" and isinstance(number["score"], float)
    tags, nothing = said(tagger, stdin="Ada reads 5 film in Oslo.\n\n")
    assert tags["words"] == ["Ada", "reads", "5", "film", "in", "Oslo", "."], "the stop is a word of its own"
    assert tags["tags"] == ["B-PER", "O", "O", "O", "O", "B-LOC", "O"] and nothing["tags"] == []
    assert [each["text"] for each in tags["entities"]] == ["Ada", "Oslo"]
    question = {"question": "Who lives there ?", "context": "Max lives in Rome .", "id": "q", "answers": []}
    (one,) = said(answerer, json.dumps(question))
    (several,) = said(answerer, json.dumps(question), "--nbest", "3")
    assert one["id"] == "q" and "nbest" not in one and "answers" not in one
    assert one["context"][one["start"] : one["end"]] == one["answer"] and several["answer"] == one["answer"]
    assert len(several["nbest"]) == 3 and several["nbest"][0]["answer"] == one["answer"]
    assert said(answerer, stdin="Who lives there ?\tMax lives in Rome .\n")[0]["answer"] == one["answer"]
    (choice,) = said(chooser, stdin="the film is the\tsong\tfilm\n")
    assert choice["choices"][choice["label"]] == choice["choice"] and len(choice["probabilities"]) == 2
    masked, pair = said(pretrained, stdin="a [MASK] film by Ada .\na fine film\ta dull book\n")
    assert len(masked["masks"]) == 1 and len(masked["masks"][0]) == 5 and "next" not in masked
    assert pair["masks"] == [] and 0 <= pair["next"] <= 1


def test_other_tasks_speak_by_their_own_classes(trained: Path) -> None:
    (found,) = said(trained, stdin='{"text": "one two six"}\n')
    assert found["source"] == "one two six" and found["translation"] == "eins zwei sechs"
    assert "has no 'text'" in refused("predict", trained, stdin='{"source": "one"}\n')
    assert "--nbest is for answers" in refused("predict", trained, "one", "--nbest", "2")
    shown = regard("predict", trained, "-i", stdin="one two six\n")
    assert "eins zwei sechs" in shown.out


LANGUAGE = """
name = "lines"
task = "language"
data = { train.file = "lines.txt", valid.file = "lines.txt", bptt = 10, workers = 1 }
text = { kind = "token", min_frequency = 1 }
model = { kind = "ngram", order = 3 }
decoding = { search = "greedy", max_length = 5 }
runtime = { device = "cpu", threads = 1 }
"""


def test_a_language_model_goes_on_and_names_the_verb_for_other_tasks(tmp_path: Path, classifier: Path) -> None:
    (tmp_path / "lines.txt").write_text("the cat sees the dog\n" * 9, encoding="utf-8")
    (tmp_path / "lines.toml").write_text(LANGUAGE, encoding="utf-8")
    done = regard("train", tmp_path / "lines.toml", f"data.root={tmp_path.as_posix()}", "-o", tmp_path / "run")
    assert done.status == 0, done.err
    (found,) = said(tmp_path / "run", "the cat")
    assert found["prompt"] == "the cat" and found["texts"][0]["text"] == "the cat sees the dog"
    for verb in ("generate", "translate"):
        assert "regard predict asks any run" in refused(verb, classifier, stdin="a\n")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"text": ', "stdin, line 2 is not JSON"),
        ('{"txt": "a"}', "stdin, line 2 has no 'text'"),
        ('{"text": ["a"]}', "text is not text but ['a']"),
        ('{"text": null}', "stdin, line 2 has no 'text'"),
        ('{"text": "\\ud800"}', "stdin, line 2 contains half of a surrogate pair"),
        ('{"text": "a", "own": "\\udc00"}', "stdin, line 2 contains half of a surrogate pair"),
        ("a\tb\tc", "stdin, line 2 has 3 parts"),
        ("{" * 100_000, "is not JSON"),
        ('{"text": "a", "own": ' + "[" * 900 + "]" * 900 + "}", "stdin, line 2 is JSON nested too deeply"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(
    classifier: Path, line: str, complaint: str, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    assert complaint in refused("predict", classifier, "--output", out, stdin=f"a fine film\n{line}\n")
    assert not out.exists(), "whole or not at all"


def test_bytes_nobody_expects(classifier: Path, tagger: Path) -> None:
    assert "stdin, line 1 is not UTF-8" in refused("predict", classifier, stdin=b"\xff\xfe\n")
    (found,) = said(classifier, stdin="a fine\0 film\x1b[2J\n")
    assert found["text"] == "a fine\0 film\x1b[2J"
    million = "lovely " * 150_000
    assert said(classifier, stdin=million + "\n")[0]["label"] == "good"
    (tags,) = said(tagger, stdin="Ada reads 5 film in Oslo . " * 500 + "\n")
    assert len(tags["words"]) == len(tags["tags"]) == 3500, "in many parts, none of them lost"


def test_what_a_task_does_not_have_is_refused(classifier: Path, answerer: Path, chooser: Path) -> None:
    assert "tells no list of answers" in refused("predict", classifier, "a", "--nbest", "2")
    assert "--nbest is 0" in refused("predict", answerer, "a\tb", "--nbest", "0")
    assert "write question TAB context" in refused("predict", answerer, "Who?")
    assert "write text TAB choice TAB choice" in refused("predict", chooser, "the film\tfilm")
    assert "1 choice" in refused("predict", chooser, '{"text": "a", "choices": ["b"]}')
    assert "is the file that is read" in refused("predict", classifier, "--input", __file__, "--output", __file__)


def test_a_person_is_asked_field_by_field(
    classifier: Path, tagger: Path, answerer: Path, chooser: Path, rater: Path, pretrained: Path
) -> None:
    bars = regard("predict", classifier, stdin="a dull book\n\na\tb\tc\na great song\n", terminal=True)
    assert bars.status == 0 and bars.err.count("text> ") == 5, "on a terminal it asks by itself"
    assert "3 parts" in bars.err and bars.out.count("█") > 10 and "\x1b[" in bars.out
    plain = regard("predict", classifier, "-i", stdin="a dull book\n")
    assert "\x1b" not in plain.out and plain.out.split()[:2] == ["→", "bad"]
    tags = regard("predict", tagger, "-i", stdin="Ada reads 5 film in Oslo .\n").out.split("\n")
    assert tags[1].startswith("Ada ") and tags[2].startswith("B-PER"), tags
    assert tags[2].index("B-LOC") == tags[1].index("Oslo")
    typed = "Eve lives in Bonn .\nWho lives there ?\n\nMax lives in Oslo .\nWho lives there ?\n"
    answers = regard("predict", answerer, "-i", stdin=typed)
    assert answers.err.count("context> ") == 2 and "[[" in answers.out and "lives in" in answers.out
    choices = regard("predict", chooser, "-i", stdin="the film is the\nsong\nfilm\n\nthe song\n")
    assert "choice 3 (blank: that is all)> " in choices.err and choices.out.count("→") == 1
    assert regard("predict", rater, "-i", stdin="a film\tthe film\n").out.strip().replace(".", "").strip("-").isdigit()
    both = [regard("predict", rater, "-i", stdin=typed) for typed in ("a film\tthe film\n", "a film\nthe film\n")]
    assert both[0].out == both[1].out and "second text> " in both[1].err, "what was learnt from pairs asks for pairs"
    assert '"' not in regard("predict", tagger, "-i", stdin='{"words": ["Ada"]}\n').out, "JSON can be typed too"
    assert "there is no [MASK]" in regard("predict", pretrained, "-i", stdin="a film\n").out


def test_memory_is_bounded_by_examples_and_by_characters() -> None:
    rng = random.Random(1)
    examples = [{"text": "a" * rng.randrange(2000)} for _ in range(300)]
    found = list(stretches(iter(examples), most=50, most_characters=20_000))
    assert [each for some in found for each in some] == examples
    assert all(len(some) <= 50 for some in found)
    assert all(sum(len(each["text"]) for each in some) <= 20_000 or len(some) == 1 for some in found)


def test_an_interrupted_prediction_ends_quietly(
    classifier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> Any:
        yield {"text": "a", "label": "good"}
        raise KeyboardInterrupt

    monkeypatch.setattr(Predictor, "predict", interrupted)
    done = regard("predict", classifier, "a", "--output", tmp_path / "out.jsonl")
    assert done.status == 130 and done.err == "" and not (tmp_path / "out.jsonl").exists()


def test_tags_stand_under_wide_words_and_lines_end_at_the_edge() -> None:
    tagged = {"words": ["Ada", "读", "书", "\x1b[2J"], "tags": ["B-PER", "O", "NOUN", "X"]}
    assert Drawing(colour=False, room=80).show("tagging", tagged) == "Ada   读 书   ␛[2J\nB-PER    NOUN X"
    narrow = Drawing(colour=False, room=12).show("tagging", tagged).split("\n")
    assert narrow == ["Ada   读", "B-PER", "书   ␛[2J", "NOUN X"]


def test_bars_and_answers() -> None:
    drawing = Drawing(colour=False, room=60)
    bars = drawing.bars([("yes", 0.75), ("no", 0.25)]).split("\n")
    assert bars == ["→ yes  " + "█" * 18 + " " * 6 + "  75%", "  no   " + "█" * 6 + " " * 18 + "  25%"]
    context = "x" * 300 + " here " + "y" * 300
    said = {"context": context, "answer": "here", "start": 301, "end": 305, "probability": 0.5}
    shown = drawing.show("answering", said)
    assert shown.startswith("here (50%)") and "x [[here]] y" in shown and shown.count("…") == 2
    assert "no answer (50%)" in drawing.show("answering", said | {"answer": "", "start": 0, "end": 0})
