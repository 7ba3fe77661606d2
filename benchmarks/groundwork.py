"""Fill the pages of docs/groundwork with their code and its output: python -m benchmarks.groundwork [NAME ...]

A page shows docs/groundwork/code/NAME.py in its block `python`, what it prints in its block `text`, and the pictures
that it writes. Tests compare the pages with the files.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "docs" / "groundwork"


def run_code(name: str, folder: Path) -> str:
    """What the code of a page prints; it writes its pictures into `folder`."""
    command = [sys.executable, str(FOLDER / "code" / f"{name}.py")]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def fill(page: Path, code: str, output: str) -> None:
    text = page.read_text(encoding="utf-8")
    for language, content in (("python", code), ("text", output)):
        block = re.compile(rf"^```{language}\n.*?^```$", re.DOTALL | re.MULTILINE)
        text = block.sub(lambda _, filled=f"```{language}\n{content}```": filled, text, count=1)  # type: ignore[misc]
    page.write_text(text, encoding="utf-8")


def main() -> None:
    for name in sys.argv[1:] or sorted(path.stem for path in (FOLDER / "code").glob("*.py")):
        with tempfile.TemporaryDirectory() as folder:
            output = run_code(name, Path(folder))
            for picture in Path(folder).glob("*.svg"):
                (FOLDER / "pictures" / picture.name).write_bytes(picture.read_bytes())
        for ending in (".md", ".zh.md"):
            if (FOLDER / f"{name}{ending}").exists():
                fill(FOLDER / f"{name}{ending}", (FOLDER / "code" / f"{name}.py").read_text(encoding="utf-8"), output)


if __name__ == "__main__":
    main()
