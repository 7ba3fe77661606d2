"""BLEU, chrF and TER of a translated corpus, computed by sacreBLEU.

BLEU values are comparable only with equal signatures (Post 2018), so every score has its full signature. Texts are
detokenised and cased. There is one reference per sentence.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from regard.errors import UserError
from regard.metrics.score import Score, check_paired

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

HAN, KANA = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]"), re.compile("[\u3040-\u30ff]")
BLEU_TOKENIZERS = ("13a", "intl", "char", "zh", "none", "ja-mecab", "ko-mecab")
MAX_EXAMINED = 1000
"""References whose script decides about the tokenizer of BLEU."""


def bleu_tokenizer_for(references: Sequence[str]) -> str:
    """The tokenizer of BLEU that fits the script of the references: "zh" for Chinese, "char" for unsegmented Japanese.
    "13a" splits at spaces, which these scripts do not have: a line would be one word, and BLEU near 0 for any model."""
    text = "".join(references[:MAX_EXAMINED])
    letters = max(1, len(text) - text.count(" "))
    han, kana = (len(script.findall(text)) / letters for script in (HAN, KANA))
    if kana > 0.05:  # Japanese; segmented text has a space every few characters
        return "char" if letters > 8 * (text.count(" ") + 1) else "13a"
    return "zh" if han > 0.3 else "13a"


def bleu(hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a", lowercase: bool = False) -> Score:
    """BLEU: precision of n-grams, n = 1..4, with brevity penalty (Papineni et al. 2002). `tokenize` is sacreBLEU's
    tokenizer: "13a" for most languages, "zh" or "char" for Chinese, "ja-mecab" for Japanese."""
    return _score(bleu_metric(tokenize, lowercase), "BLEU", hypotheses, references)


def chrf(hypotheses: Sequence[str], references: Sequence[str], word_order: int = 0) -> Score:
    """chrF: F-score of character n-grams (Popović 2015); needs no tokenizer; `word_order=2` is chrF++."""
    return _score(chrf_metric(word_order), "chrF" + "+" * word_order, hypotheses, references)


def ter(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """TER: edits per reference word, a shift is one (Snover et al. 2006); lower is better; slow for long lines."""
    return _score(ter_metric(), "TER", hypotheses, references)


def bleu_metric(tokenize: str = "13a", lowercase: bool = False) -> "Metric":
    """Make the BLEU metric of sacreBLEU; an unknown or missing tokenizer is a UserError."""
    from sacrebleu.metrics import BLEU

    if tokenize not in BLEU_TOKENIZERS:
        remedy = f"use one of {', '.join(BLEU_TOKENIZERS)}; 13a fits most languages"
        raise UserError(f"BLEU has no tokenizer {tokenize!r}", remedy, code="unknown-tokenizer", where=tokenize)
    # force: no warning for text that looks tokenised.
    with _installed(tokenize):
        return BLEU(tokenize=tokenize, lowercase=lowercase, force=True)


def chrf_metric(word_order: int = 0) -> "Metric":
    """Make the chrF metric of sacreBLEU; `word_order` is the maximum order of word n-grams."""
    from sacrebleu.metrics import CHRF

    return CHRF(word_order=word_order)


def ter_metric() -> "Metric":
    """Make the TER metric of sacreBLEU."""
    from sacrebleu.metrics import TER

    return TER()


@contextmanager
def _installed(tokenize: str) -> Iterator[None]:
    try:
        yield
    except (ImportError, RuntimeError) as error:
        language = tokenize.removesuffix("-mecab")
        problem = f"the BLEU tokenizer {tokenize!r} needs a package that is not installed"
        remedy = f'pip install "sacrebleu[{language}]", or use tokenize = "char"'
        raise UserError(problem, remedy, code="missing-package", where=tokenize) from error


def _score(metric: "Metric", name: str, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    check_paired(hypotheses, references)
    value = float(metric.corpus_score(list(hypotheses), [list(references)]).score)
    return Score(name, value, str(metric.get_signature()))
