"""Which sentences are worked on together: a batch lasts as long as its longest, so those of like length."""

from collections.abc import Sequence


def groups_by_length(lengths: Sequence[int], budget: int) -> list[list[int]]:
    """Indices of like length together, longest first, so that size times longest stays within `budget`."""
    groups: list[list[int]] = []
    room = 0
    for index in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        if room == 0:
            groups.append([])
            room = max(1, budget // max(1, lengths[index]))
        groups[-1].append(index)
        room -= 1
    return groups
