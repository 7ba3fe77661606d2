"""What the weights of a run were trained with, written down beside it: seal.json.

A vocabulary with two pieces exchanged, or `norm = "pre"` where it was "post", still fits the weights and silently gives
nonsense. So both are remembered when a run is prepared, and looked at whenever it is opened to be used or to go on.
"""

from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.files import digest, read_json, write_json
from regard.recipe import Recipe, beginnings, to_toml

SEAL = "seal.json"
SEALED_GROUPS = ("text", "model")


def seal(folder: Path, recipe: Recipe, files: tuple[str, ...]) -> None:
    """Remember the settings and the content of `files` that the weights will depend on, unless that is done."""
    if not (folder / SEAL).exists():
        settings = {group: getattr(recipe, group).model_dump() for group in SEALED_GROUPS}
        write_json(folder / SEAL, {"settings": settings, "sha256": {name: digest(folder / name) for name in files}})


def refuse_changed(folder: Path, recipe: Recipe) -> None:
    """Name what is no longer as it was sealed; a run without a seal was never prepared, or copied without it."""
    path = folder / SEAL
    settings, sums = _sealed(folder)
    for name, value in settings.items():
        group, _, key = name.partition(".")
        now = getattr(getattr(recipe, group, None), key, None)
        if now != value:
            raise UserError(
                f"{folder / 'recipe.toml'} says {name} = {now!r}, but the run was begun with {value!r} ({path})",
                f"write {name} = {value!r} again; another value needs another run",
            )
    for name, expected in sums.items():
        if (folder / name).is_file() and digest(folder / name) != expected:
            raise UserError(
                f"{folder / name} is damaged: it is not what the run was begun with (sha256 differs from {path})",
                "bring it back from a copy; the weights mean nothing with another vocabulary",
            )


def sealed_files(folder: Path) -> set[str]:
    """The files that the weights depend on; none before a run is prepared."""
    return set(_sealed(folder)[1])


def refuse_other_model(folder: Path, theirs: Recipe, ours: Recipe) -> None:
    """A run that starts from another's weights reads and computes as they were trained; every other setting is named.

    Weights of another shape would not fit, but those of other heads, norms or positions may, and would mean nothing.
    """
    if theirs.task not in beginnings(ours.task):
        raise UserError(
            f"{folder}, to start from, learnt another task: {theirs.task}",
            f"start from a run of task {' or '.join(beginnings(ours.task))}",
        )
    there, here = theirs.model.model_dump(exclude_none=True), ours.model.model_dump()
    fixed = [name for name in there if name != "size" and not name.endswith("dropout")]
    differing = [f"model.{name}={_written(there[name])}" for name in fixed if here.get(name) != there[name]]
    if there["kind"] != here["kind"]:  # the settings of another kind go with it
        differing = ["'model={" + ", ".join(to_toml({name: there[name]}) for name in fixed) + "}'"]
    read = theirs.text.model_dump(exclude_none=True, exclude={"dropout"})
    differing[:0] = [
        f"text.{name}={_written(read[name])}" for name in read if getattr(ours.text, name, None) != read[name]
    ]
    if differing:
        raise UserError(f"the model of {folder}, to start from, is another", f"write {' '.join(differing)}")


def _written(value: Any) -> str:
    """A setting as it is written behind its name on the command line."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _sealed(folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Settings by their full names, and sums by file; none where there is no seal."""
    path = folder / SEAL
    if not path.exists():
        return {}, {}
    content = read_json(path)
    try:
        groups = {name: dict(values.items()) for name, values in content["settings"].items()}
        settings = {f"{group}.{key}": value for group, values in groups.items() for key, value in values.items()}
        return settings, dict(content["sha256"].items())
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} is damaged", f"remove it if {folder} is otherwise as it was") from error
