"""A model's architecture as a picture: parts from bottom to top, as in figure 1 of Vaswani et al. 2017.

    column   what reads one sequence: an encoder, a decoder
    stack    equal layers, drawn once in a frame with their number
    part     a box: what it does, the shape of its output, and its number of parameters

A residual connection is a line around the parts that it skips. An arrow from one column to another carries what the
other reads: keys and values, or a state. The picture has the style of svg.py: no scripts, light and dark, same bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.messages import Message, join_messages, localize
from regard.viz.svg import LETTER, LINE, Drawing, above_each_other, measure, moved, number, page, text

COLOURS = {
    "embedding": "#cc79a7", "attention": "#e69f00", "feedforward": "#56b4e9", "norm": "#999999",
    "recurrent": "#009e73", "convolution": "#0072b2", "output": "#d55e00", "other": "#999999",
}  # fmt: skip
"""Colours of Okabe and Ito (2008) for each kind of part, drawn transparent on light and dark ground."""
STROKE = "#8b949e"
PADDING, GAP, LANE, EDGE, BETWEEN = 8, 16, 22, 10, 110
"""Pixels: inside a box, between boxes, for lines at the left, for a frame at the right, and between columns."""


@dataclass(frozen=True)
class Part:
    """One box: its kind (a key of COLOURS), name, details, the shape of its output, and its own parameters."""

    kind: str
    name: str
    details: tuple[str, ...] = ()
    shape: str = ""
    parameters: int = 0
    skips: int = 0
    """The number of parts below it that a residual connection goes around."""
    reads: str = ""
    """What it reads from the first column: keys and values, or a state."""

    @property
    def detail(self) -> str:
        return join_messages(", ", self.details)


@dataclass(frozen=True)
class Stack:
    """Parts one above the other; `repeat` equal layers have a frame and a name."""

    parts: tuple[Part, ...]
    name: str = ""
    repeat: int = 1
    is_extra: bool = False
    """True above the output that other columns read."""

    @property
    def parameters(self) -> int:
        """The parameters of one layer."""
        return sum(part.parameters for part in self.parts)


@dataclass(frozen=True)
class Column:
    """What reads one sequence, from its input below to its output above; without a `source` it reads other columns."""

    name: str
    source: str
    stacks: tuple[Stack, ...]

    @property
    def parameters(self) -> int:
        return sum(stack.repeat * stack.parameters for stack in self.stacks)


@dataclass(frozen=True)
class Architecture:
    """The parts of a model. A notebook draws it; `svg` is the picture, `str` a list with shapes and parameters."""

    title: str
    columns: tuple[Column, ...]
    notes: tuple[str, ...] = ()
    """What the letters in shapes mean, and what is assumed."""

    @property
    def parameters(self) -> int:
        """The number of parameters; a shared one counts once."""
        return sum(column.parameters for column in self.columns)

    def svg(self, chinese: bool | None = None) -> str:
        """The picture with texts in English or Chinese; by default in the terminal's language."""
        return architecture_svg(self, chinese)

    def _repr_html_(self) -> str:
        return self.svg()

    def __str__(self) -> str:
        """One line for each part, from the input to the output, in the terminal's language."""
        lines = [self.title]
        for column in self.columns:
            lines.append(Message("{name} ({count:,} parameters)", name=column.name, count=column.parameters))
            for stack in column.stacks:
                lines += [caption(stack)] if stack.name else []
                for part in stack.parts:
                    words = ": ".join(localize(text) for text in (part.name, part.detail) if text)
                    lines.append(f"{part.parameters:>13,}  {part.shape:16} {words}")
        lines += [Message("{count:,} parameters", count=self.parameters), *self.notes]
        return "\n".join(map(localize, lines))


def caption(stack: Stack) -> str:
    """The name of equal layers, their number, and the parameters of each."""
    values = {"repeat": stack.repeat, "name": stack.name, "count": stack.parameters}
    return Message("{repeat} × {name}, {count:,} parameters each", **values)


def architecture_svg(shown: Architecture, chinese: bool | None = None) -> str:
    """Columns beside each other with the arrows between them, below the title, above the notes."""
    total = Message("{count:,} parameters", count=shown.parameters)
    heading = lines_drawing([shown.title, total], chinese, 'class="title"')
    notes = lines_drawing(shown.notes, chinese)
    return page(above_each_other([heading, columns_drawing(shown.columns, chinese), notes]))


def lines_drawing(lines: Sequence[str], chinese: bool | None, attributes: str = "") -> Drawing:
    texts = [localize(each, chinese) for each in lines]
    body = [text(0, LINE * row + 14, each, attributes) for row, each in enumerate(texts)]
    return Drawing(max(map(measure, texts)), LINE * len(texts), "\n".join(body))


@dataclass(frozen=True)
class Placed:
    """A column that is drawn: y of its output, and y of each part that reads another column, with what it reads."""

    drawing: Drawing
    top: float
    readers: tuple[tuple[float, str], ...]


def columns_drawing(columns: Sequence[Column], chinese: bool | None) -> Drawing:
    """Columns that begin at the same height; an arrow leads from the first one's output to each part that reads it."""
    placed = [place_column(column, chinese) for column in columns]
    height = max(each.drawing.height for each in placed)
    body, x = [], 0.0
    for order, each in enumerate(placed):
        drop = height - each.drawing.height
        if order and each.readers:
            first = placed[0]
            bus, start = x - BETWEEN / 2 - LANE, height - first.drawing.height + first.top
            ends = [start - 10, *(drop + y for y, _ in each.readers)]
            middle = (first.drawing.width + LANE - EDGE) / 2
            body.append(path(f"M{number(middle)} {number(start)}v-10H{number(bus)}"))
            body.append(path(f"M{number(bus)} {number(min(ends))}V{number(max(ends))}"))
            for y, label in each.readers:
                body.append(path(f"M{number(bus)} {number(drop + y)}H{number(x + LANE - 6)}"))
                body.append(head(x + LANE, drop + y, "right"))
                body.append(text(bus + 5, drop + y - 5, localize(label, chinese)))
        body.append(moved(each.drawing, x, drop))
        x += each.drawing.width + BETWEEN
    return Drawing(x - BETWEEN, height, "\n".join(body))


def place_column(column: Column, chinese: bool | None) -> Placed:
    """The boxes of a column, drawn upwards from y = 0, then moved below y = 0."""
    parts = [part for stack in column.stacks for part in stack.parts]
    wide = max(part_width(part, chinese) for part in parts)
    captions = [localize(caption(stack), chinese) for stack in column.stacks if stack.name]
    title = localize(Message("{name} ({count:,} parameters)", name=column.name, count=column.parameters), chinese)
    wide = max([wide, measure(title) - LANE, *(measure(each) + 2 * PADDING for each in captions)])
    middle, y = LANE + wide / 2, -float(LINE)
    body, readers, output = list[str](), list[tuple[float, str]](), 0.0
    if column.source:
        body.append(text(middle, -4, localize(column.source, chinese), 'text-anchor="middle"'))
    for stack in column.stacks:
        output = output if stack.is_extra else 0.0
        below, bottoms = y - (GAP if stack.name else 0), list[float]()
        y -= GAP / 2 if stack.name else 0
        for part in stack.parts:
            high = part_height(part)
            y -= GAP
            bottoms.append(y)
            if column.source or part is not parts[0]:
                body += [path(f"M{number(middle)} {number(y + GAP)}v{-GAP + 5}"), head(middle, y, "up")]
            body.append(moved(part_drawing(part, wide, chinese), LANE, y - high))
            if part.skips:
                start, end = bottoms[-1 - part.skips] + GAP * 0.55, y - high / 2
                body.append(
                    path(f"M{number(middle)} {number(start)}H{LANE - 8 - 3 * part.skips}V{number(end)}H{LANE - 6}")
                )
                body.append(head(LANE, end, "right"))
            readers += [(y - high / 2, part.reads)] if part.reads else []
            y -= high
        if stack.name:
            y -= LINE + 4
            body.append(text(LANE, y + 15, localize(caption(stack), chinese)))
            box = f'x="2" y="{number(y)}" width="{number(LANE + wide + 6)}" height="{number(below - y + GAP / 2)}"'
            body.append(f'<rect {box} rx="8" fill="none" stroke="{STROKE}" stroke-dasharray="4 3"/>')
        output = output or y
    top = y - LINE - GAP
    body.append(text(middle, top + 12, title, 'text-anchor="middle" class="title"'))
    drawing = Drawing(LANE + wide + EDGE, -top, moved(Drawing(0, 0, "\n".join(body)), 0, -top))
    return Placed(drawing, output - top, tuple((each - top, label) for each, label in readers))


def part_height(part: Part) -> float:
    return LINE * (2 if part.detail or part.shape else 1) + 4


def part_width(part: Part, chinese: bool | None) -> float:
    rows = (part.name, f"{part.parameters:,}"), (part.detail, part.shape)
    return max(sum(measure(localize(each, chinese)) for each in row) for row in rows) + 2 * PADDING + 3 * LETTER


def part_drawing(part: Part, wide: float, chinese: bool | None) -> Drawing:
    """A box: name and parameters, and below them details and the shape of the output."""
    high, colour, end = part_height(part), COLOURS[part.kind], wide - PADDING
    box = f'width="{number(wide)}" height="{number(high)}" rx="5" fill="{colour}" fill-opacity="0.2" stroke="{colour}"'
    shown = [f"<rect {box}/>", text(PADDING, 16, localize(part.name, chinese), 'class="title"')]
    if part.parameters:
        shown.append(text(end, 16, f"{part.parameters:,}", 'text-anchor="end"'))
    shown.append(text(PADDING, 35, localize(part.detail, chinese)) if part.detail else "")
    shown.append(text(end, 35, part.shape, 'text-anchor="end"') if part.shape else "")
    return Drawing(wide, high, "\n".join(filter(None, shown)))


def path(d: str) -> str:
    return f'<path class="axis" d="{d}"/>'


def head(x: float, y: float, direction: str) -> str:
    """The head of an arrow whose tip is at a place."""
    sides = {"up": "l-4 7h8z", "right": "l-7 -4v8z"}[direction]
    return f'<path fill="{STROKE}" d="M{number(x)} {number(y)}{sides}"/>'
