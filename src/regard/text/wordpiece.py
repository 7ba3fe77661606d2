"""WordPiece: the longest piece that fits, left to right (Schuster and Nakajima 2012; Devlin et al. 2018, section 3).

Pieces inside a word carry a sign of continuation. It is not BERT's "##", which people write, but a character outside
the byte symbols; and all bytes are there twice, with and without it, so every word can be spelled.
"""

import json
from collections.abc import Iterable
from typing import Any

from tokenizers import Tokenizer, decoders, models, trainers

from regard.text.splitting import into_words_and_ideographs
from regard.text.symbols import BYTE_SYMBOLS, CONTINUATION, SPECIALS


def learn(texts: Iterable[str], vocab_size: int, min_frequency: int) -> Any:
    """Learn the pieces from `texts`.

    The continued bytes are handed to the trainer as if they were special: it would otherwise number them in the order
    of a hash table, and the same corpus would give another vocabulary every time.
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
    return assemble(json.loads(learner.to_str())["model"]["vocab"])


def assemble(vocab: dict[str, int]) -> Any:
    """A tokenizer that refuses no word for its length; the unknown symbol it must name is never reached."""
    model = models.WordPiece(
        vocab=vocab,
        unk_token=SPECIALS[0],
        continuing_subword_prefix=CONTINUATION,
        max_input_chars_per_word=1_000_000_000,
    )
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = into_words_and_ideographs()
    tokenizer.decoder = decoders.Sequence([decoders.Replace(CONTINUATION, ""), decoders.ByteLevel()])
    return tokenizer
