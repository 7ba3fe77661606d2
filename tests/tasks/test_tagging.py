"""The best legal tags are those that trying all finds; every word of every sentence is asked for once, by its head."""

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from tests.tasks.make import changed, make_task, validation
from tests.tiny import training_inputs

from regard.data.batch import IGNORE
from regard.data.inputs import Inputs
from regard.data.planning import Capacity
from regard.metrics.spans import entities, entity_scores, scheme_of, stray, strict_entities
from regard.models.text_encoder import EncoderSettings, EncoderWithHead, build_encoder
from regard.tasks.bio import best_sequence, can_constrain, transitions
from regard.tasks.tagging import Tagging, split_windows
from regard.text.bert import SPECIALS, BertTokenizer
from regard.viz.content import Table

LABELS = ("B-LOC", "B-PER", "I-LOC", "I-PER", "O")
VOCABULARY = BertTokenizer([*SPECIALS, *"abcdefgh", *(f"##{letter}" for letter in "abcdefgh"), "."])
SCORES = ("precision", "recall", "f1", "accuracy")
TASK = make_task(Tagging, VOCABULARY, LABELS, settings={"data.max_length": 16})
SENTENCES: list[dict[str, Any]] = [
    {"words": ["abc", "d", "ef", "gh."], "tags": ["B-PER", "O", "B-LOC", "I-LOC"]},
    {"words": ["a"], "tags": ["O"]},
    {"words": ["ab", "\x00", "c", "de"], "tags": ["O", "O", "B-PER", "I-PER"]},
    {"words": ["abcd", "efgh", "abcd", "efgh", "abcd", "ab"], "tags": ["O", "B-LOC", "I-LOC", "I-LOC", "I-LOC", "O"]},
    {"words": [], "tags": []},
]


def number(tag: str) -> int:
    return LABELS.index(tag)


def certain(example: dict[str, Any], task: Tagging) -> list[torch.Tensor]:
    """Numbers of a head that knows the tags, and elsewhere insists on something else."""
    found = []
    for each in task.encode(example):
        wanted = torch.tensor([task.labels.index("I-PER") if label == IGNORE else int(label) for label in each.labels])
        found.append(20.0 * F.one_hot(wanted, len(task.labels)))
    return found


def model(kind: str, outputs: int) -> EncoderWithHead:
    torch.manual_seed(0)
    shape = dict(kind=kind, d_model=16) | ({} if kind == "recurrent" else dict(num_heads=2, d_ff=24, layers=2))
    reader = build_encoder(TypeAdapter(EncoderSettings).validate_python(shape), len(VOCABULARY))
    return EncoderWithHead(reader, outputs, False, 0.0)


# what may follow what


@given(length=st.integers(0, 4), labels=st.permutations(LABELS), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_the_best_legal_sequence_is_the_one_that_trying_all_finds(length: int, labels: list[str], seed: int) -> None:
    log_p = np.log(np.random.default_rng(seed).dirichlet(np.full(len(labels), 0.5), length) + 1e-9)
    found = best_sequence(log_p, transitions(tuple(labels)), labels.index("O"))
    possible = [ks for ks in product(range(len(labels)), repeat=length) if not stray([labels[k] for k in ks])]
    assert tuple(found) == max(possible, key=lambda ks: sum(log_p[place, k] for place, k in enumerate(ks)))
    word_by_word = log_p.argmax(axis=1).tolist()
    if not stray([labels[k] for k in word_by_word]):
        assert found == word_by_word


def test_what_is_legal_follows_from_the_names() -> None:
    allowed = transitions(LABELS) == 0
    assert not allowed[number("O"), number("I-PER")] and not allowed[number("B-LOC"), number("I-PER")]
    assert allowed[number("B-PER"), number("I-PER")] and allowed[number("I-PER"), number("I-PER")]
    assert allowed[:, [number("O"), number("B-PER"), number("B-LOC")]].all()
    assert set(transitions(LABELS).flatten()) == {0.0, -np.inf}


def test_tags_are_known_by_their_looks() -> None:
    assert can_constrain(LABELS) and can_constrain(("B-X", "O")) and can_constrain(("O",))
    iob1, parts_of_speech = ("I-PER", "B-LOC", "I-LOC", "O"), ("DET", "NOUN", "O")
    assert not can_constrain(iob1) and scheme_of(iob1) == "BIO"
    for labels in (parts_of_speech, ("B-", "O")):
        assert not can_constrain(labels) and not scheme_of(labels)
    assert not can_constrain(("B-X", "I-X")), "nothing stands before the first word"
    for marks in ("BIES", "BILU", "BMES"):
        whole = {*(f"{mark}-X" for mark in marks), "O"}
        assert can_constrain(whole) and can_constrain({*whole, f"{marks[-1]}-Y"})
        assert not can_constrain(whole - {"B-X"})
        assert not can_constrain(whole - {"L-X" if marks == "BILU" else "E-X"})


@pytest.mark.parametrize("marks", ["BIES", "BILU", "BMES"])
@pytest.mark.parametrize("seed", range(6))
def test_the_best_legal_sequence_of_schemes_that_mark_the_end(marks: str, seed: int) -> None:
    labels = (f"{marks[3]}-Y", *(f"{mark}-X" for mark in marks), "O")
    scheme, generator = scheme_of(labels), np.random.default_rng(seed)
    assert scheme
    for length in range(5):
        log_p = np.log(generator.dirichlet(np.full(len(labels), 0.5), length) + 1e-9)
        found = best_sequence(log_p, transitions(labels), labels.index("O"))

        def is_legal(ks: tuple[int, ...]) -> bool:
            """Every tag but O belongs to a complete entity."""
            tags = [labels[k] for k in ks]
            inside = sum(entity.end - entity.start for entity in strict_entities(tags, scheme))
            return inside == sum(tag != "O" for tag in tags)

        legal = filter(is_legal, product(range(len(labels)), repeat=length))
        assert tuple(found) == max(legal, key=lambda ks: sum(log_p[place, k] for place, k in enumerate(ks)))


def test_entities_of_bioes_are_scored_and_predicted_as_entities() -> None:
    task = replace(TASK, labels=("B-PER", "E-PER", "I-PER", "O", "S-LOC"))
    example = {"words": ["a", "b", "c", "d"], "tags": ["B-PER", "E-PER", "O", "S-LOC"]}
    wanted = [task.labels.index(tag) for tag in ("B-PER", "B-PER", "O", "S-LOC")]  # not legal
    logits = 5.0 * F.one_hot(torch.tensor([0, *wanted, 0]), 5)
    logits[2, 1] = 4.0
    said = task.decode(example, task.encode(example), [logits])
    assert said["tags"] == example["tags"] and [e["text"] for e in said["entities"]] == ["a b", "d"]
    wrong = {"tags": ["B-PER", "I-PER", "E-PER", "S-LOC"]}
    scores = task.score([example], [wrong])
    assert scores["f1"].value == 50 and "BIOES" in scores["f1"].signature
    assert task.describe(example, said).lines()[1] == "a b (PER), d (LOC)"
    table = task.tables([example], [wrong], False)[0]
    assert isinstance(table, Table) and sorted(row[0] for row in table.rows) == ["LOC", "PER"]
    frequent = task.tables([example], [wrong], True)[1]
    assert isinstance(frequent, Table)
    assert {tuple(row) for row in frequent.rows} == {("a b", "PER", "–", 1), ("a b c", "–", "PER", 1)}
    mixed = task.score([{"tags": ["B-PER", "L-PER"]}], [{"tags": ["B-PER", "E-PER"]}])
    assert "macro over 3 tags" in mixed["f1"].signature


def test_tags_of_no_scheme_and_iob1_are_reported() -> None:
    def warned(*sentences: str) -> list[str]:
        samples = {"train": [{"words": [], "tags": tags.split()} for tags in sentences]}
        return [advice.problem for advice in TASK.checks.data_warnings(samples) or ()]

    assert not warned() and not warned("B-X I-X O") and not warned("DET NOUN") and not warned("B-X E-X S-X O")
    assert not warned("I-X O"), "without a B- every tag is predicted freely"
    assert "IOB1" in warned("I-X B-X O")[0] and "BIOES" in warned("B-X E-X L-X O")[0]


# from words to inputs


def test_the_first_piece_of_a_word_carries_its_tag() -> None:
    (one,) = TASK.encode(SENTENCES[0])
    assert VOCABULARY.tokens(one.ids) == ["[CLS]", "a", "##b", "##c", "d", "e", "##f", "g", "##h", ".", "[SEP]"]
    per, out, begin, on = (number(tag) for tag in SENTENCES[0]["tags"])
    nothing = IGNORE
    assert one.labels == [nothing, per, nothing, nothing, out, begin, nothing, on, nothing, nothing, nothing]
    assert set(one.segments) == {0}
    (untagged,) = TASK.encode({"words": ["abc", "d"]})
    (unknown,) = TASK.encode({"words": ["abc", "d"], "tags": ["B-ORG", "X"]})
    assert set(untagged.labels) == set(unknown.labels) == {nothing}
    (control,) = TASK.encode(SENTENCES[2])
    assert [label for label in control.labels if label != nothing] == [out, per, number("I-PER")]
    (empty,) = TASK.encode(SENTENCES[4])
    assert VOCABULARY.tokens(empty.ids) == ["[CLS]", "[SEP]"] and list(empty.labels) == [nothing, nothing]


@given(lengths=st.lists(st.integers(0, 9), max_size=20), room=st.integers(1, 16))
@settings(max_examples=200)
def test_a_long_sentence_is_cut_and_every_word_asked_about_once(lengths: list[int], room: int) -> None:
    words = ["abcdefgha"[:length] or "\x01" for length in lengths]
    pieces = VOCABULARY.tokenize_words(words)
    parts = split_windows(pieces, room)
    assert all(len(part.tokens) <= room for part in parts)
    assert [word for part in parts for word in part.words] == [word for word, length in enumerate(lengths) if length]
    assert len(parts) == 1 or len(pieces) > room
    own = room - 2 * (room // 4)
    for part in parts:
        letters = VOCABULARY.tokens(part.tokens.ids)
        for word, place in zip(part.words, part.positions, strict=True):
            assert letters[place - 1] == words[word][0], "its first piece, behind [CLS]"
            if len(parts) > 1 and lengths[word] <= own:
                start, all_of_it = place - 1, pieces.words.index(word)
                assert part.tokens.words[start : start + lengths[word]] == [word] * lengths[word], "whole"
                before = min(all_of_it, room // 4)
                assert start >= before, "with what stands before it"
                after = min(len(pieces) - all_of_it - lengths[word], room // 4)
                assert len(part.tokens) - start - lengths[word] >= after, "and after it"


def test_inputs_of_a_long_sentence_are_learnt_from_one_by_one() -> None:
    found = list(training_inputs(TASK, SENTENCES))
    assert {len(each) for each in found} == {1}
    assert len(found) == sum(len(TASK.encode(each)) for each in SENTENCES) > len(SENTENCES)
    inputs = Inputs.of(found, TASK.per_token)
    assert inputs.label_counts.sum() == sum(len(each["words"]) for each in SENTENCES) - 1  # one has no pieces


# from numbers to tags


@pytest.mark.parametrize("constrained", [True, False])
def test_who_knows_the_tags_says_them(constrained: bool) -> None:
    task = replace(TASK, constrained=constrained)
    said = [task.decode(each, task.encode(each), certain(each, task)) for each in SENTENCES]
    for example, each in zip(SENTENCES, said, strict=True):
        assert each["words"] == example["words"] and each["tags"] == example["tags"]
        assert [(e["type"], e["start"], e["end"]) for e in each["entities"]] == entities(example["tags"])
    assert said[0]["entities"][1] == {"type": "LOC", "start": 2, "end": 4, "text": "ef gh."}
    assert said[3]["entities"] == [{"type": "LOC", "start": 1, "end": 5, "text": "efgh abcd efgh abcd"}], "over a cut"
    scores = task.score(SENTENCES, said)
    assert {name: score.value for name, score in scores.items()} == dict.fromkeys(SCORES, 100.0)


def test_what_nobody_began_is_not_gone_on_with() -> None:
    example = {"words": ["a", "b", "\x00", "c"]}
    read = TASK.encode(example)
    p = torch.tensor(
        [[0.2] * 5, [0.04, 0.45, 0.01, 0.5, 0.0], [0.01, 0.3, 0.01, 0.6, 0.08], [0.05, 0.3, 0.01, 0.6, 0.04], [0.2] * 5]
    )
    said = TASK.decode(example, read, [p.log()])
    assert said["tags"] == ["B-PER", "I-PER", "O", "B-PER"], "a word without pieces ends an entity"
    free = replace(TASK, constrained=False).decode(example, read, [p.log()])
    assert free["tags"] == ["I-PER", "I-PER", "O", "I-PER"]
    iob1 = replace(TASK, labels=("B-LOC", "I-LOC", "I-ORG", "I-PER", "O")).decode(example, read, [p.log()])
    assert iob1["tags"] == free["tags"] and [e["type"] for e in iob1["entities"]] == ["PER", "PER"]


def test_other_tags_are_said_freely() -> None:
    task = replace(TASK, labels=("DET", "I-VERB", "NOUN"))
    examples = [{"words": ["a", "b"], "tags": ["DET", "NOUN"]}, {"words": ["\x00", "c"], "tags": ["NOUN", "I-VERB"]}]
    logits = [torch.eye(3)[[0, 0, 2, 0]], torch.eye(3)[[2, 1, 2]]]
    said = [task.decode(each, task.encode(each), [x]) for each, x in zip(examples, logits, strict=True)]
    outputs = [task.output(item) for item in said]
    assert outputs == [
        {"words": ["a", "b"], "tags": ["DET", "NOUN"]},
        {"words": ["\x00", "c"], "tags": ["O", "I-VERB"]},
    ]
    p = math.e / (math.e + 2)
    assert [item["probabilities"] for item in said] == [pytest.approx([p, p]), pytest.approx([0, p])]
    scores = task.score(examples, said)
    assert scores["accuracy"].value == 75 and scores["accuracy"].signature == "4 words"
    assert scores["f1"].value == pytest.approx(100 * (1 + 2 / 3 + 1 + 0) / 4)  # DET, NOUN, I-VERB, O
    assert task.describe(examples[0], said[0]).lines() == ("a b", "a/DET b/NOUN", "a/DET b/NOUN")


def test_scores_are_those_of_whole_entities() -> None:
    said = [{"tags": list(each["tags"])} for each in SENTENCES]
    said[0]["tags"][3] = "O"
    scores = TASK.score(SENTENCES, said)
    expected = entity_scores([each["tags"] for each in said], [each["tags"] for each in SENTENCES])
    assert {name: scores[name] for name in expected} == expected and scores["f1"].value == 75
    assert scores["accuracy"].value == pytest.approx(100 * 14 / 15)
    assert TASK.describe(SENTENCES[0], said[0]).lines() == (
        "abc d ef gh.",
        "abc (PER), ef gh. (LOC)",
        "abc (PER), ef (LOC)",
    )
    assert TASK.describe({"words": ["a"]}, {"tags": ["B-LOC"]}).lines() == ("a", "", "a (LOC)")


# what it costs


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("kind", ["bert", "transformer"])
def test_a_stream_costs_what_rows_cost(kind: str, smoothing: float) -> None:
    task = changed(TASK, training__label_smoothing=smoothing)
    inputs = Inputs.of(training_inputs(task, SENTENCES), task.per_token)
    everything = np.arange(len(inputs))
    batches = (inputs.pad(everything), inputs.pack(everything, Capacity((100,), 9)))
    gradients = []
    for batch in batches:
        tagger = model(kind, task.outputs).eval()
        loss = task.loss(tagger, batch)
        loss.sum.backward()
        gradients.append((loss, {name: p.grad for name, p in tagger.named_parameters() if p.grad is not None}))
    (rows, by_rows), (stream, by_stream) = gradients
    assert int(rows.count) == int(stream.count) == inputs.label_counts.sum() == 14
    torch.testing.assert_close(stream.sum, rows.sum)
    torch.testing.assert_close(stream.nll, rows.nll)
    assert by_rows.keys() == by_stream.keys()
    for name, gradient in by_rows.items():
        torch.testing.assert_close(by_stream[name], gradient, atol=1e-5, rtol=1e-4, msg=name)


def test_the_cost_is_that_of_a_loop_over_words() -> None:
    tagger = model("transformer", TASK.outputs).eval()
    inputs = Inputs.of(training_inputs(TASK, SENTENCES), TASK.per_token)
    batch = inputs.pad(np.arange(len(inputs)))
    logits = tagger(batch.source, batch["segments"]).detach()
    right, uniform = torch.zeros(()), torch.zeros(())
    for row, (each,) in enumerate(training_inputs(TASK, SENTENCES)):
        for place, label in enumerate(each.labels):
            if label != IGNORE:
                log_p = logits[row, place].log_softmax(-1)
                right, uniform = right - log_p[int(label)], uniform - log_p.mean()
    torch.testing.assert_close(TASK.criterion(logits, batch).sum, right)
    smooth = changed(TASK, training__label_smoothing=0.2).criterion(logits, batch)
    torch.testing.assert_close(smooth.sum, 0.8 * right + 0.2 * uniform)
    torch.testing.assert_close(smooth.nll, right)
    read = TASK.run(tagger, [TASK.encode(each) for each in SENTENCES])
    assert read.nll == pytest.approx(float(right), rel=1e-5) and read.count == int(smooth.count) == 14


@pytest.mark.parametrize("packed", [True, False])
def test_asking_for_nothing_costs_nothing_and_nothing_is_looked_at(packed: bool) -> None:
    inputs = Inputs.of(training_inputs(TASK, SENTENCES), TASK.per_token)
    batch = inputs.pack(np.arange(5), Capacity((64,), 6)) if packed else inputs.pad(np.arange(5))
    logits = torch.randn(*batch["source"].shape, TASK.outputs, requires_grad=True)
    loss = TASK.criterion(logits, batch.without_labels(labels=IGNORE))
    loss.sum.backward()
    assert (float(loss.sum.detach()), int(loss.count)) == (0.0, 0) and logits.grad is not None and not logits.grad.any()
    # Tensors without content say no number to anybody who asks: a recorded step may not ask either.
    assert TASK.criterion(logits.to("meta"), batch.to("meta")).sum.is_meta


def test_predictions_come_in_order_and_do_not_depend_on_company() -> None:
    tagger = model("recurrent", TASK.outputs).eval()
    together = list(TASK.predict(tagger, SENTENCES))
    assert together == [next(TASK.predict(tagger, [each])) for each in SENTENCES]
    result = changed(TASK, training__samples=2).validate(tagger, validation(examples=SENTENCES))
    assert set(result.metrics) == {"loss", *SCORES}
    assert result.metrics["f1"] == TASK.score(SENTENCES, together)["f1"].value
    words = [" ".join(SENTENCES[number]["words"]) for number in (0, 2)]  # the sentence between has no entity
    assert [sample[0] for sample in result.samples] == words
    assert [changed(TASK, training__samples=count).sample_indices(SENTENCES) for count in (0, 1, 3, 4, 9)] == [
        [], [0], [0, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3, 4],
    ]  # fmt: skip
