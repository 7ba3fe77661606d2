"""Learning the pieces of a BERT: WordPiece (Schuster and Nakajima 2012), as far as it is known how the authors did it.

    count the words      cleaned and cut as `BertVocabulary` will clean and cut them
    begin with           the special symbols, [PAD] first, and every character, as it begins a word and as it ##goes on
    again and again      make one piece of the two neighbours that are met most often, until there are enough

The authors published their vocabularies but not the program that learnt them. This is the one everybody learns BERT's
pieces with since: the merges of byte pair encoding (Sennrich et al. 2016, section 3.2) written in WordPiece's way.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from regard.errors import UserError
from regard.text.bert import CONTINUATION, LONGEST_WORD, SPECIALS, UNK, BertVocabulary, assemble
from regard.text.bert_settings import BertTextSettings
from regard.text.vocabulary import refuse_surrogates


def learn_bert_vocabulary(lines: Iterable[str], settings: BertTextSettings) -> BertVocabulary:
    """Learn the pieces of `lines`; the same lines give the same vocabulary, entry by entry."""
    kinds = (settings.lowercase, settings.strip_accents, settings.split_chinese)
    counts = count_words(lines, assemble({UNK: 0}, *kinds))
    if not counts:
        raise UserError("there is no word to learn pieces from", "name a text that says something")
    room = settings.vocab_size - len(SPECIALS)
    characters = spellable(counts, room, settings.min_frequency)
    known = {word: count for word, count in counts.items() if characters.issuperset(spelled(word))}
    return BertVocabulary(learn(known, sorted(characters), settings), *kinds)


def count_words(lines: Iterable[str], cutter: Any) -> Counter[str]:
    """How often each word is met. What stands between blanks is cleaned and cut once, however often it comes."""
    raw: Counter[str] = Counter()
    for line in lines:
        raw.update(refuse_surrogates(line).split(" "))
    counts: Counter[str] = Counter()
    for text, count in raw.items():
        for word, _ in cutter.pre_tokenizer.pre_tokenize_str(cutter.normalizer.normalize_str(text)):
            counts[word] += count if len(word) <= LONGEST_WORD else 0
    return +counts


def spelled(word: str) -> Iterator[str]:
    """A word in single characters: its first, and the others with the sign that they continue it."""
    return (character if place == 0 else CONTINUATION + character for place, character in enumerate(word))


def spellable(counts: dict[str, int], room: int, min_frequency: int) -> set[str]:
    """The characters to begin with: those that are not rare, the most frequent if there is no room for all."""
    seen: Counter[str] = Counter()
    for word, count in counts.items():
        for character in spelled(word):
            seen[character] += count
    # Whatever continues a word may begin one that is still to come.
    for character in [character for character in seen if character.startswith(CONTINUATION)]:
        seen.setdefault(character.removeprefix(CONTINUATION), seen[character])
    frequent = [character for character in sorted(seen) if seen[character] >= min_frequency]
    return set(sorted(frequent, key=seen.__getitem__, reverse=True)[:room])


def learn(counts: dict[str, int], characters: list[str], settings: BertTextSettings) -> list[str]:
    """The entries in the order of their numbers.

    The characters are handed to the trainer as if they were special: it would otherwise number them in the order of a
    hash table, and the same lines would give another vocabulary every time.
    """
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
    numbers: dict[str, int] = json.loads(learner.to_str())["model"]["vocab"]
    return sorted(numbers, key=numbers.__getitem__)
