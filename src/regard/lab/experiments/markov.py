"""Is an RNN a Markov process? Its state is one, but its output may depend on all earlier tokens.

    Markov model of order tau    p(x_{t+1} | x_{t-tau+1}, .., x_t)
    RNN                          p(x_{t+1} | h_t),   h_t = f(h_{t-1}, x_t)

h_t depends on h_{t-1} and x_t alone, so the sequence of states is a Markov chain. But h_t is computed from all tokens
x_1 .. x_t, so the tokens are not one. (A Markov decision process is something else: it has actions and rewards.)

Three language models of characters are trained on English: an RNN, an LSTM, and Bengio's network of the last five
characters. Two numbers tell how far each looks back:

    effect    the character k places before is replaced: how much does the prediction change? (total variation distance)
    probe     a linear map reads the character k places before from h_t. The network of five characters can only guess
              those outside of its window, from their neighbours.

In English few predictions need a far character, and a short training learns none of them. So the same models also learn
a language that needs one: the first character is one of four, all others are noise, and the first is to be named at
every place. A model that knows five characters can only guess beyond them.
"""

from functools import cache, partial

import torch
from torch import Tensor, nn

from regard.lab.english import pages, words_of
from regard.lab.experiment import Effort, Record, Results, Verdict, above, decide, equivalent, paired
from regard.lab.toys import IGNORE, ToyTensors, fit_toy, generator_of, seeded
from regard.losses.crossentropy import Loss, cross_entropy
from regard.models.language_markov import MarkovLanguageModel, MarkovLanguageSettings
from regard.models.language_recurrent import RecurrentLanguageModel, RecurrentLanguageSettings

CHARACTERS = " abcdefghijklmnopqrstuvwxyz'"
HISTORY, WIDTH, LENGTH = 5, 64, 32
RNN, LSTM, WINDOW = "RNN", "LSTM", "window"
KEPT, FAR = 4, 24
"""Kinds of first characters, and the distance at which the verdict asks for them."""
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


def first_characters(generator: torch.Generator, size: int = 32) -> ToyTensors:
    """A first character of KEPT kinds, then noise (B, T); the label at every place is the first character."""
    ids = torch.randint(KEPT, len(CHARACTERS), (size, LENGTH), generator=generator)
    ids[:, 0] = torch.randint(KEPT, (size,), generator=generator)
    return {"ids": ids, "labels": ids[:, :1].expand(-1, LENGTH)}


def build(name: str) -> LanguageModel:
    """A language model by its name."""
    if name == WINDOW:
        window = MarkovLanguageSettings(history=HISTORY, d_model=WIDTH, d_embedding=16, dropout=0.0, tie="none")
        return MarkovLanguageModel(window, len(CHARACTERS))
    rates = dict.fromkeys(("input_dropout", "hidden_dropout", "output_dropout", "word_dropout"), 0.0)
    values = {"kind": name.lower(), "d_model": WIDTH, "layers": 1, "tie": "none", **rates}
    return RecurrentLanguageModel(RecurrentLanguageSettings.model_validate(values), len(CHARACTERS))


def language_loss(model: nn.Module, batch: ToyTensors) -> Loss:
    """Cross-entropy of the next character."""
    return cross_entropy(model(batch["ids"])[0].logits(), batch["labels"], ignore=IGNORE)


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


def measure(seed: int, effort: Effort, record: Record) -> None:
    """Train an RNN, an LSTM and a window model on English text; record how far back each one looks and its loss."""
    text, half = english(), LENGTH // 2
    cut = len(text) * 9 // 10
    train, test = (
        segments(generator_of(seed, name), part, effort.pick(400, 150))
        for name, part in (("probe", text[:cut]), ("test", text[cut:]))
    )
    for name in (RNN, LSTM, WINDOW):
        seeded(seed, "weights")
        model = build(name)
        batch = partial(segments, text=text[:cut])
        fit_toy(model, batch, language_loss, steps=effort.pick(400, 60), rate=5e-3, seed=seed)
        for k, value in enumerate(effects(model, test["ids"], effort.pick(13, 9), generator_of(seed, "replaced"))):
            record("effect", name, k, value)
        with torch.no_grad():
            loss = language_loss(model, test)
            x, test_x = (model(part["ids"])[0].hidden[:, half:].flatten(0, 1) for part in (train, test))
        for k in range(effort.pick(13, 9)):
            y, test_y = (part["ids"][:, half - k : LENGTH - k].flatten() for part in (train, test))
            record("probe", name, k, probe(x, y, test_x, test_y))
        record("nll", "nll", name, float(loss.nll / loss.count))
        seeded(seed, "weights")
        model, kept = build(name), first_characters(generator_of(seed, "first"), 1000)
        fit_toy(model, first_characters, language_loss, steps=effort.pick(300, 200), rate=5e-3, seed=seed)
        with torch.no_grad():
            right = model(kept["ids"])[0].logits().argmax(dim=-1) == kept["labels"]
        for k in (1, 4, 5, 8, 16, FAR):
            record("memory", name, k, float(right[:, k].double().mean()))


def judge(results: Results) -> Verdict:
    """Compare what models know of a first character far outside of the window; and effects in English."""
    rnn, lstm, window = (results.values("memory", name, FAR) for name in (RNN, LSTM, WINDOW))
    depends = paired(rnn, window, by=0.2)
    near, far = (results.values("effect", RNN, k) for k in (HISTORY, results.xs("effect", RNN)[-1]))
    return Verdict(
        decide(equivalent(rnn, window, within=0.1), depends),
        {"far": FAR, "last": float(results.xs("effect", RNN)[-1])},
        {
            "lstm": decide(paired(lstm, window, by=0.2), equivalent(lstm, window, within=0.1)),
            "english": decide(above(near, [0.01]), above([0.001], near)),
            "long": decide(above(far, [0.01]), above([0.01], far)),
        },
    )
