"""A task in one file: the letter of a word that is last in the alphabet. `REGARD_PLUGINS` adds the file to `regard`.

    {"word": "banana"} -> {"letter": "n", "probability": 0.98}        in a table: columns word and letter

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

from regard import register, tasks

LETTERS = 128


def read_word(record: tasks.Record, source: tasks.Source) -> tasks.Example:
    return {name: record.get(source.column(name)) for name in ("word", "letter")}  # type: ignore[arg-type]


WORDS = tasks.Fields(
    inputs=("word",), target="letter", read=read_word, required=("word",), json_form='{"word": "banana"}',
    endings={".csv": "csv", ".tsv": "tsv"}, columns={"word": "the word", "letter": "its last letter in the alphabet"},
)  # fmt: skip


class LetterModelSettings(tasks.ModelSettings):
    """Settings of the model."""

    kind: Literal["pooled"] = "pooled"
    d_model: int = 32


class NoSettings(tasks.Settings):
    """A word is read letter by letter: there is nothing to set."""


class LetterRecipe(tasks.Recipe):
    defaults: ClassVar[dict[str, object]] = {
        "task": "largest-letter", "training.monitor": "accuracy", "training.label_smoothing": 0.0,
    }  # fmt: skip
    monitors = ("loss", "accuracy")
    fields: ClassVar[tasks.Fields] = WORDS
    data: tasks.DataSettings
    text: NoSettings = NoSettings()
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
    comparable = True

    # ---- data -------------------------------------------------------------------------------------------------------

    def encode(self, example: tasks.Example) -> list[tasks.Input]:
        letters = list(example["word"].encode())
        return [tasks.Input(letters, [0] * len(letters), [ord(example.get("letter", "a"))])]

    def encoder(self, filtered: bool) -> tasks.InputEncoder:
        return tasks.InputEncoder(self.encode, grouped=False, identity="letters")

    def view(self, store: tasks.Store) -> tasks.Inputs:
        return tasks.Inputs(store, per_token=False)

    def batches(self, store: tasks.Inputs, world: tasks.World) -> tasks.Batches:
        budget = tasks.Budget(self.recipe.training.batch_tokens, self.recipe.training.batch_examples)
        return tasks.Batches(store, budget, self.recipe.runtime.seed, tasks.share_of(self.recipe.training, world))

    # ---- training ---------------------------------------------------------------------------------------------------

    def new_model(self) -> nn.Module:
        return LetterModel(self.recipe.model.d_model)

    def loss(self, model: nn.Module, batch: tasks.Batch) -> tasks.Loss:
        letters = batch.labels[:, 0].long()
        nll = F.cross_entropy(model(batch.source), letters, reduction="sum")
        return tasks.Loss(nll, (letters >= 0).sum(), nll.detach())

    def validate(self, model: nn.Module, data: tasks.ValidationData[tasks.Inputs]) -> tasks.Validation:
        everything = data.store.pad(np.arange(len(data.store))).to(tasks.device_of(model))
        loss = self.loss(model, everything)
        predictions = list(self.predict(model, data.examples))
        scores = {name: score.value for name, score in self.score(data.examples, predictions).items()}
        samples = [self.describe(*pair).lines() for pair in zip(data.examples[:2], predictions, strict=False)]
        return tasks.Validation({"loss": float(loss.nll / loss.count), **scores}, samples)

    # ---- use --------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def predict(self, engine: nn.Module, examples: Iterable[tasks.Example]) -> Iterator[tasks.Prediction]:
        for chunk in tasks.chunk_examples(examples):
            batch = (
                tasks.Inputs.of(map(self.encode, chunk), per_token=False)
                .pad(np.arange(len(chunk)))
                .to(tasks.device_of(engine))
            )
            for p in engine(batch.source).softmax(dim=-1):
                yield {"letter": chr(int(p.argmax())), "probability": float(p.max())}

    def score(
        self, examples: Sequence[tasks.Example], predictions: Sequence[tasks.Prediction]
    ) -> dict[str, tasks.Score]:
        return {
            "accuracy": tasks.accuracy([item["letter"] for item in predictions], [item["letter"] for item in examples])
        }

    def correct(self, example: tasks.Example, prediction: tasks.Prediction) -> dict[str, float]:
        return {"accuracy": float(example["letter"] == prediction["letter"])}

    def describe(self, example: tasks.Example, prediction: tasks.Prediction) -> tasks.Description:
        return tasks.Description(example["word"], [prediction["letter"]], example.get("letter", ""))

    def attention(
        self, model: nn.Module, example: tasks.Example, prediction: tasks.Prediction
    ) -> list[tasks.AttentionMap]:
        assert isinstance(model, LetterModel)
        batch = tasks.Inputs.of([self.encode(example)], per_token=False).pad(np.arange(1)).to(tasks.device_of(model))
        _, weights = model.attention(batch.source)
        letters = [chr(byte) for byte in example["word"].encode()]
        return [tasks.AttentionMap("pooling", ["pooled"], letters, weights[:, None, None].detach().cpu().numpy())]
