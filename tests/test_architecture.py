"""The rules of docs/design.md that a program can check: which room imports which, sizes of files, no cycles."""

import ast
import re
from pathlib import Path

import regard

# any room may import these
GROUND = {
    "errors", "files", "kernels", "messages", "plugins", "processes", "reading", "recipe_files", "run_files", "seeding",
    "work",
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
    "work": {"errors", "files"},
    "config": set(),
    "recipe_files": set(),
    "run_files": set(),
    "runtime": {"config"},
    "attention": set(),
    "groundwork": set(),
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
    "data": {"config", "text", "attention", "trees", "documents"},
    # floor 3
    "exchange": {"config", "attention", "text", "layers", "models", "decoding", "training"},
    "engines": {"config", "attention", "layers", "models", "data", "decoding", "exchange"},
    "recipe": {"config", "runtime", "text", "data", "models", "decoding", "training"},
    # floor 4
    "tasks": {
        "config", "runtime", "attention", "layers", "losses", "metrics", "viz", "trees", "text", "data", "models",
        "decoding", "training", "engines", "recipe", "exchange", "documents",
    },
    # floor 5
    "export": {
        "config", "attention", "layers", "models", "text", "decoding", "training", "engines", "exchange", "tasks",
    },
    # floor 6
    "run": {
        "config", "runtime", "attention", "layers", "losses", "metrics", "viz", "trees", "text", "data", "models",
        "decoding", "training", "engines", "exchange", "recipe", "tasks", "export", "documents",
    },
    # floor 7
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
    # floor 8
    "serve": {
        "config", "viz", "text", "data", "decoding", "engines", "tasks", "run", "documents", "bundled",
    },
    "cli": {
        "serve",
        "config", "runtime", "metrics", "viz", "trees", "text", "data", "decoding", "training", "recipe", "tasks",
        "export", "run", "doctor", "ladder", "lab", "documents", "engines", "bundled",
    },
    "__main__": {"cli"},
    "__init__": {
        "attention", "layers", "models", "text", "decoding", "run", "recipe", "config", "losses", "metrics", "data",
        "tasks", "training", "viz",
    },
}  # fmt: skip
MAX_LINES, MAX_FUNCTION_LINES, MAX_METHODS, MAX_PARAMETERS = 600, 60, 30, 10
MAX_ANY = 80
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


def module_of(path: Path) -> str:
    parts = ("regard", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in FILES}


def runtime_imports(path: Path) -> set[str]:
    """The modules that a file imports when it runs: also inside functions, not for types only."""
    for_types = {
        id(inner)
        for node in ast.walk(TREES[path])
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for statement in node.body
        for inner in ast.walk(statement)
    }
    modules: set[str] = set()
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.ImportFrom) and node.module in MODULES and id(node) not in for_types:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            modules |= {name if name in MODULES else str(node.module) for name in names}
    return modules - {module_of(path)}


def cycles(imports: dict[str, set[str]]) -> list[list[str]]:
    """The groups of modules that import each other."""
    below: dict[str, set[str]] = {}
    for module in imports:
        seen, waiting = below.setdefault(module, set()), [module]
        while waiting:
            new = imports[waiting.pop()] - seen
            seen |= new
            waiting += new
    groups = {tuple(sorted(other for other in below[module] if module in below[other])) for module in imports}
    return sorted([*group] for group in groups if group)


def test_modules_have_no_cycles() -> None:
    assert cycles({name: runtime_imports(path) for name, path in MODULES.items()}) == []


def test_no_class_tests_of_tasks_outside_of_tasks() -> None:
    """What a task can do is a value of it; nobody asks which task it is."""
    wrong: dict[str, set[str]] = {}
    for path in FILES:
        classes = {
            alias.asname or alias.name
            for node in ast.walk(TREES[path])
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("regard.tasks.")
            for alias in node.names
            if alias.name[0].isupper()
        }
        for node in ast.walk(TREES[path]):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and room_of(path) != "tasks":
                if node.func.id in ("isinstance", "issubclass"):
                    tested = {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
                    if tested & classes:
                        wrong.setdefault(name_of(path), set()).update(tested & classes)
                elif node.func.id in ("getattr", "hasattr") and ast.unparse(node.args[0]).rpartition(".")[2] == "task":
                    wrong.setdefault(name_of(path), set()).add(ast.unparse(node))
    assert wrong == {}


EXEMPT = ("jit", "custom_op", "register_fake", "register_autograd")


def test_files_functions_and_classes_are_small() -> None:
    """At most so many lines, methods and parameters; commands of typer and Triton kernels have more parameters."""
    large = [name_of(path) for path in FILES if path.read_text(encoding="utf-8").count("\n") > MAX_LINES]
    for path in FILES:
        for node in ast.walk(TREES[path]):
            if isinstance(node, ast.FunctionDef):
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                names = [argument for argument in arguments if argument.arg not in ("self", "cls")]
                exempt = room_of(path) == "cli" or any(
                    word in ast.unparse(d) for d in node.decorator_list for word in EXEMPT
                )
                if (node.end_lineno or 0) - node.lineno >= MAX_FUNCTION_LINES:
                    large.append(f"{name_of(path)}: {node.name} is long")
                if len(names) > MAX_PARAMETERS and not exempt:
                    large.append(f"{name_of(path)}: {node.name} has {len(names)} parameters")
            elif isinstance(node, ast.ClassDef):
                methods = sum(isinstance(item, ast.FunctionDef) for item in node.body)
                if methods > MAX_METHODS:
                    large.append(f"{name_of(path)}: {node.name}")
    assert not large


def test_experiments_contain_no_chinese() -> None:
    """Their texts are in TOML files, in both languages."""
    experiments = (SOURCE / "lab" / "experiments").glob("*.py")
    assert [path.name for path in experiments if re.search("[\u4e00-\u9fff]", path.read_text(encoding="utf-8"))] == []


def test_any_is_rare() -> None:
    count = sum(isinstance(node, ast.Name) and node.id == "Any" for tree in TREES.values() for node in ast.walk(tree))
    assert count <= MAX_ANY


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
