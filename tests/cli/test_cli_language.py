"""A language model by commands alone: trained on a small text, scored, and let write."""

import json
import math
import random
from pathlib import Path

import pytest
from tests.cli.command import refused, regard

RECIPE = """
name = "small"
task = "language"
[data]
root = "{root}"
train = {{ file = "train.txt" }}
valid = {{ file = "valid.txt" }}
test = {{ file = "test.txt" }}
single_blanks = true
unknown_below = 2
bptt = 12
workers = 1
[text]
kind = "token"
min_frequency = 1
[model]
kind = "lstm"
d_model = 24
layers = 1
input_dropout = 0.0
output_dropout = 0.1
word_dropout = 0.0
[training]
max_steps = 100
batch_tokens = 192
schedule = "cosine"
learning_rate = 2e-2
warmup = 5
clip = 1.0
validate_every = 50
monitor = "word_perplexity"
[runtime]
device = "cpu"
threads = 1
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences of a few words each, some of which occur once only."""
    folder = tmp_path_factory.mktemp("language")
    rng = random.Random(1)
    for part, lines in (("train", 300), ("valid", 30), ("test", 30)):
        text = ""
        for _ in range(lines):
            who, does, what = (
                rng.choice(words) for words in (["cat", "dog", "king"], ["sees", "likes"], ["sea", "house"])
            )
            text += f" the {who} {does} the {what} . \n"
        (folder / f"{part}.txt").write_text(text + f" {part} \n \n", encoding="utf-8")
    (folder / "small.toml").write_text(RECIPE.format(root=folder.as_posix()), encoding="utf-8")
    done = regard("train", folder / "small.toml", "--folder", folder / "run")
    assert done.status == 0, done.err
    assert "regard generate" in done.out and "train: 2,103 tokens, 2,103 words, 302 lines" in done.err
    return folder / "run"


def test_evaluate_says_what_it_counted(run: Path) -> None:
    done = regard("evaluate", run, "--json")
    assert done.status == 0, done.err
    found = json.loads(done.out)
    scores = {score["name"]: score for score in found["scores"]}
    # Three choices of three, two and two in seven tokens: exp(ln(12) / 7) = 1.426; and "test" is a word never seen.
    assert 1.4 < scores["perplexity"]["value"] < 1.9
    assert scores["word perplexity"]["value"] == scores["perplexity"]["value"]
    assert "213 words" in scores["word perplexity"]["signature"] and "<unk>" in scores["word perplexity"]["signature"]
    bits = scores["bits per character"]
    characters = int(bits["signature"].split()[0].replace(",", ""))
    assert bits["value"] * characters * math.log(2) == pytest.approx(213 * math.log(scores["perplexity"]["value"]))
    assert json.loads(Path(found["file"]).read_text(encoding="utf-8"))["scores"] == found["scores"]
    table = regard("evaluate", run, "--on", "valid", "--output", run / "valid.json")
    assert "bits per character" in table.out and (run / "valid.json").is_file()
    same = regard("evaluate", run, "--file", run.parent / "test.txt", "--json", "--output", run / "file.json")
    assert json.loads(same.out)["scores"] == found["scores"]


def test_generate_goes_on_with_prompts_and_draws_alike_for_a_seed(run: Path) -> None:
    first, again, other = (regard("generate", run, "the cat", "-n", "4", "--seed", seed) for seed in (3, 3, 4))
    assert first.status == 0 and first.out == again.out != other.out
    assert len(first.lines) == 4 and all(line.startswith("the cat") for line in first.lines)
    done = regard(
        "generate", run, "--search", "greedy", "--length", "3", "--json", stdin="the cat\n\nthe zebra likes\n"
    )
    found = [json.loads(line) for line in done.lines]
    assert [each["prompt"] for each in found] == ["the cat", "", "the zebra likes"]
    texts = [each["texts"][0] for each in found]
    assert texts[0]["text"].split()[:3] == ["the", "cat", texts[0]["text"].split()[2]] and not texts[0]["finished"]
    assert len(texts[0]["text"].split()) == 5, "three tokens after the prompt"
    assert texts[2]["text"].startswith("the <unk> likes the")
    typed = regard("generate", run, "--search", "greedy", stdin="the dog\n", terminal=True)
    assert typed.lines[0].startswith("the dog") and typed.lines[0].endswith(" .")


def test_a_run_goes_on(run: Path) -> None:
    done = regard("train", run, "training.max_steps=102", "training.validate_every=102", "--json")
    assert done.status == 0, done.err
    assert json.loads(done.out)["step"] == 102


def test_another_run_starts_from_its_words_vocabulary_and_weights(run: Path) -> None:
    other, folder = run.parent / "other.txt", run.parent / "further"
    other.write_text("the king likes zebras .\n" * 40, encoding="utf-8")
    settings = (f"start_from={run}", 'data.train={file="other.txt"}', "training.max_steps=1", "training.warmup=0")
    done = regard("train", run.parent / "small.toml", *settings, "-o", folder)
    assert done.status == 0, done.err
    for name in ("words.txt", "tokenizer.json"):
        assert (folder / name).read_bytes() == (run / name).read_bytes()
    assert "train: 240 tokens" in done.err and "zebras" not in (folder / "words.txt").read_text(encoding="utf-8")
    averaged = regard("average", run)
    assert f"regard evaluate {run} --checkpoint averaged" in averaged.out


def test_a_run_that_read_its_text_otherwise_or_learnt_another_task_is_nothing_to_start_from(
    run: Path, trained: Path
) -> None:
    recipe, folder = run.parent / "small.toml", run.parent / "otherwise"
    said = refused("train", recipe, f"start_from={run}", "data.unknown_below=0", "-o", folder)
    assert "was trained with data.unknown_below=2" in said
    said = refused("train", recipe, f"start_from={run}", 'model={kind="ngram"}', "-o", folder)
    assert "an n-gram is counted, and begins with nothing" in said
    assert "learnt another task: translation" in refused("train", recipe, f"start_from={trained}", "-o", folder)


def test_what_does_not_suit_a_language_model_is_refused(run: Path, trained: Path) -> None:
    assert "--beam is for translators" in refused("evaluate", run, "--beam", "3")
    assert "--against is for translators" in refused("evaluate", run, "--against", run)
    assert "--engine is for translators" in refused("evaluate", run, "--engine", "readable")
    assert "its task is language" in refused("evaluate", trained, "--against", run)
    assert "is no language model: its task is translation" in refused("generate", trained, "a")
    assert "its task is language" in refused("translate", run, stdin="a\n")
    assert "no such file" in refused("evaluate", run, "--file", "nowhere.txt")
    recipe = run.parent / "small.toml"
    assert "data.bptt = 12" in refused("train", recipe, "training.batch_tokens=8", "-o", run.parent / "new")
    assert "training.r_drop is for translators" in refused(
        "train", recipe, "training.r_drop=1.0", "-o", run.parent / "new"
    )
    assert 'write decoding.search = "sample"' in refused(
        "train", recipe, "decoding.search=mask_predict", "-o", run.parent / "new"
    )
    assert "write a larger model.max_positions" in refused(
        "train", recipe, 'model={kind="transformer",positions="learned",max_positions=8}', "-o", run.parent / "new"
    )


def test_lost_and_changed_words_are_noticed(run: Path) -> None:
    words = run / "words.txt"
    text = words.read_text(encoding="utf-8")
    try:
        words.write_text(text + "zebra\n", encoding="utf-8")
        assert "words.txt is damaged" in refused("generate", run, "a")
        words.unlink()
        assert "words.txt is missing" in refused("generate", run, "a")
    finally:
        words.write_text(text, encoding="utf-8")
