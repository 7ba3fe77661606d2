"""The wheel: it is built without a network, and holds the package, its data and the names of its extras."""

import re
import subprocess
import sys
import tomllib
from email.message import Message
from email.parser import Parser
from functools import cache
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "regard"
BUILD = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
DISTRIBUTIONS = {
    "triton": "torch", "starlette": "fastapi", "multipart": "python-multipart", "python_multipart": "python-multipart",
    "pydantic_core": "pydantic", "vl_convert": "vl-convert-python",
}  # fmt: skip
"""What installs a package, if it has another name."""
IMPORT = re.compile(r"^ *(?:from (\w+)[\w.]* import |import (\w+)[\w.]*(?: as \w+)?(?:,.*)?(?:  #.*)?$)", re.MULTILINE)
MAX_BYTES = 30 << 20


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-c", BUILD, str(folder)], cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return ZipFile(path)


def metadata(wheel: ZipFile) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(name).decode())


def test_the_wheel_holds_every_file_of_the_package_and_the_recipes(wheel: ZipFile) -> None:
    names = set(wheel.namelist())
    files = [path for path in SOURCE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    expected = {f"regard/{path.relative_to(SOURCE)}" for path in files}
    expected |= {f"regard/recipes/{path.name}" for path in (ROOT / "recipes").glob("*.toml")}
    assert names >= expected
    assert {name for name in names if name.startswith("regard/")} == expected
    assert {name.partition("/")[0] for name in names} == {"regard", names_of_info(names)}


def names_of_info(names: set[str]) -> str:
    (folder,) = {name.partition("/")[0] for name in names if ".dist-info/" in name}
    return folder


def test_the_wheel_is_small_and_has_no_state_of_training(wheel: ZipFile) -> None:
    assert sum(item.compress_size for item in wheel.infolist()) < MAX_BYTES
    assert not [name for name in wheel.namelist() if "training.safetensors" in name or "/store/" in name]


def test_the_wheel_names_its_extras_and_its_command(wheel: ZipFile) -> None:
    values = metadata(wheel)
    extras = {
        "serve",
        "onnx",
        "huggingface",
        "ctranslate2",
        "tensorboard",
        "figures",
        "pdf",
        "arrow",
        "excel",
        "all",
        "dev",
    }
    assert extras == set(values.get_all("Provides-Extra", []))
    required = values.get_all("Requires-Dist", [])
    assert any(re.match(r"fastapi\b.*extra == .serve.", line) for line in required)
    assert any(re.match(r"torch\b", line) and "extra" not in line for line in required)
    (entry,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert "regard = regard.cli:main" in wheel.read(entry).decode()


# ---- declared packages -----------------------------------------------------------------------------------------------


@cache
def project() -> dict[str, object]:
    values: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return values


def package_names(requirements: object) -> set[str]:
    assert isinstance(requirements, list)
    return {normalized(re.split(r"[<>=\[; ]", line)[0]) for line in requirements}


def normalized(name: str) -> str:
    return name.lower().replace("_", "-")


def imported_packages() -> set[str]:
    """The packages that the source imports, by the names of their distributions."""
    texts = (path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    names = {name for text in texts for found in IMPORT.findall(text) for name in found if name}
    return {normalized(DISTRIBUTIONS.get(name, name)) for name in names - set(sys.stdlib_module_names) - {"regard"}}


def test_every_imported_package_is_declared() -> None:
    extras = project()["optional-dependencies"]
    assert isinstance(extras, dict)
    optional = set().union(*(package_names(lines) for name, lines in extras.items() if name != "dev"))
    assert imported_packages() <= package_names(project()["dependencies"]) | optional


def test_every_declared_package_is_pinned_and_justified() -> None:
    pinned = set()
    for file in ("requirements.txt", "requirements-dev.txt"):
        lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
        pinned |= package_names([line for line in lines if line and not line.startswith("#")])
    extras = project()["optional-dependencies"]
    assert isinstance(extras, dict)
    declared = package_names([*project()["dependencies"], *(line for lines in extras.values() for line in lines)])  # type: ignore[misc]
    assert declared - {"regard", "torch", "pre-commit"} <= pinned  # the Makefile installs torch
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8").lower()
    assert not {name for name in declared - {"regard", "pre-commit"} if name not in page}
