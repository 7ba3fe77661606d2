"""BERT pretraining: masked language modelling and next-sentence prediction (Devlin et al. 2018, section 3.1).

    L = - 1/M sum_m log p(w_m)  -  1/B sum_b log p(next_b)          A.2: the two means are added

    training      inputs and masked tokens are sampled again in every epoch
    scoring       masked tokens are sampled once
    predicting    a text with [MASK] -> the most probable tokens for each [MASK]

A left-to-right model (`model.causal`) predicts each token from those before it instead, and so does its prediction of
a [MASK].

With random negatives, an input of one sentence always gets a second text of another document, so more than half of the
pairs are of two documents. The accuracy of next-sentence prediction is compared with that of always predicting the more
frequent answer. An input without a second text does not count.

B inputs, M masked tokens, V vocabulary; `*` is (B, T) padded or (N,) packed.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import ClassVar, Self

import numpy as np
import torch
import torch.nn.functional as F
from pydantic import model_validator
from torch import Tensor, nn

from regard.config import SettingError, Unused, unless
from regard.data import pretraining as sampling
from regard.data.batch import IGNORE, Batch
from regard.data.encoders import SentenceEncoder
from regard.data.fields import SENTENCES, Fields
from regard.data.hold_out import read_split, report_held_out
from regard.data.inputs import Input, Inputs
from regard.data.planning import groups_by_length
from regard.data.pretraining import Masking, NextTokens, Objective, PretrainingBatches, TokenizedDocuments
from regard.data.settings import DocumentDataSettings
from regard.data.store import Store
from regard.errors import UserError
from regard.files import JsonObject
from regard.losses.crossentropy import Loss
from regard.losses.projected import projected_cross_entropy
from regard.messages import Message, join_messages
from regard.metrics.score import Score, perplexity
from regard.models.bert import BertPretraining, BertSettings
from regard.recipe import Recipe, Rules
from regard.runtime import World
from regard.seeding import rng
from regard.tasks import sizing
from regard.tasks.base import Example, Exchange, Prediction, Report, Task, ValidationData, is_packed, share_of
from regard.tasks.checks import DoctorHooks, ExpectedLoss, entropy, unigram_baseline
from regard.tasks.encoders import TextEncoding, encoder_attention, parse_text
from regard.tasks.inputs import check_count, chunk_examples, copy_tokenizer, require_finite
from regard.tasks.labelled import BERT_TRAINING, TOKENIZER
from regard.text.factory import learning_message, load_masked_tokenizer, train_tokenizer
from regard.text.inputs import MaskedTokenizer, TextInput
from regard.text.settings import BertTextSettings, MaskedTextSettings, TextSettings
from regard.text.tokenizer import Tokenizer
from regard.training.advice import Advice
from regard.training.task import Baseline, Sample, Validation
from regard.viz.content import Block, Description, Shares
from regard.viz.report import AttentionMap
from regard.work import compute_all, recall_groups

MASKING = ("data.masked", "data.masking", "data.whole_words")
"""Settings of masking."""
OBJECTIVES: dict[type[Objective], str] = {Masking: "masked", NextTokens: "next token"}
"""The predicted tokens, in the names of scores."""
NEGATIVE_PAIRS = {
    "random": Message("of two documents"),
    "document": Message("of two places of a document"),
    "swapped": Message("swapped"),
}
"""The pairs in which the second text does not follow the first, in words."""
MAX_RANDOM_NEXT = 0.7
"""Share of the pairs of two documents that is usual; it is 0.5 to 0.57 with inputs of 64 tokens or more."""
BATCH_TOKENS = 8192
"""Tokens, padding included, that are scored or predicted together."""
SAMPLE_TOKENS = (8, 40)
"""Minimum and maximum tokens of a sentence shown as a sample."""
REPORT_SENTENCES = 10
"""Sentences in a report."""


class PretrainingRecipe(Recipe):
    """The recipe of BERT pretraining; the defaults are those of Devlin et al. 2018, section A.2."""

    fields: ClassVar[Fields] = SENTENCES
    defaults: ClassVar[Mapping[str, object]] = BERT_TRAINING | {
        "task": "pretraining",
        "training.max_steps": 1_000_000,
        "training.batch_tokens": 131_072,  # 256 inputs of 512 tokens
        "training.learning_rate": 1e-4,
        "training.warmup": 10_000,
        "training.adam_epsilon": 1e-6,
    }
    rules: ClassVar[Rules] = sizing.pretraining
    monitors = (
        "next_sentence_accuracy", "masked_accuracy", "masked_perplexity", "next_token_accuracy",
        "next_token_perplexity", "loss",
    )  # fmt: skip

    data: DocumentDataSettings = DocumentDataSettings()
    text: MaskedTextSettings = BertTextSettings()
    model: BertSettings = BertSettings()

    @model_validator(mode="after")
    def check_groups(self) -> Self:
        """Check settings of different groups against each other."""
        data, model, training = self.data, self.model, self.training
        if training.monitor == "next_sentence_accuracy" and not data.next_sentence:
            raise SettingError("training.monitor", 'needs `data.next_sentence = true`; otherwise write "loss"')
        if training.monitor.startswith("masked" if model.causal else "next_token"):
            name = "next_token" if model.causal else "masked"
            raise SettingError("training.monitor", f'does not fit model.causal; write "{name}_perplexity"')
        if data.next_sentence and model.segments < 2:
            raise SettingError("model.segments", "data.next_sentence = true needs 2 segments; write 2")
        self.check_length("max_length", "input")
        return self

    def no_effect(self) -> Iterator[Unused]:
        yield "training.r_drop", "translation"
        yield "training.batch_examples", "labelled tasks"
        if isinstance(self.text, TextSettings):
            yield from ((key, "translation") for key in ("text.joint", "text.dropout"))
        yield from unless(not self.model.causal, "model.causal = false", *MASKING)


@dataclass(frozen=True)
class Answers:
    """Results of both objectives on some documents: summed -log p, correct predictions, and number of targets."""

    nll: float = 0.0
    correct: int = 0
    words: int = 0
    next_nll: float = 0.0
    next_correct: int = 0
    inputs: int = 0
    random_next: int = 0
    """Inputs whose second text does not follow the first."""

    def __add__(self, other: "Answers") -> "Answers":
        return Answers(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


def judge(logits: Tensor, labels: Tensor) -> tuple[float, int, int]:
    """-log p of the labels, correct predictions, and number of labels: logits (M, V), labels (M,)."""
    labelled = labels != IGNORE
    nll = F.cross_entropy(logits.float(), labels, ignore_index=IGNORE, reduction="sum")
    return float(nll), int(((logits.argmax(dim=-1) == labels) & labelled).sum()), int(labelled.sum())


def scores_of(
    answers: Answers, objective: type[Objective] = Masking, how: str = "", negatives: str = "random"
) -> list[Score]:
    """Accuracies in percent and the perplexity of the predicted tokens."""
    name, notes = OBJECTIVES[objective], [how] if how else []
    words = join_messages("; ", [Message("{count:,} words", count=answers.words), *notes])
    scores = [
        Score(f"{name} accuracy", 100 * answers.correct / max(1, answers.words), words),
        Score(f"{name} perplexity", perplexity(answers.nll, max(1, answers.words)), words),
    ]
    if answers.inputs:
        share = answers.random_next / answers.inputs
        values = {"count": answers.inputs, "share": share, "kind": NEGATIVE_PAIRS[negatives]}
        pairs = join_messages("; ", [Message("{count:,} pairs, {share:.1%} of them {kind}", **values), *notes])
        majority = Message("accuracy of always the more frequent answer")
        scores += [
            Score("next sentence accuracy", 100 * answers.next_correct / answers.inputs, pairs),
            Score("next sentence majority", 100 * max(share, 1 - share), majority),
        ]
    return scores


class PretrainingChecks(DoctorHooks["Pretraining", TokenizedDocuments]):
    """Hooks for documents with masked tokens."""

    contiguous = True

    def describe_store(self, task: "Pretraining", split: str, store: TokenizedDocuments) -> str:
        counts = {"documents": len(store), "sentences": len(store.sentences) - 1, "tokens": len(store.tokens)}
        values = {"split": split, **counts}
        return Message("{split}: {documents:,} documents, {sentences:,} sentences, {tokens:,} tokens", **values)

    def store_samples(
        self, task: "Pretraining", model: nn.Module, store: TokenizedDocuments
    ) -> list[tuple[Example, Prediction]]:
        """Sentences with masked tokens, their original, and as the model fills them in."""
        samples = masked_samples(task, model, store, REPORT_SENTENCES)
        return [({"text": masked, "original": text}, {"filled": filled}) for masked, text, filled in samples]

    def max_length(self, task: "Pretraining") -> int:
        return task.recipe.data.max_length

    def baseline(
        self, task: "Pretraining", train: TokenizedDocuments, valid: TokenizedDocuments, examples: Sequence[Example]
    ) -> Baseline:
        return unigram_baseline(train.tokens, valid.tokens, "nll")

    def expected_loss(self, task: "Pretraining", batch: Batch) -> ExpectedLoss:
        return ExpectedLoss(math.log(len(task.tokenizer)), "ln V")

    def overfit_bound(self, task: "Pretraining", batch: Batch) -> float:
        """A quarter of the loss of a model that knows how often each token is masked, and no context."""
        return 0.25 * entropy(batch.labels[batch.labels != task.tokenizer.pad].tolist())

    def check_store(self, task: "Pretraining", store: TokenizedDocuments) -> tuple[str, list[Advice]] | None:
        """The share of pairs whose second text does not follow the first; advice if others, or pairs, are few."""
        data = task.recipe.data
        if not data.next_sentence:
            return None
        labels = sampling.sample_pairs(store, data, rng(task.recipe.runtime.seed)).next_labels
        pairs = labels[labels != IGNORE]
        share = float((pairs == sampling.RANDOM_NEXT).mean()) if len(pairs) else 0.0
        kind, right = NEGATIVE_PAIRS[data.negatives], max(share, 1 - share)
        majority = Message("always the more frequent answer is right in {share:.1%}", share=right)
        finding = Message("{share:.1%} of {count:,} pairs are {kind}", share=share, count=len(pairs), kind=kind)
        finding = join_messages("; ", [finding, majority])
        if single := 1 - len(pairs) / len(labels):
            alone = Message("{share:.1%} of the inputs have no second text", share=single)
            finding = join_messages("; ", [finding, alone])
        if share <= MAX_RANDOM_NEXT and single <= MAX_RANDOM_NEXT:
            return finding, []
        problem = Message("most inputs have one sentence only, which has no second text")
        if data.negatives == "random":
            problem = Message("most inputs have one sentence only, which gets a second text of another document")
        now = {"now": data.max_length}
        remedy = Message("raise data.max_length (now {now}), join documents, or write data.next_sentence=false", **now)
        return finding, [Advice(problem, remedy)]


@dataclass(frozen=True)
class Pretraining(Task[PretrainingRecipe, TokenizedDocuments]):
    """{"text", "pair"?} -> {"masks": [[{"token", "probability"}]], "next"?}: the most probable tokens at every [MASK].

    With a second text, `next` is the probability that it follows the first.
    """

    tokenizer: MaskedTokenizer = field(repr=False)
    nbest: int = 5
    """Number of tokens for each [MASK]."""

    name = "pretraining"
    exchange = Exchange("logits", "fill-mask")
    title = "masked words (BERT pretraining)"
    options = ("nbest",)
    recipe_type = PretrainingRecipe
    scored_by_examples = False
    scored_by_store = True
    optional_outputs = ("masks", "next")
    output_weights: ClassVar[Mapping[str, str]] = {"masks": "masked.", "next": "next."}
    checks = PretrainingChecks()

    @property
    def text_encoder(self) -> TextEncoding:
        return TextEncoding(self.tokenizer, self.recipe.model.max_positions, "bert", mask=self.tokenizer.mask_text)

    @property
    def tokenizers(self) -> dict[str, Tokenizer]:
        return {"source": self.tokenizer}

    # ---- preparation ------------------------------------------------------------------------------------------------

    @classmethod
    def artifacts(cls, recipe: PretrainingRecipe) -> tuple[str, ...]:
        return (TOKENIZER,)

    @classmethod
    def load(cls, recipe: PretrainingRecipe, folder: Path) -> Self:
        return cls(recipe, load_masked_tokenizer(folder / TOKENIZER))

    @classmethod
    def prepare(cls, recipe: PretrainingRecipe, folder: Path, start: Path | None, report: Report) -> Self:
        report_held_out(recipe.data, recipe.fields, report)
        if start is not None:
            copy_tokenizer(start, folder, TOKENIZER)
        elif not (folder / TOKENIZER).exists():
            report(learning_message("WordPiece", recipe.text.vocab_size))
            lines = (sentence["text"] for sentence in read_split(recipe.data, recipe.fields, "train"))
            train_tokenizer(lines, recipe.text).save(folder / TOKENIZER)
        return cls.load(recipe, folder)

    # ---- data -------------------------------------------------------------------------------------------------------

    def encoder(self, filtered: bool) -> SentenceEncoder:
        return SentenceEncoder(self.tokenizer)

    def view(self, store: Store) -> TokenizedDocuments:
        documents = TokenizedDocuments.of(store)
        data = self.recipe.data
        if data.next_sentence and data.negatives == "random" and len(documents) < 2:
            problem = "the data is one document; next-sentence prediction with random texts needs two or more"
            remedy = (
                'set how documents are separated (e.g. `data.train.boundary = "blank"`), or set '
                '`data.negatives = "document"` or `data.next_sentence = false`'
            )
            raise UserError(problem, remedy, code="one-document", where="data.next_sentence")
        return documents

    def batches(self, store: TokenizedDocuments, world: World) -> PretrainingBatches:
        training, seed = self.recipe.training, self.recipe.runtime.seed
        given = (store, self.recipe.data, self.tokenizer, training.batch_tokens, seed, share_of(training, world))
        return PretrainingBatches(*given, packed=is_packed(self, world), objective=self.objective)

    @property
    def objective(self) -> type[Objective]:
        """What is predicted: masked tokens, or the next ones."""
        return NextTokens if self.recipe.model.causal else Masking

    # ---- training ---------------------------------------------------------------------------------------------------

    def new_model(self) -> BertPretraining:
        """Weights without a loss are not trained: they would only decay, and processes would wait for a gradient."""
        model = BertPretraining(self.recipe.model, len(self.tokenizer))
        for module in (model.next, model.bert.pooler):
            module.requires_grad_(self.recipe.data.next_sentence)
        return model

    def loss(self, model: nn.Module, batch: Batch) -> Loss:
        """The objective times M, the masked tokens of the whole step, by which it is divided later."""
        smoothing = self.recipe.training.label_smoothing
        projection, follows = model(batch.source, batch["segments"], batch["masked_positions"])
        words = projected_cross_entropy(projection, batch.labels, smoothing, ignore=self.tokenizer.pad)
        follows = follows.to(torch.promote_types(follows.dtype, torch.float32))
        follows_nll = F.cross_entropy(follows, batch["next_labels"], ignore_index=IGNORE, reduction="sum")
        return Loss(words.sum + batch["next_weight"] * follows_nll, words.count, words.nll)

    def validate(self, model: nn.Module, data: ValidationData[TokenizedDocuments]) -> Validation:
        answers = self.answers(model, data.store)
        nll = answers.nll / max(1, answers.words)
        loss = nll + answers.next_nll / max(1, answers.inputs)
        metrics = {score.name.replace(" ", "_"): score.value for score in scores_of(answers, self.objective)}
        samples = masked_samples(self, model, data.store, self.recipe.training.samples)
        return Validation({"loss": loss, "nll": nll, **metrics}, samples)

    def score_store(self, model: nn.Module, store: TokenizedDocuments) -> list[Score]:
        """Accuracy and perplexity of the predicted tokens, accuracy of next-sentence prediction and of its majority."""
        data = self.recipe.data
        masked = Message("{share:g} % masked", share=100 * data.masked)
        tokens, seed = data.max_length, self.recipe.runtime.seed
        inputs = Message("inputs of {tokens} tokens, seed {seed}", tokens=tokens, seed=seed)
        parts = [Message("left to right") if self.recipe.model.causal else masked, inputs]
        how = join_messages(", ", [*parts, *([Message("whole words")] if data.whole_words else [])])
        return scores_of(self.answers(model, store), self.objective, how, data.negatives)

    @torch.no_grad()
    def answers(self, model: nn.Module, store: TokenizedDocuments) -> Answers:
        """Run a model, which is in evaluation mode, on some documents."""
        device, total, recipe = next(model.parameters()).device, Answers(), self.recipe
        given = (store, recipe.data, self.tokenizer, BATCH_TOKENS, recipe.runtime.seed, self.objective)

        def answer(batch: Batch) -> Answers:
            batch = batch.to(device)
            words, follows = model(batch.source, batch["segments"], batch["masked_positions"])
            random_next = int((batch["next_labels"] == sampling.RANDOM_NEXT).sum())
            return Answers(*judge(words.logits(), batch.labels), *judge(follows, batch["next_labels"]), random_next)

        for answers in compute_all(partial(answer, batch) for batch in sampling.evaluation_batches(*given)):
            total += answers
        return total

    # ---- use --------------------------------------------------------------------------------------------------------

    def configure(self, **options: object) -> Self:
        nbest = options.pop("nbest", None)
        task = super().configure(**options)
        return task if nbest is None else replace(task, nbest=check_count("nbest", nbest))

    def parse(self, value: str | Mapping[str, object], where: str = "the input") -> Example:
        return parse_text(value, where)

    @torch.no_grad()
    def predict(self, engine: nn.Module, examples: Iterable[Example]) -> Iterator[Prediction]:
        prefixes = self.output_weights.items()
        missing = {key for key, prefix in prefixes if any(name.startswith(prefix) for name in self.random_weights)}
        for chunk in chunk_examples(examples):
            inputs = [self.encode(example) for example in chunk]
            predictions: list[Prediction] = [{} for _ in chunk]
            groups = list(groups_by_length([len(item.ids) for item in inputs], BATCH_TOKENS))

            def key(group: list[int], inputs: list[TextInput] = inputs) -> object:
                return [(inputs[index].ids, inputs[index].segments) for index in group]

            def fill(group: list[int], inputs: list[TextInput] = inputs) -> list[Prediction]:
                return self._fill(engine, [inputs[index] for index in group])

            for group, filled in recall_groups(groups, key, fill):
                for index, prediction in zip(group, filled, strict=True):
                    predictions[index] = prediction
            for example, prediction in zip(chunk, predictions, strict=True):
                dropped = missing | ({"next"} if example.get("pair") is None else set())
                yield {key: value for key, value in prediction.items() if key not in dropped}

    def encode(self, example: Example) -> TextInput:
        """[CLS] text [SEP] pair [SEP]; a UserError if a [MASK] is beyond the positions of the model."""
        tokenize, pair, positions = self.tokenizer.tokenize, example.get("pair"), self.recipe.model.max_positions
        first, second = tokenize(example["text"]), None if pair is None else tokenize(pair)
        encoded = self.tokenizer.build_input(first, second, positions)
        masks = [*first.ids, *(second.ids if second else [])].count(self.tokenizer.mask)
        if encoded.ids.count(self.tokenizer.mask) < masks:
            raise UserError(
                f"a masked word is beyond the {positions} tokens that the model reads: {example['text'][:60]!r}...",
                "give a shorter text",
                code="too-long",
                where="text",
            )
        return encoded

    def _fill(self, model: nn.Module, inputs: list[TextInput]) -> list[Prediction]:
        device, rows = next(model.parameters()).device, [[Input(item.ids, item.segments, [IGNORE])] for item in inputs]
        batch = Inputs.of(rows, per_token=False).pad(np.arange(len(inputs))).to(device)
        owners, positions = (batch["source"] == self.tokenizer.mask).nonzero(as_tuple=True)
        predicting = owners * batch["source"].size(1) + positions - int(self.recipe.model.causal)
        words, follows = model(batch.source, batch["segments"], predicting)
        best = torch.topk(require_finite(words.logits().float()).softmax(dim=-1), min(self.nbest, len(self.tokenizer)))
        masks: list[list[list[JsonObject]]] = [[] for _ in inputs]
        for owner, values, ids in zip(owners.tolist(), best.values.tolist(), best.indices.tolist(), strict=True):
            tokens = zip(self.tokenizer.tokens(ids), values, strict=True)
            masks[owner].append([{"token": token, "probability": value} for token, value in tokens])
        follow = require_finite(follows.float()).softmax(dim=-1)[:, 0].tolist()
        return [{"masks": mask, "next": value} for mask, value in zip(masks, follow, strict=True)]

    def describe(self, example: Example, prediction: Prediction) -> Description:
        """The most probable tokens of each [MASK], and the probability that the second text follows."""
        if "filled" in prediction:  # one of `store_samples`
            original, filled = example["original"], prediction["filled"]
            return Description(example["text"], [filled], original, original == filled)
        blocks: list[Block] = [
            Shares([item["token"] for item in mask], [item["probability"] for item in mask])
            for mask in prediction.get("masks", ())
        ]
        blocks += [Shares(["next sentence"], [prediction["next"]])] if "next" in prediction else []
        no_head = "imported without a masked-language-model head"
        nothing = f"the text has no {self.tokenizer.mask_text}" if "masks" in prediction else no_head
        return Description(example["text"], blocks or [nothing])

    def attention(self, model: nn.Module, example: Example, prediction: Prediction) -> list[AttentionMap]:
        encoded = self.encode(example)
        read = Input(encoded.ids, encoded.segments, [IGNORE], encoded.truncated_tokens)
        return encoder_attention(self.text_encoder.module(model), self.tokenizer, read, per_token=False)

    def next_commands(self, folder: str, example: str) -> list[str]:
        test = "" if self.recipe.data.test else " --on valid"
        return [
            f'regard predict {folder} "The {self.tokenizer.mask_text} is here."',
            f'regard embed {folder} "A text."',
            f"regard evaluate {folder}{test}",
            f'regard inspect {folder} "The {self.tokenizer.mask_text} is here."',
            f"regard train RECIPE start_from={folder}          with a recipe of a labelled task",
        ]


@torch.no_grad()
def masked_samples(task: Pretraining, model: nn.Module, store: TokenizedDocuments, count: int) -> list[Sample]:
    """Some sentences with masked tokens, as they are, and as the model fills them in."""
    data, seed = task.recipe.data, task.recipe.runtime.seed
    lengths = np.diff(store.sentences)
    fit = np.flatnonzero((lengths >= SAMPLE_TOKENS[0]) & (lengths <= min(SAMPLE_TOKENS[1], data.max_length - 2)))
    some = fit[:count]
    nothing = np.zeros(len(some), np.int64)
    drawn = sampling.SampledPairs(store.sentences[some], lengths[some], nothing, nothing, np.full(len(some), IGNORE))
    row = sampling.InputBuilder(store, task.tokenizer, data.whole_words)(drawn)
    positions = sampling.choose_masked(row, data.masked, rng(seed))
    masked, filled = row.ids.copy(), row.ids.copy()
    masked[positions] = task.tokenizer.mask
    begins, device = np.cumsum(row.lengths) - row.lengths, next(model.parameters()).device
    for first, length in zip(begins, row.lengths, strict=True):
        there = positions[(positions >= first) & (positions < first + length)]
        rows = [[Input(masked[first : first + length].tolist(), [0] * int(length), [IGNORE])]]
        batch = Inputs.of(rows, per_token=False).pad(np.arange(1)).to(device)
        predicting = there - first - int(task.recipe.model.causal)  # a causal model predicts a token at the one before
        words, _ = model(batch.source, batch["segments"], torch.as_tensor(predicting, device=device))
        filled[there] = words.logits().argmax(dim=-1).cpu().numpy()
    texts = ([task.tokenizer.decode_all(ids[f + 1 : f + n - 1]) for ids in (masked, row.ids, filled)]
             for f, n in zip(begins, row.lengths, strict=True))  # fmt: skip
    return [Sample(*text) for text in texts]
