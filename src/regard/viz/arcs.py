"""Drawings of dependency trees for a terminal and as SVG: an arc from every word to its head, above the words.

                  root                      1  The    det    2 dogs
     ┌det─┐┌nsubj┐│┌punct┐                  2  dogs   nsubj  3 slept
     ▼    │▼     │▼│     ▼                  3  slept  root   0
    The  dogs   slept    .                  4  .      punct  3 slept

On the left, an arc has the name of its relation and ends with an arrow at the dependent; longer arcs are above shorter
ones. Every arc has its own columns, so that arcs of a tree do not touch. A tree wider than the terminal is written as
on the right, one word per line with its relation and its head. Words may be of any script (see cells.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from regard.viz.cells import pad_right, visible, width
from regard.viz.svg import LETTER, LINE, Drawing, measure, number, page, text
from regard.viz.tree import put

GAP = 2  # cells between two words
LEVEL, CORNER, ARROW = 24, 6, 4  # pixels from an arc to the next, of a rounded corner, and of half an arrow


@dataclass
class Arc:
    """An arc between two words, `left` and `right` by their index; its columns, and its level above the words."""

    left: int
    right: int
    dependent: int
    name: str
    start: int = 0
    end: int = 0
    level: int = 1


@dataclass
class ArcLayout:
    """The places of words and arcs in columns of a terminal."""

    words: list[str]
    arcs: list[Arc]
    roots: dict[int, str]
    """The name of the relation of each word that depends on the root; in a tree there is one."""
    gaps: list[int] = field(default_factory=list)
    """Columns before each word."""
    lefts: list[int] = field(default_factory=list)
    root_columns: dict[int, int] = field(default_factory=dict)
    columns: int = 0

    @property
    def levels(self) -> int:
        """The highest level of an arc."""
        return max((arc.level for arc in self.arcs), default=0)


def arrange(words: Sequence[str], heads: Sequence[int], relations: Sequence[str]) -> ArcLayout:
    """The layout of a tree; gaps between words are wide enough for the names of the arcs."""
    arcs, roots = [], {}
    for dependent, (head, relation) in enumerate(zip(heads, relations, strict=True)):
        if head:
            left, right = sorted((dependent, head - 1))
            arcs.append(Arc(left, right, dependent, visible(relation)))
        else:
            roots[dependent] = visible(relation)
    arcs.sort(key=lambda arc: arc.right - arc.left)
    layout = ArcLayout([visible(word) for word in words], arcs, roots, [0, *[GAP] * (len(words) - 1)])
    place(layout)
    for arc in arcs:
        missing = width(arc.name) - (arc.end - arc.start - 1)
        if missing > 0:
            layout.gaps[arc.right] += missing
            place(layout)
    for index, arc in enumerate(arcs):
        below = (other.level for other in arcs[:index] if other.start < arc.end and arc.start < other.end)
        arc.level = 1 + max(below, default=0)
    return layout


def place(layout: ArcLayout) -> None:
    """Compute the columns of words and arcs from the gaps.

    At a word, arcs to the left come first, short ones before long ones; then the root; then arcs to the right, long
    ones before short ones. So no arc of a projective tree crosses another.
    """
    layout.lefts, column = [], 0
    for word, name in enumerate(layout.words):
        to_left = [arc for arc in layout.arcs if arc.right == word]
        to_right = [arc for arc in reversed(layout.arcs) if arc.left == word]
        ends = len(to_left) + (word in layout.roots) + len(to_right)
        column += layout.gaps[word]
        layout.lefts.append(column + max(0, ends - width(name)) // 2)
        wide = max(width(name), ends)
        first = column + (wide - ends) // 2
        for index, arc in enumerate(to_left):
            arc.end = first + index
        layout.root_columns[word] = first + len(to_left)
        for index, arc in enumerate(to_right):
            arc.start = first + len(to_left) + (word in layout.roots) + index
        column += wide
    layout.columns = max([column, *(layout.root_columns[root] + width(name) for root, name in layout.roots.items())])


# ---- a terminal


def arcs_text(words: Sequence[str], heads: Sequence[int], relations: Sequence[str], columns: int) -> str:
    """A tree for a terminal of `columns` cells."""
    if not words:
        return ""
    layout = arrange(words, heads, relations)
    return "\n".join(drawn(layout) if layout.columns <= columns else listed(words, heads, relations))


def drawn(layout: ArcLayout) -> list[str]:
    """The layout as lines: the name of the root, a line for each level, a line of arrows, the words."""
    arrows = layout.levels + 1
    lines = [[" "] * layout.columns for _ in range(arrows + 2)]
    for arc in layout.arcs:
        row, inner = lines[arrows - arc.level], arc.end - arc.start - 1
        dashes = inner - width(arc.name)
        put(row, arc.start, f"┌{'─' * (dashes // 2)}{arc.name}{'─' * (dashes - dashes // 2)}┐")
    falling = [(arc.start, arrows - arc.level, arc.left == arc.dependent) for arc in layout.arcs]
    falling += [(arc.end, arrows - arc.level, arc.right == arc.dependent) for arc in layout.arcs]
    for root, name in layout.roots.items():
        put(lines[0], layout.root_columns[root], name)
        falling.append((layout.root_columns[root], 0, True))
    for column, top, is_dependent in falling:
        for row in lines[top + 1 : arrows]:
            row[column] = {" ": "│", "─": "┼"}.get(row[column], row[column])
        lines[arrows][column] = "▼" if is_dependent else "│"
    for left, name in zip(layout.lefts, layout.words, strict=True):
        put(lines[-1], left, name)
    return ["".join(row).rstrip() for row in lines]


def listed(words: Sequence[str], heads: Sequence[int], relations: Sequence[str]) -> list[str]:
    """A line for each word: its number, the word, its relation, the number of its head and the head."""
    names, kinds = [visible(word) for word in words], [visible(relation) for relation in relations]
    wide, wider = max(map(width, names)), max(map(width, kinds))
    return [
        f"{place:>3}  {pad_right(name, wide)}  {pad_right(kind, wider)}  {head} {['', *names][head]}".rstrip()
        for place, (name, kind, head) in enumerate(zip(names, kinds, heads, strict=True), 1)
    ]


# ---- a picture


def arcs_svg(words: Sequence[str], heads: Sequence[int], relations: Sequence[str]) -> str:
    """A tree as a picture in the style of svg.py."""
    return page(arcs_drawing(arrange(words, heads, relations)))


def arcs_drawing(layout: ArcLayout) -> Drawing:
    """The drawing of a tree without its background."""
    bottom = (layout.levels + 1) * LEVEL
    parts = []
    for arc in layout.arcs:
        start, end, top = center(arc.start), center(arc.end), bottom - arc.level * LEVEL
        corners = f"V{top + CORNER}q0 -{CORNER} {CORNER} -{CORNER}H{number(end - CORNER)}q{CORNER} 0 {CORNER} {CORNER}"
        parts.append(f'<path class="axis" d="M{number(start)} {bottom}{corners}V{bottom}"/>')
        parts.append(arrow(start if arc.dependent == arc.left else end, bottom))
        parts.append(text((start + end) / 2, top - 3, arc.name, 'text-anchor="middle"'))
    for root, name in layout.roots.items():
        x = center(layout.root_columns[root])
        parts.append(f'<path class="axis" d="M{number(x)} 0V{bottom}"/>')
        parts += [arrow(x, bottom), text(x + CORNER, 11, name)]
    for left, name in zip(layout.lefts, layout.words, strict=True):
        parts.append(text(left * LETTER, bottom + 18, name, 'class="title"'))
    reach = max(
        (center(layout.root_columns[root]) + CORNER + measure(name) for root, name in layout.roots.items()), default=0
    )
    return Drawing(max(layout.columns * LETTER, reach), bottom + LINE + 4, "\n".join(parts))


def center(column: int) -> float:
    """The middle of a column in pixels."""
    return LETTER * (column + 0.5)


def arrow(x: float, y: float) -> str:
    """An arrow that points down to (x, y)."""
    return f'<path class="more" d="M{number(x)} {y}l-{ARROW} -{2 * ARROW}h{2 * ARROW}z"/>'
