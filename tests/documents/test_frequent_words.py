"""Frequent words decide only what is certain: mixed, short and foreign texts are left to the classifier."""

import pytest

from regard.documents.frequent_words import is_surely, word_weights

TEXTS = {
    "en": "We should not forget that they have been here before, and that this was not easy for them.",
    "de": "Wir sollten nicht vergessen, dass sie schon hier waren, und dass es nicht leicht für sie war.",
    "fr": "Nous ne devons pas oublier qu'ils sont déjà venus ici, et que ce n'était pas facile pour eux.",
    "es": "No debemos olvidar que ya han estado aquí antes y que no fue nada fácil para ellos.",
    "zh": "我们不应该忘记 SQL Server 他们以前来过这里，而且这对他们来说并不容易。",
}


@pytest.mark.parametrize("language", TEXTS)
def test_a_sentence_is_surely_in_its_language_and_in_no_other(language: str) -> None:
    assert [code for code in TEXTS if is_surely(TEXTS[language], code)] == [language]
    assert is_surely(TEXTS[language].upper(), language)


@pytest.mark.parametrize("first", ["en", "de", "fr", "es"])
@pytest.mark.parametrize("second", ["en", "de", "fr", "es"])
def test_a_text_of_two_languages_is_in_doubt(first: str, second: str) -> None:
    words, others = TEXTS[first].split(), TEXTS[second].split()
    mixed = " ".join(words[: len(words) // 2] + others[len(others) // 2 :])
    assert is_surely(mixed, first) == (first == second)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("", "en"),
        ("Anna Müller, Berlin", "de"),
        ("the_name, the_server, the_database, the_table", "en"),
        ("これはペンです。東京都千代田区霞が関。", "zh"),
        ("SQL Server Management Studio 中", "zh"),
        (TEXTS["en"], "pt"),
        (TEXTS["en"], ""),
    ],
)
def test_names_identifiers_and_unknown_languages_are_in_doubt(text: str, language: str) -> None:
    assert not is_surely(text, language)


def test_a_word_of_two_languages_counts_for_none() -> None:
    english, german = word_weights("en"), word_weights("de")
    assert english["the"] == 1 and german["the"] < 0 and "in" not in english and "in" not in german
    assert not {word for word, weight in english.items() if weight > 0 and german.get(word, -1) > 0}
