"""What is minimised is the paper's two means, padded or packed, and as in Hugging Face's BERT; masks are filled in."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from tests.models.outputs import with_logits
from tests.tasks.make import changed, make_recipe, make_task, validation
from torch import Tensor

from regard.attention.layouts import Padded
from regard.data.batch import IGNORE, WHOLE, Batch, Share, Step
from regard.data.pretraining import PretrainingBatches, TokenizedDocuments, evaluation_batches, sample_pairs
from regard.data.settings import DocumentDataSettings
from regard.errors import UserError
from regard.exchange.bert import write_bert
from regard.models.bert import BertPretraining, BertSettings
from regard.seeding import rng
from regard.tasks.pretraining import BATCH_TOKENS, Answers, Pretraining, masked_samples, scores_of
from regard.text.bert import SPECIALS, BertTokenizer

WORDS = ["the", "cat", "dog", "sat", "ran", "far", "away", "##s", "."]
VOCABULARY = BertTokenizer([*SPECIALS, *WORDS])
DATA = DocumentDataSettings(max_length=20)
SHAPE: dict[str, Any] = dict(layers=2, d_model=16, num_heads=2, d_ff=24, max_positions=24)
SETTINGS: dict[str, Any] = {"data.max_length": 20, "model.max_positions": 24, "training.samples": 2}
TASK = make_task(Pretraining, VOCABULARY, settings=SETTINGS)


def documents(seed: int = 1, count: int = 20) -> TokenizedDocuments:
    rng = np.random.default_rng(seed)
    lengths = [rng.integers(2, 7, rng.integers(3, 9)) for _ in range(count)]
    sentences = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
    pieces = rng.integers(len(SPECIALS), len(VOCABULARY), sentences[-1])
    return TokenizedDocuments(pieces, sentences, np.concatenate([[0], np.cumsum([len(each) for each in lengths])]))


def model(dropout: float = 0.0) -> BertPretraining:
    """Weights far enough from nothing to say something."""
    torch.manual_seed(3)
    built = BertPretraining(BertSettings(**SHAPE, dropout=dropout, attention_dropout=dropout), len(VOCABULARY))
    for parameter in built.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return built


def test_a_batch_holds_at_least_one_input_and_a_model_its_positions() -> None:
    exact = {"data.max_length": 24, "model.max_positions": 24, "training.batch_tokens": 24}
    assert make_recipe(Pretraining, exact).training.batch_tokens == 24
    for key, value in (("training.batch_tokens", 23), ("model.max_positions", 23)):
        with pytest.raises(UserError) as error:
            make_recipe(Pretraining, exact | {key: value})
        assert error.value.where == ("data.max_length" if key == "model.max_positions" else key)


def step(packed: bool = False, data: DocumentDataSettings = DATA, share: Share = WHOLE) -> Step:
    return PretrainingBatches(documents(), data, VOCABULARY, 200, 5, share, packed=packed).batch(2)


def gradients(built: BertPretraining, loss: Tensor) -> dict[str, Tensor]:
    built.zero_grad()
    loss.backward()
    return {name: parameter.grad.clone() for name, parameter in built.named_parameters() if parameter.grad is not None}


def two_means(built: BertPretraining, batch: Batch) -> Tensor:
    """The loss as the paper has it: all logits of all tokens, and two means."""
    every = torch.arange(batch["source"].numel())
    words, follows = with_logits(built(batch.source, batch["segments"], every))
    labels = torch.full((batch["source"].numel(),), IGNORE)
    labels[batch["masked_positions"]] = batch.labels
    return F.cross_entropy(words, labels) + F.cross_entropy(follows, batch["next_labels"])


def test_the_loss_is_two_means_with_their_gradients() -> None:
    built, found, task = model().double(), step(), TASK
    (batch,) = found.micro_batches
    loss = task.loss(built, batch)
    assert int(loss.count) == found.count > 20
    expected = two_means(built, batch)
    torch.testing.assert_close(loss.sum / found.count, expected)
    ours, theirs = gradients(built, loss.sum / found.count), gradients(built, expected)
    assert ours.keys() == theirs.keys()
    for name, gradient in theirs.items():
        torch.testing.assert_close(ours[name], gradient, atol=1e-9, rtol=1e-6, msg=name)
    words, _ = with_logits(built(batch.source, batch["segments"], batch["masked_positions"]))
    torch.testing.assert_close(loss.nll, F.cross_entropy(words, batch.labels, reduction="sum").detach())


@pytest.mark.parametrize("next_sentence", [True, False])
def test_packed_and_in_parts_it_is_the_same(next_sentence: bool) -> None:
    """Filled up, split over ranks and accumulated: the sums and their gradients stay what they are."""
    data = DATA.model_copy(update={"next_sentence": next_sentence})
    built, task = model().double(), changed(TASK, data__next_sentence=next_sentence)
    (batch,) = step(data=data).micro_batches
    whole = task.loss(built, batch).sum
    expected = gradients(built, whole)
    packed = step(True, data).micro_batches
    shares = [step(True, data, Share(rank, 2, 2)) for rank in (0, 1)]
    parts = [part for share in shares for part in share.micro_batches]
    for batches in (packed, parts):
        loss = torch.stack([task.loss(built, part).sum for part in batches]).sum()
        torch.testing.assert_close(loss, whole)
        for name, gradient in gradients(built, loss).items():
            torch.testing.assert_close(gradient, expected[name], atol=1e-8, rtol=1e-6, msg=name)
    silent = packed[0].without_labels(labels=VOCABULARY.pad, next_labels=IGNORE)
    assert float(task.loss(built, silent).sum.detach()) == 0
    assert all(not gradient.any() for gradient in gradients(built, task.loss(built, silent).sum).values())


@pytest.mark.filterwarnings("ignore")  # transformers' own deprecations are not ours to mend
def test_it_is_the_loss_of_hugging_face(tmp_path: Path) -> None:
    import transformers

    built, found = model(), step()
    write_bert(tmp_path / "bert", built.settings, built.state_dict(), VOCABULARY)
    theirs = transformers.BertForPreTraining.from_pretrained(tmp_path / "bert", attn_implementation="eager").eval()
    (batch,) = found.micro_batches
    labels = torch.full((batch["source"].numel(),), IGNORE)
    labels[batch["masked_positions"]] = batch.labels
    expected = theirs(
        input_ids=batch["source"],
        token_type_ids=batch["segments"],
        attention_mask=(torch.arange(batch["source"].size(1)) < batch["source_lengths"][:, None]).long(),
        labels=labels.view_as(batch["source"]),
        next_sentence_label=batch["next_labels"],
    )
    loss = TASK.loss(built.eval(), batch).sum / found.count
    torch.testing.assert_close(loss, expected.loss, atol=1e-5, rtol=1e-5)


CAUSAL = make_task(Pretraining, VOCABULARY, settings=SETTINGS | {"model.causal": True})


@pytest.mark.filterwarnings("ignore")  # transformers' own deprecations are not ours to mend
@pytest.mark.parametrize("packed", [False, True])
def test_left_to_right_it_is_the_language_model_of_hugging_face(tmp_path: Path, packed: bool) -> None:
    """BERT with a causal mask: the loss of every next token that is not special."""
    import transformers

    built = model()
    write_bert(tmp_path / "bert", built.settings, built.state_dict(), VOCABULARY)
    theirs = transformers.BertLMHeadModel.from_pretrained(
        tmp_path / "bert", attn_implementation="eager", is_decoder=True
    ).eval()
    causal = BertPretraining(built.settings.model_copy(update={"causal": True}), len(VOCABULARY)).eval()
    causal.load_state_dict(built.state_dict())
    data = DATA.model_copy(update={"next_sentence": False})
    steps = [
        PretrainingBatches(documents(), data, VOCABULARY, 200, 5, packed=form, objective=CAUSAL.objective).batch(2)
        for form in (False, packed)
    ]
    batch = steps[0].micro_batches[0]
    ids, lengths = batch["source"], batch["source_lengths"]
    labels = ids.masked_fill(ids < len(SPECIALS), IGNORE)
    with torch.no_grad():
        expected = theirs(
            input_ids=ids, attention_mask=(torch.arange(ids.size(1)) < lengths[:, None]).long(), labels=labels
        ).loss
        loss = changed(CAUSAL, data__next_sentence=False).loss(causal, steps[1].micro_batches[0])
    assert int(loss.count) == int((labels != IGNORE).sum()) == steps[1].count
    torch.testing.assert_close(loss.sum / loss.count, expected, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_left_to_right_a_token_depends_on_earlier_ones_only() -> None:
    built = BertPretraining(BertSettings(**SHAPE, causal=True), len(VOCABULARY)).eval()
    tokens = documents(seed=2).tokens
    sentences = np.arange(0, len(tokens) // 9 * 9 + 1, 9)
    store = TokenizedDocuments(tokens, sentences, np.array([0, 4, len(sentences) - 1]))
    names = [score.name for score in CAUSAL.score_store(built, store)]
    assert names[:2] == ["next token accuracy", "next token perplexity"]
    assert len(CAUSAL.validate(built, validation(store)).samples) == 2
    first, second = (
        next(CAUSAL.predict(built, [{"text": f"the cat [MASK] {end}", "pair": "dogs ran"}])) for end in ("away", "far")
    )
    assert first["masks"][0] == second["masks"][0], "the words after it do not matter"
    assert first["next"] != second["next"], "the last token has read all"
    batch = step(True, DATA).micro_batches[0]
    h = built.bert(batch.source, batch["segments"])
    ends = (batch["source_offsets"][1:] - 1)[batch["next_labels"] != IGNORE]
    pooled = built.bert.pool(h, batch.source.layout)[batch["next_labels"] != IGNORE]
    torch.testing.assert_close(pooled, torch.tanh(built.bert.pooler(h[ends])))


def test_settings_of_masking_have_no_effect_left_to_right() -> None:
    for key, value, where in (("data.masked", 0.3, "data.masked"), ("training.monitor", "masked_accuracy", "training")):
        with pytest.raises(UserError) as error:
            make_task(Pretraining, VOCABULARY, settings=SETTINGS | {"model.causal": True, key: value})
        assert where in str(error.value.where)


@torch.no_grad()
def test_scores_are_counted_by_hand() -> None:
    built, store = model().eval(), documents(seed=2)
    task = TASK
    words: list[tuple[float, bool]] = []
    pairs: list[tuple[float, bool]] = []
    random_next: list[int] = []
    for batch in evaluation_batches(store, DATA, VOCABULARY, BATCH_TOKENS, task.recipe.runtime.seed):
        answers = zip(
            with_logits(built(batch.source, batch["segments"], batch["masked_positions"])),
            (batch.labels, batch["next_labels"]),
            strict=True,
        )
        random_next += batch["next_labels"].tolist()
        for counted, (logits, labels) in zip((words, pairs), answers, strict=True):
            for row, label in zip(logits.log_softmax(-1), labels.tolist(), strict=True):
                counted.append((-float(row[label]), int(row.argmax()) == label))
    found = task.validate(built, validation(store)).metrics
    (nll, right), (next_nll, next_right) = (np.mean(np.array(counted), axis=0) for counted in (words, pairs))
    assert found == pytest.approx(
        {
            "loss": nll + next_nll,
            "nll": nll,
            "masked_accuracy": 100 * right,
            "masked_perplexity": math.exp(nll),
            "next_sentence_accuracy": 100 * next_right,
            "next_sentence_majority": 100 * max(np.mean(random_next), 1 - np.mean(random_next)),
        },
        rel=1e-5,
    )
    assert found == task.validate(built, validation(store)).metrics, "the same words are hidden every time"
    scores = {score.name: score for score in task.score_store(built, store)}
    assert scores["masked accuracy"].value == found["masked_accuracy"]
    assert f"{len(words)} words; 15 % masked" in scores["masked perplexity"].signature
    assert f"{len(pairs)} pairs, {np.mean(random_next):.1%} of" in scores["next sentence accuracy"].signature
    assert scores["next sentence majority"].value == found["next_sentence_majority"] > 50
    alone = changed(task, data__next_sentence=False)
    assert not any("next" in score.name for score in alone.score_store(built, store))


def test_the_majority_is_the_larger_of_the_two_answers() -> None:
    for random_next, majority in ((30, 75.0), (10, 75.0), (20, 50.0)):
        scores = {score.name: score.value for score in scores_of(Answers(1, 1, 1, 1, 20, 40, random_next))}
        assert (scores["next sentence accuracy"], scores["next sentence majority"]) == (50, majority)


@pytest.mark.parametrize("negatives", ["document", "swapped"])
def test_the_score_states_the_pairs_of_other_kinds(negatives: str) -> None:
    """Only inputs with a second text count, in the score, in its majority and in the loss."""
    task, built, store = changed(TASK, data__negatives=negatives), model().eval(), documents(seed=2)
    labels = sample_pairs(store, task.recipe.data, rng(task.recipe.runtime.seed, 0)).next_labels
    pairs = labels[labels != IGNORE]
    assert 0 < len(pairs) < len(labels)
    scores = {score.name: score for score in task.score_store(built, store)}
    assert scores["next sentence majority"].value == pytest.approx(100 * max(pairs.mean(), 1 - pairs.mean()))
    assert scores["next sentence accuracy"].signature.startswith(f"{len(pairs)} pairs, {pairs.mean():.1%}")
    batch = step(data=task.recipe.data).micro_batches[0]
    loss = task.loss(built, batch)
    torch.testing.assert_close(loss.sum / loss.count, two_means(built, batch))
    one = TokenizedDocuments(store.tokens, store.sentences, store.documents[[0, -1]])
    assert len(sample_pairs(one, task.recipe.data, rng(1))) > 1, "one document is enough"


@pytest.mark.parametrize(("length", "unusual"), [(24, False), (8, True)])
def test_inputs_of_one_sentence_are_reported(length: int, unusual: bool) -> None:
    store = documents(seed=2)
    task = changed(TASK, data__max_length=length)
    checked = task.checks.check_store(task, store)
    assert checked is not None and bool(checked[1]) == unusual
    labels = sample_pairs(store, task.recipe.data, rng(task.recipe.runtime.seed)).next_labels
    assert f"{labels.mean():.1%}" in checked[0]
    assert TASK.checks.check_store(changed(TASK, data__next_sentence=False), store) is None


def test_samples_show_what_was_hidden_and_what_was_said() -> None:
    tokens = documents(seed=2).tokens
    sentences = np.arange(0, len(tokens) // 9 * 9 + 1, 9)
    store = TokenizedDocuments(tokens, sentences, np.array([0, 4, len(sentences) - 1]))
    samples = TASK.validate(model().eval(), validation(store)).samples
    assert len(samples) == 2
    for sample in samples:
        source, reference, output = (text.split() for text in sample)
        assert "[MASK]" in " ".join(source)
        assert "[MASK]" not in " ".join(reference)
        assert output != source


@pytest.mark.parametrize(("length", "count"), [(7, 0), (8, 2), (18, 2), (19, 0)])
def test_samples_have_8_tokens_or_more_and_fit(length: int, count: int) -> None:
    tokens = documents(seed=2).tokens
    sentences = np.arange(0, len(tokens) // length * length + 1, length)
    store = TokenizedDocuments(tokens, sentences, np.array([0, len(sentences) - 1]))
    assert len(masked_samples(TASK, model().eval(), store, 2)) == count


def test_masks_are_filled_with_the_likeliest_pieces() -> None:
    built, task = model().eval(), TASK
    asked: list[dict[str, Any]] = [
        {"text": "the [MASK] sat [MASK]"}, {"text": "the cat"},
        {"text": "the [MASK] ran", "pair": "far away", "number": 3},
    ]  # fmt: skip
    one, two, three = task.predict(built, asked)
    assert len(one["masks"]) == 2 and "next" not in one
    assert two["masks"] == [] and len(three["masks"]) == 1 and 0 < three["next"] < 1
    ids = VOCABULARY.build_input(VOCABULARY.tokenize("the [MASK] sat [MASK]")).ids
    assert ids.count(VOCABULARY.mask) == 2
    tokens = Padded.of(torch.tensor([ids]), torch.tensor([len(ids)]))
    expected = built(tokens, None, torch.tensor([2, 4]))[0].logits().softmax(-1)
    for row, found in zip(expected, one["masks"], strict=True):
        best = row.topk(5)
        assert [each["token"] for each in found] == VOCABULARY.tokens(best.indices.tolist())
        assert [each["probability"] for each in found] == pytest.approx(best.values.tolist(), rel=1e-4)
    assert list(task.predict(built, [])) == []


def test_a_mask_beyond_the_positions_is_an_error() -> None:
    task = make_task(Pretraining, VOCABULARY, settings=SETTINGS | {"data.max_length": 8, "model.max_positions": 8})
    with pytest.raises(UserError) as error:
        list(task.predict(model().eval(), [{"text": "the cat sat far away . the [MASK] ran"}]))
    assert (error.value.code, error.value.where) == ("too-long", "text")
