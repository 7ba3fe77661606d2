"""Plug-ins: files of REGARD_PLUGINS and installed packages, each loaded once; names are never overwritten."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from regard import plugins
from regard.errors import UserError
from regard.plugins import PREFIX, Registry, load_plugins, module_name


@pytest.fixture(autouse=True)
def no_plugins_stay() -> Iterator[None]:
    """Forget the plug-ins of a test."""
    yield
    plugins.installed_plugins.cache_clear()
    for name in [name for name in sys.modules if name.startswith((PREFIX, "outside_"))]:
        del sys.modules[name]


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def name_files(monkeypatch: pytest.MonkeyPatch, *files: Path) -> None:
    monkeypatch.setenv("REGARD_PLUGINS", os.pathsep.join(map(str, files)))


def install(monkeypatch: pytest.MonkeyPatch, folder: Path, package: str, points: str, module: str = "") -> None:
    """A package as pip leaves it: a module and the metadata of its distribution."""
    write(folder / f"{package}.py", module)
    info = folder / f"{package}-1.0.dist-info"
    write(info / "METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    write(info / "entry_points.txt", points)
    monkeypatch.syspath_prepend(str(folder))
    plugins.installed_plugins.cache_clear()


def test_files_of_one_name_in_different_folders_are_loaded_once_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = "from pathlib import Path\nwith Path(__file__).with_suffix('.count').open('a') as f: f.write('x')\n"
    files = [write(tmp_path / folder / "letters.py", count) for folder in ("a", "b")]
    name_files(monkeypatch, *files)
    load_plugins()
    load_plugins()
    assert [file.with_suffix(".count").read_text() for file in files] == ["x", "x"]
    assert len({module_name(file) for file in files} & sys.modules.keys()) == 2


def test_a_missing_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name_files(monkeypatch, tmp_path / "nothing.py")
    with pytest.raises(UserError) as error:
        load_plugins()
    assert error.value.code == "missing-file" and "REGARD_PLUGINS" in error.value.remedy


def test_the_error_of_a_plugin_names_its_line_and_is_raised_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path / "broken.py", "x = 1\nx.y\n")
    name_files(monkeypatch, file)
    for _ in range(2):
        with pytest.raises(UserError) as error:
            load_plugins()
        assert error.value.code == "invalid-plugin" and f"{file}:2" in error.value.remedy
    write(file, "x = 1\n")
    load_plugins()


@pytest.mark.parametrize("group", plugins.GROUPS)
def test_an_installed_package(group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, tmp_path, "outside_letters", f"[{group}]\nletters = outside_letters\n")
    load_plugins()
    assert "outside_letters" in sys.modules


def test_two_installed_plugins_of_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("outside_a", "outside_b"):
        install(monkeypatch, tmp_path / package, package, f"[regard.plugins]\nletters = {package}\n")
    with pytest.raises(UserError) as error:
        load_plugins()
    assert (error.value.code, error.value.where) == ("duplicate-name", "letters")


def test_a_registry_never_overwrites() -> None:
    registry: Registry[type] = Registry("score", {"dot": dict})
    with pytest.raises(UserError) as error:
        registry.adder("dot")(list)
    assert (error.value.code, error.value.where, registry["dot"]) == ("duplicate-name", "dot", dict)
    assert registry.adder("cosine")(list) is list and registry.has("cosine") and not registry.has("sine")
    with pytest.raises(UserError) as error:
        registry.add("", list)
    assert error.value.code == "invalid-plugin"


def test_a_definition_that_is_run_again_replaces_itself() -> None:
    """As a notebook cell does."""
    registry: Registry[type] = Registry("score", {})
    for number in range(2):

        class Score:
            value = number

        registry.add("mine", Score)
    assert registry["mine"].value == 1  # type: ignore[attr-defined]


def test_another_process_unpickles_a_class_of_a_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "squares.py", "class Square:\n    def __call__(self, x): return x * x\n")
    script = write(
        tmp_path / "script.py",
        "import sys\nfrom regard.plugins import load_plugins, module_name\nfrom regard.processes import map_in_order\n"
        "if __name__ == '__main__':\n    load_plugins()\n"
        "    from regard.plugins import plugin_files\n"
        "    square = sys.modules[module_name(plugin_files()[0])].Square()\n"
        "    print(list(map_in_order(square, range(200), 2))[-1])\n",
    )
    name_files(monkeypatch, file)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert done.stdout.strip() == str(199**2), done.stderr
