"""Is an RNN a Markov process? Its state is one, but its output may depend on all earlier tokens.

A Markov model of order tau sees the last tau tokens and nothing else:

    Markov    p(x_{t+1} | x_{t-tau+1}, .., x_t)
    RNN       p(x_{t+1} | h_t),   h_t = f(h_{t-1}, x_t)

h_t depends on h_{t-1} and x_t alone, so the sequence of states is a Markov chain. But h_t is computed from all tokens
x_1 .. x_t, so the tokens are not one. (A Markov decision process is something else: it has actions and rewards.)

Three language models of characters are trained on English: an RNN, an LSTM, and Bengio's network of the last five
characters. Two numbers tell how far each looks back:

    effect    the character k places before is replaced: how much does the prediction change? (total variation distance)
    probe     a linear map reads the character k places before from h_t. The network of five characters can only guess
              those outside of its window, from their neighbours.
"""

from functools import cache, partial

import torch
from torch import Tensor, nn

from regard.files import JsonObject
from regard.lab.english import pages, words_of
from regard.lab.old_form import Effort, Experiment, Panel, Question, Record, Results, Text, Verdict, above, decide
from regard.lab.toys import IGNORE, ToyTensors, fit_toy, generator_of, seeded
from regard.losses.crossentropy import Loss, cross_entropy
from regard.models.language_markov import MarkovLanguageModel, MarkovLanguageSettings
from regard.models.language_recurrent import RecurrentLanguageModel, RecurrentLanguageSettings

CHARACTERS = " abcdefghijklmnopqrstuvwxyz'"
HISTORY, WIDTH, LENGTH = 5, 64, 32
RNN, LSTM, WINDOW = "RNN", "LSTM", "window"
NO_DROPOUT: JsonObject = {"input_dropout": 0.0, "hidden_dropout": 0.0, "output_dropout": 0.0, "word_dropout": 0.0}
LanguageModel = MarkovLanguageModel | RecurrentLanguageModel


@cache
def english() -> Tensor:
    """The text as characters (N,): words in lower case, separated by spaces."""
    text = " ".join(word for page in pages() for word in words_of(page))
    return torch.tensor([CHARACTERS.index(character) for character in text])


def segments(generator: torch.Generator, text: Tensor, size: int = 32) -> ToyTensors:
    """Random segments of the text (B, T), and the next character of each character."""
    starts = torch.randint(len(text) - LENGTH - 1, (size, 1), generator=generator)
    ids = text[starts + torch.arange(LENGTH + 1)]
    return {"ids": ids[:, :-1], "labels": ids[:, 1:]}


def build(name: str) -> LanguageModel:
    """A language model by its name."""
    if name == WINDOW:
        return MarkovLanguageModel(
            MarkovLanguageSettings(history=HISTORY, d_model=WIDTH, d_embedding=16, dropout=0.0, tie="none"),
            len(CHARACTERS),
        )
    settings = RecurrentLanguageSettings(
        kind="rnn" if name == RNN else "lstm", d_model=WIDTH, layers=1, tie="none", **NO_DROPOUT
    )
    return RecurrentLanguageModel(settings, len(CHARACTERS))


def language_loss(model: nn.Module, batch: ToyTensors) -> Loss:
    """Cross-entropy of the next character."""
    return cross_entropy(model(batch["ids"])[0].logits(), batch["labels"], ignore=IGNORE)


@torch.no_grad()
def states(model: LanguageModel, ids: Tensor) -> Tensor:
    """The state from which the next character is predicted, (B, T, K)."""
    return model(ids)[0].hidden


@torch.no_grad()
def effects(model: LanguageModel, ids: Tensor, distances: int, generator: torch.Generator) -> list[float]:
    """Mean change of the last prediction, 1/2 sum |p - p'|, if the character k places before is another one."""
    p, found = model(ids)[0].logits()[:, -1].softmax(dim=-1), []
    for k in range(distances):
        changed = ids.clone()
        step = torch.randint(1, len(CHARACTERS), (len(ids),), generator=generator)
        changed[:, -1 - k] = (ids[:, -1 - k] + step) % len(CHARACTERS)
        other = model(changed)[0].logits()[:, -1].softmax(dim=-1)
        found.append(float((p - other).abs().sum(dim=-1).mean() / 2))
    return found


def probe(x: Tensor, y: Tensor, test_x: Tensor, test_y: Tensor) -> float:
    """Accuracy of a linear map from x (N, K) to classes y (N,), fitted by ridge regression to one-hot classes."""
    x, test_x = (torch.cat([part, torch.ones(len(part), 1)], dim=1).double() for part in (x, test_x))
    target = nn.functional.one_hot(y, len(CHARACTERS)).double()
    weights = torch.linalg.solve(x.T @ x + 1e-2 * torch.eye(x.size(1), dtype=x.dtype), x.T @ target)
    return float(((test_x @ weights).argmax(dim=1) == test_y).double().mean())


class Markov(Experiment):
    """What the state of a language model knows of earlier characters."""

    name = "markov"
    topic = "recurrent"
    title = Text("Is an RNN a Markov process?", "RNN 是马尔可夫过程吗？")
    questions = (
        Question(
            "003:91",
            Text(
                "Can an RNN not learn global structure, because it is a Markov decision process?",
                "RNN 无法学到全局结构，是因为它本质上是马尔可夫决策过程吗？",
            ),
            Text("Yes, with three question marks.", "是的（原文打了三个问号）。"),
        ),
    )
    hypothesis = Text(
        "An RNN is a Markov process: what it predicts depends on the last five characters only.",
        "RNN 是马尔可夫过程：它的预测只取决于最近五个字符。",
    )
    varied = Text("the language model, and the distance of the character", "语言模型，以及字符的距离")
    measured = Text(
        "change of the prediction if an earlier character is replaced; accuracy of reading it from the state",
        "替换前面的字符后预测的变化；用线性探针从状态中读出该字符的准确率",
    )
    refuted_if = Text(
        "replacing a character outside of the window changes the prediction of the RNN",
        "替换窗口之外的字符会改变 RNN 的预测",
    )
    panels = (
        Panel(
            "effect",
            Text("change of the prediction if a character is replaced", "替换一个字符后预测的变化"),
            Text("characters before", "往前的字符数"),
            Text("total variation distance", "总变差距离"),
            names={WINDOW: Text("window of five characters", "五个字符的窗口")},
        ),
        Panel(
            "probe",
            Text("reading an earlier character from the state", "从状态中读出前面的字符"),
            Text("characters before", "往前的字符数"),
            Text("accuracy", "准确率"),
            names={WINDOW: Text("window of five characters", "五个字符的窗口")},
        ),
        Panel(
            "nll",
            Text("the language models", "语言模型本身"),
            Text("model", "模型"),
            Text("nll per character", "每字符负对数似然"),
            kind="bars",
            names={WINDOW: Text("window of five characters", "五个字符的窗口")},
        ),
    )
    papers = ("Elman 1990", "Bengio et al. 2003", "Conneau et al. 2018")
    seconds = 25

    def measure(self, seed: int, effort: Effort, record: Record) -> None:
        text = english()
        cut = len(text) * 9 // 10
        batch = partial(segments, text=text[:cut])
        train, test = (
            segments(generator_of(seed, name), part, effort.pick(400, 150))
            for name, part in (("probe", text[:cut]), ("test", text[cut:]))
        )
        for name in (RNN, LSTM, WINDOW):
            seeded(seed, "weights")
            model = build(name)
            fit_toy(model, batch, language_loss, steps=effort.pick(400, 60), rate=5e-3, seed=seed)
            x, test_x = (states(model, part["ids"]) for part in (train, test))
            distances = effort.pick(13, 9)
            for k, value in enumerate(effects(model, test["ids"], distances, generator_of(seed, "replaced"))):
                record("effect", name, k, value)
            for k in range(distances):
                y, test_y = (part["ids"][:, : LENGTH - k] for part in (train, test))
                last = slice(LENGTH // 2 - k, None)  # the same states for all k
                found = probe(
                    x[:, LENGTH // 2 :].flatten(0, 1), y[:, last].flatten(),
                    test_x[:, LENGTH // 2 :].flatten(0, 1), test_y[:, last].flatten(),
                )  # fmt: skip
                record("probe", name, k, found)
            with torch.no_grad():
                loss = language_loss(model, test)
            record("nll", "nll", name, float(loss.nll / loss.count))

    def judge(self, results: Results) -> Verdict:
        outside = {name: results.values("effect", name, HISTORY) for name in (RNN, WINDOW)}
        depends = above(outside[RNN], outside[WINDOW], by=0.001)
        far = max(float(k) for k in results.xs("effect", RNN))
        return Verdict(
            decide(not depends, depends),
            Text(
                "Replacing the first character outside of the window, {first:.0f} places before, changes the "
                "prediction of the RNN by {rnn:.3f}, of the LSTM by {lstm:.3f}, of the Markov model by {window:.3f}; "
                "{far:.0f} places before by {rnn_far:.1g}, {lstm_far:.1g} and {window_far:.1g}. A linear probe reads "
                "that first character with an accuracy of {rnn_probe:.0%}, {lstm_probe:.0%} and {window_probe:.0%}.",
                "替换窗口外的第一个字符（往前 {first:.0f} 个），RNN 的预测改变 {rnn:.3f}，LSTM 改变 {lstm:.3f}，"
                "马尔可夫模型改变 {window:.3f}；往前 {far:.0f} 个字符时分别为 {rnn_far:.1g}、{lstm_far:.1g} 和 "
                "{window_far:.1g}。线性探针读出这第一个字符的准确率为 {rnn_probe:.0%}、{lstm_probe:.0%} 和 "
                "{window_probe:.0%}。",
            ),
            {"first": HISTORY, "far": far}
            | {name.lower(): results.mean("effect", name, HISTORY) for name in (RNN, LSTM, WINDOW)}
            | {f"{name.lower()}_far": results.mean("effect", name, far) for name in (RNN, LSTM, WINDOW)}
            | {f"{name.lower()}_probe": results.mean("probe", name, HISTORY) for name in (RNN, LSTM, WINDOW)},
        )
