"""The texts of the page: the same keys in both languages, and every key that the program names."""

import json
import re

import pytest

from regard.run import page_data
from regard.serve import page
from regard.viz.document import asset

LITERAL = re.compile(r"""\bsay\((?:[^()"]*\? )?"(\w+)"(?: : "(\w+)")?""")
PREFIX = re.compile(r"""\bsay\(`(\w+_)\$""")


def words() -> dict[str, dict[str, str]]:
    shared, texts = json.loads(asset("words.json")), json.loads(asset("page_words.json"))
    return {language: shared[language] | texts[language] for language in texts}


def test_both_languages_have_the_same_keys() -> None:
    english, chinese = (json.loads(asset("page_words.json"))[language] for language in ("en", "zh"))
    assert list(english) == list(chinese)
    for key, text in english.items():
        assert set(re.findall(r"\{\w+\}", text)) == set(re.findall(r"\{\w+\}", chinese[key])), key
        assert text == text.strip() and not re.search(r"[\u4e00-\u9fff]", text)


@pytest.mark.parametrize("program", [page.PROGRAM, page_data.PROGRAM], ids=["served", "one file"])
def test_every_text_exists(program: tuple[str, ...]) -> None:
    known, source = words()["en"], "\n".join(asset(name) for name in program)
    used = {key for pair in LITERAL.findall(source) for key in pair if key}
    assert len(used) > 40 and used <= known.keys()
    for prefix in PREFIX.findall(source):
        assert any(key.startswith(prefix) for key in known), prefix


def test_every_text_is_used() -> None:
    files = dict.fromkeys([*page.PROGRAM, *page_data.PROGRAM])
    source = "\n".join(asset(name) for name in files)
    prefixes = (*re.findall(r"""[`"](\w+_)[$"`]""", source), "name_")
    unused = [
        key
        for key in json.loads(asset("page_words.json"))["en"]
        if f'"{key}"' not in source and not key.startswith(prefixes) and not re.search(r"_(text|language)$", key)
    ]
    assert not unused
