"""Talking with a run that has learnt to reply: it reads the last turns, as it did in training, and writes the next.

from regard.run import Translator
from regard.run.chat import Conversation
talk = Conversation(Translator.load("runs/self-dialogue"))
talk.answer("Have you seen any good films?").text

The likeliest reply to almost anything is "I don't know" (Li et al. 2016, "A Diversity-Promoting Objective Function for
Neural Conversation Models"), so replies are drawn. Each draw follows from the seed and the turn's number alone: what is
said twice to the same seed is the same conversation.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from regard.config import build
from regard.data.dialogues import join_turns, normalize_turn
from regard.decoding.settings import DecodingSettings
from regard.random import hash_bytes
from regard.recipe import TranslationRecipe
from regard.run.translator import Translator, searching
from regard.tasks.streaming import cut
from regard.viz import Map

DRAWS = 4  # before a reply that comes out blank is searched for instead
SILENCE = "…"


@dataclass(frozen=True)
class Reply:
    """What was said, as which turn, what the model read of the conversation, and what it replied to that."""

    turn: int
    said: str
    source: str
    text: str
    tokens: list[int]
    score: float
    finished: bool


class Conversation:
    """A talk with one run. It remembers what both sides have said, as far back as it is read."""

    def __init__(self, translator: Translator, **changes: Any) -> None:
        """`changes` are those of the run's search: temperature=0.8, seed=7, search="greedy", ..."""
        self.translator, self.settings = translator, translator.decoding(**changes)
        self.context = turns_read(translator.run.recipe)
        self.reset()

    def reset(self) -> None:
        """Begin anew: the first turn is the next."""
        self.turns: list[str] = []
        self.count = 0

    def answer(self, line: str) -> Reply:
        """The reply to a line that is not blank; no reply is."""
        said = normalize_turn(line)
        source = self.fitting([*self.turns, said][-self.context :])
        self.count += 1
        reply = self.reply(source, said)
        self.turns = [*self.turns, said, reply.text][-self.context :]
        return reply

    def reply(self, source: str, said: str) -> Reply:
        """The first attempt that says something; a model that insists on saying nothing is shown to be silent."""
        task, engine = self.translator.task, self.translator.engine
        for settings in attempts(self.settings, self.count):
            (prediction,) = task.predict(engine, [source], settings)
            options = list(zip(map(normalize_turn, prediction.texts), prediction.hypotheses, strict=True))
            text, found = next((option for option in options if option[0]), (SILENCE, options[0][1]))
            if text != SILENCE:
                break
        return Reply(self.count, said, source, text, list(found.tokens), found.score, found.finished)

    def fitting(self, turns: Sequence[str]) -> str:
        """The turns as a source; where they are longer than the model reads, the oldest are forgotten first."""
        vocabulary, longest = self.translator.task.src_vocabulary, self.translator.task.max_source - 1
        while len(turns) > 1 and len(vocabulary.encode(join_turns(turns))) > longest:
            turns = turns[1:]
        return cut(join_turns(turns), vocabulary, longest)[-1][0]

    def why(self, reply: Reply) -> list[Map]:
        """What attended to what while a reply was written."""
        return self.translator.attention(reply.source, reply.tokens)


def turns_read(recipe: TranslationRecipe) -> int:
    """How many turns a run was trained to read; one where it was not trained on dialogues."""
    return max((source.turns or 1 for source in recipe.data.train if source.format == "dialogues"), default=1)


def attempts(settings: DecodingSettings, turn: int) -> Iterator[DecodingSettings]:
    """The searches for a reply one after another: a few draws and then the likeliest words, or the one asked for."""
    if settings.search != "sample":
        yield settings
        return
    for attempt in range(DRAWS):
        yield settings.model_copy(update={"seed": draw_seed(settings.seed, turn, attempt)})
    yield build(DecodingSettings, searching(settings, {"search": "greedy"}), "decoding")


def draw_seed(seed: int, turn: int, attempt: int) -> int:
    """The seed of a draw: a function of the conversation's seed, the turn's number, and how often it was drawn."""
    return int.from_bytes(hash_bytes(seed, turn, attempt, separator=":", size=6))
