"""The direction of a translation on the command line: the language of a text that is not named."""

import pytest

from regard.bundled import identification
from regard.bundled.identification import Detected
from regard.cli.documents import detect_source
from regard.cli.options import DataOptions, data_of_recipe
from regard.errors import UserError
from regard.tasks.languages import Languages

DIRECTIONS = (("en", "de"), ("de", "en"), ("en", "zh"), ("zh", "en"))


@pytest.fixture
def languages(monkeypatch: pytest.MonkeyPatch) -> Languages:
    """Four directions; the first word of a text is its language, and the second one the confidence."""

    def identify(texts: list[str], top: int) -> list[list[Detected]]:
        words = texts[0].split()
        return [[Detected(words[0], float(words[1]))] if words else []]

    monkeypatch.setattr(identification, "identify", identify)
    return Languages(DIRECTIONS)


def test_a_text_without_a_direct_translation_goes_through_a_third_language(
    languages: Languages, capsys: pytest.CaptureFixture[str]
) -> None:
    assert detect_source(languages, "de", "zh 0.95") == "zh"
    assert " zh" in (note := capsys.readouterr().err) and " en " in note


@pytest.mark.parametrize(
    ("to", "text"),
    [("de", "en 1.0"), ("de", "de 1.0"), ("de", "zh 0.5"), ("de", "fr 1.0"), ("de", ""), ("en", "zh 1.0")],
)
def test_other_texts_are_translated_as_they_are(
    languages: Languages, capsys: pytest.CaptureFixture[str], to: str, text: str
) -> None:
    assert detect_source(languages, to, text) is None
    assert capsys.readouterr().err == ""


def test_a_language_that_does_not_matter_is_not_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(identification, "identify")
    assert detect_source(Languages(), None, "zh 1.0") is None
    assert detect_source(Languages(DIRECTIONS), "en", "zh 1.0") is None


def test_languages_of_other_files() -> None:
    assert DataOptions(source="en", target="de").languages(True) == {"src_lang": "en", "tgt_lang": "de"}
    assert DataOptions().languages(False) == {}
    for options, has_files in ((DataOptions(source="en"), True), (DataOptions(source="en", target="de"), False)):
        with pytest.raises(UserError) as error:
            options.languages(has_files)
        assert error.value.where == "to"


def test_a_missing_file_of_a_recipe_says_how_to_give_another() -> None:
    missing = UserError("x.tsv: no such file", "", code="missing-file", where="x.tsv")
    with pytest.raises(UserError) as error, data_of_recipe(None):
        raise missing
    assert "--file" in error.value.remedy and (error.value.code, error.value.where) == ("missing-file", "x.tsv")
    with pytest.raises(UserError) as error, data_of_recipe([]):
        raise missing
    assert error.value is missing
