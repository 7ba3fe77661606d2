"""The rules of docs/design.md that a program can check: which room imports which, sizes of files, no cycles."""

import ast
import re
from pathlib import Path

import regard

# any room may import these
GROUND = {
    "errors", "files", "kernels", "messages", "plugins", "processes", "reading", "recipe_files", "run_files", "seeding",
}  # fmt: skip
ROOMS: dict[str, set[str]] = {
    # floor 0
    "errors": set(),
    "files": {"errors"},
    "reading": {"errors"},
    "kernels": set(),
    "messages": {"errors", "reading"},
    "plugins": {"errors"},
    "processes": {"errors", "plugins"},
    "seeding": set(),
    "config": set(),
    "recipe_files": set(),
    "run_files": set(),
    "runtime": {"config"},
    "attention": set(),
    "trees": set(),
    "metrics": {"trees"},
    "viz": {"trees"},
    # floor 1
    "layers": {"attention"},
    "losses": {"attention", "layers"},
    "text": {"config"},
    "documents": {"text"},
    "decoding": {"config"},
    "training": {"config", "runtime", "losses"},
    # floor 2
    "models": {"config", "attention", "layers"},
    "data": {"config", "text", "attention", "trees"},
    # floor 3
    "exchange": {"config", "attention", "text", "layers", "models", "decoding"},
    "engines": {"config", "attention", "layers", "models", "data", "decoding", "exchange"},
    "recipe": {"config", "runtime", "text", "data", "models", "decoding", "training"},
    # floor 4
    "tasks": {
        "config", "runtime", "attention", "layers", "losses", "metrics", "viz", "trees", "text", "data", "models",
        "decoding", "training", "engines", "recipe", "exchange",
    },
    # floor 5
    "run": {
        "config", "runtime", "attention", "layers", "losses", "metrics", "viz", "trees", "text", "data", "models",
        "decoding", "training", "engines", "exchange", "recipe", "tasks", "documents",
    },
    # floor 6
    "bundled": {"run"},
    "doctor": {
        "config", "runtime", "attention", "layers", "losses", "metrics", "trees", "text", "data", "models", "decoding",
        "training", "recipe", "tasks", "run", "viz",
    },
    "ladder": {
        "config", "runtime", "attention", "layers", "metrics", "viz", "text", "data", "models", "decoding", "training",
        "recipe", "tasks", "run",
    },
    "lab": {
        "config", "runtime", "attention", "layers", "losses", "metrics", "viz", "trees", "text", "data", "models",
        "decoding", "training", "engines", "recipe", "tasks", "run",
    },
    # floor 7
    "serve": {
        "config", "viz", "text", "data", "decoding", "engines", "tasks", "run", "documents", "bundled",
    },
    "cli": {
        "serve",
        "config", "runtime", "metrics", "viz", "trees", "text", "data", "decoding", "training", "recipe", "tasks",
        "run", "doctor", "ladder", "lab", "documents", "engines", "bundled",
    },
    "__main__": {"cli"},
    "__init__": {
        "attention", "layers", "models", "text", "decoding", "run", "recipe", "config", "losses", "metrics", "data",
        "tasks", "training", "viz",
    },
}  # fmt: skip
MAX_LINES, MAX_FUNCTION_LINES = 600, 60
SOURCE = Path(regard.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_modules(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in names if name.startswith("regard.")}


def test_a_room_imports_only_the_rooms_of_its_line() -> None:
    wrong = {}
    for path in FILES:
        rooms = {name.split(".")[1] for name in imported_modules(path)} - {room_of(path), "__version__"}
        if not_allowed := rooms - ROOMS[room_of(path)] - GROUND:
            wrong[name_of(path)] = sorted(not_allowed)
    assert not wrong


def test_rooms_have_no_cycles() -> None:
    def below(room: str, path: tuple[str, ...] = ()) -> None:
        assert room not in path, " -> ".join((*path, room))
        for other in ROOMS[room]:
            below(other, (*path, room))

    for room in ROOMS:
        below(room)


def test_files_and_functions_are_short() -> None:
    long = [name_of(path) for path in FILES if path.read_text(encoding="utf-8").count("\n") > MAX_LINES]
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno >= MAX_FUNCTION_LINES:
                long.append(f"{name_of(path)}: {node.name}")
    assert not long


def test_commands_do_not_import_each_other() -> None:
    from regard.cli.shell import COMMANDS

    commands = {"import_" if command == "import" else command for command in COMMANDS}
    wrong = {
        name_of(path): name
        for path in (SOURCE / "cli").glob("*.py")
        if path.stem in commands
        for name in imported_modules(path)
        if name.startswith("regard.cli.") and name.split(".")[2] in commands - {path.stem}
    }
    assert not wrong


def test_the_tasks_are_listed_in_one_place() -> None:
    """No dictionary outside of the registry has several tasks as its keys."""
    from regard.tasks.registry import TASKS

    tables = []
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Dict):
                keys = {key.value for key in node.keys if isinstance(key, ast.Constant)}
                if len(keys & set(TASKS)) > 1:
                    tables.append(f"{name_of(path)}:{node.lineno}")
    assert not tables


def test_the_public_names_exist_and_are_few() -> None:
    assert len(regard.__all__) <= 30
    for name in regard.__all__:
        assert getattr(regard, name) is not None


def test_no_file_is_called_utils() -> None:
    names = {part for path in FILES for part in path.relative_to(SOURCE).with_suffix("").parts}
    assert not names & {"utils", "helpers", "common", "misc"}


def test_the_design_names_every_room_on_its_floor() -> None:
    """The numbers of the floors are consecutive, and a room imports only rooms of its floor or lower ones."""
    page = (SOURCE.parents[1] / "docs" / "design.md").read_text(encoding="utf-8")
    table = page.split("## Rooms")[1].split("Beside the package")[0]
    floors: dict[str, int] = {}
    floor = -1
    for line in re.findall(r"^    .*$", table, re.MULTILINE):
        if match := re.match(r"    (\d+)", line):
            assert int(match[1]) == floor + 1
            floor += 1
        floors |= dict.fromkeys(re.findall(r"(?:^    [\d ]  |  {2})(\w+)(?=  )", line), floor)
    assert floors.keys() >= ROOMS.keys() - {"__main__", "__init__"}
    assert all(floors[other] <= floors[room] for room in floors.keys() & ROOMS.keys() for other in ROOMS[room])
