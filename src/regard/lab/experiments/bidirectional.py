"""Bidirectional or left to right: a word's part may depend on the words after it.

The same tiny Transformer is pretrained twice: as BERT, with masked words and attention to all words, and left to right,
with a causal mask and the prediction of every next word (Devlin et al. 2018, table 5). In the small language of the
lab "cold" is a noun in "the cold watch the ..." and an adjective in "the cold watch holds the ...": only the words to
the right tell. The state of a word in a left-to-right model cannot know them.
"""

import torch

from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.small_world import (
    World,
    ambiguous,
    build_bert,
    finetune,
    layer_states,
    linear_probe,
    make_world,
    pretrain,
    random_rows,
    tagging_accuracy,
    word_tags,
)
from regard.models.bert import Bert

FULL, CAUSAL = "bidirectional", "left to right"
ALL, AMBIGUOUS, FINETUNED = "all words", "adjective or noun", "all words, fine-tuned"


def probe_some(bert: Bert, train: World, test: World, only: bool) -> float:
    """Accuracy of parts of speech from the last layer; `only`: of the words that can be adjective or noun."""
    parts = []
    for world in (train, test):
        states, tags = layer_states(bert, world)[-1], word_tags(world)
        chosen = ambiguous(world) if only else torch.ones(len(tags), dtype=torch.bool)
        parts.append((states[chosen], tags[chosen]))
    return linear_probe(parts[0], parts[1])


class Bidirectional(Experiment):
    """Parts of speech from a bidirectional and a left-to-right model."""

    name = "bidirectional"
    topic = "bert"
    title = Text("Both directions or one?", "双向还是单向？")
    questions = (
        Question(
            "003:239, 003:245",
            Text("Are one-directional language models a limit?", "单向语言模型是一种局限吗？"),
            Text(
                "Standard language models are one-directional and do not suit all tasks; masked words allow both "
                "directions.",
                "标准语言模型是单向的，无法泛化到各种 NLP 任务；遮词训练可以做到双向。",
            ),
        ),
    )
    hypothesis = Text(
        "A bidirectional model knows the parts of speech better than a left-to-right model.",
        "双向模型比从左到右的模型更清楚词性。",
    )
    varied = Text("attention to all words, or only to the words before", "注意所有词，或只注意前面的词")
    measured = Text(
        "accuracy of parts of speech, with frozen states and fine-tuned", "词性准确率：冻结隐状态，以及微调之后"
    )
    refuted_if = Text("the left-to-right model is as good", "从左到右的模型一样好")
    panels = (
        Panel(
            "accuracy",
            Text("parts of speech after pretraining", "预训练后的词性判断"),
            Text("words", "词"),
            Text("accuracy", "准确率"),
            kind="bars",
            names={
                FULL: Text("bidirectional (BERT)", "双向（BERT）"),
                CAUSAL: Text("left to right", "从左到右"),
                ALL: Text("all words", "所有词"),
                AMBIGUOUS: Text("adjective or noun?", "形容词还是名词？"),
                FINETUNED: Text("all words, fine-tuned", "所有词，微调后"),
            },
        ),
    )
    papers = ("Devlin et al. 2018, table 5",)
    seconds = 25

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        world, test = make_world(seed), make_world(seed, 100, purpose="test")
        labelled = random_rows(world, 100, seed)
        for name in (FULL, CAUSAL):
            model = build_bert(seed, causal=name == CAUSAL)
            pretrain(model, world, steps=effort.pick(400, 100), seed=seed, rate=0.3)
            record("accuracy", name, ALL, probe_some(model.bert, labelled, test, only=False))
            record("accuracy", name, AMBIGUOUS, probe_some(model.bert, labelled, test, only=True))
            tuned = finetune(model.bert, labelled, steps=effort.pick(80, 15), seed=seed)
            record("accuracy", name, FINETUNED, tagging_accuracy(tuned, test))

    def judge(self, results: Results) -> Verdict:
        full, causal = (results.values("accuracy", name, AMBIGUOUS) for name in (FULL, CAUSAL))
        return Verdict(
            decide(above(full, causal, by=0.05), above(causal, full)),
            Text(
                "Whether a word is adjective or noun, the bidirectional model tells in {full:.0%} of the cases, the "
                "left-to-right model in {causal:.0%}. Over all words it is {full_all:.1%} and {causal_all:.1%}, after "
                "fine-tuning {full_tuned:.1%} and {causal_tuned:.1%}.",
                "对于可作形容词或名词的词，双向模型的准确率为 {full:.0%}，从左到右的模型为 {causal:.0%}。所有词上分"
                "别为 "
                "{full_all:.1%} 和 {causal_all:.1%}，微调后为 {full_tuned:.1%} 和 {causal_tuned:.1%}。",
            ),
            {
                "full": results.mean("accuracy", FULL, AMBIGUOUS),
                "causal": results.mean("accuracy", CAUSAL, AMBIGUOUS),
                "full_all": results.mean("accuracy", FULL, ALL),
                "causal_all": results.mean("accuracy", CAUSAL, ALL),
                "full_tuned": results.mean("accuracy", FULL, FINETUNED),
                "causal_tuned": results.mean("accuracy", CAUSAL, FINETUNED),
            },
        )
