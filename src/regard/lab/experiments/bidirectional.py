"""Bidirectional or left to right: a word's part may depend on the words after it.

The same tiny Transformer is pretrained twice: as BERT, with masked words and attention to all words, and left to right,
with a causal mask and the prediction of every next word (Devlin et al. 2018, table 5). In the small language of the
lab "cold" is a noun in "the cold watch the ..." and an adjective in "the cold watch holds the ...": only the words to
the right tell. The state of a word in a left-to-right model cannot know them.
"""

import torch

from regard.lab import small_world
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.small_world import World, make_world
from regard.models.bert import Bert

FULL, CAUSAL = "bidirectional", "left to right"
AMBIGUOUS = "adjective or noun"


def probe_some(bert: Bert, train: World, test: World, only: bool) -> float:
    """Accuracy of parts of speech from the last layer; `only`: of the words that can be adjective or noun."""
    parts = []
    for world in (train, test):
        states, tags = small_world.layer_states(bert, world)[-1], small_world.word_tags(world)
        chosen = small_world.ambiguous(world) if only else torch.ones(len(tags), dtype=torch.bool)
        parts.append((states[chosen], tags[chosen]))
    return small_world.linear_probe(parts[0], parts[1])


def measure(seed: int, effort: Effort, record: Record) -> None:
    world, test = make_world(seed), make_world(seed, 100, purpose="test")
    labelled = small_world.random_rows(world, 100, seed)
    for name in (FULL, CAUSAL):
        model = small_world.build_bert(seed, causal=name == CAUSAL)
        small_world.pretrain(model, world, steps=effort.pick(400, 100), seed=seed, rate=0.3)
        record("accuracy", name, "all words", probe_some(model.bert, labelled, test, only=False))
        record("accuracy", name, AMBIGUOUS, probe_some(model.bert, labelled, test, only=True))
        tuned = small_world.finetune(model.bert, labelled, steps=effort.pick(80, 15), seed=seed)
        record("accuracy", name, "all words, fine-tuned", small_world.tagging_accuracy(tuned, test))


def judge(results: Results) -> Verdict:
    full, causal = (results.values("accuracy", name, AMBIGUOUS) for name in (FULL, CAUSAL))
    return Verdict(decide(above(full, causal, by=0.05), above(causal, full)))
