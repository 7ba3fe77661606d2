"""Do looser assumptions need more data? An RNN, a convolution and a Transformer on few and on many pairs.

An RNN assumes that what matters is near in time, a convolution that it is near in the sequence and alike at all places.
Self-attention assumes neither: every token may attend to every other, and the order is only an input among others. What
is not assumed has to be learnt from examples (Dosovitskiy et al. 2021 say the same of images).

The three translate digits: each digit becomes another symbol, and neighbours swap their places, so that order and
neighbourhood matter. All have attention to the source, about the same number of parameters, and the same number of
steps. Only the number of different pairs grows; the test pairs are new. A model that is worse with few pairs and equal
with many needs more data; one that is worse with many pairs as well may only need more steps.
"""

from functools import partial

import torch
from torch import nn

from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toy_pairs import SHIFT, pair_batch, shifted_target, source_of, translation_loss
from regard.lab.toys import IGNORE, ToyTensors, fit_toy, generator_of, seeded
from regard.models.convolutional import Convolutional, ConvolutionalSettings
from regard.models.recurrent import RecurrentModel, RecurrentSettings
from regard.models.transformer import Transformer, TransformerSettings

DIGITS, LENGTH = 10, 6
VOCABULARY = SHIFT + 2 * DIGITS
RNN, CONVOLUTION, TRANSFORMER = "recurrent", "convolutional", "Transformer"
COUNTS = (50, 300, 2000)


def swaps(generator: torch.Generator, size: int) -> ToyTensors:
    """Random digits; in the target each is another symbol, and the digits of every pair of neighbours change places."""
    digits = torch.randint(DIGITS, (size, LENGTH), generator=generator)
    target = digits.view(size, -1, 2).flip(2).reshape(size, LENGTH) + DIGITS
    return pair_batch(digits.tolist(), target.tolist())


def chosen(generator: torch.Generator, pairs: ToyTensors, size: int = 32) -> ToyTensors:
    """Random pairs of a fixed set."""
    rows = torch.randint(len(pairs["labels"]), (size,), generator=generator)
    return {key: values[rows] for key, values in pairs.items()}


def build(name: str) -> nn.Module:
    """A small model with attention to the source."""
    if name == RNN:
        settings = RecurrentSettings(
            decoder="luong", cell="gru", layers=1, encoder="both", d_embedding=32, d_model=40, attention="global",
            score="general", input_feeding=False, dropout=0.0,
        )  # fmt: skip
        return RecurrentModel(settings, VOCABULARY, VOCABULARY)
    if name == CONVOLUTION:
        return Convolutional(
            ConvolutionalSettings(
                d_model=48, d_embedding=48, encoder_layers=1, decoder_layers=1, dropout=0.0, max_positions=16
            ),
            VOCABULARY,
            VOCABULARY,
        )
    return Transformer(
        TransformerSettings(
            d_model=48, num_heads=4, d_ff=96, encoder_layers=1, decoder_layers=1, dropout=0.0, norm="pre"
        ),
        VOCABULARY,
        VOCABULARY,
    )


@torch.no_grad()
def token_accuracy(model: nn.Module, batch: ToyTensors) -> float:
    """Share of target tokens that are predicted, given the source and the tokens before them."""
    labels = batch["labels"]
    found = model(source_of(batch), shifted_target(labels)).logits().argmax(dim=-1)
    return float((found == labels)[labels != IGNORE].float().mean())


class DataSize(Experiment):
    """Accuracy over the number of training pairs, for three kinds of models."""

    name = "data-size"
    topic = "training"
    title = Text("Do looser assumptions need more data?", "假设更宽松就需要更多数据吗？")
    questions = (
        Question(
            "004:533",
            Text("What does self-attention cost?", "自注意力的代价是什么？"),
            Text(
                "Its assumptions about data are looser, so it needs more data to become good.",
                "对数据的假设更宽松，抓取信息的能力差了，因此需要较多的数据才能训练出好模型。",
            ),
        ),
    )
    hypothesis = Text(
        "With few pairs the Transformer is worse than the recurrent and the convolutional model; with many it is not.",
        "训练句对少时，Transformer 不如循环模型和卷积模型；句对多时则不然。",
    )
    varied = Text("the model, and the number of different training pairs", "模型，以及不同训练句对的数量")
    measured = Text(
        "accuracy of the tokens of new pairs after the same number of steps", "同样步数训练后，新句对中词元的准确率"
    )
    refuted_if = Text(
        "with few pairs the Transformer is better than one of the others", "句对少时 Transformer 优于其中一个模型"
    )
    panels = (
        Panel(
            "accuracy",
            Text("accuracy on new pairs", "新句对的准确率"),
            Text("training pairs", "训练句对数"),
            Text("accuracy", "准确率"),
            log="x",
            names={
                RNN: Text("recurrent", "循环网络"),
                CONVOLUTION: Text("convolutional", "卷积网络"),
            },
        ),
        Panel(
            "parameters",
            Text("size of the models", "模型大小"),
            Text("model", "模型"),
            Text("parameters", "参数个数"),
            kind="bars",
            names={
                RNN: Text("recurrent", "循环网络"),
                CONVOLUTION: Text("convolutional", "卷积网络"),
            },
        ),
    )
    papers = ("Vaswani et al. 2017, section 4", "Gehring et al. 2017", "Dosovitskiy et al. 2021, section 4.3")
    seconds = 50

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        test = swaps(generator_of(seed, "test"), 500)
        for name in (RNN, CONVOLUTION, TRANSFORMER):
            for count in effort.pick(COUNTS, (COUNTS[0], COUNTS[-1])):
                pairs = swaps(generator_of(seed, "pairs"), count)
                seeded(seed, "weights")
                model = build(name)
                fit_toy(
                    model, partial(chosen, pairs=pairs), translation_loss, steps=effort.pick(300, 40), rate=4e-3,
                    warmup=20, schedule="linear", seed=seed,
                )  # fmt: skip
                record("accuracy", name, count, token_accuracy(model, test))
            record("parameters", "parameters", name, sum(parameter.numel() for parameter in model.parameters()))

    def judge(self, results: Results) -> Verdict:
        few, many = (float(count) for count in (COUNTS[0], COUNTS[-1]))
        at_few = {name: results.values("accuracy", name, few) for name in (RNN, CONVOLUTION, TRANSFORMER)}
        others = (RNN, CONVOLUTION)
        behind = all(above(at_few[name], at_few[TRANSFORMER]) for name in others)
        catches_up = all(
            not above(results.values("accuracy", name, many), results.values("accuracy", TRANSFORMER, many), by=0.01)
            for name in others
        )
        words = {"rnn": RNN, "convolution": CONVOLUTION, "transformer": TRANSFORMER}
        return Verdict(
            decide(behind and catches_up, any(above(at_few[TRANSFORMER], at_few[name]) for name in others)),
            Text(
                "With {few:.0f} pairs the Transformer predicts {transformer_few:.0%} of new tokens, the recurrent "
                "model "
                "{rnn_few:.0%} and the convolutional model {convolution_few:.0%}; with {many:,.0f} pairs "
                "{transformer_many:.0%}, {rnn_many:.0%} and {convolution_many:.0%}.",
                "只有 {few:.0f} 个句对时，Transformer 在新句对上的词元准确率为 {transformer_few:.0%}，循环模型为 "
                "{rnn_few:.0%}，卷积模型为 {convolution_few:.0%}；有 {many:,.0f} 个句对时为 {transformer_many:.0%}、"
                "{rnn_many:.0%} 和 {convolution_many:.0%}。",
            ),
            {"few": few, "many": many}
            | {f"{word}_few": results.mean("accuracy", name, few) for word, name in words.items()}
            | {f"{word}_many": results.mean("accuracy", name, many) for word, name in words.items()},
        )
