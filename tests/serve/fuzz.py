"""Malformed requests to every route of a server in this process.

    python -m tests.serve.fuzz 10000 [SEED]      statuses by route, memory before and after

Each request begins as a valid one of some route and is then damaged: fields removed, doubled or replaced by values of
other types, bodies cut or replaced by bytes, wrong types of content, methods, paths and headers. The same seed gives
the same requests. `check` says what an answer must be: no 500, no traceback, no path of a file, the shape of its API.
"""

import asyncio
import json
import random
import resource
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import FastAPI

JSON, FORM, PARTS = "application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=edge"
LIBRE = {"q": "one two three", "source": "en", "target": "de", "format": "text", "alternatives": 1, "api_key": ""}
DEEPL = {"text": ["one two three"], "source_lang": "EN", "target_lang": "DE", "tag_handling": "html"}
OWN = {"text": "one two three", "source": "en", "target": "de", "format": "html", "alternatives": 2, "links": True}
QUESTION = {"question": "Who lives there ?", "context": "Ada lives in Rome ."}
VALID: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("POST", "/translate", LIBRE),
    ("POST", "/translate", {**LIBRE, "q": ["one", "<b>two</b>"], "source": "auto", "glossary": {"one": "uno"}}),
    ("POST", "/translate", {**LIBRE, "q": "<p>one <b>two</b> three</p>", "format": "html"}),
    ("POST", "/detect", {"q": "one two three"}),
    ("GET", "/languages", {}),
    ("POST", "/languages", {}),
    ("POST", "/translate_file", {"source": "en", "target": "de", "file": "one two three"}),
    ("POST", "/translate_file", {"source": "en", "target": "de", "file": "one two", "glossary": '{"one": "uno"}'}),
    ("GET", "/download_file/0123.a_de.txt", {}),
    ("GET", "/frontend/settings", {}),
    ("POST", "/suggest", {"q": "one", "s": "eins", "source": "en", "target": "de"}),
    ("GET", "/health", {}),
    ("GET", "/spec", {}),
    ("POST", "/v2/translate", DEEPL),
    ("GET", "/v2/languages", {"type": "target"}),
    ("GET", "/v2/usage", {}),
    ("POST", "/models/numbers", {"inputs": "one two three", "parameters": {"src_lang": "en", "tgt_lang": "de"}}),
    ("POST", "/models/reviews", {"inputs": {"text": "a fine film", "text_pair": "b"}, "parameters": {"top_k": 1}}),
    ("POST", "/models/reviews/pipeline/feature-extraction", {"inputs": ["a", "b"], "normalize": True, "pool": "mean"}),
    ("POST", "/models/reviews", {"inputs": {"source_sentence": "a film", "sentences": ["b", "c"]}}),
    ("POST", "/models/answering", {"inputs": QUESTION, "parameters": {"top_k": 2}}),
    ("POST", "/models/tagging", {"inputs": "Ada reads .", "parameters": {"aggregation_strategy": "none"}}),
    ("POST", "/models/pretraining", {"inputs": "a [MASK] film", "parameters": {"top_k": 2, "targets": ["a"]}}),
    ("POST", "/models/language", {"inputs": "the", "parameters": {"max_new_tokens": 3, "top_k": 2, "seed": 1}}),
    ("POST", "/models/choice", {"inputs": "the film", "parameters": {"candidate_labels": ["a", "b"]}}),
    ("POST", "/v1/translate", OWN),
    ("POST", "/v1/translate/stream", OWN),
    ("POST", "/v1/detect", {"text": ["one", "zwei"]}),
    ("POST", "/v1/predict/reviews", {"inputs": ["a fine film", {"text": "b"}], "options": {"top": 1}}),
    ("POST", "/v1/embed/reviews", {"inputs": ["a"], "layers": "-2:", "combine": "mean", "pool": "cls"}),
    ("GET", "/v1/runs", {}),
    ("GET", "/healthz", {}),
    ("GET", "/readyz", {}),
    ("GET", "/metrics", {}),
    ("GET", "/openapi.json", {}),
    ("GET", "/", {}),
    ("GET", "/page/runs", {}),
    ("POST", "/page/translate", {"run": "numbers", "text": "one two three"}),
    ("POST", "/page/predict", {"run": "numbers", "example": "one two three", "chosen": 0}),
    ("POST", "/page/predict", {"run": "reviews", "example": {"text": "a fine film"}}),
    ("POST", "/page/head", {"run": "numbers", "example": "one", "map": "cross", "layer": 0, "head": 1}),
    ("POST", "/page/beam", {"run": "numbers", "example": "one two three", "width": 2}),
    ("POST", "/page/texts", {"run": "reviews", "texts": ["a film", "a book"]}),
    ("GET", "/page/curves", {"run": "numbers"}),
)
"""Method, path and fields of requests that are right."""
ENCODINGS = {"/translate_file": (PARTS, PARTS, PARTS, FORM), "/page/curves": ("query", "query", JSON)}
"""How the fields of a request are written, where that is not mostly JSON."""
LT_PATHS = (
    "/translate",
    "/detect",
    "/languages",
    "/suggest",
    "/translate_file",
    "/download_file",
    "/frontend/settings",
    "/health",
    "/spec",
)
OWN_ERROR: dict[str, type] = {"code": str, "message": str}
STRANGE: tuple[Any, ...] = (
    None, True, 0, -1, 1.5, 10**30, -(10**400), float("nan"), float("inf"), "", " ", "\x00", "auto", "zz", "EN", "html",
    "x" * 300, "é" * 50, "\ud800", "\u202e\u0000\uffff", "<b><i>one</b></i>&#0;<", "<p>" * 200, "{name} %1$s ⦅0⦆ ⦅9⦆",
    "../../etc/passwd", "'; DROP TABLE x; --", "${7*7}{{7*7}}", [], [None], [[]], [""], ["a", 1], ["one"] * 200, {},
    {"a": None}, {"": ""}, {"one": ""}, {"text": "a"}, {"words": ["a"]}, "[MASK]" * 30, "one " * 500, "\n\r\t",
    "😀" * 40,
)  # fmt: skip
NAMES = ("q", "source", "target", "format", "alternatives", "glossary", "text", "inputs", "parameters", "top_k", "run",
         "temperature", "max_new_tokens", "target_lang", "tag_handling", "options", "beam", "nbest", "layers", "file",
         "seed", "stop", "type", "", "\x00", "api_key", "candidate_labels", "details", "stream")  # fmt: skip
TYPES = (
    JSON, FORM, PARTS, "", "text/plain", "application/json; charset=utf-16", "multipart/form-data", "application/xml",
    "multipart/form-data; boundary=" + "x" * 100, "a/b;" * 20, "\xff\xfe", "application/ld+json",
)  # fmt: skip
FILES = (
    "a.txt",
    "a.html",
    "a.srt",
    "a.po",
    "a.docx",
    "a.vtt",
    "a.md",
    "a.json",
    "a.xliff",
    "a.pptx",
    "a.odt",
    "a.epub",
    "a.exe",
    "..",
    "../../a.txt",
    "a\x00.txt",
    "",
    "x" * 300 + ".txt",
    "ä 😀.txt",
)
CONTENTS = (
    b"one two three", b"\xff\xfe\x00", b"PK\x03\x04" + b"\x00" * 40, b"<html><b>one", b"1\n00:00:01,000 --> x\none\n",
    b'msgid "one"\nmsgstr ""\n', b"", b"<!DOCTYPE a [<!ENTITY b 'c'>]>", b"\x00" * 2000,
    b"WEBVTT\n\n00:01.000 --> 00:02.000\n<i>one\n", b"| one |\r\n|--|\r\n> **two `\n<div>",
    b'{"a": "one \\ud800", "b": [1e999]}',
    b'<xliff version="1.2"><file><trans-unit><source>one <g id="1"/></source></trans-unit></file></xliff>',
    b'<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:1.2"/>',
)  # fmt: skip


@dataclass(frozen=True)
class Request:
    """One request, as bytes."""

    method: str
    path: str
    query: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    body: bytes = b""


@dataclass
class Answer:
    """What came back."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


def requests(count: int, seed: int) -> Iterator[Request]:
    """`count` requests, most of them malformed."""
    rng = random.Random(seed)
    for _ in range(count):
        method, path, fields = rng.choice(VALID)
        values = damage_fields(rng, fields)
        kind = rng.choice(ENCODINGS.get(path, (JSON, JSON, JSON, FORM, PARTS, "query")))
        query, body = b"", encode(rng, kind, values)
        if kind == "query":
            query, body, kind = body, b"", ""
        yield damage(rng, Request(method, path, query, ((b"content-type", kind.encode("latin-1")),), body))


def damage_fields(rng: random.Random, fields: dict[str, Any]) -> dict[str, Any]:
    """Fields with some removed, replaced or added."""
    values = dict(fields)
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        name = rng.choice([*values, *rng.sample(NAMES, 2)])
        if rng.random() < 0.25:
            values.pop(name, None)
        else:
            values[name] = nest(rng, rng.choice(STRANGE))
    return values


def nest(rng: random.Random, value: Any) -> Any:
    """A value, sometimes inside of lists or objects."""
    while rng.random() < 0.15:
        value = rng.choice(([value], {rng.choice(NAMES): value}, [value, value]))
    return value


def encode(rng: random.Random, kind: str, values: dict[str, Any]) -> bytes:
    """Fields as JSON, as a form, as a form with files, or as a query string."""
    if kind == JSON:
        return json.dumps(values).encode()
    pairs = [(name, item) for name, value in values.items() for item in (value if isinstance(value, list) else [value])]
    if kind != PARTS:
        return urlencode([(name, str(item)) for name, item in pairs], errors="replace").encode()
    parts = b""
    for name, item in pairs:
        head = f'form-data; name="{name}"'
        content = str(item).encode("utf-8", "replace")
        if name == "file":
            head, content = f'{head}; filename="{rng.choice(FILES)}"', rng.choice((content, *CONTENTS))
        parts += b"--edge\r\nContent-Disposition: " + head.encode("utf-8", "replace") + b"\r\n\r\n" + content + b"\r\n"
    return parts + b"--edge--\r\n"


def damage(rng: random.Random, request: Request) -> Request:
    """A request with damage outside of its fields: mostly none."""
    method, path, query, headers, body = request.method, request.path, request.query, request.headers, request.body
    chance = rng.random()
    if chance < 0.05:
        method = rng.choice(("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "FOO"))
    elif chance < 0.10:
        path = rng.choice(
            (path + "/", path.upper(), "/" + path, path + "/../x", path + "\x00", "/models/", "/%", "", "/é")
        )
    elif chance < 0.18:
        headers = ((b"content-type", rng.choice(TYPES).encode("latin-1")),)
    elif chance < 0.24:
        body = body[: rng.randrange(len(body) + 1)]
    elif chance < 0.28:
        body = rng.randbytes(rng.randrange(200))
    elif chance < 0.31:
        body = rng.choice(
            (b"[" * 3000, b'{"q":' * 2000, b"null", b'"', b"[]", b"1e999", b'{"q": "\\ud800"}', b"\xef\xbb\xbf{}")
        )
    elif chance < 0.34:
        query += b"&" + rng.choice((b"q=%ff%fe", b"q=%00", b"q=" + b"a" * 5000, b"&" * 500, b"source=\xff"))
    elif chance < 0.37:
        headers += rng.choice(
            (
                ((b"authorization", b"Bearer \xff\x00"),),
                ((b"authorization", b"DeepL-Auth-Key"),),
                ((b"x-api-key", b"\xe9" * 20),),
                ((b"content-length", b"-1"),),
                ((b"host", b"\xff:99999"),),
                ((b"origin", b"null"), (b"access-control-request-method", b"POST")),
                ((b"accept-encoding", b"gzip;q=x"), (b"range", b"bytes=-1")),
            )
        )
    return Request(method, path, query, headers, body)


async def send(app: FastAPI, request: Request) -> Answer:
    """Send a request to an application without a network, as bytes that no client library would send."""
    answer, sent = Answer(), False

    async def receive() -> dict[str, Any]:
        nonlocal sent
        if sent:
            await asyncio.sleep(3600)
        sent = True
        return {"type": "http.request", "body": request.body, "more_body": False}

    async def respond(message: Any) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in message["headers"]}
        else:
            answer.body += message.get("body", b"")

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": request.method, "scheme": "http",
        "path": request.path, "raw_path": quote(request.path).encode(), "query_string": request.query, "root_path": "",
        "headers": [(b"host", b"server"), *request.headers], "client": ("127.0.0.1", 1), "server": ("server", 80),
    }  # fmt: skip
    await app(scope, receive, respond)
    return answer


def check(request: Request, answer: Answer) -> str:
    """What is wrong with an answer; empty if nothing is."""
    text = answer.body.decode("utf-8", "replace")
    if answer.status == 0 or answer.status >= 500:
        return f"status {answer.status}"
    if "Traceback" in text or str(Path(__file__).parents[2]) in text or str(Path(tempfile.gettempdir())) in text:
        return "a traceback or a path of a file"
    if answer.status < 400 or request.method == "HEAD":
        return ""
    path = f"{request.path}/"
    compatible = any(path.startswith(f"{known}/") for known in (*LT_PATHS, "/v2", "/models"))
    if compatible and answer.status == 422:
        return "status 422 of a compatible API"
    try:
        content = json.loads(answer.body)
    except ValueError:
        return "an error that is no JSON"
    shape: dict[str, type] = {"message": str} if path.startswith("/v2/") else {"error": str if compatible else dict}
    if not has_shape(content, shape) or (not compatible and not has_shape(content["error"], OWN_ERROR)):
        return f"an error in a wrong shape: {text[:100]}"
    return ""


def has_shape(content: object, shape: dict[str, type]) -> bool:
    """True for an object with these keys and types of values, and no others."""
    return isinstance(content, dict) and {key: type(value) for key, value in content.items()} == shape


def route_of(path: str) -> str:
    """The beginning of a path, for the table."""
    return next((known for _, known, _ in VALID if known == path), "(other)")


@dataclass
class Result:
    """Statuses by route, failures, and megabytes of memory after the first tenth of the requests and at the end."""

    statuses: dict[str, Counter[int]] = field(default_factory=dict)
    failures: list[tuple[Request, str]] = field(default_factory=list)
    memory: tuple[float, float] = (0.0, 0.0)


async def fuzz(app: FastAPI, count: int, seed: int = 1) -> Result:
    """Send `count` requests, one after another."""
    await app.state.service.loaded()
    result, before = Result(), 0.0
    for number, request in enumerate(requests(count, seed)):
        if number == count // 10:
            before = memory()
        try:
            answer = await asyncio.wait_for(send(app, request), 120)
            problem = check(request, answer)
        except Exception as error:  # the application itself must not raise either
            answer, problem = Answer(500), f"{type(error).__name__}: {error}"
        result.statuses.setdefault(route_of(request.path), Counter())[answer.status] += 1
        if problem:
            result.failures.append((request, problem))
    result.memory = (before, memory())
    return result


def memory() -> float:
    """Megabytes of this process that are in memory now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 1e6


def main(count: int, seed: int) -> int:
    """Train tiny runs, send requests and print a table."""
    from tests.serve.make import make_app, stop
    from tests.tiny import train_run

    tasks = ("answering", "tagging", "pretraining", "language", "choice")
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        runs = {task: train_run(Path(name) / task, task) for task in (*tasks, "translation", "classification")}
        runs |= {"numbers": runs.pop("translation"), "reviews": runs.pop("classification")}
        app = make_app(runs, ["numbers=en:de"])
        result = asyncio.run(fuzz(app, count, seed))
        stop(app.state.service)
    codes = sorted({status for counts in result.statuses.values() for status in counts})
    print("route".ljust(48), *(str(code).rjust(6) for code in codes))
    for route in sorted(result.statuses):
        print(route.ljust(48), *(str(result.statuses[route][code]).rjust(6) for code in codes))
    total: Counter[int] = sum(result.statuses.values(), Counter())
    print("all".ljust(48), *(str(total[code]).rjust(6) for code in codes))
    before, after = result.memory
    print(f"memory: {before:.0f} MB after a tenth of the requests, {after:.0f} MB at the end")
    for request, problem in result.failures[:20]:
        print(f"\n{problem}\n{request}")
    return int(bool(result.failures))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000, int(sys.argv[2]) if len(sys.argv) > 2 else 1))
