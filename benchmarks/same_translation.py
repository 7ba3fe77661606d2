"""The same sentences through every way there is: do they have the same translation?

    python -m benchmarks.same_translation                       the bundled translator
    python -m benchmarks.same_translation runs/de --sentences input.txt
    python -m benchmarks.same_translation --server http://127.0.0.1:5000     a server that runs already

The ways: Python and the command line; the engines readable, onnx and ctranslate2; exports to torch-export and
transformers; a server through our API and through LibreTranslate's. A way with weights in 8 bits, and one with a beam
search of its own (ctranslate2, transformers), may differ: the command fails if any other way does. LibreTranslate's API
gives a translation the case and the final mark of its source, so it is compared with such a translation.
"""

import argparse
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.servers import running_server

from regard.errors import UserError
from regard.export.examples import SENTENCES, direction_of
from regard.run.exporting import export_run, target_of
from regard.run.model import Model
from regard.run.run import Run
from regard.serve.libretranslate import match_source_style

Example = dict[str, str]
APPROXIMATE = ("ctranslate2", "transformers", "int8")
"""Ways that may differ."""


@dataclass(frozen=True)
class Way:
    """A way to translate: its name, and the translations of all sentences."""

    name: str
    translations: list[str]
    matches_style: bool = False
    """True if case and final mark follow the source."""

    @property
    def may_differ(self) -> bool:
        return any(word in self.name for word in APPROXIMATE)


def examples_of(model: Model, sentences: Path | None) -> list[Example]:
    """The sentences for every direction of a run."""
    directions = model.task.languages.directions  # type: ignore[union-attr]
    lines = [] if sentences is None else sentences.read_text(encoding="utf-8").splitlines()
    if not directions:
        return [{"src": line} for line in lines or SENTENCES["en"]]
    return [
        {"src": line, "from": source, "to": target}
        for source, target in directions
        for line in lines or SENTENCES.get(source, SENTENCES["en"])
    ]


def in_python(model: Model, examples: Sequence[Example]) -> list[str]:
    """Translations of a run."""
    return [str(item["translation"]) for item in model.predict(prepared(model, examples))]


def prepared(model: Model, examples: Sequence[Example]) -> list[Example]:
    """The examples as the run reads them: without languages if it has one target language."""
    tagged = bool(model.task.src_tokenizer.language_tags)  # type: ignore[attr-defined]
    return [example if tagged else {"src": example["src"]} for example in examples]


def on_command_line(run: str, model: Model, examples: Sequence[Example]) -> list[str]:
    """Translations of `regard translate`, once for each target language."""
    translations: dict[int, str] = {}
    tagged = [example.get("to", "") for example in prepared(model, examples)]
    for target in dict.fromkeys(tagged):
        numbers = [number for number, language in enumerate(tagged) if language == target]
        lines = "".join(examples[number]["src"] + "\n" for number in numbers)
        options = ["--to", target] if target else []
        command = [sys.executable, "-m", "regard", "translate", run, "--device", "cpu", *options]
        done = subprocess.run(command, input=lines, stdout=subprocess.PIPE, text=True, check=True)
        translations |= dict(zip(numbers, done.stdout.splitlines(), strict=True))
    return [translations[number] for number in range(len(examples))]


def exported(run: Run, to: str, quantization: str, examples: Sequence[Example]) -> list[str]:
    """Translations of an export; its certificate must hold."""
    ours = Model([run], device="cpu")
    with TemporaryDirectory() as folder:
        written = export_run(run, Path(folder) / "export", to, quantization=quantization, limit=20).folder
        engine = target_of(ours, to, quantization).open(written)
        return [str(item["translation"]) for item in ours.task.predict(engine, prepared(ours, examples))]


def ask(address: str, body: dict[str, object]) -> dict[str, object]:
    """The answer of a server."""
    request = urllib.request.Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        values: dict[str, object] = json.load(answer)
        return values


def from_server(address: str, examples: Sequence[Example], libretranslate: bool) -> list[str]:
    """Translations of a server, one request for each sentence."""
    translations = []
    for example in examples:
        source, target = example.get("from", "en"), example.get("to", "en")
        if libretranslate:
            answer = ask(f"{address}/translate", {"q": example["src"], "source": source, "target": target})
            translations.append(str(answer["translatedText"]))
        else:
            languages = {"source": source, "target": target} if "to" in example else {}
            found = ask(f"{address}/v1/translate", {"text": example["src"], **languages})["translations"]
            translations.append(str(found[0]["text"]))  # type: ignore[index]
    return translations


def all_ways(name: str, model: Model, examples: Sequence[Example], server: str) -> Iterator[Way]:
    """Every way that supports the model, one after another."""
    run = model.run
    yield Way("Python", in_python(model, examples))
    yield Way("command line", on_command_line(name, model, examples))
    for engine, quantization in (
        ("readable", None), ("onnx", "float32"), ("onnx", "int8"), ("ctranslate2", "float32"), ("ctranslate2", "int8"),
    ):  # fmt: skip
        title = " ".join(filter(None, ("engine", engine, quantization)))
        with reported(title):
            yield Way(title, in_python(Model([run], device="cpu", engine=engine, quantization=quantization), examples))
    for to, title in (("torch-export", "torch-export"), ("huggingface", "transformers")):
        with reported(title):
            yield Way(title, exported(run, to, "float32", examples))
    with nullcontext((server, 0)) if server else running_server([name], "--device", "cpu") as (address, _):
        yield Way("server", from_server(address, examples, libretranslate=False))
        if model.task.languages.directions:  # type: ignore[union-attr]
            yield Way(
                "server, LibreTranslate's API", from_server(address, examples, libretranslate=True), matches_style=True
            )


@contextmanager
def reported(title: str) -> Iterator[None]:
    """Print that a way does not support the model, or that its certificate does not hold."""
    try:
        yield
    except UserError as error:
        print(f"{title:<34} {error.problem}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", default="translator")
    parser.add_argument("--sentences", type=Path, help="lines to translate, in every direction")
    parser.add_argument("--server", default="", help="the address of a server; without it one is started")
    arguments = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    model = Model([Run.open(arguments.run, "translation")], device="cpu")
    examples = examples_of(model, arguments.sentences)
    expected: list[str] = []
    failed = False
    for way in all_ways(arguments.run, model, examples, arguments.server):
        expected = expected or way.translations
        wanted = [
            match_source_style(example["src"], text, example.get("to", "")) if way.matches_style else text
            for example, text in zip(examples, expected, strict=True)
        ]
        differing = [n for n, text in enumerate(way.translations) if text != wanted[n]]
        same = len(examples) - len(differing)
        print(f"{way.name:<34} {same:>4} of {len(examples)} identical ({same / len(examples):.1%})", flush=True)
        for number in differing[:5]:
            print(f"    {direction_of(examples[number])}  {examples[number]['src']}")
            print(f"      {wanted[number]}\n      {way.translations[number]}")
        failed |= bool(differing) and not way.may_differ
    print()
    for example, text in zip(examples, expected, strict=True):
        print(f"{direction_of(example):<6} {example['src']}  →  {text}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
