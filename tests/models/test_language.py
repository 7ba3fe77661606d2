"""Properties of any language model: steps equal the whole pass, and the context has the length of the settings."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from pydantic import TypeAdapter, ValidationError
from tests.models.outputs import with_logits
from torch import Tensor, nn

from regard.attention.layouts import Padded, Tokens
from regard.decoding.engine import DecodingRequest
from regard.decoding.settings import DecodingSettings
from regard.decoding.stepper import Symbols
from regard.engines.stepper_engine import StepperEngine
from regard.models.language import LanguageModelSettings, build_language_model
from regard.models.language_recurrent import locked_dropout, word_dropout

V = 30
ALL = [
    dict(kind="rnn", d_model=12),
    dict(kind="gru", d_model=12, d_embedding=8, layers=3),
    dict(kind="lstm", d_model=12, weight_drop=0.4),
    dict(kind="lstm", d_model=12, d_embedding=8, layers=1, tie="none"),
    dict(kind="markov", history=1, d_model=12, d_embedding=8),
    dict(kind="markov", history=4, d_model=12, d_embedding=8, direct=True),
    dict(kind="markov", history=4, d_model=12, d_embedding=8, direct=True, tie="none"),
    dict(kind="transformer", d_model=16, num_heads=2, d_ff=32, layers=2),
    dict(kind="transformer", d_model=16, num_heads=2, d_ff=32, layers=2, positions="learned", combine="concat"),
    dict(kind="transformer", d_model=16, num_heads=2, d_ff=32, layers=2, positions="alibi", window=3, tie="none"),
    dict(kind="transformer", d_model=16, num_heads=2, d_ff=32, layers=2, positions="relative", norm="post"),
    dict(kind="rnn-sigmoid", d_model=12, output_bias=True),
    dict(kind="gru-cho", d_model=12, d_embedding=8, layers=2, tie="none", output_bias=True),
    dict(kind="markov", history=2, d_model=12, d_embedding=8, tie="none", output_bias=True),
    dict(kind="transformer", d_model=16, num_heads=2, d_ff=0, layers=2, norm_kind="batch", output_bias=True),
    dict(kind="transformer", d_model=16, num_heads=2, d_ff=32, layers=2, self_attention=False),
]
CARRYING = [values for values in ALL if values["kind"] != "transformer"]


def build(values: dict[str, Any], vocabulary: int = V) -> Any:
    torch.manual_seed(0)
    settings: Any = TypeAdapter(LanguageModelSettings).validate_python(values)
    return build_language_model(settings, vocabulary).eval()


def stream(columns: int = 3, length: int = 9) -> Tensor:
    return torch.randint(3, V, (columns, length), generator=torch.Generator().manual_seed(1))


def source(sentences: int) -> Tokens:
    return Padded.of(torch.full((sentences, 1), 2), torch.ones(sentences, dtype=torch.long))


@pytest.mark.parametrize("values", ALL, ids=str)
def test_word_by_word_is_the_text_at_once(values: dict[str, Any]) -> None:
    model, ids = build(values), stream()
    expected, _ = with_logits(model(ids))
    assert expected.shape == (3, 9, V)
    state = model.start(source(3))
    for t in range(9):
        logits, state = model.step(ids[:, t : t + 1], state)
        torch.testing.assert_close(logits[:, 0], expected[:, t], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("values", ALL, ids=str)
def test_a_state_can_be_widened_reordered_and_thinned(values: dict[str, Any]) -> None:
    """Hypotheses are moved about as a search would; each must keep its own history."""
    model, generator = build(values), torch.Generator().manual_seed(7)
    state, history = model.start(source(4)), torch.empty(4, 1, 0, dtype=torch.long)
    for width in (1, 3, 2, 4):
        sentences, before = history.shape[:2]
        parents = torch.randint(before, (sentences, width), generator=generator)
        state, history = state.reorder(parents), history.gather(1, parents[:, :, None].expand(-1, -1, history.size(2)))
        if width == 2:
            kept = torch.tensor([3, 1])
            state, history = state.keep(kept), history[kept]
        tokens = torch.randint(3, V, history.shape[:2], generator=generator)
        history = torch.cat([history, tokens[:, :, None]], dim=2)
        logits, state = model.step(tokens, state)
        expected = model(history.flatten(0, 1))[0].logits()[:, -1].view_as(logits)
        torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("values", CARRYING, ids=str)
def test_stretch_by_stretch_with_the_state_carried_is_the_stream_at_once(values: dict[str, Any]) -> None:
    model, ids = build(values), stream()
    assert model.is_stateful
    expected, last = with_logits(model(ids))
    state, found = model.initial_state(3), []
    for stretch in ids.split([2, 1, 5, 1], dim=1):
        logits, state = with_logits(model(stretch, state))
        found.append(logits)
    torch.testing.assert_close(torch.cat(found, dim=1), expected, atol=1e-5, rtol=1e-5)
    assert state.keys() == last.keys() == model.initial_state(3).keys()
    for name, tensor in state.items():
        assert tensor.size(0) == 3 and not tensor.requires_grad
        torch.testing.assert_close(tensor, last[name])
    elsewhere, _ = with_logits(model(ids[:, 2:]))
    assert not torch.allclose(elsewhere[:, 0], expected[:, 2]) or values.get("history") == 1


@pytest.mark.parametrize("values", [values for values in ALL if values.get("output_bias")], ids=str)
def test_an_output_bias_is_added_to_the_logits(values: dict[str, Any]) -> None:
    model, without, ids = build(values), build({**values, "output_bias": False}), stream()
    logits = with_logits(model(ids))[0]
    torch.testing.assert_close(logits, with_logits(without(ids))[0])  # it starts at zero
    added = torch.randn(V)
    with torch.no_grad():
        model.output.bias.copy_(added)
    torch.testing.assert_close(with_logits(model(ids))[0], logits + added, atol=1e-5, rtol=1e-5)
    assert without.output.bias is None and model.output.bias.shape == (V,)


def test_a_transformer_reads_stretches_apart() -> None:
    model = build(ALL[7])
    assert not model.is_stateful and model.initial_state(3) == {} and model(stream())[1] == {}


@pytest.mark.parametrize("values", ALL, ids=str)
def test_no_word_sees_those_after_it(values: dict[str, Any]) -> None:
    model, ids = build(values), stream()
    before, _ = with_logits(model(ids))
    changed = ids.clone()
    changed[:, 5:] = 3 + (ids[:, 5:] + 4) % (V - 3)
    after, _ = with_logits(model(changed))
    torch.testing.assert_close(after[:, :5], before[:, :5])
    assert not torch.allclose(after[:, 5], before[:, 5])


@pytest.mark.parametrize("values", ALL, ids=str)
def test_gradients_reach_every_weight_and_stop_at_the_state(values: dict[str, Any]) -> None:
    model, ids = build(values).train(), stream()
    _, state = with_logits(model(ids))
    logits, _ = with_logits(model(ids, state))
    F.cross_entropy(logits.flatten(0, 1), ids.flatten()).backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None and weight.grad.abs().sum() > 0, name


@pytest.mark.parametrize("values", ALL, ids=str)
def test_the_output_can_be_read_by_a_loss_and_in_bf16(values: dict[str, Any], monkeypatch: Any) -> None:
    """A state keeps its type whatever the precision around it, so that every step is the same program."""
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)  # which may ask for instructions a machine has not
    model, ids = build(values).train(), stream()
    projection, _ = model(ids)
    assert projection.hidden.shape[:2] == (3, 9) and projection.weight.shape == (V, projection.hidden.shape[2])
    with torch.autocast("cpu", torch.bfloat16):
        logits, state = with_logits(model(ids, model.initial_state(3)))
    assert logits.isfinite().all()
    assert {name: x.dtype for name, x in state.items()} == {name: x.dtype for name, x in model.initial_state(3).items()}


@pytest.mark.parametrize("search", ["greedy", "beam", "sample"])
@pytest.mark.parametrize("values", [ALL[2], ALL[5], ALL[7]], ids=str)
def test_every_search_generates(values: dict[str, Any], search: str) -> None:
    """The score of a search equals the log-probability of the model; the text begins after the end of a line."""
    model = build(values)
    engine = StepperEngine(model, Symbols(bos=2, eos=2, pad=0), torch.device("cpu"))
    settings = DecodingSettings.model_validate(dict(search=search))
    first, second = engine.decode(
        DecodingRequest([[2], [2]], [6, 6], settings, prefixes=[[5, 6], []], sentence_ids=[0, 1])
    )
    assert first[0].tokens[:2] == [5, 6]
    written = torch.tensor([2, *second[0].tokens, 2])
    log_p = model(written[None, :-1])[0].logits()[0].detach().log_softmax(dim=-1).gather(1, written[1:, None]).flatten()
    assert len(second[0].tokens) <= 6
    assert second[0].log_prob == pytest.approx(float(log_p[: len(log_p) - (not second[0].finished)].sum()), abs=1e-4)


def test_only_a_transformer_has_attentions() -> None:
    ids = stream()
    weights = build(ALL[9]).attentions(ids)
    assert weights.encoder is None and weights.cross is None
    assert weights.decoder.shape == (3, 2, 2, 9, 9)
    torch.testing.assert_close(weights.decoder.sum(-1), torch.ones(3, 2, 2, 9))
    assert (weights.decoder.triu(1) == 0).all() and (weights.decoder.tril(-4) == 0).all()
    assert build(ALL[0]).attentions(ids).decoder is None


def test_locked_dropout_drops_the_same_components_at_every_step() -> None:
    torch.manual_seed(0)
    x = locked_dropout(torch.ones(4, 6, 50), 0.5, training=True)
    assert torch.equal(x, x[:, :1].expand_as(x)) and not torch.equal(x[0], x[1])
    assert set(x.unique().tolist()) == {0.0, 2.0}
    assert locked_dropout(x, 0.5, training=False) is x


def test_word_dropout_drops_a_word_wherever_it_stands() -> None:
    torch.manual_seed(0)
    ids = torch.tensor([[3, 4, 3, 5, 4], [5, 3, 4, 6, 6]])
    kept = word_dropout(torch.ones(2, 5, 8), ids, 7, 0.5, training=True)
    assert set(kept.unique().tolist()) == {0.0, 2.0}
    for word in range(3, 7):
        assert len(kept[ids == word].unique()) == 1
    assert word_dropout(kept, ids, 7, 0.5, training=False) is kept


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
def test_dropped_weights_are_missing_from_the_fused_kernel(kind: str) -> None:
    """The thinned layer is the plain one with the same entries of U put to zero, in values and gradients."""
    model = build(dict(kind=kind, d_model=10, layers=1, weight_drop=0.5)).double()
    layer = model.layers[0].train()
    x = torch.randn(2, 7, 10, dtype=torch.float64)
    torch.manual_seed(3)
    thinned, after = layer(x)
    thinned.square().sum().backward()
    found = [weight.grad.clone() for weight in layer.parameters()]
    layer.zero_grad()
    torch.manual_seed(3)
    W, U, b, d = layer.matrices()
    dropped = F.dropout(U, 0.5)
    assert 0.3 < float((dropped == 0).double().mean()) < 0.7
    plain = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[kind](10, 10, batch_first=True).double()
    with torch.no_grad():
        for mine, theirs in zip(plain.parameters(), (W, dropped, b, d), strict=True):
            mine.copy_(theirs)
    y, last = plain(x)
    y.square().sum().backward()
    torch.testing.assert_close(thinned, y)
    torch.testing.assert_close(after[0], (last[0] if kind == "lstm" else last)[0])
    expected = [weight.grad for weight in plain.parameters()]
    expected[1] = expected[1] * (dropped != 0) * 2
    torch.testing.assert_close(found, expected)


def test_evaluation_drops_nothing() -> None:
    for values in ALL:
        model, ids = build(values), stream()
        torch.testing.assert_close(model(ids)[0].logits(), model(ids)[0].logits(), atol=0, rtol=0)
        model.train()
        assert not torch.allclose(model(ids)[0].logits(), model(ids)[0].logits()), values


def test_settings_are_told_apart_by_their_kind() -> None:
    for values in (dict(kind="conv"), dict(kind="lstm", history=3), dict(kind="ngram", d_model=8)):
        with pytest.raises(ValidationError):
            TypeAdapter(LanguageModelSettings).validate_python(values)
    summaries = {build(values).settings.summary.split(",")[0] for values in ALL}
    assert {"RNN language model", "LSTM language model", "Transformer language model"} <= summaries
    assert build(ALL[8]).settings.length_limit == 1024 and build(ALL[7]).settings.length_limit is None


def test_learned_positions_say_when_they_run_out() -> None:
    model = build(dict(kind="transformer", d_model=8, num_heads=2, layers=1, positions="learned", max_positions=4))
    with pytest.raises(ValueError, match="beyond the 4 learned"):
        with_logits(model(stream(1, 5)))


def perplexity_after(model: Any, batches: Any, steps: int, rate: float = 0.01) -> float:
    """Train on ids (B, T), each predicting the next, and measure on one more batch, its first half not counted."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    model.train()
    for _ in range(steps):
        ids = batches()
        loss = F.cross_entropy(model(ids[:, :-1])[0].logits().flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ids, half = batches(), 9
    with torch.no_grad():
        logits = model.eval()(ids[:, :-1])[0].logits()[:, half:]
    return float(F.cross_entropy(logits.flatten(0, 1), ids[:, 1 + half :].flatten()).exp())


@pytest.mark.parametrize(
    "values",
    [
        dict(kind="lstm", d_model=24, layers=1),
        dict(kind="gru", d_model=24, layers=1),
        dict(kind="transformer", d_model=24, num_heads=2, d_ff=48, layers=2),
    ],
    ids=str,
)
def test_a_cyclic_language_is_learnt(values: dict[str, Any]) -> None:
    """3 4 3 5 3 6 over and over: what follows 3 depends on what came before it."""
    generator = torch.Generator().manual_seed(2)

    def batches() -> Tensor:
        begin = torch.randint(6, (8, 1), generator=generator)
        return torch.tensor([3, 4, 3, 5, 3, 6])[(begin + torch.arange(20)) % 6]

    assert perplexity_after(build(values, 8), batches, 120) < 1.2


@pytest.mark.parametrize(("history", "knows"), [(3, True), (2, False)])
def test_a_markov_model_knows_what_lies_within_its_history_and_nothing_before_it(history: int, knows: bool) -> None:
    """Every word is the one three before it, and nothing else says which: four words, so a guess costs a factor 4."""
    generator = torch.Generator().manual_seed(2)

    def batches() -> Tensor:
        return torch.randint(3, 7, (32, 3), generator=generator).repeat(1, 7)

    model = build(dict(kind="markov", history=history, d_model=64, d_embedding=16, dropout=0.0), 8)
    perplexity = perplexity_after(model, batches, 300)
    assert perplexity < 1.2 if knows else 3.5 < perplexity < 5
    ids, changed = stream(1, 9), stream(1, 9)
    changed[0, 3] = 3
    model = build(dict(kind="markov", history=history, d_model=8, d_embedding=8))
    moved = (model(ids)[0].logits() != model(changed)[0].logits()).any(dim=-1)[0]
    assert moved.nonzero().flatten().tolist() == list(range(3, 3 + history))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
def test_dropped_weights_train_on_a_gpu_with_a_carried_state(kind: str) -> None:
    model = build(dict(kind=kind, d_model=12, layers=2, weight_drop=0.4)).cuda().train()
    ids = torch.randint(V, (3, 5), device="cuda")
    _, state = model(ids)
    projection, _ = model(ids, state)  # the state of one layer is a view that is not contiguous
    projection.logits().sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
