"""Scores and kinds of attention: Luong et al. 2015, table 4, in small.

A recurrent decoder attends to the source with a score, and a kind that turns scores into weights:

    dot       q . k                     global    all source words
    general   q . W k                   local-m   a window around p_t = t
    concat    v . tanh(W [q; k])        local-p   a window around a predicted p_t, times a Gaussian

local-m assumes that word t of the target stands for word t of the source. So digits are copied, where that is true, and
reversed, where it is not. The window of two digits on either side is smaller than a sentence. The paper's fourth score,
location, looks at the query alone; it is not a part of regard.
"""

from functools import partial
from statistics import fmean

import torch

from regard.files import JsonObject
from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toy_pairs import SHIFT, exact_match, pair_batch, translation_loss
from regard.lab.toys import ToyTensors, fit_toy, generator_of, seeded
from regard.models.recurrent import RecurrentModel, RecurrentSettings

DIGITS, WINDOW = 10, 2
KINDS = ("global", "local-m", "local-p")
SCORES = ("dot", "general", "concat")
WORDS = {"global": "global", "local_m": "local-m", "local_p": "local-p"}
COPY, REVERSE = "copy", "reverse"
NAMES = {
    "global": Text("global", "全局（global）"),
    "local-m": Text("local-m: around the same place", "局部 local-m：同一位置附近"),
    "local-p": Text("local-p: around a predicted place", "局部 local-p：预测位置附近"),
}


def digit_pairs(generator: torch.Generator, task: str, size: int = 32) -> ToyTensors:
    """Six to nine random digits; the target is the same digits, in reverse for that task."""
    lengths = torch.randint(6, 10, (size,), generator=generator).tolist()
    rows = [torch.randint(DIGITS, (length,), generator=generator).tolist() for length in lengths]
    return pair_batch(rows, [row[::-1] for row in rows] if task == REVERSE else rows)


def build(score: str, kind: str) -> RecurrentModel:
    """A small GRU encoder and Luong's decoder with this attention."""
    values: JsonObject = {"attention": kind, "score": score} | ({"window": WINDOW} if kind != "global" else {})
    settings = RecurrentSettings(
        decoder="luong", cell="gru", layers=1, encoder="forward", d_embedding=32, d_model=64, input_feeding=False,
        dropout=0.0, **values,
    )  # fmt: skip
    return RecurrentModel(settings, SHIFT + DIGITS, SHIFT + DIGITS)


class LuongGrid(Experiment):
    """Exact match for three scores and three kinds of attention."""

    name = "luong-grid"
    topic = "attention"
    title = Text("Which score, which kind of attention?", "哪种打分函数，哪种注意力？")
    questions = (
        Question(
            "003:60-70",
            Text("Which scoring function, and global or local attention?", "用哪种打分函数？全局还是局部注意力？"),
            Text(
                "Five scores are listed without a ranking; global attention improves upon local attention.",
                "列出了五种打分函数，没有比较；全局注意力是对局部注意力的改进。",
            ),
        ),
    )
    hypothesis = Text(
        "With the best score each, global attention is better than local attention where the order changes.",
        "各取最好的打分函数，在语序改变时全局注意力优于局部注意力。",
    )
    varied = Text(
        "the score, the kind of attention, and whether the order changes", "打分函数、注意力种类，以及语序是否改变"
    )
    measured = Text("exact match after equal training", "同样训练后的完全正确率")
    refuted_if = Text("a kind of local attention is better than global attention", "某种局部注意力优于全局注意力")
    panels = (
        Panel(
            REVERSE,
            Text("reversed digits (the order changes)", "反转数字（语序改变）"),
            Text("score", "打分函数"),
            Text("exact match", "完全正确率"),
            kind="bars",
            names=NAMES,
        ),
        Panel(
            COPY,
            Text("copied digits (the order stays)", "复制数字（语序不变）"),
            Text("score", "打分函数"),
            Text("exact match", "完全正确率"),
            kind="bars",
            names=NAMES,
        ),
    )
    papers = ("Luong et al. 2015, sections 3.1, 3.2 and table 4",)
    seconds = 50

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        for task, scores in ((REVERSE, effort.pick(SCORES, ("general",))), (COPY, ("general",))):
            for score in scores:
                for kind in KINDS:
                    seeded(seed, "weights")
                    model = build(score, kind)
                    batch = partial(digit_pairs, task=task)
                    fit_toy(
                        model, batch, translation_loss, steps=effort.pick(150, 25), rate=1e-2, warmup=20,
                        schedule="linear", seed=seed,
                    )  # fmt: skip
                    record(task, kind, score, exact_match(model, batch(generator_of(seed, "test"), size=300)))

    def judge(self, results: Results) -> Verdict:
        best = {kind: self.best_values(results, kind) for kind in KINDS}
        wins = all(above(best["global"], best[kind]) for kind in KINDS[1:])
        loses = any(above(best[kind], best["global"]) for kind in KINDS[1:])
        by_score = [results.mean(REVERSE, "global", score) for score in results.xs(REVERSE, "global")]
        return Verdict(
            decide(wins, loses),
            Text(
                "Of reversed digits, global attention writes {best_global:.0%} exactly with its best score "
                "({worst:.0%} with its worst), local-p {best_local_p:.0%}, local-m {best_local_m:.0%}; of copied "
                "digits, with the score general, global {copy_global:.0%}, local-p {copy_local_p:.0%}, local-m "
                "{copy_local_m:.0%}.",
                "反转数字时，全局注意力用最好的打分函数完全正确率为 {best_global:.0%}（最差的为 {worst:.0%}），"
                "local-p 为 {best_local_p:.0%}，local-m 为 {best_local_m:.0%}；"
                "复制数字时（general 打分），全局为 {copy_global:.0%}，local-p 为 {copy_local_p:.0%}，"
                "local-m 为 {copy_local_m:.0%}。",
            ),
            {"worst": min(by_score)}
            | {f"best_{word}": fmean(best[kind]) for word, kind in WORDS.items()}
            | {f"copy_{word}": results.mean(COPY, kind, "general") for word, kind in WORDS.items()},
        )

    def best_values(self, results: Results, kind: str) -> list[float]:
        """The values of each seed with the score that is best on average, for reversed digits."""
        return max((results.values(REVERSE, kind, score) for score in results.xs(REVERSE, kind)), key=fmean)
