"""Reading Markdown pages for tests: code blocks, commands, links and pictures."""

import re
import shlex
from pathlib import Path

from regard.cli.app import build_command
from regard.cli.shell import COMMANDS

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


def indented_commands(path: Path) -> list[str]:
    """The commands of indented code blocks; a backslash at the end of a line continues it."""
    text = re.sub(r"^```.*?^```", "", read(path), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"\\\n\s*", "", text)
    lines = [line.split("  #")[0].strip() for line in re.findall(r"^ {4}(\S.*)$", text, re.MULTILINE)]
    return [re.split(r" [<>|] ", line)[0] for line in lines if line.startswith("regard ")]


def inline_commands(path: Path) -> list[str]:
    """The commands `regard ...` within sentences and tables; they may be incomplete."""
    text = re.sub(r"```.*?```", "", read(path), flags=re.DOTALL)
    quoted = (" ".join(line.split()) for line in re.findall(r"`(regard [^`]+)`", text))
    return [re.split(r" [<>] ", line)[0].replace("\\", "") for line in quoted]


def links(path: Path) -> list[str]:
    """The relative links of a page without their anchors, outside code blocks; the page itself is ""."""
    return [file for file, _ in anchored_links(path)]


def anchored_links(path: Path) -> list[tuple[str, str]]:
    """The relative links of a page, outside code: the file ("" for the page itself) and the anchor in it."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", read(path), flags=re.DOTALL)
    found = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r"""(?:href|src)="([^"]+)\"""", text)
    parts = [link.partition("#") for link in found if not re.match(r"https?:|mailto:", link)]
    return [(file, anchor) for file, _, anchor in parts]


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them; the second of equal headings ends in -1."""
    text = re.sub(r"^```.*?^```", "", read(path), flags=re.DOTALL | re.MULTILINE)
    result: dict[str, int] = {}
    names = set()
    for heading in re.findall(r"^#{1,6} +(.+?)(?: +#+)? *$", text, re.MULTILINE):
        plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
        count = result[slug] = result.get(slug, -1) + 1
        names.add(f"{slug}-{count}" if count else slug)
    return names | set(re.findall(r"""<a (?:id|name)="([^"]+)\"""", text))


def pictures(path: Path) -> list[str]:
    """The pictures that a page shows."""
    return re.findall(r"!\[[^\]]+\]\(([^)]+)\)", read(path))


def broken_links(paths: list[Path]) -> list[str]:
    """Links to files, or to headings of pages, that do not exist, as "page: link"."""
    broken = []
    for path in paths:
        for file, anchor in anchored_links(path):
            target = path.parent / file if file else path
            if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
                broken.append(f"{path.name}: {file}{'#' * bool(anchor)}{anchor}")
    return broken


def check_names(line: str) -> str:
    """Check a call that may be incomplete: its command and options exist; return the command, or "" if there is none.

    "NAME", "..." and words in capitals stand for anything.
    """
    words = shlex.split(line)[1:]
    if not words or words[0].startswith("-") or not re.fullmatch("[a-z]+", words[0]) or words[0] == "help":
        return ""
    command, *arguments = words
    assert command in COMMANDS, f"{line}: there is no command {command}"
    parameters = build_command(command).params
    options = {"-h", "--help", *(name for each in parameters for name in (*each.opts, *each.secondary_opts))}
    for argument in arguments:
        name = argument.partition("=")[0]
        assert not argument.startswith("-") or name in options, f"{line}: {command} has no option {name}"
    return command


def check_command(line: str) -> tuple[str, list[str]]:
    """The command and arguments of a call; an error of click if the command line does not accept them."""
    command, *arguments = shlex.split(line)[1:]
    build_command(command).make_context(command, list(arguments))
    return command, arguments
