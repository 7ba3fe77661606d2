"""Builds the book: `python -m book` stages the pages, builds both languages, and checks the site in build/docs."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from book.check import check_site
from book.stage import CONTENTS, ROOT, all_pages, stage

BUILD = ROOT / "build"
SITE = BUILD / "docs"
OPTIONS = ("-q", "-n", "-W", "--keep-going", "-c", str(ROOT / "book"))


def levels(page: Path) -> list[str]:
    """The marks of a page's headings, in order: "#", "##" ..."""
    return re.findall(r"^(#+) ", re.sub(r"^ *```.*?^ *```", "", page.read_text("utf-8"), flags=re.S | re.M), re.M)


def main() -> int:
    for folder in (SITE, BUILD / "doctrees"):
        shutil.rmtree(folder, ignore_errors=True)
    english, chinese = all_pages().values()
    wrong = [f"{name}: exists in one language only" for name in sorted(english.keys() ^ chinese.keys())]
    both = sorted(english.keys() & chinese.keys() - set(CONTENTS["summaries"]))
    wrong += [
        f"{name}: different headings in the two languages"
        for name in both
        if levels(english[name]) != levels(chinese[name])
    ]
    stage(BUILD / "book")
    builds = []
    for language, code, site in (("en", "en", SITE), ("zh", "zh_CN", SITE / "zh")):
        paths = ("-d", BUILD / "doctrees" / language, BUILD / "book" / language, site)
        command = [sys.executable, "-m", "sphinx", *OPTIONS, "-D", f"language={code}", *map(str, paths)]
        builds.append(subprocess.Popen(command, cwd=ROOT))
    status = max(build.wait() for build in builds)
    wrong += check_site(SITE)
    pages = len(list(SITE.rglob("*.html")))
    print(*wrong, f"{pages} pages in {SITE.relative_to(ROOT)}, {len(wrong)} found wrong", sep="\n")
    return status or bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
