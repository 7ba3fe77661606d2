"""regard split: from files to three splits that a recipe can name."""

import json
from pathlib import Path

import pytest
from tests.cli.command import fails, regard

ROWS = [(f"sentence {i}", f"Satz {i} {j}") for i in range(40) for j in range(2)]


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    (tmp_path / "pairs.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in ROWS), encoding="utf-8")
    (tmp_path / "a.en").write_text("".join(f"{src}\n" for src, _ in ROWS), encoding="utf-8")
    (tmp_path / "a.de").write_text("".join(f"{tgt}\n" for _, tgt in ROWS), encoding="utf-8")
    rows = "".join(f"{i},{tgt},{src}\n" for i, (src, tgt) in enumerate(ROWS))
    (tmp_path / "pairs.csv").write_text(f"id,de,en\n{rows}", encoding="utf-8")
    return tmp_path


def test_every_format_gives_the_same_splits(pairs: Path) -> None:
    sizes = ("--valid", 4, "--test", 0.2)
    formats: dict[str, list[object]] = {
        "tsv": [pairs / "pairs.tsv"],
        "two": [f"{pairs / 'a.en'},{pairs / 'a.de'}"],
        "csv": [pairs / "pairs.csv", "--columns", "en,de"],
        "numbers": [pairs / "pairs.tsv", "--columns", "1,2"],
    }
    for name, arguments in formats.items():
        result = regard("split", *arguments, *sizes, "--endings", "en,de", "--folder", pairs / name)
        assert result.status == 0, result.err
    for path in sorted((pairs / "tsv").glob("*.??")):
        assert len({(pairs / name / path.name).read_bytes() for name in formats}) == 1, path.name
    assert len((pairs / "tsv" / "valid.en").read_text().splitlines()) == 4


def test_the_printed_options_give_the_same_splits(pairs: Path) -> None:
    result = regard("split", pairs / "pairs.tsv", "--valid", 4, "--test", 6, "--by", "both", "--folder", pairs / "out")
    assert ["train", "60", "30", "60"] in [line.split() for line in result.lines]
    assert "left out of 80 pairs: 10 further translations" in result.out
    options = next(line for line in result.lines if "--test" in line).partition(": ")[2].split()
    repeated = regard("split", pairs / "pairs.tsv", *options, "--by", "both", "--folder", pairs / "again")
    assert repeated.status == 0, repeated.err
    for path in (pairs / "out").iterdir():
        assert (pairs / "again" / path.name).read_bytes() == path.read_bytes()


def test_excluded_sentences_and_json(pairs: Path) -> None:
    (pairs / "other.txt").write_text("SENTENCE 7!\nSatz 9, 1\n", encoding="utf-8")
    result = regard("split", pairs / "pairs.tsv", "--exclude", pairs / "other.txt", "--folder", pairs / "out", "--json")
    values = json.loads(result.out)
    assert values["left_out"]["excluded"] == 3 and values["splits"]["train"]["pairs"] == 77
    assert values == json.loads((pairs / "out" / "report.json").read_text()) | {"folder": str(pairs / "out")}


def test_the_header_of_a_table_is_not_a_pair(pairs: Path) -> None:
    rows = "".join(f"{src};{tgt}\n" for src, tgt in ROWS)
    (pairs / "excel.csv").write_text(f"\ufeffsource;target\n{rows}", encoding="utf-8")
    (pairs / "left-out.csv").write_text("nothing;SENTENCE 7!\n", encoding="utf-8")
    options = ("--exclude", pairs / "left-out.csv", "--folder", pairs / "out", "--json")
    values = json.loads(regard("split", pairs / "excel.csv", *options).out)
    assert values["read"] == len(ROWS) and values["left_out"]["excluded"] == 2
    train = [(pairs / "out" / f"train.{side}").read_text(encoding="utf-8").splitlines() for side in ("src", "tgt")]
    assert list(zip(*train, strict=True)) == [row for row in ROWS if row[0] != "sentence 7"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["pairs.tsv", "--valid", "many"], "invalid-option"),
        (["pairs.csv", "--valid", "4"], "ambiguous-columns"),
        (["pairs.tsv", "--test", "41"], "no-data"),
        (["pairs.tsv", "--by", "source"], "invalid-option"),
        (["pairs.tsv", "--endings", "en"], "invalid-option"),
        (["pairs.tsv", "--columns", "en,en"], "invalid-setting"),
        (["pairs.tsv", "--columns", "x=1"], "invalid-option"),
        (["pairs.xls"], "invalid-setting"),
        (["a.en"], "invalid-setting"),
        (["a.en,b.de"], "missing-file"),
        (["nowhere.tsv"], "missing-file"),
        (["pairs.tsv", "--exclude", "nowhere.txt"], "missing-file"),
    ],
)
def test_errors(pairs: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: str) -> None:
    monkeypatch.chdir(pairs)
    assert fails("split", *arguments, "--folder", "out").code == code
    assert not (pairs / "out").exists()


def test_a_folder_with_files_is_not_written_to(pairs: Path) -> None:
    assert fails("split", pairs / "pairs.tsv", "--folder", pairs).code == "folder-exists"
    assert fails("split", pairs / "pairs.tsv", "--folder", pairs / "a.en").code == "folder-exists"
