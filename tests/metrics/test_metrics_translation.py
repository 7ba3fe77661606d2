"""The tokenizer of BLEU for scripts without spaces."""

import pytest
import sacrebleu

from regard.metrics.translation import bleu, bleu_tokenizer_for, ter


@pytest.mark.parametrize(
    ("references", "tokenizer"),
    [
        (["A dog runs.", "Ein Hund läuft."], "13a"),
        (["狗在跑。", "他说 Python 很好。"], "zh"),
        (["犬が走っている。", "彼はそれを言わなかったと思います。"], "char"),
        (["犬 が 走っ て いる 。", "彼 は 来 ない 。"], "13a"),
        (["The sign says 出口 and nothing else at all."], "13a"),
        ([], "13a"),
        (["สวัสดีครับ ผมชื่อสมชาย"], "char"),
        (["ฉัน กิน ข้าว", "เขา ไป ตลาด"], "13a"),
        (["ສະບາຍດີ"], "char"),
        (["ខ្ញុំស្រឡាញ់អ្នក។"], "char"),
        (["မင်္ဂလာပါ။"], "char"),
        (["བཀྲ་ཤིས་བདེ་ལེགས།"], "char"),
        (["นี่ is the word for this in Thai, and the rest is English."], "13a"),
    ],
)
def test_the_tokenizer_of_bleu_follows_the_script_of_the_references(references: list[str], tokenizer: str) -> None:
    assert bleu_tokenizer_for(references) == tokenizer


@pytest.mark.parametrize(
    ("language", "references", "tokenizer"),
    [
        ("zh", ["Python 3.12 (CPython) 发布"], "zh"),
        ("zh-Hant", ["OpenAI 與 Microsoft Corporation"], "zh"),
        ("zho_Hans", ["Windows"], "zh"),
        ("th", ["Facebook Messenger คือ"], "char"),
        ("tha_Thai", ["Facebook-Messenger"], "char"),
        ("ja", ["犬 が 走っ て いる 。"], "13a"),
        ("en", ["出口 means exit"], "13a"),
        ("en_US", ["犬が走っている"], "13a"),
        ("ko", ["나는 학교에 간다."], "13a"),
    ],
)
def test_a_named_language_decides_instead_of_the_script(language: str, references: list[str], tokenizer: str) -> None:
    assert bleu_tokenizer_for(references, language) == tokenizer


@pytest.mark.parametrize(
    "references", [["今天的天气非常好。", "我们明天去北京。"], ["今日は天気が良い。", "私は京都へ行く。"]]
)
def test_ter_of_chinese_and_japanese_is_that_of_sacrebleu_with_its_asian_support(references: list[str]) -> None:
    outputs = [text.replace("京", "津") for text in references]
    score = ter(outputs, references, bleu_tokenizer_for(references))
    metric = sacrebleu.TER(normalized=True, asian_support=True)
    assert score.value == metric.corpus_score(outputs, [references]).score < 15
    assert score.signature == str(metric.get_signature()) and "asian:yes" in score.signature
    assert ter(outputs, references).value == 50, "one of two lines"


def test_ter_of_thai_counts_characters() -> None:
    reference = "ฉันกินข้าว"
    score = ter(["ฉันกินขาว"], [reference], "char")
    assert score.value == pytest.approx(100 / len(reference)) and "tok:char" in score.signature
    assert ter(["ฉัน กินข้าว"], [reference], "char").value == 0


def test_chinese_is_not_scored_as_one_word_per_line() -> None:
    references, outputs = ["今天的天气非常好。", "我们明天去北京。"], ["今天天气非常好。", "我们明天去上海。"]
    assert bleu(outputs, references).value < 5
    assert bleu(outputs, references, tokenize=bleu_tokenizer_for(references)).value > 40
