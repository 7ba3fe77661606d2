"""Special tokens and byte symbols, which every vocabulary contains.

A token is written as a string of byte symbols, one printable character for each byte (the table of Radford et al. 2019,
"Language Models are Unsupervised Multitask Learners", section 2.2). Since all 256 bytes are in every vocabulary, no
character is unknown and decoding is exact. Special tokens and the continuation sign are written with characters outside
the table, so no text can be mistaken for them.
"""

PAD, BOS, EOS = 0, 1, 2
SPECIALS = ("⟨pad⟩", "⟨s⟩", "⟨/s⟩")
CONTINUATION = "⋯"
IMPLIED = " "  # kind "token" adds it before every text


def _byte_symbols() -> str:
    """Map printable bytes of Latin-1 to themselves, the others to the characters from U+0100 on."""
    spare = iter(range(0x100, 0x200))
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    return "".join(chr(byte if byte in printable else next(spare)) for byte in range(256))


BYTE_SYMBOLS = _byte_symbols()
_TO_BYTE = {symbol: byte for byte, symbol in enumerate(BYTE_SYMBOLS)}


def to_bytes(token: str) -> bytes:
    """Return the bytes of a token, none for a special token; raise a KeyError for a character that is not a symbol."""
    if token in SPECIALS:
        return b""
    return bytes(_TO_BYTE[symbol] for symbol in token.removeprefix(CONTINUATION))
