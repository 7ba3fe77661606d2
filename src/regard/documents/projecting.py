"""Inline elements of a source projected to its translation by word alignment.

    Click <b>the red button</b>.   ->   Klicken Sie auf <b>den roten Knopf</b>.

The links of every unit of the translation (a word, a character of Chinese) say which element it was read from. An
element encloses the run of units with the highest sum: the characters of units that were read from it, less those of
units that were read from elsewhere. A run never crosses a unit of a sibling. So siblings do not overlap, and since
children are placed in the run of their parent, tags are always nested. Every element is written exactly once; elements
may change their order.

An element without a unit encloses the nearest free word. An empty element (<br>, <img>) goes before the translation of
the word after it, or after that of the word before it if no blank is between them.
"""

import re
from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from regard.documents.segment import Link
from regard.documents.sentences import Span, remaining, word_spans

_VISIBLE = re.compile(r"\S")
ELSEWHERE, UNLINKED = -1, -2
Gap = tuple[Span, Span]
"""The end of a sentence and the start of the next one: in the source, and in the translation."""
UNLINKED_COST = 0.01
SEARCH_STEPS = 50
"""How many units around its expected place an element without links looks for a free one."""


@dataclass(frozen=True)
class Unit:
    """A word of the translation, and the source spans that it was read from, each with a weight."""

    start: int
    end: int
    sources: tuple[tuple[Span, int], ...] = ()

    is_word: bool = True
    """False for a punctuation mark."""

    @property
    def source(self) -> Span:
        """The source span with the largest weight."""
        return max(self.sources, key=lambda item: item[1])[0]


def make_units(
    source: str, target: str, links: Sequence[Link], atoms: Sequence[Span] = (), cuts: Sequence[int] = ()
) -> list[Unit]:
    """The units of a translation in order; a punctuation mark is not read from a word, whatever its links say.

    links   of characters of the whole text, ordered by target
    atoms   spans of the target that are one unit each: protected parts
    cuts    where elements begin and end in the source, in order: a word that is copied exactly is split like its
            source, H<sub>2</sub>O
    """
    links = sorted(links, key=lambda link: link[2])
    words = word_spans(source)
    units: list[Unit] = []
    first = 0
    for start, end, is_atom in target_spans(target, atoms):
        while first < len(links) and links[first][3] <= start:
            first += 1
        counts: dict[Span, int] = {}
        for s, e, begin, last in islice(links, first, None):
            if begin >= end:
                break
            if e > s and (is_atom or is_word(target[start:end]) or not is_word(source[s:e])):
                counts[s, e] = counts.get((s, e), 0) + min(last, end) - max(begin, start)
        unit = Unit(start, end, tuple(counts.items()), not is_atom and is_word(target[start:end]))
        units += split_copy(unit, source, target, words, cuts) if counts and not is_atom else [unit]
    return units


def is_word(text: str) -> bool:
    """True if a text has a letter or digit: not a punctuation mark."""
    return any(map(str.isalnum, text))


def target_spans(target: str, atoms: Sequence[Span]) -> list[tuple[int, int, bool]]:
    """The spans of atoms (True) and of words outside of them (False), in order."""
    words = [(*span, False) for word in word_spans(target) for span in remaining(word, atoms)]
    return sorted([*words, *((start, end, True) for start, end in atoms if start < end)])


def split_copy(unit: Unit, source: str, target: str, words: Sequence[Span], cuts: Sequence[int]) -> list[Unit]:
    """The characters of a unit if it is a copy of a source word that a tag divides, else the unit."""
    index = bisect_right(words, (unit.source[0], len(source))) - 1
    start, end = words[index] if index >= 0 else (0, 0)
    cut = bisect_right(cuts, start)
    if cut == len(cuts) or cuts[cut] >= end or source[start:end] != target[unit.start : unit.end]:
        return [unit]
    return [Unit(unit.start + n, unit.start + n + 1, (((start + n, start + n + 1), 1),)) for n in range(end - start)]


@dataclass(frozen=True)
class Element:
    """An inline element: characters start to end of the source are in it, none if it is empty.

    `parent` is the index of the element around it, which is in the list before it; -1 if there is none.
    """

    start: int
    end: int
    parent: int = -1


@dataclass
class Node:
    """An element in the tree of elements, the units that it encloses, and its place in the translation."""

    index: int
    start: int
    end: int
    children: list["Node"] = field(default_factory=list)
    units: range = range(0)
    begin: int = 0
    finish: int = 0
    """Characters begin to finish of the translation."""


def project(
    source: str, target: str, elements: Sequence[Element], units: Sequence[Unit], gaps: Sequence[Gap] = ()
) -> Node:
    """Find the place of every element; return the root of the tree, which stands for the whole text."""
    root = Node(-1, 0, len(source), units=range(len(units)), finish=len(target))
    nodes = [Node(index, item.start, item.end) for index, item in enumerate(elements)]
    for node, item in zip(nodes, elements, strict=True):
        (nodes[item.parent] if item.parent >= 0 else root).children.append(node)
    places = TargetIndex(source, units, gaps)
    waiting = [root]
    while waiting:
        parent = waiting.pop()
        if parent.children:
            place_children(parent, places, target)
            waiting += parent.children
    return root


class TargetIndex:
    """Where the words of a source are in its translation."""

    def __init__(self, source: str, units: Sequence[Unit], gaps: Sequence[Gap] = ()) -> None:
        self.source, self.units, self.gaps = source, units, gaps
        self._linked = sorted((unit.source, index) for index, unit in enumerate(units) if unit.sources)

    def _visible(self, place: int) -> int:
        """The first character from a place on that is not blank."""
        match = _VISIBLE.search(self.source, place)
        return match.start() if match else len(self.source)

    def nearest(self, place: int, inside: range) -> int | None:
        """The unit inside a range that was read nearest to a place of the source; None if no unit has links."""
        at = bisect_right(self._linked, place, key=lambda item: item[0][0])
        around = self._linked[max(0, at - 2) : at + 1]
        if not around or not inside:
            return None
        _, best = min(around, key=lambda item: max(item[0][0] - place, place + 1 - item[0][1], 0))
        return min(max(best, inside.start), inside.stop - 1)

    def boundary(self, place: int, parent: Node) -> int:
        """The character of the translation where an empty element at a place of the source goes."""
        first, following = self._visible(parent.start), self._visible(place)
        is_root = parent.index < 0  # the blanks around the text are those of the source
        if first >= place:
            return parent.begin + (place - parent.start if is_root else 0)
        if following >= parent.end:
            return parent.finish - (parent.end - place if is_root else 0)
        glued = not self.source[place - 1].isspace() and not self.source[place].isalnum()
        gap = bisect_right(self.gaps, place, key=lambda item: item[0][0]) - 1
        if gap >= 0 and place <= self.gaps[gap][0][1]:
            (start, _), (begin, finish) = self.gaps[gap]
            return min(max(min(begin + place - start, finish), parent.begin), parent.finish)
        unit = self.nearest(place - 1 if glued else following, parent.units)
        if unit is None:
            return parent.finish
        return self.units[unit].end if glued else self.units[unit].start


def place_children(parent: Node, places: TargetIndex, target: str) -> None:
    """Give every child of a node its units and its place: in order, disjoint, inside of the node."""
    filled = [node for node in parent.children if places.source[node.start : node.end].strip()]
    runs = best_runs(parent.units, count_links(parent.units, places.units, filled))
    taken = sorted((runs[number].start, runs[number].stop) for number in runs)
    for number, node in enumerate(filled):
        run = runs.get(number)
        if run is None and (run := free_unit(node, parent, places, taken)) is not None:
            insort(taken, (run.start, run.stop))
        node.units = run or range(0)
    for node in parent.children:
        if node.units:
            node.begin, node.finish = places.units[node.units[0]].start, places.units[node.units[-1]].end
        else:
            place = places.boundary(node.start, parent)
            node.begin = node.finish = outside_of(place, taken, places.units)
    parent.children.sort(key=lambda node: (node.begin, node.finish, node.index))
    include_blanks(parent, places.source, target)


def count_links(inside: range, units: Sequence[Unit], nodes: Sequence[Node]) -> list[tuple[int, int]]:
    """For each unit the number of the node that it was read from, and its weight in characters."""
    starts = [node.start for node in nodes]
    found = []
    for index in inside:
        counts: dict[int, int] = {}
        for (start, end), weight in units[index].sources:
            middle = (start + end - 1) / 2
            number = bisect_right(starts, middle) - 1
            number = number if number >= 0 and middle < nodes[number].end else ELSEWHERE
            counts[number] = counts.get(number, 0) + weight
        best = max(counts, key=lambda number: (counts[number], number)) if counts else UNLINKED
        found.append((best, units[index].end - units[index].start))
    return found


def best_runs(inside: range, labels: Sequence[tuple[int, int]]) -> dict[int, range]:
    """For each number among the labels its run of units with the highest sum; one pass (Kadane's algorithm).

    A unit of another number ends a run. A unit that was read from elsewhere costs as much as an own one gains.
    """
    best: dict[int, tuple[float, range]] = {}
    current, start, total = ELSEWHERE, 0, 0.0
    for index, (number, weight) in zip(inside, labels, strict=True):
        if number == ELSEWHERE:
            total -= weight
        elif number == UNLINKED:
            total -= UNLINKED_COST * weight
        else:
            if number != current or total <= 0:
                current, start, total = number, index, 0.0
            total += weight
            if total > best.get(number, (0.0, range(0)))[0]:
                best[number] = total, range(start, index + 1)
    return {number: run for number, (_, run) in best.items()}


def free_unit(node: Node, parent: Node, places: TargetIndex, taken: Sequence[Span]) -> range | None:
    """The free word nearest to the expected place of a node without units; `taken` are the units of its siblings."""
    expected = places.nearest((node.start + node.end) // 2, parent.units)
    if expected is None:
        return None
    for step in range(2 * SEARCH_STEPS):
        index = expected + (step // 2 + 1 if step % 2 else -(step // 2))
        before = max(0, bisect_right(taken, (index, index + 1)) - 1)
        is_free = not any(start <= index < stop for start, stop in taken[before : before + 2])
        if is_free and index in parent.units and places.units[index].is_word:
            return range(index, index + 1)
    return None


def outside_of(place: int, taken: Sequence[Span], units: Sequence[Unit]) -> int:
    """A place of the translation, or the nearest end of the run of units that it is inside of."""
    index = bisect_right(taken, place, key=lambda run: units[run[0]].start) - 1
    if index < 0:
        return place
    begin, finish = units[taken[index][0]].start, units[taken[index][1] - 1].end
    if not begin < place < finish:
        return place
    return begin if place - begin < finish - place else finish


def include_blanks(parent: Node, source: str, target: str) -> None:
    """Let children begin or end with blank space if they do in the source, and it is there in the translation."""
    end = parent.begin
    for number, node in enumerate(parent.children):
        following = parent.children[number + 1].begin if number + 1 < len(parent.children) else parent.finish
        if node.units:
            if source[node.start].isspace():
                node.begin = max(end, end + len(target[end : node.begin].rstrip()))
            if source[node.end - 1].isspace():
                gap = target[node.finish : following]
                node.finish += len(gap) - len(gap.lstrip())
        end = node.finish


def pieces(root: Node) -> Iterator[tuple[str, int, int]]:
    """The translation from left to right: ("open", element, 0), ("close", element, 0) and ("text", start, end)."""
    stack: list[tuple[Node, int, int]] = [(root, 0, root.begin)]
    while stack:
        node, number, copied = stack.pop()
        if number < len(node.children):
            child = node.children[number]
            yield "text", copied, child.begin
            yield "open", child.index, 0
            stack += [(node, number + 1, child.finish), (child, 0, child.begin)]
        else:
            yield "text", copied, node.finish
            if node.index >= 0:
                yield "close", node.index, 0
