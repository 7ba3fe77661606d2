"""regard chat: a model that was trained on dialogues replies to lines, on a terminal and in a pipe."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.cli.command import fails, regard

from regard.decoding.engine import DecodingRequest
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import DecodingSettings
from regard.errors import UserError
from regard.run.chat import MAX_SAMPLES, NO_REPLY, Conversation, attempts, sample_seed
from regard.run.model import Translator

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


def dialogues() -> Iterator[str]:
    """Two questions each, in every order; the reply to "and you" depends on the turn before it."""
    for first, answer in ANSWERS.items():
        for second, other in ANSWERS.items():
            yield f"# topic: small\n{first}\n{answer}\n{second}\n{other}\nand you\n{other} too\n"


@pytest.fixture(scope="module")
def talker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was trained on these dialogues."""
    folder = tmp_path_factory.mktemp("talk")
    (folder / "talk.txt").write_text("\n".join(dialogues()), encoding="utf-8")
    recipe = folder / "talk.toml"
    recipe.write_text(RECIPE.format(root=folder.as_posix()), encoding="utf-8")
    done = regard("train", recipe, "--folder", folder / "run")
    assert done.status == 0, done.err
    assert f"regard chat {folder / 'run'}\n" in done.out + done.err
    return folder / "run"


def test_every_question_has_its_reply(talker: Path) -> None:
    for question, answer in ANSWERS.items():
        result = regard("chat", talker, "--search", "greedy", stdin=f"{question}\n")
        assert (result.status, result.lines, result.err) == (0, [answer], "")


def test_the_model_reads_as_many_turns_as_in_training(talker: Path) -> None:
    for question, answer in ANSWERS.items():
        result = regard("chat", talker, "--search", "greedy", stdin=f"{question}\nand you\n")
        assert result.lines == [answer, f"{answer} too"], "the model reads its own replies too"
    lines = regard("chat", talker, "--search", "greedy", "--json", stdin="hello\nhow are you\nand you\n").lines
    replies = [json.loads(line) for line in lines]
    assert [reply["source"] for reply in replies] == ["hello", "hi there\thow are you", "fine thanks\tand you"]
    assert [reply["turn"] for reply in replies] == [1, 2, 3]
    assert replies[1]["message"] == "how are you"
    assert replies[1]["reply"] == "fine thanks"
    assert replies[1]["finished"]
    assert replies[1]["score"] < 0


def test_a_conversation_depends_on_the_seed_only(talker: Path) -> None:
    lines = "hello\nhello\nhow are you\nwhat is it\nand you\n" * 2
    hot = ("chat", talker, "--temperature", 3.0, "--seed")
    once = regard(*hot, 1, stdin=lines)
    assert regard(*hot, 1, stdin=lines).out == once.out
    assert regard(*hot, 2, stdin=lines).out != once.out
    assert len(once.lines) == 10
    assert regard(*hot, 1, stdin="hello\n").lines == once.lines[:1], "a reply does not depend on later lines"
    again = regard(*hot, 1, stdin=f"hello\n/reset\n{lines}")
    assert again.lines == [once.lines[0], "", *once.lines], "/reset starts the same conversation again"


def test_seeds_of_turns_and_attempts_differ() -> None:
    seeds = {
        sample_seed(seed, turn, attempt) for seed in range(5) for turn in range(20) for attempt in range(MAX_SAMPLES)
    }
    assert len(seeds) == 5 * 20 * MAX_SAMPLES
    searches = list(attempts(DecodingSettings(search="sample", top_p=0.9, extra_length=7), turn=3))
    assert [item.search for item in searches] == ["sample"] * MAX_SAMPLES + ["greedy"]
    assert all(item.extra_length == 7 for item in searches)
    beam = DecodingSettings(beam=3)
    assert list(attempts(beam, turn=3)) == [beam]


class BlankEngine:
    """An engine whose first outputs are blank."""

    def __init__(self, blank: int, word: int) -> None:
        self.searches: list[DecodingSettings] = []
        self.blank, self.word = blank, word

    def decode(self, request: DecodingRequest) -> list[list[Hypothesis]]:
        self.searches.append(request.settings)
        tokens = [] if len(self.searches) <= self.blank else [self.word]
        return [[Hypothesis(tokens=tokens, log_prob=-1.0, score=-1.0, finished=True)]]


class BytesEngine:
    """An engine whose first output is given, and then another one."""

    def __init__(self, *outputs: list[int]) -> None:
        self.outputs = iter(outputs)

    def decode(self, request: DecodingRequest) -> list[list[Hypothesis]]:
        return [[Hypothesis(tokens=next(self.outputs), log_prob=-1.0, score=-1.0, finished=True)]]


@pytest.mark.parametrize(("blank", "tries"), [(0, 1), (2, 3), (MAX_SAMPLES, MAX_SAMPLES + 1), (99, MAX_SAMPLES + 1)])
def test_a_reply_is_never_blank(talker: Path, blank: int, tries: int) -> None:
    translator = Translator.load(talker, device="cpu")
    word = translator.task.tgt_tokenizer.encode("fine")[0]
    translator.engine = engine = BlankEngine(blank, word)
    reply = Conversation(translator, seed=4).reply_to("hello")
    assert reply.text == (NO_REPLY if blank == 99 else "fine")
    assert len(engine.searches) == tries
    assert len({item.seed for item in engine.searches[:MAX_SAMPLES]}) == min(tries, MAX_SAMPLES)


def test_old_turns_are_left_out_before_a_new_one_is_split(talker: Path) -> None:
    conversation = Conversation(Translator.load(talker, device="cpu"), search="greedy")
    conversation.reply_to("hello")
    long = "what is it" + " it" * 11
    assert conversation.reply_to(long).source == long, "with the turn before it would be longer than 16 tokens"
    source = conversation.reply_to(f"{long * 9} are you").source
    assert 1 < len(conversation.translator.task.src_tokenizer.encode(source)) < 16
    assert source.endswith(" are you")


def test_commands(talker: Path) -> None:
    typed = "/why\nhello\n/what\n/why\n/reset\n/why\n/quit\nhello\n"
    result = regard("chat", talker, "--search", "greedy", stdin=typed, terminal=True)
    assert result.status == 0
    assert result.lines[0] == ANSWERS["hello"]
    assert result.out.count("cross attention, layer 1 of 1, mean of 2 heads") == 1
    assert result.out.count(ANSWERS["hello"]) == 1
    assert "unknown command /what" in result.err
    assert result.err.count("there is no reply yet") == 2
    assert "a new conversation" in result.err


def test_a_pipe_gives_one_line_per_command(talker: Path) -> None:
    typed = "/why\nhello\n/what\n/why\n/reset\nbye now\n/quit\nhello\n"
    result = regard("chat", talker, "--search", "greedy", stdin=typed)
    assert result.lines == ["", ANSWERS["hello"], "", "", "", ANSWERS["bye now"]]
    assert result.err.count("cross attention, layer 1 of 1, mean of 2 heads") == 1
    values = regard("chat", talker, "--search", "greedy", "--json", stdin=typed).lines
    assert [bool(line) for line in values] == [False, True, False, True, False, True]
    assert "maps" in json.loads(values[3])


def test_why_of_a_model_without_attention(talker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.run.chat.Conversation.explain", lambda self, reply: [])
    result = regard("chat", talker, "--search", "greedy", stdin="hello\n/why\nbye now\n")
    assert result.lines == [ANSWERS["hello"], "", ANSWERS["bye now"]]
    assert "no cross-attention" in result.err


def test_why_of_a_long_reply_does_not_end_the_conversation(talker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_long(*_: object) -> None:
        raise UserError("the reply is too long", code="too-long")

    monkeypatch.setattr("regard.run.chat.Conversation.explain", too_long)
    result = regard("chat", talker, "--search", "greedy", stdin="hello\n/why\nbye now\n")
    assert (result.status, result.lines) == (0, [ANSWERS["hello"], "", ANSWERS["bye now"]])
    assert "[too-long]" in result.err


def test_a_reply_has_whole_characters_only(talker: Path) -> None:
    translator = Translator.load(talker, device="cpu")
    tokenizer = translator.task.tgt_tokenizer
    first, *rest = tokenizer.encode("日")
    assert len(rest) >= 2, "one token for each byte"
    for tokens, text in (([first, *tokenizer.encode("fine")], "fine"), ([first, rest[0]], ""), ([first, *rest], "日")):
        translator.engine = BytesEngine(tokens, tokenizer.encode("hi"))
        conversation = Conversation(translator, seed=4)
        assert conversation.reply_to("hello").text == (text or "hi")
        assert conversation.turns[-1] == (text or "hi"), "nor does the model read half a character"


def test_options_that_have_no_effect_are_not_offered(talker: Path) -> None:
    for option in ("--nbest", "--iterations", "--length-candidates", "--batch-tokens"):
        assert regard("chat", talker, option, 2, stdin="hello\n").status == 2
    assert regard("chat", talker, "--beam", 2, stdin="hello\n").status == 0


def test_why_as_json_has_every_head(talker: Path) -> None:
    reply, why = map(json.loads, regard("chat", talker, "--search", "greedy", "--json", stdin="hello\n/why\n").lines)
    assert (why["source"], why["reply"]) == (reply["source"], reply["reply"])
    cross = next(item for item in why["maps"] if item["name"] == "cross")
    weights = torch.tensor(cross["weights"])
    assert weights.shape == (1, 2, len(cross["rows"]), len(cross["columns"]))
    assert torch.allclose(weights.sum(-1), torch.ones(weights.shape[:-1]), atol=1e-3)


def test_a_pipe_gives_one_line_per_line(talker: Path) -> None:
    result = regard("chat", talker, "--search", "greedy", stdin="hello\n\n   \nbye now")
    assert (result.lines, result.err) == ([ANSWERS["hello"], "", "", ANSWERS["bye now"]], "")
    assert regard("chat", talker).out == ""


def test_a_terminal_shows_an_invitation_and_prompts_on_stderr(talker: Path) -> None:
    result = regard("chat", talker, "--search", "greedy", stdin="hello\n\nbye now\n", terminal=True)
    assert result.lines == [ANSWERS["hello"], ANSWERS["bye now"]]
    assert "/why" in result.err
    assert not re.search("[\u4e00-\u9fff]", result.err), "this terminal is English"
    assert result.err.count("> ") == 4


def test_ctrl_c_ends_the_conversation(talker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("regard.run.chat.Conversation.reply_to", interrupted)
    result = regard("chat", talker, stdin="hello\n")
    assert (result.status, result.out, result.err) == (130, "", "\n")


def test_other_translation_runs_reply_line_by_line(trained: Path) -> None:
    replies = [json.loads(line) for line in regard("chat", trained, "--json", stdin="one two\none\n").lines]
    assert [reply["source"] for reply in replies] == ["one two", "one"]


def test_errors(talker: Path, language: Path) -> None:
    assert fails("chat", talker, "--search", "greedy", "--beam", 3, stdin="hello\n").code == "unused-setting"
    assert fails("chat", language, stdin="hello\n").code == "wrong-task"


def test_help() -> None:
    text = regard("chat", "--help").out
    assert "regard chat runs/self-dialogue" in text
    assert "--temperature" in text
    assert "\n  chat " in regard("--help").out
