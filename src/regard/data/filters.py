"""Which training pairs are left out, and an account of how many and why.

Evaluation sets go through `KEEP_ALL`: whatever is left out of a test set is left out of its score.
"""

from collections import Counter
from dataclasses import asdict, dataclass, fields

from regard.data.settings import PairDataSettings

RATIO_FROM = 16  # tokens: below it a few words more or less make any ratio


@dataclass(frozen=True)
class Filters:
    """The bounds a pair must keep; the defaults keep everything."""

    max_length: int | None = None
    max_ratio: float = 0.0
    drop_empty: bool = False
    drop_identical: bool = False
    drop_duplicates: bool = False

    @classmethod
    def of(cls, settings: PairDataSettings) -> "Filters":
        """The filters for training pairs."""
        return cls(
            max_length=settings.max_length,
            max_ratio=settings.max_ratio,
            drop_empty=True,
            drop_identical=settings.drop_identical,
            drop_duplicates=settings.drop_duplicates,
        )

    def judge_text(self, src: str, tgt: str, longest_src: int, longest_tgt: int) -> str | None:
        """Why the pair is left out, as far as its text tells before it is tokenised.

        A text of n characters has at least n bytes, and a piece at most `longest` of them: a line of a megabyte is
        known to be too long without a look at it.
        """
        if self.max_length is not None and (
            len(src) > self.max_length * longest_src or len(tgt) > self.max_length * longest_tgt
        ):
            return "too_long"
        if self.drop_empty and (not src.strip() or not tgt.strip()):
            return "empty"
        if self.drop_identical and src == tgt:
            return "identical"
        return None

    def judge_lengths(self, src: int, tgt: int) -> str | None:
        """Why a pair of so many tokens, end symbols included, is left out."""
        longer, shorter = max(src, tgt), min(src, tgt)
        if self.max_length is not None and longer > self.max_length:
            return "too_long"
        if self.max_ratio and longer > RATIO_FROM and longer > self.max_ratio * shorter:
            return "ratio"
        return None


KEEP_ALL = Filters()


@dataclass(frozen=True)
class FilterReport:
    """How many pairs were read, left out for each reason, and kept."""

    read: int
    empty: int
    too_long: int
    ratio: int
    identical: int
    duplicate: int
    kept: int

    @classmethod
    def count(cls, read: int, left_out: Counter[str]) -> "FilterReport":
        """The report for `read` pairs of which `left_out` counts the reasons."""
        reasons = {field.name: left_out[field.name] for field in fields(cls) if field.name not in ("read", "kept")}
        return cls(read=read, kept=read - sum(reasons.values()), **reasons)

    def table(self) -> str:
        """One line a number, for people; reasons for which nothing was left out go unsaid."""
        width = len(f"{self.read:,}")
        rows = [
            f"{name.replace('_', ' '):<10} {count:>{width},}  {count / max(self.read, 1):7.2%}"
            for name, count in asdict(self).items()
            if count or name in ("read", "kept")
        ]
        return "\n".join(rows)
