"""Translation models: the same logits and translations as transformers, and an exact round trip."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.rows import concatenate_rows
from safetensors.torch import load_file, save_file
from tests.tasks.make import make_task

from regard.attention.layouts import Padded
from regard.data.pairs import pad_pairs
from regard.decoding.settings import DecodingSettings
from regard.errors import UserError
from regard.exchange.folders import read_config
from regard.exchange.marian import MarianModel, read_marian, read_tied_matrix, write_marian
from regard.exchange.marian_tokenizers import read_tokenizers
from regard.models.transformer import Transformer, TransformerSettings
from regard.tasks.translation import Translation
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings
from regard.text.symbols import BOS, EOS
from regard.text.tokenizer import Tokenizer
from regard.training.weights import load_weights, weights_of

pytestmark = pytest.mark.filterwarnings("ignore")  # transformers' own deprecations are not ours to mend
TEXTS = ["the cat sees a dog", "a dog sees the cat", "two cats see two dogs", "a cat", "Größe ist alles, 大小"]
SHAPE: dict[str, Any] = dict(size="tiny", d_model=16, num_heads=4, d_ff=24, encoder_layers=2, decoder_layers=3)
SENTENCES = ["the cat", "two dogs see a cat", "大 is not known", "x"]


def vocabularies(joint: bool, **kind: Any) -> tuple[Tokenizer, Tokenizer]:
    settings = TextSettings.model_validate({"vocab_size": 300, "min_frequency": 1} | kind)
    src = train_tokenizer(TEXTS, settings)
    return (src, src) if joint else (src, train_tokenizer([text[::-1] for text in TEXTS], settings))


def model(sizes: tuple[int, int], **changes: Any) -> Transformer:
    """A model with opinions: every weight, norms and biases included, is far from where it began."""
    torch.manual_seed(3)
    built = Transformer(TransformerSettings(**(SHAPE | {"dropout": 0.0} | changes)), *sizes).eval()
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return built


def written(folder: Path, pair: tuple[Tokenizer, Tokenizer], **changes: Any) -> Transformer:
    ours = model((len(pair[0]), len(pair[1])), **changes)
    write_marian(folder, ours.settings, weights_of(ours), pair)
    return ours


def restored(loaded: MarianModel) -> Transformer:
    ours = Transformer(loaded.settings, *map(len, loaded.tokenizers)).eval()
    load_weights(ours, loaded.weights, "test")
    return ours


VARIANTS: list[dict[str, Any]] = [
    dict(),
    dict(activation="gelu", tie="output", output_bias=True),
    dict(activation="silu", tie="none", output_bias=True),
    dict(norm="pre"),
    dict(norm="pre", output_bias=True, activation="gelu"),
]


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_logits_and_ids_equal_transformers(variant: dict[str, Any], tmp_path: Path) -> None:
    import transformers

    pair = vocabularies(joint=variant.get("tie", "all") == "all")
    ours = written(tmp_path / "model", pair, **variant)
    name = "PegasusForConditionalGeneration" if variant.get("norm") == "pre" else "MarianMTModel"
    theirs, loading = getattr(transformers, name).from_pretrained(tmp_path / "model", output_loading_info=True)
    assert not any(loading.values()), "no weight is missing, unexpected or of another shape"
    theirs.eval()
    assert type(transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "model")) is type(theirs)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    given = tokenizer(SENTENCES, return_tensors="pt", padding=True)
    lengths = given.attention_mask.sum(1)
    for row, length, text in zip(given.input_ids.tolist(), lengths.tolist(), SENTENCES, strict=True):
        assert row[:length] == [*pair[0].encode(text), EOS]
    tgt = torch.randint(3, len(pair[1]), (len(SENTENCES), 6), generator=torch.Generator().manual_seed(1))
    expected = theirs(**given, decoder_input_ids=tgt).logits
    actual = ours(Padded.of(given.input_ids, lengths), Padded.of(tgt, torch.full((len(SENTENCES),), 6))).logits()
    torch.testing.assert_close(actual, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_tables_of_positions_are_written(norm: str, tmp_path: Path) -> None:
    import transformers

    written(tmp_path / "model", vocabularies(joint=True), norm=norm)
    config = transformers.AutoConfig.from_pretrained(tmp_path / "model")
    theirs = transformers.AutoModelForSeq2SeqLM.from_config(config).model
    tensors = load_file(tmp_path / "model" / "model.safetensors")
    for side in ("encoder", "decoder"):
        expected = getattr(theirs, side).embed_positions.create_weight()
        table = tensors[f"model.{side}.embed_positions.weight"]
        assert table.shape == (1024, 16)
        torch.testing.assert_close(table, expected, atol=2e-4, rtol=0)


@pytest.mark.parametrize(("beam", "alpha", "penalty"), [(1, 0.6, None), (2, 0.6, 0.6)])
def test_settings_of_the_search_are_written(beam: int, alpha: float, penalty: float | None, tmp_path: Path) -> None:
    pair = vocabularies(joint=True)
    ours = model((len(pair[0]), len(pair[1])))
    write_marian(tmp_path / "model", ours.settings, weights_of(ours), pair, beam, alpha)
    generation = json.loads((tmp_path / "model" / "generation_config.json").read_text(encoding="utf-8"))
    assert (generation["num_beams"], generation.get("length_penalty")) == (beam, penalty)
    assert generation["max_length"] == 512 and generation["bad_words_ids"] == [[0], [BOS]]
    assert (generation["pad_token_id"], generation["bos_token_id"], generation["eos_token_id"]) == (0, BOS, EOS)
    assert generation["decoder_start_token_id"] == BOS
    assert read_marian(tmp_path / "model").beam == beam


@pytest.mark.parametrize("kind", ["bpe", "wordpiece", "word", "token", "char"])
def test_the_exported_tokenizer_equals_ours(kind: str, tmp_path: Path) -> None:
    import transformers

    pair = vocabularies(joint=True, kind=kind, vocab_size=600)
    written(tmp_path / "model", pair)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    for text in [*TEXTS, *SENTENCES, "  two  blanks ", "don't, l'an 2026!", "\ttab", "🙂 Ä"]:
        ids = tokenizer(text).input_ids
        assert ids == [*pair[0].encode(text), EOS]
        assert tokenizer.decode([BOS, *ids], skip_special_tokens=True) == pair[0].decode(ids) == text


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_the_round_trip_is_exact(variant: dict[str, Any], tmp_path: Path) -> None:
    pair = vocabularies(joint=variant.get("tie", "all") == "all")
    ours = written(tmp_path / "model", pair, **variant)
    loaded = read_marian(tmp_path / "model")
    assert loaded.settings.model_dump(exclude={"size"}) == ours.settings.model_dump(exclude={"size"})
    assert loaded.weights.keys() == weights_of(ours).keys()
    assert all(torch.equal(loaded.weights[name], tensor) for name, tensor in weights_of(ours).items())
    assert [each.to_json() for each in loaded.tokenizers] == [each.to_json() for each in pair]


@pytest.fixture(scope="module", params=["post", "pre"])
def learnt(request: pytest.FixtureRequest) -> Transformer:
    """A model that has begun to learn the texts backwards."""
    torch.manual_seed(3)
    settings = TransformerSettings(**(SHAPE | {"dropout": 0.0, "norm": request.param, "output_bias": True}))
    vocabulary = vocabularies(joint=True)[0]
    ours = Transformer(settings, len(vocabulary), len(vocabulary))
    pairs = [[vocabulary.encode(" ".join(side)) for side in (text.split(), text.split()[::-1])] for text in TEXTS]
    batch = pad_pairs(
        *map(
            concatenate_rows, zip(*[(np.array([*src, EOS]), np.array([*tgt, EOS])) for src, tgt in pairs], strict=True)
        )
    )
    optimizer = torch.optim.Adam(ours.parameters(), lr=0.01)
    for _ in range(70):
        optimizer.zero_grad()
        loss = make_task(Translation, vocabulary, vocabulary).loss(ours, batch)
        (loss.sum / loss.count).backward()
        optimizer.step()
    return ours.eval()


@pytest.mark.parametrize("search", [dict(search="greedy"), dict(search="beam", beam=4, alpha=0.0)], ids=str)
def test_transformers_generates_the_same(learnt: Transformer, search: dict[str, Any], tmp_path: Path) -> None:
    """Without a length penalty the two are defined alike; what never ends is cut otherwise, and left out."""
    import transformers

    pair = vocabularies(joint=True)
    write_marian(tmp_path / "model", learnt.settings, weights_of(learnt), pair)
    theirs = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "model").eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    decoding = DecodingSettings(max_length=30, extra_length=50, loop_guard=False, **search)
    task = make_task(Translation, *pair, decoding=decoding)
    sources = [*SENTENCES, *TEXTS]
    predictions = zip(sources, task.predict(learnt, [{"src": source} for source in sources]), strict=True)
    ended = [(source, prediction) for source, prediction in predictions if prediction["finished"]]
    assert len({prediction["translation"] for _, prediction in ended}) >= 5
    for source, prediction in ended:
        ids = theirs.generate(
            **tokenizer([source], return_tensors="pt"), num_beams=search.get("beam", 1), length_penalty=0.0,
            max_new_tokens=30, do_sample=False,
        )  # fmt: skip
        assert ids[0].tolist() == [BOS, *prediction["hypotheses"][0]["tokens"], EOS]
        assert tokenizer.decode(ids[0], skip_special_tokens=True) == prediction["translation"]


def test_a_folder_of_transformers_is_read(tmp_path: Path) -> None:
    """Their own numbering, one matrix for all, a bias, and what stands in older files besides."""
    theirs = their_marian(tmp_path / "theirs", scale_embedding=True)
    pair = vocabularies(joint=True)
    add_tokenizer(tmp_path / "theirs", pair[0])
    loaded = read_marian(tmp_path / "theirs")
    assert loaded.settings.tie == "all" and loaded.settings.output_bias
    compare(theirs, restored(loaded))
    tensors = load_file(tmp_path / "theirs" / "model.safetensors")
    old = tensors | {
        "lm_head.weight": tensors["model.shared.weight"].clone(),
        "model.encoder.embed_tokens.weight": tensors["model.shared.weight"].clone(),
        "model.encoder.embed_positions.weight": theirs.model.encoder.embed_positions.weight.detach().clone(),
    }
    save_file(old, tmp_path / "theirs" / "model.safetensors")
    again = read_marian(tmp_path / "theirs")
    assert all(torch.equal(again.weights[name], tensor) for name, tensor in loaded.weights.items())


@pytest.mark.parametrize(
    ("changes", "tie"),
    [
        (dict(share_encoder_decoder_embeddings=False), "output"),
        (dict(share_encoder_decoder_embeddings=False, tie_word_embeddings=False), "none"),
        (dict(scale_embedding=False), "none"),
    ],
    ids=str,
)
def test_other_ties_and_scales_are_read(changes: dict[str, Any], tie: str, tmp_path: Path) -> None:
    theirs = their_marian(tmp_path / "theirs", **({"scale_embedding": True} | changes))
    add_tokenizer(tmp_path / "theirs", vocabularies(joint=True)[0])
    loaded = read_marian(tmp_path / "theirs")
    assert loaded.settings.tie == tie
    compare(theirs, restored(loaded))


def their_marian(folder: Path, **changes: Any) -> Any:
    import transformers

    torch.manual_seed(5)
    size = len(vocabularies(joint=True)[0])
    config = transformers.MarianConfig(
        vocab_size=size, decoder_vocab_size=size, d_model=16, encoder_layers=2, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=20, decoder_ffn_dim=20,
        activation_function="swish", max_position_embeddings=64, pad_token_id=0, eos_token_id=2,
        decoder_start_token_id=1, bos_token_id=1, forced_eos_token_id=2, **changes,
    )  # fmt: skip
    model = transformers.MarianMTModel(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                parameter.normal_(std=0.3)
        model.final_logits_bias.normal_()
    model.save_pretrained(folder)
    return model


def add_tokenizer(folder: Path, vocabulary: Tokenizer) -> None:
    vocabulary.save(folder / "tokenizer.json")


@torch.no_grad()
def compare(theirs: Any, ours: Transformer) -> None:
    generator = torch.Generator().manual_seed(1)
    src, tgt = (torch.randint(3, theirs.config.vocab_size, (3, size), generator=generator) for size in (7, 5))
    lengths = torch.tensor([7, 2, 4])
    mask = (torch.arange(7) < lengths[:, None]).long()
    expected = theirs(input_ids=src, attention_mask=mask, decoder_input_ids=tgt).logits
    actual = ours(Padded.of(src, lengths), Padded.of(tgt, torch.tensor([5, 5, 5]))).logits()
    torch.testing.assert_close(actual, expected, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        (dict(positions="learned"), "model.positions"),
        (dict(window=3), "model.window"),
        (dict(head_dim=8), "model.head_dim"),
        (dict(combine="concat"), "model.combine"),
        (dict(norm="pre", tie="output"), "model.tie"),
    ],
    ids=str,
)
def test_unsupported_settings_are_refused(changes: dict[str, Any], where: str, tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        written(tmp_path / "model", vocabularies(joint=changes.get("tie", "all") == "all"), **changes)
    assert (error.value.code, error.value.where) == ("unsupported", where)
    assert not (tmp_path / "model").exists()


def test_vocabularies_of_different_sizes_round_trip(tmp_path: Path) -> None:
    src, _ = vocabularies(joint=True)
    tgt, _ = vocabularies(joint=True, vocab_size=280)
    assert len(src) != len(tgt)
    ours = written(tmp_path / "model", (src, tgt), tie="output")
    loaded = read_marian(tmp_path / "model")
    assert [len(tokenizer) for tokenizer in loaded.tokenizers] == [len(src), len(tgt)]
    assert all(torch.equal(loaded.weights[name], tensor) for name, tensor in weights_of(ours).items())


@pytest.mark.parametrize("key", ["vocab_size", "decoder_vocab_size"])
def test_a_tokenizer_of_another_size_is_refused(key: str, tmp_path: Path) -> None:
    pair = vocabularies(joint=False)
    written(tmp_path / "model", pair, tie="output")
    change_config(tmp_path / "model", **{key: len(pair[0]) - 1})
    with pytest.raises(UserError) as error:
        read_tokenizers(tmp_path / "model", read_config(tmp_path / "model" / "config.json"))
    assert (error.value.code, error.value.where) == ("damaged-file", str(tmp_path / "model" / "tokenizer.json"))


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine.txt").write_text("mine")
    with pytest.raises(UserError) as error:
        written(tmp_path / "model", vocabularies(joint=True))
    assert (error.value.code, error.value.where) == ("folder-exists", str(tmp_path / "model"))
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["mine.txt"]


def damage_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def drop_a_weight(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.decoder.layers.1.fc2.bias"]
    save_file(tensors, folder / "model.safetensors")


def another_shape(folder: Path) -> None:
    change_config(folder, encoder_ffn_dim=20, decoder_ffn_dim=20)


def one_weight_more(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file(tensors | {"model.decoder.extra": torch.zeros(2)}, folder / "model.safetensors")


def learned_positions(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    table = {"model.encoder.embed_positions.weight": torch.ones(8, 16)}
    save_file(tensors | table, folder / "model.safetensors")


def change_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("harm", "code", "where"),
    [
        (damage_weights, "damaged-file", "model.safetensors"),
        (drop_a_weight, "damaged-file", "model.safetensors:model.decoder.layers.1.fc2.bias"),
        (another_shape, "damaged-file", "model.safetensors:model.encoder.layers.0.fc1.weight"),
        (one_weight_more, "unsupported", "model.safetensors:model.decoder.extra"),
        (learned_positions, "unsupported", "model.safetensors:model.encoder.embed_positions.weight"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "missing-file", "tokenizer.json"),
        (lambda folder: (folder / "tokenizer.json").write_text("{"), "damaged-file", "tokenizer.json"),
        (lambda folder: (folder / "config.json").write_text("[]"), "damaged-file", "config.json"),
        (lambda folder: (folder / "config.json").unlink(), "missing-file", "config.json"),
        (lambda folder: change_config(folder, model_type="t5"), "unsupported", "config.json:model_type"),
        (lambda folder: change_config(folder, normalize_before=True), "unsupported", "config.json:normalize_before"),
        (lambda folder: change_config(folder, decoder_ffn_dim=4), "unsupported", "config.json:decoder_ffn_dim"),
        (
            lambda folder: change_config(folder, activation_function="tanh"),
            "unsupported",
            "config.json:activation_function",
        ),
        (lambda folder: change_config(folder, eos_token_id=5), "damaged-file", "config.json"),
        (lambda folder: change_config(folder, vocab_size=7), "damaged-file", "tokenizer.json"),
    ],
)
def test_errors_name_file_and_key(harm: Any, code: str, where: str, tmp_path: Path) -> None:
    written(tmp_path / "model", vocabularies(joint=True))
    harm(tmp_path / "model")
    with pytest.raises(UserError) as error:
        read_marian(tmp_path / "model")
    assert (error.value.code, error.value.where) == (code, str(tmp_path / "model" / where))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_files_of_an_export(norm: str, tmp_path: Path) -> None:
    pair, folder = vocabularies(joint=True), tmp_path / "model"
    ours = model((len(pair[0]), len(pair[1])), norm=norm, dropout=0.25, activation="gelu")
    write_marian(folder, ours.settings, weights_of(ours), pair, beam=3, alpha=0.5)
    size, pre = len(pair[0]), norm == "pre"
    assert json.loads((folder / "config.json").read_text()) == {
        "model_type": "pegasus" if pre else "marian",
        "architectures": ["PegasusForConditionalGeneration" if pre else "MarianMTModel"],
        "d_model": 16, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "dropout": 0.25,
        "attention_dropout": 0.0, "activation_dropout": 0.0, "activation_function": "gelu",
        "normalize_before": pre, "add_final_layer_norm": pre, "normalize_embedding": False,
        "static_position_embeddings": True, "is_decoder": False, "is_encoder_decoder": True, "scale_embedding": True,
        "max_position_embeddings": 1024, "share_encoder_decoder_embeddings": True, "tie_word_embeddings": True,
        "forced_eos_token_id": None, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
        "decoder_start_token_id": 1, "vocab_size": size, "decoder_vocab_size": size,
    }  # fmt: skip
    assert json.loads((folder / "generation_config.json").read_text()) == {
        "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1, "num_beams": 3,
        "max_length": 512, "bad_words_ids": [[0], [1]], "length_penalty": 0.5,
    }  # fmt: skip
    assert json.loads((folder / "tokenizer_config.json").read_text())["model_max_length"] == 1024
    loaded = read_marian(folder)
    assert (loaded.positions, loaded.beam, loaded.settings.dropout) == (1024, 3, 0.25)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("normalize_embedding", True),
        ("static_position_embeddings", False),
        ("is_decoder", True),
        ("add_final_layer_norm", True),
    ],
)
def test_values_that_only_other_models_have_are_refused(key: str, value: object, tmp_path: Path) -> None:
    written(tmp_path / "model", vocabularies(joint=True))
    change_config(tmp_path / "model", **{key: value})
    with pytest.raises(UserError) as error:
        read_marian(tmp_path / "model")
    assert (error.value.code, error.value.where) == ("unsupported", str(tmp_path / "model" / f"config.json:{key}"))


def test_tied_matrices_must_be_equal(tmp_path: Path) -> None:
    tensors = {"a": torch.ones(2, 3), "b": torch.ones(2, 3), "c": torch.zeros(2, 3)}
    path = tmp_path / "m"
    assert torch.equal(read_tied_matrix(dict(tensors), ("x", "a", "b"), (2, 3), path), tensors["a"])
    for names, where in ((("a", "c"), "m:c"), (("x", "y"), "m:x")):
        with pytest.raises(UserError) as error:
            read_tied_matrix(dict(tensors), names, (2, 3), path)
        assert (error.value.code, error.value.where) == ("damaged-file", str(tmp_path / where))
