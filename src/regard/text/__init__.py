"""From text to numbers and back, exactly: byte-complete vocabularies of five kinds behind one interface.

Those that models of other programs bring along stand behind it too, and are not as exact.
"""

from regard.text.sentencepiece import SentencePieceVocabulary
from regard.text.settings import TextSettings
from regard.text.symbols import BOS, EOS, PAD
from regard.text.training import train_vocabulary
from regard.text.vocabulary import Vocabulary

__all__ = ["BOS", "EOS", "PAD", "SentencePieceVocabulary", "TextSettings", "Vocabulary", "train_vocabulary"]
