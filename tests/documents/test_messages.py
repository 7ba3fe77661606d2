"""Messages of programs (.po): headers, plural forms and layout, read back by polib."""

import polib  # type: ignore[import-not-found, import-untyped, unused-ignore]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.documents.translators import Translate, anything, backwards, identity

from regard.documents.document import open_file
from regard.documents.segment import Segment, SegmentTranslation
from regard.errors import UserError

HEADER = """# A file
msgid ""
msgstr ""
"Project-Id-Version: x 1\\n"
"Language: \\n"
"Content-Type: text/plain; charset=UTF-8\\n"
"Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\\n"

"""
PLURAL = 'msgid "%d file"\nmsgid_plural "%d files"\nmsgstr[0] ""\nmsgstr[1] ""\n'
ODD = """#, fuzzy
msgctxt "menu"
msgid "Open it"
msgstr "Öffne"

#| msgid "old"
msgid ""
"Two "
"parts"
msgstr ""
""

msgid "Next one"
msgstr ""

#~ msgid "gone"
#~ msgstr "weg"
"""


def translated(content: str, target: str = "", translate: Translate = backwards) -> str:
    document = open_file("a.po", content.encode(), language="en", target=target, placeholders=("⦅0⦆", "⦅1⦆"))
    return document.render([translate(item) for item in document.segments]).decode()


@pytest.mark.parametrize(
    ("target", "rule", "forms"),
    [
        ("de", "nplurals=2; plural=(n != 1);", ["FILE %d", "FILES %d"]),
        ("zh", "nplurals=1; plural=0;", ["FILES %d"]),
        ("pl", None, ["FILE %d", "FILES %d", "FILES %d"]),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_header_and_plural_forms_of_the_target(target: str, rule: str | None, forms: list[str], end: str) -> None:
    content = (HEADER + PLURAL + "\n" + ODD).replace("\n", end)
    result = translated(content, target)
    file = polib.pofile(result)
    assert file.metadata["Language"] == target and file.metadata["Project-Id-Version"] == "x 1"
    assert rule is None or file.metadata["Plural-Forms"] == rule
    assert list(file[0].msgstr_plural.values()) == forms
    assert [entry.msgstr for entry in file[1:4]] == ["Öffne", "PARTS TWO", "ONE NEXT"]
    assert file[1].flags == ["fuzzy"] and file.obsolete_entries()[0].msgstr == "weg"
    assert result.replace(end, "").isprintable()


def test_a_tab_stays() -> None:
    content = 'msgid "Name\\tAge now."\nmsgstr ""\n'
    assert translated(content, translate=identity).endswith('msgstr "Name\\tAge now."\n')
    assert translated(content).count("\\t") == 2


def test_what_a_header_says_is_kept() -> None:
    header = HEADER.replace("Language: ", "Language: de_AT").replace("INTEGER; plural=EXPRESSION", "1; plural=0")
    assert translated(header + ODD, "de", identity).startswith(header)
    assert polib.pofile(translated(header + PLURAL, "de"))[0].msgstr_plural == {0: "FILES %d"}
    started = PLURAL.replace('msgstr[0] ""', 'msgstr[0] "%d Datei"')
    assert polib.pofile(translated(HEADER + started, "zh"))[0].msgstr_plural == {0: "%d Datei", 1: "FILES %d"}
    assert polib.pofile(translated(HEADER + PLURAL.rstrip(), "pl"))[0].msgstr_plural[2] == "FILES %d"
    assert "INTEGER" in translated(HEADER + PLURAL, "xx") and "Language: xx" in translated(HEADER, "xx")


def test_a_file_for_another_language_is_refused() -> None:
    with pytest.raises(UserError) as error:
        translated(HEADER.replace("Language: ", "Language: fr") + ODD, "de")
    assert (error.value.code, error.value.where) == ("conflicting-languages", "Language")


def test_two_messages_after_each_other_the_first_with_an_empty_second_line() -> None:
    content = 'msgid "one two"\nmsgstr ""\n""\n""\nmsgid "three four"\nmsgstr ""\n\nmsgid "five"\nmsgstr ""\n'
    expected = (
        'msgid "one two"\nmsgstr "TWO ONE"\nmsgid "three four"\nmsgstr "FOUR THREE"\n\nmsgid "five"\nmsgstr "FIVE"\n'
    )
    assert translated(content) == expected


@pytest.mark.parametrize(("written", "expected"), [("⦅0⦆-Datei", "%d Datei"), ("⦅0⦆ -Datei", "%d  Datei")])
def test_a_count_is_no_part_of_a_word(written: str, expected: str) -> None:
    def translate(segment: Segment) -> SegmentTranslation:
        return SegmentTranslation(written)

    assert (
        polib.pofile(translated('msgid "%d file"\nmsgstr ""\n', "de", translate))[0].msgstr.split() == expected.split()
    )
    name = translated('msgid "{name} file"\nmsgstr ""\n', "de", translate)
    assert "{name}-Datei" in name or "{name} -Datei" in name


@settings(max_examples=40, derandomize=True, deadline=None)
@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\x85\u2028\u2029\x0b\x0c\x1c\x1d\x1e\r")), max_size=5
    ),
    st.integers(0, 99),
)
def test_any_messages(texts: list[str], seed: int) -> None:
    file = polib.POFile()
    for number, text in enumerate(texts):
        plural = {"msgid_plural": text + "s", "msgstr_plural": {0: "", 1: ""}} if number % 2 else {}
        file.append(polib.POEntry(msgid=f"{number} {text}", **plural))
    content = HEADER + str(file).partition("\n\n")[2]
    after = polib.pofile(translated(content, "zh", anything(seed)))
    assert [entry.msgid for entry in after] == [entry.msgid for entry in polib.pofile(content)]
    assert all(len(entry.msgstr_plural) in (0, 1) for entry in after)


@pytest.mark.parametrize(
    "before", ["", 'msgctxt "menu"\n', 'msgid_plural "files"\n', 'msgid "a"\nmsgstr "b"\nmsgctxt "menu"\n']
)
def test_a_translation_without_its_source_is_refused(before: str) -> None:
    with pytest.raises(UserError) as caught:
        translated(f'{before}msgstr "Ein"\n', "de", identity)
    assert (caught.value.code, caught.value.where) == ("bad-line", f"line {before.count(chr(10)) + 1}")


def test_a_plural_without_translations_stays_as_it_is() -> None:
    content = 'msgid ""\nmsgstr "Plural-Forms: nplurals=2; plural=(n != 1);\\n"\n\nmsgid "file"\nmsgid_plural "files"\n'
    assert translated(content, "de", identity) == content
