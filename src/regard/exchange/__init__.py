"""Models of other programs: their names, files and shapes are known in this room alone."""

from regard.exchange.bert import (
    FineTuned,
    read_bert,
    read_bert_vocabulary,
    read_finetuned,
    task_of,
    write_bert,
    write_finetuned,
)
from regard.exchange.folders import CONFIG, read_config
from regard.exchange.marian import Translator, read_marian, write_marian

__all__ = [
    "CONFIG",
    "FineTuned",
    "Translator",
    "read_bert",
    "read_bert_vocabulary",
    "read_config",
    "read_finetuned",
    "read_marian",
    "task_of",
    "write_bert",
    "write_finetuned",
    "write_marian",
]
