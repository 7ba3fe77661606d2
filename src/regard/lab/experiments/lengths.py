"""Positions beyond the trained length: a vector for each place is unknown there, a distance is not.

A causal model names the word three places earlier. It is trained on sentences of four to ten words, and tested at
later places. A distance is the same at every place: relative positions learn one vector for the distance 3, rotary
positions turn queries and keys by angles whose difference depends on the distance. Absolute positions, learned or
sinusoidal, are vectors of places. A learned one beyond the tenth was never trained. A sinusoidal one is defined, but
the layers have never seen it. ALiBi only lowers scores with the distance, so it prefers the nearest words and cannot
select the third; without positions only the causal mask tells places apart.
"""

from functools import partial

import torch

from regard.lab.old_form import (
    POSITION_NAMES,
    Effort,
    Experiment,
    Panel,
    Question,
    Record,
    Results,
    Text,
    Verdict,
    above,
    decide,
)
from regard.lab.toys import (
    IGNORE,
    ToyTensors,
    build_tagger,
    fit_toy,
    generator_of,
    rectangle,
    seeded,
    tagging_loss,
)

WORDS, DISTANCE, SHORTEST, LONGEST = 16, 3, 4, 10
PLACES = (4, 7, 10, 12, 16, 24, 32)
BOTH = "learned + relative"
FAR = 16
"""The place beyond the trained ones that the verdict compares."""


def sentences(generator: torch.Generator, size: int = 32, length: int | None = None) -> ToyTensors:
    """Random words, of a random length that is trained unless it is given; a label is the word three places before."""
    drawn = int(torch.randint(SHORTEST, LONGEST + 1, (1,), generator=generator))
    ids = torch.randint(WORDS, (size, length or drawn), generator=generator)
    labels = ids.roll(DISTANCE, dims=1)
    labels[:, :DISTANCE] = IGNORE
    return {"ids": ids, "labels": labels}


class Lengths(Experiment):
    """Accuracy over the place in the sentence, for each kind of positions."""

    name = "lengths"
    topic = "positions"
    title = Text("Positions beyond the trained length", "超出训练长度的位置")
    questions = (
        Question(
            "001:185, 001:20-28, 003:200",
            Text(
                "Which kinds of positions are there, and what are their merits?", "还有哪些位置编码技术，各自的优缺点？"
            ),
            Text(
                "Absolute, relative and learned positions; the formula and learned positions have the same effect.",
                "绝对位置、相对位置、可学习位置；公式与训练得到的位置效果相当。",
            ),
        ),
    )
    hypothesis = Text(
        "Sinusoidal and learned positions have the same effect: both work within the trained length and fail beyond "
        "it, "
        "where relative positions still work.",
        "正弦位置与可学习位置的效果相当：在训练长度之内都有效，超出后都失效，而相对位置仍然有效。",
    )
    varied = Text(
        "the kind of positions; all models are trained on short sentences", "位置的种类；所有模型都用短句训练"
    )
    measured = Text(
        "accuracy of the word three places earlier, over the place in longer sentences",
        "在更长的句子中，说出三个位置之前的词的准确率，按所在位置统计",
    )
    refuted_if = Text(
        "one of the two is clearly better at a trained place or at one beyond",
        "两者之一在训练过的位置或更远的位置明显更好",
    )
    panels = (
        Panel(
            "accuracy",
            Text("trained on 4 to 10 words", "训练时句长为 4 到 10 个词"),
            Text("place in the sentence", "句子中的位置"),
            Text("accuracy", "准确率"),
            names={**POSITION_NAMES, BOTH: Text("learned and relative", "可学习 + 相对")},
        ),
    )
    papers = (
        "Vaswani et al. 2017, section 3.5 and table 3 (E)",
        "Shaw et al. 2018",
        "Su et al. 2021",
        "Press et al. 2022",
        "Kazemnejad et al. 2023",
    )
    seconds = 55

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        for kind in effort.pick((*POSITION_NAMES, BOTH), ("sinusoidal", "learned", "relative")):
            seeded(seed, "weights")
            absolute, _, relative = kind.partition(" + ")
            model = build_tagger(WORDS, WORDS, positions=absolute, relative_positions=relative or "none", causal=True)
            steps = effort.pick(500, 150)
            fit_toy(model, sentences, tagging_loss, steps=steps, rate=1e-2, warmup=20, schedule="linear", seed=seed)
            test = sentences(generator_of(seed, "test"), 500, max(PLACES))
            with torch.no_grad():
                right = model(rectangle(test["ids"])).argmax(dim=-1) == test["labels"]
            for place in PLACES:
                record("accuracy", kind, place, float(right[:, place - 1].float().mean()))

    def judge(self, results: Results) -> Verdict:
        at, mean = partial(results.values, "accuracy"), partial(results.mean, "accuracy")
        absolute = ("sinusoidal", "learned")
        known = all(above(at(kind, LONGEST), [0.9]) for kind in absolute)
        unknown = all(above(at("relative", FAR), at(kind, FAR), by=0.3) for kind in absolute)
        differ = any(
            above(at(first, place), at(second, place), by=0.3)
            for place in (LONGEST, FAR)
            for first, second in (absolute, absolute[::-1])
        )
        return Verdict(
            decide(known and unknown and not differ, differ),
            Text(
                "At the last trained place sinusoidal positions reach {sinusoidal:.0%} and learned ones {learned:.0%}; "
                "at place {far:.0f}, beyond the trained length, {sinusoidal_far:.0%} and {learned_far:.0%}. Relative "
                "positions reach {relative_far:.0%} there. Guessing gives {guess:.0%}.",
                "在最后一个训练过的位置，正弦位置的准确率为 {sinusoidal:.0%}，可学习位置为 {learned:.0%}；在训练长度"
                "之外的"
                "第 {far:.0f} 个位置，分别为 {sinusoidal_far:.0%} 和 {learned_far:.0%}，而相对位置为 "
                "{relative_far:.0%}。"
                "随机猜测为 {guess:.0%}。",
            ),
            {
                "sinusoidal": mean("sinusoidal", LONGEST),
                "learned": mean("learned", LONGEST),
                "far": FAR,
                "sinusoidal_far": mean("sinusoidal", FAR),
                "learned_far": mean("learned", FAR),
                "relative_far": mean("relative", FAR),
                "guess": 1 / WORDS,
            },
        )
