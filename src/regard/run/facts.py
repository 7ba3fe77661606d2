"""Facts about a run, read from its files. Neither torch nor the model is loaded, so that many runs can be listed."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from regard.data.accounts import Account
from regard.errors import UserError
from regard.files import LOCK, JsonObject, Manifest
from regard.messages import Message
from regard.reading import check_dataclass, read_json, read_toml
from regard.recipe_files import DEFAULT_TASK, RENAMED, current_names
from regard.run_files import ACCOUNTS, CHANGES, CHECKPOINTS, MANIFEST, MODEL, RECIPE, SPLITS, STATE, STORES

try:
    import fcntl
except ImportError:  # this system has no file locks
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from regard.recipe import Recipe

TOKENIZERS = "*tokenizer.json"
FORMAT, MAX_NAMED_RUNS = 1, 8
MAX_HEADER_BYTES = 64 << 20
SCALE = ":scale"
BASE_SETTINGS = ("name", "about", "task", "start_from", "data.root", "data.train", "data.valid", "data.test")
"""Settings that every recipe has its own values for."""


@dataclass(frozen=True)
class Facts:
    """What the files of a run say about it; None where they say nothing."""

    run: str
    name: str
    about: str
    task: str
    model: str
    """The kind of model, with its named size if it has one."""
    start_from: str
    data: dict[str, list[str]]
    """The sources of each split."""
    examples: dict[str, int]
    """The number of examples of each split that was tokenised, those that were left out included."""
    left_out: dict[str, str]
    """By source: how many of its records were left out when they were read, and why."""
    held_out: list[str]
    """The splits that are held out of the training data."""
    tokenizer: str
    vocabulary: list[int]
    """The size of each tokenizer."""
    weights: int | None
    """The number of weights of the best checkpoint."""
    bytes: int
    """The size of all files."""
    state: str
    """in use, finished, stopped, not trained, imported, or damaged."""
    step: int
    max_steps: int | None
    max_epochs: float | None
    """None if the number of epochs is not limited."""
    epoch: float
    """The number of epochs before the one that the step is in."""
    tokens: int
    seconds: float
    monitor: str
    best: float | None
    best_step: int | None
    metrics: dict[str, float]
    """The metrics of the last validation."""
    checkpoints: list[str]


def require_run(folder: Path) -> None:
    """Raise UserError if the folder is not a run; it names runs near it."""
    if (folder / RECIPE).is_file():
        return
    problem = "is not a run: it has no recipe.toml" if folder.is_dir() else "no such folder"
    near = sorted(path.parent for base in {folder, folder.parent} for path in base.glob(f"*/{RECIPE}"))
    names = ", ".join(map(str, near[:MAX_NAMED_RUNS]))
    remedy = f"runs near it: {names}" if near else "create a run with `regard train RECIPE`"
    raise UserError(f"{folder}: {problem}", remedy, code="not-a-run", where=folder)


def find_runs(folder: Path) -> Iterator[Path]:
    """The folder if it is a run, and the runs in it, two levels deep (as `regard ladder` writes them)."""
    for pattern in (RECIPE, f"*/{RECIPE}", f"*/*/{RECIPE}"):
        yield from sorted(path.parent for path in folder.glob(pattern) if path.is_file())


def read_facts(folder: Path) -> Facts:
    """Read the facts of a run; damaged files of a checkpoint make its state "damaged"."""
    recipe = current_names(read_toml(folder / RECIPE))
    data, model, text, training = (_table(recipe, name) for name in ("data", "model", "text", "training"))
    names = sorted(path.name for path in (folder / CHECKPOINTS).glob("step-*") if path.is_dir())
    manifest = Manifest.read_or_none(folder / CHECKPOINTS / names[-1] / STATE) if names else None
    progress = _table(manifest.facts, "progress") if manifest else {}
    progress = progress if math.isfinite(progress.get("seconds") or 0) else {}
    best = f"step-{int(progress.get('best_step') or 0):08d}"
    weights = folder / CHECKPOINTS / (best if best in names else names[-1] if names else "") / MODEL
    return Facts(
        run=str(folder),
        name=str(recipe.get("name", "")),
        about=str(recipe.get("about", "")),
        task=str(recipe.get("task", DEFAULT_TASK)),
        model=" ".join(str(model[key]) for key in ("kind", "size") if model.get(key)),
        start_from=str(recipe.get("start_from", "")),
        data={split: [source_text(source) for source in data.get(split) or []] for split in SPLITS},
        examples=(examples := _examples(folder)),
        left_out=_left_out(folder),
        held_out=[
            split
            for split, share in (("valid", "hold_out"), ("test", "hold_out_test"))
            if not data.get(split) and (split in examples or data.get(share))
        ],
        tokenizer=str(text.get("kind", "")),
        vocabulary=[size for path in sorted(folder.glob(TOKENIZERS)) if (size := _vocabulary_size(path))],
        weights=count_weights(weights) if names else None,
        bytes=sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir()),
        state=_state(folder, names, progress, training, bool(data.get("train"))),
        step=int(progress.get("step") or 0),
        max_steps=training.get("max_steps"),
        max_epochs=training.get("max_epochs") or None,
        epoch=float(progress.get("epoch") or 0),
        tokens=int(progress.get("tokens") or 0),
        seconds=float(progress.get("seconds") or 0),
        monitor=str(progress.get("monitor") or training.get("monitor", "")),
        best=progress.get("best"),
        best_step=progress.get("best_step"),
        metrics=dict(progress.get("metrics") or {}),
        checkpoints=names,
    )


def _left_out(folder: Path) -> dict[str, str]:
    try:
        accounts = read_json(folder / ACCOUNTS, dict[str, JsonObject])
        counted = {source: check_dataclass(values, Account, folder / ACCOUNTS) for source, values in accounts.items()}
    except UserError:  # of an earlier version, or damaged
        return {}
    return {source: text for source, account in counted.items() if (text := account.describe())}


def source_text(source: Mapping[str, object]) -> str:
    """The files or the name of a source in a few words."""
    names = [str(source[key]) for key in ("file", "src", "tgt", "builtin") if source.get(key)]
    return ", ".join(names) + (f" ({source['split']})" if source.get("split") else "")


def count_weights(path: Path) -> int | None:
    """The number of weights in a safetensors file, from its header; None if it cannot be read. The scales of 8-bit
    weights (training/quantization.py) are not counted."""
    try:
        with path.open("rb") as stream:
            size = int.from_bytes(stream.read(8), "little")
            header = json.loads(stream.read(size)) if size <= MAX_HEADER_BYTES else {}
        tensors = {name: entry for name, entry in header.items() if name != "__metadata__" and not name.endswith(SCALE)}
        return sum(math.prod(entry["shape"]) for entry in tensors.values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


# ---- settings that differ from the default --------------------------------------------------------------------------


def changed_settings(folder: Path) -> JsonObject:
    """The settings that differ from their defaults: as `write_changes` wrote them, or computed from the recipe."""
    written = Manifest.read_or_none(folder / CHANGES)
    if written is not None and written.format == FORMAT and not written.damaged(folder):
        changes: JsonObject = written.facts["changed"]
        return {RENAMED.get(name, name): value for name, value in changes.items()}
    from regard.tasks.registry import build_recipe

    return compare_with_defaults(build_recipe(read_toml(folder / RECIPE), str(folder / RECIPE)))


def write_changes(folder: Path, recipe: "Recipe") -> None:
    """Write the settings that differ from their defaults, so that `regard info` need not import torch."""
    facts = {"changed": compare_with_defaults(recipe)}
    Manifest.describe(folder, [RECIPE], format=FORMAT, facts=facts).write(folder / CHANGES)


def compare_with_defaults(recipe: "Recipe") -> JsonObject:
    """The settings of a recipe by full name that a recipe of the same data, kind and size of model would not have."""
    from regard.tasks.registry import build_recipe

    values = recipe.model_dump(exclude_none=True)
    base = {name: values[name] for name in ("name", "task", "start_from") if values.get(name)}
    base["data"] = {split: values["data"][split] for split in SPLITS if values["data"].get(split)}
    base["model"] = {name: values["model"][name] for name in ("kind", "size") if values["model"].get(name)}
    built = recipe
    for own in ((), ("data",), ("data", "text")):  # a recipe may need its own values of these groups: no sources, ...
        with suppress(UserError):
            built = build_recipe(base | {name: values[name] for name in own}, recipe.name, allow_unused=True)
            break
    default = _flat(built.model_dump(exclude_none=True))
    return {
        name: value
        for name, value in _flat(values).items()
        if name not in (*BASE_SETTINGS, "model.kind") and default.get(name) != value
    }


def compare_settings(folders: Sequence[Path], everything: bool = False) -> dict[str, list[object]]:
    """The settings that differ between runs, or `everything`: by full name, the value of each run; None if it has none.
    `data sha256` identifies the training data as it was when training began."""
    from regard.tasks.registry import build_recipe

    settings = []
    for folder in folders:
        recipe = build_recipe(read_toml(folder / RECIPE), str(folder / RECIPE)).model_dump(exclude_none=True)
        manifest = Manifest.read_or_none(folder / MANIFEST)
        settings.append(_flat(recipe) | ({"data sha256": manifest.inputs} if manifest and manifest.inputs else {}))
    rows = {name: [values.get(name) for values in settings] for values in settings for name in values}
    return {name: row for name, row in rows.items() if everything or any(value != row[0] for value in row)}


def _flat(values: JsonObject, prefix: str = "") -> JsonObject:
    flat: JsonObject = {}
    for name, value in values.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


# ---- parts ----------------------------------------------------------------------------------------------------------


def _table(values: Mapping[str, object], name: str) -> JsonObject:
    table = values.get(name)
    return table if isinstance(table, dict) else {}


def _in_use(folder: Path) -> bool:
    """True if a process holds the lock of the folder."""
    try:
        with (folder / LOCK).open("rb") as stream:
            if fcntl is not None:
                fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return isinstance(error, BlockingIOError)
    return False


def _state(folder: Path, checkpoints: list[str], progress: JsonObject, training: JsonObject, has_data: bool) -> str:
    if _in_use(folder):
        return Message("in use")
    if not checkpoints:
        return Message("not trained")
    if not progress:
        return Message("damaged")
    if not has_data:
        return Message("imported")
    validated = progress.get("validated_step") == progress.get("step")  # the last step of an epoch is
    limits = (
        (progress.get("step"), training.get("max_steps")),
        (float(progress.get("epoch") or 0) + validated, training.get("max_epochs")),
        (progress.get("bad_validations"), training.get("patience")),
        (progress.get("seconds"), 60 * (training.get("max_minutes") or 0)),
    )
    is_finished = any(limit and (value or 0) >= limit for value, limit in limits)
    return Message("finished") if is_finished else Message("stopped")


def _examples(folder: Path) -> dict[str, int]:
    manifests = {split: Manifest.read_or_none(folder / STORES / split / "manifest.json") for split in SPLITS}
    counts = {split: _table(manifest.facts, "counts") for split, manifest in manifests.items() if manifest}
    return {split: int(values["examples"]) for split, values in counts.items() if "examples" in values}


def _vocabulary_size(path: Path) -> int:
    try:
        return len(_table(read_json(path, JsonObject), "model").get("vocab") or ())
    except (UserError, TypeError):
        return 0
