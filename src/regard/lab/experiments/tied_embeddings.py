"""Tied embeddings: one matrix for source, target and output, or one for each.

The embedding of word w is row w of a matrix E; the logit of word w is the product of the last hidden state with row w
of another one, O. Both say which words are alike, so they can be the same:

    none      E_source, E_target and O        3 V D parameters
    output    E_target = O                    2 V D      Press & Wolf 2017; Inan et al. 2017
    all       E_source = E_target = O         1 V D      Vaswani et al. 2017, section 3.4

A Transformer copies words of a large vocabulary in reverse. Source and target share their words, as languages with
common subwords do. With few pairs most words are rarely seen; a tied row learns from every occurrence of its word on
either side.
"""

from functools import partial

import torch

from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toy_pairs import SHIFT, pair_batch, translation_loss
from regard.lab.toys import ToyTensors, fit_toy, generator_of, seeded
from regard.models.settings import Tie
from regard.models.transformer import Transformer, TransformerSettings

WORDS, LENGTH, WIDTH = 60, 5, 48
TIES: tuple[Tie, ...] = ("none", "output", "all")
NAMES = {
    "none": Text("three matrices", "三个矩阵"),
    "output": Text("target = output", "目标 = 输出"),
    "all": Text("one matrix for all", "共用一个矩阵"),
}


def reversals(generator: torch.Generator, size: int) -> ToyTensors:
    """Random words, and the same words in reverse as the target."""
    rows = torch.randint(WORDS, (size, LENGTH), generator=generator)
    return pair_batch(rows.tolist(), rows.flip(1).tolist())


def chosen(generator: torch.Generator, pairs: ToyTensors, size: int = 32) -> ToyTensors:
    """Random pairs of a fixed set."""
    rows = torch.randint(len(pairs["labels"]), (size,), generator=generator)
    return {key: values[rows] for key, values in pairs.items()}


class TiedEmbeddings(Experiment):
    """Nll over the number of training pairs, for three ways to tie embeddings."""

    name = "tied-embeddings"
    topic = "training"
    title = Text("One matrix for embeddings and output", "嵌入与输出共用一个矩阵")
    questions = (
        Question(
            "003:207-210",
            Text(
                "Should the embedding and the linear layer before the softmax share their weights?",
                "嵌入层与 softmax 前的线性层要共享参数吗？",
            ),
            Text("None: the question is marked for later.", "没有回答，标为以后再看。"),
        ),
    )
    hypothesis = Text(
        "Tied embeddings need fewer parameters and give a lower nll with few training pairs.",
        "共享嵌入所需参数更少，且在训练样本少时负对数似然更低。",
    )
    varied = Text("which matrices are one, and the number of training pairs", "哪些矩阵共用，以及训练句对的数量")
    measured = Text(
        "nll of new pairs after equal training, and parameters", "同样训练后新句对的负对数似然，以及参数个数"
    )
    refuted_if = Text("three matrices give a lower nll with few pairs", "样本少时三个矩阵的负对数似然更低")
    panels = (
        Panel(
            "nll",
            Text("nll of new pairs", "新句对的负对数似然"),
            Text("training pairs", "训练句对数"),
            Text("nll per word", "每词负对数似然"),
            log="x",
            names=NAMES,
        ),
        Panel(
            "parameters",
            Text("parameters", "参数个数"),
            Text("tied", "共享方式"),
            Text("parameters", "参数"),
            kind="bars",
            names=NAMES,
        ),
    )
    papers = ("Press & Wolf 2017", "Inan et al. 2017", "Vaswani et al. 2017, section 3.4")
    seconds = 45

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        test = reversals(generator_of(seed, "test"), 400)
        for tie in TIES:
            for count in effort.pick((200, 600, 2000), (200,)):
                pairs = reversals(generator_of(seed, "pairs"), count)
                seeded(seed, "weights")
                settings = TransformerSettings(
                    d_model=WIDTH, num_heads=4, d_ff=96, encoder_layers=1, decoder_layers=1, dropout=0.0, norm="pre",
                    tie=tie,
                )  # fmt: skip
                model = Transformer(settings, SHIFT + WORDS, SHIFT + WORDS)
                fit_toy(
                    model, partial(chosen, pairs=pairs), translation_loss, steps=effort.pick(250, 60), rate=4e-3,
                    warmup=20, schedule="linear", seed=seed,
                )  # fmt: skip
                with torch.no_grad():
                    loss = translation_loss(model, test)
                record("nll", tie, count, float(loss.nll / loss.count))
            record("parameters", "parameters", tie, sum(parameter.numel() for parameter in model.parameters()))

    def judge(self, results: Results) -> Verdict:
        counts = [float(x) for x in results.xs("nll", "none")]
        few, many = counts[0], counts[-1]
        nll = {tie: results.values("nll", tie, few) for tie in TIES}
        return Verdict(
            decide(above(nll["none"], nll["all"]), above(nll["all"], nll["none"])),
            Text(
                "With {few:.0f} pairs the nll is {few_all:.2f} with one matrix, {few_output:.2f} with two and "
                "{few_none:.2f} with three; with {many:.0f} pairs {many_all:.2f}, {many_output:.2f} and "
                "{many_none:.2f}. The model has {size_all:,.0f}, {size_output:,.0f} and {size_none:,.0f} parameters.",
                "有 {few:.0f} 个句对时，共用一个矩阵的负对数似然为 {few_all:.2f}，两个矩阵为 {few_output:.2f}，"
                "三个矩阵为 "
                "{few_none:.2f}；有 {many:.0f} 个句对时为 {many_all:.2f}、{many_output:.2f} 和 {many_none:.2f}。"
                "参数个数为 {size_all:,.0f}、{size_output:,.0f} 和 {size_none:,.0f}。",
            ),
            {"few": few, "many": many}
            | {f"few_{tie}": results.mean("nll", tie, few) for tie in TIES}
            | {f"many_{tie}": results.mean("nll", tie, many) for tie in TIES}
            | {f"size_{tie}": results.mean("parameters", "parameters", tie) for tie in TIES},
        )
