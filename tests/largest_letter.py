"""A task in one file: the letter of a word that is last in the alphabet. `REGARD_PLUGINS` adds the file to `regard`.

    {"word": "banana"} -> {"letter": "n", "probability": 0.98}        in a table: columns word and letter

The model is an embedding, attention pooling over the letters of a word, and a linear layer:

    a_i = softmax_i(w h_i)      p(letter) = softmax(W sum_i a_i h_i + b)

B words, T letters of the longest, D model, O letters.
"""

from collections.abc import Iterable, Iterator
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard import register, tasks

LETTERS = 128
WORDS = tasks.table_fields({"word": "the word", "letter": "its last letter in the alphabet"}, target="letter")


class LetterModelSettings(tasks.ModelSettings):
    """Settings of the model."""

    kind: Literal["pooled"] = "pooled"
    d_model: int = 32


class LetterRecipe(tasks.Recipe):
    defaults: ClassVar[dict[str, object]] = {
        "task": "largest-letter", "training.monitor": "accuracy", "training.label_smoothing": 0.0,
    }  # fmt: skip
    monitors = ("loss", "accuracy")
    fields: ClassVar[tasks.Fields] = WORDS
    model: LetterModelSettings = LetterModelSettings()


class LetterModel(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(LETTERS, d_model)
        self.score = nn.Linear(d_model, 1)
        self.output = nn.Linear(d_model, LETTERS)

    def attention(self, tokens: tasks.Tokens) -> tuple[Tensor, Tensor]:
        h = self.embedding(tokens.ids)  # (B, T, D)
        assert isinstance(tokens.layout, tasks.Padded)
        padding = torch.arange(tokens.layout.size, device=h.device) >= tokens.layout.lengths[:, None]  # (B, T)
        return h, self.score(h)[..., 0].masked_fill(padding, -torch.inf).softmax(dim=-1)

    def forward(self, tokens: tasks.Tokens) -> Tensor:
        h, weights = self.attention(tokens)
        return self.output((weights[..., None] * h).sum(dim=1))  # (B, O)


@register
class LargestLetter(tasks.Task[LetterRecipe, tasks.Inputs]):
    name = "largest-letter"
    title = "the letter of a word that is last in the alphabet"
    recipe_type = LetterRecipe

    # ---- data -------------------------------------------------------------------------------------------------------

    def encode(self, example: tasks.Example) -> list[tasks.Input]:
        letters = list(example["word"].encode())
        return [tasks.Input(letters, [0] * len(letters), [ord(example.get("letter", "a"))])]

    def encoder(self, filtered: bool) -> tasks.InputEncoder:
        return tasks.InputEncoder(self.encode, grouped=False, identity="letters")

    # ---- training ---------------------------------------------------------------------------------------------------

    def new_model(self) -> nn.Module:
        return LetterModel(self.recipe.model.d_model)

    def loss(self, model: nn.Module, batch: tasks.Batch) -> tasks.Loss:
        letters = batch.labels[:, 0].long()
        nll = F.cross_entropy(model(batch.source), letters, reduction="sum")
        return tasks.Loss(nll, (letters >= 0).sum(), nll.detach())

    # ---- use --------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def predict(self, engine: nn.Module, examples: Iterable[tasks.Example]) -> Iterator[tasks.Prediction]:
        for chunk in tasks.chunk_examples(examples):
            for p in engine(tasks.pad_examples(self.encode, chunk, engine).source).softmax(dim=-1):
                yield {"letter": chr(int(p.argmax())), "probability": float(p.max())}

    def correct(self, example: tasks.Example, prediction: tasks.Prediction) -> dict[str, float]:
        return {"accuracy": float(example["letter"] == prediction["letter"])}

    def describe(self, example: tasks.Example, prediction: tasks.Prediction) -> tasks.Description:
        return tasks.Description(example["word"], [prediction["letter"]], example.get("letter", ""))

    def attention(
        self, model: nn.Module, example: tasks.Example, prediction: tasks.Prediction
    ) -> list[tasks.AttentionMap]:
        assert isinstance(model, LetterModel)
        _, weights = model.attention(tasks.pad_examples(self.encode, [example], model).source)
        letters = [chr(byte) for byte in example["word"].encode()]
        return [tasks.AttentionMap("pooling", ["pooled"], letters, weights[:, None, None].detach().cpu().numpy())]
