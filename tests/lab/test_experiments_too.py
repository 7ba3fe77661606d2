"""The other half of the experiments, quickly: in a file of its own, so that both halves run side by side."""

from pathlib import Path

import pytest
from tests.lab.checks import check_experiment, names_of


@pytest.mark.parametrize("name", names_of(1))
def test_an_experiment(name: str, tmp_path: Path) -> None:
    check_experiment(name, tmp_path)
