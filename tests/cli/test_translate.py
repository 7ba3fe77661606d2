"""regard translate: one line of output for each line of input."""

import json
import shutil
from pathlib import Path

import pytest
from tests.cli.command import fails, regard
from tests.tiny import number_sentences, translate_words

from regard.decoding.settings import DecodingSettings, change_search
from regard.errors import UserError
from regard.run.model import Model

LINES = number_sentences()[:3]
TEXT = "\n".join(LINES) + "\n"


def test_lines_keep_their_order_and_blank_lines_stay(trained: Path) -> None:
    lines = [LINES[0], "", "one", "  ", LINES[1]]
    result = regard("translate", trained, stdin="\n".join(lines))
    assert len(result.lines) == 5
    assert (result.lines[1], result.lines[3]) == ("", "  ")
    assert (result.lines[0], result.lines[4]) == (translate_words(LINES[0]), translate_words(LINES[1]))


def test_windows_line_ends(trained: Path) -> None:
    assert (
        regard("translate", trained, stdin=TEXT.replace("\n", "\r\n")).out
        == regard("translate", trained, stdin=TEXT).out
    )


def test_empty_input(trained: Path) -> None:
    result = regard("translate", trained)
    assert (result.status, result.out) == (0, "")


def test_from_file_to_file(trained: Path, tmp_path: Path) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "new" / "out.txt"
    source.write_text(TEXT, encoding="utf-8")
    result = regard("translate", trained, "-i", source, "-o", output)
    assert (result.status, result.out) == (0, "")
    assert output.read_text(encoding="utf-8") == regard("translate", trained, stdin=TEXT).out


def test_an_error_leaves_the_old_output(trained: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.txt"
    output.write_text("precious\n", encoding="utf-8")
    fails("translate", trained, "-o", output, stdin=b"one two\n\xff\n")
    assert output.read_text(encoding="utf-8") == "precious\n"
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]


def test_a_device_is_written_to_and_not_replaced(trained: Path) -> None:
    assert regard("translate", trained, "-o", "/dev/null", stdin=TEXT).status == 0
    assert Path("/dev/null").is_char_device()


def test_scores(trained: Path) -> None:
    score, text = regard("translate", trained, "--scores", stdin=LINES[0]).lines[0].split("\t")
    assert text == translate_words(LINES[0])
    assert float(score) < 0


def test_scores_are_asked_for_once(trained: Path) -> None:
    for other in (("--nbest", 2), ("--json",)):
        assert fails("translate", trained, "--scores", *other, stdin=TEXT).code == "conflicting-options"
    assert regard("translate", trained, "--json", "--nbest", 2, stdin=LINES[0]).status == 0


def test_options_of_the_search_are_named_as_they_are_written(trained: Path, language: Path) -> None:
    for model in (Model.load(trained), Model.load(language)):
        with pytest.raises(UserError) as error:
            model.predict("one", beam=0, length_candidates=2)
        assert error.value.where.split(", ")[0] == "beam"
        assert error.value.problem.startswith("`beam`, `length_candidates`")


def test_nbest_in_plain_text(trained: Path) -> None:
    rows = [line.split(" ||| ") for line in regard("translate", trained, "--nbest", 3, stdin=TEXT).lines]
    assert [row[0] for row in rows] == list("000111222")
    assert all(len(row) == 3 for row in rows)
    assert rows[0][1] == translate_words(LINES[0])
    assert float(rows[0][2]) >= float(rows[1][2]) >= float(rows[2][2])


def test_json_lines(trained: Path) -> None:
    first, blank = map(json.loads, regard("translate", trained, "--json", stdin=f"{LINES[0]}\n\n").lines)
    assert (first["source"], first["translation"]) == (LINES[0], translate_words(LINES[0]))
    assert (first["finished"], first["looped"], first["parts"]) == (True, False, 1)
    assert "hypotheses" not in first
    assert (blank["translation"], blank["score"], blank["parts"]) == ("", None, 0)


def test_json_with_all_hypotheses(trained: Path) -> None:
    (values,) = map(json.loads, regard("translate", trained, "--json", "--nbest", 4, stdin=LINES[0]).lines)
    texts = [hypothesis["text"] for hypothesis in values["hypotheses"]]
    assert len(set(texts)) == 4
    assert values["translation"] == texts[0]
    assert values["score"] == values["hypotheses"][0]["score"]


def test_an_ensemble_of_a_run_with_itself(trained: Path, copied: Path) -> None:
    alone = regard("translate", trained, "--scores", "--beam", 2, stdin=TEXT)
    together = regard("translate", trained, copied, "--scores", "--beam", 2, stdin=TEXT)
    assert [line.split("\t")[1] for line in together.lines] == [line.split("\t")[1] for line in alone.lines]
    for one, two in zip(alone.lines, together.lines, strict=True):
        assert float(one.split("\t")[0]) == pytest.approx(float(two.split("\t")[0]), abs=2e-4)


def test_runs_with_different_tokenizers_are_no_ensemble(trained: Path, recipe: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    assert regard("train", recipe, "training.max_steps=1", "text.kind=char", "--folder", other).status == 0
    assert fails("translate", trained, other, stdin=TEXT).code == "different-tokenizers"


def test_a_prefix_begins_every_translation(trained: Path) -> None:
    result = regard("translate", trained, "--prefix", "sechs", stdin=TEXT)
    assert len(result.lines) == 3
    assert all(line.startswith("sechs") for line in result.lines)


def test_prefixes_of_a_file_belong_to_their_lines(trained: Path, tmp_path: Path) -> None:
    file = tmp_path / "prefixes.txt"
    file.write_text("fünf\n\ndrei\n", encoding="utf-8")
    first, second, third = regard("translate", trained, "--prefix-file", file, stdin=TEXT).lines
    assert first.startswith("fünf")
    assert second == translate_words(LINES[1])
    assert third.startswith("drei")
    assert fails("translate", trained, "--prefix", "a", "--prefix-file", file).code == "conflicting-options"
    file.write_text("fünf\n", encoding="utf-8")
    assert regard("translate", trained, "--prefix-file", file, stdin=TEXT).lines[1:] == [
        *map(translate_words, LINES[1:])
    ]


def test_a_seed_determines_the_samples(trained: Path) -> None:
    hot = ("translate", trained, "--temperature", 3.0, "--seed")
    assert regard(*hot, 1, stdin=TEXT).out == regard(*hot, 1, stdin=TEXT).out
    assert regard(*hot, 1, stdin=TEXT).out != regard(*hot, 2, stdin=TEXT).out


def test_a_very_long_line_gives_one_line_and_a_warning(trained: Path) -> None:
    text = f"{LINES[0]}\n{'one two three ' * 75_000}\n{LINES[1]}\n"
    assert len(text) > 1_000_000
    options = ("--search", "greedy", "--max-length", 1, "--batch-tokens", 200_000)
    result = regard("translate", trained, *options, stdin=text)
    assert len(result.lines) == 3
    assert "warning: line 2 is too long for the model and was translated in" in result.err
    assert "reached the length limit" in result.err
    in_parts = json.loads(regard("translate", trained, "--json", stdin=" ".join([LINES[0]] * 9)).out)
    assert in_parts["parts"] > 1
    assert in_parts["score"] < 0


def test_unfinished_translations_are_counted(trained: Path) -> None:
    result = regard("translate", trained, "--max-length", 2, stdin=TEXT)
    assert "note: 3 of 3 translations reached the length limit" in result.err


def test_prompts_on_a_terminal(trained: Path) -> None:
    result = regard("translate", trained, stdin=TEXT, terminal=True)
    assert result.lines == [translate_words(line) for line in LINES]
    assert "Ctrl-D" in result.err
    assert result.err.count("> ") == 4


def test_the_input_is_not_overwritten(trained: Path, tmp_path: Path) -> None:
    file = tmp_path / "in.txt"
    file.write_text(TEXT, encoding="utf-8")
    assert fails("translate", trained, "-i", file, "-o", tmp_path / "." / "in.txt").code == "overwrites-input"
    for option in ("--memory", "--glossary"):
        assert fails("translate", trained, "x", option, file, "-o", file).code == "overwrites-input"
    assert file.read_text(encoding="utf-8") == TEXT


def test_errors_name_the_setting(trained: Path) -> None:
    for options, name in (
        (["--beam", 0], "beam"),
        (["--search", "astar"], "search"),
        (["--search", "greedy", "--beam", 3], "beam"),
        (["--device", "tpu"], "device"),
        (["--checkpoint", "bets"], "bets"),
    ):
        assert name in fails("translate", trained, *options, stdin=TEXT).err


@pytest.mark.parametrize(
    ("recipe", "options", "expected"),
    [
        ({"beam": 8, "nbest": 4}, {"search": "greedy"}, {"search": "greedy", "beam": 4, "nbest": 1}),
        ({"search": "sample", "top_k": 9}, {"search": "beam"}, {"search": "beam", "top_k": 0}),
        ({"search": "greedy"}, {"beam": 5}, {"search": "beam", "beam": 5}),
        ({"search": "greedy"}, {"nbest": 6}, {"search": "beam", "beam": 6, "nbest": 6}),
        ({"beam": 8}, {"top_p": 0.9}, {"search": "sample", "beam": 4, "top_p": 0.9}),
        ({"beam": 4}, {"nbest": 9}, {"search": "beam", "beam": 9, "nbest": 9}),
        ({"beam": 8, "nbest": 8}, {"beam": 2}, {"beam": 2, "nbest": 2}),
        ({"beam": 8, "alpha": 1.0}, {"no_repeat_ngram": 3}, {"beam": 8, "alpha": 1.0, "no_repeat_ngram": 3}),
        ({"search": "sample", "top_k": 9}, {"nbest": 3}, {"search": "sample", "top_k": 9, "nbest": 3}),
    ],
)
def test_another_search_drops_the_settings_of_the_former_one(
    recipe: dict[str, object], options: dict[str, object], expected: dict[str, object]
) -> None:
    changed = change_search(DecodingSettings.model_validate(recipe), options)
    values = DecodingSettings.model_validate(changed).model_dump()
    assert {name: values[name] for name in expected} == expected


def test_a_damaged_checkpoint(copied: Path) -> None:
    weights = copied / "checkpoints" / "step-00000240" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    result = fails("translate", copied, "--checkpoint", "last", stdin=TEXT)
    assert str(weights) in result.err
    assert "step-00000120" in result.err, "a complete checkpoint is named"
    assert regard("translate", copied, "--checkpoint", "step-00000120", stdin=TEXT).status == 0
    shutil.rmtree(copied / "checkpoints")
    assert fails("translate", copied, stdin=TEXT).code == "no-checkpoint"


def test_a_sentence_after_a_run(trained: Path) -> None:
    for sentence in ("one two", "on/off one two"):
        assert regard("translate", trained, sentence).lines == regard("translate", trained, stdin=sentence).lines
    assert len(regard("translate", trained, "one\ntwo").lines) == 2
    assert fails("translate", trained, "one", "--input", "file").code == "conflicting-options"
    assert fails("translate", trained, trained.parent / "nothing").code == "not-a-run"
    assert fails("translate", "one two").code == "not-a-run"


def test_a_run_of_another_task(language: Path, classifier: Path) -> None:
    for run in (language, classifier):
        assert fails("translate", run, stdin="a\n").code == "wrong-task"
