"""Nothing silent: what a lenient reader would take for data is refused with its file and line, or counted."""

import bz2
import gzip
import json
import lzma
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.data.accounts import Account, collect_accounts, describe_accounts
from regard.data.fields import LABELLED_TEXT, LINES, PAIRS, QUESTIONS, SCORED_TEXT, TAGGED_WORDS, Fields
from regard.data.formats import read_examples
from regard.data.sources import Source
from regard.errors import UserError
from regard.tasks.inputs import parse_json_line


def read(folder: Path, content: str | bytes, fields: Fields = PAIRS, **options: Any) -> list[dict[str, Any]]:
    name = options.setdefault("file", "a.csv")
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(read_examples([Source(**options)], folder, fields))


def refused(folder: Path, content: str | bytes, fields: Fields = PAIRS, **options: Any) -> tuple[str, str]:
    with pytest.raises(UserError) as error:
        read(folder, content, fields, **options)
    assert error.value.remedy
    return error.value.code, str(error.value.where).removeprefix(f"{folder}/")


ROWS = "".join(f"text {number},class {number % 3}\n" for number in range(40))


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        ('"open,a\n' + ROWS, 2),  # never closed
        (ROWS + '"open,a\n' + ROWS + '"b",c\n', 42),  # closed by the next quoted cell
        (ROWS + '"open,a\n' + ROWS + 'inch 5",c\n', 42),  # closed by a quotation mark at the end of a later cell
        (ROWS + 'a,"open\n' + ROWS + 'a,b"\n', 42),
        ('"two\nlines",a\n"open,a\n' + ROWS, 4),
        ('"a" b,c\n', 2),
    ],
)
@pytest.mark.parametrize("fields", [PAIRS, LABELLED_TEXT])
def test_an_open_quotation_mark_is_refused_where_it_opens(tmp_path: Path, rows: str, line: int, fields: Fields) -> None:
    header = "src,tgt\n" if fields is PAIRS else "text,label\n"
    assert refused(tmp_path, header + rows, fields) == ("bad-line", f"a.csv:{line}")


def test_the_open_cell_of_a_long_row_has_its_own_line(tmp_path: Path) -> None:
    assert refused(tmp_path, 'src,tgt\n"two\nlines","open\nx,y\n') == ("bad-line", "a.csv:3")


def test_cells_over_lines_are_read_and_counted(tmp_path: Path) -> None:
    """Letters have lines with commas; lines that all look like rows are one cell only if `quoted` says so."""
    letter = 'label,text\na,"Dear Ann,\nhow are you, my friend, today\nYours, Bob"\nb,no\n'
    with collect_accounts() as accounts:
        assert read(tmp_path, letter, LABELLED_TEXT)[0]["text"].count("\n") == 2
    assert (accounts["a.csv"].joined, len(describe_accounts(accounts))) == (1, 1)
    joined = 'label,text\na,"Dear Ann\nb,c\nYours, Bob"\nb,no\n'
    assert refused(tmp_path, joined, LABELLED_TEXT) == ("bad-line", "a.csv:2")
    assert len(read(tmp_path, joined, LABELLED_TEXT, quoted=True)) == 2
    assert read(tmp_path, 'src;tgt\n5" disk;a "b"\n')[0] == {"src": '5" disk', "tgt": 'a "b"'}, "inside a cell: text"


@pytest.mark.parametrize(
    ("content", "options", "code", "line"),
    [
        ("id,src,note,tgt\n1,Two young, tall men,web,Zwei\n", {}, "bad-line", 2),
        ("id,src,note,tgt\n1,Two,web\n", {}, "bad-line", 2),
        ("a\tb\nc\n", {"file": "a.tsv"}, "bad-line", 2),
        ("src,tgt,src\na,b,c\n", {}, "ambiguous-columns", 1),
        ("src,tgt\na,b\nsrc,tgt\nc,d\n", {}, "bad-line", 3),
        ("src,tgt\na,b\n\ufeffc,d\n", {}, "bad-line", 3),
        ("a\tb\nc\td\re\tf\n", {"file": "a.tsv"}, "bad-line", 2),
        ("a\tb\nc\rd\te\n", {"file": "a.tsv"}, "bad-line", 2),
        ("src\ttgt\ra\tb\rc\td", {"file": "a.tsv"}, "bad-line", 1),
        ('{"src": "a", "src": "b", "tgt": "c"}\n', {"file": "a.jsonl"}, "bad-json", 1),
        ('\n{"src": "a", "tgt": NaN}\n', {"file": "a.jsonl"}, "bad-json", 2),
        ('{"src": "a\\u0000", "tgt": "b"}\n', {"file": "a.jsonl"}, "bad-json", 1),
    ],
)
def test_tables_and_json_of_pairs(tmp_path: Path, content: str, options: dict[str, Any], code: str, line: int) -> None:
    assert refused(tmp_path, content, **options) == (code, f"{options.get('file', 'a.csv')}:{line}")


def test_columns_by_number_may_have_equal_names(tmp_path: Path) -> None:
    content = "x,x,y\na,b,c\n"
    assert read(tmp_path, content, header=True, src_column=1, tgt_column=2) == [{"src": "a", "tgt": "b"}]


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.txt", "a.jsonl", "a.conll", "a.text"])
def test_no_reader_takes_zeros_and_utf_16(tmp_path: Path, name: str) -> None:
    fields = {".conll": TAGGED_WORDS, ".text": LINES}.get(Path(name).suffix, LABELLED_TEXT)
    text = "text\tlabel\none\ttwo\n" if name != "a.jsonl" else '{"text": "a", "label": "b"}\n{"text": "c"}\n'
    for encoding in ("utf-16-le", "utf-16-be", "utf-16"):
        assert refused(tmp_path, text.encode(encoding), fields, file=name) == ("not-utf8", f"{name}:1")
    assert refused(tmp_path, text.replace("t", "\0", 1), fields, file=name) == ("nul-character", f"{name}:1")


@pytest.mark.parametrize(
    "magic", [b"PK\x03\x04rest", b"PAR1", b"%PDF-1.7\n", b"\xd0\xcf\x11\xe0\xa1", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd"]
)
def test_other_files_are_named_by_their_content(tmp_path: Path, magic: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(magic + b"\n\0\xff")
    with pytest.raises(UserError) as error:
        list(read_examples([Source(file="a.csv")], tmp_path, LABELLED_TEXT))
    assert error.value.code == "not-utf8" and "iconv" not in error.value.remedy


PACK: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}


@pytest.mark.parametrize("ending", PACK)
def test_every_byte_of_a_compressed_file_is_read(tmp_path: Path, ending: str) -> None:
    first, second = ("".join(f"{i}\t{i}{side}\n" for i in range(1000)).encode() for side in "ab")
    pack, name = PACK[ending], f"a.tsv{ending}"
    whole = pack(first) + pack(second)
    assert len(read(tmp_path, whole, file=name)) == 2000
    assert len(read(tmp_path, whole + b"\0" * 512, file=name)) == 2000, "padding, as on tapes"
    damaged = bytearray(whole)
    damaged[len(pack(first)) + 30] ^= 0xFF
    for content in (bytes(damaged), whole + b"junk", whole[:-5], pack(first) + second):
        assert refused(tmp_path, content, file=name) == ("damaged-file", name)


def test_one_label_has_one_spelling(tmp_path: Path) -> None:
    composed, decomposed = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
    rows = f"text,label\na,{composed}\nb,x\nc,{decomposed}\n"
    assert refused(tmp_path, rows, LABELLED_TEXT) == ("two-spellings", "a.csv:4")
    assert [item["label"] for item in read(tmp_path, f"text,label\na,{decomposed}\n", LABELLED_TEXT)] == [decomposed]
    tags = f"a\t{composed}\nb\t{decomposed}\n"
    assert refused(tmp_path, tags, TAGGED_WORDS, file="a.conll") == ("two-spellings", "a.conll:1")


@pytest.mark.parametrize("number", ["1_000", "nan", "inf", "-Infinity", "١٢", "0x10", "1,5", "1e", "", "1 2"])
def test_numbers_have_one_grammar(tmp_path: Path, number: str) -> None:
    content = f"text\tlabel\na\t{number}\n"
    assert refused(tmp_path, content, SCORED_TEXT, file="a.tsv")[1] == "a.tsv:2"


def test_usual_numbers_are_read(tmp_path: Path) -> None:
    numbers = {"-1": -1.0, "+.5": 0.5, "3.": 3.0, "1e-3": 0.001, " 2.5 ": 2.5}
    content = "text\tlabel\n" + "".join(f"a\t{number}\n" for number in numbers)
    assert [item["label"] for item in read(tmp_path, content, SCORED_TEXT, file="a.tsv")] == [*numbers.values()]


def test_the_account_of_a_source_adds_up(tmp_path: Path) -> None:
    content = "text,label,kind\na,b,x\n\nc,d,y\n \ne,f,x\n"
    with collect_accounts() as accounts:
        assert len(read(tmp_path, content, LABELLED_TEXT, where={"kind": "x"})) == 2
    (account,) = accounts.values()
    assert (account.read, account.kept, account.dropped) == (6, 2, {"header": 1, "blank": 2, "where": 1})
    assert len(describe_accounts(accounts)) == 1
    with pytest.raises(RuntimeError):
        Account("a.csv", 3, 1).check()


@pytest.mark.parametrize("name", ["dev.json", "a.context"])
def test_questions_are_counted(tmp_path: Path, name: str) -> None:
    question = {"id": "1", "question": "Who?", "answers": [{"text": "Ada", "answer_start": 0}]}
    document = {"data": [{"paragraphs": [{"context": "Ada.", "qas": [question]}]}]}
    (tmp_path / "dev.json").write_text(json.dumps(document))
    for ending, line in (("context", "Ada slept ."), ("question", "Who slept ?"), ("span", "0 1")):
        (tmp_path / f"a.{ending}").write_text(line + "\n")
    options: dict[str, Any] = {"format": "squad" if name == "dev.json" else "squad-tokens"}
    with collect_accounts() as accounts:
        assert len(list(read_examples([Source(file=name, **options)], tmp_path, QUESTIONS))) == 1
    assert [(account.read, account.kept) for account in accounts.values()] == [(1, 1)]


def test_a_line_of_input_is_strict_too() -> None:
    assert parse_json_line('{"text": "a"}', "line 1") == {"text": "a"}
    for line in ('{"text": "a", "text": "b"}', '{"text": NaN}', '{"text": "\\u0000"}'):
        with pytest.raises(UserError) as error:
            parse_json_line(line, "line 1")
        assert error.value.code == "not-json"
