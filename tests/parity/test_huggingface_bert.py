"""With the same weights, our BERT and Hugging Face's give the same numbers and gradients, folders included.

Nothing is fetched: their models are small and random.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.models.outputs import with_logits
from torch import Tensor, nn

from regard.attention.layouts import Packed, Padded, Tokens
from regard.errors import UserError
from regard.exchange.bert import SHAPE, huggingface_name, read_bert, read_bert_tokenizer, read_settings, write_bert
from regard.models.bert import Bert, BertPretraining, BertSettings
from regard.text.bert import SPECIALS, BertTokenizer

pytestmark = pytest.mark.filterwarnings("ignore")  # transformers' own deprecations are not ours to mend
V, T = 40, 9
LENGTHS = torch.tensor([9, 4, 1, 7])


def theirs(kind: str = "BertForPreTraining", **changes: Any) -> Any:
    """A model of theirs whose every weight is far from where it began."""
    import transformers

    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=V, hidden_size=16, num_hidden_layers=3, num_attention_heads=4, intermediate_size=24,
        max_position_embeddings=12, attn_implementation="eager", **changes,
    )  # fmt: skip
    model = getattr(transformers, kind)(config).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model


def saved(model: Any, folder: Path) -> Path:
    model.save_pretrained(folder)
    return folder


def ours(folder: Path) -> BertPretraining:
    settings, weights = read_bert(folder)
    model = BertPretraining(settings, len(weights["bert.words.weight"])).eval()
    model.load_state_dict(weights)
    return model


def batch() -> tuple[Tensor, Tensor, Tensor]:
    """ids, segments and their attention mask."""
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(5, V, (4, T), generator=generator)
    mask = (torch.arange(T) < LENGTHS[:, None]).long()
    return ids * mask, torch.randint(0, 2, (4, T), generator=generator), mask


def close(actual: Any, expected: Any) -> None:
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


def test_hidden_states_attentions_pooled_and_both_answers(tmp_path: Path) -> None:
    other = theirs()
    model, (ids, segments, mask) = ours(saved(other, tmp_path / "bert")), batch()
    expected = other(
        input_ids=ids, token_type_ids=segments, attention_mask=mask, output_hidden_states=True, output_attentions=True
    )
    tokens, real = Padded.of(ids, LENGTHS), mask.bool()
    states = model.bert.hidden_states(tokens, segments)
    assert len(states) == len(expected.hidden_states) == 4
    for state, their_state in zip(states, expected.hidden_states, strict=True):
        close(state[real], their_state[real])
    close(model.bert(tokens, segments), states[-1])
    weights = model.bert.attentions(tokens, segments).encoder
    assert weights is not None
    for layer, their_weights in enumerate(expected.attentions):
        close(weights[:, layer].transpose(1, 2)[real], their_weights.transpose(1, 2)[real])
    pooled = other.bert(input_ids=ids, token_type_ids=segments, attention_mask=mask).pooler_output
    close(model.bert.pool(states[-1], tokens.layout), pooled)
    places = real.flatten().nonzero()[:, 0]
    words, following = with_logits(model(tokens, segments, places))
    close(words, expected.prediction_logits[real])
    close(following, expected.seq_relationship_logits)


@pytest.mark.parametrize("layout", [Padded, Packed])
def test_gradients(layout: type[Padded] | type[Packed], tmp_path: Path) -> None:
    other = theirs().double()
    model, (ids, segments, mask) = ours(saved(other, tmp_path / "bert")).double(), batch()
    real = mask.bool()
    asked = torch.tensor([[0, 1], [0, 8], [1, 3], [2, 0], [3, 2]]).T  # sentences and places in them
    expected = other(input_ids=ids, token_type_ids=segments, attention_mask=mask)
    logits, following = expected.prediction_logits[asked[0], asked[1]], expected.seq_relationship_logits
    generator = torch.Generator().manual_seed(3)
    wanted = torch.randn(logits.shape, generator=generator).double()
    ((logits * wanted).sum() + following[:, 0].square().sum()).backward()

    tokens: Tokens = layout.of(ids, LENGTHS)
    numbers = torch.full((4, T), -1)
    numbers[real] = torch.arange(int(real.sum()))
    packed = layout is Packed
    places = numbers[asked[0], asked[1]] if packed else asked[0] * T + asked[1]
    words, answer = with_logits(model(tokens, segments[real] if packed else segments, places))
    close(words, logits)
    close(answer, following)
    ((words * wanted).sum() + answer[:, 0].square().sum()).backward()
    gradients = {name: parameter.grad for name, parameter in other.named_parameters()}
    for name, parameter in model.named_parameters():
        assert (parameter.grad is not None and parameter.grad.abs().sum() > 0) or name.endswith("key.bias")
        close(parameter.grad, gradients[huggingface_name(name)])


def test_their_number_of_weights_is_ours() -> None:
    import transformers

    for size, expected in (("base", 109_482_240), ("large", 335_141_888)):
        with torch.device("meta"):
            settings = BertSettings.model_validate({"size": size})
            model = Bert(settings, 30_522)
            config = transformers.BertConfig(
                hidden_size=settings.d_model, num_hidden_layers=settings.layers,
                num_attention_heads=settings.num_heads, intermediate_size=settings.d_ff,
            )  # fmt: skip
            other = transformers.BertModel(config)
        assert sum(x.numel() for x in model.parameters()) == sum(x.numel() for x in other.parameters()) == expected


@pytest.mark.parametrize("kind", ["BertForPreTraining", "BertModel", "BertForMaskedLM"])
def test_there_and_back_is_the_same_to_the_bit(kind: str, tmp_path: Path) -> None:
    import transformers

    other = theirs(kind, layer_norm_eps=1e-6, hidden_act="silu")
    settings, weights = read_bert(saved(other, tmp_path / "theirs"))
    assert (settings.epsilon, settings.activation, settings.layers, settings.max_positions) == (1e-6, "silu", 3, 12)
    write_bert(tmp_path / "ours", settings, weights)
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("theirs", "ours"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert json.loads((tmp_path / "ours" / "config.json").read_text())["architectures"] == [kind]
    again = getattr(transformers, kind).from_pretrained(tmp_path / "ours", attn_implementation="eager").eval()
    ids, segments, mask = batch()
    one, two = (model(input_ids=ids, token_type_ids=segments, attention_mask=mask)[0] for model in (other, again))
    assert torch.equal(one, two)


def test_what_was_trained_here_is_read_there(tmp_path: Path) -> None:
    import transformers

    torch.manual_seed(4)
    model = BertPretraining(BertSettings(size="tiny", d_model=16, d_ff=24, max_positions=12), V).eval()
    vocabulary = BertTokenizer([*SPECIALS, *(chr(ord("a") + n) for n in range(V - 5))], lowercase=False)
    write_bert(tmp_path / "bert", model.settings, model.state_dict(), vocabulary)
    other = transformers.BertForPreTraining.from_pretrained(tmp_path / "bert").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "bert")
    with pytest.raises(ValueError, match=r"bert\.words\.weight"):
        write_bert(tmp_path / "other", BertSettings(), model.state_dict())
    with pytest.raises(ValueError, match="40 tokens, the tokenizer has 39"):
        write_bert(tmp_path / "other", model.settings, model.state_dict(), BertTokenizer(vocabulary.entries[:-1]))
    assert not (tmp_path / "other").exists()
    given = tokenizer("a B c", "d é", return_tensors="pt")
    read = vocabulary.build_input(vocabulary.tokenize("a B c"), vocabulary.tokenize("d é"))
    assert given.input_ids[0].tolist() == read.ids and given.token_type_ids[0].tolist() == read.segments
    tokens = Padded.of(torch.tensor([read.ids]), torch.tensor([len(read.ids)]))
    words, following = with_logits(model(tokens, torch.tensor([read.segments]), torch.arange(len(read.ids))))
    expected = other(**given)
    close(words, expected.prediction_logits[0])
    close(following, expected.seq_relationship_logits)
    again = read_bert_tokenizer(tmp_path / "bert")
    assert again.entries == vocabulary.entries and again.lowercase is False
    tokenizer.save_pretrained(tmp_path / "tokenizer")  # of which newer versions keep a tokenizer.json alone
    assert read_bert_tokenizer(tmp_path / "tokenizer").to_json() == vocabulary.to_json()


def test_folders_of_older_programs(tmp_path: Path) -> None:
    folder = saved(theirs(), tmp_path / "bert")
    _, expected = read_bert(folder)
    tensors = load_file(folder / "model.safetensors")
    old = {key.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): x for key, x in tensors.items()}
    old["bert.embeddings.position_ids"] = torch.arange(12)[None]
    old["cls.predictions.decoder.weight"] = old["bert.embeddings.word_embeddings.weight"].clone()
    save_file(old, folder / "model.safetensors")
    _, weights = read_bert(folder)
    assert weights.keys() == expected.keys() and all(torch.equal(weights[name], expected[name]) for name in weights)

    old["cls.predictions.decoder.weight"] += 1
    save_file(old, folder / "model.safetensors")
    assert refused(folder) == ("unsupported", "model.safetensors:cls.predictions.decoder.weight")


def test_a_named_size_is_known_by_its_name(tmp_path: Path) -> None:
    for size in ("minilm", "large"):
        settings = BertSettings.model_validate({"size": size})
        config = {key: getattr(settings, name) for name, key in SHAPE.items()} | {"vocab_size": V}
        assert read_settings(config, tmp_path / "config.json") == (settings, V)


def refused(folder: Path) -> tuple[str, str]:
    """The code of the error, and its file and key."""
    with pytest.raises(UserError) as error:
        read_bert(folder)
    return error.value.code, error.value.where.removeprefix(f"{folder}/")


def test_errors_name_file_and_key(tmp_path: Path) -> None:
    folder = saved(theirs(), tmp_path / "bert")
    config, tensors = json.loads((folder / "config.json").read_text()), load_file(folder / "model.safetensors")
    words = "model.safetensors:bert.embeddings.word_embeddings.weight"
    for changes, expected in (
        ({"model_type": "roberta"}, ("unsupported", "config.json:model_type")),
        ({"hidden_act": "mish"}, ("unsupported", "config.json:hidden_act")),
        ({"num_attention_heads": 5}, ("unsupported", "config.json:num_attention_heads")),
        ({"vocab_size": 41}, ("damaged-file", words)),
    ):
        (folder / "config.json").write_text(json.dumps(config | changes))
        assert refused(folder) == expected
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))
    assert refused(folder) == ("damaged-file", "config.json:hidden_size")

    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors | {"classifier.weight": torch.zeros(2, 16)}, folder / "model.safetensors")
    assert refused(folder) == ("unsupported", "model.safetensors:classifier.weight")
    lost = "bert.encoder.layer.1.output.dense.bias"
    save_file({key: x for key, x in tensors.items() if key != lost}, folder / "model.safetensors")
    assert refused(folder) == ("damaged-file", f"model.safetensors:{lost}")
    (folder / "model.safetensors").write_bytes(b"nothing")
    assert refused(folder) == ("damaged-file", "model.safetensors")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UserError) as error:
        read_bert(folder)
    assert error.value.code == "missing-file" and "save_pretrained" in error.value.remedy
    with pytest.raises(UserError) as error:
        write_bert(folder, BertSettings(), {})
    assert (error.value.code, error.value.where) == ("folder-exists", str(folder))
