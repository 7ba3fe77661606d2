"""Drawings of phrase-structure trees for a terminal and as SVG.

                 S                         S
       ┌─────────┴┬────────┐               ├─ NP  the cat
       │          VP       │               ├─ VP
       │       ┌──┴──┐     │               │  ├─ saw
       NP      │     NP    │               │  └─ NP  a dog
     ┌─┴──┐    │   ┌─┴─┐   │               └─ .
    the  cat  saw  a  dog  .

On the left, all words are on one line and every phrase is as low as possible. A tree wider than the terminal is drawn
as on the right, one phrase per line. Words may be of any script (see cells.py). Parts of speech are drawn only if
`with_tags` makes them phrases.

A generated tree can be deeper than Python's recursion limit, so there is no recursion in this file.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from regard.trees import OUTER, Tree
from regard.viz.cells import graphemes, visible, width
from regard.viz.svg import LETTER, LINE, Drawing, above_each_other, measure, number, page, text, words

GAP, WIDER_GAP = 2, 3  # cells between two words, in a terminal and in a picture
LEVEL, PADDING = 40, 6  # pixels from a phrase to its children, and around its label


@dataclass
class Spot:
    """The place of a phrase or word: its first column, its level above the words, and the spots of its children."""

    name: str
    left: int = 0
    level: int = 0
    held: list["Spot"] = field(default_factory=list)

    @property
    def middle(self) -> int:
        """The column where its lines begin and end."""
        return self.left + (width(self.name) - 1) // 2


def outermost(tree: Tree) -> Tree:
    """The tree without the bracket around a sentence, if that has one child."""
    return tree.children[0] if tree.label in OUTER and len(tree.children) == 1 else tree


def with_tags(tree: Tree) -> Tree:
    """The tree with each part of speech as a phrase over its word, so that it is drawn."""
    done: list[Tree] = []
    for node in post_order(tree):
        count = len(node.children)
        held, done = tuple(done[len(done) - count :]), done[: len(done) - count]
        done.append(Tree(node.label, held or (Tree("", (), node.word),)))
    return done[0]


def post_order(tree: Tree) -> Iterator[Tree]:
    """Every node after its children, from left to right."""
    ahead, seen = [tree], list[Tree]()
    while ahead:
        node = ahead.pop()
        seen.append(node)
        ahead += node.children
    return reversed(seen)


def name(node: Tree) -> str:
    return visible(node.label if node.children else node.word)


# ---- words on one line


def arranged(tree: Tree, gap: int) -> tuple[list[Spot], int]:
    """The spots of a tree, the root last, and the width of the tree in columns.

    The children of a phrase are side by side, `gap` columns apart, and the phrase is above their middle.
    """
    done: list[tuple[list[Spot], int]] = []
    for node in post_order(tree):
        count = len(node.children)
        held, done = done[len(done) - count :], done[: len(done) - count]
        spots, wide = list[Spot](), 0
        for each, columns in held:
            for spot in each:
                spot.left += wide
            spots += each
            wide += columns + gap
        top = Spot(name(node), held=[each[-1] for each, _ in held])
        if held:
            middle = (top.held[0].middle + top.held[-1].middle) // 2
            top.left, top.level = middle - top.middle, 1 + max(spot.level for spot in top.held)
        spots.append(top)
        before = max(0, -top.left)  # for a label wider than everything below it
        for spot in spots:
            spot.left += before
        done.append((spots, max(before + wide - gap, top.left + width(top.name))))
    return done[0]


def tree_text(tree: Tree, width: int) -> str:
    """A tree for a terminal of `width` cells; "" for a tree without words."""
    if not tree.children and not tree.word:
        return ""
    spots, columns = arranged(outermost(tree), GAP)
    return "\n".join(drawn(spots, columns) if columns <= width else indented(outermost(tree)))


def drawn(spots: list[Spot], columns: int) -> list[str]:
    """The spots as lines of text: one line for each level, and one between two levels."""
    highest = spots[-1].level
    lines = [[" "] * columns for _ in range(2 * highest + 1)]
    for spot in spots:
        row = 2 * (highest - spot.level)
        put(lines[row], spot.left, spot.name)
        if spot.held:
            put(lines[row + 1], spot.held[0].middle, branches([each.middle for each in spot.held], spot.middle))
        for each in spot.held:
            for between in range(row + 2, 2 * (highest - each.level)):
                lines[between][each.middle] = "│"
    return ["".join(row).rstrip() for row in lines]


def put(row: list[str], column: int, shown: str) -> None:
    """Write a text into the cells of a row; the cell after a wide character becomes empty."""
    for cluster in graphemes(shown):
        row[column] = cluster
        for taken in range(column + 1, column + width(cluster)):
            row[taken] = ""
        column += width(cluster)


def branches(below: Sequence[int], above: int) -> str:
    """A line from the first column below to the last, with a branch down at each and one up at `above`."""
    if len(below) == 1:
        return "│"
    ends = {below[0]: "┌", below[-1]: "┐"}
    bar = [ends.get(column, "┬" if column in below else "─") for column in range(below[0], below[-1] + 1)]
    meeting = {"┌": "├", "┐": "┤", "┬": "┼", "─": "┴"}
    bar[above - below[0]] = meeting[bar[above - below[0]]]
    return "".join(bar)


# ---- one phrase per line


def indented(tree: Tree) -> list[str]:
    """The tree as indented lines, one per node; a phrase that contains only words is one line."""
    lines: list[str] = []
    ahead: list[tuple[Tree, str, str]] = [(tree, "", "")]
    while ahead:
        node, before, below = ahead.pop()
        held = [name(child) for child in node.children if not child.children]
        plain = len(held) == len(node.children)
        lines.append(before + (f"{name(node)}  {' '.join(held)}" if plain and held else name(node)))
        last = len(node.children) - 1
        for place in range(last, -1, -1) if not plain else ():
            branch, further = ("└─ ", "   ") if place == last else ("├─ ", "│  ")
            ahead.append((node.children[place], below + branch, below + further))
    return lines


# ---- a picture


def tree_svg(tree: Tree, title: str = "") -> str:
    """A tree as a picture in the style of svg.py: phrases in boxes, words on the bottom line."""
    shown = [tree_drawing(tree)]
    if title:
        shown.insert(0, Drawing(measure(title), LINE, text(0, 12, words(title))))
    return page(above_each_other(shown))


def tree_drawing(tree: Tree) -> Drawing:
    """The drawing of a tree without its background."""
    spots, columns = arranged(outermost(tree), WIDER_GAP)
    highest = spots[-1].level
    lines, names = [], []
    for spot in spots:
        x, y = middle_of(spot), (highest - spot.level) * LEVEL
        if spot.held:
            wide = measure(spot.name) + 2 * PADDING
            place = f'x="{number(x - wide / 2)}" y="{y}" width="{number(wide)}" height="{LINE}"'
            names.append(f'<rect class="empty" {place} rx="5"/>')
        kind = ' class="title"' if spot.held else ""
        names.append(text(x, y + 14.5, spot.name, f'text-anchor="middle"{kind}'))
        for each in spot.held:
            below, end = middle_of(each), (highest - each.level) * LEVEL
            start = x if len(spot.held) > 1 else below  # half a letter aside, where one of the two names is odd
            path = f"M{number(start)} {y + LINE}V{(LEVEL + LINE) // 2 + y}H{number(below)}V{end}"
            lines.append(f'<path class="axis" d="{path}"/>')
    return Drawing(columns * LETTER + 2 * PADDING, highest * LEVEL + LINE, "\n".join([*lines, *names]))


def middle_of(spot: Spot) -> float:
    """The middle of a name in pixels."""
    return PADDING + LETTER * spot.left + measure(spot.name) / 2
