"""A run's model in the format of another program, kept beside it: exports/ctranslate2-int8-best/ and the like.

It is made when it is first asked for, and again when the checkpoint of that name is another one or a file of it is not
as it was written. Where the run may only be read, it is made in a temporary folder that goes with its engine.
"""

import weakref
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from regard.decoding import Symbols
from regard.engines.choose import is_plain
from regard.engines.ctranslate2 import CTranslate2Engine, to_ctranslate2
from regard.engines.ctranslate2_model import library, refuse_unknown
from regard.errors import UserError
from regard.files import digest, read_json, refuse_unwritable, write_json
from regard.run.translation import TranslationRun
from regard.training.checkpoint import MODEL, STATE

EXPORTS, SEAL, FORMAT = "exports", "seal.json", 1


def ctranslate2_engine(
    run: TranslationRun, checkpoint: str, symbols: Symbols, quantization: str, device: torch.device
) -> CTranslate2Engine:
    """The engine for a run's checkpoint, converted if that has not been done."""
    refuse_unknown(quantization)
    if not is_plain(run.recipe.model):
        raise UserError(
            f"CTranslate2 cannot run this model: {run.recipe.model.summary}",
            "choose the engine torch, which runs every model; CTranslate2 has Transformers of the usual parts alone",
        )
    path = run.checkpoints.resolve(checkpoint)  # which finds the weights to be as their sum says
    made_of = {
        "format": FORMAT,
        "weights": read_json(path / STATE)["files"][MODEL]["sha256"],
        "ctranslate2": library().__version__,
    }
    folder = run.folder / EXPORTS / f"ctranslate2-{quantization}-{checkpoint}"
    if is_whole(folder, made_of):
        return CTranslate2Engine(folder, symbols, quantization, device)
    aside = None
    try:
        refuse_unwritable(folder)
    except UserError:
        aside = TemporaryDirectory(prefix="regard-")
        folder = Path(aside.name) / folder.name
    to_ctranslate2(run.model(checkpoint), symbols, folder, quantization)
    seal(folder, made_of)
    engine = CTranslate2Engine(folder, symbols, quantization, device)
    if aside is not None:
        weakref.finalize(engine, aside.cleanup)
    return engine


def seal(folder: Path, made_of: dict[str, Any]) -> None:
    """Remember what the files were made of and what they are; written last, so that what has a seal is whole."""
    sums = {path.name: digest(path) for path in sorted(folder.iterdir())}
    write_json(folder / SEAL, {**made_of, "sha256": sums})


def is_whole(folder: Path, made_of: dict[str, Any]) -> bool:
    """Whether `folder` was made of this and all its files are as they were sealed."""
    try:
        sealed = read_json(folder / SEAL)
        sums = sealed.pop("sha256")
        return sealed == made_of and all(digest(folder / name) == sum_ for name, sum_ in sums.items())
    except (UserError, OSError, KeyError, TypeError, AttributeError):
        return False
