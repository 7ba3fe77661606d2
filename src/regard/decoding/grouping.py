"""Which sentences are worked on together: a batch lasts as long as its longest, so those of like length."""

from collections.abc import Sequence


def groups_by_length(lengths: Sequence[int], budget: int, rows: Sequence[int] | None = None) -> list[list[int]]:
    """Indices of like length together, longest first, so that rows times longest stays within `budget`.

    Each index is a row, or as many as `rows` says; one that is too much by itself is alone.
    """
    groups: list[list[int]] = []
    room = 0
    for index in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        taken = 1 if rows is None else rows[index]
        if taken > room:
            groups.append([])
            room = max(taken, budget // max(1, lengths[index]))
        groups[-1].append(index)
        room -= taken
    return groups
