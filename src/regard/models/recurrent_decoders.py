"""Recurrent decoders: each writes word t from a state s and, but for the first of them, a look c at the source.

    Plain          s_t = f(s_{t-1}, y_{t-1})                                      Sutskever et al. 2014
    Bahdanau       c_t = look(s_{t-1}),   s_t = f(s_{t-1}, y_{t-1}, c_t)          Bahdanau et al. 2014, A.2.2
                   t_t = maxout(U_o s_t + V_o y_{t-1} + C_o c_t)
    Luong          s_t = f(s_{t-1}, y_{t-1}),   c_t = look(s_t)                   Luong et al. 2015, section 3
                   a_t = tanh(W_c [c_t; s_t])                                     equation 5
    InputFeeding   s_t = f(s_{t-1}, y_{t-1}, a_{t-1}), and the rest as Luong      section 3.3

f is a stack of recurrent layers, s its top layer's h. Bahdanau's decoder looks before it moves, Luong's after; so where
nothing is fed back, all of a target's states come from one run of the fused kernel and all looks are one product. The
other two must take one word after the other; what depends on the words alone is computed for all of them beforehand.

B sentences, W hypotheses (1 in training), S source, T target, E embedding, D hidden, M memory, G gates.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from regard.attention.glance import Glance, Look, Memory
from regard.attention.hard import Choices
from regard.layers.recurrent import Hidden, Stepping


@dataclass(frozen=True)
class RecurrentState:
    """Between two words: what each layer keeps, (B, W, D) each; the source; and where it is fed back, a_{t-1}."""

    hidden: list[Hidden]
    memory: Memory | None
    fed: Tensor | None = None
    place: int = 0

    def reorder(self, parents: Tensor) -> "RecurrentState":
        """parents (B, W'): hypothesis w of sentence b continues hypothesis parents[b, w]; the source is shared."""

        def moved(x: Tensor) -> Tensor:
            return x.gather(1, parents[:, :, None].expand(-1, -1, x.size(2)))

        hidden = [tuple(moved(part) for part in layer) for layer in self.hidden]
        return replace(self, hidden=hidden, fed=None if self.fed is None else moved(self.fed))

    def keep(self, sentences: Tensor) -> "RecurrentState":
        """Only these sentences go on."""
        hidden = [tuple(part.index_select(0, sentences) for part in layer) for layer in self.hidden]
        memory = None if self.memory is None else self.memory.keep(sentences)
        fed = None if self.fed is None else self.fed.index_select(0, sentences)
        return RecurrentState(hidden, memory, fed, self.place)

    @property
    def top(self) -> Tensor:
        """s, the h of the top layer (B, W, D)."""
        return self.hidden[-1][0]


@dataclass(frozen=True)
class Written:
    """For each position what its next word is read from (B, T, width), and where the decoder looked meanwhile."""

    x: Tensor
    look: Look | None = None


class Plain(nn.Module):
    """No attention: all that is known of the source is the state the decoder begins with."""

    def __init__(self, stack: Stepping) -> None:
        super().__init__()
        self.stack, self.width = stack, stack.output_size

    def begin(self, hidden: list[Hidden], memory: Tensor, lengths: Tensor) -> RecurrentState:
        """hidden (B, 1, D) for each layer, memory (B, S, M) of sentences of these lengths."""
        return RecurrentState(hidden, None)

    def forward(self, words: Tensor, state: RecurrentState) -> Written:
        """All words of the target at once, (B, T, E)."""
        return Written(self.states(words, state))

    def step(self, words: Tensor, state: RecurrentState) -> tuple[Written, RecurrentState]:
        """The newest word of each hypothesis, (B, W, E)."""
        state = self.advance(self.stack.inputs(words), state)
        return Written(state.top), state

    def states(self, words: Tensor, state: RecurrentState) -> Tensor:
        """s_1 ... s_T (B, T, D) by one run of the fused kernel."""
        return self.stack(words, hidden=[tuple(part[:, 0] for part in layer) for layer in state.hidden])[0]

    def advance(self, inputs: Tensor, state: RecurrentState) -> RecurrentState:
        """One word further, from W y + b (B, W, G D)."""
        return replace(state, hidden=self.stack.step(inputs, state.hidden), place=state.place + 1)


class Luong(Plain):
    """The state that has read the newest word looks at the source; both are joined to an attentional vector a_t."""

    def __init__(self, stack: Stepping, glance: Glance, memory_size: int) -> None:
        super().__init__(stack)
        self.glance = glance
        self.join = glorot(memory_size + stack.output_size, stack.output_size, bias=False)

    def begin(self, hidden: list[Hidden], memory: Tensor, lengths: Tensor) -> RecurrentState:
        return RecurrentState(hidden, self.glance.remember(memory, lengths))

    def forward(self, words: Tensor, state: RecurrentState) -> Written:
        return Written(*self.look(self.states(words, state), state, torch.arange(words.size(1), device=words.device)))

    def step(self, words: Tensor, state: RecurrentState) -> tuple[Written, RecurrentState]:
        after = self.advance(self.stack.inputs(words), state)
        return Written(*self.look(after.top, after, state.place)), after

    def look(self, s: Tensor, state: RecurrentState, places: int | Tensor) -> tuple[Tensor, Look]:
        """a_t = tanh(W_c [c_t; s_t]) of states s (B, T, D) at these places of the target, and the look c_t is from."""
        look = self.glance(s, state.memory, places)
        return self.join(torch.cat([look.context, s], dim=-1)).tanh(), look


class InputFeeding(Luong):
    """a_{t-1} is read together with y_{t-1}: the decoder knows where it looked before."""

    def __init__(self, stack: Stepping, glance: Glance, memory_size: int) -> None:
        super().__init__(stack, glance, memory_size)
        self.feed = glorot(self.width, stack.gate_size, bias=False)

    def begin(self, hidden: list[Hidden], memory: Tensor, lengths: Tensor) -> RecurrentState:
        nothing = hidden[0][0].new_zeros(memory.size(0), 1, self.width)
        return replace(super().begin(hidden, memory, lengths), fed=nothing)

    def forward(self, words: Tensor, state: RecurrentState) -> Written:
        vectors, looks = [], []
        for inputs in self.stack.inputs(words).split(1, dim=1):
            a, look, state = self.move(inputs, state)
            vectors.append(a)
            looks.append(look)
        return Written(torch.cat(vectors, dim=1), joined(looks))

    def step(self, words: Tensor, state: RecurrentState) -> tuple[Written, RecurrentState]:
        a, look, state = self.move(self.stack.inputs(words), state)
        return Written(a, look), state

    def move(self, inputs: Tensor, state: RecurrentState) -> tuple[Tensor, Look, RecurrentState]:
        after = self.advance(inputs + self.feed(state.fed), state)
        a, look = self.look(after.top, after, state.place)
        return a, look, replace(after, fed=a)


class Bahdanau(Plain):
    """The state before the newest word was read looks at the source; what it sees is read together with the word.

    The next word is read from the new state s_t as in equation 4 of the paper; its appendix writes s_{t-1}. The maxout
    layer is as wide as an embedding, which a tied output matrix needs; the paper's had 500 beside 620.
    """

    def __init__(self, stack: Stepping, glance: Glance, memory_size: int, d_embedding: int) -> None:
        super().__init__(stack)
        self.glance, self.width = glance, d_embedding
        self.context = glorot(memory_size, stack.gate_size, bias=False)
        self.from_state = glorot(stack.output_size, 2 * d_embedding)
        self.from_word = glorot(d_embedding, 2 * d_embedding, bias=False)
        self.from_context = glorot(memory_size, 2 * d_embedding, bias=False)

    def begin(self, hidden: list[Hidden], memory: Tensor, lengths: Tensor) -> RecurrentState:
        return RecurrentState(hidden, self.glance.remember(memory, lengths))

    def forward(self, words: Tensor, state: RecurrentState) -> Written:
        states, looks = [], []
        for inputs in self.stack.inputs(words).split(1, dim=1):
            look, state = self.move(inputs, state)
            states.append(state.top)
            looks.append(look)
        return self.read(torch.cat(states, dim=1), words, joined(looks))

    def step(self, words: Tensor, state: RecurrentState) -> tuple[Written, RecurrentState]:
        look, after = self.move(self.stack.inputs(words), state)
        return self.read(after.top, words, look), after

    def move(self, inputs: Tensor, state: RecurrentState) -> tuple[Look, RecurrentState]:
        look = self.glance(state.top, state.memory, state.place)
        return look, self.advance(inputs + self.context(look.context), state)

    def read(self, s: Tensor, words: Tensor, look: Look) -> Written:
        """t = max over pairs of U_o s + V_o y + C_o c (Goodfellow et al. 2013), of states and words (B, T, *)."""
        pairs = self.from_state(s) + self.from_word(words) + self.from_context(look.context)
        return Written(pairs.unflatten(-1, (-1, 2)).amax(dim=-1), look)


def joined(looks: Sequence[Look]) -> Look:
    """Looks at one word after the other as one look at all of them."""
    context, weights = (torch.cat([getattr(look, name) for look in looks], dim=1) for name in ("context", "weights"))
    drawn = [look.choices for look in looks if look.choices is not None]
    return Look(context, weights, Choices.join(drawn) if drawn else None)


def glorot(inputs: int, outputs: int, bias: bool = True) -> nn.Linear:
    """Glorot & Bengio 2010: weights uniform in +-sqrt(6 / (inputs + outputs)); a bias is zero."""
    linear = nn.Linear(inputs, outputs, bias)
    nn.init.xavier_uniform_(linear.weight)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear
