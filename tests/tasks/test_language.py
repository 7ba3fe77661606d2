"""Language modelling: a likelihood equal to one added up by hand, a state that is carried, prompts gone on with."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.models.outputs import with_logits
from tests.tasks.make import make_task, validation
from torch import nn

from regard.data.bptt import BPTTBatches, TokenizedText
from regard.data.sources import Source
from regard.data.texts import UNKNOWN, TextNormalizer
from regard.errors import UserError
from regard.models.language import build_language_model
from regard.models.language_markov import MarkovLanguageSettings
from regard.models.language_recurrent import RecurrentLanguageSettings
from regard.models.language_transformer import TransformerLanguageSettings
from regard.models.ngram import NGram
from regard.tasks import language
from regard.tasks.base import Prediction
from regard.tasks.language import Language
from regard.tasks.operations import open_store
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings
from regard.text.symbols import EOS

LINES = ["one two three four five six", "", "two one two one", "three three six five four one two three"] * 6
SMALL = [
    RecurrentLanguageSettings(kind="lstm", d_model=12, layers=2),
    RecurrentLanguageSettings(kind="gru", d_model=12, layers=1),
    MarkovLanguageSettings(d_model=12, d_embedding=8, history=3),
    TransformerLanguageSettings(d_model=16, num_heads=2, d_ff=16, layers=2),
]


@pytest.fixture
def text(tmp_path: Path) -> tuple[Language, TokenizedText]:
    (tmp_path / "text.txt").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    known = frozenset({"one", "two", "three", "four", "five", UNKNOWN})
    normalizer = TextNormalizer(single_blanks=True, words=known)
    vocabulary = train_tokenizer(map(normalizer, LINES), TextSettings(kind="token"))
    settings = {"data.bptt": 8, "training.samples": 2, "decoding.extra_length": 20}
    task = make_task(Language, vocabulary, normalizer, settings=settings)
    return task, open_store(task, tmp_path, "train", sources=[Source(file=str(tmp_path / "text.txt"))])


def texts_of(prediction: Prediction) -> list[str]:
    return [item["text"] for item in prediction["continuations"]]


def made(settings: Any, task: Language) -> Any:
    torch.manual_seed(1)
    return build_language_model(settings, len(task.tokenizer)).eval()


def by_hand(model: Any, ids: list[int], window: int | None) -> float:
    """-log p, every token from all tokens before it, or from those that its window holds."""
    total = 0.0
    for place, token in enumerate(ids):
        stride = place if window is None else (window + 1) // 2
        first = 0 if window is None else min(max(0, place // stride * stride + stride - window), len(ids) - window)
        read = [EOS, *ids][first : place + 1]
        logits, _ = with_logits(model(torch.tensor([read])))
        total -= float(logits[0, -1].double().log_softmax(-1)[token])
    return total


@pytest.mark.parametrize("settings", SMALL, ids=lambda settings: settings.kind)
def test_the_likelihood_is_the_one_added_up_by_hand(text: tuple[Language, TokenizedText], settings: Any) -> None:
    task, stream = text
    model = made(settings, task)
    ids = stream.ids.tolist()
    with torch.no_grad():
        wanted = by_hand(model, ids, None if model.is_stateful else task.recipe.data.bptt)
    found = task.likelihood(model, stream.ids)
    assert found == pytest.approx(wanted, rel=1e-5)
    scores = {score.name: score for score in task.score_store(model, stream)}
    assert scores["perplexity"].value == pytest.approx(math.exp(wanted / len(ids)), rel=1e-4)
    words = sum(len(line.split()) + 1 for line in LINES)
    assert scores["word perplexity"].value == pytest.approx(math.exp(wanted / words), rel=1e-4)
    characters = sum(len(line.replace("six", UNKNOWN)) + 1 for line in LINES)
    assert scores["bits per character"].value == pytest.approx(wanted / characters / math.log(2), rel=1e-4)
    assert UNKNOWN in scores["perplexity"].signature


def test_a_long_text_is_scored_in_columns(
    text: tuple[Language, TokenizedText], monkeypatch: pytest.MonkeyPatch
) -> None:
    task, stream = text
    model = made(SMALL[0], task)
    monkeypatch.setattr(language, "STREAM_TOKENS", 40)
    columns = len(stream) // 40
    assert columns > 1
    halves = np.split(stream.ids, [column * len(stream) // columns for column in range(1, columns)])
    wanted, first = 0.0, EOS
    with torch.no_grad():
        for half in halves:
            logits, _ = with_logits(model(torch.tensor([[first, *half[:-1].tolist()]])))
            wanted -= float(logits[0].log_softmax(-1).gather(1, torch.tensor(half.astype(np.int64))[:, None]).sum())
            first = int(half[-1])
    assert task.likelihood(model, stream.ids) == pytest.approx(wanted, rel=1e-5)


def test_an_n_gram_is_scored_by_its_counts(text: tuple[Language, TokenizedText]) -> None:
    task, stream = text
    model = NGram.count(stream.ids, 3, len(task.tokenizer))
    state, wanted = model.start(_one()), 0.0
    for token, label in zip([EOS, *stream.ids[:-1].tolist()], stream.ids.tolist(), strict=True):
        log_probs, state = model.step(torch.tensor([[token]]), state)
        wanted -= float(log_probs[0, 0, label])
    assert task.likelihood(model, stream.ids) == pytest.approx(wanted, rel=1e-5)
    assert math.exp(wanted / len(stream)) < 3, "it knows its text"
    assert texts_of(next(task.predict(model, [{"text": "one two"}])))[0].startswith("one two")


@pytest.mark.parametrize("settings", SMALL, ids=lambda settings: settings.kind)
def test_training_carries_what_was_read_and_begins_anew_with_an_epoch(
    text: tuple[Language, TokenizedText], settings: Any
) -> None:
    task, stream = text
    model = made(settings, task)
    reader = BPTTBatches(stream.ids, 3 * 10, 10, seed=1)
    for epoch in range(2):
        steps = [
            reader.batch(epoch * reader.steps_in_epoch() + number).micro_batches[0]
            for number in range(reader.steps_in_epoch())
        ]
        found = sum(float(task.loss(model, stretch).nll) for stretch in steps)
        whole = torch.cat([stretch["source"] for stretch in steps], dim=1)
        labels = torch.cat([stretch.labels for stretch in steps], dim=1)
        if model.is_stateful:
            logits, _ = with_logits(model(whole))
        else:
            logits = torch.cat([model(stretch["source"])[0].logits() for stretch in steps], dim=1)
        wanted = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=0, reduction="sum")
        assert found == pytest.approx(wanted.item(), rel=1e-5)
    assert set(task.recurrent_state) == {f"0.{name}" for name in model.initial_state(1)}
    assert all(not tensor.requires_grad for tensor in task.recurrent_state.values())


def test_the_carried_tensors_stay_in_their_place_and_give_way_to_another_number_of_columns(
    text: tuple[Language, TokenizedText],
) -> None:
    task, stream = text
    model = made(SMALL[0], task).train()
    reader, other = (BPTTBatches(stream.ids, columns * 10, 10, seed=1) for columns in (3, 2))
    loss = task.loss(model, reader.batch(0).micro_batches[0])
    kept = task.recurrent_state["0.h"]
    before = kept.clone()
    task.loss(model, reader.batch(1).micro_batches[0])
    loss.sum.backward()
    assert task.recurrent_state["0.h"] is kept and not torch.equal(kept, before)
    task.loss(model, other.batch(1).micro_batches[0])
    assert task.recurrent_state["0.h"].shape[0] == 2


def test_prompts_are_gone_on_with_alike_for_a_seed(text: tuple[Language, TokenizedText]) -> None:
    task, _ = text
    model = made(SMALL[0], task)
    draw = task.configure(search="sample", nbest=3, extra_length=6, seed=5)
    prompts = [{"text": text} for text in ("one  two", "", "six seven")]
    first, again = ([texts_of(item) for item in draw.predict(model, prompts)] for _ in range(2))
    assert first == again and len(first) == 3
    assert all(text.startswith("one two") for text in first[0]) and len(first[0]) == 3
    assert all(text.startswith("<unk> <unk>") for text in first[2]), "a prompt is normalised like any text"
    assert texts_of(next(draw.configure(seed=6).predict(model, prompts))) != first[0]
    assert texts_of(next(draw.predict(model, [{"text": "one two"}]))) == first[0], "independent of other prompts"


def test_a_prompt_beyond_the_positions_is_refused(text: tuple[Language, TokenizedText]) -> None:
    task, _ = text
    shape = SMALL[3].model_dump() | {"positions": "learned", "max_positions": 4}
    settings = {"data.bptt": 4, "model": shape, "decoding.search": "greedy"}
    bounded = make_task(Language, task.tokenizer, task.normalizer, settings=settings)
    model = made(bounded.recipe.model, task)
    (continuation,) = texts_of(next(bounded.predict(model, [{"text": "one two"}])))
    assert len(task.tokenizer.encode(continuation)) <= 4
    with pytest.raises(UserError) as error:
        next(bounded.predict(model, [{"text": "one two one two"}]))
    assert (error.value.code, error.value.where) == ("too-long", "prompt")


def test_validation_measures_and_shows(text: tuple[Language, TokenizedText]) -> None:
    task, stream = text
    found = task.validate(made(SMALL[1], task), validation(stream))
    assert set(found.metrics) == {"loss", "perplexity", "word_perplexity", "bits_per_character"}
    assert found.metrics["perplexity"] == pytest.approx(math.exp(found.metrics["loss"]))
    assert len(stream) == stream.words and found.metrics["word_perplexity"] == found.metrics["perplexity"]
    prompt, reference, output = found.samples[0]
    assert reference.startswith(prompt) and output.startswith(prompt) and len(found.samples) == 2


def _one() -> Any:
    from regard.attention.layouts import Padded

    return Padded.of(torch.tensor([[EOS]]), torch.tensor([1]))
