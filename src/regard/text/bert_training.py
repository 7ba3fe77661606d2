"""Training the tokenizer of BERT: WordPiece (Schuster and Nakajima 2012).

    count words       normalised and split as `BertTokenizer` does it
    start with        the special tokens, [PAD] first, and every character, at the start (x) and inside (##x) of a word
    repeat            merge the most frequent pair of neighbours into one token, until the vocabulary is full

The authors published their vocabularies but not the program that learnt them. This is the usual replacement: the merges
of byte pair encoding (Sennrich et al. 2016, section 3.2) in the notation of WordPiece. With `merge_by = "likelihood"`
pairs are merged by the likelihood of the text (wordpiece.py).
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from regard.errors import UserError
from regard.reading import check_text
from regard.text.bert import CONTINUATION, MAX_WORD_LENGTH, SPECIALS, UNK, BertTokenizer, assemble
from regard.text.settings import BertTextSettings
from regard.text.wordpiece import learn_by_likelihood


def train_bert_tokenizer(lines: Iterable[str], settings: BertTextSettings) -> BertTokenizer:
    """Train the tokenizer; equal lines give equal vocabularies."""
    normalisation = (settings.lowercase, settings.strip_accents, settings.split_chinese)
    counts = count_words(lines, assemble({UNK: 0}, *normalisation))
    if not counts:
        raise UserError("the training text has no words", "give a text that is not empty", code="no-data")
    characters = choose_characters(counts, settings.vocab_size - len(SPECIALS), settings.min_frequency)
    spellable = {word: count for word, count in counts.items() if characters.issuperset(spell(word))}
    return BertTokenizer(learn_vocabulary(spellable, sorted(characters), settings), *normalisation)


def count_words(lines: Iterable[str], splitter: Tokenizer) -> Counter[str]:
    """Count the words; equal strings between spaces are normalised and split once."""
    raw: Counter[str] = Counter()
    for line in lines:
        raw.update(check_text(line).split(" "))
    counts: Counter[str] = Counter()
    for text, count in raw.items():
        for word, _ in splitter.pre_tokenizer.pre_tokenize_str(splitter.normalizer.normalize_str(text)):
            counts[word] += count if len(word) <= MAX_WORD_LENGTH else 0
    return +counts


def spell(word: str) -> Iterator[str]:
    """Split a word into characters; all but the first begin with ##."""
    return (character if index == 0 else CONTINUATION + character for index, character in enumerate(word))


def choose_characters(counts: dict[str, int], max_characters: int, min_frequency: int) -> set[str]:
    """Choose the most frequent characters of the words."""
    seen: Counter[str] = Counter()
    for word, count in counts.items():
        for character in spell(word):
            seen[character] += count
    # A character that continues a word may begin another word later.
    for character in [character for character in seen if character.startswith(CONTINUATION)]:
        seen.setdefault(character.removeprefix(CONTINUATION), seen[character])
    frequent = [character for character in sorted(seen) if seen[character] >= min_frequency]
    return set(sorted(frequent, key=seen.__getitem__, reverse=True)[:max_characters])


def learn_vocabulary(counts: dict[str, int], characters: list[str], settings: BertTextSettings) -> list[str]:
    """Learn the tokens, in the order of their ids.

    The characters are given to the trainer as special tokens. Otherwise it would number them in the order of a hash
    table, and equal lines would give different vocabularies.
    """
    if settings.merge_by == "likelihood":
        room = settings.vocab_size - len(SPECIALS) - len(characters)
        words = {tuple(spell(word)): count for word, count in counts.items()}
        learnt = learn_by_likelihood(words, room, settings.min_frequency, CONTINUATION)
        return list(dict.fromkeys([*SPECIALS, *characters, *learnt]))
    learner = Tokenizer(models.WordPiece(unk_token=UNK))
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=settings.vocab_size,
        min_frequency=settings.min_frequency,
        special_tokens=[*SPECIALS, *characters],
        continuing_subword_prefix=CONTINUATION,
        show_progress=False,
    )
    learner.train_from_iterator((f"{word} " * count for word, count in counts.items()), trainer)
    ids: dict[str, int] = json.loads(learner.to_str())["model"]["vocab"]
    return sorted(ids, key=ids.__getitem__)
