"""Folders of CTranslate2 become runs that write what the library itself writes with the same files."""

import json
import random
import struct
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.conftest import TinyRun
from tests.exchange.sentencepiece_files import model_file, symbols, write_model
from tests.exchange.test_marian_tokenizers import SOURCE, TARGET, WITHOUT_ID, write_marian_folder

from regard.decoding.stepper import Symbols
from regard.errors import UserError
from regard.exchange.ctranslate2 import build_spec, write_ctranslate2
from regard.exchange.ctranslate2_reader import read_ctranslate2
from regard.models.transformer import Transformer, TransformerSettings
from regard.run.alignment import cross_attentions, encode_pairs
from regard.run.exporting import export_run
from regard.run.importing import import_model
from regard.run.model import Translator
from regard.run.run import Run
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings
from regard.text.symbols import BOS, EOS, PAD
from regard.training.weights import weights_of

ctranslate2 = pytest.importorskip("ctranslate2")
pytestmark = pytest.mark.filterwarnings("ignore")  # transformers' own deprecations are not ours to mend
PIECES = SOURCE | TARGET
VOCABULARY = ["<unk>", "<blank>", "<s>", "</s>", *PIECES, "averyunlikelytoken0"]
SENTENCES = ["the cat", "cats", "the the cat sat", "die Katze the cat", "at cat cats ! the"]
SHAPE: dict[str, Any] = dict(d_model=16, num_heads=2, d_ff=20, encoder_layers=1, decoder_layers=2, dropout=0.0)


def random_model(size: int, **changes: Any) -> Transformer:
    torch.manual_seed(3)
    model = Transformer(TransformerSettings(**(SHAPE | {"norm": "pre"} | changes)), size, size).eval()
    with torch.no_grad():
        for weights in model.parameters():
            weights.add_(0.3 * torch.randn_like(weights))
    return model


def write_folder(folder: Path, vocabulary: Sequence[str] = VOCABULARY, **config: object) -> Path:
    """A random model whose tokens have names, as the converter of OpenNMT-py writes it."""
    spec = build_spec(random_model(len(vocabulary), tie="none", output_bias=True))
    spec.register_source_vocabulary(list(vocabulary))
    spec.register_target_vocabulary(list(vocabulary))
    for name, value in config.items():
        setattr(spec.config, name, value)
    spec.validate()
    spec.optimize(quantization="float32")
    folder.mkdir(parents=True)
    spec.save(str(folder))
    write_model(folder.parent / "sentencepiece.model", PIECES)
    return folder


def write_package(path: Path) -> Path:
    """A package of Argos Translate."""
    folder = write_folder(path.parent / "argos" / "model")
    (folder.parent / "metadata.json").write_text(json.dumps({"from_code": "en", "to_code": "de"}))
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.parent.rglob("*.*")):
            archive.write(file, f"translate-en_de-1_0/{file.relative_to(folder.parent)}")
        archive.writestr("translate-en_de-1_0/stanza/en.pt", b"a pickle, which is not read")
    return path


def library(folder: Path, rows: list[list[str]], end: bool, never: Sequence[str], **options: Any) -> list[list[str]]:
    """The translations of the library itself, in 32 bits."""
    translator = ctranslate2.Translator(str(folder), compute_type="float32")
    rows = [[*row, *(["</s>"] if end else [])] for row in rows]
    given: dict[str, Any] = dict(
        beam_size=1, min_decoding_length=0, max_decoding_length=12, suppress_sequences=[[token] for token in never]
    )
    return [result.hypotheses[0] for result in translator.translate_batch(rows, **(given | options))]


def ours(run: Path, sentences: Sequence[str], engine: str = "readable") -> tuple[list[list[str]], list[list[str]]]:
    """The tokens of the sources, and those of our greedy translations."""
    model = Translator.load(run, device="cpu", engine=engine)
    predictions = list(model.predict([{"src": text} for text in sentences], search="greedy", max_length=12))
    words: Any = (model.task.src_tokenizer, model.task.tgt_tokenizer)
    sides = [model.task.src_tokenizer.encode_batch(sentences), [p["hypotheses"][0]["tokens"] for p in predictions]]
    source, target = (
        [[words._texts[token] for token in row] for row in side] for words, side in zip(words, sides, strict=True)
    )
    return source, target


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm": "post", "activation": "gelu_tanh", "tie": "output"},
        {"positions": "rotary", "tie": "none", "output_bias": True, "activation": "silu"},
        {"positions": "learned", "max_positions": 9, "scale_embeddings": False, "activation": "gelu"},
        {"positions": "none", "output_bias": True},
    ],
)
@pytest.mark.parametrize("weights", ["float32", "bfloat16", "float16", "int16", "int8"])
def test_our_exports_come_back(weights: str, changes: dict[str, Any], tmp_path: Path) -> None:
    words = train_tokenizer(["the cat sat"], TextSettings(kind="char", vocab_size=300))
    model = random_model(len(words), **changes)
    write_ctranslate2(model, Symbols(bos=BOS, eos=EOS, pad=PAD), tmp_path / "out", weights)
    words.save(tmp_path / "out" / "tokenizer.json")
    loaded = read_ctranslate2(tmp_path / "out")
    same = (
        loaded.settings.model_dump(exclude={"dropout", "size"}),
        model.settings.model_dump(exclude={"dropout", "size"}),
    )
    assert same[0] == same[1] and loaded.source_end
    assert loaded.tokenizers[0] is loaded.tokenizers[1] and loaded.tokenizers[0].to_json() == words.to_json()
    expected = weights_of(model)
    assert loaded.weights.keys() == expected.keys()
    bound = {"float32": 0.0, "float16": 1e-3, "bfloat16": 1e-2, "int16": 1e-2, "int8": 1e-2}[weights]
    for name, tensor in expected.items():
        assert (loaded.weights[name] - tensor).abs().max() <= bound * tensor.abs().max(), name


@pytest.mark.parametrize("weights", ["float32", "int8"])
def test_an_imported_export_translates_as_the_library(weights: str, tiny_run: TinyRun, tmp_path: Path) -> None:
    run: Any = Run.open(tiny_run("translation"))
    out = export_run(run, tmp_path / "out", "ctranslate2", quantization=weights).folder
    imported: Any = import_model(out, tmp_path / "run").run
    assert (
        imported.recipe.task == "translation"
        and imported.task.src_tokenizer.to_json() == run.task.src_tokenizer.to_json()
    )
    sentences = ["one two three", "six", "five four"]
    model = Translator.load(tmp_path / "run", device="cpu", engine="readable")
    rows = [[*map(str, ids), str(EOS)] for ids in model.task.src_tokenizer.encode_batch(sentences)]
    never = [str(PAD), str(BOS)]
    theirs = library(out, rows, False, never, max_decoding_length=60)
    texts = [model.task.tgt_tokenizer.decode([int(token) for token in tokens]) for tokens in theirs]
    assert model.translate(sentences, search="greedy") == texts


def test_an_argos_package_translates_as_the_library_without_an_end_symbol(tmp_path: Path) -> None:
    imported = import_model(write_package(tmp_path / "en_de.argosmodel"), tmp_path / "run")
    recipe: Any = imported.run.recipe
    assert imported.random_weights == [] and recipe.data.directions == (("en", "de"),)
    assert (recipe.text.source_end, recipe.text.joint, recipe.model.tie) == (False, True, "none")
    sources, targets = ours(tmp_path / "run", SENTENCES)
    folder = tmp_path / "argos" / "model"
    assert targets == library(folder, sources, False, ["<s>", "<blank>"])
    assert targets != library(folder, sources, True, ["<s>", "<blank>"]), "the end symbol matters"
    assert ours(tmp_path / "run", SENTENCES, "torch") == (sources, targets)
    assert import_model(tmp_path / "argos", tmp_path / "unpacked").run.recipe.data == recipe.data
    model = Translator.load(tmp_path / "run", device="cpu")
    pairs = encode_pairs(model, ["the cat", "cats"], ["die Katze", "Katze"])
    for index, weights in cross_attentions(model, pairs):
        assert weights.shape[-1] == len(pairs[index][0].ids) + 1 and not weights[..., -1].any()
    with pytest.raises(UserError) as error:
        export_run(imported.run, tmp_path / "out", "ctranslate2")
    assert (error.value.code, error.value.where) == ("unsupported", "text.source_end")


def test_a_run_starts_from_an_argos_package(tmp_path: Path) -> None:
    import_model(write_package(tmp_path / "en_de.argosmodel"), tmp_path / "run")
    from regard.run.train import train
    from regard.tasks.registry import build_recipe

    (tmp_path / "pairs.tsv").write_text("the cat\tdie Katze\ncats\tKatze\nthe cat sat\tdie Katze\n")
    source = str(tmp_path / "pairs.tsv")
    training = dict(max_steps=2, batch_tokens=64, warmup=1, schedule="constant", learning_rate=1e-3)
    values = {
        "name": "tuned",
        "start_from": str(tmp_path / "run"),
        "data": {"train": source, "valid": source, "max_length": 16},
    }
    recipe: Any = build_recipe(values | {"training": training, "runtime": {"device": "cpu"}}, "test")
    assert not recipe.text.source_end
    trained = train(recipe, tmp_path / "tuned", report=lambda _: None)
    store: Any = trained.run.store("train", lambda _: None)
    assert EOS not in store.sources([0])[0] and EOS in store.targets([0])[0]


def convert_marian(folder: Path) -> Path:
    """A Marian in folder/opus, and what the library's converter for transformers makes of it."""
    import transformers
    from ctranslate2.converters.transformers import MarianMTLoader

    write_marian_folder(folder / "opus")
    model = transformers.MarianMTModel.from_pretrained(folder / "opus").eval()
    with torch.no_grad():
        model.model.shared.weight[-1] = 0.0  # <pad>, which begins translations: zeros in all models of OPUS-MT
        model.final_logits_bias[0, 0] = -3.0  # longer translations
    model.save_pretrained(folder / "opus")
    ids = json.loads((folder / "opus" / "vocab.json").read_text())
    spec = MarianMTLoader().get_model_spec(model)
    MarianMTLoader().set_vocabulary(spec, sorted(ids, key=ids.__getitem__)[:-1])  # without <pad>
    spec.config.decoder_start_token = "</s>"
    spec.validate()
    spec.optimize(quantization="float32")
    (folder / "converted").mkdir()
    spec.save(str(folder / "converted"))
    for name in ("source.spm", "target.spm"):
        (folder / "converted" / name).write_bytes((folder / "opus" / name).read_bytes())
    return folder / "converted"


def test_an_opus_model_translates_as_the_library(tmp_path: Path) -> None:
    converted = convert_marian(tmp_path)
    recipe: Any = import_model(converted, tmp_path / "run").run.recipe
    assert (recipe.model.positions, recipe.model.norm, recipe.text.source_end) == ("learned", "post", True)
    sources, targets = ours(tmp_path / "run", SENTENCES)
    known = [[token if token != WITHOUT_ID else "<unk>" for token in row] for row in sources]
    assert targets == library(converted, known, True, [])
    assert len(set(map(tuple, targets))) > 2, "it translates different sentences differently"
    import_model(tmp_path / "opus", tmp_path / "direct")
    assert ours(tmp_path / "direct", SENTENCES) == (sources, targets)


def test_a_package_of_argos_from_marian_translates_as_the_library(tmp_path: Path) -> None:
    """The converter for Marian names a start symbol that the vocabulary lacks, and lets the library append the end."""
    folder = convert_marian(tmp_path)
    model = tmp_path / "argos" / "model"
    model.mkdir(parents=True)
    for name in ("model.bin", "shared_vocabulary.json"):
        (model / name).write_bytes((folder / name).read_bytes())
    values = json.loads((folder / "config.json").read_text()) | {"decoder_start_token": "<s>", "add_source_eos": True}
    (model / "config.json").write_text(json.dumps(values))
    (model.parent / "sentencepiece.model").write_bytes((folder / "source.spm").read_bytes())
    import_model(model.parent, tmp_path / "run")
    sources, targets = ours(tmp_path / "run", SENTENCES)
    known = [[token if token != WITHOUT_ID else "<unk>" for token in row] for row in sources]
    assert targets == library(model, known, False, [])
    import_model(folder, tmp_path / "other")
    assert targets == ours(tmp_path / "other", SENTENCES)[1], "the target has no tokenizer of its own, only its tokens"


def insert_flag(path: Path, version: int, **flags: int) -> None:
    """Make a file of an earlier version, which has what is in config.json now as flags."""
    data = path.read_bytes()
    place = 4 + 2 + struct.unpack_from("<H", data, 4)[0] + 4
    count = struct.unpack_from("<I", data, place)[0] + len(flags)
    added = b"".join(
        struct.pack("<H", len(name) + 1) + name.encode() + b"\0" + struct.pack("<BBIb", 0, 1, 1, value)
        for name, value in flags.items()
    )
    path.write_bytes(struct.pack("<I", version) + data[4:place] + struct.pack("<I", count) + added + data[place + 4 :])


def test_older_files_name_their_symbols_in_flags(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "old" / "model")
    (folder / "config.json").unlink()
    (folder / "shared_vocabulary.json").unlink()
    (folder / "shared_vocabulary.txt").write_text("".join(f"{token}\n" for token in VOCABULARY), encoding="utf-8")
    insert_flag(folder / "model.bin", 5, with_source_eos=1, with_target_bos=0)
    import_model(folder, tmp_path / "run")
    sources, targets = ours(tmp_path / "run", SENTENCES)
    assert targets == library(folder, sources, False, ["<s>", "<blank>"])  # the library appends </s>


def rename_tensor(old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        data = (folder / "model.bin").read_bytes()
        assert len(old) == len(new) and old.encode() in data
        (folder / "model.bin").write_bytes(data.replace(old.encode(), new.encode()))

    return change


def set_bytes(name: str, value: bytes) -> Callable[[Path], None]:
    """Change a flag: its value follows its name, a zero, and 6 bytes for dimensions, type and size."""

    def change(folder: Path) -> None:
        data = bytearray((folder / "model.bin").read_bytes())
        place = data.index(f"{name}\0".encode()) + len(name) + 1 + 6
        data[place : place + len(value)] = value
        (folder / "model.bin").write_bytes(data)

    return change


def set_both(name: str, value: bytes) -> Callable[[Path], None]:
    """Change a flag of encoder and decoder."""

    def change(folder: Path) -> None:
        for stack in ("encoder", "decoder"):
            set_bytes(f"{stack}/{name}", value)(folder)

    return change


def insert_tensor(name: str, shape: Sequence[int], kind: int, content: bytes) -> Callable[[Path], None]:
    """Add a tensor as the first one."""

    def change(folder: Path) -> None:
        data = (folder / "model.bin").read_bytes()
        place = 4 + 2 + struct.unpack_from("<H", data, 4)[0] + 4
        (count,) = struct.unpack_from("<I", data, place)
        sizes = struct.pack(f"<B{len(shape)}IBI", len(shape), *shape, kind, len(content))
        added = struct.pack("<H", len(name) + 1) + name.encode() + b"\0" + sizes + content
        (folder / "model.bin").write_bytes(data[:place] + struct.pack("<I", count + 1) + added + data[place + 4 :])

    return change


def config(**values: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | values))

    return change


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (set_bytes("encoder/activation", b"\x04"), "unsupported"),
        (set_both("activation", b"\xff"), "unsupported"),
        (set_both("num_heads", b"\x00"), "damaged-file"),
        (insert_tensor("decoder/embeddings/weight_scale", [3], 0, bytes(12)), "damaged-file"),
        (insert_tensor("decoder/other/weight", [2, 0], 0, b""), "damaged-file"),
        (insert_tensor("decoder/other/weight", [2], 1, b"ab"), "damaged-file"),
        (set_bytes("decoder/alibi", b"\x01"), "unsupported"),
        (set_bytes("encoder/pre_norm", b"\x00"), "unsupported"),
        (rename_tensor("ffn/linear_0/bias", "ffn/linear_9/bias"), "unsupported"),
        (rename_tensor("layer_norm/gamma", "layer_norm/delta"), "damaged-file"),
        (rename_tensor("position_encodings", "other_positions_xx"), "unsupported"),
        (rename_tensor("TransformerSpec", "WhisperSpec-xxx"), "unsupported"),
        (lambda folder: insert_flag(folder / "model.bin", 7), "damaged-file"),
        (config(layer_norm_epsilon=0.1), "unsupported"),
        (config(add_source_bos=True), "unsupported"),
        (config(decoder_start_token=None), "unsupported"),
        (config(eos_token="<end>"), "damaged-file"),
        (config(eos_token=3), "damaged-file"),
        (lambda folder: (folder / "shared_vocabulary.json").write_text('["<unk>", "</s>", "<s>"]'), "damaged-file"),
        (lambda folder: (folder / "shared_vocabulary.json").write_text('["a", "a"]'), "damaged-file"),
        (lambda folder: (folder.parent / "sentencepiece.model").unlink(), "missing-file"),
        (
            lambda folder: (folder.parent / "sentencepiece.model").write_bytes(
                model_file([*symbols(), ("a", -1.0, 1)], trained=bytes([3 << 3, 2]))
            ),
            "damaged-file",
        ),
        (
            lambda folder: (folder.parent / "metadata.json").write_text('{"target_prefix": ">>deu<<"}'),
            "unsupported",
        ),
    ],
)
def test_other_models_are_refused(change: Callable[[Path], None], code: str, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "argos" / "model")
    change(folder)
    with pytest.raises(UserError) as error:
        import_model(folder, tmp_path / "run")
    assert error.value.code == code and not (tmp_path / "run").exists()


def test_damaged_files_are_refused_or_read(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "argos" / "model")
    data, generator = (folder / "model.bin").read_bytes(), random.Random(1)
    for _ in range(60):
        changed = bytearray(data[: generator.choice([len(data), generator.randrange(len(data))])])
        for _ in range(generator.randrange(1, 4)):
            changed[generator.randrange(min(len(changed), 600))] = generator.randrange(256)
        (folder / "model.bin").write_bytes(changed)
        try:
            read_ctranslate2(folder)
        except UserError as error:
            assert error.code in ("damaged-file", "unsupported", "not-finite")


def test_a_package_is_read_without_its_paths(tmp_path: Path) -> None:
    package = tmp_path / "bad.argosmodel"
    package.write_bytes(b"PK no zip file")
    with pytest.raises(UserError) as error:
        import_model(package, tmp_path / "run")
    assert error.value.code == "damaged-file"
    with zipfile.ZipFile(package, "w") as archive:
        archive.writestr("../metadata.json", "{}")
        archive.writestr("/outside/model.bin", "x")
        archive.writestr("a/model/..", "x")
    with pytest.raises(UserError) as error:
        import_model(package, tmp_path / "run")
    assert error.value.code in ("missing-file", "damaged-file")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.argosmodel"]
