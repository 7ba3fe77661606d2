"""The tokenizer of BLEU for scripts without spaces."""

import pytest

from regard.metrics.translation import bleu, bleu_tokenizer_for


@pytest.mark.parametrize(
    ("references", "tokenizer"),
    [
        (["A dog runs.", "Ein Hund läuft."], "13a"),
        (["狗在跑。", "他说 Python 很好。"], "zh"),
        (["犬が走っている。", "彼はそれを言わなかったと思います。"], "char"),
        (["犬 が 走っ て いる 。", "彼 は 来 ない 。"], "13a"),
        (["The sign says 出口 and nothing else at all."], "13a"),
        ([], "13a"),
    ],
)
def test_the_tokenizer_of_bleu_follows_the_script_of_the_references(references: list[str], tokenizer: str) -> None:
    assert bleu_tokenizer_for(references) == tokenizer


def test_chinese_is_not_scored_as_one_word_per_line() -> None:
    references, outputs = ["今天的天气非常好。", "我们明天去北京。"], ["今天天气非常好。", "我们明天去上海。"]
    assert bleu(outputs, references).value < 5
    assert bleu(outputs, references, tokenize=bleu_tokenizer_for(references)).value > 40
