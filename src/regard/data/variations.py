"""Variations of training pairs: letters and punctuation as people type them.

    Where is the station?     Wo ist der Bahnhof?
    where is the station      Wo ist der Bahnhof        lower: the source in lower case, no final punctuation
    Where is the station      Wo ist der Bahnhof        bare: no final punctuation
    WHERE IS THE STATION?     WO IST DER BAHNHOF?       upper: both sides in capitals

A model that has seen edited sentences only does not know the words of the second and the fourth line: their subwords
are different. Which pairs change, and how, is a function of their text, and of the number of the copy if a source
repeats its pairs.
"""

import hashlib
import re

KINDS = ("lower", "lower", "bare", "upper")
"""A varied pair has one of these, each as often as it is listed."""
FINAL = re.compile(r"(?<=[^\s.!?…。！？])\s*[.!?…。！？]+$")


def vary_pair(src: str, tgt: str, share: float, copy: int = 0) -> tuple[str, str]:
    """The pair; a `share` of all pairs, chosen again for each `copy`, is varied."""
    name = f"variation {copy}" if copy else "variation"
    number = int.from_bytes(hashlib.blake2b(f"{src}\n{tgt}\n{name}".encode(), digest_size=8).digest())
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
