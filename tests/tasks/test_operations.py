"""Functions over any task: they ask whether a task searches, and never what it is."""

import numpy as np
import pytest
import torch
from pydantic import TypeAdapter
from tests.tasks.make import make_task

from regard.data.inputs import Input
from regard.decoding.settings import DecodingSettings
from regard.errors import UserError
from regard.models.text_encoder import EncoderSettings, EncoderWithHead, build_encoder
from regard.models.transformer import Transformer, TransformerSettings
from regard.tasks.classification import Classification
from regard.tasks.encoders import encoder_attention
from regard.tasks.operations import call_model, engine_names, force_decode, input_keys
from regard.tasks.translation import Translation
from regard.text.bert import SPECIALS, BertTokenizer
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings

WORDS = BertTokenizer([*SPECIALS, "a", "b", "c"])
PIECES = train_tokenizer(["one two three four", "eins zwei drei"] * 3, TextSettings(vocab_size=300))
GREEDY = DecodingSettings(search="greedy", extra_length=3)
TRANSLATION = make_task(Translation, PIECES, PIECES, decoding=GREEDY, max_source=16)
CLASSIFICATION = make_task(Classification, WORDS, ("bad", "good"), settings={"model.kind": "recurrent"})


def classifier() -> EncoderWithHead:
    torch.manual_seed(0)
    settings = TypeAdapter(EncoderSettings).validate_python({"kind": "recurrent", "d_model": 8})
    return EncoderWithHead(build_encoder(settings, len(WORDS)), 2, True, 0.0).eval()


def test_only_a_task_that_searches_takes_a_target_and_has_engines() -> None:
    assert force_decode(TRANSLATION, {"src": "one"}, "eins")["translation"] == "eins"
    with pytest.raises(UserError) as error:
        force_decode(CLASSIFICATION, {"text": "a"}, "good")
    assert (error.value.code, error.value.where) == ("unsupported-option", "target")
    assert engine_names(CLASSIFICATION) == ("torch",) and len(engine_names(TRANSLATION)) > 1


def test_a_model_is_called_once_through_forward_for_any_task() -> None:
    torch.manual_seed(0)
    settings = TransformerSettings(size="tiny", d_model=16, num_heads=2, d_ff=16)
    example, prediction = {"src": "one two"}, {"translation": "eins zwei"}
    for task, model, arguments in (
        (TRANSLATION, Transformer(settings, len(PIECES), len(PIECES)).eval(), (example, prediction)),
        (CLASSIFICATION, classifier(), ({"text": "a b"}, {"label": "good"})),
    ):
        calls: list[object] = []
        model.register_forward_hook(lambda *call, calls=calls: calls.append(call))
        call_model(task, model, *arguments)
        assert len(calls) == 1


def test_a_second_text_is_asked_for_if_training_examples_have_one() -> None:
    trained = make_task(Classification, WORDS, ("bad", "good"), ("text", "pair"))
    assert input_keys(trained) == ("text", "pair")
    assert input_keys(make_task(Classification, WORDS, ("bad", "good"), ("text",))) == ("text",)
    assert input_keys(TRANSLATION) == ("src",)


def test_pooling_attends_from_one_vector_to_all_tokens() -> None:
    ids = WORDS.build_input(WORDS.tokenize("a b c")).ids
    (found,) = encoder_attention(classifier().encoder, WORDS, Input(ids, [0] * len(ids), [0.0]), per_token=False)
    weights = np.asarray(found.weights)
    assert found.name == "pooling" and weights.shape[2:] == (1, 5)
    assert weights.sum(-1) == pytest.approx(1)
