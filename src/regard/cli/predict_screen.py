"""What a model says of one example, for people to read: bars, tags under their words, an answer marked in its text."""

import shutil
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from regard.cli.screen import CONTROL
from regard.viz.cells import ELLIPSIS, cut, pad_right, width

Said = dict[str, Any]

BAR = 24  # cells of a probability of one
EIGHTHS = " ▏▎▍▌▋▊▉█"
AROUND = 160  # characters of a text shown on either side of an answer
BOLD, BLUE, RESET = "\x1b[1m", "\x1b[36m", "\x1b[0m"


class Drawing:
    """How much room there is, and whether there are colours."""

    def __init__(self, colour: bool, room: int | None = None) -> None:
        self.colour = colour
        self.room = room or shutil.get_terminal_size().columns

    def show(self, task: str, said: Said) -> str:
        """What was said, as its task is best looked at."""
        return SHOWN[task](self, said)

    def bold(self, text: str) -> str:
        return f"{BOLD}{text}{RESET}" if self.colour else text

    def bars(self, shares: Sequence[tuple[str, float]], best: int = 0) -> str:
        """A line for each name: how likely it is, as a bar and a number."""
        names = [cut(safe(name), max(8, self.room - BAR - 10)) for name, _ in shares]
        side = max(map(width, names), default=0)
        lines = []
        for number, (name, (_, share)) in enumerate(zip(names, shares, strict=True)):
            mark, written = ("→", self.bold(pad_right(name, side))) if number == best else (" ", pad_right(name, side))
            drawn = pad_right(bar(share), BAR)
            drawn = f"{BLUE}{drawn}{RESET}" if self.colour else drawn
            lines.append(f"{mark} {written}  {drawn} {share:>4.0%}")
        return "\n".join(lines)

    def classes(self, said: Said) -> str:
        return self.bars(list(said["probabilities"].items()))

    def number(self, said: Said) -> str:
        return self.bold(f"{said['score']:.3f}")

    def tags(self, said: Said) -> str:
        """Tags under their words, as many beside each other as there is room for; nothing under what is outside."""
        pairs = [(safe(word), "" if tag == "O" else safe(tag)) for word, tag in self._tagged(said)]
        lines, above, below = [], "", ""
        for word, tag in pairs:
            cells = max(width(word), width(tag)) + 1
            if above and width(above) + cells > self.room:
                lines += [above, below]
                above, below = "", ""
            above, below = above + pad_right(word, cells), below + pad_right(tag, cells)
        lines = [line.rstrip() for line in [*lines, above, below]]
        return "\n".join(self.bold(line) if number % 2 and line else line for number, line in enumerate(lines))

    def _tagged(self, said: Said) -> Iterable[tuple[str, str]]:
        return zip(said["words"], said["tags"], strict=True)

    def answer(self, said: Said) -> str:
        """The answer, and where it stands."""
        sure = f"({said['probability']:.0%})"
        if not said["answer"]:
            return f"{self.bold('no answer')} {sure}"
        context, start, end = said["context"], said["start"], said["end"]
        before = (ELLIPSIS if start > AROUND else "") + context[max(0, start - AROUND) : start]
        after = context[end : end + AROUND] + (ELLIPSIS if len(context) > end + AROUND else "")
        marked = self.bold(safe(context[start:end])) if self.colour else f"[[{safe(context[start:end])}]]"
        return f"{self.bold(safe(said['answer']))} {sure}\n\n{safe(before)}{marked}{safe(after)}"

    def choices(self, said: Said) -> str:
        return self.bars(list(zip(said["choices"], said["probabilities"], strict=True)), said["label"])

    def masks(self, said: Said) -> str:
        """The likeliest pieces of each [MASK], and whether the second text comes next."""
        shown = [self.bars([(each["piece"], each["probability"]) for each in mask]) for mask in said.get("masks", ())]
        shown += [f"comes next: {said['next']:.0%}"] if "next" in said else []
        silent = "there is no [MASK] in the text" if "masks" in said else "imported without what fills in [MASK]"
        return "\n\n".join(shown) or silent


def bar(share: float) -> str:
    """█████▍ for a share of BAR cells, to an eighth of a cell."""
    eighths = round(min(max(share, 0.0), 1.0) * BAR * 8)
    return ("█" * (eighths // 8) + EIGHTHS[eighths % 8]).rstrip()


def safe(text: str) -> str:
    """In one line, and nothing in it that a terminal obeys."""
    return " ".join(text.split("\n")).replace("\t", " ").translate(CONTROL)


SHOWN: dict[str, Callable[[Drawing, Said], str]] = {
    "classification": Drawing.classes,
    "regression": Drawing.number,
    "tagging": Drawing.tags,
    "answering": Drawing.answer,
    "choice": Drawing.choices,
    "pretraining": Drawing.masks,
    "translation": lambda _, said: safe(said["translation"]),
    "language": lambda _, said: "\n".join(safe(each["text"]) for each in said["texts"]),
    "parsing": lambda _, said: safe(said["tree"]),
}
