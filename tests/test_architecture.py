"""The house has floors: a room imports only rooms below it, as this table says. Change the table with the design."""

import ast
from pathlib import Path

import pytest

import regard

GROUND = {"errors", "files", "kernels", "random"}  # any room may stand on these
ROOMS: dict[str, set[str]] = {
    # floor 0
    "errors": set(),
    "files": {"errors"},
    "kernels": set(),
    "random": set(),
    "config": set(),
    "runtime": {"config"},
    "attention": set(),
    "losses": {"attention", "layers"},
    "trees": set(),
    "metrics": {"trees"},
    "viz": {"trees"},
    # floor 1
    "layers": {"attention"},
    "text": {"config"},
    "decoding": {"config"},
    "training": {"config", "runtime"},
    # floor 2
    "models": {"config", "attention", "layers"},
    "data": {"config", "text", "attention", "trees"},
    # floor 3
    "engines": {"config", "attention", "layers", "models", "data", "decoding", "exchange"},
    "tasks": {
        "config", "attention", "layers", "text", "trees", "data", "models", "losses", "decoding", "metrics", "training",
        "engines",
    },
    "exchange": {"text", "layers", "models", "decoding"},
    # floor 4
    "recipe": {"config", "runtime", "text", "data", "models", "decoding", "training"},
    # floor 5
    "run": {
        "config", "runtime", "attention", "layers", "losses", "metrics", "viz", "text", "decoding", "training",
        "models", "data", "engines", "tasks", "recipe", "exchange", "trees",
    },
    # floor 7
    "cli": {"config", "run", "recipe", "viz", "data", "decoding", "metrics", "training", "runtime", "tasks", "text"},
    "__main__": {"cli"},
    "__init__": {
        "attention", "layers", "models", "text", "decoding", "run", "recipe", "config", "losses", "metrics", "data",
        "tasks", "training", "viz",
    },
}  # fmt: skip
SOURCE = Path(regard.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("regard.")}
    return found - {room_of(path), "__version__"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_room_imports_only_what_its_line_says(path: Path) -> None:
    assert room_of(path) in ROOMS, "a new room needs a line in the table"
    assert imported_rooms(path) <= ROOMS[room_of(path)] | GROUND


def test_there_are_no_cycles() -> None:
    def below(room: str, seen: tuple[str, ...] = ()) -> None:
        assert room not in seen, " -> ".join((*seen, room))
        for other in ROOMS[room]:
            below(other, (*seen, room))

    for room in ROOMS:
        below(room)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_files_and_functions_fit_the_eye(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 400, "one file, one idea"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno is not None and node.end_lineno - node.lineno < 60, f"{node.name} is too long"


def test_no_drawers() -> None:
    names = {part for path in FILES for part in path.relative_to(SOURCE).with_suffix("").parts}
    assert not names & {"utils", "helpers", "common", "misc"}
