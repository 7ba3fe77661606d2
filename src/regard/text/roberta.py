"""The tokenizer of RoBERTa (Liu et al. 2019, section 4.4): byte pair encoding over bytes, as GPT-2 has it.

    split         into words with the space before them, numbers and punctuation (Radford et al. 2019, section 2.2)
    bytes         every byte of UTF-8 is one symbol, so no character is unknown and nothing is normalised
    BPE           merge the pair of neighbours with the lowest rank, again and again
    input         <s> A </s>, or <s> A </s> </s> B </s>

The names of the special tokens in a text are the special tokens: "Paris is the <mask> of France." has a masked word;
<mask> mostly includes the space before it.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors
from tokenizers import Tokenizer as HuggingFaceTokenizer

from regard.reading import parse_json
from regard.text.inputs import ByteLevelInputTokenizer, Frame, MaskedTokenizer, index_tokens, order_tokens
from regard.text.symbols import BYTE_SYMBOLS, to_bytes

CLS, PAD, SEP, UNK, MASK = SPECIALS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
SPACE = BYTE_SYMBOLS[ord(" ")]
PROCESSING = "RobertaProcessing"
"""The kind of `post_processor` by which a tokenizer.json of RoBERTa is recognised."""
Merge = tuple[str, str]


class RobertaTokenizer(ByteLevelInputTokenizer, MaskedTokenizer):
    """The tokenizer of a RoBERTa model."""

    def __init__(
        self, entries: Sequence[str], merges: Sequence[Merge], prefix: bool = False, wide_mask: bool = True
    ) -> None:
        """`entries` are the tokens by id, written in byte symbols; `prefix` adds a space before every text.

        With `wide_mask` <mask> includes the space before it, as in the models of the authors.
        """
        self.entries = list(entries)
        ids = index_tokens(self.entries, SPECIALS)
        self.cls, self.pad, self.sep, self.unk, self.mask = (ids[token] for token in SPECIALS)
        self._tokenizer = assemble(ids, merges, prefix, wide_mask)

    @property
    def special_tokens(self) -> tuple[str, ...]:
        return SPECIALS

    @cached_property
    def max_token_bytes(self) -> int:
        return max(map(len, self.entries))

    @property
    def frame(self) -> Frame:
        """<s> first </s> </s> second </s>."""
        return (self.cls,), (self.sep, self.sep), (self.sep,)

    def continues_word(self, token: int) -> bool:
        return not self.entries[token].startswith(SPACE)

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of token ids; special tokens and bytes that are not a whole character are left out."""
        return self.bytes_of(token for token in ids if self.entries[token] not in SPECIALS).decode("utf-8", "ignore")

    def decode_all(self, ids: Iterable[int]) -> str:
        return self.bytes_of(ids).decode("utf-8", "replace")

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Return readable tokens, with `␣` for a space before it."""
        texts = (self.bytes_of([token]).decode("utf-8", "replace") for token in ids)
        return ["␣" + text[1:] if text.startswith(" ") else text for text in texts]

    def bytes_of(self, ids: Iterable[int]) -> bytes:
        """The bytes of tokens one after another; special tokens are their names."""
        entries = (self.entries[token] for token in ids)
        return b"".join(entry.encode() if entry in SPECIALS else to_bytes(entry) for entry in entries)

    @classmethod
    def from_json(cls, text: str) -> "RobertaTokenizer":
        """Read the content of a `tokenizer.json`, of other programs too; a ValueError says what is wrong with it."""
        content = parse_json(text)
        model, splitter = (content.get(key) or {} for key in ("model", "pre_tokenizer"))
        if model.get("type", "BPE") != "BPE" or splitter.get("type") != "ByteLevel" or content.get("normalizer"):
            raise ValueError(f"it is {model.get('type')} with {splitter.get('type')}, not byte pair encoding of bytes")
        added = {token.get("content"): token for token in content.get("added_tokens", ())}
        entries = order_tokens(model.get("vocab", {}) | {name: token.get("id") for name, token in added.items()})
        prefix, wide_mask = bool(splitter.get("add_prefix_space")), bool(added.get(MASK, {}).get("lstrip"))
        return cls(entries, parse_merges(model.get("merges", ())), prefix, wide_mask)


def assemble(ids: Mapping[str, int], merges: Sequence[Merge], prefix: bool, wide_mask: bool) -> HuggingFaceTokenizer:
    """Make the `tokenizers.Tokenizer` with the steps above."""
    tokenizer = HuggingFaceTokenizer(models.BPE(vocab=dict(ids), merges=list(merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.RobertaProcessing((SEP, ids[SEP]), (CLS, ids[CLS]), True, prefix)
    tokenizer.add_special_tokens(
        [AddedToken(token, lstrip=wide_mask and token == MASK, normalized=False, special=True) for token in SPECIALS]
    )
    return tokenizer


def parse_merges(merges: Iterable[str | Sequence[str]]) -> list[Merge]:
    """The merges of a file, each two tokens or one text with a space between them."""
    pairs = [merge.split(" ") if isinstance(merge, str) else list(merge) for merge in merges]
    if wrong := next((pair for pair in pairs if len(pair) != 2), None):
        raise ValueError(f"a merge is not of two tokens: {' '.join(wrong)!r}")
    return [(left, right) for left, right in pairs]
