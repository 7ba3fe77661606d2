"""The commands of regard, and how they are called in the user's shell."""

import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import Literal

from regard.messages import is_chinese, localize

FAILED, INTERRUPTED = 1, 130
"""Exit statuses."""
GROUPS = {
    "Start here": ("translate", "demo", "lab", "answers"),
    "Train": (
        "recipes", "split", "score", "clean", "doctor", "prepare", "train", "average", "distill", "backtranslate",
        "compress", "ladder",
    ),
    "Use": ("predict", "generate", "chat", "embed", "serve"),
    "Evaluate and inspect": ("evaluate", "check", "compare", "inspect", "align", "info", "runs"),
    "Exchange with other libraries": ("import", "export"),
}  # fmt: skip
"""The commands by purpose, in the order of the help."""
COMMANDS = tuple(command for group in GROUPS.values() for command in group)
"""Every command. Its module and function have the same name."""
CALL = re.compile(rf"(?<![\w./-])regard (?=(?:{'|'.join(COMMANDS)})\b)")


def language() -> Literal["en", "zh"]:
    return "zh" if is_chinese() else "en"


def program() -> str:
    """The words that call regard in this shell: its name if it is on the PATH, otherwise as it was called now."""
    if shutil.which("regard"):
        return "regard"
    if Path(sys.argv[0]).name == "regard":
        return shlex.quote(sys.argv[0])
    python = Path(sys.executable)
    if shutil.which(python.name) == str(python):
        return f"{python.name} -m regard"
    shown = python.relative_to(Path.cwd()) if python.is_relative_to(Path.cwd()) else python
    return f"{shlex.quote(str(shown))} -m regard"


def as_called(text: str) -> str:
    """A text whose commands `regard COMMAND` are written so that they work in this shell."""
    words, text = program(), localize(text)
    return text if words == "regard" else CALL.sub(lambda _: f"{words} ", text)
