"""A task in one file: the letter of a word that is last in the alphabet. `REGARD_PLUGINS` adds the file to `regard`.

    {"word": "banana"} -> {"letter": "n", "probability": 0.98}        in a file: banana TAB n

The model is an embedding, attention pooling over the letters of a word, and a linear layer:

    a_i = softmax_i(w h_i)      p(letter) = softmax(W sum_i a_i h_i + b)

B words, T letters of the longest, D model, O letters.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.layouts import Padded, Tokens
from regard.config import Settings
from regard.data.batch import Batch
from regard.data.fields import Fields
from regard.data.inputs import Input, InputEncoder, Inputs
from regard.data.planning import Batches, Budget
from regard.data.records import Record
from regard.data.settings import DataSettings
from regard.data.sources import Source
from regard.data.store import Store
from regard.losses.crossentropy import Loss
from regard.metrics.classification import accuracy
from regard.metrics.score import Score
from regard.models.settings import ModelSettings
from regard.recipe import Recipe
from regard.runtime import World
from regard.tasks.base import Example, Prediction, Task, ValidationData, share_of
from regard.tasks.inputs import chunk_examples
from regard.tasks.registry import register
from regard.training.task import Validation
from regard.viz.content import Description
from regard.viz.report import AttentionMap

LETTERS = 128


def read_word(record: Record, source: Source) -> Example:
    word, letter = (record.get(column) for column in (1, 2))
    return {"word": word, "letter": letter}


WORDS = Fields(
    inputs=("word",), target="letter", read=read_word, required=("word",), json_form='{"word": "banana"}',
    endings={".tsv": "tsv"}, headed_tables=False,
)  # fmt: skip


class LetterModelSettings(ModelSettings):
    """Settings of the model."""

    kind: Literal["pooled"] = "pooled"
    d_model: int = 32


class NoSettings(Settings):
    """A word is read letter by letter: there is nothing to set."""


class LetterRecipe(Recipe):
    defaults: ClassVar[dict[str, object]] = {
        "task": "largest-letter", "training.monitor": "accuracy", "training.label_smoothing": 0.0,
    }  # fmt: skip
    monitors = ("loss", "accuracy")
    fields: ClassVar[Fields] = WORDS
    data: DataSettings
    text: NoSettings = NoSettings()
    model: LetterModelSettings = LetterModelSettings()


class LetterModel(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(LETTERS, d_model)
        self.score = nn.Linear(d_model, 1)
        self.output = nn.Linear(d_model, LETTERS)

    def attention(self, tokens: Tokens) -> tuple[Tensor, Tensor]:
        h = self.embedding(tokens.ids)  # (B, T, D)
        assert isinstance(tokens.layout, Padded)
        padding = torch.arange(tokens.layout.size, device=h.device) >= tokens.layout.lengths[:, None]  # (B, T)
        return h, self.score(h)[..., 0].masked_fill(padding, -torch.inf).softmax(dim=-1)

    def forward(self, tokens: Tokens) -> Tensor:
        h, weights = self.attention(tokens)
        return self.output((weights[..., None] * h).sum(dim=1))  # (B, O)


@register
class LargestLetter(Task[LetterRecipe, Inputs]):
    name = "largest-letter"
    title = "the letter of a word that is last in the alphabet"
    recipe_type = LetterRecipe
    comparable = True

    # ---- data -------------------------------------------------------------------------------------------------------

    def encode(self, example: Example) -> list[Input]:
        letters = list(example["word"].encode())
        return [Input(letters, [0] * len(letters), [ord(example.get("letter", "a"))])]

    def encoder(self, filtered: bool) -> InputEncoder:
        return InputEncoder(self.encode, grouped=False, identity="letters")

    def view(self, store: Store) -> Inputs:
        return Inputs(store, per_token=False)

    def batches(self, store: Inputs, world: World) -> Batches:
        budget = Budget(self.recipe.training.batch_tokens, self.recipe.training.batch_examples)
        return Batches(store, budget, self.recipe.runtime.seed, share_of(self.recipe.training, world))

    # ---- training ---------------------------------------------------------------------------------------------------

    def new_model(self) -> nn.Module:
        return LetterModel(self.recipe.model.d_model)

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        letters = batch.labels[:, 0].long()
        nll = F.cross_entropy(model(batch.source), letters, reduction="sum")
        return Loss(nll, (letters >= 0).sum(), nll.detach())

    def validate(self, model: nn.Module, data: ValidationData[Inputs]) -> Validation:
        everything = data.store.pad(np.arange(len(data.store)))
        loss = self.loss(model, everything)
        predictions = list(self.predict(model, data.examples))
        scores = {name: score.value for name, score in self.score(data.examples, predictions).items()}
        samples = [self.describe(*pair).lines() for pair in zip(data.examples[:2], predictions, strict=False)]
        return Validation({"loss": float(loss.nll / loss.count), **scores}, samples)

    # ---- use --------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def predict(self, engine: nn.Module, examples: Iterable[Example]) -> Iterator[Prediction]:
        for chunk in chunk_examples(examples):
            batch = Inputs.of(map(self.encode, chunk), per_token=False).pad(np.arange(len(chunk)))
            for p in engine(batch.source).softmax(dim=-1):
                yield {"letter": chr(int(p.argmax())), "probability": float(p.max())}

    def score(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, Score]:
        return {"accuracy": accuracy([item["letter"] for item in predictions], [item["letter"] for item in examples])}

    def correct(self, example: Example, prediction: Prediction) -> dict[str, float]:
        return {"accuracy": float(example["letter"] == prediction["letter"])}

    def describe(self, example: Example, prediction: Prediction) -> Description:
        return Description(example["word"], [prediction["letter"]], example.get("letter", ""))

    def attention(self, model: nn.Module, example: Example, prediction: Prediction) -> list[AttentionMap]:
        assert isinstance(model, LetterModel)
        batch = Inputs.of([self.encode(example)], per_token=False).pad(np.arange(1))
        _, weights = model.attention(batch.source)
        letters = [chr(byte) for byte in example["word"].encode()]
        return [AttentionMap("pooling", ["pooled"], letters, weights[:, None, None].detach().numpy())]
