"""Filters of training pairs, and a report of how many pairs they leave out.

Evaluation sets use `KEEP_ALL`: a pair that is left out of a test set would be missing in its score.
"""

from collections import Counter
from dataclasses import asdict, dataclass, fields

from regard.data.settings import PairDataSettings

RATIO_FROM = 16  # tokens; in shorter texts a few words change the ratio too much


@dataclass(frozen=True)
class Filters:
    """Limits of a pair; the defaults keep every pair."""

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

    def check_text(self, src: str, tgt: str, src_token_bytes: int, tgt_token_bytes: int) -> str | None:
        """The reason to leave out a pair before it is tokenised; None to keep it.

        A text of n characters has at least n bytes, and a token at most `token_bytes`. So a line of a megabyte is too
        long without tokenising it.
        """
        if self.max_length is not None and (
            len(src) > self.max_length * src_token_bytes or len(tgt) > self.max_length * tgt_token_bytes
        ):
            return "too_long"
        if self.drop_empty and (not src.strip() or not tgt.strip()):
            return "empty"
        if self.drop_identical and src == tgt:
            return "identical"
        return None

    def check_lengths(self, src: int, tgt: int) -> str | None:
        """The reason to leave out a pair with these numbers of tokens, end symbols included; None to keep it."""
        longer, shorter = max(src, tgt), min(src, tgt)
        if self.max_length is not None and longer > self.max_length:
            return "too_long"
        if self.max_ratio and longer > RATIO_FROM and longer > self.max_ratio * shorter:
            return "ratio"
        return None


KEEP_ALL = Filters()


@dataclass(frozen=True)
class FilterReport:
    """Numbers of pairs: read, left out for each reason, and kept."""

    read: int
    empty: int
    too_long: int
    ratio: int
    identical: int
    duplicate: int
    kept: int

    @classmethod
    def count(cls, read: int, left_out: Counter[str]) -> "FilterReport":
        """The report of `read` pairs; `left_out` counts the pairs of each reason."""
        reasons = {field.name: left_out[field.name] for field in fields(cls) if field.name not in ("read", "kept")}
        return cls(read=read, kept=read - sum(reasons.values()), **reasons)

    def table(self) -> str:
        """One line per number, without reasons that left out nothing."""
        width = len(f"{self.read:,}")
        rows = [
            f"{name.replace('_', ' '):<10} {count:>{width},}  {count / max(self.read, 1):7.2%}"
            for name, count in asdict(self).items()
            if count or name in ("read", "kept")
        ]
        return "\n".join(rows)
