"""The task on a small model: objective, likelihood, and prediction that keeps lines, order and prefixes."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from regard.attention.layouts import Padded, Tokens
from regard.data.arrays import Rows
from regard.data.batch import Batch, concatenate_rows
from regard.data.pairs import PairExamples, pack_pairs, pad_pairs
from regard.data.planning import Capacity
from regard.decoding.engine import DecodingRequest
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import DecodingSettings
from regard.engines.stepper_engine import StepperEngine
from regard.losses.crossentropy import r_drop
from regard.models.transformer import Transformer, TransformerSettings
from regard.tasks import Objective, Translation
from regard.tasks.streaming import stretches
from regard.tasks.translation import SYMBOLS
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings
from regard.text.symbols import EOS, PAD

GREEDY = DecodingSettings(search="greedy", extra_length=5)


@pytest.fixture(scope="module")
def task() -> Translation:
    vocabulary = train_tokenizer(["one two three four five", "eins zwei drei vier"] * 3, TextSettings(vocab_size=300))
    return Translation(vocabulary, vocabulary, decoding=GREEDY, max_source=16)


@pytest.fixture(scope="module")
def model(task: Translation) -> Transformer:
    torch.manual_seed(0)
    settings = TransformerSettings(size="tiny", d_model=32, num_heads=2, d_ff=64, norm="pre", dropout=0.3)
    return Transformer(settings, len(task.src_vocabulary), len(task.tgt_vocabulary)).eval()


def pairs(task: Translation, *texts: tuple[str, str]) -> list[tuple[np.ndarray, np.ndarray]]:
    encode = task.src_vocabulary.encode
    return [(np.array([*encode(a), EOS]), np.array([*encode(b), EOS])) for a, b in texts]


def packed(batch: Batch) -> Batch:
    """The same sentences as streams with some room left."""
    src, tgt = (
        Padded(lengths, ids.size(1)).not_padding
        for lengths, ids in ((batch["source_lengths"], batch["source"]), (batch["target_lengths"], batch.labels))
    )
    rows = [(ids[real].numpy(), lengths.numpy()) for ids, real, lengths in (
        (batch["source"], src, batch["source_lengths"]), (batch.labels, tgt, batch["target_lengths"])
    )]  # fmt: skip
    return pack_pairs(rows[0], rows[1], Capacity((60, 70), 17))


def test_the_objective_is_smoothed_cross_entropy_in_either_layout(task: Translation, model: Transformer) -> None:
    batch = pad_pairs(
        *map(
            concatenate_rows, zip(*pairs(task, ("one two", "eins zwei"), ("three four five one", "drei")), strict=True)
        )
    )
    logits = model(batch.source, batch.target).logits()
    expected = F.cross_entropy(
        logits.flatten(0, 1), batch.labels.flatten(), ignore_index=PAD, label_smoothing=0.1, reduction="sum"
    )
    for form in (batch, packed(batch)):
        loss = task.loss(model, form)
        torch.testing.assert_close(loss.sum, expected)
        assert int(loss.count) == int(batch["target_lengths"].sum())


@pytest.mark.parametrize("in_streams", [False, True])
def test_r_drop_is_added_in_training_alone(task: Translation, model: Transformer, in_streams: bool) -> None:
    padded = pad_pairs(
        *map(
            concatenate_rows, zip(*pairs(task, ("one two", "eins zwei"), ("three four five one", "drei")), strict=True)
        )
    )
    batch = packed(padded) if in_streams else padded
    strict = replace(task, objective=Objective(0.1, r_drop=5.0))
    torch.testing.assert_close(strict.loss(model, batch).sum, task.loss(model, batch).sum)
    model.train()
    try:
        torch.manual_seed(1)
        loss = strict.loss(model, batch)
        torch.manual_seed(1)
        plain = replace(strict, objective=Objective(0.1, r_drop=1e-30)).loss(model, batch)
        torch.manual_seed(1)
        both = batch.repeated()
        first, second = model(both.source, both.target).logits().chunk(2)
        apart = r_drop(first, second, batch.labels)
        torch.testing.assert_close(loss.sum - plain.sum, 5.0 / 2 * apart, atol=1e-4, rtol=1e-4)
        assert loss.sum > plain.sum
    finally:
        model.eval()


def test_predictions_keep_lines_order_and_blanks_however_they_are_grouped(
    task: Translation, model: Transformer
) -> None:
    lines = ["one", "", "two three four five one two", "   ", "five", "three three"]

    def stream() -> Iterator[str]:
        yield from lines

    together = list(task.predict(model, stream()))
    assert [p.source for p in together] == lines
    assert [p.text for p in together][1] == "" and together[3].parts == 0
    for line, prediction in zip(lines, together, strict=True):
        if line.strip():
            (alone,) = task.predict(model, [line])
            assert alone.text == prediction.text
            assert alone.hypotheses[0].log_prob == pytest.approx(prediction.hypotheses[0].log_prob, abs=1e-4)
    narrow = replace(task, decoding=GREEDY.model_copy(update={"batch_tokens": 1}))
    assert [p.text for p in narrow.predict(model, lines)] == [p.text for p in together]


def test_a_long_line_is_translated_in_parts_and_stays_one_line(task: Translation, model: Transformer) -> None:
    (prediction,) = task.predict(model, ["one two three. " * 40])
    assert prediction.parts > 10 and len(prediction.texts) == 1
    assert "\n" not in prediction.text and prediction.text.count(" ") >= prediction.parts - 1


def test_a_prefix_begins_the_translation(task: Translation, model: Transformer) -> None:
    found = list(task.predict(model, ["one", "two", "three"], prefixes=["eins zwei", "", "drei"]))
    assert found[0].text.startswith("eins zwei") and found[2].text.startswith("drei")
    (free,) = task.predict(model, ["two"])
    assert found[1].text == free.text


def test_a_prefix_takes_its_share_of_learned_positions(task: Translation) -> None:
    torch.manual_seed(0)
    settings = TransformerSettings(size="tiny", d_model=32, num_heads=2, d_ff=64, positions="learned", max_positions=12)
    model = Transformer(settings, len(task.src_vocabulary), len(task.tgt_vocabulary)).eval()
    bounded = replace(task, max_target=12, max_source=12)
    endless = DecodingSettings(search="greedy", extra_length=50, loop_guard=False)
    (found,) = bounded.predict(model, ["one"], endless, prefixes=["eins zwei drei"])
    assert found.text.startswith("eins zwei drei")
    assert len(found.hypotheses[0].tokens) == 12, "a model without training does not end by itself"


class EchoEngine:
    """An engine that returns the sources and records the requests."""

    def __init__(self) -> None:
        self.requests: list[DecodingRequest] = []

    def decode(self, request: DecodingRequest) -> list[list[Hypothesis]]:
        self.requests.append(request)
        return [[Hypothesis(list(source[:-1]), -1.0, -1.0, finished=True)] for source in request.sources]


def test_an_engine_is_asked_for_a_whole_stretch_at_once(task: Translation, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, lines = EchoEngine(), ["five", "", "one two", "three", "four"]
    assert [p.text for p in task.predict(engine, lines, prefixes=["", "", "eins"])] == lines
    (request,) = engine.requests
    assert [task.src_vocabulary.decode(ids) for ids in request.sources] == ["five", "one two", "three", "four"]
    assert all(ids[-1] == EOS for ids in request.sources)
    assert request.max_new_tokens == [len(ids) + GREEDY.extra_length for ids in request.sources]
    assert request.prefixes == [[], task.tgt_vocabulary.encode("eins"), [], []]
    assert request.sentence_ids == [0, 2, 3, 4]
    monkeypatch.setattr("regard.tasks.translation.stretches", partial(stretches, most_lines=2))
    assert [p.text for p in task.predict(engine, lines)] == lines
    assert [request.sentence_ids for request in engine.requests[1:]] == [[0], [2, 3], [4]]
    assert not any(engine.requests[-1].prefixes)


def test_attention_names_every_piece(task: Translation, model: Transformer) -> None:
    target = task.tgt_vocabulary.encode("eins zwei")
    source_pieces, target_pieces, weights = task.attentions(model, "one two", target)
    assert source_pieces[-1] == "⟨/s⟩" and target_pieces[-1] == "⟨/s⟩"
    assert weights.cross is not None and weights.cross.shape == (1, 2, 2, len(target_pieces), len(source_pieces))


class Counted:
    """Stands before a model and keeps the longest source it was given."""

    def __init__(self, model: Transformer) -> None:
        self.model, self.longest = model, 0

    def start(self, src: Tokens) -> Any:
        self.longest = max(self.longest, src.ids.size(1))
        return self.model.start(src)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)


def test_no_part_of_a_line_is_longer_than_the_model_was_trained_on(task: Translation, model: Transformer) -> None:
    counted = Counted(model)
    lines = ["one two three four five " * length for length in range(1, 12)] + ["x" * 15, "x" * 16, "x" * 17]
    list(task.predict(StepperEngine(counted, SYMBOLS, torch.device("cpu")), lines))
    assert counted.longest == task.max_source


def test_only_the_first_part_of_a_long_line_begins_with_its_prefix(task: Translation, model: Transformer) -> None:
    (found,) = task.predict(model, ["one two three. " * 10], prefixes=["vier vier"])
    first, *others = (task.tgt_vocabulary.decode(part.tokens) for part in found.hypotheses)
    assert others and first.startswith("vier vier")
    assert not any(text.startswith("vier vier") for text in others)


def test_a_sample_depends_on_the_line_and_its_number_alone(
    task: Translation, model: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawing = DecodingSettings(search="sample", extra_length=5, seed=3)
    lines = ["one two", "", "one two", "three", "one two", "one two three. " * 5, "one two"]
    together = [p.text for p in task.predict(model, lines, drawing)]
    assert len({together[i] for i in (0, 2, 4, 6)}) == 4, "the same line draws anew at every place"
    for size in (1, 2, 3):
        monkeypatch.setattr("regard.tasks.translation.stretches", partial(stretches, most_lines=size))
        assert [p.text for p in task.predict(model, lines, drawing)] == together


def test_validation_writes_no_more_than_the_recipe_allows(task: Translation, model: Transformer) -> None:
    watched = replace(task, valid_pairs=[("one two", "eins zwei")], samples=1, valid=OnePair())  # type: ignore[arg-type]
    source = len(task.src_vocabulary.encode("one two")) + 1
    for change, most in (({"extra_length": 0}, source), ({"max_length": 2}, 2)):
        decoding = GREEDY.model_copy(update={**change, "loop_guard": False})
        (sample,) = replace(watched, decoding=decoding).validate(model).samples
        (written,) = task.predict(model, ["one two"], decoding)
        assert sample[2] == written.text and len(written.hypotheses[0].tokens) <= most


class OnePair(PairExamples):
    """A store of one pair."""

    src_lengths = tgt_lengths = np.array([2])

    def sources(self, indices: np.ndarray) -> Rows:
        return np.array([10, EOS]), np.array([2])

    targets = sources
