"""Parquet, Arrow, `datasets` folders, XLSX, TMX, XLIFF, JSON columns, zip members and frames: one result for all."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from regard.data.accounts import collect_accounts
from regard.data.digests import Digests
from regard.data.fields import LABELLED_TEXT, LINES, PAIRS, SCORED_TEXT, TAGGED_WORDS, Fields
from regard.data.formats import describe_sources, identify, read_examples
from regard.data.hold_out import sentences
from regard.data.settings import DataSettings, build_source
from regard.data.sources import Source
from regard.errors import UserError

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
openpyxl = pytest.importorskip("openpyxl")

TEXTS = [('Grüße, "so"\nzwei', "yes"), ("日本 🎉", "no"), (" spaces ", "5")]
FRAME = pd.DataFrame(TEXTS, columns=["text", "label"])
EXPECTED = [{"text": text.strip(), "label": label} for text, label in TEXTS]


def read(folder: Path, fields: Fields = LABELLED_TEXT, **options: Any) -> list[dict[str, Any]]:
    return list(read_examples([build_source(options, fields, "test")], folder, fields))


def refused(folder: Path, fields: Fields = LABELLED_TEXT, **options: Any) -> tuple[str, str]:
    with pytest.raises(UserError) as error:
        read(folder, fields, **options)
    return error.value.code, str(error.value.where).removeprefix(f"{folder}/")


def write_dataset(folder: Path, frame: Any, shards: int = 2) -> None:
    """As `Dataset.save_to_disk` writes it: Arrow streams, and a state that names them."""
    folder.mkdir(parents=True)
    names = [f"data-{number:05d}-of-{shards:05d}.arrow" for number in range(shards)]
    for number, name in enumerate(names):
        table = pa.Table.from_pandas(frame.iloc[number::shards], preserve_index=False)
        with pa.OSFile(str(folder / name), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    state = {"_data_files": [{"filename": name} for name in names], "_fingerprint": "x", "_split": "train"}
    (folder / "state.json").write_text(json.dumps(state), encoding="utf-8")
    (folder / "dataset_info.json").write_text("{}", encoding="utf-8")


def write_sheet(path: Path, rows: list[list[Any]], **others: list[list[Any]]) -> None:
    book = openpyxl.Workbook()
    for title, content in {"Sheet": rows, **others}.items():
        sheet = book["Sheet"] if title == "Sheet" else book.create_sheet(title)
        for row in content:
            sheet.append(row)
    book.save(path)


def test_every_format_gives_the_same_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    FRAME.to_parquet(tmp_path / "a.parquet")
    FRAME.to_feather(tmp_path / "a.feather")
    write_dataset(tmp_path / "set", FRAME)
    write_sheet(tmp_path / "a.xlsx", [["text", "label"], *map(list, TEXTS)])
    FRAME.to_csv(tmp_path / "a.csv", index=False)
    FRAME.to_json(tmp_path / "a.json", orient="records")
    (tmp_path / "b.json").write_text(json.dumps(FRAME.to_dict("list")), encoding="utf-8")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(tmp_path / "a.csv", "data/a.csv")
        archive.write(tmp_path / "a.parquet", "a.parquet")
    for name in (
        "a.parquet",
        "a.feather",
        "a.xlsx",
        "a.csv",
        "a.json",
        "b.json",
        "a.zip/data/a.csv",
        "a.zip/a.parquet",
    ):
        assert read(tmp_path, file=name) == EXPECTED, name
    assert read(tmp_path, file="set", format="datasets") == [EXPECTED[0], EXPECTED[2], EXPECTED[1]]
    (source,) = DataSettings.model_validate({"train": FRAME}).train
    assert read(tmp_path, **source.model_dump()) == EXPECTED
    assert DataSettings.model_validate({"train": [FRAME, "a.csv"]}).train[0] == source, "equal frames are one file"


def test_columns_lists_nested_values_and_numbers(tmp_path: Path) -> None:
    frame = pd.DataFrame({"w": [["Ada", "slept"]], "t": [["B", "O"]], "score": [2.5], "in": [{"side": "x"}], "n": [7]})
    frame.to_parquet(tmp_path / "a.parquet")
    assert read(tmp_path, TAGGED_WORDS, file="a.parquet", words="w", tags="t") == [
        {"words": ["Ada", "slept"], "tags": ["B", "O"]}
    ]
    assert read(tmp_path, SCORED_TEXT, file="a.parquet", text="in.side", label=3) == [{"text": "x", "label": 2.5}]
    assert read(tmp_path, file="a.parquet", text="in.side", label="n", where={"n": 7}) == [{"text": "x", "label": "7"}]


def test_missing_and_other_cells_are_refused_with_their_row(tmp_path: Path) -> None:
    table: dict[str, list[Any]] = {
        "text": ["a", "b"],
        "label": ["x", None],
        "f": [1.0, float("nan")],
        "raw": [b"x", b"y"],
    }
    pd.DataFrame(table).to_parquet(tmp_path / "a.parquet")
    assert refused(tmp_path, file="a.parquet") == ("bad-line", "a.parquet:1"), "bytes are not text"
    pd.DataFrame(table).drop(columns="raw").to_parquet(tmp_path / "a.parquet")
    assert refused(tmp_path, file="a.parquet") == ("missing-field", "a.parquet:2")
    assert refused(tmp_path, file="a.parquet", label="f") == ("missing-field", "a.parquet:2"), "NaN is not a class"
    pd.DataFrame({"text": ["a", "b\0"], "label": ["x", "y"]}).to_parquet(tmp_path / "a.parquet")
    assert refused(tmp_path, file="a.parquet") == ("nul-character", "a.parquet:2")


def test_workbooks(tmp_path: Path) -> None:
    write_sheet(tmp_path / "a.xlsx", [["src", "tgt"], ["a", "b"], [], ["c", 3], [None, None]], more=[["x"]])
    assert refused(tmp_path, PAIRS, file="a.xlsx") == ("unknown-sheet", "a.xlsx")
    assert refused(tmp_path, PAIRS, file="a.xlsx", sheet="Sheet") == ("bad-record", "a.xlsx:4"), (
        "a number is not a text"
    )
    write_sheet(tmp_path / "a.xlsx", [["src", "tgt"], ["a", "b"], [], ["c", "d"], [None, None]])
    with collect_accounts() as accounts:
        assert read(tmp_path, PAIRS, file="a.xlsx") == [{"src": "a", "tgt": "b"}, {"src": "c", "tgt": "d"}]
    assert accounts["a.xlsx"].reasons.keys() == {"blank"}
    write_sheet(tmp_path / "a.xlsx", [["a", "b"], ["c", "d", "e"]])
    assert refused(tmp_path, PAIRS, file="a.xlsx") == ("bad-line", "a.xlsx:2")
    write_sheet(tmp_path / "a.xlsx", [["text", "label"], ["a", "#N/A"]])
    assert refused(tmp_path, file="a.xlsx") == ("bad-line", "a.xlsx:2")
    (tmp_path / "a.csv").write_bytes((tmp_path / "a.xlsx").read_bytes())
    assert refused(tmp_path, file="a.csv") == ("not-utf8", "a.csv:1")


@pytest.mark.parametrize("name", ["a.parquet", "a.feather", "a.xlsx", "set/data-00000-of-00001.arrow"])
def test_damaged_files_have_a_code(tmp_path: Path, name: str) -> None:
    FRAME.to_parquet(tmp_path / "a.parquet")
    FRAME.to_feather(tmp_path / "a.feather")
    write_sheet(tmp_path / "a.xlsx", [["text", "label"], *map(list, TEXTS)])
    write_dataset(tmp_path / "set", FRAME, 1)
    whole = (tmp_path / name).read_bytes()
    source: dict[str, Any] = {"file": "set", "format": "datasets"} if name.startswith("set") else {"file": name}
    for damaged in (b"", whole[: len(whole) // 2], b"x" * len(whole)):
        (tmp_path / name).write_bytes(damaged)
        assert refused(tmp_path, **source) == ("damaged-file", name)


def test_folders_of_datasets(tmp_path: Path) -> None:
    write_dataset(tmp_path / "sets" / "train", FRAME)
    (tmp_path / "sets" / "dataset_dict.json").write_text('{"splits": ["train"]}', encoding="utf-8")
    assert len(read(tmp_path, file="sets/train", format="datasets")) == 3
    assert refused(tmp_path, file="sets", format="datasets") == ("ambiguous-split", "sets")
    assert refused(tmp_path, file="elsewhere", format="datasets")[0] == "missing-file"
    state = tmp_path / "sets" / "train" / "state.json"
    for damaged in ('{"_data_files": [{"filename": "../x"}]}', "{", '{"_data_files": 3}'):
        state.write_text(damaged, encoding="utf-8")
        assert refused(tmp_path, file="sets/train", format="datasets")[0] == "damaged-file"


TMX = """<?xml version="1.0"?><!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en-US"/><body>
<tu><note>x</note><tuv xml:lang="en-US"><seg>Save <bpt i="1">&lt;b&gt;</bpt>it<ept i="1">&lt;/b&gt;</ept></seg></tuv>
  <tuv xml:lang="de"><seg>Sp&#252;le <hi>es</hi> &amp; ab</seg></tuv></tu>
<tu><tuv xml:lang="en-US"><seg>alone</seg></tuv></tu>
{more}</body></tmx>"""
TWICE = "<tu><tuv xml:lang='en-US'><seg>a</seg></tuv>" + 2 * "<tuv xml:lang='fr'><seg>b</seg></tuv>" + "</tu>"
XLIFF = """<xliff version="1.2" xmlns="urn:x"><file source-language="en" target-language="de"><body>
<trans-unit id="1"><source>A <g id="1">b</g><x id="2"/></source><target>A <g id="1">B</g></target>
  <alt-trans><source>other</source><target>andere</target></alt-trans></trans-unit>
<trans-unit id="2"><source>not yet</source></trans-unit>
<trans-unit id="3"><source>copied</source><target state="new">copied</target></trans-unit></body></file></xliff>"""
XLIFF2 = """<xliff version="2.0" srcLang="en" trgLang="de"><file id="f"><unit id="1"><segment>
<source>One <pc id="1">two</pc><ph id="2"/></source><target>Eins zwei</target></segment>
<ignorable><source> </source></ignorable></unit></file></xliff>"""


def test_translation_memories(tmp_path: Path) -> None:
    (tmp_path / "a.tmx").write_text(TMX.format(more=""), encoding="utf-8")
    (tmp_path / "b.tmx").write_bytes(TMX.format(more="").encode("utf-16"))
    (tmp_path / "a.xlf").write_text(XLIFF, encoding="utf-8")
    (tmp_path / "b.xliff").write_text(XLIFF2, encoding="utf-8")
    with collect_accounts() as accounts:
        memory = [{"src": "Save it", "tgt": "Spüle es & ab"}]
        assert read(tmp_path, PAIRS, file="a.tmx") == read(tmp_path, PAIRS, file="b.tmx") == memory
        assert read(tmp_path, PAIRS, file="a.xlf") == [{"src": "A b", "tgt": "A B"}]
        assert read(tmp_path, PAIRS, file="b.xliff") == [{"src": "One two", "tgt": "Eins zwei"}]
    assert [account.dropped.get("no_target", 0) for account in accounts.values()] == [1, 1, 2, 0]
    backward = read(tmp_path, PAIRS, file="a.tmx", src_lang="de", tgt_lang="en")
    assert backward == [{"src": "Spüle es & ab", "tgt": "Save it", "from": "de", "to": "en"}]
    assert list(sentences(tmp_path / "a.xlf")) == ["A b", "A B"], "a file to exclude"


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('<!DOCTYPE tmx [\n<!ENTITY a "b">]>\n<tmx/>', 2),
        ('<!DOCTYPE tmx [<!ENTITY a SYSTEM "/etc/passwd">]><tmx/>', 1),
        (TMX.format(more="<tu>\n<tuv xml:lang='de'><seg>&unknown;</seg></tuv></tu>"), 7),
        (TMX.format(more="\n" + "<x>" * 200), 7),
        (TMX.format(more=TWICE), 6),
        (TMX.format(more="")[:-20], 5),
        ("\n<html/>", 2),
    ],
)  # fmt: skip
def test_hostile_and_unclear_memories_are_refused(tmp_path: Path, content: str, line: int) -> None:
    (tmp_path / "a.tmx").write_text(content, encoding="utf-8")
    assert refused(tmp_path, PAIRS, file="a.tmx") == ("bad-xml", f"a.tmx:{line}")


def test_archives(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("train.tsv", "a\tb\n" * 1000)
        archive.writestr("test.tsv", "c\td\n" * 1000)
    train, test = (Source(file=f"a.zip/{name}.tsv") for name in ("train", "test"))
    assert len(read(tmp_path, PAIRS, file="a.zip/train.tsv")) == 1000
    assert identify([train], tmp_path, PAIRS, Digests()) != identify([test], tmp_path, PAIRS, Digests())
    assert refused(tmp_path, PAIRS, file="a.zip/none.tsv") == ("missing-file", "a.zip/none.tsv")
    raw = bytearray((tmp_path / "a.zip").read_bytes())
    raw[45] ^= 0xFF
    (tmp_path / "a.zip").write_bytes(raw)
    assert refused(tmp_path, PAIRS, file="a.zip/train.tsv")[0] == "damaged-file"


@pytest.mark.parametrize("name", ["a.xls", "a.ods", "a.docx", "a.pdf", "a.sav", "a.pkl", "a.zip", "a.tar", "a.unknown"])
def test_other_formats_are_refused_by_name(tmp_path: Path, name: str) -> None:
    assert refused(tmp_path, file=name) == ("invalid-setting", "file")
    if name != "a.unknown":  # language models read any plain text
        assert refused(tmp_path, LINES, file=name) == ("invalid-setting", "file")
    assert refused(tmp_path, LINES, file="a.parquet") == ("invalid-setting", "file")


def test_markup_as_plain_text_is_reported(tmp_path: Path) -> None:
    sources = [Source(file=name) for name in ("a.csv", "b.txt", "c.html", "d.jsonl.gz")]
    assert [line.split()[0] for line in describe_sources(sources, tmp_path, LINES)] == ["a.csv", "c.html", "d.jsonl.gz"]


def test_json_pairs_are_one_document_and_the_error_says_so(tmp_path: Path) -> None:
    pairs = [{"src": "a", "tgt": "b"}, {"src": "c", "tgt": "d"}]
    (tmp_path / "a.json").write_text(json.dumps(pairs, indent=1), encoding="utf-8")
    assert read(tmp_path, PAIRS, file="a.json") == read(tmp_path, PAIRS, file="a.json", format="json") == pairs
    (tmp_path / "a.jsonl").write_text(json.dumps(pairs, indent=1), encoding="utf-8")
    for name, other in (("a.jsonl", 'format = "json"'), ("b.json", 'format = "jsonl"')):
        (tmp_path / "b.json").write_text("".join(json.dumps(pair) + "\n" for pair in pairs), encoding="utf-8")
        with pytest.raises(UserError) as error:
            read(tmp_path, PAIRS, file=name)
        assert error.value.code == "bad-json" and other in error.value.remedy
    (tmp_path / "a.json").write_text('{"src": ["a", "b"], "tgt": ["c"]}', encoding="utf-8")
    assert refused(tmp_path, PAIRS, file="a.json") == ("bad-json", "a.json")
