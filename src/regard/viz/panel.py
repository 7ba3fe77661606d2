"""Predictions for a terminal: bars of probabilities, tags below words, an answer marked in its text."""

import shutil
from collections.abc import Iterable, Sequence

from regard.viz.cells import ELLIPSIS, cut, pad_right, width

BAR_CELLS = 24
"""Terminal cells of a bar of probability 1."""
EIGHTHS = " ▏▎▍▌▋▊▉█"
CONTEXT_CHARACTERS = 160
"""Characters of the text shown on either side of a marked span."""
BOLD, BLUE, RESET = "\x1b[1m", "\x1b[36m", "\x1b[0m"
CONTROL = {code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"}
CONTROL |= dict.fromkeys(range(0x7F, 0xA0), "␡")


class Screen:
    """A terminal: its width in cells, and whether it shows colours."""

    def __init__(self, colour: bool, columns: int | None = None) -> None:
        self.colour = colour
        self.columns = columns or shutil.get_terminal_size().columns

    def bold(self, text: str) -> str:
        return f"{BOLD}{text}{RESET}" if self.colour else text

    def bars(self, shares: Sequence[tuple[str, float]], best: int = 0) -> str:
        """One line per name: the name, its probability as a bar and as a number."""
        names = [cut(printable(name), max(8, self.columns - BAR_CELLS - 10)) for name, _ in shares]
        side = max(map(width, names), default=0)
        lines = []
        for number, (name, (_, share)) in enumerate(zip(names, shares, strict=True)):
            padded = pad_right(name, side)
            mark, padded = ("→", self.bold(padded)) if number == best else (" ", padded)
            filled = pad_right(bar(share), BAR_CELLS)
            filled = f"{BLUE}{filled}{RESET}" if self.colour else filled
            lines.append(f"{mark} {padded}  {filled} {share:>4.0%}")
        return "\n".join(lines)

    def tags(self, words: Iterable[tuple[str, str]]) -> str:
        """Words with their tags below them; nothing below a word with tag O."""
        lines, above, below = [], "", ""
        for word, tag in words:
            word, tag = printable(word), "" if tag == "O" else printable(tag)
            cells = max(width(word), width(tag)) + 1
            if above and width(above) + cells > self.columns:
                lines += [above, below]
                above, below = "", ""
            above, below = above + pad_right(word, cells), below + pad_right(tag, cells)
        lines = [line.rstrip() for line in [*lines, above, below]]
        return "\n".join(self.bold(line) if number % 2 and line else line for number, line in enumerate(lines))

    def marked(self, text: str, start: int, end: int) -> str:
        """Characters `start` to `end` of a text in bold, or in [[...]] without colours, and some text around them."""
        before = (ELLIPSIS if start > CONTEXT_CHARACTERS else "") + text[max(0, start - CONTEXT_CHARACTERS) : start]
        after = text[end : end + CONTEXT_CHARACTERS] + (ELLIPSIS if len(text) > end + CONTEXT_CHARACTERS else "")
        span = printable(text[start:end])
        return f"{printable(before)}{self.bold(span) if self.colour else f'[[{span}]]'}{printable(after)}"


def bar(share: float) -> str:
    """A bar like █████▍ for a share of BAR_CELLS cells, in steps of an eighth of a cell."""
    eighths = round(min(max(share, 0.0), 1.0) * BAR_CELLS * 8)
    return ("█" * (eighths // 8) + EIGHTHS[eighths % 8]).rstrip()


def printable(text: str) -> str:
    """The text on one line, with control characters replaced by visible ones."""
    return " ".join(text.split("\n")).replace("\t", " ").translate(CONTROL)
