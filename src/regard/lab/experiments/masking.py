"""How many words to mask: few masked words are few labels, so a model learns slowly at first.

BERT predicts 15 % of the words of a sentence; a left-to-right model predicts every word, and so has about seven times
as many labels in a step. But it sees only the words before. So it learns faster at first and is overtaken later (Devlin
et al. 2018, section C.1). With more words masked there are more labels, and less context for each.

The models read a small language in which some words are adjective or noun, and only the words to the right tell which.
What a model has learnt is measured by a linear classifier of its frozen hidden states: the part of speech.
"""

from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.small_world import build_bert, make_world, pretrain, probe_layers, random_rows

RATES = {"5 %": 0.05, "15 %": 0.15, "30 %": 0.3, "50 %": 0.5}
LEFT_TO_RIGHT = "left to right"


class Masking(Experiment):
    """Accuracy of parts of speech over the steps of pretraining, for four rates and left to right."""

    name = "masking"
    topic = "bert"
    title = Text("Is masking 15 % slow?", "只遮 15% 会不会太慢？")
    questions = (
        Question(
            "003:294",
            Text("Does masking few words need more steps?", "只遮住少量词需要更多训练步数吗？"),
            Text(
                "Only 15 % is masked, so more steps of pretraining may be required.",
                "只遮住 15%，模型收敛可能需要更多的预训练步数。",
            ),
        ),
    )
    hypothesis = Text(
        "A model that predicts few words of a sentence learns more slowly at first than one that predicts every word.",
        "每句只预测少量词的模型，起初学得比预测每个词的模型慢。",
    )
    varied = Text(
        "the share of words that are masked, and a left-to-right model that predicts all",
        "被遮住的词的比例，以及预测所有词的从左到右模型",
    )
    measured = Text(
        "accuracy of parts of speech, read from the frozen states by a linear classifier",
        "用线性分类器从冻结的隐状态读出词性的准确率",
    )
    refuted_if = Text(
        "after few steps the model with 15 % masked is as good as the left-to-right model",
        "训练步数很少时，遮住 15% 的模型已与从左到右的模型一样好",
    )
    panels = (
        Panel(
            "accuracy",
            Text("what has been learnt", "学到了多少"),
            Text("steps of pretraining", "预训练步数"),
            Text("accuracy of parts of speech", "词性准确率"),
            log="x",
            names={
                **{name: Text(f"{name} masked", f"遮住 {name}") for name in RATES},
                LEFT_TO_RIGHT: Text("left to right, every word", "从左到右，预测每个词"),
            },
        ),
    )
    papers = ("Devlin et al. 2018, section C.1 and figure 5", "Wettig et al. 2022")
    seconds = 50

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        world, test = make_world(seed), make_world(seed, 100, purpose="test")
        labelled = random_rows(world, 100, seed)
        rates = effort.pick(RATES, {"15 %": 0.15})
        for name, rate in {**rates, LEFT_TO_RIGHT: 0.0}.items():
            model = build_bert(seed, causal=name == LEFT_TO_RIGHT)
            done = 0
            for steps in effort.pick((50, 100, 200, 400), (30, 60)):
                pretrain(model, world, steps=steps - done, seed=seed + done, rate=rate)
                done = steps
                record("accuracy", name, steps, probe_layers(model.bert, labelled, test)[-1])

    def judge(self, results: Results) -> Verdict:
        first, last = (results.xs("accuracy", LEFT_TO_RIGHT)[place] for place in (1, -1))
        early, late = (
            [results.values("accuracy", name, steps) for name in ("15 %", LEFT_TO_RIGHT)] for steps in (first, last)
        )
        return Verdict(
            decide(above(early[1], early[0]), above(early[0], early[1])),
            Text(
                "After {first:.0f} steps the model with {rate:.0%} masked reaches {early:.1%}, the left-to-right "
                "model "
                "{early_causal:.1%}; after {last:.0f} steps {late:.1%} and {late_causal:.1%}.",
                "{first:.0f} 步后，遮住 {rate:.0%} 的模型准确率为 {early:.1%}，从左到右的模型为 {early_causal:.1%}；"
                "{last:.0f} 步后分别为 {late:.1%} 和 {late_causal:.1%}。",
            ),
            {
                "rate": RATES["15 %"],
                "first": float(first),
                "last": float(last),
                "early": sum(early[0]) / len(early[0]),
                "early_causal": sum(early[1]) / len(early[1]),
                "late": sum(late[0]) / len(late[0]),
                "late_causal": sum(late[1]) / len(late[1]),
            },
        )
