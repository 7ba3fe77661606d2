"""Measurements of one variant of a ladder: scores, decoding speed, cost of training, and its attention.

Every variant is measured by the same code on the same sentences.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import nn

from regard.data.examples import Example
from regard.files import JsonObject
from regard.ladder.alignment import evaluate_alignment, gold_alignments
from regard.layers.embeddings import TokenEmbedding
from regard.layers.experts import MixtureOfExperts
from regard.run.alignment import AlignmentHead
from regard.run.model import Model, Translator
from regard.run.report import read_metrics
from regard.run.run import Run
from regard.tasks.base import split_sources
from regard.tasks.operations import engine_names
from regard.text.symbols import EOS

Searches = Sequence[tuple[str, JsonObject]]
MAX_DRAWN_WORDS, MAX_DRAWN_TOKENS = 12, 25
"""Words of a source sentence, and tokens of either side, whose attention is drawn."""
WARM_UP_SENTENCES = 32


@dataclass(frozen=True)
class Measurement:
    """How every variant is measured."""

    engine: str = "readable"
    batch_tokens: int = 4096
    """Source tokens that are decoded together."""
    timed: int = 500
    """Sentences of the test set whose decoding is timed."""
    aligned: int = 200
    """Sentences whose attention is evaluated as an alignment."""
    pictures: int = 4
    """Sentences whose attention is drawn."""


def measure(
    folder: Path, test_split: str, measurement: Measurement, searches: Searches, has_alignment: bool
) -> JsonObject:
    """Measure a variant: device, parameters, training FLOPs, scores and speed per search; for translation also
    alignment and attention maps."""
    run = Run.open(folder)
    recipe = run.recipe
    engine = measurement.engine if measurement.engine in engine_names(run.task) else "torch"
    model = (Translator if has_alignment else Model).load(folder, device=recipe.runtime.device, engine=engine)
    tokens, sides = training_facts(folder)["tokens"], 2 if has_alignment else 1  # None for an n-gram model
    flops = None if tokens is None else model_flops(parameters_without_embeddings(model.model), tokens / sides)
    attention: JsonObject = {"alignment": None, "pictures": []}
    if isinstance(model, Translator):
        attention = measure_attention(model, test_split, measurement, searches[-1][1])
    device, threads = model.world.device, torch.get_num_threads()
    cpu = f"CPU, {threads} thread{'s' * (threads > 1)}"
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else cpu,
        "parameters": sum(weight.numel() for weight in model.model.parameters()) or None,
        "flops": flops,
        "searches": [measure_search(model, test_split, measurement, *search) for search in searches],
        **attention,
    }


def training_facts(folder: Path) -> JsonObject:
    """Steps, tokens, seconds without validation, and tokens per second of a training; None for an n-gram model."""
    records = [record for record in read_metrics(folder) if record["kind"] == "train"]
    if not records:
        return dict.fromkeys(("steps", "tokens", "seconds", "tokens_per_second"))
    seconds, before = 0.0, 0
    for record in records:
        seconds += (record["tokens"] - before) / record["tokens_per_second"]
        before = record["tokens"]
    facts = {"steps": records[-1]["step"], "tokens": before, "seconds": round(seconds, 2)}
    return {**facts, "tokens_per_second": before / seconds}


def measure_search(
    model: Model, test_split: str, measurement: Measurement, title: str, search: JsonObject
) -> JsonObject:
    """Scores on the test set with one search, and its speed; a model that is scored by likelihood needs no search."""
    options = {**search, "batch_tokens": measurement.batch_tokens} if model.task.scored_by_examples else {}
    evaluation = model.evaluate(test_split, **options)
    return {
        "title": title,
        "scores": {score.name: score.value for score in evaluation.scores},
        "signatures": {score.name: score.signature for score in evaluation.scores},
        "sentences_per_second": decoding_speed(model, evaluation.examples[: measurement.timed], options),
    }


def decoding_speed(model: Model, examples: Sequence[Example], options: JsonObject) -> float | None:
    """Sentences per second; None if there are none."""
    if not examples:
        return None
    model.predict(examples[:WARM_UP_SENTENCES], **options)  # the first batch takes longer
    started = time.perf_counter()
    model.predict(examples, **options)
    return len(examples) / (time.perf_counter() - started)


def measure_attention(
    translator: Translator, test_split: str, measurement: Measurement, search: JsonObject
) -> JsonObject:
    """How well attention aligns words, and pictures of it; the head is chosen on the validation set, not on the test.

    A model without cross-attention has no alignment.
    """
    task, count = translator.task, measurement.aligned
    valid, test = (
        gold_alignments(split_sources(task.recipe, split)) or list(task.read(split)) for split in ("valid", test_split)
    )
    best = alignment = None
    if task.attention_weights(translator.model, "1", [EOS])[2].cross is not None:
        best = evaluate_alignment(translator, valid, count).best.head
        report = evaluate_alignment(translator, test, count)
        lowest, heads = report.lowest.aer if report.lowest else None, sum(bool(item.head.head) for item in report.heads)
        alignment = {**report.of(best).to_json(), "lowest_aer": lowest, "heads": heads}
    # A few sentences, from short to long, the same for every variant.
    examples = islice(list(task.read(test_split)), 500)
    short = [example for example in examples if 0 < len(example["src"].split()) <= MAX_DRAWN_WORDS]
    short.sort(key=lambda example: len(example["src"]))
    shares = np.linspace(0.35, 0.95, measurement.pictures if short else 0)
    drawn = [short[int(share * (len(short) - 1))] for share in shares]
    return {
        "alignment": alignment,
        "pictures": [picture(translator, example["src"], example["tgt"], best, search) for example in drawn],
    }


def picture(
    translator: Translator, source: str, reference: str, head: AlignmentHead | None, search: JsonObject
) -> JsonObject:
    """The output for a sentence and its cross-attention; without weights if there are none, or too many tokens."""
    prediction = translator.predict(source, **search)
    values = {"source": source, "reference": reference, "output": prediction["translation"]}
    tokens = prediction["hypotheses"][0]["tokens"] if prediction["hypotheses"] else []
    columns, rows, weights = translator.task.attention_weights(translator.model, source, tokens)
    if weights.cross is None or head is None or max(len(rows), len(columns)) > MAX_DRAWN_TOKENS:
        return values
    matrix = head.mean(weights.cross[0].double().cpu().numpy())
    return {**values, "rows": rows, "columns": columns, "weights": np.round(matrix, 3).tolist()}


def parameters_without_embeddings(model: nn.Module) -> int:
    """N: the parameters that compute a token, but those of embeddings and of output matrices of the vocabulary. Of a
    mixture of experts only the experts count that are used for a token."""
    embeddings = (module for module in model.modules() if isinstance(module, TokenEmbedding | nn.Embedding))
    excluded = {id(parameter) for module in embeddings for parameter in module.parameters()}
    idle = sum(module.idle_parameters for module in model.modules() if isinstance(module, MixtureOfExperts))
    return sum(parameter.numel() for parameter in model.parameters() if id(parameter) not in excluded) - idle


def model_flops(parameters: int, tokens: float) -> float:
    """C = 6 N D for N parameters without embeddings and D tokens (Kaplan et al. 2020, section 2.1).

    A weight takes part in one multiplication and one addition for each token, and in twice as many in the backward
    pass. Attention scores and the product with the output matrix, which is an embedding matrix, are left out. The
    source tokens of a translation pass the encoder and the target tokens the decoder, so D is half of the sum of both.
    """
    return 6.0 * parameters * tokens
