"""Linear probes: what the layers of a small BERT know about a word, from the embeddings upwards.

A probe is a linear classifier of the frozen states of one layer (Alain and Bengio 2016; Tenney et al. 2019). If it can
read a property, the layer holds it in a simple form. The properties here:

    word          which word it is: known to the embeddings, and needed less and less above
    neighbour     the part of speech of the next word: local context
    part          adjective or noun, for words that can be both: syntax, needs several words to the right

The second panel uses the model with few labels: frozen states as features of a linear classifier, or fine-tuning of the
whole model (Devlin et al. 2018, table 7).
"""

import torch
from torch import Tensor

from regard.lab import small_world
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.small_world import World, make_world
from regard.lab.toys import IGNORE
from regard.models.bert import Bert

WORD, NEIGHBOUR, PART = "word", "neighbour", "part"
LAYERS = 3
USES = {"embeddings": slice(0, 1), "last layer": slice(-1, None), "all layers": slice(None)}


def properties(world: World) -> dict[str, tuple[Tensor, Tensor]]:
    """For each property the words that have it (a mask), and its label for every word."""
    words = world.tags != IGNORE
    following = torch.cat([world.tags[:, 1:], torch.full_like(world.tags[:, :1], IGNORE)], dim=1)[words]
    every = torch.ones(len(following), dtype=torch.bool)
    return {
        WORD: (every, world.ids[words]),
        NEIGHBOUR: (following != IGNORE, following),
        PART: (small_world.ambiguous(world), small_world.word_tags(world)),
    }


def probe(bert: Bert, train: World, test: World, name: str) -> list[float]:
    """Accuracy of a property from the embeddings and from each layer."""
    parts = []
    for world in (train, test):
        chosen, labels = properties(world)[name]
        parts.append([(states[chosen], labels[chosen]) for states in small_world.layer_states(bert, world)])
    return [small_world.linear_probe(*pair) for pair in zip(parts[0], parts[1], strict=True)]


def measure(seed: int, effort: Effort, record: Record) -> None:
    world, test = make_world(seed), make_world(seed, 100, purpose="test")
    model = small_world.build_bert(seed, layers=LAYERS)
    small_world.pretrain(model, world, steps=effort.pick(500, 80), seed=seed, rate=0.3)
    train = small_world.random_rows(world, 600, seed)
    for name in (WORD, NEIGHBOUR, PART):
        for layer, accuracy in enumerate(probe(model.bert, train, test, name)):
            record("layers", name, layer, accuracy)
    for layer, accuracy in enumerate(probe(small_world.build_bert(seed, layers=LAYERS).bert, train, test, PART)):
        record("layers", "untrained", layer, accuracy)
    labelled = small_world.random_rows(world, 32, seed)
    features = [small_world.layer_states(model.bert, part) for part in (labelled, test)]
    for use, chosen in USES.items():
        few, new = (torch.cat(part[chosen], dim=1) for part in features)
        probes = (few, small_world.word_tags(labelled)), (new, small_world.word_tags(test))
        record("use", "accuracy", use, small_world.linear_probe(*probes))
    tuned = small_world.finetune(model.bert, labelled, steps=effort.pick(100, 20), seed=seed, rate=3e-3)
    record("use", "accuracy", "fine-tuned", small_world.tagging_accuracy(tuned, test))


def judge(results: Results) -> Verdict:
    part, word = ([results.values("layers", name, layer) for layer in (0, 1, LAYERS)] for name in (PART, WORD))
    return Verdict(
        decide(
            above(part[2], part[1]) and above(part[1], part[0]) and above(word[0], word[2]),
            above(part[0], part[2]) or above(word[2], word[0]),
        ),
    )
