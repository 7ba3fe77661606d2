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

HAN, KANA, UNSPACED = (
    re.compile(f"[{ranges}]")
    for ranges in (
        "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff",
        "\u3040-\u30ff",
        "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\ua9e0-\ua9ff\uaa60-\uaa7f",  # Thai, Lao, Tibetan, Burmese, Khmer
    )
)
CHINESE = ("zh", "zho", "chi", "cmn", "yue", "wuu", "lzh", "zt")
WITHOUT_SPACES = (
    "ja", "jpn", "th", "tha", "lo", "lao", "km", "khm", "my", "mya", "bur", "bo", "bod", "tib", "dz", "dzo",
)  # fmt: skip
"""Languages that do not write spaces between words: codes of ISO 639-1 and 639-2/3."""
BLEU_TOKENIZERS = ("13a", "intl", "char", "zh", "none", "ja-mecab", "ko-mecab")
MAX_EXAMINED = 1000
"""References whose script decides about the tokenizer of BLEU."""


def bleu_tokenizer_for(references: Sequence[str], language: str = "") -> str:
    """The tokenizer of BLEU that fits the language of the references, or their script if it is not named: "zh" for
    Chinese; "char" for Japanese, Thai, Lao, Khmer, Burmese and Tibetan, unless words are separated by spaces; else
    "13a", which splits at spaces: without them a line would be one word, and BLEU near 0 for any model."""
    text, code = "".join(references[:MAX_EXAMINED]), re.split("[-_]", language.lower())[0]
    letters, spaces = max(1, len(text) - text.count(" ")), text.count(" ")
    han, kana, unspaced = (len(script.findall(text)) / letters for script in (HAN, KANA, UNSPACED))
    if code in WITHOUT_SPACES or (not code and (kana > 0.05 or unspaced > 0.3)):
        return "char" if letters > 8 * spaces else "13a"  # segmented text has a space every few characters
    return "zh" if code in CHINESE or (not code and han > 0.3) else "13a"


def bleu(hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a", lowercase: bool = False) -> Score:
    """BLEU: precision of n-grams, n = 1..4, with brevity penalty (Papineni et al. 2002). `tokenize` is sacreBLEU's
    tokenizer: "13a" for most languages, "zh" or "char" for Chinese, "ja-mecab" for Japanese."""
    return _score(bleu_metric(tokenize, lowercase), "BLEU", hypotheses, references)


def chrf(hypotheses: Sequence[str], references: Sequence[str], word_order: int = 0) -> Score:
    """chrF: F-score of character n-grams (Popović 2015); needs no tokenizer; `word_order=2` is chrF++."""
    return _score(chrf_metric(word_order), "chrF" + "+" * word_order, hypotheses, references)


def ter(hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a") -> Score:
    """TER: edits per reference word, a shift is one (Snover et al. 2006); lower is better; slow for long lines.
    `tokenize` is the tokenizer of BLEU that fits the language."""
    return _score(ter_metric(references, tokenize), "TER", hypotheses, references)


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


def ter_metric(references: Sequence[str] = (), tokenize: str = "13a") -> "Metric":
    """Make the TER metric of sacreBLEU. With "zh", and with "char" for Japanese, characters of Chinese origin are words
    (`asian:yes`); with "char" for other languages every character is a word."""
    from sacrebleu.metrics import TER

    asian = tokenize == "zh" or (tokenize == "char" and any(map(KANA.search, references)))
    metric = TER(normalized=asian, asian_support=asian)
    if tokenize == "char" and not asian:
        metric._preprocess_segment = lambda text: " ".join("".join(text.lower().split()))
        metric.tokenizer_signature = "char"
    return metric


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
