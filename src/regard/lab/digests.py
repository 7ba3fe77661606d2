"""A digest of the code that measures: an experiment is repeated only if its numbers could be other ones.

Counted are the file of the experiment and the definitions that it uses of other files of the lab (toys.py), read as
syntax trees. Not counted are comments, docstrings, texts, `judge` and everything else that does not change a number.
"""

import ast
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from regard.files import checksum
from regard.lab.experiment import Experiment

LAB = "regard.lab."
INTERFACE = "regard.lab.experiment"
NOT_COUNTED = {
    "name", "topic", "title", "questions", "hypothesis", "varied", "measured", "refuted_if", "panels", "seconds",
    "papers", "timed", "judge",
}  # fmt: skip


def code_of(experiment: Experiment) -> str:
    """The digest of the code of an experiment."""
    return _digest(type(experiment).__module__)


@cache
def _digest(module: str) -> str:
    body = _read(module)
    parts = [_plain(statement) for statement in body]
    for other, names in _imports(body):
        parts += [_plain(statement) for statement in _used(_read(other), names)]
    return checksum([part for part in parts if part])[:16]


def _read(module: str) -> list[ast.stmt]:
    spec = find_spec(module)
    assert spec is not None and spec.origin is not None
    return ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body


def _imports(body: list[ast.stmt]) -> list[tuple[str, set[str]]]:
    """The files of the lab that a file imports, and the names that it imports from them."""
    found = [statement for statement in body if isinstance(statement, ast.ImportFrom)]
    return [
        (statement.module, {alias.name for alias in statement.names})
        for statement in found
        if statement.module and statement.module.startswith(LAB) and statement.module != INTERFACE
    ]


def _used(body: list[ast.stmt], names: set[str]) -> list[ast.stmt]:
    """The definitions of these names, and of the names that they use themselves, in the order of the file."""
    defined = {name: statement for statement in body for name in _defined(statement)}
    reached, waiting = set[str](), [*names]
    while waiting:
        name = waiting.pop()
        if name in defined and name not in reached:
            reached.add(name)
            waiting += [node.id for node in ast.walk(defined[name]) if isinstance(node, ast.Name)]
    return [statement for statement in body if reached & _defined(statement)]


def _defined(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    targets += [statement.target] if isinstance(statement, ast.AnnAssign) else []
    return {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}


class _Numbers(ast.NodeTransformer):
    """Removes docstrings and texts, and from classes what is not counted."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if isinstance(node.value, ast.Constant) else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        is_text = isinstance(node.func, ast.Name) and node.func.id == "Text"
        return ast.Constant(None) if is_text else self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.body = [statement for statement in node.body if not _defined(statement) & NOT_COUNTED]
        return self.generic_visit(node)


def _plain(statement: ast.stmt) -> str:
    """A statement as text without comments and texts; nothing for an import or a docstring."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return ""
    kept = _Numbers().visit(statement)
    return "" if kept is None else ast.unparse(kept)
