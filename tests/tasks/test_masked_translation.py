"""Masks are drawn as the paper says, and the objective is its sum, written again as a loop over words."""

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from benchmarks.rows import collate_pairs
from tests.models.outputs import with_logits
from tests.tasks.make import changed, make_task, validation
from torch import Tensor

from regard.attention.layouts import Padded
from regard.data.batch import Batch
from regard.data.pairs import pack_pairs
from regard.data.planning import Capacity
from regard.data.sources import Source
from regard.decoding.settings import DecodingSettings
from regard.layers.embeddings import OutputProjection
from regard.losses.crossentropy import r_drop
from regard.models.masked import MaskedSettings, MaskedTransformer
from regard.tasks.operations import open_store
from regard.tasks.translation import Translation
from regard.tasks.writing import MASK, is_word, sample_masked, sentences_of
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings
from regard.text.symbols import BOS, EOS, PAD

PAIRS = [("one two", "eins zwei"), ("three four five one", "drei"), ("two", "zwei drei vier eins zwei")]
SEARCH = DecodingSettings(search="mask_predict", iterations=3, length_candidates=2, extra_length=5)


@pytest.fixture(scope="module")
def task() -> Translation:
    vocabulary = train_tokenizer(["one two three four five", "eins zwei drei vier"] * 3, TextSettings(vocab_size=300))
    settings = {"model.kind": "mask-predict", "model.max_length": 24, "data.max_length": 16}
    return make_task(Translation, vocabulary, vocabulary, settings=settings, decoding=SEARCH)


@pytest.fixture
def model(task: Translation) -> MaskedTransformer:
    torch.manual_seed(0)
    settings = dict(size="tiny", d_model=32, num_heads=2, d_ff=64, norm="pre", dropout=0.3, max_length=24)
    made = MaskedTransformer(MaskedSettings.model_validate(settings), len(task.src_tokenizer), len(task.src_tokenizer))
    return made.eval()


@pytest.fixture
def batch(task: Translation) -> Batch:
    encode = task.src_tokenizer.encode
    return collate_pairs([(np.array([*encode(a), EOS]), np.array([*encode(b), EOS])) for a, b in PAIRS])


def one_by_one(model: MaskedTransformer, batch: Batch, masked: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Sums over masked words and over sentences: cross-entropies of the words, and of the lengths."""
    words, lengths = torch.zeros(()), torch.zeros(())
    for row in range(len(batch.labels)):
        size = int(batch["target_lengths"][row])
        target = [int(t) for t in batch.labels[row, :size]]
        assert target[-1] == EOS and not masked[row, size - 1 :].any()
        seen = [BOS if masked[row, i] else token for i, token in enumerate(target)]
        src = Padded.of(
            batch["source"][row : row + 1, : batch["source_lengths"][row]], batch["source_lengths"][row : row + 1]
        )
        logits, length = with_logits(model(src, Padded.of(torch.tensor([seen]), torch.tensor([size]))))
        for i in range(size - 1):
            if masked[row, i]:
                words = words + F.cross_entropy(logits[0, i], torch.tensor(target[i]), label_smoothing=smoothing)
        lengths = lengths + F.cross_entropy(length[0], torch.tensor(size - 1))
    return words, lengths


def drawn(batch: Batch, seed: int) -> Tensor:
    torch.manual_seed(seed)
    return sample_masked(is_word(batch.labels), *sentences_of(batch.target.layout))


def test_masks_fall_on_words_alone_and_their_number_is_uniform() -> None:
    torch.manual_seed(0)
    words = torch.tensor([[True] * 4 + [False] * 3, [True] + [False] * 6, [False] * 7])
    sentences = sentences_of(Padded(torch.tensor([4, 1, 0]), 7))
    numbers, places = Counter[int](), Counter[int]()
    for _ in range(4000):
        masked = sample_masked(words, *sentences)
        assert not bool((masked & ~words).any())
        assert masked[1:].sum(1).tolist() == [1, 0]
        numbers[int(masked[0].sum())] += 1
        places.update(masked[0].nonzero()[:, 0].tolist())
    assert set(numbers) == {1, 2, 3, 4}
    for n in numbers:
        assert numbers[n] == pytest.approx(1000, abs=5 * math.sqrt(750)), numbers
    for place in range(4):
        assert places[place] == pytest.approx(4000 * 2.5 / 4, abs=150), places


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_objective_is_twice_the_masked_words_and_the_lengths(
    task: Translation, model: MaskedTransformer, batch: Batch, smoothing: float
) -> None:
    strict = changed(task, training__label_smoothing=smoothing)
    for seed in range(3):
        masked = drawn(batch, seed)
        torch.manual_seed(seed)
        loss = strict.loss(model, batch)
        words, lengths = one_by_one(model, batch, masked, smoothing)
        torch.testing.assert_close(loss.sum, 2 * words + lengths)
        plain, _ = one_by_one(model, batch, masked, 0.0)
        torch.testing.assert_close(loss.nll, (2 * plain + lengths).detach())
        assert int(loss.count) == int(batch["target_lengths"].sum())


def packed(batch: Batch) -> Batch:
    """The same sentences as streams with some room left."""
    sides = ((batch["source"], batch["source_lengths"]), (batch.labels, batch["target_lengths"]))
    rows = [(ids[Padded(lengths, ids.size(1)).not_padding].numpy(), lengths.numpy()) for ids, lengths in sides]
    return pack_pairs(rows[0], rows[1], Capacity((60, 70), 17))


@pytest.mark.parametrize("strength", [0.0, 2.0])
def test_a_stream_asks_for_the_same(task: Translation, model: MaskedTransformer, batch: Batch, strength: float) -> None:
    """With R-Drop too, whose two passes are alike where nothing is dropped."""
    model = MaskedTransformer(model.settings.model_copy(update={"dropout": 0.0}), *[len(task.src_tokenizer)] * 2)
    strict = changed(task, training__r_drop=strength)
    stream = packed(batch)
    for seed in range(3):
        torch.manual_seed(seed)
        drawn_there = sample_masked(is_word(stream.labels), *sentences_of(stream.target.layout))
        masked = torch.zeros_like(batch.labels, dtype=torch.bool)
        real = Padded(batch["target_lengths"], batch.labels.size(1)).not_padding
        masked[real] = drawn_there[: int(real.sum())]
        assert not bool(drawn_there[int(real.sum()) :].any())
        assert bool((masked.sum(1) >= 1).all())
        torch.manual_seed(seed)
        loss = strict.loss(model, stream)
        words, lengths = one_by_one(model, batch, masked, 0.1)
        torch.testing.assert_close(loss.sum, 2 * words + lengths, rtol=1e-4, atol=1e-4)
        assert int(loss.count) == int(batch["target_lengths"].sum())


def test_gradients_are_those_of_the_loop(task: Translation, model: MaskedTransformer, batch: Batch) -> None:
    model = model.double()
    masked = drawn(batch, 5)
    torch.manual_seed(5)
    task.loss(model, batch).sum.backward()
    mine = {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}
    model.zero_grad()
    words, lengths = one_by_one(model, batch, masked, 0.1)
    (2 * words + lengths).backward()
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(mine[name], parameter.grad, rtol=1e-6, atol=1e-8)


def test_divided_by_its_tokens_the_objective_is_a_mean_over_words_on_average(task: Translation, batch: Batch) -> None:
    """A model that is equally unsure of everything: log V a word, so log V is what the loss must come to."""

    class Unsure(torch.nn.Module):
        def forward(self, src: object, tgt: object) -> tuple[OutputProjection, OutputProjection]:
            words = OutputProjection(torch.zeros(*batch.labels.shape, 4), torch.zeros(400, 4))
            sure = (
                1e4 * F.one_hot(batch["target_lengths"] - 1, 400).float()
            )  # of the right length, which costs nothing then
            return words, OutputProjection(sure, torch.eye(400))

    torch.manual_seed(0)
    found = [float(task.loss(Unsure(), batch).sum) / int(batch["target_lengths"].sum()) for _ in range(1000)]
    assert np.mean(found) == pytest.approx(math.log(400), rel=0.03)


def test_r_drop_compares_two_passes_with_the_same_masks(
    task: Translation, model: MaskedTransformer, batch: Batch
) -> None:
    strict = changed(task, training__r_drop=3.0)
    model.train()
    masked = drawn(batch, 1)
    twice = batch.repeated()
    target = Padded.of(twice.labels.masked_fill(torch.cat([masked, masked]), MASK), twice["target_lengths"])
    logits, length = with_logits(model(twice.source, target))
    labels = batch.labels.masked_fill(~masked, PAD)
    first, second = logits.chunk(2)
    words = F.cross_entropy(
        logits.flatten(0, 1), labels.repeat(2, 1).flatten(), ignore_index=PAD, label_smoothing=0.1, reduction="sum"
    )
    lengths = F.cross_entropy(length, twice["target_lengths"] - 1, reduction="sum")
    apart = r_drop(first, second, labels)
    torch.manual_seed(1)
    loss = strict.loss(model, batch)
    torch.testing.assert_close(loss.sum, 2 * (words / 2 + 3.0 / 2 * apart) + lengths / 2, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("in_streams", [False, True])
def test_a_batch_that_asks_for_nothing_costs_nothing(
    task: Translation, model: MaskedTransformer, batch: Batch, in_streams: bool
) -> None:
    loss = task.loss(
        model, packed(batch).without_labels(labels=PAD) if in_streams else batch.without_labels(labels=PAD)
    )
    assert (float(loss.sum.detach()), float(loss.nll), int(loss.count)) == (0.0, 0.0, 0)
    loss.sum.backward()
    assert all(not parameter.grad.any() for parameter in model.parameters() if parameter.grad is not None)


def test_the_likelihood_is_that_of_one_pass(task: Translation, model: MaskedTransformer, tmp_path: Path) -> None:
    pairs = [*PAIRS, ("one", "")]
    (tmp_path / "text.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs), encoding="utf-8")
    store = open_store(task, tmp_path, "test", sources=[Source(file=str(tmp_path / "text.tsv"))])
    expected, tokens = 0.0, 0
    for i in range(len(pairs)):
        batch = collate_pairs([(store.src(i), store.tgt(i))])
        words, lengths = one_by_one(model, batch, is_word(batch.labels), 0.0)
        expected += float((words + lengths).detach())
        tokens += int(batch["target_lengths"].sum())
    for budget in (1, 4096):
        found, count = task.likelihood(model, store, budget)
        assert found == pytest.approx(expected, rel=1e-5) and count == tokens


def test_validation_and_prediction_go_through_mask_predict(
    task: Translation, model: MaskedTransformer, tmp_path: Path
) -> None:
    (tmp_path / "text.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in PAIRS), encoding="utf-8")
    store = open_store(task, tmp_path, "test", sources=[Source(file=str(tmp_path / "text.tsv"))])
    examples = [{"src": a, "tgt": b} for a, b in PAIRS]
    result = changed(task, training__monitor="exact_match").validate(model, validation(store, examples))
    assert set(result.metrics) == {"loss", "perplexity", "exact_match"}
    quick = replace(task, decoding=task.writing.quick_search(task.decoding))
    assert [sample[2] for sample in result.samples] == [item["translation"] for item in quick.predict(model, examples)]
    first, blank, _ = task.predict(model, [{"src": "one two", "prefix": "eins"}, {"src": ""}, {"src": "two"}])
    assert first["translation"].startswith("eins") and blank["translation"] == ""


def test_pictures_have_a_label_for_every_row_and_column(task: Translation, model: MaskedTransformer) -> None:
    target = task.tgt_tokenizer.encode("eins zwei")
    source_pieces, target_pieces, weights = task.attention_weights(model, "one two", target)
    assert weights.encoder is not None and weights.decoder is not None and weights.cross is not None
    assert source_pieces[0] == "⟨length⟩" and source_pieces[-1] == target_pieces[-1] == "⟨/s⟩"
    assert weights.encoder.shape[-2:] == (len(source_pieces), len(source_pieces))
    assert weights.decoder.shape[-2:] == (len(target_pieces), len(target_pieces))
    assert weights.cross.shape[-2:] == (len(target_pieces), len(source_pieces))
