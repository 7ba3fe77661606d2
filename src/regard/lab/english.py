"""English text that comes with Python: the reference pages of `help()`, about 70,000 words.

The text differs a little from one version of Python to the next, and so do the numbers of experiments that read it.
"""

import re
from functools import cache
from pydoc_data.topics import topics

from regard.lab.toys import shuffled_indices


@cache
def pages() -> tuple[str, ...]:
    """The pages in the order of their names. Pages repeat parts of others; a paragraph is kept where it is first."""
    seen: set[str] = set()
    kept = []
    for name in sorted(topics):
        page = [part for part in dict.fromkeys(paragraphs(topics[name])) if part not in seen]
        seen.update(page)
        if page:
            kept.append("\n\n".join(page))
    return tuple(kept)


def paragraphs(page: str) -> list[str]:
    """The paragraphs of a page, each on one line, without the lines that underline a title."""
    page = re.sub(r"^[*=\-~^]{3,}$", "", page, flags=re.MULTILINE)
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", page) if part.strip()]


def split_pages(seed: int, share: float) -> tuple[list[str], list[str]]:
    """The pages in a random order of the seed, and of these the last `share` for testing."""
    order = [pages()[index] for index in shuffled_indices(len(pages()), seed, "pages")]
    first = round(len(order) * (1 - share))
    return order[:first], order[first:]


def words_of(text: str) -> list[str]:
    """The words in lower case, without numbers and punctuation."""
    return re.findall(r"[a-z]+(?:'[a-z]+)?", text.lower())
