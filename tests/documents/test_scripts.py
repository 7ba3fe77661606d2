"""Scripts: which texts a model cannot read."""

import pytest

from regard.documents.scripts import count_scripts, is_unknown

KNOWN = ("en", "de", "zh-hant")


@pytest.mark.parametrize("text", ["Привет, как дела?", "مرحبا بك", "שלום עולם", "Γειά σου Κόσμε", "สวัสดี", "안녕하세요"])
def test_texts_in_other_scripts(text: str) -> None:
    assert is_unknown(text, KNOWN)


@pytest.mark.parametrize(
    "text",
    [
        "Hello",
        "",
        "25 %",
        "我去了 Starbucks",
        "The word Москва is Russian.",
        "α and β are angles",
        "５００ ＡＢＣ",
        "naïve café ß",
        "𝐱 = 𝟏",
        "ªº µm",
    ],
)
def test_texts_that_a_model_may_read(text: str) -> None:
    assert not is_unknown(text, KNOWN)


def test_scripts_of_the_languages() -> None:
    assert not is_unknown("Привет", ("ru", "en")) and is_unknown("Привет", ("el", "en"))
    assert not is_unknown("Привет", ("xx", "en"))  # nobody knows how xx is written
    assert not is_unknown("こんにちは世界", ("ja",)) and is_unknown("こんにちは世界", ("zh",))
    assert count_scripts("aб你ab 1") == {"LATIN": 3, "CYRILLIC": 1, "CJK": 1}
