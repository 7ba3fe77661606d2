"""One token after the other, or all at once: what happens if a sentence has two right translations?

    autoregressive        P(Y | X) = product_t P(y_t | y_<t, X)     n passes
    non-autoregressive    P(Y | X) = product_t P(y_t | X)           one pass, tokens independent of each other

Digits are translated one by one. In the first corpus there is one way; in the second there are two styles, equally
frequent, and a target keeps to one of them. Then P(y_t | X) is one half for each style, and a model of one pass may
begin in one and end in the other. Mask-predict (Ghazvininejad et al. 2019) keeps the tokens that are most certain and
predicts the others again, given the kept ones, in several passes.
"""

from functools import partial

import torch
from torch import Tensor, nn

from regard.attention.layouts import Padded
from regard.decoding.engine import DecodingRequest
from regard.decoding.settings import DecodingSettings
from regard.engines.mask_predict import MaskPredict
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide
from regard.lab.toy_pairs import SHIFT, SYMBOLS, pair_batch, source_of, translation_loss, write
from regard.lab.toys import IGNORE, ToyTensors, fit_toy, generator_of, seeded
from regard.losses.crossentropy import Loss, cross_entropy
from regard.models.masked import MaskedSettings, MaskedTransformer
from regard.models.transformer import Transformer, TransformerSettings
from regard.tasks import writing as masked_translation

DIGITS, LENGTH = 6, 6
ONE, TWO, AT, NAT = "one translation", "two translations", "autoregressive", "mask-predict"


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
    is_word, sizes = masked_translation.is_word(labels), (labels != IGNORE).sum(dim=1)
    layout = Padded.of(labels, sizes).layout
    masked = masked_translation.sample_masked(is_word, *masked_translation.sentences_of(layout))
    inputs = Padded.of(labels.masked_fill(masked, masked_translation.MASK), sizes)
    words, lengths = model(source_of(batch), inputs)
    loss = cross_entropy(words.logits(), labels.masked_fill(~masked, IGNORE), ignore=IGNORE)
    length = masked_translation.length_cross_entropy(lengths, is_word.sum(dim=1))
    return Loss(2 * loss.sum + length, sizes.sum(), 2 * loss.nll + length.detach())


def fill_in(model: MaskedTransformer, batch: ToyTensors, passes: int) -> list[list[int]]:
    """What mask-predict writes in this number of passes."""
    settings = DecodingSettings(search="mask_predict", iterations=passes, length_candidates=1)
    sources = batch["source"].tolist()
    request = DecodingRequest(sources, [2 * LENGTH] * len(sources), settings)
    found = MaskPredict(model, SYMBOLS, torch.device("cpu")).decode(request)
    return [[token - SHIFT for token in best[0].tokens] for best in found]


def measure(seed: int, effort: Effort, record: Record) -> None:
    sizes = {"d_model": 64, "num_heads": 4, "d_ff": 128, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0}
    values, vocabulary = {**sizes, "norm": "pre"}, SHIFT + 3 * DIGITS
    fit = partial(fit_toy, rate=5e-3, warmup=20, schedule="linear", seed=seed)
    for panel, styles in ((ONE, 1), (TWO, 2)):
        batch = partial(pairs, styles=styles, size=effort.pick(64, 32))
        test = pairs(generator_of(seed, "test"), styles, 300)
        seeded(seed, "weights")
        writer = Transformer(TransformerSettings.model_validate(values), vocabulary, vocabulary)
        fit(writer, batch, translation_loss, steps=effort.pick(160, 40))
        seeded(seed, "weights")
        settings = MaskedSettings.model_validate({"max_length": 32, **values})
        filler = MaskedTransformer(settings, vocabulary, vocabulary)
        fit(filler, batch, masked_loss, steps=effort.pick(300, 40))
        for passes in effort.pick((1, 2, 3, 4, 5, 6), (1, 6)):
            record(panel, NAT, passes, share_valid(fill_in(filler, test, passes), test, styles))
        record(panel, AT, LENGTH + 1, share_valid(write(writer, test), test, styles))


def judge(results: Results) -> Verdict:
    single, greedy = results.values(TWO, NAT, 1), results.values(TWO, AT, LENGTH + 1)
    return Verdict(decide(above(greedy, single, by=0.05), above(single, greedy)))
