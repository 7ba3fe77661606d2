"""Functions over a task of any kind: its stores, its weights, what it asks a person, and how it prints predictions."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from copy import deepcopy
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.data.digests import Digests
from regard.data.dropout import open_or_build_dropout
from regard.data.pairs import Pairs
from regard.data.settings import adopt_settings, build_source
from regard.data.sources import Source, column_setting
from regard.data.store import DIGESTS, open_or_build
from regard.decoding.engine import Engine
from regard.engines.choose import fastest_engine, readable_engine
from regard.errors import UserError
from regard.layers.embeddings import TokenEmbedding
from regard.layers.meta import allocate, on_meta
from regard.messages import Message
from regard.models.ngram import NGram, NGramSettings
from regard.models.settings import WordVectorSettings
from regard.recipe import Recipe
from regard.run_files import SPLITS, STORES
from regard.runtime import World, total_memory
from regard.tasks.base import AnyTask, Example, Prediction, ProgressCallback, Report, is_packed
from regard.tasks.languages import through_pivots
from regard.text.vectors import read_vectors
from regard.training.weights import check_shapes, count_parameters, load_weights

Ask = Callable[[str], str | None]
"""Asks a person for one line under a title; None at the end of the input."""


def file_sources(task: AnyTask, files: Mapping[str, object]) -> list[Source]:
    """Sources for files that the recipe does not name, by setting, for example {"file": "other.tsv"}.

    A file is read as the recipe reads its own files with this extension; a table with another extension has the columns
    of the recipe. Other settings in `files`, {"file": "other.tsv", "label": 3}, change this.
    """
    named = [source for split in reversed(SPLITS) for source in getattr(task.recipe.data, split)]
    settings = adopt_settings(str(files["file"]), named, task.recipe.fields) if "file" in files else {}
    if any(isinstance(files.get(column), str) for column in map(column_setting, task.recipe.fields.columns)):
        settings.pop("header", None)  # columns with names have a header
    options = ", ".join(f"`--{name}`" for name in ("file", "src", "tgt") if name in files)
    return [build_source({**settings, **files}, task.recipe.fields, options)]


def some_examples(task: AnyTask, split: str, count: int) -> Sequence[Example]:
    """About `count` examples of a split, without reading all of it if it is large."""
    if not task.checks.sorted_by_label:
        return list(islice(task.read(split), count))
    examples = list(task.read(split))
    return examples[:: max(1, len(examples) // count)]


def open_store(
    task: AnyTask,
    folder: Path,
    split: str,
    progress: ProgressCallback | None = None,
    sources: Sequence[Source] | None = None,
) -> Any:
    """Open the tokenised data of a split, or of other `sources`; build it if it is missing, damaged or out of date."""
    path, data = folder / STORES / split, task.recipe.data
    digests = Digests(path / DIGESTS)
    content = json.dumps(task.content(split, sources, digests))
    encoder = task.encoder(filtered=sources is None and split in ("train", *data.held_out))
    named = getattr(data, split) if sources is None else sources  # none if the split is held out
    names = ", ".join(map(str, named)) or f"data.{split}"
    store = open_or_build(
        path, content, lambda: task.read(split, sources), encoder, data.workers, progress, digests, names
    )
    try:
        return task.view(store)
    except UserError as error:
        raise UserError(f"{names}: {error.problem}", error.remedy, code=error.code, where=error.where) from error


def refuse_dropout(recipe: Recipe) -> None:
    """Raise a UserError if a recipe whose data is in parts asks for BPE-dropout."""
    if getattr(recipe.text, "dropout", 0.0):
        problem = "BPE-dropout needs a table of all words, which does not work for data in parts"
        raise UserError(problem, "set `text.dropout = 0`", code="unsupported", where="text.dropout")


def training_view(task: AnyTask, folder: Path, store: Any, report: Report) -> Sized:
    """The training data as batches read it: with BPE-dropout, pairs are segmented differently in every epoch."""
    data, dropout = task.recipe.data, getattr(task.recipe.text, "dropout", 0.0)
    if not dropout or not isinstance(store, Pairs):
        return store
    if store.is_parted:
        refuse_dropout(task.recipe)
    report(Message("sampling the segmentations of BPE-dropout"))
    source, target = task.tokenizers.values()
    return open_or_build_dropout(
        folder / STORES / "dropout", store, source, target, dropout, task.recipe.runtime.seed, data.max_length,
        data.workers,
    )  # fmt: skip


def model_on_meta(task: AnyTask) -> nn.Module:
    """A model that has shapes and no memory."""
    with on_meta():
        return task.new_model()


def load_model(task: AnyTask, weights: dict[str, Tensor], where: str) -> nn.Module:
    """A model with the given weights, built without random initialisation. Buffers that are constants and not weights
    (the slopes of ALiBi) are made on the CPU explicitly and kept."""
    model = model_on_meta(task)
    if next(model.parameters(), None) is None:  # the tables of an n-gram model have any size
        model = task.new_model()
        model.load_state_dict(weights)
        return model
    check_shapes(model, weights, where)
    model = allocate(model)
    load_weights(model, weights, where)
    return model


def load_word_vectors(task: AnyTask, model: nn.Module, report: Report) -> None:
    """Let the token embeddings of a new model be the word vectors of `model.embeddings_from`, if the recipe names it.

    A token and the same token after a space have the same vector.
    """
    settings, tokenizer = task.recipe.model, task.tokenizers.get("source")
    if not isinstance(settings, WordVectorSettings) or not settings.embeddings_from or tokenizer is None:
        return
    words = {token: word for token in range(len(tokenizer)) if (word := tokenizer.decode([token]).strip())}
    path = Path(settings.embeddings_from)
    vectors = read_vectors(path, words.values())
    embedding = next(part for part in model.modules() if isinstance(part, TokenEmbedding))
    width = embedding.weight.size(1)
    if vectors.width != width:
        name = "d_embedding" if "d_embedding" in type(settings).model_fields else "d_model"
        problem = f"{path} has vectors of width {vectors.width}, but the token embeddings have width {width}"
        raise UserError(problem, f"set `model.{name} = {vectors.width}`", code="invalid-setting", where=f"model.{name}")
    if not vectors.vectors:
        problem = f"{path} has a vector for none of the {len(words):,} words in the vocabulary"
        raise UserError(problem, "use vectors of the same language", code="no-data", where="model.embeddings_from")
    report(vectors.describe())
    found = vectors.vectors
    embedding.load_vectors({token: torch.from_numpy(found[word]) for token, word in words.items() if word in found})


def check_memory(task: AnyTask, checkpoint_bytes: int | None = None) -> None:
    """Raise UserError if the weights need more than the memory, or more than the run's checkpoint has."""
    needed = 4 * count_parameters(model_on_meta(task))
    if checkpoint_bytes is not None and needed > checkpoint_bytes:
        problem = f"the recipe's model needs {needed:,} bytes, but the checkpoint has {checkpoint_bytes:,}"
        raise UserError(problem, "restore the [model] settings of the training", code="other-model", where="model")
    if needed > (total := total_memory()):
        problem = f"the model's weights need {needed / 1e9:,.1f} GB, but the machine has {total / 1e9:,.1f} GB"
        remedy = "choose a smaller model, or a machine with more memory"
        raise UserError(problem, remedy, code="out-of-memory", where="model")


def fit_closed_form(task: AnyTask, store: Any) -> nn.Module | None:
    """A model that is counted in one pass over the data, without gradient steps; None for all others."""
    settings = task.recipe.model
    if not isinstance(settings, NGramSettings):
        return None
    return NGram.count(store.ids, settings.order, len(task.tokenizers["source"]))


def adapt_world(task: AnyTask, world: World) -> World:
    """The world as a task uses it: padded batches have many shapes, so no CUDA graph and no compilation. A loss of a
    plug-in may do what a graph cannot contain."""
    fixed = (task.one_shape or is_packed(task, world)) and task.recipe.training.loss == "cross_entropy"
    compiled = world.compile and task.recipe.compiles
    return replace(world, compile=compiled) if fixed else replace(world, compile=False, capture=False)


def check_outputs(task: AnyTask) -> None:
    """Raise UserError if the run cannot predict anything, because an import lacks the weights of the outputs."""
    needed = next(iter(task.output_weights.values()), None)
    if needed is not None and any(name.startswith(needed) for name in task.random_weights):
        problem = f"the model was imported without the weights of its outputs ({needed}*)"
        remedy = "use `regard embed` for vectors, or `start_from` to train from its weights"
        raise UserError(problem, remedy, code="missing-weights")


def decoding_engine(
    task: AnyTask, models: Sequence[nn.Module], device: torch.device, name: str = "torch"
) -> nn.Module | Engine:
    """The first argument of `Task.predict`: the model itself, or an engine that decodes with one or several models."""
    if task.search is None or task.search.request is None:
        return models[0]
    return (readable_engine if name == "readable" else fastest_engine)(models, task.search.symbols, device)


def pivot_example(task: AnyTask, engine: nn.Module | Engine, example: Example) -> Example:
    """The example that a model reads last: of a translation in two steps, the text in the pivot language."""
    return example if task.languages is None else next(through_pivots(task, engine, [example], 1))


def call_model(task: AnyTask, model: nn.Module, example: Example, prediction: Prediction) -> None:
    """Call a model once for an example and its prediction, through `forward`, so that hooks see it."""
    if task.search is None:
        next(iter(task.predict(model, [example])))
    else:
        task.search.call(model, example, prediction)


def engine_names(task: AnyTask) -> tuple[str, ...]:
    """The engines that `decoding_engine` can make."""
    return ("torch",) if task.search is None else task.search.engines


def force_decode(task: AnyTask, example: Example, target: str) -> Prediction:
    """The prediction of a given output for an example, to inspect its attention."""
    if task.search is None:
        problem = f"task {task.name} generates no text, so it cannot use a target text"
        raise UserError(problem, "leave `target` out", code="unsupported-option", where="target")
    return task.search.force(example, target)


def input_keys(task: AnyTask) -> tuple[str, ...]:
    """The keys of an example that a person gives: required ones, and a second text if training examples have one."""
    pairs = task.text_encoder is not None and task.text_encoder.pairs
    return (*task.recipe.fields.required, "pair") if pairs else task.recipe.fields.required


def ask_examples(task: AnyTask, ask: Ask) -> Iterator[str | Example]:
    """Ask a person for one example after another, key by key; a line with tabs or JSON holds a whole example."""
    shared, keys = task.shared_input, [key for key in input_keys(task) if key != task.shared_input]
    while shared and (value := ask(shared)) is not None:
        while value.strip():
            if (line := ask(f"{keys[0]} (blank: another {shared})")) is None:
                return
            if not line.strip():
                break
            yield {keys[0]: line, shared: value}
    first, *others = keys
    while not shared and (line := ask(first)) is not None:
        if not others or "\t" in line or line.lstrip().startswith("{"):
            if line.strip():
                yield line
            continue
        example: Example = {first: line}
        for key in others:
            given = ask_list(key.removesuffix("s"), ask) if key == task.listed_input else ask(key)
            if given is None:
                return
            example[key] = given
        yield example


def ask_list(title: str, ask: Ask) -> list[str] | None:
    """Ask for texts until a blank one; None if the input ends before the first."""
    texts: list[str] = []
    while (text := ask(f"{title} {len(texts) + 1} (blank: no more)")) is not None and text.strip():
        texts.append(text)
    return texts if texts or text is not None else None


def empty_prediction(task: AnyTask, example: Example) -> Prediction | None:
    """The prediction for an example without text; None if the model reads the example."""
    has_text = any(text.strip() for text in task.recipe.fields.texts(example))
    return None if has_text or not task.empty else deepcopy(dict(task.empty))


def output_columns(task: AnyTask, prediction: Prediction) -> Prediction:
    """The printed part of a prediction as columns of a table, which are the same for all predictions of a run.
    Probabilities by class are one column per class, p(CLASS); what the example has already is left out."""
    output = task.output(prediction)
    names = dict.fromkeys([*output, *task.optional_outputs])
    shares = {name: value for name, value in output.items() if isinstance(value, dict)}
    known = (*shares, *task.recipe.fields.required)
    columns = {f"predicted_{name}": output.get(name) for name in names if name not in known}
    return columns | {f"p({label})": value.get(label) for value in shares.values() for label in task.labels}


def unknown_labels(task: AnyTask, examples: Iterable[Example]) -> list[str]:
    """Labels of examples that the model does not distinguish, sorted; none if it has no named labels."""
    values = (label for example in examples if task.labels for label in task.checks.label_values(example))
    return sorted({label for label in values if isinstance(label, str)} - set(task.labels))


def check_comparable(task: AnyTask) -> None:
    """Raise UserError if predictions of two runs cannot be compared."""
    if not task.scored_by_examples:
        problem = f"the scores of task {task.name} are not computed from examples and cannot be compared by bootstrap"
        remedy = "evaluate both runs and compare their scores"
        raise UserError(problem, remedy, code="unsupported-option", where="against")


def facts(task: AnyTask) -> dict[str, str]:
    """Facts about a task for a report: languages, and sizes of the vocabularies."""
    data, tokenizers = task.recipe.data, list(task.tokenizers.values())
    distinct = {tokenizer.to_json(): f"{len(tokenizer):,}" for tokenizer in tokenizers}
    size = Message("{count} tokens", count=" + ".join(distinct.values()))
    sizes: dict[str, str] = {Message("vocabulary"): size} if tokenizers else {}
    if task.languages is None:
        return sizes
    names = ", ".join(f"{source} → {target}" for source, target in task.languages.directions)
    names = names or data.src_lang or data.tgt_lang
    return ({Message("languages"): names} if names else {}) | sizes
