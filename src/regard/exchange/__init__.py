"""Models of other programs: their names, files and shapes are known in this room alone."""

from regard.exchange.huggingface import read_bert, read_bert_vocabulary, write_bert

__all__ = ["read_bert", "read_bert_vocabulary", "write_bert"]
