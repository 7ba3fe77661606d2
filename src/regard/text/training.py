"""Learning a vocabulary from text."""

from collections.abc import Iterable

from regard.errors import UserError
from regard.text import bpe, char, token, word, wordpiece
from regard.text.settings import TextSettings
from regard.text.vocabulary import Vocabulary, refuse_surrogates

LEARNERS = {
    "bpe": bpe.learn,
    "wordpiece": wordpiece.learn,
    "word": word.learn,
    "token": token.learn,
    "char": char.learn,
}


def train_vocabulary(texts: Iterable[str], settings: TextSettings) -> Vocabulary:
    """Learn a vocabulary of `settings.kind`; the same texts give the same file, byte by byte."""
    if settings.kind not in LEARNERS:
        raise UserError(
            f'pieces of kind "{settings.kind}" come with a model and cannot be learnt',
            f'write start_from = the run of that model, or text.kind = "{next(iter(LEARNERS))}"',
        )
    learn = LEARNERS[settings.kind]
    checked = (refuse_surrogates(text) for text in texts)
    return Vocabulary(learn(checked, settings.vocab_size, settings.min_frequency))
