"""The interface of tokenizers.

    SubwordTokenizer         trained here: bpe, wordpiece, word, token and char; decode(encode(text)) == text
    BertTokenizer            trained here or imported: WordPiece of BERT; normalises text, has [UNK]
    RobertaTokenizer         imported: byte pair encoding of RoBERTa; decode(encode(text)) == text
    SentencePieceTokenizer   imported with Marian models; normalises text, has <unk>

Each is one `tokenizer.json` that the library `tokenizers` of Hugging Face reads as well.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from tokenizers import Tokenizer as HuggingFaceTokenizer

from regard.errors import UserError
from regard.files import write_text
from regard.reading import check_text, read_text

Span = tuple[int, int]
K = TypeVar("K", bound="Tokenizer")


class Tokenizer(ABC):
    """Text to token ids and back."""

    _tokenizer: HuggingFaceTokenizer

    @abstractmethod
    def __len__(self) -> int:
        """Return the size of the vocabulary."""

    @property
    @abstractmethod
    def special_tokens(self) -> tuple[str, ...]:
        """The special tokens as written in the vocabulary, padding first."""

    @property
    @abstractmethod
    def max_token_bytes(self) -> int:
        """The bytes of the longest token: n bytes of text have at least n / max_token_bytes tokens."""

    @property
    def language_tags(self) -> dict[str, int]:
        """The token of each target language; empty if the model has one target language."""
        return {}

    @property
    def back_translation_tag(self) -> int | None:
        """The token before a source that a model wrote; None if there is none."""
        return None

    @property
    def placeholders(self) -> tuple[str, ...]:
        """Symbols in a text that the model copies; () if it has none."""
        return ()

    def encode(self, text: str) -> list[int]:
        """Return the token ids of `text`, without special tokens."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode many texts, on all cores."""
        for text in texts:
            check_text(text)
        return [encoding.ids for encoding in self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)]

    def encode_spans(self, texts: Sequence[str]) -> list[tuple[list[int], list[Span]]]:
        """Encode many texts; each with the span of every token: its first character and the one after its last."""
        for text in texts:
            check_text(text)
        encodings = self._tokenizer.encode_batch(texts, add_special_tokens=False)
        return [(encoding.ids, encoding.offsets) for encoding in encodings]

    @abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of token ids; special tokens are left out."""

    @abstractmethod
    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Return every token as a person reads it."""

    @abstractmethod
    def count_unknown_words(self, text: str) -> tuple[int, int]:
        """Count the words that the vocabulary cannot represent well, and all words."""

    def to_json(self) -> str:
        text: str = self._tokenizer.to_str(pretty=True)
        return text

    def save(self, path: Path) -> None:
        write_text(path, self.to_json())


def read_tokenizer(path: Path, make: Callable[[str], K], kind: str, remedy: str) -> K:
    """Read a file and make a tokenizer of its text; errors name the file."""
    try:
        return make(read_text(path))
    except (ValueError, AttributeError, TypeError, OverflowError) as error:  # bad JSON is a ValueError
        problem = f"{path} is damaged or is not {kind}: {error}"
        raise UserError(problem, remedy, code="damaged-file", where=path) from error


def build_tokenizer(text: str) -> HuggingFaceTokenizer:
    """Make a `tokenizers.Tokenizer` of its JSON; a ValueError says what is wrong with it."""
    try:
        return HuggingFaceTokenizer.from_str(text)
    except BaseException as error:  # the library raises nothing more specific; an assertion in Rust is no Exception
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise ValueError(str(error)) from error
