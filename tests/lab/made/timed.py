"""As if it measured time."""

import re

from tests.lab.made import doubles

from regard.lab.experiment import Results, Verdict

measure = doubles.measure
TEXTS = doubles.TEXTS.replace("foundations", "attention").replace("seconds = 1", "seconds = 1\ntimed = true")
TEXTS = re.sub(r'verdict = "Once.*"', 'verdict = "Nothing is known."', TEXTS)
TEXTS = re.sub(r'verdict = "一倍.*"', 'verdict = "尚不清楚。"', TEXTS)


def judge(results: Results) -> Verdict:
    return Verdict("not decided")
