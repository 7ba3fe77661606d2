"""Numbers of a sentence and its translation: which ones agree, and how they are written in other languages."""

import pytest

from regard.documents.numbers import STAND_INS, localised, mask_numbers, normal_form, numbers_agree
from regard.documents.restoring import restore


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("It has 3,277,917 inhabitants.", "Es hat 3.277.917 Einwohner."),
        ("It has 3,277,917 inhabitants.", "Il y a 3 277 917 habitants."),
        ("It has 3,277,917 inhabitants, or 3,277,918.", "Il y a 3 277 917 habitants, ou 3 277 918."),
        ("128-bit RC4 and 256-bit RC4", "RC4 128 bits et RC4 256 bits"),
        ("It costs $5,812.25.", "Es kostet 5.812,25 $."),
        ("It costs $5,812.25.", "Ça coûte 5\u202f812,25 $."),
        ("3.5 kilograms", "3,5 Kilogramm"),
        ("at 10:45", "um 10.45 Uhr"),
        ("at 5 pm", "um 17 Uhr"),
        ("下午5点", "um 17 Uhr"),
        ("at 3:30 p.m.", "um 15.30 Uhr"),
        ("um 15.30 Uhr", "at 3:30 pm"),
        ("下午3:30", "at 15:30"),
        ("5月3日", "May 3"),
        ("3 million people", "300万人"),
        ("In 2019, 25 men came.", "25 Männer kamen 2019."),
        ("version 1.2.3", "Version 1.2.3"),
        ("I have two dogs.", "Ich habe 2 Hunde."),
        ("It was in May 2020.", "那是2020年5月。"),
        ("Delete ⦅0⦆.", "⦅0⦆ löschen."),
    ],
)
def test_the_same_numbers(source: str, target: str) -> None:
    assert numbers_agree(source, target)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("It has 3,277,917 inhabitants.", "Es hat 3.27.917 Einwohner."),
        ("3704 0044", "37044"),
        ("It costs $5,812.25.", "5 $812.25"),
        ("It costs $5,812.25.", "5.812.25 Dollar"),
        ("The answer is 25.", "Die Antwort ist 22."),
        ("at 3:30 pm", "um 15.40 Uhr"),
        ("at 3:30 am", "um 15.30 Uhr"),
        ("The answer is 25.", "答案是二十二。"),
        ("version 1.2.3", "Version 1.23"),
        ("at 5 am", "um 17 Uhr"),
        ("call 1234", "1234 oder 5678 anrufen"),
        ("0044 and 0044", "0044"),
        ("The answer is 25 of ⦅0⦆.", "⦅0⦆"),
    ],
)
def test_changed_numbers(source: str, target: str) -> None:
    assert not numbers_agree(source, target)


def test_separators_follow_the_language_only_if_there_is_no_doubt() -> None:
    assert localised("3,277,917", "de") == "3.277.917"
    assert localised("5,812.25", "fr") == "5\u202f812,25"
    assert localised("5.812,25", "en") == "5,812.25"
    for number in ("3,277", "3.5", "1.2.3", "10:45", "25.159.205.65", "2020-05-03", "3704 0044"):
        assert localised(number, "de") == number
    assert localised("3,277,917", "xx") == "3,277,917"
    assert normal_form("3.27.917") == "3.27.917"


def test_masked_numbers_come_back() -> None:
    text = "Send $5,812.25 to DE89 3704 0044 0532, page ⦅0⦆, room 387."
    masked = mask_numbers(text, STAND_INS, "de")
    assert [part.output for part in masked.parts] == ["5.812,25", "DE89 3704 0044 0532", "387"]
    assert masked.rewriting.text == "Send $462 to 594, page ⦅0⦆, room 638."
    restored = restore(masked, "638: 462 $ an 594, ⦅0⦆", (), STAND_INS)
    assert restored.text == "387: 5.812,25 $ an DE89 3704 0044 0532, ⦅0⦆"
