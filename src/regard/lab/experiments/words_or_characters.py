"""Words or characters: one text, cut into words, subwords and characters, predicted by n-gram models.

Perplexities of models with different tokens cannot be compared: a word is harder to guess than a letter, but there are
fewer of them. The number of bits for the whole text can, if every token sequence can be turned back into the text:

    bits per character = - sum_t log_2 p(w_t | w_{t-n+1} .. w_{t-1}) / characters of the text

The tokenizers here are such: a word that the training text does not have is spelled in bytes. Words are sparse: most
sequences of three words in a new text never occurred before. Sequences of three characters nearly all did, but they say
little. The answer depends on how the context is counted: three words are about twenty characters.
"""

import math
from collections.abc import Hashable, Sequence

import torch

from regard.lab.english import split_pages
from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.models.ngram import NGram
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings
from regard.text.subword import SubwordTokenizer

CHARACTERS, SMALL, LARGE, WORDS = "characters", "small subwords", "large subwords", "words"
TOKENIZERS = {
    CHARACTERS: TextSettings(kind="char", vocab_size=2000),
    SMALL: TextSettings(kind="bpe", vocab_size=500),
    LARGE: TextSettings(kind="bpe", vocab_size=4000),
    WORDS: TextSettings(kind="word", vocab_size=100_000),
}
ORDERS = (1, 2, 3, 4, 6, 8, 10)
SHORT_ORDERS = (1, 2, 3, 4, 6)
SHARES = (0.05, 0.2, 1.0)
EQUAL = 3
"""The order at which all tokens are compared."""
NAMES = {
    CHARACTERS: Text("characters", "字符"),
    SMALL: Text("subwords (BPE, vocabulary of 500)", "子词（BPE，词表 500）"),
    LARGE: Text("subwords (BPE, vocabulary of 4,000)", "子词（BPE，词表 4,000）"),
    WORDS: Text("words", "词"),
}


def bits_per_character(model: NGram, tokenizer: SubwordTokenizer, text: str) -> float:
    """Bits that the model needs for a text, divided by its characters."""
    log_probs = model.log_probs(torch.tensor(tokenizer.encode(text)))
    return -float(log_probs.sum()) / math.log(2) / len(text)


def units_of(name: str, tokenizer: SubwordTokenizer, text: str) -> Sequence[Hashable]:
    """The text as characters, subwords or words; a word stays whole if it is unknown."""
    if name == CHARACTERS:
        return text
    return tokenizer.words(text) if name == WORDS else tokenizer.encode(text)


def unseen(train: Sequence[Hashable], test: Sequence[Hashable], order: int) -> float:
    """Share of the n-grams of `test` that `train` does not have."""
    known, new = (list(zip(*(units[k:] for k in range(order)), strict=False)) for units in (train, test))
    seen = set(known)
    return sum(gram not in seen for gram in new) / len(new)


class WordsOrCharacters(Experiment):
    """Bits per character of n-gram models by tokens, order and amount of text."""

    name = "words-or-characters"
    topic = "text"
    title = Text("Words or characters?", "用词还是用字符？")
    questions = (
        Question(
            "004:220-221",
            Text("Should a token be a word or a character?", "Token 用词（Word）还是用字符（Char）？"),
            Text(
                "Words are easier for the model, but there are very many, so they are sparse. Characters are few and "
                "dense, but hardly express the meaning of a sentence.",
                "用词把词信息直接交给模型，学起来比较简单，但词空间可能过分稀疏；字符空间十分密集，但很难表达整个句子的意思。",
            ),
        ),
    )
    hypothesis = Text(
        "Words are sparse and characters dense; characters predict the same text worse than words.",
        "词稀疏、字符密集；对同一文本，字符模型的预测不如词模型。",
    )
    varied = Text(
        "the tokens, the order of the n-gram model and the amount of text", "token 的种类、n 元语法的阶数和语料量"
    )
    measured = Text(
        "bits per character of pages that were held out; share of their n-grams that the training text does not have",
        "留出页面上每个字符的比特数；其中训练文本里没有出现过的 n 元组比例",
    )
    refuted_if = Text(
        "words are not sparser than characters, or the best model of characters needs fewer bits than that of words",
        "词并不比字符稀疏，或者最好的字符模型所需比特数少于最好的词模型",
    )
    panels = (
        Panel(
            "bits",
            Text("n-gram models of one text", "同一文本的 n 元语法模型"),
            Text("order n, in tokens", "阶数 n（token 数）"),
            Text("bits per character", "每字符比特数"),
            names=NAMES,
        ),
        Panel(
            "amount",
            Text("the best order, with more and more text", "语料逐渐增多（各取最好的阶数）"),
            Text("share of the training text", "所用训练文本的比例"),
            Text("bits per character", "每字符比特数"),
            log="x",
            names=NAMES,
        ),
        Panel(
            "unseen",
            Text("n-grams that never occurred before", "从未出现过的 n 元组"),
            Text("order n, in tokens", "阶数 n（token 数）"),
            Text("share of the new text", "占新文本的比例"),
            names=NAMES,
        ),
    )
    papers = ("Chen and Goodman 1998", "Sennrich et al. 2016", "Mielke 2019")
    seconds = 28

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        train, test = ("\n".join(part) for part in split_pages(seed, 0.1))
        shares = effort.pick(SHARES, (0.2,))
        for share in shares:
            text = train[: round(len(train) * share)]
            for name, settings in TOKENIZERS.items():
                tokenizer = train_tokenizer(text.splitlines(), settings)
                ids = torch.tensor(tokenizer.encode(text)).numpy()
                bits = {
                    order: bits_per_character(NGram.count(ids, order, len(tokenizer)), tokenizer, test)
                    for order in ORDERS
                }
                record("amount", name, share, min(bits.values()))
                if share == shares[-1]:
                    for order in ORDERS:
                        record("bits", name, order, bits[order])
                    units, new = (units_of(name, tokenizer, part) for part in (text, test))
                    for order in SHORT_ORDERS:
                        record("unseen", name, order, unseen(units, new, order))

    def judge(self, results: Results) -> Verdict:
        best = zip(*(self.best(results, name) for name in (CHARACTERS, WORDS)), strict=True)
        lost = [characters - words for characters, words in best]  # the text of a seed is the same for both
        rare, dense = (results.values("unseen", name, EQUAL) for name in (WORDS, CHARACTERS))
        kind = decide(above(rare, dense) and min(lost) > 0.01, above(dense, rare) or max(lost) < -0.01)
        return Verdict(
            kind,
            Text(
                "Words are sparse: a new text has {rare:.0%} unseen sequences of {equal:.0f} words, but {dense:.1%} of "
                "{equal:.0f} characters. At order {equal:.0f} characters need {short:.2f} bits per character and words "
                "{equal_words:.2f}; at order {long:.0f} they need {characters:.2f} and {words:.2f}.",
                "词是稀疏的：新文本中 {equal:.0f} 个词的序列有 {rare:.0%} 未出现过，{equal:.0f} 个字符的序列只有 "
                "{dense:.1%}。阶数为 {equal:.0f} 时，字符模型每字符需要 {short:.2f} 比特，词模型 {equal_words:.2f}；"
                "阶数为 {long:.0f} 时分别为 {characters:.2f} 和 {words:.2f}。",
            ),
            {
                "rare": results.mean("unseen", WORDS, EQUAL),
                "dense": results.mean("unseen", CHARACTERS, EQUAL),
                "equal": EQUAL,
                "short": results.mean("bits", CHARACTERS, EQUAL),
                "equal_words": results.mean("bits", WORDS, EQUAL),
                "long": ORDERS[-1],
                "characters": results.mean("bits", CHARACTERS, ORDERS[-1]),
                "words": results.mean("bits", WORDS, ORDERS[-1]),
            },
        )

    def best(self, results: Results, name: str) -> list[float]:
        """Bits per character at the best order, for each seed."""
        by_order = (results.values("bits", name, order) for order in ORDERS)
        return [min(bits) for bits in zip(*by_order, strict=True)]
