"""The benchmarks stand beside the package and are found from the project's root."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
