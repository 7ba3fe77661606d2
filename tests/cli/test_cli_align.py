"""regard align: measures of every head, and links as alignment tools write them."""

import json
from pathlib import Path

from tests.cli.command import refused, regard, sentences, translated


def test_every_head_is_measured(trained: Path) -> None:
    done = regard("align", trained)
    assert done.status == 0, done.err
    assert "coverage error" in done.out and "AER" not in done.out
    assert sum("mean" in line for line in done.lines) >= 3
    values = json.loads(regard("align", trained, "--json", "--sentences", 5).out)
    assert values["sentences"] == 5
    assert {(each["layer"], each["head"]) for each in values["planes"]} == {
        *((layer, head) for layer in (1, 2) for head in (0, 1, 2)),
        (0, 0),
    }
    assert all("aer" not in each and 0 <= each["relative_entropy"] <= 1 for each in values["planes"])
    assert values["best"]["coverage_error"] == min(each["coverage_error"] for each in values["planes"])


def test_links_of_a_run_that_translates_word_by_word(trained: Path, tmp_path: Path) -> None:
    lines = [*sentences()[:30], ""]
    (tmp_path / "a.src").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (tmp_path / "a.tgt").write_text("".join(f"{translated(line)}\n" for line in lines), encoding="utf-8")
    files = ("--src", tmp_path / "a.src", "--tgt", tmp_path / "a.tgt")
    done = regard("align", trained, *files, "--output", tmp_path / "links")
    assert done.status == 0, done.err
    written = (tmp_path / "links").read_text(encoding="utf-8").split("\n")
    assert len(written) == len(lines) + 1 and written[-2] == ""
    links = [tuple(map(int, link.split("-"))) for line in written for link in line.split()]
    assert all(0 <= source < 3 and 0 <= target < 3 for source, target in links)
    assert len(links) > 60, "nearly every word is linked"
    one = regard("align", trained, *files, "--output", tmp_path / "one", "--layer", 2, "--head", 1, "--json")
    assert json.loads(one.out)["links"] == {"file": str(tmp_path / "one"), "layer": 2, "head": 1}


def test_what_cannot_be_is_refused(trained: Path, tmp_path: Path) -> None:
    assert "layers 1 to 2 of 2 heads" in refused("align", trained, "--layer", 7)
    assert "words, pieces" in refused("align", trained, "--by", "letters")
    assert "no such folder" in refused("align", tmp_path / "nothing")
