"""One HTML file that needs no network and no server: style, program and data are all inside it.

Data travel as JSON in a block the browser does not execute, and the page's security policy lets it run exactly the one
program it was written with, so no sentence in a corpus can do anything but be read.
"""

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from importlib import resources
from string import Template
from typing import Any


def document(title: str, sections: Sequence[str], program: Sequence[str], words: Any, data: Any) -> str:
    """A page of empty sections and the parts of the program that fills them; the same values give the same bytes.

    `words` are what the page says, by language and key; `data` is what its program reads.
    """
    style = asset("page.css")
    script = '(() => {\n"use strict";\n' + "\n".join(asset(name) for name in program) + "})();\n"
    return Template(asset("page.html")).substitute(
        title=html.escape(title),
        style=style,
        style_hash=_policy_hash(style),
        sections="\n".join(f'  <section id="{html.escape(name)}"></section>' for name in sections),
        program=script,
        program_hash=_policy_hash(script),
        words=embed(words),
        data=embed(data),
    )


def embed(value: Any) -> str:
    """JSON that may stand inside a <script> element: `<`, `>` and `&` are escaped, so no text can close it."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")  # half of a surrogate pair becomes its \\u escape
    return text.translate({ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})


def asset(name: str) -> str:
    """A file that pages are made of."""
    return (resources.files("regard.viz") / "page" / name).read_text(encoding="utf-8")


def _policy_hash(content: str) -> str:
    """How a content security policy names the one inline program, or style, that may be used."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode("utf-8")).digest()).decode("ascii")
