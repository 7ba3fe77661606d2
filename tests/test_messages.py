"""Messages in two languages: every English template in the code has a Chinese one with the same values."""

import ast
import json
import pickle
from copy import deepcopy
from pathlib import Path
from string import Formatter

import pytest

import regard
from regard.messages import Message, chinese_templates, join_messages, localize

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
    assert len(calls) - len(literals) == 1  # join_messages
    return {str(literal.value) for literal in literals}


def fields(template: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


def test_every_message_has_a_chinese_template_and_none_is_left_over() -> None:
    assert english_templates() == set(chinese_templates())


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
