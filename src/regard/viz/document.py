"""An HTML page without network: either self-contained, or served with its two files beside it.

A self-contained page has style, script and data inside it and needs no server. Data are JSON in a block that the
browser does not execute. The content security policy allows only the script of the page, so text from a corpus can
never run.
"""

import base64
import hashlib
import html
import json
from collections.abc import Sequence
from importlib import resources
from string import Template

import numpy as np
from numpy.typing import ArrayLike

from regard.files import JsonObject

STYLE = ("page.css",)
SERVED_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'"
)
"""A served page loads its own files and asks its own server, and nothing else; data: is a figure of its own."""


def document(
    title: str,
    sections: Sequence[str],
    program: Sequence[str],
    words: object,
    data: object,
    style: Sequence[str] = STYLE,
) -> str:
    """Make a page of empty sections and the script that fills them; equal values give equal bytes.

    `words` are the texts of the page by language and key; `data` is the input of the script.
    """
    styled, script = style_text(style), program_text(program)
    policy = (
        f"default-src 'none'; script-src '{_policy_hash(script)}'; style-src '{_policy_hash(styled)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    inline = f"<style>{styled}</style>", f"<script>{script}</script>"
    return _fill(title, sections, words, data, policy, *inline)


def served_document(
    title: str, sections: Sequence[str], words: object, data: object, style: str, program: str, icon: str
) -> str:
    """The same page with its style, script and icon at these addresses."""
    style = f'<link rel="stylesheet" href="{html.escape(style)}">\n<link rel="icon" href="{html.escape(icon)}">'
    script = f'<script src="{html.escape(program)}"></script>'
    return _fill(title, sections, words, data, SERVED_POLICY, style, script)


def _fill(
    title: str, sections: Sequence[str], words: object, data: object, policy: str, style: str, program: str
) -> str:
    return Template(asset("page.html")).substitute(
        title=html.escape(title),
        policy=policy,
        style=style,
        sections="\n".join(f'  <section id="{html.escape(name)}"></section>' for name in sections),
        program=program,
        words=embed(words),
        data=embed(data),
    )


def style_text(names: Sequence[str]) -> str:
    """The style sheets of a page as one."""
    return "\n".join(asset(name) for name in names)


def program_text(names: Sequence[str]) -> str:
    """The files of a script as one; they share their names with each other and with nothing else."""
    return '(() => {\n"use strict";\n' + "\n".join(asset(name) for name in names) + "})();\n"


def embed(value: object) -> str:
    """Write JSON for a <script> element: `<`, `>` and `&` are escaped, so that no text can close it."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")  # a lone surrogate becomes its \\u escape
    return text.translate({ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"})


def asset(name: str) -> str:
    """Read a file of the page template."""
    return (resources.files("regard.viz") / "page" / name).read_text(encoding="utf-8")


def _policy_hash(content: str) -> str:
    """Hash of an inline script or style for the content security policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode("utf-8")).digest()).decode("ascii")


def pack_array(values: ArrayLike) -> JsonObject:
    """An array for the script of a page: its shape and its float32 numbers as base64, so that no digit is lost."""
    array = np.ascontiguousarray(values, dtype="<f4")
    return {"shape": list(array.shape), "floats": base64.b64encode(array.tobytes()).decode("ascii")}
