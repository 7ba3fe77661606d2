"""BLEU against known damage: does it put sentences and test sets in the right order?

The notes say that BLEU agrees with people. Here the truth is known: sentences of English are damaged, and the share of
damaged words is the quality. Three kinds of damage touch a share of the words of a sentence:

    shuffled       these words change places        the words stay, their order does not
    cut            words at the end are removed     only the brevity penalty notices
    substituted    other words stand in their place

Each sentence gets a kind and a share at random, and a score (sentence level). Then test sets ("systems") of many
sentences are made, each with its own mean share, and scored as a whole (corpus level). The rank correlation (Spearman)
of score and quality is 1 if the score puts all in the right order. It is also computed for the third in the middle,
where qualities are similar, as they are when two good systems are compared. chrF counts characters, not words.
"""

from collections.abc import Callable, Sequence

import numpy as np

from regard.lab.english import pages
from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, decide
from regard.metrics.classification import spearman
from regard.metrics.score import Score
from regard.metrics.translation import bleu, chrf
from regard.seeding import derive_seed

BLEU, CHRF = "BLEU", "chrF"
METRICS: dict[str, Callable[[Sequence[str], Sequence[str]], Score]] = {BLEU: bleu, CHRF: chrf}
SHUFFLED, CUT, SUBSTITUTED = "shuffled", "cut", "substituted"
KINDS = (SHUFFLED, CUT, SUBSTITUTED)
SENTENCE, CORPUS = "sentence", "corpus"
SIMILAR = {SENTENCE: "similar sentences", CORPUS: "similar corpora"}
HIGH = 0.9
"""A rank correlation that is called high."""
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)


def sentences() -> list[list[str]]:
    """Sentences of 10 to 30 words without code, in the order of the pages."""
    found = []
    for page in pages():
        for paragraph in page.split("\n\n"):
            for sentence in paragraph.split(". "):
                words = sentence.split()
                if 10 <= len(words) <= 30 and all(word.strip(",.;()").isalpha() for word in words):
                    found.append(words)
    return found


def damage(words: list[str], kind: str, share: float, others: list[str], rng: np.random.Generator) -> list[str]:
    """The sentence with about this share of its words shuffled, cut off or substituted."""
    count, damaged = round(share * len(words)), list(words)
    if kind == CUT:
        return damaged[: len(words) - count]
    places = rng.choice(len(words), count, replace=False)
    if kind == SHUFFLED:
        for place, source in zip(places, np.roll(places, 1), strict=True):
            damaged[place] = words[source]
    else:
        for place in places:
            damaged[place] = others[rng.integers(len(others))]
    return damaged


def similar(quality: list[float]) -> list[int]:
    """The indices of the third of the values in the middle: translations of similar quality."""
    order = np.argsort(quality, kind="stable")
    return sorted(order[len(order) // 3 : 2 * len(order) // 3].tolist())


class Bleu(Experiment):
    """Rank correlation of BLEU and chrF with known damage, by sentence and by test set."""

    name = "bleu"
    topic = "text"
    title = Text("Does BLEU know good from bad?", "BLEU 分得清好坏吗？")
    questions = (
        Question(
            "000:59-63",
            Text("Does BLEU agree with judgements of quality?", "BLEU 与质量评价一致吗？"),
            Text("Yes, it correlates highly with people.", "是的，与人类评价结果高度相关。"),
        ),
    )
    hypothesis = Text(
        "BLEU correlates highly with quality (above 0.9), for single sentences and for test sets, of similar quality "
        "too.",
        "BLEU 与质量高度相关（大于 0.9）：无论单个句子还是测试集，也包括质量相近的情形。",
    )
    varied = Text("kind and share of damaged words; one sentence or a test set", "损坏的方式与比例；单句还是测试集")
    measured = Text(
        "rank correlation of the score with the share of words that are not damaged",
        "分数与未损坏词比例的秩相关系数",
    )
    refuted_if = Text("a rank correlation is below 0.9 for all seeds", "某个秩相关系数在所有种子下都低于 0.9")
    panels = (
        Panel(
            "correlation",
            Text("rank correlation with quality, all kinds of damage", "与质量的秩相关（各种损坏混合）"),
            Text("what is scored", "评分对象"),
            Text("rank correlation", "秩相关系数"),
            kind="bars",
            names={
                SENTENCE: Text("single sentences", "单个句子"),
                CORPUS: Text("test sets", "测试集"),
                SIMILAR[SENTENCE]: Text("sentences of similar quality", "质量相近的句子"),
                SIMILAR[CORPUS]: Text("test sets of similar quality", "质量相近的测试集"),
            },
        ),
        Panel(
            "bleu",
            Text("BLEU over the share of damaged words", "BLEU 与损坏词的比例"),
            Text("share of damaged words", "损坏词的比例"),
            Text("BLEU", "BLEU"),
            names={
                SHUFFLED: Text("shuffled", "打乱"),
                CUT: Text("cut off", "截断"),
                SUBSTITUTED: Text("substituted", "替换"),
            },
        ),
    )
    papers = ("Papineni et al. 2002", "Callison-Burch et al. 2006", "Mathur et al. 2020")
    seconds = 12

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        rng = np.random.default_rng(derive_seed(seed, "damage"))
        texts = sentences()
        others = [word for words in texts for word in words]
        self.record_correlations(texts, others, rng, effort, record)
        chosen = [texts[i] for i in rng.choice(len(texts), effort.pick(200, 50), replace=False)]
        references = [" ".join(words) for words in chosen]
        for kind in KINDS:
            for share in SHARES:
                damaged = [" ".join(damage(words, kind, share, others, rng)) for words in chosen]
                record("bleu", kind, share, bleu(damaged, references).value)

    def record_correlations(
        self, texts: list[list[str]], others: list[str], rng: np.random.Generator, effort: Effort, record: Record
    ) -> None:
        """Score sentences one by one, and test sets whose sentences have a mean share in common."""
        systems, size = effort.pick((60, 80), (30, 30))
        quality: dict[str, list[float]] = {SENTENCE: [], CORPUS: []}
        scores: dict[tuple[str, str], list[float]] = {(m, level): [] for m in METRICS for level in quality}
        for _ in range(systems):
            mean = rng.uniform(0.05, 0.35)
            hypotheses, references, kept = [], [], []
            for index in rng.choice(len(texts), size, replace=False):
                share = rng.uniform(0, 2 * mean)
                words = texts[index]
                hypotheses.append(" ".join(damage(words, str(rng.choice(KINDS)), share, others, rng)))
                references.append(" ".join(words))
                kept.append(1 - round(share * len(words)) / len(words))
            quality[SENTENCE] += kept
            quality[CORPUS].append(float(np.mean(kept)))
            for name, metric in METRICS.items():
                scores[name, CORPUS].append(metric(hypotheses, references).value)
                scores[name, SENTENCE] += [
                    metric([hypothesis], [reference]).value
                    for hypothesis, reference in zip(hypotheses, references, strict=True)
                ]
        for level in quality:
            for name in METRICS:
                found, truth, middle = scores[name, level], quality[level], similar(quality[level])
                record("correlation", name, level, spearman(found, truth).value / 100)
                alike = spearman([found[i] for i in middle], [truth[i] for i in middle])
                record("correlation", name, SIMILAR[level], alike.value / 100)

    def judge(self, results: Results) -> Verdict:
        levels = (SENTENCE, CORPUS, *SIMILAR.values())
        found = [results.values("correlation", BLEU, level) for level in levels]
        half = SHARES[-1]
        return Verdict(
            decide(min(map(min, found)) > HIGH, min(map(max, found)) < HIGH),
            Text(
                "The rank correlation of BLEU with quality is {sentence:.2f} for sentences and {corpus:.2f} for test "
                "sets; {similar_sentence:.2f} and {similar_corpus:.2f} for those of similar quality. With {half:.0%} "
                "of "
                "the words damaged, BLEU is {shuffled:.0f} if they are shuffled, {cut:.0f} if cut off, "
                "{substituted:.0f} if substituted.",
                "BLEU 与质量的秩相关系数，对单个句子为 {sentence:.2f}，对测试集为 {corpus:.2f}；对质量相近的句子为 "
                "{similar_sentence:.2f}，对质量相近的测试集为 {similar_corpus:.2f}。同样损坏 {half:.0%} 的词，"
                "打乱时 BLEU 为 {shuffled:.0f}，截断时为 {cut:.0f}，替换时为 {substituted:.0f}。",
            ),
            {
                "sentence": results.mean("correlation", BLEU, SENTENCE),
                "corpus": results.mean("correlation", BLEU, CORPUS),
                "similar_sentence": results.mean("correlation", BLEU, SIMILAR[SENTENCE]),
                "similar_corpus": results.mean("correlation", BLEU, SIMILAR[CORPUS]),
                "half": half,
                **{kind: results.mean("bleu", kind, half) for kind in KINDS},
            },
        )
