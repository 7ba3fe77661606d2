"""Size and pretraining: a larger model helps a task with few labels, if it is pretrained.

A large model trained on sixteen labelled sentences alone has too many parameters for them. Pretrained, it has learnt
from unlabelled text which words behave alike, and the labels only name the classes. Devlin et al. (2018, table 6) found
that larger models are better even on the smallest tasks, "provided that the model has been sufficiently pre-trained".

Four tiny BERTs are pretrained for the same number of steps on a small language, then fine-tuned on the parts of speech
of sixteen sentences. The same four are fine-tuned without pretraining.
"""

from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.small_world import build_bert, finetune, make_world, pretrain, random_rows, tagging_accuracy

PRETRAINED, SCRATCH = "pretrained", "from scratch"
SIZES = {"1 x 16": (1, 16), "1 x 32": (1, 32), "2 x 32": (2, 32), "2 x 64": (2, 64)}
LABELLED = 16


class PretrainedSize(Experiment):
    """Accuracy of fine-tuned models over their size, pretrained and not."""

    name = "pretrained-size"
    topic = "bert"
    title = Text("Do larger models help tiny tasks?", "更大的模型对小任务有帮助吗？")
    questions = (
        Question(
            "003:328-332",
            Text("Do larger pretrained models help very small tasks?", "更大的预训练模型对很小的任务有帮助吗？"),
            Text(
                "Larger models improve even tasks with very little data, provided that they are sufficiently "
                "pretrained.",
                "只要预训练充分，更大的模型在数据很少的任务上也有明显提升。",
            ),
        ),
    )
    hypothesis = Text(
        "With pretraining the largest model is better than the smallest on sixteen labelled sentences.",
        "经过预训练，最大的模型在十六个标注句子上优于最小的模型。",
    )
    varied = Text("layers x width; with and without pretraining", "层数 × 宽度；是否预训练")
    measured = Text("accuracy of parts of speech after fine-tuning", "微调后的词性准确率")
    refuted_if = Text("the largest pretrained model is not better than the smallest", "最大的预训练模型不优于最小的")
    panels = (
        Panel(
            "accuracy",
            Text("sixteen labelled sentences", "十六个标注句子"),
            Text("layers x width", "层数 × 宽度"),
            Text("accuracy of parts of speech", "词性准确率"),
            kind="bars",
            names={PRETRAINED: Text("pretrained", "预训练"), SCRATCH: Text("not pretrained", "未预训练")},
        ),
    )
    papers = ("Devlin et al. 2018, section 5.2 and table 6",)
    seconds = 60

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        world, test = make_world(seed), make_world(seed, 100, purpose="test")
        labelled = random_rows(world, LABELLED, seed)
        smallest, *_, largest = SIZES
        for name in effort.pick(tuple(SIZES), (smallest, largest)):
            layers, width = SIZES[name]
            for series in (PRETRAINED, SCRATCH):
                model = build_bert(seed, layers, width)
                if series == PRETRAINED:
                    pretrain(model, world, steps=effort.pick(400, 60), seed=seed, rate=0.3)
                tuned = finetune(model.bert, labelled, steps=effort.pick(80, 20), seed=seed, rate=3e-3)
                record("accuracy", series, name, tagging_accuracy(tuned, test))

    def judge(self, results: Results) -> Verdict:
        smallest, *_, largest = SIZES
        values = {
            (series, name): results.values("accuracy", series, name)
            for series in (PRETRAINED, SCRATCH)
            for name in (smallest, largest)
        }
        small, large = (values[PRETRAINED, name] for name in (smallest, largest))
        return Verdict(
            decide(above(large, small), above(small, large)),
            Text(
                "With {labelled:.0f} labelled sentences the accuracy rises from {small:.1%} (smallest model) to "
                "{large:.1%} (largest) with pretraining, and is {small_scratch:.1%} and {large_scratch:.1%} without."
                if above(large, small)
                else "With {labelled:.0f} labelled sentences the accuracy is {small:.1%} (smallest model) and "
                "{large:.1%} (largest) with pretraining, and {small_scratch:.1%} and {large_scratch:.1%} without.",
                "只有 {labelled:.0f} 个标注句子时，预训练模型的准确率为 {small:.1%}（最小的模型）、{large:.1%}"
                "（最大的模型）；不预训练时为 {small_scratch:.1%} 和 {large_scratch:.1%}。",
            ),
            {
                "labelled": LABELLED,
                "small": results.mean("accuracy", PRETRAINED, smallest),
                "large": results.mean("accuracy", PRETRAINED, largest),
                "small_scratch": results.mean("accuracy", SCRATCH, smallest),
                "large_scratch": results.mean("accuracy", SCRATCH, largest),
            },
        )
