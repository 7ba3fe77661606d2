"""The causal mask: without it the decoder copies the answer in training, and writes nonsense alone.

A small Transformer learns to reverse six digits. In training the decoder sees the target, shifted by one: at place t it
has y_0 .. y_{t-1} as inputs and must predict y_t. Its self-attention is causal. Without the mask, place t also sees its
right neighbour, whose input is y_t itself: the model copies it and learns nothing else. In use there is no right
neighbour. The shift hides the current word, the mask the later ones: without the shift, place t has y_t as its own
input, and the mask does not help.
"""

from functools import partial

import torch
from torch import Tensor

from regard.attention.layouts import Tokens
from regard.decoding.constraints import Rules
from regard.decoding.rollout import greedy_search
from regard.decoding.stepper import Symbols
from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import IGNORE, ToyTensors, fit_toy, generator_of, rectangle, seeded
from regard.layers.embeddings import OutputProjection
from regard.losses.crossentropy import Loss, cross_entropy
from regard.models.transformer import Transformer, TransformerSettings
from regard.text.symbols import BOS, EOS, PAD, SPECIALS

DIGITS, LENGTH = 10, 6
VOCABULARY = len(SPECIALS) + DIGITS
MASKED, UNMASKED, UNSHIFTED = "causal mask", "no mask", "no shift"


def digits(generator: torch.Generator, size: int = 64) -> ToyTensors:
    """Six random digits as the source; the same digits in reverse, and the end symbol, as the target."""
    source = torch.randint(len(SPECIALS), VOCABULARY, (size, LENGTH), generator=generator)
    end = torch.full((size, 1), EOS)
    return {"source": source, "labels": torch.cat([source.flip(1), end], dim=1)}


class Decoder(Transformer):
    """A Transformer whose decoder may attend to later positions in training."""

    causal = True

    def forward(self, src: Tokens, tgt: Tokens) -> OutputProjection:
        """As in `Transformer`, with a pattern of the target that is causal or not."""
        memory = self.encode(src, src.layout.pattern(src.layout))
        pattern = tgt.layout.pattern(tgt.layout, causal=self.causal)
        return self.output.project(self.decode(tgt, memory, pattern, tgt.layout.pattern(src.layout)))


def loss(model: torch.nn.Module, batch: ToyTensors, shifted: bool) -> Loss:
    """Cross-entropy of the target, given the target shifted by one position or not."""
    source, labels = batch["source"], batch["labels"]
    start = torch.full((len(labels), 1), BOS)
    inputs = torch.cat([start, labels[:, :-1]], dim=1) if shifted else labels
    logits = model(rectangle(source), rectangle(inputs)).logits()
    return cross_entropy(logits, labels, ignore=IGNORE)


def exact_match(model: Transformer, source: Tensor) -> float:
    """Share of sources that the model reverses without seeing the target, by greedy search."""
    limit = torch.full((len(source),), LENGTH + 1)
    found = greedy_search(model, rectangle(source), limit, Rules(Symbols(BOS, EOS, PAD)))
    wanted = source.flip(1).tolist()
    return sum(best[0].tokens == right for best, right in zip(found, wanted, strict=True)) / len(wanted)


class CausalMask(Experiment):
    """Training loss and free-running exact match with and without the mask and the shift."""

    name = "causal-mask"
    topic = "encoder-decoder"
    title = Text("The decoder that cheats without a mask", "没有掩码的解码器会作弊")
    questions = (
        Question(
            "001:191, 001:150-158, 000:184-186, 002:98, 004:463",
            Text("Why is the decoder's self-attention masked?", "解码器的自注意力为什么要加掩码？"),
            Text(
                "It must not see the future, else it cheats in training; the current and later words are masked.",
                "不能看到未来的信息，否则训练时就是作弊；要遮住当前词和之后的词。",
            ),
        ),
    )
    hypothesis = Text(
        "Without the causal mask the model has a low training loss and cannot write.",
        "没有因果掩码时，模型的训练损失很低，却不会生成。",
    )
    varied = Text("the causal mask, and the shift of the decoder's input", "因果掩码，以及解码器输入的右移")
    measured = Text(
        "training loss, and the share of new inputs that are reversed exactly when the model writes alone",
        "训练损失，以及模型独立生成时完全正确地反转新输入的比例",
    )
    refuted_if = Text(
        "the model without a mask writes as well as the one with it", "没有掩码的模型生成得与有掩码的一样好"
    )
    panels = (
        Panel(
            "loss",
            Text("training loss", "训练损失"),
            Text("decoder", "解码器"),
            Text("nll per digit", "每个数字的负对数似然"),
            kind="bars",
        ),
        Panel(
            "exact",
            Text("writing alone", "独立生成"),
            Text("decoder", "解码器"),
            Text("exact match", "完全正确率"),
            kind="bars",
            names={
                MASKED: Text("causal mask", "因果掩码"),
                UNMASKED: Text("no mask", "没有掩码"),
                UNSHIFTED: Text("mask, but no shift", "有掩码，但不右移"),
            },
        ),
    )
    papers = ("Vaswani et al. 2017, section 3.1",)
    seconds = 60

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        settings = TransformerSettings(
            d_model=64, num_heads=4, d_ff=128, encoder_layers=1, decoder_layers=1, dropout=0.0, norm="pre"
        )
        for name in (MASKED, UNMASKED, UNSHIFTED):
            seeded(seed, "weights")
            model = Decoder(settings, VOCABULARY, VOCABULARY)
            model.causal = name != UNMASKED
            losses = fit_toy(
                model,
                digits,
                partial(loss, shifted=name != UNSHIFTED),
                steps=effort.pick(400, 200),
                rate=3e-3,
                warmup=30,
                seed=seed,
                schedule="linear",
            )
            record("loss", "loss", name, losses[-1])
            record("exact", "exact match", name, exact_match(model, digits(generator_of(seed, "test"), 200)["source"]))

    def judge(self, results: Results) -> Verdict:
        with_mask, without = (results.values("exact", "exact match", name) for name in (MASKED, UNMASKED))
        return Verdict(
            decide(above(with_mask, without, by=0.5), above(without, with_mask)),
            Text(
                "Without a mask the training loss is {loss_without:.4f} (with it {loss:.4f}), but the model writes "
                "{without:.0%} of the answers (with it {exact:.0%}). Without the shift it writes {unshifted:.0%}.",
                "没有掩码时训练损失为 {loss_without:.4f}（有掩码时 {loss:.4f}），但独立生成的正确率只有 {without:.0%}"
                "（有掩码时 {exact:.0%}）。没有右移时为 {unshifted:.0%}。",
            ),
            {
                "loss": results.mean("loss", "loss", MASKED),
                "loss_without": results.mean("loss", "loss", UNMASKED),
                "exact": results.mean("exact", "exact match", MASKED),
                "without": results.mean("exact", "exact match", UNMASKED),
                "unshifted": results.mean("exact", "exact match", UNSHIFTED),
            },
        )
