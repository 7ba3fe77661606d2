"""Each cleaning filter on hand-written cases, and properties of all of them."""

import random
from collections.abc import Mapping, Sequence

import pytest

from regard.data import cleaning
from regard.data.cleaning import CLEAN_REASONS, CleanSettings, clean_reasons
from regard.data.encoders import REASONS, Filters, PairJudge

LANGUAGES = ("en", "de")


@pytest.mark.parametrize(
    ("src", "tgt", "reason"),
    [
        ("Good morning.", "Guten Morgen.", None),
        ("Доброе утро.", "Guten Morgen.", "script"),
        ("The brand Яндекс is Russian.", "Die Marke Яндекс ist russisch.", None),
        ("x" * 61, "Guten Morgen.", "long_word"),
        ("<b>Save</b>", "Speichern", "markup"),
        ("<b>Save</b>", '<B class="x">Speichern</B>', None),
        ("Tom &amp; Jerry", "Tom und Jerry", "markup"),
        ("Delete {name}?", "{nom} löschen?", "placeholders"),
        ("Delete {name} from %s?", "%s: {name} löschen?", None),
        ("See https://example.org/en-us/a.", "Siehe https://www.example.org/de-de/a.", None),
        ("See https://example.org/a.", "Siehe https://example.com/a.", "urls"),
        ("Write to a@b.org.", "Schreiben Sie uns.", "urls"),
        ("In 1994 it was 3,277 euros.", "1994 waren es 3.277 Euro.", None),
        ("In 1994.", "Im Jahr 1949.", "numbers"),
        ("It has two wheels.", "Es hat 2 Räder.", None),
        ("At 11.30 on 2019/11/13.", "Am 13.11.2019 um 11h30.", None),
    ],
)
def test_filters_judge_texts(src: str, tgt: str, reason: str | None) -> None:
    assert cleaning.check_pair({"src": src, "tgt": tgt}, CleanSettings(), LANGUAGES) == reason


@pytest.mark.parametrize(
    ("src", "tgt", "reason"),
    [
        ("DIST1 is the current primary of AG.", "DIST1 是 AG 当前的主要副本。", None),
        ("See BufferWithTolerance (geometry Data Type)", "请参阅 BufferWithTolerance（geometry 数据类型）", None),
        ("Press ENTER.", "按 Enter。", None),
        ("Upgrade Power Pivot for SharePoint", "升级 PowerPivot for SharePoint", None),
        ("Working with KPIs", "处理 KPI", None),
        ("Press ENTER.", "Press ENTER.", "script"),
        ("Close the old window.", "Schließen 是 alte Fenster.", "script"),
    ],
)
def test_names_in_another_script_are_kept_if_both_sides_have_them(src: str, tgt: str, reason: str | None) -> None:
    assert cleaning.check_pair({"src": src, "tgt": tgt}, CleanSettings(), ("en", "zh")) == reason


@pytest.mark.parametrize("name", ["markup", "placeholders", "urls", "numbers"])
def test_a_filter_can_be_switched_off(name: str) -> None:
    texts = {
        "markup": ("<b>Save</b>", "Speichern"),
        "placeholders": ("Delete {name}?", "Löschen?"),
        "urls": ("See https://a.org.", "Siehe https://b.org."),
        "numbers": ("In 1994.", "Im Jahr 1949."),
    }
    pair = dict(zip(("src", "tgt"), texts[name], strict=True))
    assert cleaning.check_pair(pair, CleanSettings(), LANGUAGES) == name
    assert cleaning.check_pair(pair, CleanSettings(**{name: False}), LANGUAGES) is None


def test_only_pairs_with_a_low_score_are_left_out() -> None:
    settings = CleanSettings(min_score=0.5)
    scores = [0.4, 0.5, 0.6, None, float("nan")]
    pairs = [{"src": "a", "tgt": "b"} | ({} if score is None else {"score": score}) for score in scores]
    reasons = [cleaning.check_pair(pair, settings, LANGUAGES) for pair in pairs]
    assert reasons == ["score", None, None, None, "score"]


def test_languages_are_identified_in_long_texts_of_known_languages() -> None:
    asked: list[str] = []

    def identify(texts: Sequence[str]) -> list[Mapping[str, float]]:
        asked.extend(texts)
        return [{"en": 0.05 if "maison" in text else 0.9, "de": 0.9, "other": 0.0} for text in texts]

    long, foreign = (
        "The house is on the hill above the old town. ",
        "La maison est sur la colline, au-dessus de la ville.",
    )
    pairs = [{"src": text, "tgt": long} for text in (long, foreign, "maison")]
    assert clean_reasons(pairs, CleanSettings(), LANGUAGES, identify) == [None, "language", None]
    assert "maison" not in asked
    named = [{"src": foreign, "tgt": long, "from": "fr", "to": "de-AT"}]
    assert clean_reasons(named, CleanSettings(), LANGUAGES, identify) == [None]
    assert clean_reasons(pairs, CleanSettings(language=0.0), LANGUAGES, identify) == [None] * 3


def test_only_texts_in_doubt_are_identified() -> None:
    asked: list[str] = []

    def identify(texts: Sequence[str]) -> list[Mapping[str, float]]:
        asked.extend(texts)
        return [{"en": 0.9, "de": 0.9} for _ in texts]

    certain = "This is what we have to do before they are here, and it is not all that easy."
    mixed = "This is what we have to do, und das ist nicht alles, was wir noch machen müssen."
    pairs = [{"src": certain, "tgt": mixed}]
    assert clean_reasons(pairs, CleanSettings(), LANGUAGES, identify) == [None]
    assert asked == [mixed]
    clean_reasons(pairs, CleanSettings(language=0.9), LANGUAGES, identify)
    assert asked[1:] == [certain, mixed], "a high minimum needs probabilities"


def test_a_pair_of_equal_texts_passes_every_filter_that_compares() -> None:
    rng = random.Random(1)
    parts = [
        "Save",
        "{name}",
        "<b>",
        "</b>",
        "&amp;",
        "1994",
        "3,277",
        "%s",
        "https://a.org/x",
        "a@b.org",
        "%",
        "{",
        "@",
    ]
    for _ in range(300):
        text = " ".join(rng.choices(parts, k=rng.randint(1, 8)))
        other = " ".join(rng.sample(text.split(), len(text.split())))
        for differ in (cleaning.markup_differs, cleaning.placeholders_differ, cleaning.urls_differ):
            assert not differ(text, text)
            assert differ(text, "Save") == differ("Save", text)
        assert not cleaning.markup_differs(text, other)
        assert not cleaning.numbers_differ(text, text)


def test_every_reason_is_in_the_account() -> None:
    assert set(CLEAN_REASONS) <= set(REASONS)


def test_counts_add_up_to_the_pairs() -> None:
    pairs = [{"src": "In 1994.", "tgt": "Im Jahr 1949."}, {"src": "a", "tgt": "b"}, {"src": "", "tgt": "b"}]
    judged = PairJudge(Filters(drop_empty=True, max_ratio=4.0, clean=CleanSettings(), languages=LANGUAGES))(pairs)
    assert list(judged.reasons) == ["numbers", None, "empty"]
    assert judged.counts == {"numbers": 1, "empty": 1}
