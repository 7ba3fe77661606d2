"""The rungs of the ladder from recurrent networks to the Transformer and beyond: what each is, and who invented it.

A rung is a change to one recipe, that of a Transformer (of an LSTM, where models only write): everything else, the
text, the vocabulary, the number of tokens it learns from and its schedule, stays the same, so that what differs between
two rows is the model. In a setting WIDTH, LAYERS, DROPOUT and TIE stand for those of the recipe's own model.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.errors import UserError

WORDS = {"WIDTH": "d_model", "LAYERS": "encoder_layers", "DROPOUT": "dropout", "TIE": "tie"}
TEXT_WORDS = {"WIDTH": "d_model", "LAYERS": "layers", "DROPOUT": "output_dropout"}
GREEDY: dict[str, Any] = {"search": "greedy"}
SAME = 'd_model = WIDTH, d_embedding = WIDTH, dropout = DROPOUT, tie = "TIE"'
MASKED = ("model.kind=masked", 'decoding={ search = "mask_predict" }')
CONVOLUTIONAL = f'kind = "convolutional", encoder_layers = LAYERS, decoder_layers = LAYERS, {SAME}'
LUONG = f'kind = "recurrent", decoder = "luong", layers = 1, encoder = "both", {SAME}'


@dataclass(frozen=True)
class Rung:
    """One model of the ladder; `settings` change the recipe, `readings` are the searches it is judged with."""

    name: str
    title: str
    title_zh: str
    paper: str
    settings: tuple[str, ...] = ()
    readings: tuple[tuple[str, dict[str, Any]], ...] = (("", GREEDY),)
    """(what to add to the title, changes to the search)"""
    taught_by: str = ""
    """The rung whose translations of the training text it learns from, in place of the references."""


def mask_predict(*iterations: int) -> tuple[tuple[str, dict[str, Any]], ...]:
    """One reading for each number of passes over a translation."""
    return tuple((f"T\u00a0=\u00a0{number}", {"search": "mask_predict", "iterations": number}) for number in iterations)


RUNGS: tuple[Rung, ...] = (
    Rung(
        "plain", "Encoder-decoder without attention", "无注意力的编码器-解码器", "Sutskever et al. 2014",
        (f'model={{ kind = "recurrent", decoder = "plain", layers = LAYERS, {SAME} }}',),
    ),
    Rung(
        "bahdanau", "Additive attention", "加性注意力", "Bahdanau et al. 2014",
        (f'model={{ kind = "recurrent", decoder = "bahdanau", {SAME} }}',),
    ),
    Rung(
        "luong", "Multiplicative attention, input feeding", "乘性注意力，输入馈送", "Luong et al. 2015",
        (f'model={{ {LUONG}, attention = "global" }}',),
    ),
    Rung(
        "local-m", "Local attention, monotonic", "局部注意力（单调）", "Luong et al. 2015, section 3.2",
        (f'model={{ {LUONG}, attention = "local-m", window = 5 }}',),
    ),
    Rung(
        "local-p", "Local attention, predicted place", "局部注意力（预测位置）", "Luong et al. 2015, section 3.2",
        (f'model={{ {LUONG}, attention = "local-p", window = 5 }}',),
    ),
    Rung(
        "hard", "Hard attention, Gumbel-softmax", "硬注意力（Gumbel-softmax）", "Xu et al. 2015; Jang et al. 2017",
        (f'model={{ {LUONG}, attention = "hard-gumbel" }}',),
    ),
    Rung(
        "reinforce", "Hard attention, REINFORCE", "硬注意力（REINFORCE）", "Xu et al. 2015; Williams 1992",
        (f'model={{ {LUONG}, attention = "hard-reinforce" }}',),
    ),
    Rung(
        "convolutional", "Convolutions, attention in every layer", "卷积，逐层注意力", "Gehring et al. 2017",
        (f"model={{ {CONVOLUTIONAL} }}",),
    ),
    Rung("transformer", "Transformer", "Transformer", "Vaswani et al. 2017"),
    Rung(
        "restricted", "Transformer, self-attention within 4 neighbours", "Transformer，自注意力限于 4 个近邻",
        "Vaswani et al. 2017, section 4", ("model.window=4",),
    ),
    Rung(
        "masked", "Mask-predict, all words at once", "Mask-predict，同时写出所有词", "Ghazvininejad et al. 2019",
        MASKED, readings=mask_predict(1, 4, 10),
    ),
    Rung(
        "masked-distilled", "Mask-predict, taught by the Transformer", "Mask-predict，由 Transformer 蒸馏",
        "Ghazvininejad et al. 2019; Kim and Rush 2016",
        MASKED, readings=mask_predict(1, 4, 10), taught_by="transformer",
    ),
    Rung("single-head", "Transformer, one head", "Transformer，单头", "Vaswani et al. 2017, table 3",
         ("model.num_heads=1",)),
    Rung("learned", "Transformer, learned positions", "Transformer，可学习位置", "Gehring et al. 2017",
         ("model.positions=learned",)),
    Rung("rotary", "Transformer, rotary positions", "Transformer，旋转位置编码", "Su et al. 2021",
         ("model.positions=rotary",)),
    Rung("relative", "Transformer, relative positions", "Transformer，相对位置", "Shaw et al. 2018",
         ("model.positions=relative",)),
    Rung("alibi", "Transformer, linear biases", "Transformer，线性偏置（ALiBi）", "Press et al. 2022",
         ("model.positions=alibi",)),
    Rung("additive-heads", "Transformer, additive scores", "Transformer，加性打分", "Bahdanau et al. 2014",
         ("model.score=additive",)),
)  # fmt: skip

LAST = "masked-distilled"  # what follows are variants of the Transformer, for those who ask for them
TEXT_TRANSFORMER = 'kind = "transformer", d_model = WIDTH, num_heads = 4, head_dim = 32, layers = LAYERS'

TEXT_RUNGS: tuple[Rung, ...] = (
    Rung("ngram", "5-grams, Kneser-Ney smoothing", "5 元语法，Kneser-Ney 平滑", "Chen and Goodman 1998",
         ('model={ kind = "ngram", order = 5 }',)),
    Rung("markov", "Feed-forward network over the last words", "前馈网络（最近若干词）", "Bengio et al. 2003",
         ('model={ kind = "markov", d_model = WIDTH, d_embedding = WIDTH, dropout = DROPOUT }',)),
    Rung("rnn", "Recurrent network", "循环网络", "Mikolov et al. 2010", ("model.kind=rnn",)),
    Rung("gru", "Gated recurrent unit", "门控循环单元", "Cho et al. 2014", ("model.kind=gru",)),
    Rung("lstm", "Long short-term memory", "长短期记忆网络", "Hochreiter and Schmidhuber 1997"),
    Rung("transformer", "Causal Transformer", "因果 Transformer", "Vaswani et al. 2017; Radford et al. 2018",
         (f"model={{ {TEXT_TRANSFORMER}, dropout = DROPOUT }}",)),
)  # fmt: skip


@dataclass(frozen=True)
class Flight:
    """The rungs of one task: changes to the recipe of one `kind` of model, whose settings the words stand for."""

    kind: str
    rungs: tuple[Rung, ...]
    climbed: tuple[str, ...]
    """Those that are climbed unless others are asked for."""
    words: dict[str, str]

    def find(self, names: Sequence[str] = ()) -> list[Rung]:
        """Rungs by their names, or the usual ones, in the order of the ladder, a teacher before whom it teaches."""
        known = {rung.name: rung for rung in self.rungs}
        unknown = [name for name in names if name not in known]
        if unknown:
            raise UserError(f"the ladder has no rung {', '.join(unknown)}", f"write some of {','.join(known)}")
        asked = names or self.climbed
        wanted = {*asked, *(known[name].taught_by for name in asked)}
        return [rung for rung in self.rungs if rung.name in wanted]

    def settings(self, rung: Rung, model: Any) -> list[str]:
        """A rung's settings, with the words replaced by what they stand for in the recipe's own model."""
        settings = list(rung.settings)
        for word, name in self.words.items():
            settings = [setting.replace(word, str(getattr(model, name))) for setting in settings]
        return settings


_NAMES = [rung.name for rung in RUNGS]
FLIGHTS: dict[str, Flight] = {
    "translation": Flight("transformer", RUNGS, tuple(_NAMES[: _NAMES.index(LAST) + 1]), WORDS),
    "language": Flight("lstm", TEXT_RUNGS, tuple(rung.name for rung in TEXT_RUNGS), TEXT_WORDS),
}
"""The flight of each task."""
