"""The same texts through the command, Python and a server: are the translations equal?

    python -m benchmarks.translate_paths                        1,000 texts with the bundled translator
    python -m benchmarks.translate_paths RUN --texts 200

Texts have surrounding whitespace, placeholders, addresses, tags, several sentences, glossary terms, and words that are
repeated until a translation loops; directions are trained ones and those through a pivot language. The command fails if
a path differs.
"""

import argparse
import io
import json
import os
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.markup import PATTERNS, WORDS
from benchmarks.servers import running_server

from regard.cli import main as main_command
from regard.run.model import Translator

FORMS: dict[str, tuple[str, ...]] = {
    "plain": ("{0}", "{0} {1}"),
    "whitespace": ("    {0}", "\t{0}", "{0}  ", "\u3000{0}\u00a0", "- {0}"),
    "placeholders": ("{0} %s", "%(name)s: {0}", "{0} {{count}} ${{path}}", "{0} https://example.org/a?b=1", "⦅3⦆ {0}"),
    "loops": ("{0} {2}", "{2}", "{2}. {0}"),
    "tags": ("<p>{0}</p>", "<b>{0}</b> {1}", '<p title="{1}">{0}<br>{1}</p>', "<li><i>{0}</i> <code>x = 1</code></li>"),
    "glossary": ("{0}", "{0} {1}"),
}
GLOSSARY = {"dog": "DOG-1", "house": "HOUSE-2", "Hund": "HUND-1", "maison": "MAISON-2", "casa": "CASA-2", "狗": "GOU-1"}


@dataclass(frozen=True)
class Batch:
    """Texts of one kind and direction."""

    kind: str
    direction: tuple[str, str]
    texts: list[str]

    @property
    def glossary(self) -> dict[str, str]:
        return GLOSSARY if self.kind == "glossary" else {}

    @property
    def format(self) -> str:
        return "html" if self.kind == "tags" else "text"


def english_sentences(count: int) -> list[str]:
    """Sentences from patterns."""
    values = {name: list(words) for name, words in WORDS.items()}
    return [
        PATTERNS[n % len(PATTERNS)].format(
            **{name: words[(n // len(PATTERNS) + n) % len(words)] for name, words in values.items()}
        )
        for n in range(count)
    ]


def make_batches(translator: Translator, count: int) -> Iterator[Batch]:
    """Texts of all kinds in all directions; sources in other languages are translations from English."""
    directions = [pair for pair in translator.task.languages.pairs if pair[0] != pair[1]]
    each = -(-count // (len(directions) * len(FORMS)))
    english = english_sentences(2 * each)
    sentences = {"en": english}
    for language in {source for source, _ in directions} - {"en"}:
        sentences[language] = translator.translate(english, source="en", target=language)
    left = count
    for direction in directions:
        for kind, forms in FORMS.items():
            pool = sentences[direction[0]]
            texts = []
            for number in range(min(each, left)):
                one, other = pool[number], pool[-1 - number]
                repeated = " ".join([one.split()[-1].strip(".?!。？")] * (20 + number))
                texts.append(forms[number % len(forms)].format(one, other, repeated))
            left -= len(texts)
            if texts:
                yield Batch(kind, direction, texts)


def in_python(translator: Translator, batch: Batch) -> list[str]:
    """Translations by `Translator.translate`."""
    source, target = batch.direction
    return translator.translate(batch.texts, source=source, target=target, glossary=batch.glossary, format=batch.format)


def by_command(run: str, batch: Batch, from_file: bool) -> list[str]:
    """Translations by `regard translate`, from stdin or a file."""
    with TemporaryDirectory() as folder:
        path, terms = Path(folder) / ("in.html" if batch.format == "html" else "in.txt"), Path(folder) / "terms.tsv"
        text = "".join(f"{line}\n" for line in batch.texts)
        path.write_text(text, encoding="utf-8")
        terms.write_text("".join(f"{a}\t{b}\n" for a, b in batch.glossary.items()), encoding="utf-8")
        options = ["--from", batch.direction[0], "--to", batch.direction[1], "--device", "cpu"]
        options += ["--glossary", str(terms)] if batch.glossary else []
        options += ["-i", str(path)] if from_file else ["--format", "html"] if batch.format == "html" else []
        stdin, stdout = io.TextIOWrapper(io.BytesIO(text.encode())), io.TextIOWrapper(io.BytesIO(), "utf-8")
        before, sys.stdin, sys.stdout = (sys.stdin, sys.stdout), stdin, stdout
        try:
            status = main_command(["translate", run, *options])
        finally:
            sys.stdin, sys.stdout = before
        assert status == 0
        return stdout.buffer.getvalue().decode().removesuffix("\n").split("\n")


def by_server(address: str, batch: Batch) -> list[str]:
    """Translations by a server: a request for each text, some at the same time."""

    def translate(text: str) -> str:
        source, target = batch.direction
        body = {"text": text, "source": source, "target": target, "format": batch.format, "glossary": batch.glossary}
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{address}/v1/translate", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=120) as response:
            return str(json.load(response)["translations"][0]["text"])

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(translate, batch.texts))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", default="translator")
    parser.add_argument("--texts", type=int, default=1000)
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    translator = Translator.load(arguments.run, device="cpu")
    batches = list(make_batches(translator, arguments.texts))
    with running_server([arguments.run], "--device", "cpu", "--timeout", "600") as (address, _):
        expected = [by_server(address, batch) for batch in batches]
    paths: dict[str, Callable[[Batch], list[str]]] = {
        "Python": lambda batch: in_python(translator, batch),
        "command, stdin": lambda batch: by_command(arguments.run, batch, from_file=False),
        "command, file": lambda batch: by_command(arguments.run, batch, from_file=True),
    }
    results = [differs(name, path, batches, expected) for name, path in paths.items()]
    return int(any(results))


def differs(
    name: str, path: Callable[[Batch], list[str]], batches: Sequence[Batch], expected: Sequence[list[str]]
) -> bool:
    """Print how many translations of a path are equal to the server's, by kind; True if any is different."""
    counts: dict[str, list[int]] = {}
    for batch, wanted in zip(batches, expected, strict=True):
        for text, one, other in zip(batch.texts, wanted, path(batch), strict=True):
            count = counts.setdefault(batch.kind, [0, 0])
            count[one != other] += 1
            if one != other and count[1] <= 3:
                print(f"  {batch.direction} {text!r}\n    server {one!r}\n    {name} {other!r}")
    equal, different = (sum(count[side] for count in counts.values()) for side in (0, 1))
    kinds = ", ".join(f"{kind} {count[0]}/{sum(count)}" for kind, count in counts.items())
    print(f"{name:<16} {equal:>5} equal to the server's, {different} different: {kinds}", flush=True)
    return bool(different)


if __name__ == "__main__":
    sys.exit(main())
