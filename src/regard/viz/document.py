"""A self-contained HTML page: style, program and data are inside it; it needs no network and no server.

Data are JSON in a block that the browser does not execute. The content security policy allows only the program of
the page, so text from a corpus can never run.
"""

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from importlib import resources
from string import Template


def document(title: str, sections: Sequence[str], program: Sequence[str], words: object, data: object) -> str:
    """Make a page of empty sections and the program that fills them; equal values give equal bytes.

    `words` are the texts of the page by language and key; `data` is the input of the program.
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


def embed(value: object) -> str:
    """Write JSON for a <script> element: `<`, `>` and `&` are escaped, so that no text can close it."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")  # a lone surrogate becomes its \\u escape
    return text.translate({ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})


def asset(name: str) -> str:
    """Read a file of the page template."""
    return (resources.files("regard.viz") / "page" / name).read_text(encoding="utf-8")


def _policy_hash(content: str) -> str:
    """Hash of an inline program or style for the content security policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode("utf-8")).digest()).decode("ascii")
