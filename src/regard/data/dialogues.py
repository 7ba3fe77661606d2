"""Conversations as pairs to learn from: the turns that were said last, and the reply.

A file holds dialogues, one turn a line, with a blank line between them; a line "# topic: ..." may head a dialogue, and
is no turn.

    # topic: films              context = 1                      context = 2
    Seen it?                    Seen it?     -> Not yet.         Seen it?             -> Not yet.
    Not yet.                    Not yet.     -> You should!      Seen it? ⇥ Not yet.  -> You should!
    You should!

Every turn but the first is a reply, so who speaks does not matter: the model learns both sides (Vinyals and Le 2015, "A
Neural Conversational Model", section 3, reads the whole past in the same way; `context` bounds it).

Turns are joined by a tab. No turn holds one, since blanks of every kind inside a turn are made single spaces; it is one
of the 256 bytes that every vocabulary has; and between two words it never melts into a piece with either. So it is one
token wherever it stands, and the model can tell the turns apart.

A dialogue belongs to one part, by a hash of what is said in it: neighbouring pairs share their turns, and a model that
has learnt half of a conversation remembers the rest. A file that grows moves nothing between the parts.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from regard.data.builtin import Part
from regard.errors import UserError

SEPARATOR = "\t"
HEADING = "# topic:"
HELD_OUT = 0.02  # of the dialogues, for valid and for test each
LONGEST = 1 << 20  # characters of a dialogue, which is held in memory; a book has as many


def as_turn(line: str) -> str:
    """What is said in a line: its words with single spaces between them."""
    return " ".join(line.split())


def as_source(turns: Sequence[str]) -> str:
    """What a model reads before it replies."""
    return SEPARATOR.join(turns)


def part_of(turns: Sequence[str]) -> Part:
    """The part a dialogue belongs to: its place in [0, 1) is a hash; test is the low end, valid the high end."""
    key = hashlib.blake2b("\n".join(turns).encode(), digest_size=8).digest()
    place = int.from_bytes(key) / 2**64
    return "test" if place < HELD_OUT else "valid" if place >= 1 - HELD_OUT else "train"


def pairs(lines: Iterable[str], path: Path, part: Part | None, context: int) -> Iterator[tuple[str, str, int]]:
    """Source, reply, and the line the reply stands on, of the dialogues of a part; without one, of all of them."""
    count = found = 0
    for first, turns in dialogues(lines, path):
        count += 1
        if part in (None, part_of(turns)):
            found += 1
            for said in range(1, len(turns)):
                yield as_source(turns[max(0, said - context) : said]), turns[said], first + said
    if part is not None and not found:
        raise UserError(
            f"none of the {count} dialogues of {path} is in the part {part!r}",
            f"valid and test hold {HELD_OUT:.0%} each; give more dialogues, or files of their own without part",
        )


def dialogues(lines: Iterable[str], path: Path) -> Iterator[tuple[int, list[str]]]:
    """Every dialogue as the line its first turn stands on, and its turns."""
    turns: list[str] = []
    first = characters = 0
    for number, line in enumerate(lines, 1):
        turn = as_turn(line)
        if turn.startswith(HEADING):
            if turns:
                raise UserError(
                    f"{path}, line {number}: {turn!r} stands inside the dialogue that begins on line {first}",
                    "put a blank line before it: it heads the next dialogue",
                )
        elif turn:
            first = first if turns else number
            characters = len(turn) + (characters if turns else 0)
            if characters > LONGEST:
                raise UserError(
                    f"{path}, line {number}: the dialogue that begins on line {first} is longer than {LONGEST:,} "
                    "characters",
                    "put a blank line between dialogues",
                )
            turns.append(turn)
        elif turns:
            yield first, turns
            turns = []
    if turns:
        yield first, turns


def fingerprint(part: Part | None, context: int) -> str:
    """What the pairs depend on beside the file."""
    return f"dialogues {part} {context} {SEPARATOR!r} {HEADING!r} {HELD_OUT}"
