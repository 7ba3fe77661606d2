"""Hostile data files: each is read with the right rows, or refused with its file and line. None is silent.

    python -m benchmarks.hostile_data --files 1000

Every file has rows of odd text (quotation marks, delimiters, line breaks, accents, emoji) in one of the formats that
regard reads, written by another library, and then one defect, or none: truncated, a byte changed, U+0000, another
encoding, an open quotation mark, ragged rows, equal or repeated headers, huge lines, damaged compression ... What we
read is compared with the rows that were written, or, where a defect gives another valid file, with an independent
reader: pandas, pyarrow, openpyxl, lxml, json, or a CSV parser of a few lines.
"""

import argparse
import bz2
import gzip
import io
import json
import lzma
import random
import re
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

from regard.data.accounts import collect_accounts
from regard.data.fields import LABELLED_TEXT, PAIRS, TAGGED_WORDS, Fields
from regard.data.formats import read_examples
from regard.data.settings import build_source
from regard.errors import UserError

Row = tuple[str, str]
PIECES = [
    "good",
    "bad film",
    '5" disk',
    "a, b; c",
    "x | y",
    "Grüße",
    "naïve",
    "日本語",
    "🎉",
    "'s",
    "{",
    "[",
    "<b>",
    "&amp;",
]
PIECES += ["__label__", "# no", "\\n", "%s", "1_000", "NaN", "null", "\u2028", "\u00a0", "\x85", "=1+1", "-", "“so”"]
PACKED: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}


@dataclass
class Case:
    """One file: its content, its rows, and what may happen to it."""

    name: str
    content: bytes
    rows: list[Row]
    fields: Fields = LABELLED_TEXT
    defect: str = "none"
    expected: str = "same"
    """same: read with `rows`; refused; damaged: refused, or read with `rows`; other: refused, or as another reader."""
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return self.name.partition(".")[2]


# ---- writers ---------------------------------------------------------------------------------------------------------


def make_rows(rng: random.Random, breaks: bool) -> list[Row]:
    def text() -> str:
        words = rng.choices(PIECES, k=rng.randint(1, 6))
        if breaks and rng.random() < 0.2:
            words.insert(rng.randrange(len(words) + 1), "\n")
        return " ".join(words).strip() or "x"

    return [
        (f"{number} {text()}", rng.choice(["yes", "no", "perhaps", "Übel"])) for number in range(rng.randint(3, 30))
    ]


def quoted(cell: str, delimiter: str, always: bool) -> str:
    return f'"{cell.replace(chr(34), chr(34) * 2)}"' if always or re.search(rf'["\n\r{delimiter}]', cell) else cell


def write_csv(rng: random.Random, rows: list[Row], header: Row) -> str:
    delimiter, always = rng.choice(",;\t"), rng.random() < 0.5
    lines = (delimiter.join(quoted(cell, delimiter, always) for cell in row) for row in [header, *rows])
    return "".join(line + "\n" for line in lines)


def write_text(kind: str, rng: random.Random, rows: list[Row]) -> str:
    header = ("text", "label")
    if kind == "csv":
        return write_csv(rng, rows, header)
    if kind == "tsv":
        return "".join("\t".join(row) + "\n" for row in [header, *rows])
    if kind == "jsonl":
        ascii_only = rng.random() < 0.5
        return "".join(json.dumps(dict(zip(header, row, strict=True)), ensure_ascii=ascii_only) + "\n" for row in rows)
    if kind == "json":
        records = [dict(zip(header, row, strict=True)) for row in rows]
        columns = {name: [row[index] for row in rows] for index, name in enumerate(header)}
        return json.dumps(rng.choice([records, columns]), indent=rng.choice([None, 1]))
    if kind == "txt":
        return "".join(f"__label__{label} {text}\n" for text, label in rows)
    if kind == "conll":
        return "".join("".join(f"{word}\t{label}\n" for word in text.split()) + "\n" for text, label in rows)
    if kind == "tmx":
        tuv = '<tuv xml:lang="{}"><seg>{}</seg></tuv>'
        units = (f"<tu>{tuv.format('en', escape(a))}{tuv.format('de', escape(b))}</tu>\n" for a, b in rows)
        start = '<?xml version="1.0" encoding="utf-8"?>\n<tmx version="1.4"><header srclang="en"/><body>\n'
        return f"{start}{''.join(units)}</body></tmx>"
    units = (f"<trans-unit><source>{escape(a)}</source><target>{escape(b)}</target></trans-unit>\n" for a, b in rows)
    start = '<xliff version="1.2"><file source-language="en"><body>\n'
    return f"{start}{''.join(units)}</body></file></xliff>"


def write_typed(kind: str, rows: list[Row]) -> bytes:
    buffer = io.BytesIO()
    if kind == "xlsx":
        book = import_module("openpyxl").Workbook()
        for row in [("text", "label"), *rows]:
            book.active.append([f"'{cell}" if cell.startswith("=") else cell for cell in row])
        book.save(buffer)
        return buffer.getvalue()
    pa, feather, parquet = map(import_module, ("pyarrow", "pyarrow.feather", "pyarrow.parquet"))
    table = pa.table({"text": [text for text, _ in rows], "label": [label for _, label in rows]})
    if kind == "parquet":
        parquet.write_table(table, buffer)
    else:
        feather.write_feather(table, buffer)
    return buffer.getvalue()


TEXT_KINDS = ("csv", "tsv", "jsonl", "json", "txt", "conll", "tmx", "xliff")
TYPED_KINDS = ("parquet", "feather", "xlsx")
MULTILINE = ("csv", "jsonl", "json", "parquet", "feather", "xlsx")


# ---- defects ---------------------------------------------------------------------------------------------------------


def place(rng: random.Random, content: bytes) -> int:
    return rng.randrange(1, max(2, len(content)))


def line_edit(content: bytes, rng: random.Random, edit: Callable[[bytes], bytes]) -> bytes:
    """Change one row behind the header."""
    lines = content.split(b"\n")
    number = min(rng.randrange(1, max(2, len(lines) - 1)), len(lines) - 1)
    lines[number] = edit(lines[number])
    return b"\n".join(lines)


def flip(case: Case, rng: random.Random) -> bytes:
    changed, at = bytearray(case.content), place(rng, case.content) - 1
    changed[at] ^= rng.randrange(1, 256)
    return bytes(changed)


def drop_quote(case: Case, rng: random.Random) -> bytes:
    places = [index for index, byte in enumerate(case.content) if byte == 34]
    at = rng.choice(places) if places else 0
    return case.content[:at] + case.content[at + 1 :] if places else case.content + b'"open'


Defect = tuple[str, str, Callable[[Case, random.Random], bytes], tuple[str, ...]]
LINES = ("csv", "tsv", "jsonl", "txt", "conll")
BOM, MAGIC, ENTITY = (
    b"\xef\xbb\xbf",
    (b"PK\x03\x04", b"PAR1", b"%PDF-1", b"\x1f\x8b"),
    b'<!DOCTYPE x [<!ENTITY a "b">]>',
)
DEFECTS: list[Defect] = [
    ("none", "same", lambda case, rng: case.content, (*TEXT_KINDS, *TYPED_KINDS)),
    ("truncated", "other", lambda case, rng: case.content[: place(rng, case.content)], (*TEXT_KINDS, *TYPED_KINDS)),
    ("byte", "other", flip, (*TEXT_KINDS, *TYPED_KINDS)),
    ("empty", "refused", lambda case, rng: b"", (*TEXT_KINDS, *TYPED_KINDS)),
    ("nul", "refused", lambda case, rng: line_edit(case.content, rng, lambda line: b"\0" + line), TEXT_KINDS),
    ("latin1", "refused", lambda case, rng: line_edit(case.content, rng, lambda line: line + b"M\xe4n"), TEXT_KINDS),
    ("utf16le", "refused", lambda case, rng: case.content.decode().encode("utf-16-le"), LINES),
    ("utf16be", "refused", lambda case, rng: case.content.decode().encode("utf-16-be"), (*LINES, "json")),
    ("utf16", "refused", lambda case, rng: case.content.decode().encode("utf-16"), (*LINES, "json")),
    ("cr", "refused", lambda case, rng: case.content.replace(b"\n", b"\r"), LINES),
    ("crlf", "same", lambda case, rng: case.content.replace(b"\n", b"\r\n"), ("tsv", "jsonl", "txt", "conll")),
    ("bom", "same", lambda case, rng: BOM + case.content, (*LINES, "json", "tmx")),
    ("blank", "same", lambda case, rng: case.content + b"\n\n", (*LINES, "json")),
    ("joined", "refused", lambda case, rng: case.content + BOM + case.content, ("csv", "tsv", "jsonl", "json")),
    ("twice", "refused", lambda case, rng: case.content + case.content, ("csv", "tsv", "json", "tmx", "xliff")),
    ("quote", "rows", drop_quote, ("csv",)),
    ("open", "refused", lambda case, rng: case.content + b'"open,x\na,b\n', ("csv",)),
    ("longer", "refused", lambda case, rng: case.content + b"a,b;c\td,e;f\tg\n", ("csv", "tsv")),
    ("shorter", "refused", lambda case, rng: case.content + b"alone\n", ("csv", "tsv")),
    ("columns", "refused", lambda case, rng: case.content.replace(b"label", b"text", 1), ("csv", "tsv")),
    ("huge", "other", lambda case, rng: line_edit(case.content, rng, lambda line: b"y" * 300_000 + line), LINES),
    ("binary", "refused", lambda case, rng: rng.choice(MAGIC) + rng.randbytes(90), LINES),
    ("key", "refused", lambda case, rng: case.content + b'{"text": "a", "text": "b", "label": "c"}\n', ("jsonl",)),
    ("constant", "refused", lambda case, rng: case.content + b'{"text": NaN, "label": "c"}\n', ("jsonl",)),
    ("ragged", "refused", lambda case, rng: case.content + b"a\tb\nc\td\te\n", ("conll",)),
    ("entity", "refused", lambda case, rng: ENTITY + case.content.rpartition(b"?>\n")[2], ("tmx", "xliff")),
    ("deep", "refused", lambda case, rng: case.content.replace(b"<body>", b"<body>" + b"<p>" * 300), ("tmx", "xliff")),
    ("renamed", "refused", lambda case, rng: case.content, TYPED_KINDS),
]  # fmt: skip


def make_case(number: int, seed: int) -> Case:
    """The file of this number: every format and every defect in turn, plain or compressed."""
    rng = random.Random(f"{seed} {number}")
    kinds = (*TEXT_KINDS, *TYPED_KINDS)
    kind = kinds[number % len(kinds)]
    rows = make_rows(rng, kind in MULTILINE)
    if kind == "conll":
        rows = [(" ".join(text.split()), label) for text, label in rows]
    content = write_typed(kind, rows) if kind in TYPED_KINDS else write_text(kind, rng, rows).encode()
    fields = {"conll": TAGGED_WORDS, "tmx": PAIRS, "xliff": PAIRS}.get(kind, LABELLED_TEXT)
    case = Case(f"file{number}.{kind}", content, rows, fields)
    if number % 5 == 4:
        return compressed(case, rng)
    possible = [defect for defect in DEFECTS if kind in defect[3]]
    case.defect, case.expected, change, _ = possible[number // len(kinds) % len(possible)]
    case.content = change(case, rng)
    if case.defect == "renamed":
        case.name = f"file{number}.csv"
    if case.expected == "other" and case.content == content:
        case.expected = "same"
    return case


def compressed(case: Case, rng: random.Random) -> Case:
    """The file compressed or in an archive, maybe damaged."""
    ending = rng.choice([*PACKED, ".zip"]) if case.kind in TEXT_KINDS else ".zip"
    if ending == ".zip":
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(case.name, case.content)
        case.content, case.name = buffer.getvalue(), f"{case.name}.zip/{case.name}"
    else:
        half = len(case.content) // 2
        parts = [case.content] if rng.random() < 0.5 else [case.content[:half], case.content[half:]]
        case.content, case.name = b"".join(map(PACKED[ending], parts)), case.name + ending
    defect = rng.choice(["none", "truncated", "byte", "junk"])
    case.defect, case.expected = f"{ending} {defect}", "same" if defect == "none" else "damaged"
    if defect == "truncated":
        case.content = case.content[: place(rng, case.content)]
    elif defect == "byte":
        case.content = flip(case, rng)
    elif defect == "junk":
        case.content += b"junk behind the end"
        case.expected = "damaged" if ending == ".zip" else "refused"
    return case


# ---- other readers ---------------------------------------------------------------------------------------------------


def parse_csv(text: str, delimiter: str) -> list[list[str]]:
    """Rows of RFC 4180, character by character; a quotation mark inside of a cell that is not quoted is text."""
    rows, row, cell, state = list[list[str]](), list[str](), "", "start"
    for character in text.replace("\r\n", "\n") + ("" if text.endswith("\n") else "\n"):
        if state == "quoted":
            state, cell = ("closed", cell) if character == '"' else ("quoted", cell + character)
        elif character == '"' and state in ("start", "closed"):
            state, cell = "quoted", cell + ('"' if state == "closed" else "")
        elif character in (delimiter, "\n"):
            row, cell, state = [*row, cell], "", "start"
            if character == "\n":
                rows, row = [*rows, row], []
        elif state == "closed":
            raise ValueError("text behind a quoted cell")
        else:
            state, cell = "plain", cell + character
    if state != "start":
        raise ValueError("an open quotation mark")
    return [row for row in rows if row != [""]]


def other_reader(case: Case) -> list[Row]:
    """The rows of a plain file by another reader; an exception if it has none."""
    kind, raw = case.kind, case.content
    if kind in TYPED_KINDS:
        pd = import_module("pandas")
        read = {"parquet": pd.read_parquet, "feather": pd.read_feather}.get(kind)
        options = {"dtype": str, "keep_default_na": False}
        frame = pd.read_excel(io.BytesIO(raw), **options) if read is None else read(io.BytesIO(raw))
        return [
            (str(text).strip(), str(label).strip()) for text, label in zip(frame["text"], frame["label"], strict=True)
        ]
    if kind in ("tmx", "xliff"):
        from lxml import etree

        root = etree.fromstring(raw, etree.XMLParser(resolve_entities=False))
        units = root.iter("tu") if kind == "tmx" else root.iter("trans-unit")
        texts = [["".join(part.itertext()) for part in unit.iter("seg", "source", "target")] for unit in units]
        return [(pair[0], pair[1]) for pair in texts if len(pair) == 2]
    text = raw.decode("utf-8-sig")
    lines = text.removesuffix("\n").split("\n")
    if kind in ("csv", "tsv"):
        delimiter = "\t" if kind == "tsv" else max(",;\t", key=lines[0].count)
        rows = parse_csv(text, delimiter) if kind == "csv" else [line.split("\t") for line in lines if line]
        column = {name.strip(): index for index, name in enumerate(rows[0])}
        return [(row[column["text"]].strip(), row[column["label"]].strip()) for row in rows[1:]]
    if kind == "conll":
        blocks = [
            block.strip("\n").split("\n") for block in re.split(r"\n[ \t\r]*(?:\n[ \t\r]*)*\n", text) if block.strip()
        ]
        words = [[re.split(r"\t", line) if "\t" in line else line.split(" ") for line in block] for block in blocks]
        return [
            (" ".join(row[0].strip() for row in block), " ".join(row[-1].strip() for row in block)) for block in words
        ]
    if kind == "txt":
        parts = [re.match(r"__label__(\S+)\s+(.*)", line) for line in lines if line.strip()]
        return [(part[2].strip(), part[1].strip()) for part in parts if part] + [("?", "?")] * (None in parts)
    values = [json.loads(line) for line in lines if line.strip()] if kind == "jsonl" else json.loads(text)
    if isinstance(values, dict):
        return list(zip(map(str.strip, values["text"]), map(str.strip, values["label"]), strict=True))
    return [(value["text"].strip(), value["label"].strip()) for value in values]


# ---- judgement -------------------------------------------------------------------------------------------------------


def read_with_regard(case: Case, folder: Path) -> list[Row]:
    path = folder / case.name.partition("/")[0]
    path.write_bytes(case.content)
    source = build_source({"file": case.name, **case.options}, case.fields, "test")
    with collect_accounts() as accounts:
        examples = list(read_examples([source], folder, case.fields))
    path.unlink()
    (account,) = accounts.values()
    if account.kept != len(examples):
        raise AssertionError(f"{account} for {len(examples)} examples")
    if case.fields is TAGGED_WORDS:
        return [(" ".join(item["words"]), " ".join(item["tags"])) for item in examples]
    keys = ("src", "tgt") if case.fields is PAIRS else ("text", "label")
    return [(item[keys[0]], item[keys[1]]) for item in examples]


def wanted_rows(case: Case) -> list[Row]:
    """The rows that were written, as the format gives them back."""
    if case.fields is TAGGED_WORDS:
        return [(text, " ".join([label] * len(text.split()))) for text, label in case.rows]
    return case.rows if case.fields is PAIRS else [(text.strip(), label) for text, label in case.rows]


def judge(case: Case, folder: Path) -> tuple[str, str]:
    """right, refused or wrong, and why."""
    try:
        found = read_with_regard(case, folder)
    except UserError as error:
        where = str(error.where)
        if case.expected == "same":
            return "wrong", f"refused a good file: {error}"
        if not where.startswith(str(folder / case.name.partition("/")[0])):
            return "wrong", f"the error names {where!r}: {error}"
        by_line = case.kind in (*LINES, "tmx", "xliff") and error.code not in (
            "no-data",
            "damaged-file",
            "ambiguous-columns",
        )
        if by_line and not re.search(r":\d+$", where):
            return "wrong", f"the error names no line: {error}"
        return "refused", error.code
    except Exception as error:
        return "wrong", f"{type(error).__name__}: {error}"
    if case.expected == "refused":
        return "wrong", f"read {len(found)} rows"
    wanted = wanted_rows(case)
    if case.expected in ("same", "damaged"):
        return ("right", "") if found == wanted else ("wrong", difference(found, wanted))
    try:
        other = other_reader(case)
    except Exception as error:
        return "wrong", f"read {len(found)} rows, another reader none: {type(error).__name__}: {error}"
    if case.expected == "rows" and len(found) != len(wanted):
        return "wrong", f"{len(found)} rows of {len(wanted)}"
    return ("right", "") if found == other else ("wrong", difference(found, other))


def difference(found: list[Row], wanted: list[Row]) -> str:
    pairs = ((a, b) for a, b in zip(found, wanted, strict=False) if a != b)
    return f"{len(found)} rows, not {len(wanted)}; {next(pairs, '')}"


def run(files: int, seed: int) -> tuple[Counter[str], Counter[tuple[str, str]], list[str]]:
    """Judge some files: verdicts, verdicts by format, and what was wrong."""
    verdicts, by_kind, wrong = Counter[str](), Counter[tuple[str, str]](), list[str]()
    with tempfile.TemporaryDirectory() as place:
        for number in range(files):
            case = make_case(number, seed)
            verdict, reason = judge(case, Path(place))
            verdicts[verdict] += 1
            by_kind[case.kind.partition(".")[0], verdict] += 1
            if verdict == "wrong":
                wrong.append(f"{case.name} ({case.defect}, seed {seed}): {reason[:300]}")
    return verdicts, by_kind, wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1000, help="number of files [1000]")
    parser.add_argument("--seed", type=int, default=1, help="of the files [1]")
    options = parser.parse_args()
    verdicts, by_kind, wrong = run(options.files, options.seed)
    for kind in sorted({kind for kind, _ in by_kind}):
        print(
            f"{kind:8}",
            *(f"{verdict} {by_kind[kind, verdict]:4}" for verdict in ("right", "refused", "wrong")),
            sep="  ",
        )
    for line in wrong:
        print(line)
    right, refused, bad = (verdicts[verdict] for verdict in ("right", "refused", "wrong"))
    print(f"{options.files} files: {right} read right, {refused} refused, {bad} wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
