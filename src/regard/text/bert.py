"""The tokenizer of BERT (Devlin et al. 2018, section 3; the details are those of the authors' program).

    clean         remove control characters; every kind of white space becomes a space
    lowercase     and strip accents, in the uncased models
    split         on spaces; every punctuation sign and every Chinese character is a word
    WordPiece     (Wu et al. 2016, section 4.1): the longest token that fits, left to right; tokens that continue a word
                  begin with ##. A word that cannot be spelled so is [UNK] as a whole.
    input         [CLS] A [SEP], or [CLS] A [SEP] B [SEP]

Encoding loses case and unknown words, so every token has its span in the text. The names of the special tokens in a
text are the special tokens: "Paris is the [MASK] of France." has a masked word.
"""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as HuggingFaceTokenizer

from regard.files import write_text
from regard.reading import check_text, parse_json
from regard.text.inputs import Encoding, Frame, MaskedTokenizer, encoding_of, index_tokens, order_tokens
from regard.text.tokenizer import read_tokenizer

PAD, UNK, CLS, SEP, MASK = SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
CONTINUATION = "##"
MAX_WORD_LENGTH = 100
"""Words with more characters become [UNK]."""
EXPECTED = ("a tokenizer of BERT", "give the vocab.txt or tokenizer.json of the model")


class BertTokenizer(MaskedTokenizer):
    def __init__(
        self,
        entries: Sequence[str],
        lowercase: bool = True,
        strip_accents: bool | None = None,
        split_chinese: bool = True,
    ) -> None:
        """`entries` are the tokens by id. `strip_accents` None means: same as `lowercase`."""
        self.entries = list(entries)
        ids = index_tokens(self.entries, SPECIALS)
        self.pad, self.unk, self.cls, self.sep, self.mask = (ids[token] for token in SPECIALS)
        self.lowercase, self.strip_accents, self.split_chinese = lowercase, strip_accents, split_chinese
        self._tokenizer = assemble(ids, lowercase, strip_accents, split_chinese)

    @property
    def special_tokens(self) -> tuple[str, ...]:
        return SPECIALS

    @property
    def max_token_bytes(self) -> int:
        """Unlimited: [UNK] stands for any number of bytes."""
        return sys.maxsize

    @property
    def frame(self) -> Frame:
        """[CLS] first [SEP] second [SEP]."""
        return (self.cls,), (self.sep,), (self.sep,)

    def tokenize(self, text: str) -> Encoding:
        return encoding_of(self._tokenizer.encode(check_text(text), add_special_tokens=False))

    def tokenize_words(self, words: Sequence[str]) -> Encoding:
        for word in words:
            check_text(word)
        return encoding_of(self._tokenizer.encode(words, is_pretokenized=True, add_special_tokens=False))

    def continues_word(self, token: int) -> bool:
        return self.entries[token].startswith(CONTINUATION)

    def decode_all(self, ids: Iterable[int]) -> str:
        return " ".join(self.tokens(ids)).replace(f" {CONTINUATION}", "")

    def decode(self, ids: Iterable[int]) -> str:
        """Return the normalised text of token ids; special tokens other than [UNK] are left out."""
        omitted = {self.pad, self.cls, self.sep, self.mask}
        text: str = self._tokenizer.decode([i for i in ids if i not in omitted], skip_special_tokens=False)
        return text

    def save_vocab_txt(self, path: Path) -> None:
        """Write `vocab.txt`, one token per line; it does not contain the normalisation."""
        write_text(path, "".join(f"{entry}\n" for entry in self.entries))

    @classmethod
    def from_json(cls, text: str) -> "BertTokenizer":
        """Read the content of a `tokenizer.json`, of other programs too; a ValueError says what is wrong with it."""
        content = parse_json(text)
        model, normalizer = (content.get(key) or {} for key in ("model", "normalizer"))
        if model.get("type", "WordPiece") != "WordPiece" or normalizer.get("type") != "BertNormalizer":
            raise ValueError(f"it is {model.get('type')} with {normalizer.get('type')}, not WordPiece of BERT")
        entries = order_tokens(model.get("vocab", {}))
        accents, chinese = normalizer.get("strip_accents"), normalizer.get("handle_chinese_chars", True)
        return cls(entries, normalizer.get("lowercase", True), accents, chinese)

    @classmethod
    def load(cls, path: Path) -> "BertTokenizer":
        return read_tokenizer(path, cls.from_json, *EXPECTED)

    @classmethod
    def load_vocab_txt(
        cls, path: Path, lowercase: bool = True, strip_accents: bool | None = None, split_chinese: bool = True
    ) -> "BertTokenizer":
        """Read a `vocab.txt`, which does not contain the normalisation."""
        return read_tokenizer(path, lambda text: cls(_lines(text), lowercase, strip_accents, split_chinese), *EXPECTED)


def assemble(
    ids: dict[str, int], lowercase: bool, strip_accents: bool | None, split_chinese: bool
) -> HuggingFaceTokenizer:
    """Make the `tokenizers.Tokenizer` with the steps above."""
    tokenizer = HuggingFaceTokenizer(
        models.WordPiece(
            ids, unk_token=UNK, continuing_subword_prefix=CONTINUATION, max_input_chars_per_word=MAX_WORD_LENGTH
        )
    )
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=split_chinese, strip_accents=strip_accents, lowercase=lowercase
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix=CONTINUATION)
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in SPECIALS])
    return tokenizer


def _lines(text: str) -> list[str]:
    """Split a `vocab.txt` at line feeds only: other line separators are tokens."""
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
