"""Reading Markdown pages for tests: code blocks, commands, links and pictures."""

import re
import shlex
from pathlib import Path

from regard.cli.app import build_command

ROOT = Path(__file__).parents[1]


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def blocks(path: Path, language: str) -> list[str]:
    """The code blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", read(path), re.DOTALL | re.MULTILINE)


def commands(path: Path) -> list[str]:
    """The lines `regard ...` of the shell blocks, without comments, redirections and torchrun before them."""
    lines = [line.split("  #")[0].strip() for block in blocks(path, "sh") for line in block.splitlines()]
    lines = [re.sub(r"^torchrun .*? -m regard", "regard", re.split(r" [<>|] ", line)[0]) for line in lines]
    return [line for line in lines if line.startswith("regard ")]


def links(path: Path) -> list[str]:
    """The relative links of a page, outside code blocks."""
    text = re.sub(r"```.*?```", "", read(path), flags=re.DOTALL)
    return [link for link in re.findall(r"\]\(([^)#]+)\)", text) if not link.startswith("http")]


def pictures(path: Path) -> list[str]:
    """The pictures that a page shows."""
    return re.findall(r"!\[[^\]]+\]\(([^)]+)\)", read(path))


def broken_links(paths: list[Path]) -> list[str]:
    """Links to files that do not exist, as "page: link"."""
    return [f"{path.name}: {link}" for path in paths for link in links(path) if not (path.parent / link).exists()]


def check_command(line: str) -> tuple[str, list[str]]:
    """The verb and arguments of a command; an error of click if the command line does not accept them."""
    verb, *arguments = shlex.split(line)[1:]
    build_command(verb).make_context(verb, list(arguments))
    return verb, arguments
