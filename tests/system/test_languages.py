"""Several languages in one model: tags, directions, splits, scores, distillation and the command line."""

import asyncio
import json
import random
import shutil
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.command import regard

from regard.data.encoders import KEEP_ALL, Filters, PairEncoder, add_typing_noise, insert_placeholders
from regard.data.examples import Example
from regard.data.fields import PAIRS
from regard.data.hold_out import read_split
from regard.errors import UserError
from regard.recipe import Recipe, to_toml
from regard.run.exporting import export_run
from regard.run.inspecting import inspect_attention, inspect_beam
from regard.run.model import Translator
from regard.run.run import Run
from regard.tasks.languages import Languages
from regard.tasks.registry import build_recipe
from regard.text.factory import tokenizer_from_json, train_tokenizer
from regard.text.settings import TextSettings
from regard.text.symbols import PLACEHOLDERS, language_tag, tagged_language

WORDS = {
    "en": ["one", "two", "three", "four", "five", "six"],
    "de": ["eins", "zwei", "drei", "vier", "fünf", "sechs"],
    "fr": ["un", "deux", "trois", "quatre", "cinq", "six"],
}
DIRECTIONS = (("en", "de"), ("de", "en"), ("en", "fr"))


def sentence(numbers: list[int], language: str) -> str:
    return " ".join(WORDS[language][number] for number in numbers)


def write_recipe(folder: Path, **changes: object) -> Path:
    draw = random.Random(1)
    numbers = [[draw.randrange(6) for _ in range(draw.randint(1, 5))] for _ in range(400)]
    for language in ("de", "fr"):
        rows = [f"{sentence(row, 'en')}\t{sentence(row, language)}\n" for row in numbers]
        (folder / f"{language}.tsv").write_text("".join(rows), encoding="utf-8")
    values = {
        "name": "languages",
        "data": {
            "root": str(folder),
            "train": [
                {"file": "de.tsv", "src_lang": "en", "tgt_lang": "de", "directions": "both"},
                {"file": "fr.tsv", "src_lang": "en", "tgt_lang": "fr"},
            ],
            "hold_out": 0.1, "hold_out_test": 0.1, "max_length": 16, "workers": 1,
        },
        "text": {"kind": "bpe", "vocab_size": 500},
        "model": {
            "kind": "transformer", "size": "tiny", "d_model": 32, "num_heads": 2, "d_ff": 64, "encoder_layers": 1,
            "decoder_layers": 1, "norm": "pre", "dropout": 0.0,
        },
        "training": {
            "max_steps": 400, "batch_tokens": 384, "schedule": "inverse_sqrt", "learning_rate": 6e-3, "warmup": 40,
            "validate_every": 200, "label_smoothing": 0.0,
        },
        "decoding": {"search": "greedy", "extra_length": 4},
        "runtime": {"device": "cpu", "threads": 1},
    }  # fmt: skip
    (folder / "recipe.toml").write_text(to_toml(values | changes), encoding="utf-8")
    return folder / "recipe.toml"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("languages")
    result = regard("train", write_recipe(folder), "--folder", folder / "run")
    assert result.status == 0, result.err
    return folder / "run"


@pytest.fixture(scope="module")
def translator(run: Path) -> Translator:
    return Translator.load(run, device="cpu")


def recipe_of(folder: Path) -> Recipe:
    return build_recipe(tomllib.loads(write_recipe(folder).read_text(encoding="utf-8")), "recipe")


# ---- data ------------------------------------------------------------------------------------------------------------


def test_a_sentence_is_in_one_split_in_every_direction(tmp_path: Path) -> None:
    data = recipe_of(tmp_path).data
    splits = {split: list(read_split(data, PAIRS, split)) for split in ("train", "valid", "test")}
    english = {
        split: {example["tgt" if example.get("reversed") else "src"] for example in examples}
        for split, examples in splits.items()
    }
    assert not english["train"] & english["valid"] and not english["train"] & english["test"]
    assert not english["valid"] & english["test"]
    for split in ("valid", "test"):
        groups: dict[tuple[str, str], list[str]] = {pair: [] for pair in DIRECTIONS}
        for example in splits[split]:
            groups[example["from"], example["to"]].append(example["tgt" if example.get("reversed") else "src"])
        assert groups["en", "de"] == groups["de", "en"] and set(groups["en", "fr"]) == set(groups["en", "de"])
        assert len(set(groups["en", "de"])) == len(groups["en", "de"]) > 5


def test_tags_are_tokens_that_no_text_can_spell() -> None:
    symbols = [language_tag("de"), language_tag("zh-Hant"), *PLACEHOLDERS]
    tokenizer = train_tokenizer(["one two three"] * 3, TextSettings(vocab_size=300), symbols)
    tags = tokenizer.language_tags
    assert list(tags) == ["de", "zh-Hant"] and tokenizer.placeholders == PLACEHOLDERS
    assert tagged_language(tokenizer.tokens([tags["de"]])[0]) == "de" and tokenizer.decode([tags["de"]]) == ""
    text = f"{language_tag('de')} one ⦅3⦆, ⦅9⦆ 二"
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text and not set(ids) & set(tags.values())
    assert sum(token in ids for token in map(tokenizer.token_ids.__getitem__, PLACEHOLDERS)) == 1
    assert tokenizer_from_json(tokenizer.to_json()).encode(text) == ids
    encoder = PairEncoder(tokenizer, tokenizer, KEEP_ALL)
    rows, lengths = encoder([{"src": "one", "tgt": "two", "to": "de"}]).columns["src"]
    assert rows[0] == tags["de"] and lengths[0] == len(tokenizer.encode("one")) + 2
    with pytest.raises(UserError) as error:
        encoder([{"src": "one", "tgt": "two", "to": "it"}])
    assert error.value.code == "unknown-language"


def test_placeholders_replace_the_same_words_on_both_sides() -> None:
    pairs = [(f"Delete row {n} of Orders.", f"Löschen Sie Zeile {n} von Orders.") for n in range(300)]
    changed = [pair for pair in pairs if insert_placeholders(*pair, 0.5) != pair]
    assert 100 < len(changed) < 200
    assert all(insert_placeholders(*pair, 0.0) == pair for pair in pairs)
    for pair in changed:
        src, tgt = insert_placeholders(*pair, 0.5)
        used = [symbol for symbol in PLACEHOLDERS if symbol in src]
        assert used and used == [symbol for symbol in PLACEHOLDERS if symbol in tgt] == list(PLACEHOLDERS[: len(used)])
        words = [word for word in (*pair[0].rstrip(".").split(),) if word not in src.rstrip(".").split()]
        for symbol, word in zip(used, words, strict=True):
            src, tgt = src.replace(symbol, word), tgt.replace(symbol, word)
        assert (src, tgt) == pair


def test_variations_change_letters_and_final_punctuation() -> None:
    pairs = [(f"Is this House {n} €?", f"¿Es esta la Casa {n} €?") for n in range(400)]
    pairs += [(f"This is House {n}.", f"这是房子{n}号。") for n in range(400)]
    assert all(add_typing_noise(*pair, 0.0) == pair for pair in pairs)
    varied = {pair: add_typing_noise(*pair, 0.5) for pair in pairs}
    changed = {pair: new for pair, new in varied.items() if pair != new}
    assert 300 < len(changed) < 500
    seen: Counter[str] = Counter()
    for (src, tgt), (new_src, new_tgt) in changed.items():
        assert new_src.casefold() in src.casefold() and new_tgt.casefold() in tgt.casefold()
        if new_src.isupper():
            seen["upper"] += 1
            assert (new_src, new_tgt) == (src.upper(), tgt.upper())
        else:
            seen["lower" if new_src.islower() else "bare"] += 1
            assert new_src[-1] not in ".?" and new_tgt[-1] not in "?。" and not new_tgt.startswith("¿")
            assert new_tgt in tgt  # the target keeps its letters
    assert seen["lower"] > seen["bare"] > 50 and seen["upper"] > 50


def test_repeated_pairs_are_copies_that_vary_on_their_own(tmp_path: Path) -> None:
    data = recipe_of(tmp_path).data
    german, french = data.train
    changed = data.model_copy(update={"train": [german.model_copy(update={"repeat": 3}), french]})
    for split in ("valid", "test"):  # the held-out pairs stay the same, without copies
        assert list(read_split(changed, PAIRS, split)) == list(read_split(data, PAIRS, split))
    once, repeated = (Counter(map(pair_of, read_split(part, PAIRS, "train"))) for part in (data, changed))
    assert repeated == {pair: count * (1 if pair[2] == "fr" else 3) for pair, count in once.items()}

    pairs = [{"src": f"House {n} is Red.", "tgt": f"Haus {n} ist rot."} for n in range(100)]
    tokenizer = train_tokenizer([pair["src"] for pair in pairs], TextSettings(kind="char"))
    encoder = PairEncoder(tokenizer, tokenizer, Filters(drop_duplicates=True), typing_noise=0.3)
    encoded = [encoder([{**pair, "copy": copy} for pair in pairs]) for copy in range(3)]
    keys = {int(key) for part in encoded if part.keys is not None for key in part.keys}
    assert len(keys) == 300  # copies are not duplicates
    sources = [part.columns["src"] for part in encoded]
    rows = [{tuple(row) for row in np.split(tokens, np.cumsum(lengths)[:-1])} for tokens, lengths in sources]
    assert 20 < len(rows[0] & rows[1]) < 90 and 20 < len(rows[1] & rows[2]) < 90


def pair_of(example: Example) -> tuple[str, str, str]:
    return example["src"], example["tgt"], example["to"]


def test_only_training_pairs_are_repeated(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path)
    test = {"file": "de.tsv", "src_lang": "en", "tgt_lang": "de", "repeat": 2}
    values = tomllib.loads(recipe.read_text(encoding="utf-8"))
    values["data"] |= {"hold_out_test": 0.0, "test": [test]}
    with pytest.raises(UserError) as error:
        build_recipe(values, "recipe")
    assert error.value.where == "data.test.0.repeat"


# ---- use -------------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:the language of")  # "four" is French too
def test_one_model_translates_in_every_direction(translator: Translator) -> None:
    assert translator.task.languages.directions == DIRECTIONS
    rows = [[0, 1, 2], [5], [3, 3, 4, 0]]
    for source, target in DIRECTIONS:
        texts = [sentence(row, source) for row in rows]
        expected = [sentence(row, target) for row in rows]
        assert translator.translate(texts, target=target) == expected
        examples = [{"src": text, "to": target} for text in texts]
        assert [item["translation"] for item in translator.predict(examples)] == expected
    for options in ({}, {"to": "it"}):
        with pytest.raises(UserError) as error:
            translator.translate("one", **options)  # type: ignore[call-overload]
        assert error.value.code == "unknown-language"


@pytest.mark.filterwarnings("ignore:the language of")  # "four" is French too
def test_a_direction_without_data_goes_through_a_third_language(translator: Translator) -> None:
    texts = [sentence(row, "de") for row in ([0, 1, 2], [3, 3])]
    expected = translator.translate(translator.translate(texts, target="en"), target="fr")
    assert expected == [sentence(row, "fr") for row in ([0, 1, 2], [3, 3])]
    assert translator.translate(texts, source="de", target="fr") == expected
    mixed = [{"src": "one two", "to": "fr"}, {"src": texts[0], "from": "de", "to": "fr"}]
    assert [item["translation"] for item in translator.predict(mixed)] == ["un deux", expected[0]]


def test_the_second_step_of_a_translation_through_a_third_language_is_inspected(translator: Translator) -> None:
    row = [0, 1, 2]
    example = {"src": sentence(row, "de"), "from": "de", "to": "fr"}
    second = {"src": sentence(row, "en"), "to": "fr"}
    expected = translator.predict(example)
    inspection = inspect_attention(translator, example)
    assert inspection.explanation.example["src"] == second["src"] and inspection.explanation.prediction == expected
    direct = inspect_attention(translator, second)
    assert [item.columns for item in inspection.maps] == [item.columns for item in direct.maps]
    assert translator.explain(example).maps[-1].columns == direct.maps[-1].columns
    search = inspect_beam(translator, example, search="beam", beam=2)
    assert search.tree == inspect_beam(translator, second, search="beam", beam=2).tree
    assert search.prediction["translation"] == expected["translation"]


def test_a_server_predicts_through_a_third_language(run: Path, translator: Translator) -> None:
    pytest.importorskip("fastapi")
    from tests.serve.make import make_service, stop

    service = make_service({"languages": run})
    example = {"src": sentence([3, 3, 4, 0], "de"), "from": "de", "to": "fr"}
    (prediction,) = asyncio.run(service.predict("languages", [example]))
    stop(service)
    assert prediction["translation"] == translator.predict(example)["translation"] == sentence([3, 3, 4, 0], "fr")


def test_the_third_language() -> None:
    pairs = [("en", "de"), ("de", "en"), ("en", "fr"), ("de", "it"), ("it", "fr")]
    languages, others = Languages(tuple(pairs)), Languages(tuple(pairs[2:]))
    assert languages.pivot("de", "fr") == "en" and languages.pivot("de", "en") is None
    assert others.pivot("de", "fr") == "it" and languages.pivot("fr", "de") is None
    assert languages.pivot(None, "fr") is None and languages.pivot("de", "de") is None
    assert set(languages.pairs) == {*pairs, ("de", "fr"), ("en", "it")}


def test_attention_is_that_of_the_translation_with_its_tag(translator: Translator) -> None:
    maps = translator.explain("one two", target="fr").maps
    assert {language_tag("fr"), "one"} <= {token for item in maps for token in item.columns}


def test_the_command_line_chooses_a_direction(run: Path) -> None:
    assert regard("translate", run, "--to", "fr", "one two").lines == ["un deux"]
    assert regard("translate", run, "--from", "de", "zwei").lines == ["two"]
    assert regard("translate", run, "--to", "de", stdin="one\n\ntwo two\n").lines == ["eins", "", "zwei zwei"]
    assert regard("translate", run, "--from", "de", "--to", "fr", "zwei").lines == ["deux"]
    for options in ((), ("--from", "en"), ("--to", "it"), ("--from", "fr", "--to", "de")):
        result = regard("translate", run, *options, "one")
        assert result.status == 1 and result.lines == []


def test_scores_are_given_by_direction(run: Path) -> None:
    result = regard("evaluate", run, "--on", "test")
    assert result.status == 0 and all(f"{source} → {target}" in result.out for source, target in DIRECTIONS)


def test_a_student_learns_from_every_direction_with_the_tokenizer_of_its_teacher(run: Path, tmp_path: Path) -> None:
    result = regard("distill", run, "--folder", tmp_path / "distilled", "--json")
    values = json.loads(result.out)
    assert [Path(item["src"]).name for item in values["files"]] == [f"train.{a}-{b}.src" for a, b in DIRECTIONS]
    student = regard(
        "train", run.parent / "recipe.toml", values["setting"], "data.valid={builtin='numbers', split='valid'}",
        "data.hold_out=0", "data.hold_out_test=0", f"text.tokenizer_from={run}", "training.max_steps=2",
        "--folder", tmp_path / "student",
    )  # fmt: skip
    assert student.status == 1, "the validation data has no languages"
    student = regard(
        "train", run.parent / "recipe.toml", values["setting"], "data.hold_out=0", "data.hold_out_test=0",
        values["setting"].replace("data.train", "data.valid"),
        f"text.tokenizer_from={shutil.copytree(run, tmp_path / 'teacher')}", "training.max_steps=2",
        "--folder", tmp_path / "student",
    )  # fmt: skip
    assert student.status == 0, student.err
    shutil.rmtree(tmp_path / "teacher")
    resumed = regard("train", tmp_path / "student", "training.max_steps=4")
    assert resumed.status == 0, "a student is resumed without its teacher"
    copied, own = (folder / "tokenizer.json" for folder in (tmp_path / "student", run))
    assert copied.read_text(encoding="utf-8") == own.read_text(encoding="utf-8")
    again = regard("distill", tmp_path / "student", "--folder", tmp_path / "again", "--from", "de")
    assert again.status == 0, again.err
    assert (tmp_path / "again/train.de-en.src").read_bytes() == (tmp_path / "distilled/train.de-en.src").read_bytes()
    assert regard("distill", run, "--folder", tmp_path / "one", "--to", "fr").status == 0
    assert sorted(path.name for path in (tmp_path / "one").glob("*.src")) == ["train.en-fr.src"]


@pytest.mark.filterwarnings("ignore")  # deprecations inside transformers
@pytest.mark.parametrize(("program", "quantization"), [("ctranslate2", "float32"), ("huggingface", None)])
def test_exports_translate_in_every_direction(
    run: Path, program: str, quantization: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip({"huggingface": "transformers"}.get(program, program))
    exported = export_run(Run.open(run), tmp_path / "out", program, quantization=quantization)
    counts = exported.certificate.directions
    assert counts.keys() == {"en-de", "de-en", "en-fr"} and min(counts.values()) > 0
    assert exported.certificate.identical == {"greedy": 1.0}
    source = (tmp_path / "out" / "README.md").read_text(encoding="utf-8").split("```")[1].removeprefix("python\n")
    monkeypatch.chdir(tmp_path / "out")
    values: dict[str, Any] = {}
    exec(source, values)
    for origin, target in DIRECTIONS:
        text, expected = sentence([1, 2, 3], origin), sentence([1, 2, 3], target)
        if program == "ctranslate2":
            assert values["translate"](text, target) == expected
        else:
            ids = values["tokenizer"]([language_tag(target) + text], return_tensors="pt")
            written = values["tokenizer"].batch_decode(values["model"].generate(**ids), skip_special_tokens=True)
            assert written == [expected]
