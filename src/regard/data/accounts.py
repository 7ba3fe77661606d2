"""Accounts of data: how many records were read, kept and left out, and why. The sum is checked: nothing gets lost.

Every reader of a source keeps an account. Whoever wants to report them reads the data inside `collect_accounts`:

    with collect_accounts(print):
        examples = list(read_examples(sources, root, fields))
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from regard.messages import Message, join_messages

REASONS = {
    "blank": Message("blank"),
    "empty": Message("empty"),
    "where": Message("not selected by `where`"),
    "split": Message("in another split"),
    "no_words": Message("without words"),
    "no_target": Message("without one of the two texts"),
    "too_long": Message("too long"),
    "too_short": Message("too short for the text"),
    "ratio": Message("ratio"),
    "identical": Message("identical"),
    "score": Message("low score"),
    "script": Message("other script"),
    "long_word": Message("long word"),
    "markup": Message("different markup"),
    "placeholders": Message("different placeholders"),
    "urls": Message("different addresses"),
    "numbers": Message("different numbers"),
    "language": Message("other language"),
    "duplicate": Message("duplicate"),
    "target_duplicate": Message("equal target"),
    "near_duplicate": Message("near-duplicate"),
    "excluded": Message("with a sentence of an excluded file"),
    "shared": Message("whose other side is in valid or test"),
    "further": Message("further translations of sentences in valid or test"),
}
"""Why a record is left out, for people. A table's header is counted too, and not worth a word."""


@dataclass
class Account:
    """How many records of a source were read, kept, and left out by reason."""

    source: str
    read: int = 0
    kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    joined: int = 0
    """Rows of a table with a cell that spans lines: a quotation mark that is not closed joins rows, too."""

    def drop(self, reason: str) -> None:
        """Count a record that is left out."""
        self.dropped[reason] = self.dropped.get(reason, 0) + 1

    def add(self, part: "Account") -> None:
        """Count what another account of the same source counted."""
        self.read, self.kept, self.joined = self.read + part.read, self.kept + part.kept, self.joined + part.joined
        self.dropped = dict(Counter(self.dropped) + Counter(part.dropped))

    def check(self) -> "Account":
        """Return the account; a record that is neither kept nor left out for a reason is an error in regard."""
        if self.read != self.kept + sum(self.dropped.values()):
            counted = f"{self.kept} kept and {self.dropped} left out"
            raise RuntimeError(f"{self.source}: {self.read} records read, but {counted}")
        return self

    @property
    def reasons(self) -> dict[str, int]:
        """The records that are left out by reason, without the header."""
        return {reason: count for reason, count in self.dropped.items() if count and reason in REASONS}

    def describe(self) -> str:
        """One line if something was left out or joined; else empty."""
        counts = [join_messages(" ", [f"{count:,}", REASONS[reason]]) for reason, count in self.reasons.items()]
        listed = join_messages(", ", counts)
        values = {"source": self.source, "read": self.read - self.dropped.get("header", 0), "kept": self.kept}
        parts = [Message("{source}: {read:,} read, {kept:,} kept; left out: {listed}", listed=listed, **values)]
        joined = Message("{source}: {count:,} rows have a cell that spans lines", source=self.source, count=self.joined)
        return join_messages("\n", (parts if counts else []) + ([joined] if self.joined else []))

    def table(self) -> str:
        """One line per number, without reasons that left out nothing."""
        width, read = len(f"{self.read:,}"), max(self.read, 1)
        left_out = [(REASONS[reason], count) for reason, count in self.reasons.items()]
        rows = [(Message("read"), self.read), *left_out, (Message("kept"), self.kept)]
        sizes = {"longest": max(10, *(len(name) for name, _ in rows)), "width": width}
        lines = (
            Message("{name:<{longest}} {count:>{width},}  {share:7.2%}", name=name, count=n, share=n / read, **sizes)
            for name, n in rows
        )
        return join_messages("\n", lines)


_collecting: list[dict[str, Account]] = []
"""What `collect_accounts` collects; a list, because a store is read in a thread of its own."""


@contextmanager
def collect_accounts(report: Callable[[str], None] | None = None) -> Iterator[Mapping[str, Account]]:
    """Collect the account of every source that is read to its end inside; one that is read again is counted once.

    At the end, `report` gets a line for each source of which something was left out.
    """
    accounts: dict[str, Account] = {}
    _collecting.append(accounts)
    try:
        yield accounts
    finally:
        _collecting[:] = [other for other in _collecting if other is not accounts]
    if report is not None:
        for line in describe_accounts(accounts):
            report(line)


def record_account(account: Account) -> None:
    """Hand over the account of a source that was read to its end."""
    account.check()
    for accounts in _collecting:
        accounts[account.source] = account


def describe_accounts(accounts: Mapping[str, Account]) -> list[str]:
    """One line for each source of which something was left out."""
    return list(filter(None, (account.describe() for account in accounts.values())))
