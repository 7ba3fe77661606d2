"""Scores are sacreBLEU's own, carry their signature, and refuse lists that do not belong together."""

import logging
import math

import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import UserError
from regard.metrics.score import Score, exact_match, perplexity
from regard.metrics.translation import bleu, chrf, ter

HYPOTHESES = ["The cat sat on the mat .", "It's raining, again.", "nothing alike", "一只猫坐在垫子上。"]
REFERENCES = ["The cat sat on a mat.", "It is raining again.", "Completely different words", "猫坐在垫子上。"]


def test_scores_equal_sacrebleu() -> None:
    assert bleu(HYPOTHESES, REFERENCES).value == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert chrf(HYPOTHESES, REFERENCES).value == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert chrf(HYPOTHESES, REFERENCES, 2).value == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES], word_order=2).score
    assert ter(HYPOTHESES, REFERENCES).value == sacrebleu.corpus_ter(HYPOTHESES, [REFERENCES]).score


@pytest.mark.parametrize("tokenize", ["13a", "intl", "char", "zh", "none"])
def test_bleu_tokenizers_equal_sacrebleu_and_stand_in_the_signature(tokenize: str) -> None:
    score = bleu(HYPOTHESES, REFERENCES, tokenize)
    assert score.value == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES], tokenize=tokenize).score
    assert f"tok:{tokenize}" in score.signature


def test_bleu_by_hand() -> None:
    # No 4-gram of three stands in the reference: sacreBLEU smooths 0/3 to 1/(2 x 3). Equal lengths: no brevity penalty.
    value = bleu(["a b c d x f"], ["a b c e d f"], "none").value
    unigrams, bigrams, trigrams = 5 / 6, 2 / 5, 1 / 4
    assert value == pytest.approx(100 * (unigrams * bigrams * trigrams * (1 / 6)) ** 0.25)


def test_the_signature_names_every_choice() -> None:
    signature = bleu(HYPOTHESES, REFERENCES).signature
    assert signature == f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    assert "case:lc" in bleu(HYPOTHESES, REFERENCES, lowercase=True).signature
    assert "nw:2" in chrf(HYPOTHESES, REFERENCES, 2).signature


def test_case_counts_unless_asked_not_to() -> None:
    assert bleu(["THE CAT SAT ON THE MAT"], ["the cat sat on the mat"]).value == 0.0
    assert bleu(["THE CAT SAT ON THE MAT"], ["the cat sat on the mat"], lowercase=True).value == pytest.approx(100)


def test_a_score_prints_with_its_signature() -> None:
    assert str(Score("BLEU", 27.304, "tok:13a")) == "BLEU|tok:13a = 27.30"
    assert str(Score("exact match", 50.0)) == "exact match = 50.00"


def test_tokenised_looking_text_is_scored_without_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert bleu(["a b c d ."] * 150, ["a b c d ."] * 150).value == pytest.approx(100)
    assert not caplog.records


def test_empty_output_scores_zero() -> None:
    assert bleu(["", ""], ["a cat", "a dog"]).value == 0.0
    assert chrf(["", ""], ["a cat", "a dog"]).value == 0.0


def test_an_unknown_tokenizer_is_refused_with_those_that_exist() -> None:
    with pytest.raises(UserError, match="13b") as error:
        bleu(HYPOTHESES, REFERENCES, "13b")
    assert "13a" in error.value.remedy


def test_a_tokenizer_that_is_not_installed_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    import sacrebleu.tokenizers.tokenizer_ja_mecab as japanese

    monkeypatch.setattr(japanese, "MeCab", None)
    with pytest.raises(UserError, match="ja-mecab") as error:
        bleu(HYPOTHESES, REFERENCES, "ja-mecab")
    assert 'pip install "sacrebleu[ja]"' in error.value.remedy


@pytest.mark.parametrize("metric", [bleu, chrf, ter, exact_match])
def test_lists_that_do_not_belong_together_are_refused(metric: object) -> None:
    assert callable(metric)
    with pytest.raises(ValueError, match="1 hypotheses for 2 references"):
        metric(["a"], ["a", "b"])
    with pytest.raises(ValueError, match="nothing to score"):
        metric([], [])


def test_exact_match_counts_equal_pairs() -> None:
    assert exact_match(["a", "b", "c", "d"], ["a", "b", "c", "x"]).value == 75.0
    assert exact_match([[1, 2], [3]], [[1, 2], [4]]).value == 50.0


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=1))
def test_exact_match_is_a_percentage_and_full_only_when_all_agree(pairs: list[tuple[str, str]]) -> None:
    hypotheses, references = [a for a, _ in pairs], [b for _, b in pairs]
    value = exact_match(hypotheses, references).value
    assert 0.0 <= value <= 100.0
    assert (value == 100.0) == (hypotheses == references)
    assert exact_match(references, references).value == 100.0


def test_perplexity_of_a_uniform_model_is_its_number_of_choices() -> None:
    assert perplexity(30 * math.log(8), 30) == pytest.approx(8.0)
    assert perplexity(1e9, 1) == math.inf
    with pytest.raises(ValueError, match="0 tokens"):
        perplexity(0.0, 0)
