"""The files of a run, and the folders of the bundled runs. Nothing large is imported here."""

from pathlib import Path

from regard.errors import UserError

SPLITS = ("train", "valid", "test")
RECIPE, CHANGES, MANIFEST = "recipe.toml", "changes.json", "manifest.json"
STORES, CHECKPOINTS = "store", "checkpoints"
"""Folders of a run."""
MODEL, STATE = "model.safetensors", "state.json"
"""Files of a checkpoint."""
METRICS = "metrics.jsonl"
ACCOUNTS = "data.json"
"""How many records of each source were read and left out."""

FOLDER = Path(__file__).parent / "bundled"
TRANSLATOR = "translator"
"""The run that `translate` and `serve` use if none is given."""
BUNDLED = (TRANSLATOR, "languages")
"""The name of each run: a folder of its own in FOLDER."""


def bundled_run(name: str) -> Path:
    """The folder of a bundled run; a UserError if this installation does not contain it."""
    folder = FOLDER / name
    if name in BUNDLED and (folder / RECIPE).is_file():
        return folder
    known = ", ".join(BUNDLED)
    raise UserError(
        f"{name}: this installation contains no such run" if name in BUNDLED else f"{name}: no run of this name",
        "install the complete package again" if name in BUNDLED else f"the bundled runs: {known}",
        code="not-a-run",
        where=name,
    )


def bundled_runs() -> list[str]:
    """The names of the runs that this installation contains."""
    return [name for name in BUNDLED if (FOLDER / name / RECIPE).is_file()]


def output_folder(folder: Path) -> Path:
    """Where commands write results of a run: to its folder, and to runs/NAME for a bundled run."""
    return Path("runs") / folder.name if folder.parent == FOLDER else folder


def shown_name(folder: Path) -> str:
    """A run on a page: the path of its folder, or the name of a bundled run."""
    return folder.name if folder.parent == FOLDER else str(folder.absolute())


def find_run(folder: str | Path) -> Path:
    """The folder that a command or a call names: the folder itself, or a bundled run of this name."""
    path = Path(folder)
    return bundled_run(str(folder)) if str(folder) in bundled_runs() and not path.exists() else path
