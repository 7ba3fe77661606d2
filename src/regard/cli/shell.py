"""What depends on the shell of the user: how regard is called there, and the language of its messages."""

import os
import re
import shlex
import shutil
import sys
from pathlib import Path

from regard.cli.app import VERBS

COMMAND = re.compile(rf"(?<![\w./-])regard (?=(?:{'|'.join(VERBS)})\b)")


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
    """A text with its commands `regard VERB` written so that they work in this shell."""
    words = program()
    return text if words == "regard" else COMMAND.sub(lambda _: f"{words} ", text)


def in_language(english: str, chinese: str) -> str:
    """The text in the language of the terminal: LC_ALL, LC_MESSAGES or LANG, the first that is set."""
    names = (os.environ.get(name) for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    return chinese if next(filter(None, names), "").lower().startswith("zh") else english
