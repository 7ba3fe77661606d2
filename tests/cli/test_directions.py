"""The direction of a translation on the command line: the language of a text that is not named."""

import pytest

from regard.cli.documents import detect_source
from regard.cli.options import DataOptions, data_of_recipe
from regard.errors import UserError
from regard.run import model
from regard.tasks.identification import Detected
from regard.tasks.languages import Languages

DIRECTIONS = (("en", "de"), ("de", "en"), ("en", "zh"), ("zh", "en"))


@pytest.fixture
def languages(monkeypatch: pytest.MonkeyPatch) -> Languages:
    """Four directions; the first word of a text is its language."""
    monkeypatch.setattr(
        model, "identify_languages", lambda texts: [[Detected(text.split()[0], 0.9)] if text else [] for text in texts]
    )
    return Languages(DIRECTIONS)


@pytest.mark.parametrize(
    ("to", "text", "source"),
    [("de", "en", "en"), ("de", "de", "de"), ("en", "zh", "zh"), ("de", "fr", None), ("de", "", None)],
)
def test_the_language_of_a_text_is_detected(
    languages: Languages, capsys: pytest.CaptureFixture[str], to: str, text: str, source: str | None
) -> None:
    assert detect_source(languages, to, text) == source
    assert capsys.readouterr().err == ""


def test_a_text_without_a_direct_translation_goes_through_a_pivot_language(
    languages: Languages, capsys: pytest.CaptureFixture[str]
) -> None:
    assert detect_source(languages, "de", "zh") == "zh"
    assert " zh" in (note := capsys.readouterr().err) and " en " in note


def test_an_unsure_language_is_said_with_the_candidates(
    languages: Languages, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only if there is a choice: to de, this run translates from en and zh."""
    found = [Detected("fr", 0.45), Detected("en", 0.4), Detected("zh", 0.1), Detected("de", 0.05)]
    monkeypatch.setattr(model, "identify_languages", lambda texts: [found])
    assert detect_source(languages, "de", "a text") == "en"
    assert "(fr 45 %, en 40 %, zh 10 %)" in capsys.readouterr().err
    assert detect_source(Languages((("en", "de"),)), "de", "a text") == "en"
    assert capsys.readouterr().err == ""


def test_nothing_is_detected_if_a_run_names_no_languages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "identify_languages", None)
    assert detect_source(Languages(), None, "zh") is None


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
