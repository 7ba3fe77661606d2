"""How many words to mask: few masked words are few labels, so a model learns slowly at first.

BERT predicts 15 % of the words of a sentence; a left-to-right model predicts every word, and so has about seven times
as many labels in a step. But it sees only the words before. So it learns faster at first and is overtaken later (Devlin
et al. 2018, section C.1). With more words masked there are more labels, and less context for each.

The models read a small language in which some words are adjective or noun, and only the words to the right tell which.
What a model has learnt is measured by a linear classifier of its frozen hidden states: the part of speech.
"""

from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.small_world import build_bert, make_world, pretrain, probe_layers, random_rows

CAUSAL = "left to right"


def measure(seed: int, effort: Effort, record: Record) -> None:
    world, test = make_world(seed), make_world(seed, 100, purpose="test")
    labelled = random_rows(world, 100, seed)
    rates = effort.pick({"5 %": 0.05, "15 %": 0.15, "30 %": 0.3, "50 %": 0.5}, {"15 %": 0.15})
    for name, rate in {**rates, CAUSAL: 0.0}.items():
        model = build_bert(seed, causal=name == CAUSAL)
        done = 0
        for steps in effort.pick((50, 100, 200, 400), (30, 60)):
            pretrain(model, world, steps=steps - done, seed=seed + done, rate=rate)
            done = steps
            record("accuracy", name, steps, probe_layers(model.bert, labelled, test)[-1])


def judge(results: Results) -> Verdict:
    steps = results.xs("accuracy", CAUSAL)[1]
    masked, causal = (results.values("accuracy", name, steps) for name in ("15 %", CAUSAL))
    numbers = {
        "steps": float(steps),
        "masked": results.mean("accuracy", "15 %", steps),
        "causal": results.mean("accuracy", CAUSAL, steps),
    }
    return Verdict(decide(above(causal, masked), above(masked, causal)), numbers)
