"""One token after the other, or all at once: what happens if a sentence has two right translations?

An autoregressive model (AT) predicts each token from the tokens before it. A non-autoregressive model (NAT) predicts
all tokens in one pass, independently of each other:

    AT    P(Y | X) = product_t P(y_t | y_<t, X)         n passes
    NAT   P(Y | X) = product_t P(y_t | X)               one pass

A source of digits is translated digit by digit. In the first corpus there is one way; in the second there are two
styles, and a target is in one of them from its first token to its last. Both styles are equally frequent, so P(y_t | X)
is one half for each: a NAT may begin in one style and end in the other. Mask-predict (Ghazvininejad et al. 2019) keeps
the tokens that are most certain, and predicts the others again, given the kept ones, T times.
"""

from functools import partial

import torch
from torch import Tensor, nn

from regard.attention.layouts import Padded
from regard.decoding.engine import DecodingRequest
from regard.decoding.settings import DecodingSettings
from regard.engines.mask_predict import MaskPredict
from regard.files import JsonObject
from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toy_pairs import SHIFT, SYMBOLS, pair_batch, source_of, translation_loss, write
from regard.lab.toys import IGNORE, ToyTensors, fit_toy, generator_of, seeded
from regard.losses.crossentropy import Loss, cross_entropy
from regard.models.masked import MaskedSettings, MaskedTransformer
from regard.models.transformer import Transformer, TransformerSettings
from regard.tasks.masked_translation import MASK, is_word, length_cross_entropy, sample_masked, sentences_of

DIGITS, LENGTH = 6, 6
VOCABULARY = SHIFT + 3 * DIGITS
ONE, TWO = "one translation", "two translations"
AT, NAT = "autoregressive", "mask-predict"
SIZES: JsonObject = {
    "d_model": 64, "num_heads": 4, "d_ff": 128, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0, "norm": "pre"
}  # fmt: skip
NAMES = {
    AT: Text("autoregressive, greedy", "自回归，贪心"),
    NAT: Text("mask-predict", "mask-predict（非自回归）"),
}


def styled(digits: Tensor, style: Tensor) -> Tensor:
    """The translation of digits (B, T) in style 0 or 1 (B,): other symbols than those of the source."""
    return digits + DIGITS * (1 + style[:, None])


def pairs(generator: torch.Generator, styles: int, size: int = 64) -> ToyTensors:
    """Random digits, and their translation in a random style."""
    digits = torch.randint(DIGITS, (size, LENGTH), generator=generator)
    style = torch.randint(styles, (size,), generator=generator)
    return pair_batch(digits.tolist(), styled(digits, style).tolist())


def share_valid(written: list[list[int]], batch: ToyTensors, styles: int) -> float:
    """Share of outputs that are a right translation in one of the styles."""
    digits = batch["source"] - SHIFT
    valid = [styled(digits, torch.full((len(digits),), style)).tolist() for style in range(styles)]
    return sum(row in rights for row, *rights in zip(written, *valid, strict=True)) / len(written)


def masked_loss(model: nn.Module, batch: ToyTensors) -> Loss:
    """The loss of a masked model: some tokens of the target, given the others, and the length of the target."""
    labels = batch["labels"]
    sizes = (labels != IGNORE).sum(dim=1)
    masked = sample_masked(is_word(labels), *sentences_of(Padded.of(labels, sizes).layout))
    words, lengths = model(source_of(batch), Padded.of(labels.masked_fill(masked, MASK), sizes))
    loss = cross_entropy(words.logits(), labels.masked_fill(~masked, IGNORE), ignore=IGNORE)
    length = length_cross_entropy(lengths, is_word(labels).sum(dim=1))
    return Loss(2 * loss.sum + length, (labels != IGNORE).sum(), 2 * loss.nll + length.detach())


def fill_in(model: MaskedTransformer, batch: ToyTensors, passes: int) -> list[list[int]]:
    """What mask-predict writes in this number of passes."""
    settings = DecodingSettings(search="mask_predict", iterations=passes, length_candidates=1)
    sources = batch["source"].tolist()
    request = DecodingRequest(sources, [2 * LENGTH] * len(sources), settings)
    found = MaskPredict(model, SYMBOLS, torch.device("cpu")).decode(request)
    return [[token - SHIFT for token in best[0].tokens] for best in found]


class Autoregressive(Experiment):
    """Share of right translations over the number of passes, with one and with two ways to translate."""

    name = "autoregressive"
    topic = "encoder-decoder"
    title = Text("One token at a time, or all at once?", "逐词生成，还是一次生成？")
    questions = (
        Question(
            "000:86-88",
            Text(
                "Is every step autoregressive? AT or NAT?",
                "每一步的执行都是 auto-regressive 的吗？AT 还是 NAT？",
            ),
            Text(
                "Tokens are predicted one by one; without autoregression one run of the model gives the result. The "
                "industry mostly uses autoregression.",
                "token 被一个一个地预测出来；非自回归时运行一次模型就得到结果。工业界一般都用自回归。",
            ),
        ),
    )
    hypothesis = Text(
        "If a sentence has two right translations, a model that writes all tokens in one pass mixes them; an "
        "autoregressive model does not.",
        "一个句子有两种正确译法时，一次生成所有词的模型会把它们混在一起，自回归模型不会。",
    )
    varied = Text(
        "the number of right translations, and the passes of mask-predict", "正确译法的个数，以及 mask-predict 的遍数"
    )
    measured = Text("share of outputs that are a right translation", "输出为正确译文的比例")
    refuted_if = Text("one pass is as good as autoregression with two translations", "有两种译法时一遍与自回归一样好")
    panels = tuple(
        Panel(
            key,
            title,
            Text("passes of the decoder", "解码器运行的遍数"),
            Text("right translations", "正确译文的比例"),
            names=NAMES,
        )
        for key, title in (
            (ONE, Text("one right translation", "只有一种译法")),
            (TWO, Text("two right translations", "有两种译法")),
        )
    )
    papers = ("Gu et al. 2018", "Ghazvininejad et al. 2019")
    seconds = 40

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        for panel, styles in ((ONE, 1), (TWO, 2)):
            batch = partial(pairs, styles=styles, size=effort.pick(64, 32))
            test = pairs(generator_of(seed, "test"), styles, 300)
            seeded(seed, "weights")
            writer = Transformer(TransformerSettings(**SIZES), VOCABULARY, VOCABULARY)
            settings: JsonObject = {"rate": 5e-3, "warmup": 20, "schedule": "linear", "seed": seed}
            fit_toy(writer, batch, translation_loss, steps=effort.pick(160, 40), **settings)
            seeded(seed, "weights")
            filler = MaskedTransformer(MaskedSettings(max_length=32, **SIZES), VOCABULARY, VOCABULARY)
            fit_toy(filler, batch, masked_loss, steps=effort.pick(300, 40), **settings)
            for passes in effort.pick((1, 2, 3, 4, 5, 6), (1, 6)):
                found = fill_in(filler, test, passes)
                record(panel, NAT, passes, share_valid(found, test, styles))
            record(panel, AT, LENGTH + 1, share_valid(write(writer, test), test, styles))

    def judge(self, results: Results) -> Verdict:
        single, greedy = results.values(TWO, NAT, 1), results.values(TWO, AT, LENGTH + 1)
        return Verdict(
            decide(above(greedy, single, by=0.05), above(single, greedy)),
            Text(
                "With one right translation a single pass writes {one_single:.0%} right and autoregression "
                "{one_greedy:.0%}. With two, a single pass writes {two_single:.0%} right, mask-predict in {many:.0f} "
                "passes {two_many:.0%}, autoregression {two_greedy:.0%}.",
                "只有一种译法时，一遍生成的正确率为 {one_single:.0%}，自回归为 {one_greedy:.0%}。有两种译法时，"
                "一遍生成为 "
                "{two_single:.0%}，mask-predict 运行 {many:.0f} 遍为 {two_many:.0%}，自回归为 {two_greedy:.0%}。",
            ),
            {
                "one_single": results.mean(ONE, NAT, 1),
                "one_greedy": results.mean(ONE, AT, LENGTH + 1),
                "two_single": results.mean(TWO, NAT, 1),
                "many": LENGTH,
                "two_many": results.mean(TWO, NAT, LENGTH),
                "two_greedy": results.mean(TWO, AT, LENGTH + 1),
            },
        )
