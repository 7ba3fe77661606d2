"""Properties of any recurrent translation model: steps equal the whole pass, padding has no effect, it learns."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from pydantic import ValidationError
from torch import Tensor

from regard.attention.layouts import Padded, Tokens
from regard.decoding.engine import DecodingRequest
from regard.decoding.search import decode
from regard.decoding.settings import DecodingSettings
from regard.decoding.stepper import Ensemble, Symbols
from regard.engines.stepper_engine import StepperEngine
from regard.models.recurrent import RecurrentModel, RecurrentSettings

V, W = 40, 3
SYMBOLS = Symbols(bos=1, eos=2, pad=0)
KINDS = ["global", "local-m", "local-p", "hard-gumbel", "hard-reinforce"]
VARIANTS: list[dict[str, Any]] = [
    dict(decoder="plain"),
    dict(decoder="plain", cell="gru", tie="output"),
    dict(decoder="plain", cell="rnn", layers=1, encoder="forward", tie="all"),
    dict(decoder="bahdanau"),
    dict(decoder="bahdanau", cell="lstm", layers=2, tie="all"),
    dict(decoder="bahdanau", cell="rnn", encoder="backward", score="dot"),
    dict(decoder="luong"),
    dict(decoder="luong", input_feeding=False),
    dict(decoder="luong", cell="gru", layers=1, encoder="both", tie="output"),
    # Every kind of attention with all positions at once, and with one position at a time in either order.
    *(dict(decoder="luong", attention=kind, input_feeding=False, window=2) for kind in KINDS),
    *(dict(decoder="luong", attention=kind, window=2) for kind in ("local-m", "hard-reinforce")),
    *(dict(decoder="bahdanau", attention=kind, window=2) for kind in ("local-p", "hard-gumbel")),
    dict(decoder="luong", attention="global", score="cosine"),
    dict(decoder="luong", attention="global", query="previous", input_feeding=False),
    dict(decoder="luong", query="previous", cell="gru-cho"),
    dict(decoder="bahdanau", cell="rnn-sigmoid"),
]


def build(**settings: Any) -> RecurrentModel:
    torch.manual_seed(0)
    small: dict[str, Any] = dict(d_model=12, d_embedding=10, dropout=0.3)
    if settings["decoder"] != "bahdanau":
        small["layers"] = 2
    return RecurrentModel(RecurrentSettings.model_validate(small | settings), V, V).eval()


def batch() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    src = torch.randint(3, V, (4, 9), generator=generator)
    tgt = torch.randint(3, V, (4, 7), generator=generator)
    return src, torch.tensor([9, 4, 1, 7]), tgt, torch.tensor([3, 7, 5, 1])


def whole(tgt: Tensor) -> Tokens:
    return Padded.of(tgt, torch.full((len(tgt),), tgt.size(1)))


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_steps_equal_the_whole(variant: dict[str, Any]) -> None:
    """Each of W hypotheses of a sentence, which share its source, as one target of its own."""
    model = build(**variant)
    src, src_lengths, *_ = batch()
    tgt = torch.randint(3, V, (4, W, 7), generator=torch.Generator().manual_seed(3))
    rows = torch.arange(4).repeat_interleave(W)
    expected = model(Padded.of(src[rows], src_lengths[rows]), whole(tgt.flatten(0, 1))).logits()
    state = model.start(Padded.of(src, src_lengths)).reorder(torch.zeros(4, W, dtype=torch.long))
    for position in range(7):
        logits, state = model.step(tgt[:, :, position], state)
        torch.testing.assert_close(logits.flatten(0, 1), expected[:, position], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_a_sentence_in_a_batch_is_the_sentence_alone(variant: dict[str, Any]) -> None:
    model = build(**variant)
    src, src_lengths, tgt, tgt_lengths = batch()
    together = model(Padded.of(src, src_lengths), Padded.of(tgt, tgt_lengths)).logits()
    weights = model.attentions(Padded.of(src, src_lengths), Padded.of(tgt, tgt_lengths)).cross
    for row, (s, t) in enumerate(zip(src_lengths.tolist(), tgt_lengths.tolist(), strict=True)):
        one = whole(src[row : row + 1, :s]), whole(tgt[row : row + 1, :t])
        torch.testing.assert_close(together[row, :t], model(*one).logits()[0], atol=1e-5, rtol=1e-5)
        if weights is not None:
            alone = model.attentions(*one).cross
            assert alone is not None and (weights[row, ..., s:] == 0).all()
            torch.testing.assert_close(weights[row, :, :, :t, :s], alone[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_no_position_sees_the_future(variant: dict[str, Any]) -> None:
    model = build(**variant)
    src, src_lengths, tgt, _ = batch()
    before = model(Padded.of(src, src_lengths), whole(tgt)).logits()
    changed = tgt.clone()
    changed[:, 4:] = (tgt[:, 4:] + 7) % (V - 3) + 3
    after = model(Padded.of(src, src_lengths), whole(changed)).logits()
    torch.testing.assert_close(after[:, :4], before[:, :4], atol=0, rtol=0)
    assert (after[:, 4] != before[:, 4]).any(dim=-1).all()


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_gradients_reach_every_parameter(variant: dict[str, Any]) -> None:
    model = build(**variant).train()
    src, src_lengths, tgt, _ = batch()

    projection = model(Padded.of(src, src_lengths), whole(tgt))
    assert (projection.samples is not None) == (variant.get("attention") == "hard-reinforce")
    loss = projection.logits().cumsum(-1).square().mean()
    if projection.samples is not None:
        for name, value in vars(projection.samples).items():
            assert value.shape == tgt.shape, name
            loss = loss + value.sum()
    loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.any(), name


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_half_precision_changes_little_and_trains(variant: dict[str, Any]) -> None:
    model = build(**variant)
    src, src_lengths, tgt, _ = batch()
    exact = model(Padded.of(src, src_lengths), whole(tgt)).logits()
    with torch.autocast("cpu", torch.float16):  # as bf16, which some CPUs cannot compute in
        rough = model(Padded.of(src, src_lengths), whole(tgt)).logits()
        logits, state = model.step(tgt[:, :1], model.start(Padded.of(src, src_lengths)))
        rough.float().square().mean().backward()
    if not variant.get("cell", "").startswith("rnn"):  # which keep nothing but what they have just computed
        assert all(part.dtype == torch.float32 for layer in state.hidden for part in layer)
    if not variant.get("attention", "").startswith("hard"):  # which would look elsewhere for the last bit
        torch.testing.assert_close(rough.float(), exact, atol=0.1, rtol=0.1)
        torch.testing.assert_close(logits[:, 0].float(), exact[:, 0], atol=0.1, rtol=0.1)


def test_the_query_is_the_only_difference() -> None:
    """Equal weights and states; the previous state attends as the current one did a token earlier."""
    settings: dict[str, Any] = dict(decoder="luong", attention="global", input_feeding=False, layers=1)
    current, previous = (build(**settings, query=query) for query in ("current", "previous"))
    previous.load_state_dict(current.state_dict())
    src, src_lengths, tgt, _ = batch()
    source = Padded.of(src, src_lengths)
    now, before = (model.attentions(source, whole(tgt)).cross for model in (current, previous))
    assert now is not None and before is not None
    torch.testing.assert_close(before[:, :, :, 1:], now[:, :, :, :-1])
    state = current.start(source)
    first = current.decoder.source_attention(state.top, state.memory, 0).weights  # type: ignore[operator]
    torch.testing.assert_close(before[:, 0, 0, :1], first)
    s = [model.decoder.states(model.tgt_embedding(tgt), model.start(source)) for model in (current, previous)]
    torch.testing.assert_close(*s)


def test_a_state_can_be_widened_reordered_and_thinned() -> None:
    """Hypotheses are moved about as a search would; each must keep its own history."""
    for variant in (dict(decoder="plain"), dict(decoder="bahdanau"), dict(decoder="luong")):
        model = build(**variant)
        src, src_lengths, *_ = batch()
        generator = torch.Generator().manual_seed(7)
        state = model.start(Padded.of(src, src_lengths))
        history = torch.empty(4, 1, 0, dtype=torch.long)
        alive = torch.arange(4)
        for width in (1, 3, 2, 4):
            parents = torch.randint(history.size(1), (len(alive), width), generator=generator)
            state = state.reorder(parents)
            history = history.gather(1, parents[:, :, None].expand(-1, -1, history.size(2)))
            if width == 2:
                kept = torch.tensor([3, 1])
                state, history, alive = state.keep(kept), history[kept], alive[kept]
            tokens = torch.randint(3, V, (len(alive), width), generator=generator)
            history = torch.cat([history, tokens[:, :, None]], dim=2)
            logits, state = model.step(tokens, state)
            for row, sentence in enumerate(alive.tolist()):
                source = Padded.of(src[[sentence] * width], src_lengths[[sentence] * width])
                expected = model(source, whole(history[row])).logits()[:, -1]
                torch.testing.assert_close(logits[row], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("search", [dict(search="greedy"), dict(beam=3), dict(search="sample", nbest=2)], ids=str)
def test_every_search_takes_it_alone_and_in_an_ensemble(search: dict[str, Any]) -> None:
    settings = DecodingSettings.model_validate(search)
    models: list[Any] = [build(decoder="bahdanau"), build(decoder="luong"), build(decoder="plain")]
    sources = [[5, 6, 2], [7, 8, 9, 10, 11, 2], [2]]
    for stepper in (*models, Ensemble(models)):
        found = StepperEngine(stepper, SYMBOLS, torch.device("cpu")).decode(
            DecodingRequest(sources, [8, 8, 8], settings)
        )
        assert len(found) == 3 and all(answers for answers in found)


def test_the_score_of_a_hypothesis_is_the_models() -> None:
    model = build(decoder="luong")
    src = Padded.of(torch.tensor([[5, 6, 7, 2]]), torch.tensor([4]))
    with torch.inference_mode():
        (best,) = decode(model, src, torch.tensor([6]), SYMBOLS, DecodingSettings(beam=4))[0][:1]
    tokens = [*best.tokens, 2] if best.finished else best.tokens
    log_p = model(src, whole(torch.tensor([[1, *tokens[:-1]]]))).logits().detach().log_softmax(-1)[0]
    assert best.log_prob == pytest.approx(sum(float(log_p[t, token]) for t, token in enumerate(tokens)), abs=1e-3)


@pytest.mark.parametrize(
    ("decoder", "expected"),
    [
        ("plain", ("lstm", 4, "backward", 1000, 1000, "none", False, 0.0)),
        ("bahdanau", ("gru", 1, "both", 1000, 620, "global", False, 0.0)),
        ("luong", ("lstm", 4, "backward", 1000, 1000, "local-p", True, 0.2)),
    ],
)
def test_a_decoder_alone_is_its_paper(decoder: str, expected: tuple[Any, ...]) -> None:
    s = RecurrentSettings.model_validate(dict(decoder=decoder))
    found = (s.cell, s.layers, s.encoder, s.d_model, s.d_embedding, s.attention, s.input_feeding, s.dropout)
    assert found == expected
    assert s.query == ("current" if decoder == "luong" else "previous")
    assert RecurrentSettings.model_validate(s.model_dump()) == s


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (dict(decoder="plain", attention="global"), 'attention = "none"'),
        (dict(decoder="luong", attention="none"), 'decoder = "plain"'),
        (dict(decoder="plain", encoder="both"), 'encoder = "backward"'),
        (dict(decoder="bahdanau", input_feeding=True), "input_feeding = false"),
        (dict(decoder="bahdanau", score="dot"), 'score = "general"'),
        (dict(decoder="bahdanau", query="current"), 'query = "previous"'),
    ],
)
def test_contradictions_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        RecurrentSettings.model_validate(wrong)


def test_one_matrix_where_tied_and_one_vocabulary_where_it_must_be() -> None:
    for tie, matrices in (("all", 1), ("output", 2), ("none", 3)):
        model = build(decoder="luong", tie=tie)
        assert len({id(x.weight) for x in (model.src_embedding, model.tgt_embedding, model.output)}) == matrices
    with pytest.raises(ValueError, match="shared vocabulary"):
        RecurrentModel(RecurrentSettings(d_model=4, tie="all"), 10, 11)


def reversals(count: int, generator: torch.Generator) -> tuple[Tokens, Tokens, Tensor]:
    """Source, shifted target and labels: two to five of eight words, and the same backward."""
    lengths, places = torch.randint(2, 6, (count, 1), generator=generator), torch.arange(6)
    words = torch.randint(3, 11, (count, 6), generator=generator)
    end = torch.where(places == lengths, 2, 0)
    src = torch.where(places < lengths, words, end)
    labels = torch.where(places < lengths, words.gather(1, (lengths - 1 - places).clamp(min=0)), end)
    tgt = torch.cat([torch.ones(count, 1, dtype=torch.long), labels[:, :-1]], dim=1)
    return Padded.of(src, lengths[:, 0] + 1), Padded.of(tgt, lengths[:, 0] + 1), labels


@pytest.mark.parametrize(
    "style",
    [
        dict(decoder="bahdanau"),
        dict(decoder="luong", attention="global", input_feeding=False),
        dict(decoder="luong", attention="local-p", window=3),
    ],
    ids=str,
)
def test_it_learns_to_write_backwards_and_looks_where_it_reads(style: dict[str, Any]) -> None:
    torch.manual_seed(0)
    settings = dict(d_model=40, d_embedding=20, layers=1, dropout=0.0, tie="all", encoder="both") | style
    model = RecurrentModel(RecurrentSettings.model_validate(settings), 11, 11)
    generator = torch.Generator().manual_seed(4)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(80):
        src, tgt, labels = reversals(64, generator)
        optimizer.param_groups[0]["lr"] = 5e-3 * (1 - step / 80)
        loss = F.cross_entropy(model(src, tgt).logits().flatten(0, 1), labels.flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    src, tgt, labels = reversals(200, generator)
    rows = [ids[:n] for ids, n in zip(src.ids.tolist(), src.layout.lengths.tolist(), strict=True)]  # type: ignore[attr-defined]
    found = StepperEngine(model, SYMBOLS, torch.device("cpu")).decode(
        DecodingRequest(rows, [8] * 200, DecodingSettings(search="greedy"))
    )
    right = sum(answers[0].tokens == row[-2::-1] for answers, row in zip(found, rows, strict=True))
    assert right >= 190, right
    cross = model.attentions(src, tgt).cross
    assert cross is not None
    looked = [
        int(cross[row, 0, 0, t].argmax()) - (len(ids) - 2 - t)
        for row, ids in enumerate(rows)
        for t in range(len(ids) - 1)
    ]
    assert sum(abs(distance) <= 1 for distance in looked) >= 0.8 * len(looked)
