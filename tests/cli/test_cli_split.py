"""regard split: from files as people have them to three parts a recipe can name."""

import json
from pathlib import Path

import pytest
from tests.cli.command import refused, regard

ROWS = [(f"sentence {i}", f"Satz {i} {j}") for i in range(40) for j in range(2)]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    (tmp_path / "pairs.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in ROWS), encoding="utf-8")
    (tmp_path / "a.en").write_text("".join(f"{src}\n" for src, _ in ROWS), encoding="utf-8")
    (tmp_path / "a.de").write_text("".join(f"{tgt}\n" for _, tgt in ROWS), encoding="utf-8")
    named = "".join(f"{i},{tgt},{src}\n" for i, (src, tgt) in enumerate(ROWS))
    (tmp_path / "pairs.csv").write_text(f"id,de,en\n{named}", encoding="utf-8")
    return tmp_path


def test_every_format_gives_the_same_splits(pairs: Path) -> None:
    held = ("--valid", 4, "--test", 0.2)
    forms: dict[str, list[object]] = {
        "tsv": [pairs / "pairs.tsv"],
        "two": [f"{pairs / 'a.en'},{pairs / 'a.de'}"],
        "csv": [pairs / "pairs.csv", "--columns", "en,de"],
        "numbers": [pairs / "pairs.tsv", "--columns", "1,2"],
    }
    for name, given in forms.items():
        done = regard("split", *given, *held, "--endings", "en,de", "-o", pairs / name)
        assert done.status == 0, done.err
    for path in sorted((pairs / "tsv").glob("*.??")):
        assert len({(pairs / name / path.name).read_bytes() for name in forms}) == 1, path.name
    assert len((pairs / "tsv" / "valid.en").read_text().splitlines()) == 4


def test_the_table_and_the_way_back(pairs: Path) -> None:
    done = regard("split", pairs / "pairs.tsv", "--valid", "4", "--test", "6", "--by", "both", "-o", pairs / "out")
    assert ["train", "60", "30", "60"] in [line.split() for line in done.lines]
    assert "left out of 80 pairs: 10 further translations of held-out sentences" in done.out
    again = next(line for line in done.lines if "--test" in line).partition(": ")[2].split()
    repeated = regard("split", pairs / "pairs.tsv", *again, "--by", "both", "-o", pairs / "again")
    assert repeated.status == 0, repeated.err
    for path in (pairs / "out").iterdir():
        assert (pairs / "again" / path.name).read_bytes() == path.read_bytes()


def test_json_and_what_is_excluded(pairs: Path) -> None:
    (pairs / "other.txt").write_text("SENTENCE 7!\nSatz 9, 1\n", encoding="utf-8")
    done = regard("split", pairs / "pairs.tsv", "--exclude", pairs / "other.txt", "-o", pairs / "out", "--json")
    found = json.loads(done.out)
    assert found["left_out"]["excluded"] == 3 and found["splits"]["train"]["pairs"] == 77
    assert found == json.loads((pairs / "out" / "report.json").read_text()) | {"folder": str(pairs / "out")}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["pairs.tsv", "--valid", "many"], "--valid is 'many'"),
        (["pairs.tsv", "--test", "41"], "test asks for 41 sentences, and there are 40"),
        (["pairs.tsv", "--by", "source"], "--by is 'source'"),
        (["pairs.tsv", "--endings", "en"], "--endings is 'en'"),
        (["pairs.tsv", "--columns", "en,en"], "--columns is 'en,en'"),
        (["pairs.xlsx"], "write format = one of tsv"),
        (["a.en"], "write format = one of tsv"),
        (["a.en,b.de"], "b.de: no such file"),
        (["nowhere.tsv"], "nowhere.tsv: no such file"),
        (["pairs.tsv", "--exclude", "nowhere.txt"], "nowhere.txt: no such file"),
    ],
)
def test_mistakes_are_named(pairs: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str) -> None:
    monkeypatch.chdir(pairs)
    assert said in refused("split", *arguments, "-o", "out")
    assert not (pairs / "out").exists()


def test_a_folder_that_holds_something_is_not_written_to(pairs: Path) -> None:
    assert "[folder-exists]" in refused("split", pairs / "pairs.tsv", "-o", pairs)
    assert "[folder-exists]" in refused("split", pairs / "pairs.tsv", "-o", pairs / "a.en")
