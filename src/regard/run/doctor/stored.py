"""A check of what an earlier training left: are the tokenised pairs still what was written?

Training reads them whole once and then trusts them for as long as their files look untouched. A disk that changes
bits by itself is found by reading everything again, and that is done here.
"""

from pathlib import Path

from regard.data.store import MANIFEST, damaged_files
from regard.run.doctor.check import Check

NAME = "tokenised pairs"


def check_stores(folder: Path, quick: bool) -> Check:
    """Every array under `folder` has the sha256 it was sealed with."""
    if quick:
        return Check(NAME, "skip", f"those in {folder} are read whole only without --quick")
    stores = sorted(path.parent for path in folder.glob(f"*/{MANIFEST}"))
    broken = {store: names for store in stores if (names := damaged_files(store))}
    if broken:
        listed = "; ".join(f"{store}: {', '.join(names)}" for store, names in broken.items())
        remedy = f"remove {' and '.join(map(str, broken))}: training makes them again; and look after the disk"
        return Check(NAME, "fail", f"not what was written any more: {listed}", remedy)
    found = ", ".join(store.name for store in stores) or "none yet"
    return Check(NAME, "pass", f"every byte in {folder} is what was written ({found})")
