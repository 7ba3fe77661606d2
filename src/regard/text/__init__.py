"""From text to numbers and back, exactly: byte-complete vocabularies of five kinds behind one interface.

Those that models of other programs bring along stand behind it too, and are not as exact. The pieces of BERT
have an interface of their own: what is read is never written again.
"""

from regard.text.bert import BertVocabulary
from regard.text.bert_settings import BertTextSettings
from regard.text.bert_training import learn_bert_vocabulary
from regard.text.sentencepiece import SentencePieceVocabulary
from regard.text.settings import TextSettings
from regard.text.symbols import BOS, EOS, PAD
from regard.text.training import train_vocabulary
from regard.text.vocabulary import Vocabulary

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "BertTextSettings",
    "BertVocabulary",
    "SentencePieceVocabulary",
    "TextSettings",
    "Vocabulary",
    "learn_bert_vocabulary",
    "train_vocabulary",
]
