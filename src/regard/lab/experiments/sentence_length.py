"""Sentence length: without attention a decoder has one vector for a whole sentence, and long ones do not fit.

Bahdanau et al. 2014, figure 2, in small. An encoder-decoder without attention writes the target from the last state of
its encoder, a vector of fixed size (equations 1 and 2). With attention every target word has a context of its own:

    plain       y_1 .. y_T  from  h_S
    attention   y_t         from  c_t = sum_s a_ts h_s

Both copy random digits. As in the paper each is trained twice: on sentences up to a short and up to a longer length
(there 30 and 50 words). The plain model gets more steps, half as many again. BLEU counts n-grams, so a
sentence with one error has a high BLEU; exact match counts it as wrong.
"""

from functools import partial

import torch

from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toy_pairs import SHIFT, pair_batch, share_equal, targets_of, translation_loss, write
from regard.lab.toys import ToyTensors, fit_toy, generator_of, seeded
from regard.metrics.translation import bleu
from regard.models.recurrent import RecurrentModel, RecurrentSettings

DIGITS = 10
SHORT, LONG = 5, 9
LENGTHS = (4, 5, 6, 7, 8, 9, 10, 12, 14)
PLAIN, ATTENTION = "plain", "attention"
SETTINGS = {
    PLAIN: RecurrentSettings(
        decoder="plain", cell="gru", layers=1, encoder="backward", d_embedding=32, d_model=64, attention="none"
    ),
    ATTENTION: RecurrentSettings(decoder="bahdanau", d_embedding=32, d_model=64),
}


def series(kind: str, longest: int) -> str:
    """The name of a model: its kind and the longest sentence of its training."""
    return f"{kind}-{longest}"


def copies(generator: torch.Generator, longest: int, shortest: int = 2, size: int = 64) -> ToyTensors:
    """Random digits of random lengths; the target is the same digits."""
    lengths = torch.randint(shortest, longest + 1, (size,), generator=generator).tolist()
    rows = [torch.randint(DIGITS, (length,), generator=generator).tolist() for length in lengths]
    return pair_batch(rows, rows)


def bleu_of(written: list[list[int]], wanted: list[list[int]]) -> float:
    """BLEU of rows of digits; a digit is a word."""
    hypotheses, references = ([" ".join(map(str, row)) for row in rows] for rows in (written, wanted))
    return bleu(hypotheses, references, tokenize="none").value


class SentenceLength(Experiment):
    """Exact match and BLEU over the length of the source, with and without attention."""

    name = "sentence-length"
    topic = "encoder-decoder"
    title = Text("One vector for a whole sentence", "用一个向量装下整句话")
    questions = (
        Question(
            "004:350, 001:190",
            Text(
                "What does a recurrent encoder-decoder lose in long sentences, and what does attention change?",
                "循环编码器-解码器在长句子上损失了什么？注意力改变了什么？",
            ),
            Text(
                "History is passed on step by step and may be lost; to keep more, the state must grow.",
                "历史信息一步步向后传递，可能会有损失；想保留更多信息就要扩大隐藏层。",
            ),
        ),
    )
    hypothesis = Text(
        "Within the trained lengths a model without attention gets worse with the length; one with attention does not.",
        "在训练过的长度之内，没有注意力的模型随句子变长而变差，有注意力的模型不会。",
    )
    varied = Text(
        "attention, the longest sentence in training, and the length of test sentences",
        "有无注意力、训练中最长的句子，以及测试句子的长度",
    )
    measured = Text("exact match and BLEU of sentences of one length", "同一长度句子的完全正确率和 BLEU")
    refuted_if = Text(
        "the model without attention copies the longest trained sentences as well as the one with attention",
        "没有注意力的模型在训练过的最长句子上与有注意力的一样好",
    )
    panels = tuple(
        Panel(
            key,
            title,
            Text("digits in the source", "源句的数字个数"),
            y,
            names={
                series(kind, longest): Text(
                    f"{english}, trained up to {longest}", f"{chinese}，训练长度不超过 {longest}"
                )
                for kind, english, chinese in (
                    (PLAIN, "no attention", "无注意力"),
                    (ATTENTION, "attention", "有注意力"),
                )
                for longest in (SHORT, LONG)
            },
        )
        for key, title, y in (
            ("exact", Text("exact match over length", "完全正确率与长度"), Text("exact match", "完全正确率")),
            ("bleu", Text("BLEU over length", "BLEU 与长度"), Text("BLEU", "BLEU")),
        )
    )
    papers = ("Bahdanau et al. 2014, figure 2", "Cho et al. 2014b, section 4.2")
    seconds = 50

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        steps = {PLAIN: effort.pick(375, 90), ATTENTION: effort.pick(250, 60)}
        for longest in effort.pick((SHORT, LONG), (SHORT,)):
            for kind, settings in SETTINGS.items():
                seeded(seed, "weights")
                model = RecurrentModel(settings, SHIFT + DIGITS, SHIFT + DIGITS)
                fit_toy(
                    model, partial(copies, longest=longest), translation_loss, steps=steps[kind], rate=5e-3, warmup=20,
                    schedule="linear", seed=seed,
                )  # fmt: skip
                for length in effort.pick(LENGTHS, LENGTHS[:3]):
                    test = copies(generator_of(seed, "test", length), length, length, size=100)
                    written, wanted = write(model, test), targets_of(test)
                    record("exact", series(kind, longest), length, share_equal(written, wanted))
                    record("bleu", series(kind, longest), length, bleu_of(written, wanted))

    def judge(self, results: Results) -> Verdict:
        longest = LONG if series(PLAIN, LONG) in results.series("exact") else SHORT
        plain, attention = series(PLAIN, longest), series(ATTENTION, longest)
        first, *_, beyond = (float(x) for x in results.xs("exact", plain))
        at_end = {name: results.values("exact", name, longest) for name in (plain, attention)}
        falls = above(results.values("exact", plain, first), at_end[plain])
        return Verdict(
            decide(falls and above(at_end[attention], at_end[plain], by=0.2), above(at_end[plain], at_end[attention])),
            Text(
                "Of sentences of {first:.0f} digits the model without attention copies {plain_first:.0%}, of "
                "{longest:.0f} digits, the longest in training, {plain:.0%}; with attention {attention_first:.0%} and "
                "{attention:.0%} (BLEU {plain_bleu:.0f} and {attention_bleu:.0f}). Beyond the trained lengths, at "
                "{beyond:.0f} digits, it is {plain_beyond:.0%} and {attention_beyond:.0%}.",
                "没有注意力的模型在 {first:.0f} 个数字的句子上完全正确率为 {plain_first:.0%}，"
                "在训练中最长的 {longest:.0f} 个数字的句子上为 {plain:.0%}；有注意力时为 {attention_first:.0%} 和 "
                "{attention:.0%}（BLEU 为 "
                "{plain_bleu:.0f} 对 {attention_bleu:.0f}）。超出训练长度、在 {beyond:.0f} 个数字时，两者为 "
                "{plain_beyond:.0%} 和 {attention_beyond:.0%}。",
            ),
            {
                "first": first,
                "longest": longest,
                "beyond": beyond,
                "plain_first": results.mean("exact", plain, first),
                "plain": results.mean("exact", plain, longest),
                "plain_beyond": results.mean("exact", plain, beyond),
                "plain_bleu": results.mean("bleu", plain, longest),
                "attention_first": results.mean("exact", attention, first),
                "attention": results.mean("exact", attention, longest),
                "attention_beyond": results.mean("exact", attention, beyond),
                "attention_bleu": results.mean("bleu", attention, longest),
            },
        )
