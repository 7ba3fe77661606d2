"""Classes: the probability of every one, the most probable first."""

import pytest
import torch
from tests.tasks.make import changed, make_task

from regard.errors import UserError
from regard.tasks.classification import SHOWN_CLASSES, Classification
from regard.text.bert import SPECIALS, BertTokenizer
from regard.viz.panel import Screen
from regard.viz.terminal import draw

LABELS = tuple("abcdefgh")
TASK = make_task(Classification, BertTokenizer([*SPECIALS, "a"]), LABELS, settings={"data.max_length": 8})
LOGITS = torch.tensor([0.0, 3.0, 1.0, 5.0, 4.0, -1.0, 2.0, 5.0])
ORDER = list("dhebgcaf")  # d and h are equal: the first one of the labels


def predict(task: Classification) -> dict[str, object]:
    return task.decode({"text": "a"}, task.encode({"text": "a"}), [LOGITS])


def test_all_classes_have_their_probabilities() -> None:
    prediction = predict(TASK)
    expected = torch.softmax(LOGITS, 0).tolist()
    probabilities = prediction["probabilities"]
    assert isinstance(probabilities, dict) and list(probabilities) == ORDER
    assert [probabilities[label] for label in LABELS] == pytest.approx(expected)
    assert prediction["label"] == "d" and prediction["probability"] == probabilities["d"]


@pytest.mark.parametrize("top", [1, 3, 8, 20])
def test_top_limits_the_classes(top: int) -> None:
    prediction, whole = predict(TASK.configure(top=top)), predict(TASK)
    assert isinstance(whole["probabilities"], dict)
    assert prediction["probabilities"] == {label: whole["probabilities"][label] for label in ORDER[:top]}
    assert (prediction["label"], prediction["probability"]) == (whole["label"], whole["probability"])


@pytest.mark.parametrize("top", [0, -1, "2"])
def test_top_is_a_number_from_1(top: object) -> None:
    with pytest.raises(UserError) as error:
        TASK.configure(top=top)
    assert (error.value.code, error.value.where) == ("invalid-option", "top")


def test_a_terminal_shows_the_most_probable_classes() -> None:
    screen = Screen(colour=False, columns=80)

    def shown(task: Classification) -> list[str]:
        lines = draw(task.describe({"text": "a"}, predict(task)), screen).split("\n")
        return [line.replace("→", " ").split()[0] for line in lines]

    assert shown(TASK) == ORDER[:SHOWN_CLASSES] and shown(TASK.configure(top=7)) == ORDER[:7]


def test_samples_are_of_different_classes() -> None:
    examples = [{"text": "a", "label": label} for label in ("x", "x", "x", "y", "y", "z")]
    found = {count: changed(TASK, training__samples=count).sample_indices(examples) for count in (1, 2, 3, 4, 6)}
    assert found == {1: [0], 2: [0, 3], 3: [0, 3, 5], 4: [0, 1, 3, 5], 6: [0, 1, 2, 3, 4, 5]}
