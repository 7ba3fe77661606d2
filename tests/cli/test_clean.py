"""regard clean: the account and samples first, then the clean pairs; training keeps the same ones."""

import json
from pathlib import Path

import pytest
from tests.cli.command import fails, regard
from tests.tiny import write_recipe

from regard.data.examples import Example
from regard.run.cleaning import Cleaned, clean, file_corpus, recipe_corpus
from regard.run.run import Run
from regard.tasks.defaults import choose_defaults
from regard.tasks.registry import load_recipe

GOOD = [
    (f"the {word} house stands here", f"das {word} Haus steht hier") for word in ("old", "new", "red", "big", "far")
]
BAD = [
    ("In 1994 it began.", "Es begann 1949."),
    ("<b>Save</b> this", "Speichern"),
    ("Delete {name}?", "Löschen?"),
    ("Доброе утро", "Guten Morgen"),
    GOOD[0],
    (f"{GOOD[1][0]}!", f"{GOOD[1][1]}!"),
]
REASONS = ["numbers", "markup", "placeholders", "script", "duplicate", "near_duplicate"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    for side, ending in enumerate(("en", "de")):
        (tmp_path / f"a.{ending}").write_text("".join(f"{row[side]}\n" for row in GOOD + BAD), encoding="utf-8")
    return tmp_path


def test_the_account_and_samples_come_before_anything_is_written(corpus: Path) -> None:
    before = sorted(corpus.iterdir())
    result = regard("clean", f"{corpus / 'a.en'},{corpus / 'a.de'}")
    assert result.status == 0, result.err
    rows = [line.split() for line in result.lines]
    assert ["read", "11", "100.00%"] in rows and ["kept", "5", "45.45%"] in rows
    assert "  In 1994 it began.\n  Es begann 1949.\n" in result.out
    assert sorted(corpus.iterdir()) == before


def test_kept_and_removed_pairs_are_written(corpus: Path) -> None:
    files = ["--output", corpus / "clean.tsv", "--removed", corpus / "removed.jsonl"]
    result = regard("clean", f"{corpus / 'a.en'},{corpus / 'a.de'}", *files, "--json")
    assert result.status == 0, result.err
    counts = json.loads(result.out)
    assert counts["read"] == 11 == counts["kept"] + sum(counts["removed"].values())
    assert counts["removed"] == dict.fromkeys(sorted(REASONS, key=[*counts["removed"]].index), 1)
    lines = (corpus / "clean.tsv").read_text(encoding="utf-8").splitlines()
    assert lines == ["src\ttgt", *("\t".join(row) for row in GOOD)]
    removed = [json.loads(line) for line in (corpus / "removed.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(row["src"], row["tgt"]) for row in removed] == BAD
    assert [row["reason"] for row in removed] == REASONS
    again = regard("clean", corpus / "clean.tsv", "--from", "en", "--to", "de", "--json")
    assert json.loads(again.out)["kept"] == 5


def test_two_text_files_and_settings(corpus: Path) -> None:
    names = f"{corpus / 'k.en'},{corpus / 'k.de'}"
    result = regard("clean", f"{corpus / 'a.en'},{corpus / 'a.de'}", "data.clean.numbers=false", "-o", names)
    assert result.status == 0, result.err
    assert (corpus / "k.en").read_text(encoding="utf-8").splitlines() == [row[0] for row in [*GOOD, BAD[0]]]


@pytest.mark.parametrize(
    ("codes", "removed", "message"),
    [(("EN", "DE"), 1, ""), (("english", "de"), 0, "for english"), (("", "de"), 0, "set `--from` and `--to`")],
)
def test_language_codes(tmp_path: Path, codes: tuple[str, str], removed: int, message: str) -> None:
    (tmp_path / "a.tsv").write_text("Доброе утро, мой друг.\tGuten Morgen, mein Freund.\n", encoding="utf-8")
    result = regard("clean", tmp_path / "a.tsv", "--from", codes[0], "--to", codes[1], "--json")
    assert json.loads(result.out)["removed"] == ({"script": 1} if removed else {})
    assert message in result.err and ("not checked" in result.err) == bool(message)


def test_scores_choose_pairs(tmp_path: Path) -> None:
    rows = [("first house", "das Haus", 0.2), ("second house here", "das Haus", 0.9), ("a bad pair", "egal", 0.01)]
    path, out = tmp_path / "s.tsv", tmp_path / "out.tsv"
    path.write_text("score\tsrc\ttgt\n" + "".join(f"{score}\t{src}\t{tgt}\n" for src, tgt, score in rows))
    settings = ["data.clean.min_score=0.1", "data.clean.target_duplicates=true"]
    result = regard("clean", path, "--columns", "score=score", *settings, "--output", out)
    assert result.status == 0, result.err
    assert out.read_text().splitlines() == ["src\ttgt\tscore", "second house here\tdas Haus\t0.9"]


@pytest.mark.parametrize("score", ["", "high", "nan"])
def test_scores_are_numbers(tmp_path: Path, score: str) -> None:
    path = tmp_path / "s.tsv"
    path.write_text(f"src\ttgt\tscore\na\tb\t{score}\n")
    error = fails("clean", path, "--threshold", 0.5)
    assert error.code == "bad-record" and "s.tsv, line 2" in error.err


def test_a_table_without_scores(tmp_path: Path) -> None:
    (tmp_path / "s.tsv").write_text("src\ttgt\na\tb\n")
    error = fails("clean", tmp_path / "s.tsv", "--threshold", 0.5)
    assert error.code == "missing-field" and "the columns src, tgt" in error.err


def test_an_interruption_leaves_no_file(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = Cleaned.results

    def stop(self: Cleaned) -> object:
        for number, item in enumerate(results(self)):
            if number == 5:
                raise KeyboardInterrupt
            yield item

    monkeypatch.setattr(Cleaned, "results", stop)
    files = ["--output", corpus / "clean.tsv", "--removed", corpus / "removed.tsv"]
    before = sorted(path.name for path in corpus.iterdir())
    assert regard("clean", f"{corpus / 'a.en'},{corpus / 'a.de'}", "--samples", 0, *files).status == 130
    assert sorted(path.name for path in corpus.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["a.en,a.de", "-o", "out.xlsx"], "unsupported-file"),
        (["a.en,a.de", "-o", "a.en,x.de"], "overwrites-input"),
        (["a.en,a.de", "-o", "x,./x"], "conflicting-options"),
        (["a.en,a.de", "-o", "x.tsv", "--removed", "./x.tsv"], "conflicting-options"),
        (["a.en,a.de", "-o", "x.tsv", "--removed", "a.en"], "unsupported-file"),
        (["a.en,a.de", "training.max_steps=3"], "unused-setting"),
        (["data.clean.numbers=false"], "missing-option"),
        (["a.en,a.de", "data.clean.number=false"], "unknown-setting"),
        (["a.en,a.de", "--threshold", "0.5"], "unused-setting"),
        (["a.en,a.de", "-o", "s3://bucket/out.tsv"], "unwritable"),
    ],
)
def test_mistakes_are_explained(corpus: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: str) -> None:
    monkeypatch.chdir(corpus)
    assert fails("clean", *arguments).code == code


def test_the_data_of_a_recipe_is_not_overwritten(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, "translation")
    recipe = load_recipe(path)
    for source in (*recipe.data.train, *recipe.data.valid):
        pair = ",".join(map(str, source.files(recipe.data.folder)))
        assert fails("clean", path, "-o", pair).code == "overwrites-input"


def test_repeated_pairs_are_counted_and_written_once(corpus: Path) -> None:
    source, output = corpus / "repeated.toml", corpus / "kept.jsonl"
    files = 'src = "a.en", tgt = "a.de", src_lang = "en", tgt_lang = "de"'
    (corpus / "valid.tsv").write_text("a small dog\tein kleiner Hund\n", encoding="utf-8")
    data = '[data]\nvalid = { file = "valid.tsv" }\ntrain = '
    once, often = (f'name = "r"\n{data}[{{ {files}{more} }}]\n' for more in ("", ", repeat = 3"))
    counts, rows = [], []
    for text in (once, often):
        source.write_text(text, encoding="utf-8")
        result = regard("clean", source, f"data.root={corpus}", "-o", output, "--json")
        assert result.status == 0, result.err
        counts.append(json.loads(result.out)["kept"])
        rows.append(output.read_text(encoding="utf-8"))
    assert counts[1] == 3 * counts[0] > 0 and rows[0] == rows[1]


def test_training_keeps_the_same_pairs(tmp_path: Path) -> None:
    path = write_recipe(tmp_path, "translation")
    train = load_recipe(path).data.train[0].files(load_recipe(path).data.folder)
    for side, file in enumerate(train):
        lines = file.read_text(encoding="utf-8")
        file.write_text(lines + "".join(f"{row[side]}\n" for row in GOOD + BAD), encoding="utf-8")
    recipe = load_recipe(path, ["data.clean={}", "data.src_lang=en", "data.tgt_lang=de"])
    cleaned = clean(recipe_corpus(recipe, lambda _: None))
    run = Run.create(tmp_path / "run", choose_defaults(recipe, lambda _: None))
    run.prepare(lambda _: None)
    store = run.store("train", lambda _: None)
    account = store.account  # type: ignore[attr-defined]
    assert account.kept == cleaned.account.kept and account.read == cleaned.account.read
    assert {k: v for k, v in account.dropped.items() if v} == cleaned.account.dropped
    assert {"numbers", "markup", "placeholders", "script", "near_duplicate"} <= cleaned.account.dropped.keys()
    tokenizer = run.task.tokenizers["source"]
    kept: list[Example] = [pair for pair, reason in cleaned.results() if reason is None]
    texts = [tokenizer.decode(store.src(index)) for index in range(len(store))]  # type: ignore[attr-defined]
    assert texts == [pair["src"] for pair in kept]


def test_processes_do_not_matter(corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.config import build
    from regard.data.settings import PairDataSettings

    source = {"src": str(corpus / "a.en"), "tgt": str(corpus / "a.de")}
    values = {"train": [source], "src_lang": "en", "tgt_lang": "de", "clean": {"language": 0.0}, "workers": 2}
    data = build(PairDataSettings, values, "test")
    one = clean(file_corpus(data)).decisions
    monkeypatch.setattr("regard.processes.SINGLE_PROCESS_CHUNKS", 1)
    monkeypatch.setattr("regard.processes.CHUNK_ITEMS", 3)
    assert clean(file_corpus(data)).decisions.tolist() == one.tolist()
