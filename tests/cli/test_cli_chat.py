"""regard chat: it has learnt who answers what, and says it, whoever asks and however."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.cli.command import refused, regard

from regard.decoding.engine import DecodingRequest
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import DecodingSettings
from regard.run import Translator
from regard.run.chat import DRAWS, SILENCE, Conversation, attempts, draw_seed

ANSWERS = {"hello": "hi there", "how are you": "fine thanks", "what is it": "a small talk", "bye now": "see you"}
RECIPE = """
name = "talk"

[data]
root = "{root}"
train = {{ file = "talk.txt", format = "dialogues", turns = 2 }}
valid = {{ file = "talk.txt", format = "dialogues", turns = 2 }}
max_length = 16
workers = 1
drop_duplicates = false

[text]
kind = "word"
vocab_size = 300

[model]
size = "tiny"
d_model = 32
num_heads = 2
d_ff = 64
encoder_layers = 1
decoder_layers = 1
norm = "pre"
dropout = 0.0

[training]
max_steps = 160
batch_tokens = 384
schedule = "inverse_sqrt"
learning_rate = 8e-3
warmup = 20
validate_every = 80
label_smoothing = 0.0
samples = 0

[decoding]
search = "sample"
temperature = 0.5
extra_length = 4

[runtime]
device = "cpu"
threads = 1
"""


def talks() -> Iterator[str]:
    """Two questions each, in every order; "and you" is answered by what was answered before it."""
    for first, answer in ANSWERS.items():
        for second, other in ANSWERS.items():
            yield f"# topic: small\n{first}\n{answer}\n{second}\n{other}\nand you\n{other} too\n"


@pytest.fixture(scope="module")
def talker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has learnt to answer."""
    folder = tmp_path_factory.mktemp("talk")
    (folder / "talk.txt").write_text("\n".join(talks()), encoding="utf-8")
    recipe = folder / "talk.toml"
    recipe.write_text(RECIPE.format(root=folder.as_posix()), encoding="utf-8")
    done = regard("train", recipe, "--folder", folder / "run")
    assert done.status == 0, done.err
    assert f"regard chat {folder / 'run'}\n" in done.out + done.err
    return folder / "run"


def test_every_question_gets_its_answer(talker: Path) -> None:
    for question, answer in ANSWERS.items():
        result = regard("chat", talker, "--search", "greedy", stdin=f"{question}\n")
        assert (result.status, result.lines, result.err) == (0, [answer], "")


def test_it_reads_the_turns_before_as_it_was_trained(talker: Path) -> None:
    for question, answer in ANSWERS.items():
        result = regard("chat", talker, "--search", "greedy", stdin=f"{question}\nand you\n")
        assert result.lines == [answer, f"{answer} too"], "what it said itself is part of what it reads"
    lines = regard("chat", talker, "--search", "greedy", "--json", stdin="hello\nhow are you\nand you\n").lines
    found = [json.loads(line) for line in lines]
    assert [each["source"] for each in found] == ["hello", "hi there\thow are you", "fine thanks\tand you"]
    assert [each["turn"] for each in found] == [1, 2, 3]
    assert found[1]["said"] == "how are you"
    assert found[1]["reply"] == "fine thanks"
    assert found[1]["finished"]
    assert found[1]["score"] < 0


def test_a_conversation_follows_from_its_seed(talker: Path) -> None:
    said = "hello\nhello\nhow are you\nwhat is it\nand you\n" * 2
    hot = ("chat", talker, "--temperature", 3.0, "--seed")
    once = regard(*hot, 1, stdin=said)
    assert regard(*hot, 1, stdin=said).out == once.out
    assert regard(*hot, 2, stdin=said).out != once.out
    assert len(once.lines) == 10
    assert regard(*hot, 1, stdin="hello\n").lines == once.lines[:1], "a draw knows nothing of what comes later"
    again = regard(*hot, 1, stdin=f"hello\n/reset\n{said}")
    assert again.lines == [once.lines[0], *once.lines], "begun anew it is the same conversation"


def test_draws_of_turns_and_attempts_differ() -> None:
    seeds = {draw_seed(seed, turn, attempt) for seed in range(5) for turn in range(20) for attempt in range(DRAWS)}
    assert len(seeds) == 5 * 20 * DRAWS
    drawn = list(attempts(DecodingSettings(search="sample", top_p=0.9, extra_length=7), turn=3))
    assert [each.search for each in drawn] == ["sample"] * DRAWS + ["greedy"]
    assert all(each.extra_length == 7 for each in drawn)
    beam = DecodingSettings(beam=3)
    assert list(attempts(beam, turn=3)) == [beam]


class Mute:
    """An engine that says nothing until it has been asked often enough."""

    def __init__(self, silent: int, word: int) -> None:
        self.asked: list[DecodingSettings] = []
        self.silent, self.word = silent, word

    def decode(self, request: DecodingRequest) -> list[list[Hypothesis]]:
        self.asked.append(request.settings)
        tokens = [] if len(self.asked) <= self.silent else [self.word]
        return [[Hypothesis(tokens=tokens, log_prob=-1.0, score=-1.0, finished=True)]]


@pytest.mark.parametrize(("silent", "tries"), [(0, 1), (2, 3), (DRAWS, DRAWS + 1), (99, DRAWS + 1)])
def test_a_reply_is_never_empty(talker: Path, silent: int, tries: int) -> None:
    translator = Translator.load(talker, device="cpu")
    word = translator.task.tgt_vocabulary.encode("fine")[0]
    translator.engine = mute = Mute(silent, word)
    reply = Conversation(translator, seed=4).answer("hello")
    assert reply.text == (SILENCE if silent == 99 else "fine")
    assert len(mute.asked) == tries
    assert len({each.seed for each in mute.asked[:DRAWS]}) == min(tries, DRAWS)


def test_old_turns_are_forgotten_before_new_ones_are_cut(talker: Path) -> None:
    talk = Conversation(Translator.load(talker, device="cpu"), search="greedy")
    talk.answer("hello")
    long = "what is it" + " it" * 11
    assert talk.answer(long).source == long, "with the turn before it it would be longer than 16 tokens"
    source = talk.answer(f"{long * 9} are you").source
    assert 1 < len(talk.translator.task.src_vocabulary.encode(source)) < 16
    assert source.endswith(" are you")


def test_commands(talker: Path) -> None:
    result = regard(
        "chat", talker, "--search", "greedy", stdin="/why\nhello\n/what\n/why\n/reset\n/why\n/quit\nhello\n"
    )
    assert result.status == 0
    assert result.lines[0] == ANSWERS["hello"]
    assert result.out.count("cross attention, layer 1 of 1, mean of 2 heads") == 1
    assert result.out.count(ANSWERS["hello"]) == 1
    assert "there is no command /what" in result.err
    assert result.err.count("nothing was replied yet") == 2
    assert "a new conversation" in result.err


def test_a_model_without_attention_says_so(talker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.run.chat.Conversation.why", lambda self, reply: [])
    result = regard("chat", talker, "--search", "greedy", stdin="hello\n/why\nbye now\n")
    assert result.lines == [ANSWERS["hello"], ANSWERS["bye now"]]
    assert "no attention" in result.err


def test_why_as_json_holds_every_head(talker: Path) -> None:
    reply, why = map(json.loads, regard("chat", talker, "--search", "greedy", "--json", stdin="hello\n/why\n").lines)
    assert (why["source"], why["reply"]) == (reply["source"], reply["reply"])
    cross = next(found for found in why["maps"] if found["name"] == "cross")
    weights = torch.tensor(cross["weights"])
    assert weights.shape == (1, 2, len(cross["rows"]), len(cross["columns"]))
    assert torch.allclose(weights.sum(-1), torch.ones(weights.shape[:-1]), atol=1e-3)


def test_in_a_pipe_blank_lines_stay_and_nothing_else_is_printed(talker: Path) -> None:
    result = regard("chat", talker, "--search", "greedy", stdin="hello\n\n   \nbye now")
    assert (result.lines, result.err) == ([ANSWERS["hello"], "", "", ANSWERS["bye now"]], "")
    assert regard("chat", talker).out == ""


def test_on_a_terminal_it_invites_and_prompts_aside(talker: Path) -> None:
    result = regard("chat", talker, "--search", "greedy", stdin="hello\n\nbye now\n", terminal=True)
    assert result.lines == [ANSWERS["hello"], ANSWERS["bye now"]]
    assert "/why" in result.err
    assert "聊天" in result.err
    assert result.err.count("> ") == 4


def test_ctrl_c_ends_politely(talker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("regard.run.chat.Conversation.answer", interrupted)
    result = regard("chat", talker, stdin="hello\n")
    assert (result.status, result.out, result.err) == (130, "", "\n")


def test_other_translators_answer_line_by_line(trained: Path) -> None:
    found = [json.loads(line) for line in regard("chat", trained, "--json", stdin="one two\none\n").lines]
    assert [each["source"] for each in found] == ["one two", "one"]


def test_what_cannot_talk_is_refused(talker: Path, tmp_path: Path) -> None:
    assert "no effect" in refused("chat", talker, "--search", "greedy", "--beam", 3, stdin="hello\n")
    (tmp_path / "text.txt").write_text("a line of text\n" * 40, encoding="utf-8")
    (tmp_path / "writer.toml").write_text(
        'name = "writer"\ntask = "language"\n[data]\ntrain = { file = "text.txt" }\nvalid = { file = "text.txt" }\n'
        f'root = "{tmp_path.as_posix()}"\nbptt = 8\nworkers = 1\n[text]\nkind = "char"\n[model]\nkind = "ngram"\n',
        encoding="utf-8",
    )
    assert regard("train", tmp_path / "writer.toml", "--folder", tmp_path / "writer").status == 0
    said = refused("chat", tmp_path / "writer", stdin="hello\n")
    assert "is no translator: its task is language" in said
    assert "regard generate" in said


def test_it_explains_itself() -> None:
    helped = regard("chat", "--help").out
    assert "regard chat runs/self-dialogue" in helped
    assert "--temperature" in helped
    assert "\n  chat " in regard("--help").out
