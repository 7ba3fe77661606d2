"""BLEU, chrF and TER of a translated corpus, computed by sacreBLEU so that the numbers mean what others' numbers mean.

A BLEU without its signature compares with nothing (Post 2018): each score carries the full signature of how it was
computed. Texts are given as people read them, detokenised and cased. One reference a sentence.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from regard.errors import UserError
from regard.metrics.score import Score, check_paired

BLEU_TOKENIZERS = ("13a", "intl", "char", "zh", "none", "ja-mecab", "ko-mecab")


def bleu(hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a", lowercase: bool = False) -> Score:
    """BLEU: how many of the hypotheses' n-grams (n = 1..4) stand in their references (Papineni et al. 2002).

    `tokenize` is sacreBLEU's tokenizer: "13a" for most languages, "zh" or "char" for Chinese, "ja-mecab" for Japanese.
    """
    return _score(bleu_metric(tokenize, lowercase), "BLEU", hypotheses, references)


def chrf(hypotheses: Sequence[str], references: Sequence[str], word_order: int = 0) -> Score:
    """chrF: F-score of character n-grams (Popović 2015), which needs no tokenizer; `word_order=2` is chrF++."""
    return _score(chrf_metric(word_order), "chrF" + "+" * word_order, hypotheses, references)


def ter(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """TER: edits for each reference word, a moved phrase counting once (Snover et al. 2006); lower is better.

    It tries every phrase in every place, so its time grows steeply with a segment's length: meant for sentences, it is
    slow where a line is a whole document.
    """
    from sacrebleu.metrics import TER

    return _score(TER(), "TER", hypotheses, references)


def corpus_scores(hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a") -> dict[str, Score]:
    """The scores a translation is reported with: BLEU and chrF under the names `bleu` and `chrf`."""
    return {"bleu": bleu(hypotheses, references, tokenize), "chrf": chrf(hypotheses, references)}


def bleu_metric(tokenize: str = "13a", lowercase: bool = False) -> Any:
    """sacreBLEU's BLEU with a tokenizer; one that is unknown or not installed is refused with what to do about it."""
    from sacrebleu.metrics import BLEU

    if tokenize not in BLEU_TOKENIZERS:
        raise UserError(
            f"BLEU has no tokenizer {tokenize!r}", f"use one of {', '.join(BLEU_TOKENIZERS)}; 13a fits most languages"
        )
    # force: whether a text looks tokenised is for its owner to judge; the warning would only come between the numbers.
    with _installed(tokenize):
        return BLEU(tokenize=tokenize, lowercase=lowercase, force=True)


def chrf_metric(word_order: int = 0) -> Any:
    """sacreBLEU's chrF; `word_order` is the longest word n-gram that counts too."""
    from sacrebleu.metrics import CHRF

    return CHRF(word_order=word_order)


@contextmanager
def _installed(tokenize: str) -> Iterator[None]:
    try:
        yield
    except (ImportError, RuntimeError) as error:
        language = tokenize.removesuffix("-mecab")
        raise UserError(
            f"the BLEU tokenizer {tokenize!r} needs a package that is not installed",
            f'pip install "sacrebleu[{language}]", or use tokenize = "char"',
        ) from error


def _score(metric: Any, name: str, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    check_paired(hypotheses, references)
    value = float(metric.corpus_score(list(hypotheses), [list(references)]).score)
    return Score(name, value, str(metric.get_signature()))
