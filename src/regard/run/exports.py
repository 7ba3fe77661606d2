"""A run's model in the format of another program, inside the run: for example exports/ctranslate2-int8-best/.

It is converted at its first use, and again if the checkpoint of that name changed or a file is damaged. If the run is
read-only, it is converted into a temporary folder that is deleted with its engine.
"""

import weakref
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from regard.decoding.stepper import Symbols
from regard.engines.choose import is_standard_transformer
from regard.engines.ctranslate2 import CTranslate2Engine
from regard.errors import UserError
from regard.exchange.ctranslate2 import check_quantization, import_ctranslate2, write_ctranslate2
from regard.files import Manifest, require_writable
from regard.run.translation import TranslationRun
from regard.training.checkpoint import weights_sum

EXPORTS, MANIFEST, FORMAT = "exports", "manifest.json", 2


def ctranslate2_engine(
    run: TranslationRun, checkpoint: str, symbols: Symbols, quantization: str, device: torch.device
) -> CTranslate2Engine:
    """Make the CTranslate2 engine of a run's checkpoint; convert the checkpoint if needed."""
    check_quantization(quantization)
    if not is_standard_transformer(run.recipe.model):
        raise UserError(
            f"CTranslate2 cannot run this model: {run.recipe.model.summary}",
            "choose the engine torch, which runs every model; CTranslate2 has Transformers of the usual parts alone",
        )
    path = run.checkpoints.resolve(checkpoint)  # checks the sha256 of the weights
    inputs = {"weights": weights_sum(path), "ctranslate2": import_ctranslate2().__version__}
    folder = run.folder / EXPORTS / f"ctranslate2-{quantization}-{checkpoint}"
    manifest = Manifest.read_or_none(folder / MANIFEST)
    if manifest is not None and manifest.is_current(inputs, FORMAT) and not manifest.damaged(folder):
        return CTranslate2Engine(folder, symbols, quantization, device)
    aside = None
    try:
        require_writable(folder)
    except UserError:
        aside = TemporaryDirectory(prefix="regard-")
        folder = Path(aside.name) / folder.name
    write_ctranslate2(run.model(checkpoint), symbols, folder, quantization)
    names = sorted(path.name for path in folder.iterdir())
    Manifest.describe(folder, names, format=FORMAT, inputs=inputs).write(folder / MANIFEST)
    engine = CTranslate2Engine(folder, symbols, quantization, device)
    if aside is not None:
        weakref.finalize(engine, aside.cleanup)
    return engine
