"""Every check of the data fails on data with the defect it looks for; good recipes pass (test_examine)."""

from pathlib import Path

import pytest
from tests.doctor.recipes import GERMAN, SIZES, read_examples, run_checks, write_examples, write_recipe

from regard.doctor import sample
from regard.doctor.check import Check
from regard.run.run import Run
from regard.tasks.registry import load_recipe


def check(recipe: Path, name: str, *overrides: str, quick: bool = False) -> Check:
    """The result of one check."""
    return run_checks(recipe, *overrides, quick=quick, until=name)[name]


# ---- files ----------------------------------------------------------------------------------------------------------


def test_files_of_different_length_are_reported(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    for name, lines in (("a", 10), ("b", 11)):
        (tmp_path / f"train.{name}").write_text("word\n" * lines, encoding="utf-8")
    result = run_checks(recipe, 'data.train={src="train.a", tgt="train.b"}')
    assert result["files"].status == "fail" and "10" in result["files"].finding and "11" in result["files"].finding
    assert result["remaining"].status == "skip"


@pytest.mark.parametrize(("task", "name"), [("translation", "test.jsonl"), ("language", "test.txt")])
def test_a_file_that_is_not_utf8_is_reported(task: str, name: str, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, task)
    (tmp_path / name).write_bytes("fünf\n".encode("latin1"))
    assert check(recipe, "files").status == "fail"


@pytest.mark.parametrize("task", ["translation", "language", "pretraining", "classification"])
def test_a_missing_file_is_reported(task: str, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, task)
    for path in tmp_path.glob("valid.*"):
        path.unlink()
    assert check(recipe, "files").status == "fail"


def test_a_missing_label_is_reported(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "classification")
    write_examples(tmp_path / "train.jsonl", [{"text": "no label"}])
    assert check(recipe, "files").status == "fail"


@pytest.mark.parametrize("task", ["translation", "parsing", "language", "pretraining", "tagging"])
def test_without_test_data_there_is_a_warning(task: str, tmp_path: Path) -> None:
    result = check(write_recipe(tmp_path, task), "files", "data.test=[]")
    assert result.status == "warn" and "data.test" in result.remedy


def test_one_document_is_too_few_for_next_sentence_prediction(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "pretraining")
    text = (tmp_path / "train.txt").read_text(encoding="utf-8")
    (tmp_path / "train.txt").write_text(text.replace("\n\n", "\n"), encoding="utf-8")
    result = run_checks(recipe)
    assert result["preparation"].status == "fail" and result["remaining"].status == "skip"
    assert "data.next_sentence = false" in result["preparation"].remedy
    assert "preparation" not in run_checks(recipe, "data.next_sentence=false")


# ---- examples -------------------------------------------------------------------------------------------------------


def test_the_first_example_of_each_split_is_shown(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    first, *others = read_examples(tmp_path / "train.jsonl")
    write_examples(tmp_path / "train.jsonl", [{"src": first["tgt"], "tgt": f"{first['src']} {'x' * 100}"}, *others])
    lines = check(recipe, "examples").finding.splitlines()[1:]
    assert [line.partition(":")[0] for line in lines] == list(SIZES)
    assert lines[0].startswith(f"train: {first['tgt']} -> {first['src']} x") and "x" * 61 not in lines[0]


# ---- overlap --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("copies", "status"), [(0, "pass"), (1, "warn"), (10, "fail")])
def test_test_examples_in_train_are_counted(copies: int, status: str, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    train, test = (read_examples(tmp_path / f"{split}.jsonl") for split in ("train", "test"))
    write_examples(tmp_path / "train.jsonl", train + test[:copies])
    result = check(recipe, "overlap")
    assert result.status == status
    assert f"{copies} of 20 distinct examples of test" in result.finding
    assert ("number 201" in result.finding) == (copies > 0)


@pytest.mark.parametrize("task", ["masked", "parsing", "language", "pretraining", "regression", "answering", "choice"])
def test_a_copy_of_train_as_test_is_found(task: str, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, task)
    (train,) = tmp_path.glob("train.*")
    train.with_stem("test").write_bytes(train.read_bytes())
    assert check(recipe, "overlap").status == "fail"


def test_examples_that_are_kept_apart_do_not_overlap(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "classification")
    write_examples(tmp_path / "test.jsonl", read_examples(tmp_path / "train.jsonl")[:8])
    result = check(recipe, "overlap")
    assert result.status == "fail" and "data.exclude_overlap=true" in result.remedy
    assert check(recipe, "overlap", "data.exclude_overlap=true").status == "pass"
    assert "also in valid or test" in check(recipe, "filters", "data.exclude_overlap=true").finding


# ---- labels ---------------------------------------------------------------------------------------------------------


def relabel(folder: Path, labels: dict[str, list[str]]) -> None:
    """Write these labels to the first examples of each split, and the last label to the others."""
    for split, names in labels.items():
        path = folder / f"{split}.jsonl"
        examples = read_examples(path)
        names = names + names[-1:] * len(examples)
        write_examples(path, [example | {"label": name} for example, name in zip(examples, names, strict=False)])


def test_rare_classes_are_a_warning(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "classification")
    relabel(tmp_path, {"train": ["c"] * 3 + ["a", "b"] * 60, "valid": ["a"], "test": ["a"]})
    result = check(recipe, "labels")
    assert result.status == "warn" and result.remedy.endswith(": c")


def test_classes_that_are_not_in_train_fail(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "classification")
    relabel(tmp_path, {"train": ["c"] * 60 + ["a"], "valid": ["b"], "test": ["a"]})
    result = check(recipe, "labels")
    assert result.status == "fail" and "valid: b" in result.finding


def test_one_class_fails(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "classification")
    relabel(tmp_path, {"train": ["a"], "valid": ["a"], "test": ["a"]})
    result = run_checks(recipe)
    assert result["labels"].status == result["preparation"].status == "fail"


def test_a_majority_class_is_a_warning(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "classification")
    relabel(tmp_path, {"train": ["b"] * 10 + ["a"], "valid": ["a"], "test": ["a"]})
    result = check(recipe, "plausibility")
    assert result.status == "warn" and "95%" in result.finding and "training.monitor" in result.remedy


def test_a_majority_of_tags_is_normal(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "tagging")
    for split in SIZES:
        examples = read_examples(tmp_path / f"{split}.jsonl")
        tags = [["O"] * 9 if n % 10 else ["B-X", *["O"] * 8] for n in range(len(examples))]
        tagged = [example | {"tags": row} for example, row in zip(examples, tags, strict=True)]
        write_examples(tmp_path / f"{split}.jsonl", tagged)
    assert check(recipe, "labels").status == "pass"


def test_always_the_same_choice_fails(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "choice")
    examples = [example | {"label": 0} for example in read_examples(tmp_path / "train.jsonl")]
    write_examples(tmp_path / "train.jsonl", examples)
    assert check(recipe, "labels").status == "fail"


def test_equal_numbers_fail(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "regression")
    write_examples(tmp_path / "train.jsonl", [e | {"label": 2.0} for e in read_examples(tmp_path / "train.jsonl")])
    assert check(recipe, "labels").status == "fail"


def test_questions_without_answers_only_in_valid_fail(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "answering")
    write_examples(tmp_path / "valid.jsonl", [e | {"answers": []} for e in read_examples(tmp_path / "valid.jsonl")])
    assert check(recipe, "labels").status == "fail"


# ---- filters --------------------------------------------------------------------------------------------------------


def test_filters_that_drop_half_of_the_data_fail(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    examples = [
        {"src": example["src"] + " one two three" * 5, "tgt": GERMAN[0] if number % 3 else example["tgt"]}
        for number, example in enumerate(read_examples(tmp_path / "train.jsonl"))
    ]
    write_examples(tmp_path / "train.jsonl", examples)
    result = check(recipe, "filters", "data.max_ratio=3.0", "data.max_length=200")
    assert result.status == "fail" and "data.max_ratio" in result.remedy


def test_filters_that_drop_everything_end_the_examination(tmp_path: Path) -> None:
    result = run_checks(write_recipe(tmp_path), "data.max_length=2")
    assert result["preparation"].status == "fail" and "first-loss" not in result


def test_duplicates_are_counted_beyond_the_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = write_recipe(tmp_path)
    write_examples(tmp_path / "train.jsonl", read_examples(tmp_path / "train.jsonl") * 3)
    monkeypatch.setattr(sample, "SAMPLE", 30)
    overrides = "training.max_steps=100000", "training.max_epochs=2.0"
    result = run_checks(recipe, *overrides, quick=False, until="schedule")
    assert result["filters"].status == "fail" and "66.7%" in result["filters"].finding
    assert "data.drop_duplicates" in result["filters"].remedy and "600" in result["files"].finding
    assert int(result["schedule"].finding.split()[0]) > 15, "the schedule is that of all data, not of the sample"


def test_duplicates_of_labelled_examples_are_counted(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "classification")
    write_examples(tmp_path / "train.jsonl", read_examples(tmp_path / "train.jsonl") * 3)
    assert check(recipe, "filters").status == "fail"


# ---- tokenizer and lengths ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["translation", "language", "classification", "pretraining"])
def test_validation_text_in_another_script_fails(task: str, tmp_path: Path) -> None:
    recipe, text = write_recipe(tmp_path, task), "один два три четыре"
    if task in ("language", "pretraining"):
        (tmp_path / "valid.txt").write_text(f"{text}\n\n" * 20, encoding="utf-8")
    else:
        key = "src" if task == "translation" else "text"
        write_examples(tmp_path / "valid.jsonl", [e | {key: text} for e in read_examples(tmp_path / "valid.jsonl")])
    result = check(recipe, "tokenizer")
    assert result.status == "fail" and "100.0%" in result.finding and "text.vocab_size" in result.remedy


def test_unknown_words_of_a_language_model_are_spelled_in_bytes(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "language")
    (tmp_path / "valid.txt").write_text("quite another language\n" * 20, encoding="utf-8")
    assert check(recipe, "tokenizer", "data.min_word_count=2").status == "fail"


def test_many_tokens_per_word_are_a_warning(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    for split in ("train", "valid"):
        path = tmp_path / f"{split}.jsonl"
        write_examples(path, [e | {"src": e["src"].replace(" ", "")} for e in read_examples(path)])
    result = check(recipe, "tokenizer", "text.vocab_size=265", "data.max_length=200")
    assert result.status == "warn" and "text.vocab_size" in result.remedy


def test_long_test_sentences_are_a_warning(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    write_examples(
        tmp_path / "test.jsonl", [e | {"src": e["src"] * 20} for e in read_examples(tmp_path / "test.jsonl")]
    )
    result = check(recipe, "lengths")
    assert result.status == "warn" and "test 100.0%" in result.finding and "data.max_length" in result.remedy


def test_truncated_texts_are_a_warning(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "classification")
    examples = [e | {"text": f"{e['text']} " * 4} for e in read_examples(tmp_path / "valid.jsonl")]
    write_examples(tmp_path / "valid.jsonl", examples)
    result = check(recipe, "lengths")
    assert result.status == "warn" and "valid 100.0%" in result.finding and "the longest has 38" in result.finding


def test_texts_that_are_read_in_windows_pass(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "answering")
    examples = [e | {"context": f"{e['context']} " * 4} for e in read_examples(tmp_path / "valid.jsonl")]
    write_examples(tmp_path / "valid.jsonl", examples)
    result = check(recipe, "lengths")
    assert result.status == "pass" and "valid 100.0%" in result.finding


# ---- stored data ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["translation", "language", "classification"])
def test_a_changed_bit_in_the_stored_data_is_found(task: str, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, task)
    run = Run.create(tmp_path / "run", load_recipe(recipe))
    run.prepare(lambda _: None)
    run.open_stores(lambda _: None)
    assert check(recipe, "stored-data").status == "pass"
    path = max(
        (run.folder / "store" / "valid").iterdir(), key=lambda path: path.stat().st_size * (path.suffix != ".json")
    )
    content = bytearray(path.read_bytes())
    content[5] ^= 1
    path.write_bytes(content)
    result = check(recipe, "stored-data")
    assert result.status == "fail" and path.name in result.finding and f"remove {path.parent}" in result.remedy
    assert path.read_bytes() == content, "the doctor changes nothing"
    assert check(recipe, "stored-data", quick=True).status == "skip"


def test_without_stored_data_there_is_no_check_of_it(tmp_path: Path) -> None:
    assert "stored-data" not in run_checks(write_recipe(tmp_path))


def test_records_that_are_left_out_are_listed(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, "classification")
    file = tmp_path / "train.jsonl"
    file.write_text(file.read_text(encoding="utf-8") + "\n\n", encoding="utf-8")
    assert "left out: 2 blank" in check(recipe, "files").finding
