"""Words, heads and relations become labels and come back as a tree; the loss is that of the equation."""

from typing import Any

import numpy as np
import pytest
import torch
from tests.tasks.make import changed, make_task, validation
from tests.tiny import training_inputs
from torch import Tensor

from regard.data.batch import IGNORE
from regard.data.inputs import Inputs
from regard.errors import UserError
from regard.models.biaffine import ArcScores, possible_heads
from regard.tasks.dependencies import UNKNOWN, Dependencies
from regard.text.bert import SPECIALS, BertTokenizer
from regard.viz.panel import Screen
from regard.viz.terminal import draw

LABELS = ("det", "nsubj:pass", "punct", "root")
VOCABULARY = BertTokenizer([*SPECIALS, *"abcdefgh", *(f"##{letter}" for letter in "abcdefgh"), "."])
SETTINGS = {
    "data.max_length": 16, "model.kind": "transformer", "model.d_model": 16, "model.num_heads": 2, "model.d_ff": 16,
    "model.layers": 1, "parser.arc_size": 8, "parser.relation_size": 6,
}  # fmt: skip
TASK = make_task(Dependencies, VOCABULARY, LABELS, settings=SETTINGS)
SENTENCES: list[dict[str, Any]] = [
    {"words": ["abc", "d", "ef", "."], "heads": [2, 3, 0, 3], "relations": ["det", "nsubj:pass", "root", "punct"]},
    {"words": ["a"], "heads": [0], "relations": ["root"]},
    {"words": ["gh", "ab", "c"], "heads": [3, 1, 0], "relations": ["nsubj:pass", "det", "root"]},
    {"words": [], "heads": [], "relations": []},
]


def number(head: int, relation: str) -> float:
    return float(head * len(LABELS) + LABELS.index(relation))


def certain(example: dict[str, Any], task: Dependencies = TASK) -> list[Tensor]:
    """Scores of a model that knows the tree: of heads, and the best relation to each head."""
    (item,) = task.encode(example)
    size = len(item.ids)
    arcs, relations = torch.randn(size, size), torch.zeros(size, size, dtype=torch.long)
    for position, label in enumerate(item.labels):
        if label >= 0:
            head, relation = divmod(int(label), len(LABELS))
            arcs[position, head], relations[position, head] = 50.0, relation
    return [arcs, relations]


def make_model() -> torch.nn.Module:
    torch.manual_seed(0)
    return TASK.new_model().eval()


# ---- inputs


def test_the_label_of_a_word_is_its_head_and_its_relation() -> None:
    (item,) = TASK.encode(SENTENCES[0])
    assert VOCABULARY.tokens(item.ids) == ["[CLS]", "a", "##b", "##c", "d", "e", "##f", ".", "[SEP]"]
    none = float(IGNORE)
    assert item.labels == [
        none, number(4, "det"), none, none, number(5, "nsubj:pass"), number(0, "root"), none, number(5, "punct"), none,
    ]  # fmt: skip
    (unlabelled,) = TASK.encode({"words": SENTENCES[0]["words"]})
    assert unlabelled.labels == [none if label == none else float(UNKNOWN) for label in item.labels]
    (other,) = TASK.encode(SENTENCES[1] | {"relations": ["xcomp"]})
    assert other.labels == [none, float(UNKNOWN), none], "a relation that is not in the training data"
    (empty,) = TASK.encode(SENTENCES[3])
    assert empty.labels == [none, none]


def test_words_beyond_the_maximum_length_are_not_read() -> None:
    narrow = changed(TASK, data__max_length=8)
    (item,) = narrow.encode(SENTENCES[0])
    assert len(item.ids) == 8 and item.truncated == 1
    assert [label for label in item.labels if label != IGNORE] == [number(4, "det"), number(5, "nsubj:pass"), 3.0]
    (item,) = changed(TASK, data__max_length=6).encode(SENTENCES[0])
    assert [label for label in item.labels if label != IGNORE] == [number(4, "det"), UNKNOWN], "its head is not read"


# ---- loss


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_loss_is_that_of_the_equation(smoothing: float) -> None:
    task, model = changed(TASK, training__label_smoothing=smoothing), make_model()
    inputs = Inputs.of(training_inputs(task, SENTENCES), task.per_token)
    batch = inputs.pad(np.arange(len(inputs)))
    loss = task.loss(model, batch)
    words = [sum(label >= 0 for label in item.labels) for example in SENTENCES for item in task.encode(example)]
    assert int(loss.count) == sum(words) == inputs.label_counts.sum() == 8
    arcs, relations = model(batch.source, batch["segments"], batch.labels != IGNORE)
    total, smooth = torch.zeros(()), torch.zeros(())
    for row, labels in enumerate(batch.labels.long().tolist()):
        for position, label in enumerate(labels):
            if label >= 0:
                head, relation = divmod(label, len(LABELS))
                log_p = relations[row, position, head].log_softmax(dim=0)
                total = total - arcs[row, position].log_softmax(dim=0)[head] - log_p[relation]
                smooth = smooth - log_p.mean() + log_p[relation]
    torch.testing.assert_close(loss.nll, total)
    torch.testing.assert_close(loss.sum, total + smoothing * smooth)
    torch.testing.assert_close(torch.tensor(task.run(model, [task.encode(item) for item in SENTENCES]).nll), total)


def test_a_batch_without_labels_has_no_loss() -> None:
    inputs = Inputs.of(training_inputs(TASK, SENTENCES), TASK.per_token)
    model = make_model()
    loss = TASK.loss(model, inputs.pad(np.arange(len(inputs))).without_labels(**inputs.ignored))
    loss.sum.backward()
    assert float(loss.nll) == 0 and int(loss.count) == 0
    assert all(weight.grad is None or weight.grad.isfinite().all() for weight in model.parameters())


def test_the_expected_loss_of_an_untrained_model() -> None:
    batch = Inputs.of(training_inputs(TASK, SENTENCES), TASK.per_token).pad(np.arange(4))
    expected = TASK.checks.expected_loss(TASK, batch).value
    assert expected == pytest.approx((4 * np.log(4) + 3 * np.log(3)) / 8 + np.log(4))
    allowed = possible_heads(batch.labels != IGNORE)
    even = ArcScores(torch.where(allowed, 0.0, -1e30), torch.zeros(*batch.labels.shape, len(LABELS)))
    loss = TASK.arc_loss(even, batch.labels)
    assert float(loss.nll / loss.count) == pytest.approx(expected)


# ---- predictions


@pytest.mark.parametrize("example", SENTENCES)
def test_a_model_that_knows_the_tree_predicts_it(example: dict[str, Any]) -> None:
    torch.manual_seed(0)
    prediction = TASK.decode({"words": example["words"]}, TASK.encode(example), certain(example))
    assert prediction == example
    if example["words"]:
        assert [score.value for score in TASK.score([example], [prediction]).values()] == [100, 100]


def test_words_that_are_not_read_depend_on_the_root_word() -> None:
    narrow = changed(TASK, data__max_length=8)
    found = narrow.decode(SENTENCES[0], narrow.encode(SENTENCES[0]), certain(SENTENCES[0], narrow))
    assert found["heads"] == [2, 3, 0, 3] and found["relations"][-1] == "dep"
    control = {"words": ["\x00", "\x01"], "heads": [0, 1], "relations": ["root", "det"]}
    assert TASK.decode(control, TASK.encode(control), certain(control))["heads"] == [0, 1]


def test_greedy_heads_need_not_be_a_tree() -> None:
    example = SENTENCES[2]
    (arcs, relations), (item,) = certain(example), TASK.encode(example)
    first, second = (position for position, label in enumerate(item.labels) if label in (number(5, "nsubj:pass"), 4.0))
    arcs[first, second] = 99.0
    greedy = TASK.configure(search="greedy").decode(example, [item], [arcs, relations])
    assert greedy["heads"] == [2, 1, 0]
    assert TASK.decode(example, [item], [arcs, relations])["heads"] == example["heads"]
    by_recipe = changed(TASK, parser__search="greedy")
    assert by_recipe.decode(example, [item], [arcs, relations]) == greedy
    assert by_recipe.configure(search="tree").decode(example, [item], [arcs, relations])["heads"] == example["heads"]
    for options in ({"search": "beam"}, {"nbest": 2}):
        with pytest.raises(UserError) as error:
            TASK.configure(**options)
        assert error.value.code in ("invalid-option", "unsupported-option")


def test_predictions_do_not_depend_on_the_batch_and_are_trees() -> None:
    model = make_model()
    together = list(TASK.predict(model, SENTENCES))
    assert together == [next(iter(TASK.predict(model, [example]))) for example in SENTENCES]
    assert all(item["heads"].count(0) == 1 for item in together if item["words"])
    found = TASK.validate(model, validation(examples=SENTENCES))
    assert set(found.metrics) == {"loss", "uas", "las"}


def test_inputs_and_outputs_of_commands() -> None:
    assert TASK.parse("abc. d") == {"words": ["abc", ".", "d"]}
    assert TASK.parse(SENTENCES[0]) == {"words": SENTENCES[0]["words"]}, "a prediction does not see the target"
    assert TASK.to_line(SENTENCES[1]) == '{"words": ["a"]}'
    assert TASK.parse({"words": ["a"], "tags": ["X"]})["tags"] == ["X"], "other columns are kept"
    text = Dependencies.file_format.write({"words": ["a"], "tags": ["NOUN"]} | SENTENCES[1])
    assert text == "1\ta\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n"
    assert "▼" in draw(TASK.describe(SENTENCES[0], SENTENCES[0]), Screen(False, 80))
    assert TASK.describe(SENTENCES[0], SENTENCES[0]).svg.startswith("<svg")
    tables = TASK.tables(SENTENCES[:3], SENTENCES[:3], page=True)
    assert [table.title for table in tables] == ["relations", "scores by length"]
    assert all(TASK.describe(example, example).correct for example in SENTENCES[:3])


def test_the_probabilities_of_heads_are_attention() -> None:
    maps = TASK.attention(make_model(), SENTENCES[0], SENTENCES[0])
    assert [item.name for item in maps] == ["encoder", "heads"]
    weights = np.asarray(maps[-1].weights)
    assert weights.shape == (1, 1, 4, 5)
    np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=1e-5)
    assert all(weights[0, 0, word, word + 1] == 0 for word in range(4))
    assert TASK.attention(make_model(), SENTENCES[3], SENTENCES[3]) == []
