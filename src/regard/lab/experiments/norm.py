"""Norms in a language model: layer norm of one token, batch norm, and the layer norm that shows the future.

A norm subtracts a mean and divides by a standard deviation. They can be taken over

    the features of one token             layer norm in the Transformer
    all tokens of a batch, by feature     batch norm; moving averages in evaluation
    all tokens and features of a text     layer norm as for images, LN(seq, f) in the notes

The statistics of batch norm vary from batch to batch. Words of one text are related, so a batch of texts tells less
about all text than as many independent words do, and the model trains on noise that is absent in evaluation. Here batch
norm starts slowly and catches up, so the loss is measured after a short and after a longer training.

The third norm mixes all tokens of a text, later ones included. With it a causal model must not be trained: on random
words, which no model can predict, it goes below the loss of a uniform guess, because a mean of the future is enough to
find the next word.
"""

import math
from collections import Counter
from functools import cache, partial

import torch
from torch import Tensor, nn

from regard.lab.english import split_pages, words_of
from regard.lab.experiment import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import IGNORE, ToyTensors, build_tagger, fit_toy, generator_of, rectangle, seeded, tagging_loss
from regard.layers.norms import LayerNorm, SequenceLayerNorm
from regard.models.text_encoder import EncoderWithHead

VOCABULARY, WIDTH, LENGTH, LONG = 300, 32, 12, 36
PAGES = 1
"""The seed that chooses the pages for testing: the same for all runs, so that their losses can be compared."""
FEW, FEW_LENGTH = 4, 6
"""Words and length of the random texts."""
SETTINGS = (("layer", 2), ("batch", 2), ("layer", 32), ("batch", 32), ("none", 32))
"""The norm, and the texts in a batch."""
NAMES = {
    "layer": Text("layer norm of a token", "对每个词做层归一化"),
    "sequence": Text("layer norm of a text", "对整个序列做层归一化"),
    "layer 2": Text("layer norm, 2 texts", "层归一化，每批 2 段"),
    "batch 2": Text("batch norm, 2 texts", "批归一化，每批 2 段"),
    "layer 32": Text("layer norm, 32 texts", "层归一化，每批 32 段"),
    "batch 32": Text("batch norm, 32 texts", "批归一化，每批 32 段"),
    "none 32": Text("no norm, 32 texts", "无归一化，每批 32 段"),
    "texts": Text("texts", "真实文本"),
    "independent": Text("the same words, mixed", "同样的词，打乱混合"),
}


@cache
def read_words() -> tuple[Tensor, Tensor]:
    """The words of pages for training and of others for testing, as numbers; rare words are 0."""
    train, test = (words_of(" ".join(pages)) for pages in split_pages(PAGES, 0.15))
    frequent = [word for word, _ in Counter(train).most_common(VOCABULARY - 1)]
    number = {word: index for index, word in enumerate(frequent, start=1)}
    first, second = (torch.tensor([number.get(word, 0) for word in words]) for words in (train, test))
    return first, second


def next_words(ids: Tensor) -> ToyTensors:
    """Texts (B, T) and the next word of each word; the last has none."""
    labels = ids.roll(-1, dims=1)
    labels[:, -1] = IGNORE
    return {"ids": ids, "labels": labels}


def texts(generator: torch.Generator, words: Tensor, size: int) -> ToyTensors:
    """Random places of the text, LENGTH words each."""
    starts = torch.randint(len(words) - LENGTH, (size, 1), generator=generator)
    return next_words(words[starts + torch.arange(LENGTH)])


def random_words(generator: torch.Generator, size: int = 32) -> ToyTensors:
    """Independent words of a small vocabulary: the next word cannot be predicted."""
    return next_words(torch.randint(FEW, (size, FEW_LENGTH), generator=generator))


def build(kind: str, vocabulary: int, norm: str, seed: int) -> EncoderWithHead:
    """A causal model of two layers with norms of this kind."""
    seeded(seed, "weights")
    built = "layer" if kind == "sequence" else kind
    model = build_tagger(vocabulary, vocabulary, causal=True, layers=2, norm=norm, norm_kind=built, positions="rotary")
    if kind == "sequence":
        for module in list(model.modules()):
            for name, child in list(module.named_children()):
                if isinstance(child, LayerNorm):
                    setattr(module, name, SequenceLayerNorm(WIDTH))
    return model


@torch.no_grad()
def nll_of(model: nn.Module, batch: ToyTensors) -> float:
    """Negative log-likelihood per word."""
    loss = tagging_loss(model, batch)
    return float(loss.nll / loss.count)


def future_gradient(model: EncoderWithHead, seed: int) -> float:
    """The largest gradient of an output by the embedding of a later word."""
    encoder, tokens = model.encoder, rectangle(random_words(generator_of(seed, "gradient"), 1)["ids"])
    x = encoder.embed(tokens).detach().requires_grad_()
    h = encoder.layers(x, encoder.pattern(tokens.layout))  # type: ignore[operator]
    (gradient,) = torch.autograd.grad(h[0, 0, 0], x)
    return float(gradient[0, 1:].abs().max())


def variation(words: Tensor, size: int, seed: int) -> float:
    """Standard deviation of the batch mean of a feature, relative to that of the feature; the mean over features."""
    embeddings = torch.randn(VOCABULARY, WIDTH, generator=generator_of(seed, "embeddings"))
    generator = generator_of(seed, "batches", size)
    means = torch.stack([embeddings[texts(generator, words, size)["ids"]].mean(dim=(0, 1)) for _ in range(200)])
    return float((means.std(dim=0) / embeddings[words].std(dim=0)).mean())


class Norm(Experiment):
    """Variation of batch statistics on real text, loss with each norm, and the leak of the norm over a text."""

    name = "norm"
    topic = "layers"
    title = Text("Why layer norm, and over what?", "为什么用层归一化？对什么归一化？")
    questions = (
        Question(
            "001:187, 004:380-402, 004:428-430",
            Text("Why layer norm and not batch norm?", "为什么用 LayerNorm 而不是 BatchNorm？"),
            Text(
                "Texts differ in length, so that statistics over a batch mean nothing; those of short texts fail on "
                "long "
                "ones. Layer norm is better for language.",
                "句子长短不一，在 batch 维度上求均值方差没有意义；短句的统计量用到长句上会失效。语言任务中 LN 更好。",
            ),
        ),
        Question(
            "004:404-416",
            Text("Over what does layer norm take its mean?", "层归一化对哪些维度求均值？"),
            Text("Over the tokens and features of a text, LN(seq, f).", "对一句话的 seq 和 f 两个维度，LN(seq, f)。"),
        ),
    )
    hypothesis = Text(
        "A language model is better with layer norm than with batch norm.", "语言模型用层归一化比用批归一化好。"
    )
    varied = Text(
        "the norm, the number of texts in a batch, and the length of the training",
        "归一化的种类、每批的文本数与训练步数",
    )
    measured = Text(
        "variation of batch means on real text; loss on new pages, of the trained length and of longer texts; loss on "
        "random words",
        "真实文本上批均值的波动；新页面上的损失（训练长度与更长的文本）；随机词上的损失",
    )
    refuted_if = Text(
        "with large batches batch norm has the lower loss on new pages, after a short and after a longer training",
        "批较大时，无论训练较短还是较长，批归一化在新页面上的损失都更低",
    )
    panels = (
        Panel(
            "variation",
            Text("batch means of features", "特征的批均值"),
            Text("texts in a batch", "每批文本数"),
            Text("deviation / deviation of a word", "标准差 / 单个词的标准差"),
            log="xy",
            names=NAMES,
        ),
        Panel(
            "loss",
            Text("new pages", "新页面"),
            Text("steps of training", "训练步数"),
            Text("nll per word", "每词负对数似然"),
            names=NAMES,
        ),
        Panel(
            "long",
            Text("three times the trained length", "三倍于训练长度"),
            Text("steps of training", "训练步数"),
            Text("nll per word", "每词负对数似然"),
            names=NAMES,
        ),
        Panel(
            "leak",
            Text("random words", "随机词"),
            Text("norm", "归一化"),
            Text("nll per word", "每词负对数似然"),
            kind="bars",
            names={**NAMES, "nll": Text("nll", "负对数似然"), "guess": Text("uniform guess", "均匀猜测")},
        ),
        Panel(
            "future",
            Text("gradient from later words", "来自之后的词的梯度"),
            Text("norm", "归一化"),
            Text("largest value", "最大值"),
            kind="bars",
            names=NAMES,
        ),
    )
    papers = ("Ba et al. 2016", "Ioffe & Szegedy 2015", "Shen et al. 2020")
    seconds = 80

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        train, test = read_words()
        mixed = train[torch.randperm(len(train), generator=generator_of(seed, "mixed"))]
        for size in effort.pick((2, 4, 8, 16, 32, 64), (2, 64)):
            record("variation", "texts", size, variation(train, size, seed))
            record("variation", "independent", size, variation(mixed, size, seed))
        fit = partial(fit_toy, warmup=20, schedule="linear", seed=seed)
        for kind, size in effort.pick(SETTINGS, (("layer", 32), ("batch", 32))):
            for steps in effort.pick((200, 400), (40,)):
                model = build(kind, VOCABULARY, "pre", seed)
                fit(model, partial(texts, words=train, size=size), tagging_loss, steps=steps, rate=3e-3)
                for panel, length in (("loss", LENGTH), ("long", LONG)):
                    rows = test[: len(test) // length * length].view(-1, length)[:300]
                    record(panel, f"{kind} {size}", steps, nll_of(model, next_words(rows)))
        for kind in ("layer", "sequence"):
            model = build(kind, FEW, "post", seed)
            record("future", "gradient", kind, future_gradient(model, seed))
            fit(model, random_words, tagging_loss, steps=effort.pick(200, 100), rate=1e-2)
            record("leak", "nll", kind, nll_of(model, random_words(generator_of(seed, "test"), 1000)))
        record("leak", "nll", "guess", math.log(FEW))

    def judge(self, results: Results) -> Verdict:
        cells = [
            (
                size,
                steps,
                results.values("loss", f"layer {size}", steps),
                results.values("loss", f"batch {size}", steps),
            )
            for size in (2, 32)
            if f"layer {size}" in results.series("loss")
            for steps in results.xs("loss", f"layer {size}")
        ]
        large = [(layer, batch) for size, _, layer, batch in cells if size == max(size for size, *_ in cells)]
        (small_size, short, *_), (large_size, long, *_) = cells[0], cells[-1]
        mean = results.mean
        return Verdict(
            decide(
                all(above(batch, layer) for _, _, layer, batch in cells),
                all(above(layer, batch) for layer, batch in large),
            ),
            Text(
                "Batches of {small:.0f} texts, {long:.0f} steps: layer norm has a loss of {layer_small:.2f} on new "
                "pages, "
                "batch norm {batch_small:.2f}. Batches of {large:.0f}: {layer_short:.2f} and {batch_short:.2f} after "
                "{short:.0f} steps, {layer_large:.2f} and {batch_large:.2f} after {long:.0f}; on texts three times "
                "as long "
                "{layer_long:.2f} and {batch_long:.2f}. A layer norm over the whole text shows the future: "
                "{leak:.2f} on "
                "random words, where a guess has {guess:.2f}.",
                "每批 {small:.0f} 段文本、训练 {long:.0f} 步：新页面上的损失，层归一化为 {layer_small:.2f}，批归一化为 "
                "{batch_small:.2f}。每批 {large:.0f} 段：{short:.0f} 步后为 {layer_short:.2f} 和 {batch_short:.2f}，"
                "{long:.0f} 步后为 {layer_large:.2f} 和 {batch_large:.2f}；文本长度为三倍时为 {layer_long:.2f} 和 "
                "{batch_long:.2f}。对整个序列做层归一化会泄露未来：在随机词上损失为 {leak:.2f}，而猜测为 {guess:.2f}。",
            ),
            {
                "small": float(small_size),
                "large": float(large_size),
                "short": float(short),
                "long": float(long),
                "layer_small": mean("loss", f"layer {small_size}", long),
                "batch_small": mean("loss", f"batch {small_size}", long),
                "layer_short": mean("loss", f"layer {large_size}", short),
                "batch_short": mean("loss", f"batch {large_size}", short),
                "layer_large": mean("loss", f"layer {large_size}", long),
                "batch_large": mean("loss", f"batch {large_size}", long),
                "layer_long": mean("long", f"layer {large_size}", long),
                "batch_long": mean("long", f"batch {large_size}", long),
                "leak": results.mean("leak", "nll", "sequence"),
                "guess": results.mean("leak", "nll", "guess"),
            },
        )
