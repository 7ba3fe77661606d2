"""Size and pretraining: a larger model helps a task with few labels, if it is pretrained.

A large model trained on sixteen labelled sentences alone has too many parameters for them. Pretrained, it has learnt
from unlabelled text which words behave alike, and the labels only name the classes. Devlin et al. (2018, table 6) found
that larger models are better even on the smallest tasks, "provided that the model has been sufficiently pre-trained".

Four tiny BERTs are pretrained for the same number of steps on a small language, then fine-tuned on the parts of speech
of sixteen sentences. The same four are fine-tuned without pretraining.
"""

from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.small_world import build_bert, finetune, make_world, pretrain, random_rows, tagging_accuracy

PRETRAINED, SCRATCH = "pretrained", "from scratch"
SIZES = {"1 x 16": (1, 16), "1 x 32": (1, 32), "2 x 32": (2, 32), "2 x 64": (2, 64)}
LABELLED = 16


def measure(seed: int, effort: Effort, record: Record) -> None:
    world, test = make_world(seed), make_world(seed, 100, purpose="test")
    labelled = random_rows(world, LABELLED, seed)
    for name in effort.pick(tuple(SIZES), ("1 x 16", "2 x 64")):
        layers, width = SIZES[name]
        for series in (PRETRAINED, SCRATCH):
            model = build_bert(seed, layers, width)
            if series == PRETRAINED:
                pretrain(model, world, steps=effort.pick(400, 60), seed=seed, rate=0.3)
            tuned = finetune(model.bert, labelled, steps=effort.pick(80, 20), seed=seed, rate=3e-3)
            record("accuracy", series, name, tagging_accuracy(tuned, test))


def judge(results: Results) -> Verdict:
    small, large = (results.values("accuracy", PRETRAINED, name) for name in ("1 x 16", "2 x 64"))
    return Verdict(decide(above(large, small), above(small, large)), {"labelled": LABELLED})
