"""Frequent words of languages, which show quickly that a text is surely in its language.

    python -m benchmarks.frequent_words --data DATA > src/regard/documents/frequent_words.toml

DATA is that of benchmarks.language_data. A word is frequent in a language if it has at least MIN_SHARE of all words, as
the mean of a collection of everyday sentences and of documentation. The words of further languages are those from which
the classifier's texts of class `other` are made.
"""

import argparse
import textwrap
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from benchmarks.language_data import COUNTED_SENTENCES, read_pools
from benchmarks.language_others import LANGUAGE_WORDS, RULES

from regard.documents.frequent_words import WORD

LANGUAGES, DOMAINS = ("en", "de", "fr", "es"), ("tatoeba", "msdocs")
MIN_SHARE = 2e-4


def main() -> None:
    """Print the lists, sorted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the sets")
    pools = read_pools(parser.parse_args().data)
    words = {language: frequent_words([pools["train", language, name] for name in DOMAINS]) for language in LANGUAGES}
    spelled = [" ".join(small.values()).split() for _, small, _ in RULES]
    words["other"] = {word for line in (*LANGUAGE_WORDS, *spelled) for word in line}
    print("# Frequent words of languages, by python -m benchmarks.frequent_words.")
    for language, found in words.items():
        print(f'{language} = """\n{wrap(sorted(found))}\n"""')


def frequent_words(domains: Sequence[Sequence[str]]) -> set[str]:
    """The words whose share of all words, as the mean over domains, is large enough."""
    shares: dict[str, float] = defaultdict(float)
    for sentences in domains:
        step = len(sentences) // COUNTED_SENTENCES + 1  # sentences are sorted by length
        counts = Counter(word for text in sentences[::step] for word in WORD.findall(text.lower()))
        for word, count in counts.items():
            shares[word] += count / counts.total() / len(domains)
    return {word for word, share in shares.items() if share >= MIN_SHARE}


def wrap(words: Sequence[str]) -> str:
    """Words in lines of text."""
    return "\n".join(textwrap.wrap(" ".join(words), 140, break_on_hyphens=False))


if __name__ == "__main__":
    main()
