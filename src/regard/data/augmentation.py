"""Training pairs with placeholders and typing noise.

    Delete row 17 of Orders.    Löschen Sie Zeile 17 von Orders.
    Delete row ⦅0⦆ of ⦅1⦆.      Löschen Sie Zeile ⦅0⦆ von ⦅1⦆.        a model learns to copy ⦅0⦆, ⦅1⦆ ...
    delete row 17 of orders     Löschen Sie Zeile 17 von Orders       lower: lowercase source, no final punctuation
    Delete row 17 of Orders     Löschen Sie Zeile 17 von Orders       bare: no final punctuation
    DELETE ROW 17 OF ORDERS.    LÖSCHEN SIE ZEILE 17 VON ORDERS.      upper: both sides in uppercase

Later a placeholder stands for anything that must not change: a variable of a message (%s, {name}), code, or the term of
a glossary. Only words that occur once on each side are replaced. A model that has seen edited sentences only does not
know the words of what people type: their subwords are different.

Which pairs change, and how, is a function of their text, and of the number of the copy if a source repeats its pairs.
"""

import hashlib
import re

from regard.text.symbols import PLACEHOLDERS

WORD = re.compile(r"[A-Za-z0-9_]+(?:[.:/@-][A-Za-z0-9_]+)*")
"""A word of ASCII letters and digits, or several joined by signs. Chinese text has no spaces around it."""
MAX_REPLACED = 3
KINDS = ("lower", "lower", "bare", "upper")
"""A pair with typing noise has one of these, each as often as it is listed."""
FINAL = re.compile(r"(?<=[^\s.!?…。！？])\s*[.!?…。！？]+$")


def insert_placeholders(src: str, tgt: str, share: float, copy: int = 0) -> tuple[str, str]:
    """The pair; in a `share` of all pairs, chosen again for each `copy`, some common words are replaced."""
    number = _hash(f"{src}\n{tgt}" + (f"\n{copy}" if copy else ""))
    if number / 2**64 >= share:
        return src, tgt
    src_spans, tgt_spans = unique_words(src), unique_words(tgt)
    common = [word for word in src_spans if word in tgt_spans]
    count = 1 + number % MAX_REPLACED
    first = number % max(1, len(common) - count + 1)
    chosen = common[first : first + count]
    symbols = dict(zip(chosen, PLACEHOLDERS, strict=False))
    return replace_spans(src, src_spans, symbols), replace_spans(tgt, tgt_spans, symbols)


def unique_words(text: str) -> dict[str, tuple[int, int]]:
    """The words that occur once in a text, in their order, with their spans."""
    spans: dict[str, tuple[int, int]] = {}
    repeated = set()
    for match in WORD.finditer(text):
        if match.group() in spans:
            repeated.add(match.group())
        spans[match.group()] = match.span()
    return {word: span for word, span in spans.items() if word not in repeated}


def replace_spans(text: str, spans: dict[str, tuple[int, int]], symbols: dict[str, str]) -> str:
    """A text with some of its words replaced by their symbols."""
    for start, end, symbol in sorted(((*spans[word], symbol) for word, symbol in symbols.items()), reverse=True):
        text = text[:start] + symbol + text[end:]
    return text


def add_typing_noise(src: str, tgt: str, share: float, copy: int = 0) -> tuple[str, str]:
    """The pair; a `share` of all pairs, chosen again for each `copy`, is changed to what people type."""
    number = _hash(f"{src}\n{tgt}\nvariation" + (f" {copy}" if copy else ""))
    if number / 2**64 >= share:
        return src, tgt
    kind = KINDS[number % len(KINDS)]
    if kind == "upper":
        return src.upper(), tgt.upper()
    src, tgt = without_final_punctuation(src), without_final_punctuation(tgt)
    return (src.lower() if kind == "lower" else src), tgt


def without_final_punctuation(text: str) -> str:
    """A sentence without its last marks, and without the Spanish marks that open it."""
    bare = FINAL.sub("", text)
    return bare.lstrip("¿¡") if bare != text else text


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
