"""Every number can be learnt, and what has none asks for nothing."""

import numpy as np
import pytest
import torch
from tests.tasks.make import make_task

from regard.data.inputs import Inputs
from regard.tasks.base import Example
from regard.tasks.classification import Regression
from regard.text.bert import SPECIALS, BertTokenizer

TASK = make_task(Regression, BertTokenizer([*SPECIALS, "a"]), settings={"data.max_length": 8})


@pytest.mark.parametrize("label", [-100, -100.0, -99.5, 0, 1e18])
def test_no_number_is_taken_for_a_missing_one(label: float) -> None:
    examples: list[Example] = [{"text": "a", "label": label}, {"text": "a"}]
    batch = Inputs.of([TASK.encode(example) for example in examples], False).pad(np.arange(2))
    loss = TASK.criterion(torch.zeros(2, 1), batch)
    assert int(loss.count) == 1 and float(loss.nll) == pytest.approx(float(label) ** 2, rel=1e-5)
