"""Recurrent decoders: each predicts token t from a state s and, except for the first one, a context c of the source.

    no attention    s_t = f(s_{t-1}, y_{t-1})                                      Sutskever et al. 2014
    Bahdanau        c_t = attend(s_{t-1}),   s_t = f(s_{t-1}, y_{t-1}, c_t)        Bahdanau et al. 2014, A.2.2
                    t_t = maxout(U_o s_t + V_o y_{t-1} + C_o c_t)
    Luong           s_t = f(s_{t-1}, y_{t-1}),   c_t = attend(s_t)                 Luong et al. 2015, section 3
                    a_t = tanh(W_c [c_t; s_t])                                     equation 5
    input feeding   s_t = f(s_{t-1}, y_{t-1}, a_{t-1}), otherwise as Luong         section 3.3
    previous query  c_t = attend(s_{t-1}), otherwise as Luong or input feeding

f is a stack of recurrent layers, s the h of its top layer. Bahdanau's decoder attends before its state changes, Luong's
after. Luong's decoder without input feeding computes all states of a target with one call of the fused kernel, and all
contexts with one product. The other two compute one token after the other; what depends on the tokens alone is computed
for all of them beforehand.

B sentences, W hypotheses (1 in training), S source, T target, E embedding, D hidden, M memory, G gates.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from regard.attention.recurrent_attention import AttentionOutput, SourceAttention, SourceMemory
from regard.layers.recurrent import Hidden, RecurrentStack


@dataclass(frozen=True)
class RecurrentDecoderState:
    """State between two tokens: that of each layer, (B, W, D) each; the source; and, for input feeding, a_{t-1}."""

    hidden: list[Hidden]
    memory: SourceMemory | None
    input_feed: Tensor | None = None
    position: int = 0

    def reorder(self, parents: Tensor) -> "RecurrentDecoderState":
        def gather(x: Tensor) -> Tensor:
            return x.gather(1, parents[:, :, None].expand(-1, -1, x.size(2)))

        hidden = [tuple(gather(tensor) for tensor in layer) for layer in self.hidden]
        return replace(self, hidden=hidden, input_feed=None if self.input_feed is None else gather(self.input_feed))

    def keep(self, sentences: Tensor) -> "RecurrentDecoderState":
        hidden = [tuple(tensor.index_select(0, sentences) for tensor in layer) for layer in self.hidden]
        memory = None if self.memory is None else self.memory.keep(sentences)
        input_feed = None if self.input_feed is None else self.input_feed.index_select(0, sentences)
        return RecurrentDecoderState(hidden, memory, input_feed, self.position)

    @property
    def top(self) -> Tensor:
        """s, the h of the top layer (B, W, D)."""
        return self.hidden[-1][0]


@dataclass(frozen=True)
class DecoderOutput:
    """The vectors from which the next tokens are predicted (B, T, width), and the output of the attention."""

    x: Tensor
    attention: AttentionOutput | None = None


class NoAttentionDecoder(nn.Module):
    """A decoder without attention: the source is in its initial state only."""

    def __init__(self, stack: RecurrentStack) -> None:
        super().__init__()
        self.stack, self.width = stack, stack.output_size

    def initial_state(self, hidden: list[Hidden], memory: Tensor, lengths: Tensor) -> RecurrentDecoderState:
        """hidden (B, 1, D) of each layer, memory (B, S, M) of sentences of these lengths (B,)."""
        return RecurrentDecoderState(hidden, None)

    def forward(self, words: Tensor, state: RecurrentDecoderState) -> DecoderOutput:
        """All tokens of the target at once, (B, T, E)."""
        return DecoderOutput(self.states(words, state))

    def step(self, words: Tensor, state: RecurrentDecoderState) -> tuple[DecoderOutput, RecurrentDecoderState]:
        """The last token of each hypothesis, (B, W, E)."""
        state = self.advance(self.stack.inputs(words), state)
        return DecoderOutput(state.top), state

    def states(self, words: Tensor, state: RecurrentDecoderState) -> Tensor:
        """s_1 ... s_T (B, T, D) by one call of the fused kernel."""
        return self.stack(words, hidden=[tuple(tensor[:, 0] for tensor in layer) for layer in state.hidden])[0]

    def advance(self, inputs: Tensor, state: RecurrentDecoderState) -> RecurrentDecoderState:
        """The state after one more token, from W y + b (B, W, G D)."""
        return replace(state, hidden=self.stack.step(inputs, state.hidden), position=state.position + 1)


Query = Callable[[Tensor, Tensor], Tensor]
"""The query of an attention, from the states before and after a token, (B, T, D) each."""


def previous_state(before: Tensor, after: Tensor) -> Tensor:
    """s_{t-1}, as in Bahdanau's decoder."""
    return before


def current_state(before: Tensor, after: Tensor) -> Tensor:
    """s_t, as in Luong's decoder."""
    return after


QUERIES: dict[str, Query] = {"previous": previous_state, "current": current_state}


class LuongDecoder(NoAttentionDecoder):
    """Attention of the new state; state and context are combined to the attentional vector a_t.

    `query` may choose the previous state instead; nothing else changes.
    """

    def __init__(
        self, stack: RecurrentStack, source_attention: SourceAttention, memory_size: int, query: Query = current_state
    ) -> None:
        super().__init__(stack)
        self.source_attention, self.query = source_attention, query
        self.combine = glorot(memory_size + stack.output_size, stack.output_size, bias=False)

    def initial_state(self, hidden: list[Hidden], memory: Tensor, lengths: Tensor) -> RecurrentDecoderState:
        return RecurrentDecoderState(hidden, self.source_attention.prepare(memory, lengths))

    def forward(self, words: Tensor, state: RecurrentDecoderState) -> DecoderOutput:
        positions = torch.arange(words.size(1), device=words.device)
        s = self.states(words, state)  # (B, T, D)
        before = torch.cat([state.top.to(s.dtype), s[:, :-1]], dim=1)
        return DecoderOutput(*self.attend(before, s, state, positions))

    def step(self, words: Tensor, state: RecurrentDecoderState) -> tuple[DecoderOutput, RecurrentDecoderState]:
        after = self.advance(self.stack.inputs(words), state)
        return DecoderOutput(*self.attend(state.top, after.top, after, state.position)), after

    def attend(
        self, before: Tensor, s: Tensor, state: RecurrentDecoderState, positions: int | Tensor
    ) -> tuple[Tensor, AttentionOutput]:
        """a_t = tanh(W_c [c_t; s_t]) of states s and those before them, (B, T, D) each, at these target positions, and
        the attention with c_t."""
        attention = self.source_attention(self.query(before, s), state.memory, positions)
        return self.combine(torch.cat([attention.context, s], dim=-1)).tanh(), attention


class InputFeedingDecoder(LuongDecoder):
    """Luong's decoder with a_{t-1} as an input beside y_{t-1}: it knows its earlier attention."""

    def __init__(
        self, stack: RecurrentStack, source_attention: SourceAttention, memory_size: int, query: Query = current_state
    ) -> None:
        super().__init__(stack, source_attention, memory_size, query)
        self.feed = glorot(self.width, stack.gate_size, bias=False)

    def initial_state(self, hidden: list[Hidden], memory: Tensor, lengths: Tensor) -> RecurrentDecoderState:
        zeros = hidden[0][0].new_zeros(memory.size(0), 1, self.width)
        return replace(super().initial_state(hidden, memory, lengths), input_feed=zeros)

    def forward(self, words: Tensor, state: RecurrentDecoderState) -> DecoderOutput:
        vectors, outputs = [], []
        for inputs in self.stack.inputs(words).split(1, dim=1):
            a, attention, state = self.move(inputs, state)
            vectors.append(a)
            outputs.append(attention)
        return DecoderOutput(torch.cat(vectors, dim=1), AttentionOutput.concatenate(outputs))

    def step(self, words: Tensor, state: RecurrentDecoderState) -> tuple[DecoderOutput, RecurrentDecoderState]:
        a, attention, state = self.move(self.stack.inputs(words), state)
        return DecoderOutput(a, attention), state

    def move(
        self, inputs: Tensor, state: RecurrentDecoderState
    ) -> tuple[Tensor, AttentionOutput, RecurrentDecoderState]:
        """a_t, the attention and the state after one more token, from W y + b (B, W, G D)."""
        after = self.advance(inputs + self.feed(state.input_feed), state)
        a, attention = self.attend(state.top, after.top, after, state.position)
        return a, attention, replace(after, input_feed=a)


class BahdanauDecoder(NoAttentionDecoder):
    """Attention of the previous state; the context is an input beside the token.

    The next token is predicted from the new state s_t as in equation 4 of the paper; its appendix writes s_{t-1}. The
    maxout layer has the size of an embedding, which a tied output matrix needs; in the paper it is 500, embeddings 620.
    """

    def __init__(
        self, stack: RecurrentStack, source_attention: SourceAttention, memory_size: int, d_embedding: int
    ) -> None:
        super().__init__(stack)
        self.source_attention, self.width = source_attention, d_embedding
        self.context = glorot(memory_size, stack.gate_size, bias=False)
        self.from_state = glorot(stack.output_size, 2 * d_embedding)
        self.from_word = glorot(d_embedding, 2 * d_embedding, bias=False)
        self.from_context = glorot(memory_size, 2 * d_embedding, bias=False)

    def initial_state(self, hidden: list[Hidden], memory: Tensor, lengths: Tensor) -> RecurrentDecoderState:
        return RecurrentDecoderState(hidden, self.source_attention.prepare(memory, lengths))

    def forward(self, words: Tensor, state: RecurrentDecoderState) -> DecoderOutput:
        states, outputs = [], []
        for inputs in self.stack.inputs(words).split(1, dim=1):
            attention, state = self.move(inputs, state)
            states.append(state.top)
            outputs.append(attention)
        return self.maxout(torch.cat(states, dim=1), words, AttentionOutput.concatenate(outputs))

    def step(self, words: Tensor, state: RecurrentDecoderState) -> tuple[DecoderOutput, RecurrentDecoderState]:
        attention, after = self.move(self.stack.inputs(words), state)
        return self.maxout(after.top, words, attention), after

    def move(self, inputs: Tensor, state: RecurrentDecoderState) -> tuple[AttentionOutput, RecurrentDecoderState]:
        """The attention and the state after one more token, from W y + b (B, W, G D)."""
        attention = self.source_attention(state.top, state.memory, state.position)
        return attention, self.advance(inputs + self.context(attention.context), state)

    def maxout(self, s: Tensor, words: Tensor, attention: AttentionOutput) -> DecoderOutput:
        """t = max over pairs of U_o s + V_o y + C_o c (Goodfellow et al. 2013), of states and tokens (B, T, *)."""
        pairs = self.from_state(s) + self.from_word(words) + self.from_context(attention.context)
        return DecoderOutput(pairs.unflatten(-1, (-1, 2)).amax(dim=-1), attention)


def glorot(inputs: int, outputs: int, bias: bool = True) -> nn.Linear:
    """A linear layer as of Glorot & Bengio 2010: weights uniform in +-sqrt(6 / (inputs + outputs)), bias zero."""
    linear = nn.Linear(inputs, outputs, bias)
    nn.init.xavier_uniform_(linear.weight)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear
