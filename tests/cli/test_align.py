"""regard align: measures of every head, and links in the Pharaoh format."""

import json
import shutil
from pathlib import Path

from tests.cli.command import fails, regard, sentences, translated


def test_every_head_is_measured(trained: Path) -> None:
    result = regard("align", trained)
    assert result.status == 0, result.err
    assert "coverage error" in result.out and "AER" not in result.out
    assert sum("mean" in line for line in result.lines) >= 3
    values = json.loads(regard("align", trained, "--json", "--sentences", 5).out)
    assert values["sentences"] == 5
    assert {(item["layer"], item["head"]) for item in values["heads"]} == {
        *((layer, head) for layer in (1, 2) for head in (0, 1, 2)),
        (0, 0),
    }
    assert all("aer" not in item and 0 <= item["relative_entropy"] <= 1 for item in values["heads"])
    assert values["best"]["coverage_error"] == min(item["coverage_error"] for item in values["heads"])


def test_links_of_a_word_by_word_translation(trained: Path, tmp_path: Path) -> None:
    lines = [*sentences()[:30], ""]
    (tmp_path / "a.src").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (tmp_path / "a.tgt").write_text("".join(f"{translated(line)}\n" for line in lines), encoding="utf-8")
    files = ("--src", tmp_path / "a.src", "--tgt", tmp_path / "a.tgt")
    result = regard("align", trained, *files, "-o", tmp_path / "links")
    assert result.status == 0, result.err
    written = (tmp_path / "links").read_text(encoding="utf-8").split("\n")
    assert len(written) == len(lines) + 1 and written[-2] == ""
    links = [tuple(map(int, link.split("-"))) for line in written for link in line.split()]
    assert all(0 <= source < 3 and 0 <= target < 3 for source, target in links)
    assert len(links) > 60, "nearly every word has a link"
    one = regard("align", trained, *files, "--output", tmp_path / "one", "--layer", 2, "--head", 1, "--json")
    assert json.loads(one.out)["links"] == {"file": str(tmp_path / "one"), "layer": 2, "head": 1}


def test_the_best_head_is_saved_in_the_run(trained: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    lines = sentences()[:20]
    (tmp_path / "a.src").write_text("".join(f"{line}, 7\n" for line in lines), encoding="utf-8")
    (tmp_path / "a.tgt").write_text("".join(f"{translated(line)}, 7\n" for line in lines), encoding="utf-8")
    result = regard("align", run, "--src", tmp_path / "a.src", "--tgt", tmp_path / "a.tgt", "--save", "--json")
    measured = json.loads(result.out)
    assert measured[0]["words"] == len(lines)  # commas; the numbers are at the end
    assert measured[0]["share"] == max(item["share"] for item in measured)
    saved = json.loads((run / "alignment.json").read_text())
    assert saved == {name: measured[0][name] for name in ("layer", "head", "shift")}
    assert fails("align", run, "--save").code == "no-data"
    files = ("--src", tmp_path / "a.src", "--tgt", tmp_path / "a.tgt", "--from", "en", "--to", "de")
    assert fails("align", "translator", "--save", *files).code == "unwritable"  # the run comes with regard
    assert regard("align", run, "--src", tmp_path / "a.src", "--tgt", tmp_path / "a.tgt", "--save").lines


def test_errors(trained: Path, tmp_path: Path) -> None:
    assert fails("align", trained, "--layer", 7).code == "invalid-option"
    assert fails("align", trained, "--head", 3).code == "invalid-option"
    assert fails("align", trained, "--by", "letters").code == "invalid-option"
    assert fails("align", tmp_path / "nothing").code == "not-a-run"
