"""The shares of masking: BERT replaces 80 % of the chosen words by [MASK], 10 % by a random word, and keeps 10 %.

[MASK] never occurs after pretraining. If all chosen words become [MASK], a model may compute useful states at [MASK]
only; if all become random words, every word is suspect. The mixture is meant to avoid both (Devlin et al. 2018, section
3.1). Their table 8 says: for fine-tuning the shares hardly matter, since it adapts the model; with frozen states they
matter a little more, and random words alone are the worst.
"""

from regard.lab import small_world
from regard.lab.experiment import Effort, Record, Results, Verdict, decide, equivalent, paired
from regard.lab.small_world import BERT_SHARES, Shares, make_world

SHARES: dict[str, Shares] = {"100/0/0": (1, 0, 0), "80/10/10": BERT_SHARES, "0/100/0": (0, 1, 0)}
USES = FROZEN, FINETUNED = "frozen", "fine-tuned"


def measure(seed: int, effort: Effort, record: Record) -> None:
    world, test = make_world(seed), make_world(seed, 100, purpose="test")
    labelled = small_world.random_rows(world, 100, seed)
    for name, shares in SHARES.items():
        model = small_world.build_bert(seed)
        small_world.pretrain(model, world, steps=effort.pick(400, 50), seed=seed, shares=shares)
        record("accuracy", FROZEN, name, small_world.probe_layers(model.bert, labelled, test)[-1])
        tuned = small_world.finetune(model.bert, labelled, steps=effort.pick(80, 5), seed=seed)
        record("accuracy", FINETUNED, name, small_world.tagging_accuracy(tuned, test))


def judge(results: Results) -> Verdict:
    mixed, mask, random = (results.values("accuracy", FROZEN, name) for name in ("80/10/10", "100/0/0", "0/100/0"))
    tuned, other = (results.values("accuracy", FINETUNED, name) for name in ("80/10/10", "100/0/0"))
    return Verdict(
        decide(paired(mixed, mask), paired(mask, mixed)),
        findings={
            "fine-tuned": decide(equivalent(tuned, other), paired(tuned, other, 0.02) or paired(other, tuned, 0.02)),
            "random": decide(paired(mixed, random), paired(random, mixed)),
        },
    )
