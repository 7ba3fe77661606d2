"""Linear probes: what the layers of a small BERT know about a word, from the embeddings upwards.

A probe is a linear classifier of the frozen states of one layer (Alain and Bengio 2016; Tenney et al. 2019). If it can
read a property, the layer holds it in a simple form. The properties here:

    word          which word it is: known to the embeddings, and needed less and less above
    neighbour     the part of speech of the next word: local context
    part          adjective or noun, for words that can be both: syntax, needs several words to the right

The second panel uses the model with few labels: frozen states as features of a linear classifier, or fine-tuning of the
whole model (Devlin et al. 2018, table 7).
"""

import torch
from torch import Tensor

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
from regard.lab.toys import IGNORE
from regard.models.bert import Bert

WORD, NEIGHBOUR, PART, UNTRAINED = "word", "neighbour", "part", "untrained"
LAYERS = 3
USE = "003:252"
EMBEDDINGS, LAST, ALL, FINETUNED = "embeddings", "last layer", "all layers", "fine-tuned"


def properties(world: World) -> dict[str, tuple[Tensor, Tensor]]:
    """For each property the words that have it (a mask), and its label for every word."""
    words = world.tags != IGNORE
    following = torch.cat([world.tags[:, 1:], torch.full_like(world.tags[:, :1], IGNORE)], dim=1)[words]
    every = torch.ones(len(following), dtype=torch.bool)
    return {
        WORD: (every, world.ids[words]),
        NEIGHBOUR: (following != IGNORE, following),
        PART: (ambiguous(world), word_tags(world)),
    }


def probe(bert: Bert, train: World, test: World, name: str) -> list[float]:
    """Accuracy of a property from the embeddings and from each layer."""
    parts = []
    for world in (train, test):
        chosen, labels = properties(world)[name]
        parts.append([(states[chosen], labels[chosen]) for states in layer_states(bert, world)])
    return [linear_probe(*pair) for pair in zip(parts[0], parts[1], strict=True)]


class Probes(Experiment):
    """Accuracy of linear probes over the layers; features against fine-tuning."""

    name = "probes"
    topic = "bert"
    title = Text("What does each layer know?", "每一层知道什么？")
    questions = (
        Question(
            "003:140, 003:216-218",
            Text("Does self-attention find syntax, more so in higher layers?", "自注意力能捕获句法吗？高层更抽象吗？"),
            Text(
                "Self-attention captures syntactic or semantic features; layers abstract from low to high.",
                "自注意力可以捕获句法特征或语义特征；多层即从低层向高层抽象。",
            ),
        ),
        Question(
            USE,
            Text("Can a pretrained model be used for its features?", "预训练模型可以只用作特征吗？"),
            Text(
                "It can be fine-tuned, or used in a feature-based approach.", "既可以微调，也可以用于基于特征的方法。"
            ),
        ),
    )
    hypothesis = Text(
        "Higher layers know more about syntax and less about the word itself than the embeddings.",
        "与词嵌入相比，高层更了解句法，更不关心词本身。",
    )
    varied = Text(
        "the layer whose states are classified; features or fine-tuning", "被分类的隐状态所在的层；特征或微调"
    )
    measured = Text("accuracy of a linear classifier of the frozen states", "冻结隐状态上线性分类器的准确率")
    refuted_if = Text(
        "the last layer tells adjective from noun worse than the embeddings, or tells the word better",
        "最后一层区分形容词与名词不如词嵌入，或更能说出词本身",
    )
    panels = (
        Panel(
            "layers",
            Text("linear probes (zero: embeddings)", "线性探针（零为词嵌入）"),
            Text("layer", "层"),
            Text("accuracy", "准确率"),
            names={
                WORD: Text("which word", "是哪个词"),
                NEIGHBOUR: Text("part of speech of the next word", "下一个词的词性"),
                PART: Text("adjective or noun", "形容词还是名词"),
                UNTRAINED: Text("adjective or noun, not pretrained", "形容词还是名词，未预训练"),
            },
        ),
        Panel(
            "use",
            Text("parts of speech from thirty-two labelled sentences", "三十二个标注句子的词性判断"),
            Text("what is used", "所用的部分"),
            Text("accuracy", "准确率"),
            kind="bars",
            names={
                EMBEDDINGS: Text("embeddings", "词嵌入"),
                LAST: Text("last layer", "最后一层"),
                ALL: Text("all layers", "所有层"),
                FINETUNED: Text("fine-tuned", "微调"),
            },
        ),
    )
    papers = ("Alain and Bengio 2016", "Tenney et al. 2019", "Devlin et al. 2018, table 7")
    seconds = 25

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        world, test = make_world(seed), make_world(seed, 100, purpose="test")
        model = build_bert(seed, layers=LAYERS)
        pretrain(model, world, steps=effort.pick(500, 80), seed=seed, rate=0.3)
        train = random_rows(world, 600, seed)
        for name in (WORD, NEIGHBOUR, PART):
            for layer, accuracy in enumerate(probe(model.bert, train, test, name)):
                record("layers", name, layer, accuracy)
        for layer, accuracy in enumerate(probe(build_bert(seed, layers=LAYERS).bert, train, test, PART)):
            record("layers", UNTRAINED, layer, accuracy)
        labelled = random_rows(world, 32, seed)
        features = [layer_states(model.bert, part) for part in (labelled, test)]
        for use, chosen in ((EMBEDDINGS, slice(0, 1)), (LAST, slice(-1, None)), (ALL, slice(None))):
            few, new = (torch.cat(part[chosen], dim=1) for part in features)
            record("use", "accuracy", use, linear_probe((few, word_tags(labelled)), (new, word_tags(test))))
        tuned = finetune(model.bert, labelled, steps=effort.pick(100, 20), seed=seed, rate=3e-3)
        record("use", "accuracy", FINETUNED, tagging_accuracy(tuned, test))

    def judge(self, results: Results) -> Verdict:
        part, word = ([results.values("layers", name, layer) for layer in (0, 1, LAYERS)] for name in (PART, WORD))
        features = [results.values("use", "accuracy", use) for use in (EMBEDDINGS, ALL)]
        return Verdict(
            decide(
                above(part[2], part[1]) and above(part[1], part[0]) and above(word[0], word[2]),
                above(part[0], part[2]) or above(word[2], word[0]),
            ),
            Text(
                "Adjective or noun is read with {part_low:.0%} from the embeddings, {part_first:.0%} from the first "
                "layer and {part_high:.0%} from the last ({untrained:.0%} without pretraining), the word itself with "
                "{word_low:.0%} from the embeddings and {word_high:.0%} from the last layer. With few labels, parts of "
                "speech have {last:.1%} from the last layer, {all:.1%} from all layers and {tuned:.1%} after "
                "fine-tuning.",
                "形容词还是名词：从词嵌入读出的准确率为 {part_low:.0%}，从第一层为 {part_first:.0%}，从最后一层为 "
                "{part_high:.0%}（未预训练时 "
                "{untrained:.0%}）；词本身分别为 "
                "{word_low:.0%} 和 {word_high:.0%}。标注很少时，词性准确率用最后一层为 {last:.1%}，用所有层为 "
                "{all:.1%}，"
                "微调后为 {tuned:.1%}。",
            ),
            {
                "part_low": results.mean("layers", PART, 0),
                "part_first": results.mean("layers", PART, 1),
                "part_high": results.mean("layers", PART, LAYERS),
                "untrained": results.mean("layers", UNTRAINED, LAYERS),
                "word_low": results.mean("layers", WORD, 0),
                "word_high": results.mean("layers", WORD, LAYERS),
                "last": results.mean("use", "accuracy", LAST),
                "all": results.mean("use", "accuracy", ALL),
                "tuned": results.mean("use", "accuracy", FINETUNED),
            },
            answers={USE: decide(above(features[1], features[0]), above(features[0], features[1]))},
        )
