"""Dialogues as pairs: the last turns, and the reply.

A file contains dialogues, one turn per line, with a blank line between them. A line "# topic: ..." may come before the
first turn; it is not a turn.

    # topic: films              turns = 1                        turns = 2
    Seen it?                    Seen it?     -> Not yet.         Seen it?             -> Not yet.
    Not yet.                    Not yet.     -> You should!      Seen it? ⇥ Not yet.  -> You should!
    You should!

Every turn but the first is a reply, so the model learns both speakers (Vinyals and Le 2015, "A Neural Conversational
Model", section 3, reads the whole past in the same way; `turns` bounds it).

Turns are joined by a tab. No turn contains one, since white space inside a turn becomes single spaces; it is one of the
256 bytes that every vocabulary has; and it never merges with a word into one token. So it is always one token, and the
model can tell the turns apart.

A dialogue belongs to one split, by a hash of its turns: neighbouring pairs share turns, and a model that has learnt
half of a dialogue remembers the other half. A file that grows moves no dialogue to another split.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from regard.data.records import Location, Record
from regard.data.sources import Split
from regard.data.split import hash_text, split_of
from regard.errors import UserError

SEPARATOR = "\t"
HEADING = "# topic:"
HELD_OUT = 0.02  # share of the dialogues for valid, and for test
MAX_CHARACTERS = 1 << 20  # of a dialogue, which is held in memory; as long as a book


def normalize_turn(line: str) -> str:
    """The words of a line with single spaces between them."""
    return " ".join(line.split())


def join_turns(turns: Sequence[str]) -> str:
    """The text that a model reads before it replies."""
    return SEPARATOR.join(turns)


def dialogue_split(turns: Sequence[str]) -> Split:
    """The split of a dialogue, by a hash of its turns."""
    return split_of(hash_text("\n".join(turns)), HELD_OUT, HELD_OUT)


def pairs(lines: Iterable[str], path: Path, split: Split | None, turns: int) -> Iterator[tuple[str, str, int, bool]]:
    """Source, reply, the line of the reply, and True if the dialogue is in the split; all are if it is None."""
    count = selected = 0
    for first, dialogue in dialogues(lines, path):
        count += 1
        in_split = split in (None, dialogue_split(dialogue))
        selected += in_split
        for reply in range(1, len(dialogue)):
            yield join_turns(dialogue[max(0, reply - turns) : reply]), dialogue[reply], first + reply, in_split
    if split is not None and not selected:
        problem = f"{path} has only {count} dialogues, too few for the split {split!r}"
        remedy = f"add dialogues (valid and test get {HELD_OUT:.0%} each), or one file per split, without `split`"
        raise UserError(problem, remedy, code="no-data", where=path)


def dialogues(lines: Iterable[str], path: Path) -> Iterator[tuple[int, list[str]]]:
    """Every dialogue: the line of its first turn, and its turns."""
    turns: list[str] = []
    first = characters = 0
    for number, line in enumerate(lines, 1):
        turn = normalize_turn(line)
        if turn.startswith(HEADING):
            if turns:
                problem = f"{turn!r} is inside the dialogue that begins on line {first}"
                remedy = "put a blank line before it: it belongs to the next dialogue"
                raise Record(Location(path, number), turn).error(problem, remedy, "bad-line")
        elif turn:
            first = first if turns else number
            characters = len(turn) + (characters if turns else 0)
            if characters > MAX_CHARACTERS:
                problem = f"the dialogue that begins on line {first} is longer than {MAX_CHARACTERS:,} characters"
                remedy = "put a blank line between dialogues"
                raise Record(Location(path, number), turn).error(problem, remedy, "bad-line")
            turns.append(turn)
        elif turns:
            yield first, turns
            turns = []
    if turns:
        yield first, turns
