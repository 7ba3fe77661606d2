"""Simple baselines for benchmarks.bare: what a model must beat to have learnt something."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from regard.metrics.parsing import bracket_scores
from regard.metrics.spans import answer_scores, entity_scores
from regard.metrics.translation import bleu, bleu_tokenizer_for
from regard.trees import Tree, leaves, parsed

Example = Mapping[str, Any]
MAX_WORDS = 50_000


def words_of(example: Example) -> list[str]:
    """The lowercased words of a text, and of its second text."""
    return f"{example['text']} {example.get('pair', '')}".lower().split()


def accuracy(predictions: Sequence[object], examples: Sequence[Example]) -> float:
    return 100.0 * sum(p == e["label"] for p, e in zip(predictions, examples, strict=True)) / len(examples)


def naive_bayes(train: Sequence[Example], test: Sequence[Example]) -> float:
    """Accuracy of multinomial naive Bayes on words, with add-one smoothing."""
    classes = Counter(example["label"] for example in train)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for example in train:
        counts[example["label"]].update(words_of(example))
    vocabulary = set().union(*counts.values())
    totals = {label: counts[label].total() + len(vocabulary) for label in classes}

    def score(words: Sequence[str], label: str) -> float:
        known = [word for word in words if word in vocabulary]
        likelihood = sum(math.log((counts[label][word] + 1) / totals[label]) for word in known)
        return math.log(classes[label] / len(train)) + likelihood

    return accuracy([max(classes, key=lambda c: score(words, c)) for words in map(words_of, test)], test)


def logistic_regression(train: Sequence[Example], test: Sequence[Example]) -> float:
    """Accuracy of logistic regression on log(1 + count) of words, scaled to unit length; AdamW, 15 epochs."""
    torch.manual_seed(1)
    frequent = Counter(word for example in train for word in set(words_of(example))).most_common(MAX_WORDS)
    index = {word: number for number, (word, _) in enumerate(frequent)}
    labels = {label: number for number, label in enumerate(sorted({example["label"] for example in train}))}

    def features(example: Example) -> tuple[list[int], list[float]]:
        counted = Counter(index[word] for word in words_of(example) if word in index)
        values = [math.log1p(count) for count in counted.values()]
        norm = math.sqrt(sum(value * value for value in values)) or 1.0
        return list(counted), [value / norm for value in values]

    weights = torch.zeros(len(index), len(labels), requires_grad=True)
    bias = torch.zeros(len(labels), requires_grad=True)
    optimizer = torch.optim.AdamW([weights, bias], lr=0.05, weight_decay=1e-3)

    def logits(batch: Sequence[tuple[list[int], list[float]]]) -> torch.Tensor:
        ids = torch.tensor([i for row, _ in batch for i in row], dtype=torch.long)
        values = torch.tensor([v for _, row in batch for v in row])
        offsets = torch.tensor(np.cumsum([0, *(len(row) for row, _ in batch[:-1])]), dtype=torch.long)
        return F.embedding_bag(ids, weights, offsets, mode="sum", per_sample_weights=values) + bias

    rows, targets = [features(e) for e in train], torch.tensor([labels[e["label"]] for e in train])
    for _ in range(15):
        for chosen in torch.randperm(len(rows)).split(256):
            optimizer.zero_grad()
            F.cross_entropy(logits([rows[i] for i in chosen.tolist()]), targets[chosen]).backward()
            optimizer.step()
    with torch.no_grad():
        best = torch.cat([logits([features(e) for e in test[i : i + 1024]]) for i in range(0, len(test), 1024)]).argmax(
            1
        )
    names = list(labels)
    return accuracy([names[number] for number in best.tolist()], test)


def majority(train: Sequence[Example], test: Sequence[Example]) -> float:
    """Accuracy of the most frequent label."""
    label = Counter(example["label"] for example in train).most_common(1)[0][0]
    return accuracy([label] * len(test), test)


def frequent_tags(train: Iterable[Example], test: Sequence[Example]) -> float:
    """F1 of the most frequent tag of each word; a new word gets O."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for example in train:
        for word, tag in zip(example["words"], example["tags"], strict=True):
            counts[word][tag] += 1
    best = {word: tags.most_common(1)[0][0] for word, tags in counts.items()}
    predictions = [[best.get(word, "O") for word in example["words"]] for example in test]
    return entity_scores(predictions, [example["tags"] for example in test])["f1"].value


def first_words(train: Sequence[Example], test: Sequence[Example]) -> float:
    """F1 of the first words of the text, as many as give the best F1 on the training data, as the answer."""

    def score(examples: Sequence[Example], length: int) -> float:
        answers = [" ".join(example["context"].split()[:length]) for example in examples]
        golds = [[answer["text"] for answer in example["answers"]] for example in examples]
        return answer_scores(answers, golds)["f1"].value

    return score(test, max(range(1, 11), key=lambda length: score(train[:1000], length)))


def copied_source(test: Sequence[Example]) -> float:
    """BLEU of the source itself."""
    references = [example["tgt"] for example in test]
    return bleu([example["src"] for example in test], references, tokenize=bleu_tokenizer_for(references)).value


def right_branching(train: Iterable[Example], test: Sequence[Example]) -> float:
    """F1 of right-branching trees with the most frequent label."""
    labels = Counter(child.label for example in train for child in phrases(gold(example)))
    label = labels.most_common(1)[0][0]
    golds = [gold(example) for example in test]
    return bracket_scores([branch(leaves(tree), label) for tree in golds], golds)["f1"].value


def gold(example: Example) -> Tree:
    return next(iter(parsed([example["tree"]])))


def phrases(tree: Tree) -> Iterable[Tree]:
    for child in tree.children:
        if child.children:
            yield child
            yield from phrases(child)


def branch(words: Sequence[Tree], label: str) -> Tree:
    """(label w1 (label w2 (label w3 ...)))."""
    tree = words[-1]
    for word in reversed(words[:-1]):
        tree = Tree(label, (word, tree))
    return Tree("ROOT", (tree,))
