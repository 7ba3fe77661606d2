"""The wheel: it is built without a network, and holds the package, its data and the names of its extras."""

import hashlib
import json
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
from packaging.requirements import Requirement
from tests.pages import anchored_links

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
        "cluster",
        "all",
        "dev",
    }
    assert extras == set(values.get_all("Provides-Extra", []))
    required = values.get_all("Requires-Dist", [])
    assert any(re.match(r"fastapi\b.*extra == .serve.", line) for line in required)
    assert any(re.match(r"torch\b", line) and "extra" not in line for line in required)
    (entry,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert "regard = regard.cli:main" in wheel.read(entry).decode()


def test_the_description_has_no_relative_links(wheel: ZipFile, tmp_path: Path) -> None:
    """A package page has no other files beside it: every link leads to the repository at the tag of this version."""
    values = metadata(wheel)
    page = tmp_path / "description.md"
    page.write_text(str(values.get_payload()), encoding="utf-8")
    assert anchored_links(page) == []
    (source,) = (url for name, url in urls(values) if name == "Source")
    tag = f"v{values['Version']}"
    shown, written = page.read_text(encoding="utf-8"), (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"({source}/raw/{tag}/docs/attention.en.png)" in shown
    assert re.sub(rf"{re.escape(source)}/(blob|raw)/{re.escape(tag)}/", "", shown) == written
    assert len(anchored_links(ROOT / "README.md")) == shown.count(f"]({source}/")


def urls(values: Message) -> list[list[str]]:
    return [line.split(", ", 1) for line in values.get_all("Project-URL", [])]


def test_the_wheel_names_its_pages(wheel: ZipFile) -> None:
    pages = dict(urls(metadata(wheel)))
    assert set(pages) == {"Source", "Documentation", "Changelog", "Issues"}
    assert all(url.startswith(pages["Source"]) for url in pages.values())
    for name in ("Documentation", "Changelog"):
        assert (ROOT / pages[name].partition("/blob/main/")[2]).is_file()


def test_the_wheel_has_a_bill_of_materials(wheel: ZipFile) -> None:
    """CycloneDX 1.6 in `.dist-info/sboms` (PEP 770): all bundled weights by checksum, all dependencies by scope."""
    (name,) = (name for name in wheel.namelist() if ".dist-info/sboms/" in name)
    bill, values = json.loads(wheel.read(name)), metadata(wheel)
    assert name.endswith(".cdx.json") and (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert bill["metadata"]["component"]["purl"] == f"pkg:pypi/regard@{values['Version']}"
    assert bill["metadata"]["component"]["licenses"] == [{"expression": values["License-Expression"]}]
    models = [part for part in bill["components"] if part["type"] == "machine-learning-model"]
    weights = [name for name in wheel.namelist() if name.endswith(".safetensors")]
    digests = {name.split("/")[2]: hashlib.sha256(wheel.read(name)).hexdigest() for name in weights}
    assert {model["name"]: model["hashes"][0]["content"] for model in models} == digests and len(digests) == len(
        weights
    )
    packages = {part["name"]: part["scope"] for part in bill["components"] if part not in models}
    required = [Requirement(line) for line in values.get_all("Requires-Dist", []) if "extra == 'dev'" not in line]
    always = {package.name for package in required if not package.marker}
    optional = {package.name for package in required} - always - {"regard"}
    assert packages == dict.fromkeys(optional, "optional") | dict.fromkeys(always, "required")
    references = [part["bom-ref"] for part in bill["components"]]
    assert len(set(references)) == len(references)
    assert bill["dependencies"] == [{"ref": bill["metadata"]["component"]["bom-ref"], "dependsOn": references}]


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


def declared_packages() -> list[Requirement]:
    extras = project()["optional-dependencies"]
    assert isinstance(extras, dict)
    lines = [*project()["dependencies"], *(line for lines in extras.values() for line in lines)]  # type: ignore[misc]
    return [Requirement(line) for line in lines if not line.startswith("regard[")]


def locked_versions(file: str) -> dict[str, list[str]]:
    """The pinned versions in a lock by package; every one has a sha256."""
    text = (ROOT / file).read_text(encoding="utf-8").replace("\\\n", "")
    lines = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    result: dict[str, list[str]] = {}
    for line in lines:
        match = re.fullmatch(r"([\w.-]+)==([\w.!+]+)(?: ; [^#]*?)? +(--hash=.*)", line)
        assert match, line
        name, version, hashes = match.groups()
        assert re.fullmatch(r"(--hash=sha256:[0-9a-f]{64} *)+", hashes), line
        result.setdefault(normalized(name), []).append(version)
    return result


def test_the_lock_fits_the_declared_packages() -> None:
    """`make lock` was run after the last change: every declared package is pinned within its bounds, with checksums."""
    locks = [locked_versions(file) for file in ("requirements.txt", "requirements-dev.txt")]
    assert not set(locks[0]) & set(locks[1]), "what one lock pins, the other leaves out"
    versions = locks[0] | locks[1]
    versions["torch"] = [torch_versions()["pinned"]]
    for package in declared_packages():
        assert all(version in package.specifier for version in versions[normalized(package.name)]), package
    assert package_names(project()["dependencies"]) <= {*locks[0], "torch"}


def torch_versions() -> dict[str, str]:
    """The versions of torch that the Makefile installs: pinned, lowest, newest."""
    return dict(
        re.findall(r"^TORCH_(\w+) := torch==([\d.]+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )


def test_torch_is_tested_at_its_bounds() -> None:
    (torch,) = (package for package in declared_packages() if package.name == "torch")
    bounds = {bound.operator: bound.version for bound in torch.specifier}
    versions = torch_versions()
    assert versions["lowest"].startswith(bounds[">="]) and all(
        version in torch.specifier for version in versions.values()
    )
    major, minor = map(int, versions["newest"].split(".")[:2])
    assert bounds["<"] == f"{major}.{minor + 1}", "the first version that was not tested"
    docker = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    assert f"ARG TORCH=torch=={versions['pinned']}\n" in docker


def test_every_declared_package_is_justified() -> None:
    page = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8").lower()
    assert not {package.name for package in declared_packages() if package.name not in page}
