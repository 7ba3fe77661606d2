"""Messages in two languages: every English template in the code has a Chinese one with the same values."""

import ast
import json
import pickle
import re
from copy import deepcopy
from pathlib import Path
from string import Formatter

import pytest

import regard
from regard.export.comparing import PREDICTIONS
from regard.messages import Count, Message, chinese_templates, find_message, join_messages, localize, to_page
from regard.models.pooling import POOLERS
from regard.reading import read_toml
from regard.recipe_files import shipped_recipes
from regard.run.architecture import OUTPUT
from regard.tasks.registry import load_recipe

SOURCE = Path(regard.__file__).parent


def english_templates() -> set[str]:
    """The first argument of every `Message(...)` in the package."""
    calls = [
        node
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Message"
    ]
    literals = [call.args[0] for call in calls if isinstance(call.args[0], ast.Constant)]
    assert len(calls) - len(literals) == 3  # join_messages, find_message, and the titles in variants.toml
    return {str(literal.value) for literal in literals}


def texts_of_files() -> set[str]:
    """Texts in files, and texts that are shown with `find_message`: of settings, certificates and ends of training."""
    about = {read_toml(path)["about"] for path in shipped_recipes()}
    variants = read_toml(SOURCE / "tasks" / "variants.toml")
    about |= {row["title"] for task in ("translation", "language") for row in variants[task]} - {"Transformer"}
    pooling = {f"{name} pooling" for name in POOLERS}
    drawn = read_toml(SOURCE / "run" / "architecture.toml")
    entries = [entry for model in drawn.values() for entry in ([model] if "columns" in model else model.values())]
    columns = [column for entry in entries for column in entry["columns"]]
    parts = [
        part for column in columns for part in [*column["parts"], *column.get("extra", [])] if isinstance(part, dict)
    ]
    shown = {column[key] for column in columns for key in ("name", "source") if key in column}
    shown |= {part[key] for part in parts for key in ("name", "reads") if key in part} | {
        "padding mask",
        "bag of words",
        OUTPUT["name"],
    }
    return (
        about
        | pooling
        | shown
        | {"validation data", "built-in sentences", PREDICTIONS, "no more data", "not learning", "source", "target"}
    )


def fields(template: str) -> set[str]:
    """The names of the values, also of those in format specifications."""
    parts = [(name, spec) for _, name, spec, _ in Formatter().parse(template) if name is not None]
    return {name for name, _ in parts}.union(*(fields(spec or "") for _, spec in parts))


def test_every_message_has_a_chinese_template_and_none_is_left_over() -> None:
    assert english_templates() | texts_of_files() == set(chinese_templates())


def test_templates_use_the_same_values() -> None:
    for english, chinese in chinese_templates().items():
        assert fields(english) == fields(chinese), english
        words = "".join(text for text, *_ in Formatter().parse(english))
        is_neutral = not any(map(str.isalpha, words)) or words == " of "
        assert is_neutral or any("\u4e00" <= letter <= "\u9fff" for letter in chinese), chinese


def test_a_message_is_english_text_until_it_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = Message("next:")
    outer = Message("on {count:,} inputs that are not in the training data:", count=1200, unused=inner)
    assert json.loads(json.dumps([inner])) == ["next:"] and outer.startswith("on 1,200 inputs")
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert localize(outer) == "在 1,200 个训练数据以外的输入上：" and localize("next:") == "next:"
    monkeypatch.setenv("LC_ALL", "en_US.UTF-8")
    assert localize(outer) == outer


def test_values_of_a_message_are_translated_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "zh_TW.UTF-8")
    unknown = Message("{what} {{}}", what=Message("next:"))
    assert localize(unknown) == f"{localize(Message('next:'))} {{}}" != unknown


def test_joined_messages_are_translated_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    joined = join_messages("; ", [Message("next:"), "a {b}", Message("next:")])
    assert joined == "next:; a {b}; next:" and join_messages(", ", []) == ""
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert localize(joined) == f"{localize(Message('next:'))}；a {{b}}；{localize(Message('next:'))}"


def test_a_message_can_be_copied_and_pickled() -> None:
    message = Message("{count:,} examples in {seconds:.1f} seconds", count=1200, seconds=2)
    joined = join_messages("; ", [message, "a {b}"])
    for same in (deepcopy(joined), pickle.loads(pickle.dumps(joined))):
        assert same == joined and same.template == joined.template and same.values == joined.values


def test_counts_have_a_plural_in_english_and_none_in_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = (
        Message("{layers:layer} of {heads:head}, width {width}", layers=Count(n), heads=Count(3 - n), width=8)
        for n in (1, 2)
    )
    assert (one, two) == ("1 layer of 2 heads, width 8", "2 layers of 1 head, width 8")
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert localize(two) == "2 层，每层 1 个头，宽度 8"


def test_a_page_gets_both_languages_of_a_message() -> None:
    assert to_page(join_messages(", ", ["a", Message("next:")])) == {"en": "a, next:", "zh": "a，接下来可以试试："}
    assert to_page("next:") == "next:"


def test_only_texts_of_the_catalogue_become_messages() -> None:
    assert isinstance(find_message("next:"), Message)
    for text in ("mine; {b}", "{count:,} examples", ""):  # the last but one has values, which a file cannot give
        assert not isinstance(find_message(text), Message) and find_message(text) == text


def test_summaries_of_all_models_are_translated() -> None:
    """In the Chinese summary of a bundled recipe's model every English word is a name or the value of a setting."""
    names = {"Transformer", "BERT", "LSTM", "GRU", "RNN", "Kneser", "Ney", "Mask", "predict", "CTC"}
    for path in shipped_recipes():
        model = load_recipe(path).model
        summary = to_page(model.summary)
        assert isinstance(summary, dict), path.stem
        values = {str(value) for _, value in model if isinstance(value, str)} | {name for name, _ in model}
        words = set(re.findall(r"[A-Za-z_]+", summary["zh"])) - names
        assert {word for word in words if word not in values and word.lower() not in values} <= {"None"}, summary
