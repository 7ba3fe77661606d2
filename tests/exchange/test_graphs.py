"""Graphs of models: the functions that are exported compute what the models compute, for inputs of any size."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.exchange.graphs import HYPOTHESES, NEW, SOURCE, Graph, graphs_of, program_of, tokens_of
from regard.models.bert import Bert, BertPretraining, BertSettings
from regard.models.biaffine import BiaffineHead, BiaffineParser
from regard.models.language_recurrent import RecurrentLanguageModel, RecurrentLanguageSettings
from regard.models.language_transformer import TransformerLanguageModel, TransformerLanguageSettings
from regard.models.ngram import NGram, NGramSettings
from regard.models.recurrent import RecurrentModel, RecurrentSettings
from regard.models.text_encoder import EncoderWithHead, TransformerEncoder, TransformerEncoderSettings
from regard.models.transformer import Transformer, TransformerSettings

VOCABULARY = 20
SHAPE: dict[str, Any] = dict(d_model=8, num_heads=2, d_ff=12)
VARIANTS: dict[str, dict[str, Any]] = {
    "post-norm": {},
    "pre-norm, rotary": {"norm": "pre", "positions": "rotary"},
    "learned, untied, bias": {"positions": "learned", "tie": "none", "output_bias": True},
    "relative, window": {"positions": "relative", "window": 2},
    "alibi, additive": {"positions": "alibi", "score": "additive"},
    "window": {"window": 1, "share_qk": True},
    "no positions, head size": {"positions": "none", "head_dim": 6},
    "no self-attention": {"self_attention": False},
    "recurrent decoder": {"decoder_layer": "ssru"},
    "no feed-forward": {"d_ff": 0, "norm_kind": "none"},
    "concatenated": {"combine": "concat", "relative_positions": "alibi"},
}
BERT = BertSettings(size="tiny", layers=1, max_positions=12, **SHAPE)


def randomised(model: nn.Module) -> Any:
    """The model with weights that are not zero, for evaluation."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.3 * torch.randn(weight.shape, generator=generator))
    return model.eval()


def translator(**changes: Any) -> Any:
    torch.manual_seed(0)
    layers: dict[str, Any] = dict(size="tiny", encoder_layers=1, decoder_layers=2)
    return randomised(Transformer(TransformerSettings(**(layers | SHAPE | changes)), VOCABULARY, VOCABULARY))


def random_ids(*shape: int) -> Tensor:
    return torch.randint(3, VOCABULARY, shape, generator=torch.Generator().manual_seed(sum(shape)))


def texts(sentences: int, size: int) -> tuple[Tensor, Tensor]:
    """Token ids and their mask; the last sentence is half as long as the others."""
    mask = torch.ones(sentences, size, dtype=torch.long)
    mask[-1, (size + 1) // 2 :] = 0
    return random_ids(sentences, size), mask


@torch.no_grad()
def compare_steps(model: Any, graphs: Sequence[Graph], run: Any, sizes: tuple[int, int, int]) -> None:
    """Compare six steps of the model with those of its graphs, which `run(graph, inputs)` runs."""
    sentences, source, width = sizes
    ids, mask = texts(sentences, source)
    state, decoder = model.start(tokens_of(ids, mask)), graphs[-1]
    values = decoder.signature.state
    if len(graphs) == 2:
        tensors = list(run(graphs[0], (ids, mask)))
    else:
        sizes_of = {"batch": sentences, "hypotheses": 1, "past": 0}
        tensors = [torch.zeros([sizes_of[a] if isinstance(a, str) else a for a in value.axes]) for value in values]
    state = state.reorder(torch.zeros(sentences, width, dtype=torch.long))
    for number, value in enumerate(values):
        if HYPOTHESES in value.axes:
            tensors[number] = tensors[number].repeat_interleave(width, dim=value.axes.index(HYPOTHESES))
    names = [value.name for value in values]
    for step in range(6):
        tokens = random_ids(sentences, width) if step else torch.ones(sentences, width, dtype=torch.long)
        expected, state = model.step(tokens, state)
        logits, *new = run(decoder, (tokens, *tensors))
        torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)
        for value, tensor in zip(decoder.signature.outputs[1:], new, strict=True):
            tensors[names.index(value.name.removeprefix(NEW))] = tensor


def as_module(graph: Graph, inputs: tuple[Tensor, ...]) -> Any:
    return graph.module(*inputs)


@pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS.keys())
def test_steps_of_every_variant(changes: dict[str, Any]) -> None:
    model = translator(**changes)
    graphs = graphs_of(model)
    assert graphs is not None and [graph.signature.name for graph in graphs] == ["encoder", "decoder"]
    compare_steps(model, graphs, as_module, (3, 7, 2))
    compare_steps(model, graphs, as_module, (1, 1, 1))
    assert any(SOURCE in value.axes for value in graphs[1].signature.state)


def test_steps_of_a_language_model() -> None:
    settings = TransformerLanguageSettings(layers=2, window=3, **SHAPE)
    model = randomised(TransformerLanguageModel(settings, VOCABULARY))
    graphs = graphs_of(model)
    assert graphs is not None and [graph.signature.name for graph in graphs] == ["decoder"]
    compare_steps(model, graphs, as_module, (2, 1, 3))


def text_models() -> dict[str, Any]:
    torch.manual_seed(0)
    causal = TransformerEncoderSettings(layers=1, causal=True, pooling="last", window=2, positions="alibi", **SHAPE)
    head = BiaffineHead(8, 4, 4, 3, 0.0)
    return {
        "classes": EncoderWithHead(Bert(BERT, VOCABULARY), 3, pooled=True, dropout=0.1),
        "tokens": EncoderWithHead(Bert(BERT, VOCABULARY), 2, pooled=False, dropout=0.1),
        "causal": EncoderWithHead(TransformerEncoder(causal, VOCABULARY), 3, pooled=True, dropout=0.1),
        "parser": BiaffineParser(Bert(BERT, VOCABULARY), head, 0.1),
    }


@pytest.mark.parametrize("name", text_models())
def test_text_encoders_with_a_head(name: str) -> None:
    model = randomised(text_models()[name])
    graphs = graphs_of(model)
    assert graphs is not None and [graph.signature.name for graph in graphs] == ["model"]
    ids, mask = texts(3, 9)
    types, words = (ids % 2, [ids % 2 == 0] if name == "parser" else [])
    expected = model(tokens_of(ids, mask), types, *words)
    expected = (expected,) if isinstance(expected, Tensor) else expected
    for ours, theirs in zip(expected, graphs[0].module(ids, mask, types, *words), strict=True):
        torch.testing.assert_close(theirs, ours, atol=1e-5, rtol=1e-5)


def test_a_masked_language_model_has_logits_of_every_token() -> None:
    model = randomised(BertPretraining(BERT, VOCABULARY))
    graphs = graphs_of(model)
    assert graphs is not None
    ids, mask = texts(2, 6)
    words, follows = model(tokens_of(ids, mask), ids % 2, torch.arange(12))
    logits, next_logits = graphs[0].module(ids, mask, ids % 2)
    torch.testing.assert_close(logits.flatten(0, 1), words.logits(), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(next_logits, follows, atol=1e-5, rtol=1e-5)
    assert [value.axes for value in graphs[0].signature.outputs] == [("batch", "source", VOCABULARY), ("batch", 2)]


def test_recurrent_models_are_loops() -> None:
    settings = RecurrentSettings(cell="lstm", d_model=6, d_embedding=6, layers=1, decoder="luong", attention="local-m")
    model = randomised(RecurrentModel(settings, VOCABULARY, VOCABULARY))
    graphs = graphs_of(model)
    assert graphs is not None
    programs = {graph.signature.name: program_of(graph).module() for graph in graphs}
    for sizes in ((1, 1, 1), (3, 7, 2)):
        compare_steps(model, graphs, lambda graph, inputs: programs[graph.signature.name](*inputs), sizes)


def test_a_step_of_a_recurrent_language_model() -> None:
    settings = RecurrentLanguageSettings(kind="lstm", d_model=8, layers=2)
    model = randomised(RecurrentLanguageModel(settings, VOCABULARY))
    graphs = graphs_of(model)
    assert graphs is not None and [graph.signature.name for graph in graphs] == ["decoder"]
    compare_steps(model, graphs, as_module, (2, 1, 3))


def test_models_without_graphs() -> None:
    assert graphs_of(NGram(NGramSettings(), VOCABULARY)) is None
