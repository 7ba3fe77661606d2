"""BPE and WordPiece: what they merge, how they cut, and whether a cut is the border of a morpheme.

    BPE                        merge the most frequent pair ab again and again; apply the merges in the same order
    WordPiece, by frequency    the same merges; a word is cut from the left by the longest token that fits
    WordPiece, by likelihood   merge the pair of the largest count(ab) / (count(a) count(b)) (Schuster, Nakajima 2012)

A frequent string need not be a stem. The test has words of the text whose stem is a word of the text too, "literal" +
"s" or "call" + "ing": is there a cut where the ending begins? WordPiece holds every byte twice, at the start and inside
of a word, so it learns fewer tokens at equal size.
"""

from collections import Counter

from regard.lab.english import split_pages, words_of
from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer

BPE, FREQUENCY, LIKELIHOOD = "bpe", "frequency", "likelihood"
SIZES = (600, 800, 1200, 2000)
"""Vocabulary sizes; bytes and special tokens are part of them."""
ENDINGS = ("ing", "ed", "ly", "er", "s", "able", "tion", "ness", "ment")
NAMES = {
    BPE: Text("BPE", "BPE"),
    FREQUENCY: Text("WordPiece by frequency", "WordPiece（按频率）"),
    LIKELIHOOD: Text("WordPiece by likelihood", "WordPiece（按似然）"),
}
EXACT, SOME, ELSEWHERE = "stem and ending", "ending and others", "elsewhere"


def settings_of(kind: str, size: int) -> TextSettings:
    """The tokenizer of this kind and size."""
    if kind == BPE:
        return TextSettings(kind="bpe", vocab_size=size)
    return TextSettings(kind="wordpiece", vocab_size=size, merge_by="likelihood" if kind == LIKELIHOOD else "frequency")


def cuts(tokenizer: Tokenizer, words: list[str]) -> list[tuple[int, ...]]:
    """For each word the places where it is cut; each word is preceded by a space, as in a text."""
    found = []
    for ids in tokenizer.encode_batch([f" {word}" for word in words]):
        ends, length = [], -1  # the space
        for number in ids:
            length += len(tokenizer.decode([number]))
            ends.append(length)
        found.append(tuple(end for end in ends[:-1] if end > 0))
    return found


def inflected(words: Counter[str]) -> dict[str, int]:
    """Words that are a word of the text and an ending, with the length of the stem."""
    found = {}
    for word in words:
        for ending in ENDINGS:
            stem = word.removesuffix(ending)
            if stem != word and len(stem) > 3 and stem in words:
                found[word] = len(stem)
    return found


class Subwords(Experiment):
    """Tokens per word over the vocabulary, equal cuts, and cuts at endings."""

    name = "subwords"
    topic = "text"
    title = Text("BPE and WordPiece", "BPE 与 WordPiece")
    questions = (
        Question(
            "001:193, 000:242-244",
            Text("What do BPE and WordPiece do?", "BPE 和 WordPiece 做了什么？"),
            Text(
                "BPE takes out the stems, which makes the dictionary small and training easier.",
                "把词根提出来，这样就使得整个字典比较小，方便训练。",
            ),
        ),
    )
    hypothesis = Text(
        "BPE takes out stems: most inflected words that it cuts are cut into stem and ending.",
        "BPE 提取词根：被切开的派生词大多切成词根加词尾。",
    )
    varied = Text("how tokens are learnt and the size of the vocabulary", "学习 token 的方式与词表大小")
    measured = Text(
        "tokens per word of new text; inflected words that are cut into stem and ending",
        "新文本每词的 token 数；切成词根加词尾的派生词",
    )
    refuted_if = Text("most cut words are cut elsewhere", "被切开的词大多切在别处")
    panels = (
        Panel(
            "length",
            Text("tokens per word", "每词的 token 数"),
            Text("size of the vocabulary", "词表大小"),
            Text("tokens per word", "每词 token 数"),
            log="x",
            names=NAMES,
        ),
        Panel(
            "cuts",
            Text("inflected words, largest vocabulary", "派生词，最大词表"),
            Text("tokens learnt by", "学习方式"),
            Text("share of the words that are cut", "占被切开的词的比例"),
            kind="bars",
            names={
                **NAMES,
                EXACT: Text("stem and ending", "词根加词尾"),
                SOME: Text("a cut at the ending, and others", "词尾处有切口，另有其他切口"),
                ELSEWHERE: Text("cut elsewhere only", "只切在别处"),
            },
        ),
        Panel(
            "equal",
            Text("words that are cut as BPE cuts them", "与 BPE 切法相同的词"),
            Text("size of the vocabulary", "词表大小"),
            Text("share of the words", "词的比例"),
            log="x",
            names=NAMES,
        ),
    )
    papers = ("Sennrich et al. 2016", "Schuster and Nakajima 2012", "Bostrom and Durrett 2020")
    seconds = 10

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        train, test = ([words_of(page) for page in part] for part in split_pages(seed, 0.1))
        lines = [" " + " ".join(words) for words in train]
        new = [word for words in test for word in words]
        stems = inflected(Counter(word for words in train for word in words))
        tokenizers = {(kind, size): train_tokenizer(lines, settings_of(kind, size)) for size in SIZES for kind in NAMES}
        for (kind, size), tokenizer in tokenizers.items():
            record("length", kind, size, sum(len(places) + 1 for places in cuts(tokenizer, new)) / len(new))
        for kind in NAMES:
            places = dict(zip(stems, cuts(tokenizers[kind, SIZES[-1]], list(stems)), strict=True))
            cut = [word for word in stems if places[word]]
            exact = sum(places[word] == (stems[word],) for word in cut) / len(cut)
            ending = sum(stems[word] in places[word] for word in cut) / len(cut)
            for series, share in ((EXACT, exact), (SOME, ending - exact), (ELSEWHERE, 1 - ending)):
                record("cuts", series, kind, share)
        for size in SIZES:
            reference, *others = (cuts(tokenizers[kind, size], list(stems)) for kind in NAMES)
            for kind, found in zip((FREQUENCY, LIKELIHOOD), others, strict=True):
                same = sum(first == second for first, second in zip(reference, found, strict=True))
                record("equal", kind, size, same / len(stems))

    def judge(self, results: Results) -> Verdict:
        exact = results.values("cuts", EXACT, BPE)
        return Verdict(
            decide(above(exact, [0.5]), above([0.5], exact)),
            Text(
                "With {size:.0f} tokens BPE cuts {exact:.0%} of the inflected words that it cuts into stem and "
                "ending, "
                "{some:.0%} there and elsewhere, and {elsewhere:.0%} elsewhere only. New text has {bpe:.2f} tokens "
                "per "
                "word with BPE, {frequency:.2f} with WordPiece by frequency and {likelihood:.2f} by likelihood; "
                "{equal:.0%} of the words are cut alike by BPE and WordPiece by frequency.",
                "词表为 {size:.0f} 时，BPE 切开的派生词中，{exact:.0%} 切成词根加词尾，{some:.0%} 在词尾处与别处都切，"
                "{elsewhere:.0%} 只切在别处。新文本每词的 token 数：BPE {bpe:.2f}，按频率的 WordPiece "
                "{frequency:.2f}，"
                "按似然 {likelihood:.2f}；BPE 与按频率的 WordPiece 有 {equal:.0%} 的词切法相同。",
            ),
            {
                "size": SIZES[-1],
                "exact": results.mean("cuts", EXACT, BPE),
                "some": results.mean("cuts", SOME, BPE),
                "elsewhere": results.mean("cuts", ELSEWHERE, BPE),
                **{kind: results.mean("length", kind, SIZES[-1]) for kind in NAMES},
                "equal": results.mean("equal", FREQUENCY, SIZES[-1]),
            },
        )
