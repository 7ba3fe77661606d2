"""The task on a small model: objective, likelihood, and prediction that keeps lines, order and prefixes."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import sacrebleu
import torch
import torch.nn.functional as F
from benchmarks.rows import concatenate_rows
from tests.tasks.make import changed, make_task, validation

from regard.attention.layouts import Padded
from regard.data.arrays import Rows
from regard.data.batch import Batch
from regard.data.pairs import PairExamples, pack_pairs, pad_pairs
from regard.data.planning import Capacity
from regard.decoding.engine import DecodingRequest
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import DecodingSettings
from regard.losses.crossentropy import r_drop
from regard.models.transformer import Transformer, TransformerSettings
from regard.tasks.base import Prediction
from regard.tasks.translation import Translation
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings
from regard.text.symbols import EOS, PAD
from regard.viz.content import Table

GREEDY = DecodingSettings(search="greedy", extra_length=5)


@pytest.fixture(scope="module")
def task() -> Translation:
    vocabulary = train_tokenizer(["one two three four five", "eins zwei drei vier"] * 3, TextSettings(vocab_size=300))
    return make_task(Translation, vocabulary, vocabulary, decoding=GREEDY, max_source=16)


@pytest.fixture(scope="module")
def model(task: Translation) -> Transformer:
    torch.manual_seed(0)
    settings = TransformerSettings(size="tiny", d_model=32, num_heads=2, d_ff=64, norm="pre", dropout=0.3)
    return Transformer(settings, len(task.src_tokenizer), len(task.tgt_tokenizer)).eval()


def pairs(task: Translation, *texts: tuple[str, str]) -> list[tuple[np.ndarray, np.ndarray]]:
    encode = task.src_tokenizer.encode
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


def test_bleu_and_ter_split_words_as_the_target_language_does(task: Translation) -> None:
    examples = [{"src": "a", "tgt": "今天的天气非常好。"}, {"src": "b", "tgt": "我们明天去北京。"}]
    said: list[Prediction] = [{"translation": "今天天气非常好。"}, {"translation": "我们明天去上海。"}]
    references, outputs = [e["tgt"] for e in examples], [e["translation"] for e in said]
    scores = task.score(examples, said)
    assert "tok:zh" in scores["bleu"].signature and "asian:yes" in scores["ter"].signature
    assert scores["bleu"].value == sacrebleu.corpus_bleu(outputs, [references], tokenize="zh").score > 40
    for monitor in ("bleu", "ter", "chrf", "exact_match"):  # what chooses the best checkpoint is what is reported
        monitored = changed(task, training__monitor=monitor).monitored_scores(examples, said)
        assert monitored == {monitor: scores[monitor].value}
    once = np.ones(2, dtype=np.int64)
    resampled = changed(task, training__monitor="ter").scorer(examples, said)(once)
    for name in ("bleu", "chrf", "ter"):
        assert resampled[name].value == pytest.approx(scores[name].value)
        assert resampled[name].signature == scores[name].signature
    own = replace(task, bleu_tokenizer="char").score(examples, said)
    assert "tok:char" in own["bleu"].signature and "asian:yes" in own["ter"].signature


def test_the_named_target_language_chooses_how_words_are_split(task: Translation) -> None:
    latin = [{"src": "a", "tgt": "Facebook Messenger"}]
    assert task.word_tokenizer(latin) == "13a"
    assert task.word_tokenizer([{**latin[0], "to": "zh"}]) == "zh"
    assert task.word_tokenizer([{**latin[0], "to": "zh"}, {**latin[0], "to": "de"}]) == "13a"
    assert replace(task, target_language="th").word_tokenizer(latin) == "char"
    named = changed(task, data__src_lang="en", data__tgt_lang="zh")
    assert named.word_tokenizer(latin) == "zh" and named.word_tokenizer([{**latin[0], "to": "en"}]) == "13a"
    examples = [{"src": "a", "tgt": "Windows 出口", "from": "en", "to": "zh"}, {**latin[0], "from": "zh", "to": "en"}]
    said: list[Prediction] = [{"translation": "Windows 出"}, {"translation": "Facebook Messenger"}]
    (table,) = task.tables(examples, said, False)
    assert isinstance(table, Table)
    expected = sacrebleu.corpus_bleu(["Windows 出"], [["Windows 出口"]], tokenize="zh").score
    assert [row[:3] for row in table.rows] == [["en → zh", 1, pytest.approx(expected)], ["zh → en", 1, 0.0]]


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
    strict = changed(task, training__r_drop=5.0)
    torch.testing.assert_close(strict.loss(model, batch).sum, task.loss(model, batch).sum)
    model.train()
    try:
        torch.manual_seed(1)
        loss = strict.loss(model, batch)
        torch.manual_seed(1)
        plain = changed(strict, training__r_drop=1e-30).loss(model, batch)
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

    together = list(task.predict(model, sources(lines)))
    assert len(together) == len(lines)
    assert together[1]["translation"] == "" and together[3]["parts"] == 0
    for line, prediction in zip(lines, together, strict=True):
        if line.strip():
            (alone,) = task.predict(model, sources([line]))
            assert alone["translation"] == prediction["translation"]
            assert alone["score"] == pytest.approx(prediction["score"], abs=1e-4)
    narrow = replace(task, decoding=GREEDY.model_copy(update={"batch_tokens": 1}))
    assert texts(narrow.predict(model, sources(lines))) == texts(together)


def test_a_long_line_is_translated_in_parts_and_stays_one_line(task: Translation, model: Transformer) -> None:
    (prediction,) = task.predict(model, sources(["one two three. " * 40]))
    text, parts = prediction["translation"], prediction["parts"]
    assert parts > 10 and len(prediction["hypotheses"]) == parts
    assert "\n" not in text and text.count(" ") >= parts - 1


def test_a_prefix_begins_the_translation(task: Translation, model: Transformer) -> None:
    examples = [{"src": "one", "prefix": "eins zwei"}, {"src": "two"}, {"src": "three", "prefix": "drei"}]
    first, second, third = texts(task.predict(model, examples))
    assert first.startswith("eins zwei") and third.startswith("drei")
    assert texts(task.predict(model, sources(["two"]))) == [second]


def test_a_prefix_takes_its_share_of_learned_positions(task: Translation) -> None:
    torch.manual_seed(0)
    settings = TransformerSettings(size="tiny", d_model=32, num_heads=2, d_ff=64, positions="learned", max_positions=12)
    model = Transformer(settings, len(task.src_tokenizer), len(task.tgt_tokenizer)).eval()
    bounded = replace(task, max_target=12, max_source=12)
    endless = DecodingSettings(search="greedy", extra_length=50, loop_guard=False)
    (prediction,) = replace(bounded, decoding=endless).predict(model, [{"src": "one", "prefix": "eins zwei drei"}])
    assert prediction["translation"].startswith("eins zwei drei")
    assert len(prediction["hypotheses"][0]["tokens"]) == 12, "a model without training does not end by itself"


class Echo:
    """An engine that returns its sources and keeps the requests."""

    def __init__(self) -> None:
        self.requests: list[DecodingRequest] = []

    def decode(self, request: DecodingRequest) -> list[list[Hypothesis]]:
        self.requests.append(request)
        return [[Hypothesis(list(source[:-1]), -1.0, -1.0, finished=True)] for source in request.sources]


def test_an_engine_decodes_a_whole_chunk_at_once(task: Translation, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, lines = Echo(), ["five", "", "one two", "three", "four"]
    examples = [{"src": line} | ({"prefix": "eins"} if line == "one two" else {}) for line in lines]
    assert texts(task.predict(engine, examples)) == lines
    (request,) = engine.requests
    assert [task.src_tokenizer.decode(ids) for ids in request.sources] == ["five", "one two", "three", "four"]
    assert all(ids[-1] == EOS for ids in request.sources)
    assert request.max_new_tokens == [len(ids) + GREEDY.extra_length for ids in request.sources]
    assert list(request.prefixes) == [[], task.tgt_tokenizer.encode("eins"), [], []]
    assert list(request.sentence_ids) == [0, 2, 3, 4]
    monkeypatch.setattr("regard.tasks.seq2seq.CHUNK_LINES", 2)
    assert texts(task.predict(engine, sources(lines))) == lines
    assert [list(request.sentence_ids) for request in engine.requests[1:]] == [[0], [2, 3], [4]]


def test_no_translation_has_the_character_nul(task: Translation) -> None:
    (prediction,) = task.predict(Echo(), sources(["one\0 two\0"]))
    assert prediction["translation"] == prediction["hypotheses"][0]["text"] == "one two"


def test_attention_names_every_piece(task: Translation, model: Transformer) -> None:
    target = task.tgt_tokenizer.encode("eins zwei")
    source_pieces, target_pieces, weights = task.attention_weights(model, "one two", target)
    assert source_pieces[-1] == "⟨/s⟩" and target_pieces[-1] == "⟨/s⟩"
    assert weights.cross is not None and weights.cross.shape == (1, 2, 2, len(target_pieces), len(source_pieces))


def test_no_part_of_a_line_is_longer_than_the_model_was_trained_on(task: Translation) -> None:
    engine = Echo()
    lines = ["one two three four five " * length for length in range(1, 12)] + ["x" * 15, "x" * 16, "x" * 17]
    list(task.predict(engine, sources(lines)))
    assert max(len(ids) for request in engine.requests for ids in request.sources) == task.max_source


def test_only_the_first_part_of_a_long_line_begins_with_its_prefix(task: Translation, model: Transformer) -> None:
    (prediction,) = task.predict(model, [{"src": "one two three. " * 10, "prefix": "vier vier"}])
    first, *others = (item["text"] for item in prediction["hypotheses"])
    assert others and first.startswith("vier vier")
    assert not any(text.startswith("vier vier") for text in others)


def test_a_sample_depends_on_the_line_and_its_number_only(
    task: Translation, model: Transformer, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampling = replace(task, decoding=DecodingSettings(search="sample", extra_length=5, seed=3))
    examples = sources(["one two", "", "one two", "three", "one two", "one two three. " * 5, "one two"])
    together = texts(sampling.predict(model, examples))
    assert len({together[i] for i in (0, 2, 4, 6)}) == 4, "the same line is sampled again at every number"
    for size in (1, 2, 3):
        monkeypatch.setattr("regard.tasks.seq2seq.CHUNK_LINES", size)
        assert texts(sampling.predict(model, examples)) == together


def test_validation_outputs_are_not_longer_than_the_recipe_allows(task: Translation, model: Transformer) -> None:
    data = validation(OnePair(), [{"src": "one two", "tgt": "eins zwei"}])
    source = len(task.src_tokenizer.encode("one two")) + 1
    for change, limit in (({"extra_length": 0}, source), ({"max_length": 2}, 2)):
        limited = replace(task, decoding=GREEDY.model_copy(update={**change, "loop_guard": False}))
        (sample,) = limited.validate(model, data).samples
        (prediction,) = limited.predict(model, sources(["one two"]))
        assert sample[2] == prediction["translation"]
        assert len(prediction["hypotheses"][0]["tokens"]) <= limit


def sources(lines: Iterable[str]) -> list[dict[str, Any]]:
    return [{"src": line} for line in lines]


def texts(predictions: Iterable[Prediction]) -> list[str]:
    return [item["translation"] for item in predictions]


class OnePair(PairExamples):
    """A store of one pair."""

    src_lengths = tgt_lengths = np.array([2])

    def sources(self, indices: np.ndarray) -> Rows:
        return np.array([10, EOS]), np.array([2])

    targets = sources
