"""A conversation with a run that was trained on dialogues: it reads the last turns and writes the next one.

from regard import Translator
from regard.run.chat import Conversation
Conversation(Translator.load("runs/self-dialogue")).reply_to("Have you seen any good films?").text

The most probable reply to almost anything is "I don't know" (Li et al. 2016, "A Diversity-Promoting Objective Function
for Neural Conversation Models"), so replies are sampled. A sample depends on the seed and the number of the turn only:
the same inputs with the same seed give the same conversation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from regard.config import build
from regard.data.dialogues import join_turns, normalize_turn
from regard.decoding.settings import DecodingSettings, change_search
from regard.run.model import Translator
from regard.seeding import hash_bytes
from regard.tasks.inputs import split_spans
from regard.tasks.seq2seq import TranslationRecipe
from regard.viz.report import AttentionMap

MAX_SAMPLES = 4
"""Samples that may be blank before greedy search is used."""
NO_REPLY = "…"
"""The reply if every attempt is blank."""


@dataclass(frozen=True)
class Reply:
    """A line of the user, the turns that the model read, and its reply."""

    turn: int
    message: str
    source: str
    text: str
    tokens: list[int]
    score: float
    finished: bool


class Conversation:
    """A conversation with one run; it keeps as many turns as the model reads."""

    def __init__(self, translator: Translator, **options: object) -> None:
        """`options` change the search of the run: temperature=0.8, seed=7, search="greedy", ..."""
        self.translator, self.decoding = translator, translator.task.configure(**options).decoding
        self.max_turns = turns_read(translator.task.recipe)
        self.reset()

    def reset(self) -> None:
        self.turns: list[str] = []
        self.count = 0

    def reply_to(self, line: str) -> Reply:
        """The reply to a line that is not blank; a reply is never blank."""
        message = normalize_turn(line)
        source = self.source([*self.turns, message][-self.max_turns :])
        self.count += 1
        reply = self._reply(source, message)
        self.turns = [*self.turns, message, reply.text][-self.max_turns :]
        return reply

    def _reply(self, source: str, message: str) -> Reply:
        """The first attempt that is not blank."""
        task, engine = self.translator.task, self.translator.engine
        for decoding in attempts(self.decoding, self.count):
            (prediction,) = replace(task, decoding=decoding).predict(engine, [{"src": source}])
            hypotheses = prediction["hypotheses"]
            spoken = [(text, item) for item in hypotheses if (text := normalize_turn(item["text"]))]
            text, hypothesis = spoken[0] if spoken else (NO_REPLY, hypotheses[0])
            if spoken:
                break
        return Reply(
            self.count, message, source, text, hypothesis["tokens"], hypothesis["score"], hypothesis["finished"]
        )

    def source(self, turns: Sequence[str]) -> str:
        """The turns as a source sentence; if they are too long for the model, the oldest ones are left out."""
        tokenizer, max_tokens = self.translator.task.src_tokenizer, self.translator.task.max_source - 1
        while len(turns) > 1 and len(tokenizer.encode(join_turns(turns))) > max_tokens:
            turns = turns[1:]
        text = join_turns(turns)
        return text[slice(*split_spans(text, tokenizer, max_tokens)[-1][0])]

    def explain(self, reply: Reply) -> list[AttentionMap]:
        prediction = {"translation": reply.text, "hypotheses": [{"tokens": reply.tokens}]}
        return self.translator.task.attention(self.translator.model, {"src": reply.source}, prediction)


def turns_read(recipe: TranslationRecipe) -> int:
    """The number of turns that a run was trained to read; 1 if it was not trained on dialogues."""
    return max((source.turns or 1 for source in recipe.data.train if source.format == "dialogues"), default=1)


def attempts(decoding: DecodingSettings, turn: int) -> Iterator[DecodingSettings]:
    """The searches for a reply in order: some samples and then greedy search, or the given search only."""
    if decoding.search != "sample":
        yield decoding
        return
    for attempt in range(MAX_SAMPLES):
        yield decoding.model_copy(update={"seed": sample_seed(decoding.seed, turn, attempt)})
    yield build(DecodingSettings, change_search(decoding, {"search": "greedy"}), "decoding")


def sample_seed(seed: int, turn: int, attempt: int) -> int:
    """The seed of a sample: a function of the seed of the conversation, the turn and the attempt."""
    return int.from_bytes(hash_bytes(seed, turn, attempt, separator=":", size=6))
