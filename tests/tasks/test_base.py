"""What every task does: parse inputs and write them as lines."""

import pytest
from tests.tasks.make import make_task

from regard.errors import UserError
from regard.tasks.choice import Choice
from regard.tasks.classification import Classification
from regard.tasks.tagging import Tagging
from regard.tasks.translation import Translation


def test_an_input_is_parsed_without_its_target() -> None:
    task = make_task(Classification, None, ("good", "bad"))
    assert task.parse({"text": "a film", "label": "good", "id": 3}) == {"text": "a film", "id": 3}
    assert make_task(Tagging, None, ("O",)).parse({"words": ["a"], "tags": ["O"]}) == {"words": ["a"]}
    assert make_task(Choice, None).parse({"text": "a", "choices": ["b", "c"], "label": 1}) == {
        "text": "a", "choices": ["b", "c"],
    }  # fmt: skip


def test_a_missing_key_is_named() -> None:
    task = make_task(Classification, None, ("good", "bad"))
    for value in ({"pair": "b"}, {"text": None}):
        with pytest.raises(UserError) as error:
            task.parse(value, "line 7")
        assert (error.value.code, error.value.where) == ("missing-key", "line 7")


def test_an_example_as_a_line_has_no_target_and_no_number() -> None:
    task = make_task(Classification, None, ("good", "bad"))
    assert task.to_line({"text": "a film", "label": "good", "id": 3}) == "a film"
    assert task.to_line({"text": "a", "pair": "ü", "label": "good"}) == '{"text": "a", "pair": "ü"}'


def test_an_unknown_option_is_refused() -> None:
    task = make_task(Classification, None, ("good", "bad"))
    with pytest.raises(UserError) as error:
        task.configure(length_candidates=3)
    assert (error.value.code, error.value.where) == ("unsupported-option", "length_candidates")
    assert make_task(Translation, None, None).configure(beam=3).decoding.beam == 3
