"""Training tokenizers; `factory.py` chooses among them by `text.kind`.

bpe        byte pair encoding: start from bytes and merge the most frequent pair of neighbours, again and again
           (Sennrich, Haddow and Birch 2016, section 3.2, over bytes as in Radford et al. 2019)
wordpiece  the longest token that fits, left to right (Schuster and Nakajima 2012; Devlin et al. 2018, section 3); its
           tokens are learnt by frequency, as those of bpe, or by likelihood.
           Tokens inside a word begin with a continuation sign. It is not BERT's "##", which may occur in text, but a
           character outside the byte symbols. All bytes are in the vocabulary with and without it, so every word can be
           spelled.
word       the most frequent words, the vocabulary of Bahdanau et al. (2014) and Luong et al. (2015). They replaced rare
           words by one unknown token; here a rare word is spelled in bytes.
token      everything between spaces, for text that is tokenized already, like published corpora for language models. A
           token includes the space before it. The first token of a line has none and would be another token than the
           same word later, so a space is added before every text and removed by `decode`.
char       single characters
bert       the WordPiece of BERT: words normalised and split as `BertTokenizer` does it

Text is split into words first; no token crosses the end of a word. A word includes the space before it; runs of digits
and of punctuation are words (the expression of Radford et al. 2019, with combining marks as letters, and English
contractions only at the end of a word, so that the French "l'menu" keeps its m). No word is longer than 64 characters,
so a megabyte without a space is not slower than any other text.
"""

import heapq
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from regard.errors import UserError
from regard.reading import check_text
from regard.text import bert
from regard.text.settings import BertTextSettings
from regard.text.symbols import BYTE_SYMBOLS, CONTINUATION, IMPLIED, PLACEHOLDERS, SPECIALS

WORD = (
    r"'(?:s|t|re|ve|m|ll|d)(?![\p{L}\p{M}])"
    r"| ?[\p{L}\p{M}]{1,64}"
    r"| ?\p{N}{1,64}"
    r"| ?[^\s\p{L}\p{M}\p{N}]{1,64}"
    r"|\s{1,64}(?!\S)|\s{1,64}"
)
IDEOGRAPH = r"[\p{Han}\p{Hiragana}\p{Katakana}]"  # these scripts have no spaces: every character is a word
TOKEN = r" ?\S{1,256}|\s"  # the one space before a token belongs to it
CHARACTER = r"(?m:.)"  # in this dialect of regular expressions (?m:) lets the dot match a line break


def _split(*expressions: str) -> pre_tokenizers.PreTokenizer:
    """Split a text into what the expressions match, written in byte symbols."""
    splits = [pre_tokenizers.Split(Regex(expression), "isolated") for expression in expressions]
    return pre_tokenizers.Sequence([*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def train_bpe(texts: Iterable[str], vocab_size: int, min_frequency: int, symbols: Sequence[str] = ()) -> Tokenizer:
    """Learn the merges from `texts`; `symbols` are tags and placeholders, which follow the special tokens."""
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = _split(WORD)
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=[*SPECIALS, *symbols],
        initial_alphabet=list(BYTE_SYMBOLS),
        show_progress=False,
    )
    learner.train_from_iterator(texts, trainer)
    model = json.loads(learner.to_str())["model"]
    # A tokenizer in which special tokens are plain entries: text that spells one stays text.
    tokenizer = Tokenizer(models.BPE(vocab=model["vocab"], merges=[tuple(merge) for merge in model["merges"]]))
    tokenizer.pre_tokenizer = _split(WORD)
    tokenizer.decoder = decoders.ByteLevel()
    # Placeholders are found in text before it is split into words.
    tokenizer.add_tokens([AddedToken(symbol, normalized=False) for symbol in symbols if symbol in PLACEHOLDERS])
    return tokenizer


def train_wordpiece(texts: Iterable[str], vocab_size: int, min_frequency: int) -> Tokenizer:
    """Learn the vocabulary from `texts`.

    The library merges the most frequent pair, as BPE does: only the segmentation is that of WordPiece.

    The continued bytes are given to the trainer as special tokens. Otherwise it would number them in the order of a
    hash table, and equal texts would give different vocabularies.
    """
    continued = [CONTINUATION + symbol for symbol in BYTE_SYMBOLS]
    learner = Tokenizer(models.WordPiece(unk_token=SPECIALS[0]))
    learner.pre_tokenizer = _split(IDEOGRAPH, WORD)
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=[*SPECIALS, *continued],
        initial_alphabet=list(BYTE_SYMBOLS),
        continuing_subword_prefix=CONTINUATION,
        show_progress=False,
    )
    learner.train_from_iterator(texts, trainer)
    return _wordpiece(json.loads(learner.to_str())["model"]["vocab"])


def train_wordpiece_by_likelihood(texts: Iterable[str], vocab_size: int, min_frequency: int) -> Tokenizer:
    """Learn the vocabulary from `texts`; pairs are merged by likelihood."""
    splitter, counts = _split(IDEOGRAPH, WORD), Counter[str]()
    for text in texts:
        counts.update(word for word, _ in splitter.pre_tokenize_str(text))
    words = {
        (word[0], *(CONTINUATION + symbol for symbol in word[1:])): count for word, count in sorted(counts.items())
    }
    first = [*SPECIALS, *(CONTINUATION + symbol for symbol in BYTE_SYMBOLS), *BYTE_SYMBOLS]
    learnt = learn_by_likelihood(words, vocab_size - len(first), min_frequency, CONTINUATION)
    return _wordpiece({token: index for index, token in enumerate([*first, *learnt])})


def _wordpiece(vocab: dict[str, int]) -> Tokenizer:
    model = models.WordPiece(
        vocab=vocab,
        unk_token=SPECIALS[0],  # required by the library; never used, since every word can be spelled
        continuing_subword_prefix=CONTINUATION,
        max_input_chars_per_word=1_000_000_000,
    )
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = _split(IDEOGRAPH, WORD)
    tokenizer.decoder = decoders.Sequence([decoders.Replace(CONTINUATION, ""), decoders.ByteLevel()])
    return tokenizer


def train_tokens(texts: Iterable[str], vocab_size: int, min_frequency: int) -> Tokenizer:
    """Keep the most frequent tokens of `texts`."""
    tokenizer = train_words((IMPLIED + text for text in texts), vocab_size, min_frequency, [TOKEN])
    tokenizer.normalizer = normalizers.Prepend(IMPLIED)
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(IMPLIED, 1, 0)])
    return tokenizer


def train_words(
    texts: Iterable[str], vocab_size: int, min_frequency: int, expressions: Sequence[str] = (IDEOGRAPH, WORD)
) -> Tokenizer:
    """Keep the most frequent matches of `expressions`; those with equal counts are ordered by spelling."""
    splitter = _split(*expressions)
    learner = Tokenizer(models.WordLevel(unk_token=SPECIALS[0]))
    learner.pre_tokenizer = splitter
    trainer = trainers.WordLevelTrainer(vocab_size=vocab_size, min_frequency=min_frequency, show_progress=False)
    learner.train_from_iterator(texts, trainer)
    counts = json.loads(learner.to_str())["model"]["vocab"]
    frequent = (token for token in sorted(counts, key=counts.__getitem__) if len(token) > 1)
    tokens = [*SPECIALS, *BYTE_SYMBOLS, *frequent]
    # Without merges and with `ignore_merges` a word is either one token or a sequence of bytes.
    vocab = {token: index for index, token in enumerate(tokens[:vocab_size])}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[], ignore_merges=True))
    tokenizer.pre_tokenizer = splitter
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


# ---- WordPiece by likelihood
#
# Both ways start from characters and merge one pair after the other, until the vocabulary is full. Schuster and
# Nakajima merge the pair that increases the likelihood of the training text most, if the probability of a token is its
# share of all tokens. A merge replaces p(a) p(b) by p(ab) wherever a is followed by b, so the usual score of a pair is
#
#     count(ab) / (count(a) count(b))      Schuster and Nakajima 2012, section 2
#
# how much more often the two are together than by chance. Frequent tokens are not joined merely because they are
# frequent; in the words ab, ab, ac, db, xy it joins x and y, and by frequency a and b come first. The price: pairs of
# rare tokens have the largest quotients, so `min_frequency` decides what is learnt. Equal words give equal tokens: of
# pairs with equal scores, the first in the order of strings is merged.


Pair = tuple[str, str]


def learn_by_likelihood(
    words: Mapping[tuple[str, ...], int], count: int, min_frequency: int, continuation: str
) -> list[str]:
    """At most `count` new tokens, in the order in which they are learnt.

    words           every word as its first tokens (characters), and how often it occurs
    min_frequency   a pair that occurs less often is not merged
    continuation    the sign before tokens that are not the first of a word, which a merged token has once
    """
    text, learnt = Segmentation(words), dict[str, None]()
    heap = [(-text.score(pair), pair) for pair, times in text.pairs.items() if times >= min_frequency]
    heapq.heapify(heap)
    while heap and len(learnt) < count:
        score, pair = heapq.heappop(heap)
        if text.pairs[pair] < min_frequency or -score != text.score(pair):
            continue  # the counts have changed since; the pair is in the heap again with its new score
        merged = pair[0] + pair[1].removeprefix(continuation)
        learnt[merged] = None
        for other in text.merge(pair, merged):
            if text.pairs[other] >= min_frequency:
                heapq.heappush(heap, (-text.score(other), other))
    return list(learnt)


class Segmentation:
    """Words as tokens, with the counts of tokens and of pairs of neighbours."""

    def __init__(self, words: Mapping[tuple[str, ...], int]) -> None:
        self.words, self.frequencies = list(words), list(words.values())
        self.tokens: Counter[str] = Counter()
        self.pairs: Counter[Pair] = Counter()
        self._places: defaultdict[Pair, set[int]] = defaultdict(set)  # words that have, or had, a pair
        self._partners: defaultdict[str, set[Pair]] = defaultdict(set)  # pairs of a token
        for index in range(len(self.words)):
            self._count(index, 1)

    def score(self, pair: Pair) -> float:
        """count(ab) / (count(a) count(b)): equal quotients are equal floats."""
        return self.pairs[pair] / (self.tokens[pair[0]] * self.tokens[pair[1]])

    def merge(self, pair: Pair, merged: str) -> set[Pair]:
        """Merge a pair in all words, from left to right, and return the pairs whose scores may have changed."""
        changed = self._partners[pair[0]] | self._partners[pair[1]]
        for index in self._places.pop(pair):
            word = self.words[index]
            self._count(index, -1)
            self.words[index] = tuple(merge_neighbours(word, pair, merged))
            self._count(index, 1)
            changed.update(pairwise(self.words[index]))
        return changed

    def _count(self, index: int, sign: int) -> None:
        """Add a word to the counts, or subtract it."""
        word, times = self.words[index], sign * self.frequencies[index]
        for token in word:
            self.tokens[token] += times
        for pair in pairwise(word):
            self.pairs[pair] += times
            if sign > 0:
                self._places[pair].add(index)
                for token in pair:
                    self._partners[token].add(pair)
            elif not self.pairs[pair]:
                for token in pair:
                    self._partners[token].discard(pair)


def merge_neighbours(word: Sequence[str], pair: Pair, merged: str) -> Iterator[str]:
    """The tokens of a word in which a pair of neighbours is one token, from left to right."""
    index = 0
    while index < len(word):
        matches = tuple(word[index : index + 2]) == pair
        yield merged if matches else word[index]
        index += 2 if matches else 1


# ---- WordPiece of BERT
#
# The authors published their vocabularies but not the program that learnt them. This is the usual replacement: the
# merges of byte pair encoding (Sennrich et al. 2016, section 3.2) in the notation of WordPiece.


def train_bert_tokenizer(lines: Iterable[str], settings: BertTextSettings) -> bert.BertTokenizer:
    """Train the tokenizer; equal lines give equal vocabularies."""
    normalisation = (settings.lowercase, settings.strip_accents, settings.split_chinese)
    counts = count_words(lines, bert.assemble({bert.UNK: 0}, *normalisation))
    if not counts:
        raise UserError("the training text has no words", "add text to the training data", code="no-data")
    characters = choose_characters(counts, settings.vocab_size - len(bert.SPECIALS), settings.min_frequency)
    spellable = {word: count for word, count in counts.items() if characters.issuperset(spell(word))}
    return bert.BertTokenizer(learn_vocabulary(spellable, sorted(characters), settings), *normalisation)


def count_words(lines: Iterable[str], splitter: Tokenizer) -> Counter[str]:
    """Count the words; equal strings between spaces are normalised and split once."""
    raw: Counter[str] = Counter()
    for line in lines:
        raw.update(check_text(line).split(" "))
    counts: Counter[str] = Counter()
    for text, count in raw.items():
        for word, _ in splitter.pre_tokenizer.pre_tokenize_str(splitter.normalizer.normalize_str(text)):
            counts[word] += count if len(word) <= bert.MAX_WORD_LENGTH else 0
    return +counts


def spell(word: str) -> Iterator[str]:
    """Split a word into characters; all but the first begin with ##."""
    return (character if index == 0 else bert.CONTINUATION + character for index, character in enumerate(word))


def choose_characters(counts: dict[str, int], max_characters: int, min_frequency: int) -> set[str]:
    """Choose the most frequent characters of the words."""
    seen: Counter[str] = Counter()
    for word, count in counts.items():
        for character in spell(word):
            seen[character] += count
    # A character that continues a word may begin another word later.
    for character in [character for character in seen if character.startswith(bert.CONTINUATION)]:
        seen.setdefault(character.removeprefix(bert.CONTINUATION), seen[character])
    frequent = [character for character in sorted(seen) if seen[character] >= min_frequency]
    return set(sorted(frequent, key=seen.__getitem__, reverse=True)[:max_characters])


def learn_vocabulary(counts: dict[str, int], characters: list[str], settings: BertTextSettings) -> list[str]:
    """Learn the tokens, in the order of their ids.

    The characters are given to the trainer as special tokens. Otherwise it would number them in the order of a hash
    table, and equal lines would give different vocabularies.
    """
    if settings.merge_by == "likelihood":
        room = settings.vocab_size - len(bert.SPECIALS) - len(characters)
        words = {tuple(spell(word)): count for word, count in counts.items()}
        learnt = learn_by_likelihood(words, room, settings.min_frequency, bert.CONTINUATION)
        return list(dict.fromkeys([*bert.SPECIALS, *characters, *learnt]))
    learner = Tokenizer(models.WordPiece(unk_token=bert.UNK))
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=settings.vocab_size,
        min_frequency=settings.min_frequency,
        special_tokens=[*bert.SPECIALS, *characters],
        continuing_subword_prefix=bert.CONTINUATION,
        show_progress=False,
    )
    learner.train_from_iterator((f"{word} " * count for word, count in counts.items()), trainer)
    ids: dict[str, int] = json.loads(learner.to_str())["model"]["vocab"]
    return sorted(ids, key=ids.__getitem__)
