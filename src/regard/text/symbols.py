"""The symbols every vocabulary is made of: three special ones and the 256 bytes.

A piece is written as a string of byte symbols, one printable character a byte (the table of Radford et al. 2019,
"Language Models are Unsupervised Multitask Learners", section 2.2). Since all 256 are in every vocabulary no character
is ever unknown, and text comes back from its pieces bit by bit. The special symbols and the sign of continuation are
written with characters outside the table, so no text a user can type ever turns into one of them.
"""

PAD, BOS, EOS = 0, 1, 2
SPECIALS = ("⟨pad⟩", "⟨s⟩", "⟨/s⟩")
CONTINUATION = "⋯"
IMPLIED = " "  # what kind "token" thinks before every text


def _byte_symbols() -> str:
    """Bytes that print as themselves in Latin-1 keep their character; the others take the next one from U+0100 on."""
    spare = iter(range(0x100, 0x200))
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    return "".join(chr(byte if byte in printable else next(spare)) for byte in range(256))


BYTE_SYMBOLS = _byte_symbols()
_TO_BYTE = {symbol: byte for byte, symbol in enumerate(BYTE_SYMBOLS)}


def to_symbols(text: str) -> str:
    """Write the UTF-8 bytes of `text` as byte symbols."""
    return "".join(BYTE_SYMBOLS[byte] for byte in text.encode())


def to_bytes(piece: str) -> bytes:
    """The bytes a piece stands for; a special symbol stands for none. A character that is no symbol is a KeyError."""
    if piece in SPECIALS:
        return b""
    return bytes(_TO_BYTE[symbol] for symbol in piece.removeprefix(CONTINUATION))
