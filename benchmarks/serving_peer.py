"""LibreTranslate with a model of regard, to compare the two servers: the same CTranslate2 model, the same sentences.

It runs in an environment of its own, which has LibreTranslate and not regard. LibreTranslate gets the exported model as
a language package; its sentence splitter, which would be downloaded, is replaced by one that leaves a text as it is.

    python3 -m venv peer && peer/bin/pip install libretranslate tokenizers
    regard export runs/de --to ctranslate2 --quantization int8 --folder de-int8
    peer/bin/python benchmarks/serving_peer.py de-int8 --port 5001 &
    python -m benchmarks.serving runs/de --engine ctranslate2 --also LibreTranslate=http://127.0.0.1:5001
"""

import argparse
import json
import os
import re
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

END = "2"
"""The end symbol; tokens are named by their ids in the exported model."""


def make_package(folder: Path, export: Path, source: str, target: str) -> None:
    """A language package of LibreTranslate with the exported model."""
    folder.mkdir(parents=True)
    (folder / "model").symlink_to(export.resolve())
    (folder / "sentencepiece.model").symlink_to((export / "tokenizer.json").resolve())
    names = {"from_code": source, "from_name": source, "to_code": target, "to_name": target}
    values = {"package_version": "1.0", "argos_version": "1.0", **names}
    (folder / "metadata.json").write_text(json.dumps(values))


def tokenizer_class(target: str) -> type:
    """A class that LibreTranslate uses in place of its tokenizer."""
    from tokenizers import Tokenizer

    class ExportedTokenizer:
        """The tokenizer of the exported model: texts to names of ids and back."""

        def __init__(self, model_file: Path) -> None:
            self.tokenizer = Tokenizer.from_file(str(model_file))
            tag = self.tokenizer.token_to_id(f"⟨2{target}⟩")
            self.tags = [] if tag is None else [str(tag)]

        def encode(self, sentence: str) -> list[str]:
            ids = self.tokenizer.encode(sentence, add_special_tokens=False).ids
            return [*self.tags, *map(str, ids), END]

        def decode(self, tokens: list[str]) -> str:
            ids = [int(token) for token in tokens if re.fullmatch(r"\d+", token)]
            return str(self.tokenizer.decode(ids, skip_special_tokens=True))

    return ExportedTokenizer


class WholeText:
    """A sentence splitter that returns the text as one sentence; the load has one sentence in a request."""

    def __init__(self, package: Any) -> None:
        pass

    def split_sentences(self, text: str) -> list[str]:
        """The text."""
        return [text]


def main() -> None:
    """Make the package, replace tokenizer and splitter, and run LibreTranslate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("export", type=Path)
    parser.add_argument("--source", default="en")
    parser.add_argument("--target", default="de")
    parser.add_argument("--port", default="5001")
    parser.add_argument("--beam", default="4", help="beam size; that of the run, for a fair comparison")
    options, further = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        os.environ |= {"ARGOS_PACKAGES_DIR": str(home / "packages"), "XDG_DATA_HOME": folder, "XDG_CACHE_HOME": folder}
        os.environ["ARGOS_BEAM_SIZE"] = options.beam
        for source, target in ((options.source, options.target), (options.target, options.source)):
            make_package(home / "packages" / f"{source}_{target}", options.export, source, target)
        os.chdir(folder)
        replacements = {"package.SentencePieceTokenizer": tokenizer_class(options.target)}
        replacements |= {"translate.MiniSBDSentencizer": WholeText}
        for name, replacement in replacements.items():
            module, attribute = name.split(".")
            setattr(import_module(f"argostranslate.{module}"), attribute, replacement)
        sys.argv = ["libretranslate", "--port", options.port, *further]
        import_module("libretranslate.main").main()


if __name__ == "__main__":
    main()
