"""regard generate: continuations of prompts."""

import json
from pathlib import Path

from tests.cli.command import fails, regard


def test_a_seed_determines_the_samples(language: Path) -> None:
    first, again, other = (
        regard("generate", language, "the cat", "--nbest", "4", "--seed", seed) for seed in (3, 3, 4)
    )
    assert first.status == 0 and first.out == again.out != other.out
    assert len(first.lines) == 4 and all(line.startswith("the cat") for line in first.lines)


def test_json(language: Path) -> None:
    options = ("--search", "greedy", "--max-length", "3", "--json")
    result = regard("generate", language, *options, stdin="the cat\n\nthe zebra likes\n")
    values = [json.loads(line) for line in result.lines]
    assert [item["prompt"] for item in values] == ["the cat", "", "the zebra likes"]
    assert [set(item) for item in values] == [{"prompt", "texts"}] * 3
    texts = [item["texts"][0] for item in values]
    assert set(texts[0]) == {"text", "log_prob", "finished", "looped"}
    assert texts[0]["text"].startswith("the cat ") and not texts[0]["finished"]
    assert len(texts[0]["text"].split()) == 5, "three tokens after the prompt"
    assert texts[2]["text"].startswith("the <unk> likes the")


def test_files(language: Path, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("the dog\nthe king\n", encoding="utf-8")
    result = regard("generate", language, "--search", "greedy", "-i", tmp_path / "in.txt", "-o", tmp_path / "out.txt")
    assert result.status == 0 and result.out == ""
    lines = (tmp_path / "out.txt").read_text(encoding="utf-8").splitlines()
    assert [line.split()[1] for line in lines] == ["dog", "king"]


def test_prompts_on_a_terminal(language: Path) -> None:
    typed = regard("generate", language, "--search", "greedy", stdin="the dog\n", terminal=True)
    assert typed.lines[0].startswith("the dog") and typed.lines[0].endswith(" .")


def test_errors(language: Path, trained: Path, classifier: Path) -> None:
    for run in (trained, classifier):
        assert fails("generate", run, "a").code == "wrong-task"
    assert fails("generate", language, "a", "--search", "mask_predict").status == 1
    assert fails("generate", language, "a", "-i", "b").code == "conflicting-options"


def test_changed_and_missing_words(language: Path) -> None:
    words = language / "words.txt"
    text = words.read_text(encoding="utf-8")
    try:
        words.write_text(text + "zebra\n", encoding="utf-8")
        assert fails("generate", language, "a").code == "damaged-file"
        words.unlink()
        assert fails("generate", language, "a").code == "missing-file"
    finally:
        words.write_text(text, encoding="utf-8")
