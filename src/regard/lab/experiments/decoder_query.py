"""The query of a recurrent decoder: its state before the last word, or after it?

    Bahdanau    c_t = attend(h_{t-1})    the state that has not read the last written word y_{t-1} yet
    Luong       c_t = attend(h_t)        h_t = f(h_{t-1}, y_{t-1})

The two decoders differ in more than that. Here Luong's decoder gets either query, and all else stays the same. Digits,
all different, are copied, where the next one stands to the right of the last one; and sorted, where the next one is the
smallest that is larger. In both the last written word tells where to look, but a state can also count its steps.
"""

from functools import partial
from typing import Literal

import torch

from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toy_pairs import SHIFT, pair_batch, translation_loss
from regard.lab.toys import ToyTensors, fit_toy, generator_of, seeded
from regard.models.recurrent import RecurrentModel, RecurrentSettings

DIGITS, LENGTH = 10, 6
Query = Literal["previous", "current"]
PREVIOUS: Query = "previous"
CURRENT: Query = "current"
QUERIES = (PREVIOUS, CURRENT)
COPY, SORT = "copy", "sort"
NAMES = {
    PREVIOUS: Text("previous state", "上一时刻的状态"),
    CURRENT: Text("current state", "当前时刻的状态"),
    COPY: Text("copy", "复制"),
    SORT: Text("sort", "排序"),
}
EVERY = 10
"""Steps between two points of a curve."""


def digit_pairs(generator: torch.Generator, task: str, size: int = 32) -> ToyTensors:
    """Different digits in random order; the target is the same digits, sorted for that task."""
    digits = torch.rand(size, DIGITS, generator=generator).argsort(dim=1)[:, :LENGTH]
    return pair_batch(digits.tolist(), (digits.sort(dim=1).values if task == SORT else digits).tolist())


class DecoderQuery(Experiment):
    """Nll with the previous and with the current state of the decoder as the query."""

    name = "decoder-query"
    topic = "attention"
    title = Text("The previous or the current state as the query?", "用上一时刻还是当前时刻的状态做查询？")
    questions = (
        Question(
            "003:75, 003:70",
            Text(
                "Is the previous state of the decoder used in the score, or the current one?",
                "打分函数里用解码器的 h_{t-1} 还是 h_t？",
            ),
            Text(
                "Bahdanau uses the previous state, Luong the current one.",
                "Bahdanau 用上一时刻的，Luong 用当前时刻的。",
            ),
        ),
    )
    hypothesis = Text(
        "The current state is the better query, since it knows the last written word.",
        "当前时刻的状态是更好的查询，因为它知道刚写出的词。",
    )
    varied = Text("the query, and the task", "查询所用的状态，以及任务")
    measured = Text("nll of new pairs after the same short training", "同样的短时间训练后新句对的负对数似然")
    refuted_if = Text(
        "the previous state gives a lower nll in one of the tasks", "在其中一个任务上用上一时刻的状态更好"
    )
    panels = (
        Panel(
            "nll",
            Text("nll of new pairs", "新句对的负对数似然"),
            Text("task", "任务"),
            Text("nll per digit", "每个数字的负对数似然"),
            kind="bars",
            names=NAMES,
        ),
        *(
            Panel(
                task,
                Text(f"training loss: {NAMES[task].en}", f"训练损失：{NAMES[task].zh}"),
                Text("steps", "步数"),
                Text("nll per digit", "每个数字的负对数似然"),
                log="y",
                names=NAMES,
            )
            for task in (COPY, SORT)
        ),
    )
    papers = ("Bahdanau et al. 2014, equation 6", "Luong et al. 2015, section 3.1")
    seconds = 20

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        curves = {}
        for task in (COPY, SORT):
            batch = partial(digit_pairs, task=task)
            for query in QUERIES:
                seeded(seed, "weights")
                settings = RecurrentSettings(
                    decoder="luong", cell="gru", layers=1, encoder="both", d_embedding=32, d_model=64,
                    attention="global", score="general", query=query, input_feeding=False, dropout=0.0,
                )  # fmt: skip
                model = RecurrentModel(settings, SHIFT + DIGITS, SHIFT + DIGITS)
                curves[task, query] = fit_toy(
                    model, batch, translation_loss, steps=effort.pick(120, 30), rate=8e-3, warmup=20, log_every=EVERY,
                    seed=seed,
                )  # fmt: skip
                with torch.no_grad():
                    loss = translation_loss(model, batch(generator_of(seed, "test"), size=500))
                record("nll", query, task, float(loss.nll / loss.count))
        for (task, query), losses in curves.items():
            for number, value in enumerate(losses, start=1):
                record(task, query, EVERY * number, value)

    def judge(self, results: Results) -> Verdict:
        pairs = [(query, task) for query in QUERIES for task in (COPY, SORT)]
        nll = {(query, task): results.values("nll", query, task) for query, task in pairs}
        better = all(above(nll[PREVIOUS, task], nll[CURRENT, task]) for task in (COPY, SORT))
        worse = any(above(nll[CURRENT, task], nll[PREVIOUS, task]) for task in (COPY, SORT))
        steps = [float(x) for x in results.xs(COPY, CURRENT)]
        early, end = steps[len(steps) // 3 - 1], steps[-1]
        return Verdict(
            decide(better, worse),
            Text(
                "After {early:.0f} steps the nll of copying is {copy_previous_early:.2f} with the previous state as "
                "the "
                "query and {copy_current_early:.2f} with the current one; of sorting {sort_previous_early:.2f} and "
                "{sort_current_early:.2f}. After {end:.0f} steps, on new pairs, it is {copy_previous:.3f} and "
                "{copy_current:.3f}, {sort_previous:.3f} and {sort_current:.3f}.",
                "训练 {early:.0f} 步后，复制时用上一时刻的状态做查询的负对数似然为 {copy_previous_early:.2f}，"
                "用当前时刻的为 {copy_current_early:.2f}；排序时为 {sort_previous_early:.2f} 和 "
                "{sort_current_early:.2f}。"
                "{end:.0f} 步后，在新句对上复制为 {copy_previous:.3f} 和 {copy_current:.3f}，"
                "排序为 {sort_previous:.3f} 和 {sort_current:.3f}。",
            ),
            {"early": early, "end": end}
            | {f"{task}_{query}": results.mean("nll", query, task) for query, task in nll}
            | {f"{task}_{query}_early": results.mean(task, query, early) for query, task in nll},
        )
