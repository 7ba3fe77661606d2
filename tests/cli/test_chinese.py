"""Screens in a Chinese terminal: prose is Chinese; names of settings, splits, metrics and files stay English."""

import re
from pathlib import Path

import pytest
from tests.cli.command import regard
from tests.doctor.recipes import write_recipe

NAMES = {"train", "valid", "test", "run", "epoch", "best", "bert", "bpe", "transformer", "tiny", "Hugging", "Face"}
NAMES |= {"nll", "ppl", "tok", "loss", "accuracy", "matthews", "perplexity", "exact", "match", "Matthews"}
NAMES |= {"correlation", "BLEU", "chrF", "TER", "nrefs", "classification", "translation", "regard"}
PATH_OR_SETTING = re.compile(r"[\w/.-]*[/._|][\w/.|:+-]*|step-\d+")


def prose(screen: str) -> set[str]:
    """The English words of a screen, names, paths, settings and signatures apart."""
    return set(re.findall(r"[A-Za-z]{3,}", PATH_OR_SETTING.sub("", screen))) - NAMES


@pytest.mark.parametrize("task", ["classification", "translation"])
def test_screens_of_a_run_are_chinese(task: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    recipe, run = write_recipe(tmp_path, task), tmp_path / "runs" / "small"
    short = ["about=", "training.max_steps=4", "training.validate_every=2", "training.warmup=1"]
    trained = regard("train", recipe, "--folder", run, *short)
    assert trained.status == 0, trained.err
    assert prose(re.sub(r"  (输入|参考|输出)  .*", "", trained.err)) == set()
    assert prose(re.sub(r"\n  .*regard .*", "", trained.out)) == set()
    for command in ("evaluate", "info"):
        result = regard(command, run)
        assert result.status == 0, result.err
        assert prose(re.sub(r"\n  \w[\w.]* = .*", "", result.out + result.err)) == set(), command
    shown = regard("inspect", run, "a fine film", "--output", tmp_path / "page.html")
    assert shown.status == 0 and re.search(r"注意力，第 \d 层，共 \d 层，\d 个头的平均", shown.out)
    listed = regard("runs", run.parent)
    assert "已完成" in listed.out and prose(listed.out) == set()


def test_the_list_of_recipes_is_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    monkeypatch.setenv("COLUMNS", "200")
    names = {
        "WikiText",
        "BERT",
        "LSTM",
        "Transformer",
        "GPU",
        "CPU",
        "ISO",
        "Kneser",
        "Ney",
        "base",
        "big",
        "ladder",
        "CTC",
        "ROUGE",
    }
    for line in regard("recipes").out.splitlines()[2:-1]:
        *_, about = re.split(r" {2,}", line.strip())
        assert prose(about) <= names and re.search(r"[\u4e00-\u9fff]", about), line
