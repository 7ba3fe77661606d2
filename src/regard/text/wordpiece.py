"""WordPiece: the longest token that fits, left to right (Schuster and Nakajima 2012; Devlin et al. 2018, section 3).

Tokens inside a word begin with a continuation sign. It is not BERT's "##", which may occur in text, but a character
outside the byte symbols. All bytes are in the vocabulary with and without it, so every word can be spelled.
"""

import json
from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, trainers

from regard.text.splitting import into_words_and_ideographs
from regard.text.symbols import BYTE_SYMBOLS, CONTINUATION, SPECIALS


def train(texts: Iterable[str], vocab_size: int, min_frequency: int) -> Tokenizer:
    """Learn the vocabulary from `texts`.

    The continued bytes are given to the trainer as special tokens. Otherwise it would number them in the order of a
    hash table, and equal texts would give different vocabularies.
    """
    continued = [CONTINUATION + symbol for symbol in BYTE_SYMBOLS]
    learner = Tokenizer(models.WordPiece(unk_token=SPECIALS[0]))
    learner.pre_tokenizer = into_words_and_ideographs()
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=[*SPECIALS, *continued],
        initial_alphabet=list(BYTE_SYMBOLS),
        continuing_subword_prefix=CONTINUATION,
        show_progress=False,
    )
    learner.train_from_iterator(texts, trainer)
    model = models.WordPiece(
        vocab=json.loads(learner.to_str())["model"]["vocab"],
        unk_token=SPECIALS[0],  # required by the library; never used, since every word can be spelled
        continuing_subword_prefix=CONTINUATION,
        max_input_chars_per_word=1_000_000_000,
    )
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = into_words_and_ideographs()
    tokenizer.decoder = decoders.Sequence([decoders.Replace(CONTINUATION, ""), decoders.ByteLevel()])
    return tokenizer
