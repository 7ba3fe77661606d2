"""Special tokens and byte symbols, which every vocabulary contains.

A token is written as a string of byte symbols, one printable character for each byte (the table of Radford et al. 2019,
"Language Models are Unsupervised Multitask Learners", section 2.2). Since all 256 bytes are in every vocabulary, no
character is unknown and decoding is exact. Special tokens and the continuation sign are written with characters outside
the table, so no text can be mistaken for them.

A model of several languages has a tag for each target language, as ⟨2de⟩, which is the first token of a source
(Johnson et al. 2017, "Google's Multilingual Neural Machine Translation System", section 3). Placeholders, as ⦅0⦆, stand
for parts of a text that a model copies; unlike tags they are written in text. ⟨bt⟩ is the first token of a source that
a model wrote (Caswell et al. 2019, "Tagged Back-Translation"): no text has it, and no translation begins with it.
"""

PAD, BOS, EOS = 0, 1, 2
SPECIALS = ("⟨pad⟩", "⟨s⟩", "⟨/s⟩")
CONTINUATION = "⋯"
TAG_START, TAG_END = "⟨2", "⟩"
BACK_TRANSLATED = "⟨bt⟩"
PLACEHOLDERS = tuple(f"⦅{number}⦆" for number in range(8))
IMPLIED = " "  # kind "token" adds it before every text
# Printable bytes of Latin-1 are written as themselves, the others as the characters from U+0100 on.
_PRINTABLE, _SPARE = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}, iter(range(0x100, 0x200))
BYTE_SYMBOLS = "".join(chr(byte if byte in _PRINTABLE else next(_SPARE)) for byte in range(256))
_TO_BYTE = {symbol: byte for byte, symbol in enumerate(BYTE_SYMBOLS)}


def language_tag(language: str) -> str:
    """The tag of a target language."""
    return f"{TAG_START}{language}{TAG_END}"


def tagged_language(token: str) -> str | None:
    """The language of a tag; None for any other token."""
    is_tag = token.startswith(TAG_START) and token.endswith(TAG_END)
    return token.removeprefix(TAG_START).removesuffix(TAG_END) if is_tag else None


def is_tag(token: str) -> bool:
    """True for a language tag and the tag of back-translations, which are no text."""
    return token == BACK_TRANSLATED or tagged_language(token) is not None


def to_bytes(token: str) -> bytes:
    """Return the bytes of a token (none for special tokens and tags); a KeyError for what is not a byte symbol."""
    if token in SPECIALS or is_tag(token):
        return b""
    if token in PLACEHOLDERS:
        return token.encode()
    return bytes(_TO_BYTE[symbol] for symbol in token.removeprefix(CONTINUATION))
