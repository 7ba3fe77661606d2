"""The same requests to two servers with LibreTranslate's API, for example a real LibreTranslate and regard.

    python -m tests.serve.libretranslate_probe http://127.0.0.1:5000 http://127.0.0.1:5001

It prints where statuses, shapes of answers or texts of errors differ, and says which of these differences are known.
Both servers need English to German. Confidences and translations are not compared, only their types.
"""

import sys
from typing import Any

import requests

PAIR = {"source": "en", "target": "de"}
TEXT = {"q": "Hello", **PAIR}
KNOWN = {
    "repeated q in a form": "all texts are translated; LibreTranslate reads the first one",
    "q a number": "400 for what is no text",
    "q a list with a number": "400; LibreTranslate answers 500",
    "alternatives null": "none; LibreTranslate answers 500",
    "not JSON": "another text",
    "no body": "another text",
    "detect a number": "400 for what is no text",
    "a file that is gone": "404; LibreTranslate answers 500",
    "file without a file": "another text",
    "file with a missing pair": "400; LibreTranslate answers 500",
    "file po": ".po files are translated",
    "file in upper case": ".TXT is a text file too",
    "file that is not UTF-8": "400; LibreTranslate answers 500",
    "a damaged docx": "400; LibreTranslate answers 500",
    "POST languages": "an error is JSON, not a page",
    "POST languages as a form": "answered, as libretranslatepy needs it",
    "translate with GET": "an error is JSON, not a page",
    "an unknown address": "an error is JSON, not a page",
}
"""The differences that are meant."""
JSON_CASES: dict[str, dict[str, Any]] = {
    "text": TEXT,
    "upper-case codes": {**TEXT, "source": "EN", "target": "DE"},
    "a list": {**TEXT, "q": ["Hello", "world"]},
    "auto": {**TEXT, "source": "auto"},
    "auto and a list": {**TEXT, "source": "auto", "q": ["Hello there", "Good morning"]},
    "auto without words": {**TEXT, "source": "auto", "q": "12345"},
    "the same language": {**TEXT, "target": "en"},
    "html": {**TEXT, "q": "<p>Hello <b>you</b></p>", "format": "html"},
    "html with alternatives": {**TEXT, "q": "<p>Hello</p>", "format": "html", "alternatives": 2},
    "a list of html with alternatives": {
        **TEXT,
        "q": ["<p>Hello</p>", "<b>x</b>"],
        "format": "html",
        "alternatives": 2,
    },
    "alternatives": {**TEXT, "alternatives": 2},
    "alternatives of blanks": {**TEXT, "q": "  ", "alternatives": 2},
    "auto and the same language": {**TEXT, "q": "Hello there my friend", "source": "auto", "target": "en"},
    "lines": {**TEXT, "q": "Hello\n\nworld\n"},
    "alternatives of a list": {**TEXT, "q": ["Hello", "world"], "alternatives": 2},
    "alternatives as text": {**TEXT, "alternatives": "2"},
    "alternatives 2.7": {**TEXT, "alternatives": 2.7},
    "alternatives -1": {**TEXT, "alternatives": -1},
    "alternatives null": {**TEXT, "alternatives": None},
    "emoji": {**TEXT, "q": "😀 😀"},
    "blanks": {**TEXT, "q": "   "},
    "an empty text in a list": {**TEXT, "q": [""]},
    "empty q": {**TEXT, "q": ""},
    "an empty list": {**TEXT, "q": []},
    "q null": {**TEXT, "q": None},
    "q a number": {**TEXT, "q": 3},
    "q a list with a number": {**TEXT, "q": ["a", 1]},
    "no source": {"q": "Hello", "target": "de"},
    "empty source": {**TEXT, "source": ""},
    "no target": {"q": "Hello", "source": "en"},
    "unknown source": {**TEXT, "source": "zz"},
    "unknown target": {**TEXT, "target": "zz"},
    "target auto": {**TEXT, "target": "auto"},
    "source a number": {**TEXT, "source": 3},
    "source a list": {**TEXT, "source": ["en"]},
    "format xml": {**TEXT, "format": "xml"},
    "format HTML": {**TEXT, "format": "HTML"},
    "empty format": {**TEXT, "format": ""},
    "format a number": {**TEXT, "format": 3},
    "unknown fields": {**TEXT, "apiKey": "x", "api_key": "y", "other": 1},
}
DETECT_CASES: dict[str, dict[str, Any]] = {
    "text": {"q": "Hello there"},
    "a number": {"q": 3},
    "nothing": {},
    "blanks": {"q": " "},
}
RAW_CASES = {"JSON list": "[]", "JSON null": "null", "JSON number": "3", "not JSON": "{bad", "no body": ""}
FILE_CASES: dict[str, tuple[dict[str, str], tuple[str, bytes] | None]] = {
    "file": (PAIR, ("a.txt", b"Hello")),
    "file and auto": ({**PAIR, "source": "auto"}, ("a.txt", b"Hello my friend")),
    "file without a file": (PAIR, None),
    "file po": (PAIR, ("a.po", b'msgid "Hello"\nmsgstr ""\n')),
    "file exe": (PAIR, ("a.exe", b"Hello")),
    "file with an unknown language": ({**PAIR, "target": "zz"}, ("a.txt", b"Hello")),
    "file without a source": ({"target": "de"}, ("a.txt", b"Hello")),
    "file without a target": ({"source": "en"}, ("a.txt", b"Hello")),
    "file with a path": (PAIR, ("../../x.txt", b"Hello")),
    "file that is not UTF-8": (PAIR, ("a.txt", b"\xff\xfe\xff")),
    "a damaged docx": (PAIR, ("a.docx", b"no archive")),
    "file in upper case": (PAIR, ("a.TXT", b"Hello")),
}


def shape(value: Any) -> Any:
    """The types of a JSON value; lists of equal shapes are one. Texts of errors are compared as they are."""
    if isinstance(value, dict):
        return {key: item if key == "error" else shape(item) for key, item in sorted(value.items())}
    if isinstance(value, list):
        shapes = [shape(item) for item in value]
        return [next(iter(shapes))] if shapes and all(item == shapes[0] for item in shapes) else shapes
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def ask(address: str) -> dict[str, tuple[int, Any]]:
    """Status and shape of the answer of a server to each request."""
    found: dict[str, tuple[int, Any]] = {}

    def add(name: str, method: str, path: str, **options: Any) -> None:
        answer = requests.request(method, address + path, timeout=60, **options)
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        found[name] = (answer.status_code, shape(answer.json()) if is_json and answer.content else "no JSON")

    for name, body in JSON_CASES.items():
        add(name, "POST", "/translate", json=body)
    for name, text in RAW_CASES.items():
        add(name, "POST", "/translate", data=text, headers={"content-type": "application/json"})
    for name, (values, file) in FILE_CASES.items():
        parts = {"x": ("", "")} if file is None else {"file": file}
        add(name, "POST", "/translate_file", data=values, files=parts)
    add("form", "POST", "/translate", data=TEXT)
    add("query string", "POST", "/translate", params=TEXT)
    add("repeated q in a form", "POST", "/translate", data={**TEXT, "q": ["a", "b"]})
    add("alternatives x in a form", "POST", "/translate", data={**TEXT, "alternatives": "x"})
    add("translate with GET", "GET", "/translate", params=TEXT)
    for name, body in DETECT_CASES.items():
        add(f"detect {name}", "POST", "/detect", json=body)
    for path in ("/languages", "/frontend/settings", "/health"):
        add(path, "GET", path)
    add("POST languages", "POST", "/languages")
    add("POST languages as a form", "POST", "/languages", data={"api_key": "x"})
    add("suggest", "POST", "/suggest", data={**TEXT, "s": "Hallo"})
    add("a file that is gone", "GET", "/download_file/x.txt")
    add("an unknown address", "GET", "/nothing")
    return found


def main(first: str, second: str) -> int:
    """Print the differences; the status is 1 if one of them is not known."""
    one, other = ask(first), ask(second)
    different = [name for name in one if one[name] != other[name]]
    for name in different:
        print(f"{name}: {KNOWN.get(name, 'NOT KNOWN')}\n  {one[name]}\n  {other[name]}")
    unknown = [name for name in different if name not in KNOWN]
    print(f"{len(one)} requests, {len(different)} different answers, {len(unknown)} of them not known")
    return int(bool(unknown))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
