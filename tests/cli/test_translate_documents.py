"""regard translate: documents with their markup, and glossaries."""

import gzip
import io
import zipfile
from pathlib import Path

import pytest
from tests.cli.command import fails, regard
from tests.documents.pdf_files import pdf
from tests.documents.test_files import build_example, word_file

from regard.cli.documents import read_glossary
from regard.errors import UserError

PAGE = '<p>one <b>two</b> three</p>\n<p class="notranslate">four</p>\n'
TRANSLATED = '<p>eins <b>zwei</b> drei</p>\n<p class="notranslate">four</p>\n'


def test_the_ending_of_a_file_says_its_format(trained: Path, tmp_path: Path) -> None:
    page, output = tmp_path / "page.html", tmp_path / "page.de.html"
    page.write_text(PAGE, encoding="utf-8")
    assert regard("translate", trained, "-i", page, "-o", output).status == 0
    assert output.read_text(encoding="utf-8") == TRANSLATED
    assert regard("translate", trained, "--format", "html", stdin=PAGE).out == TRANSLATED
    assert regard("translate", trained, "--format", "html", "<i>one</i> two three").out == "<i>eins</i> zwei drei\n"
    assert regard("translate", trained, "--format", "html", "<i>one</i>").out.startswith("<i>")
    assert regard("translate", trained, "--format", "lines", "-i", page).lines[0] != TRANSLATED.split("\n")[0]


def test_word_files_are_written_as_bytes(trained: Path, tmp_path: Path) -> None:
    source, output = tmp_path / "a.docx", tmp_path / "b.docx"
    source.write_bytes(word_file(build_example))
    assert regard("translate", trained, "-i", source, "-o", output).status == 0
    assert zipfile.ZipFile(io.BytesIO(output.read_bytes())).testzip() is None


def test_text_is_split_into_sentences(trained: Path) -> None:
    first = regard("translate", trained, stdin="one two three.").out.removesuffix("\n")
    result = regard("translate", trained, "--format", "text", stdin="one two three. Six\n\n  one two three\n").lines
    assert result[0].startswith(f"{first} ")
    assert result[1:] == ["", "  eins zwei drei"]


def test_terms_of_a_glossary_are_used(trained: Path, tmp_path: Path) -> None:
    tsv, table = tmp_path / "terms.tsv", tmp_path / "terms.csv"
    tsv.write_text("two\tZWO\n\n", encoding="utf-8")
    table.write_text('two,"ZWO"\n', encoding="utf-8")
    assert read_glossary(tsv) == read_glossary(table) == {"two": "ZWO"}
    assert regard("translate", trained, "--glossary", tsv, stdin="one two three\n").out == "eins ZWO drei\n"
    tsv.write_text("two\n", encoding="utf-8")
    assert fails("translate", trained, "--glossary", tsv).code == "bad-line"


def test_sentences_of_a_memory_are_not_translated_by_the_model(trained: Path, tmp_path: Path) -> None:
    first, second, output = tmp_path / "first.tsv", tmp_path / "second.tsv", tmp_path / "out.txt"
    first.write_text("en\tde\none two three\tZÄHLEN\n", encoding="utf-8")
    second.write_text("one two three\tandere\nKeep out\tZutritt verboten\n", encoding="utf-8")
    memory = "--from", "en", "--to", "de", "--memory", first, "--memory", second
    lines = "one two three\nKEEP OUT!\nthree two one\n"
    assert regard("translate", trained, *memory, stdin=lines).lines == [
        "ZÄHLEN",
        "ZUTRITT VERBOTEN!",
        "drei zwei eins",
    ]
    page = regard("translate", trained, *memory, "--format", "html", stdin="<p><i>Keep out</i></p>")
    assert page.out == "<p><i>Zutritt verboten</i></p>"
    assert regard("translate", trained, *memory, "-o", output, "--nbest", "2", "one two three").status == 0
    assert "ZÄHLEN" not in output.read_text(encoding="utf-8"), "n-best lists are the model's"
    assert fails("translate", trained, *memory, "-o", first, "one").code == "overwrites-input"
    second.write_text("fr\tit\nun\tuno\n", encoding="utf-8")
    assert fails("translate", trained, "--from", "en", "--to", "de", "--memory", second, "one").code == "unknown-pair"


def test_a_glossary_is_read_as_strictly_as_data(tmp_path: Path) -> None:
    file = tmp_path / "terms.csv"

    def read(content: bytes, name: str = "terms.csv") -> dict[str, str]:
        file = tmp_path / name
        file.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return read_glossary(file)

    assert read(b"\xef\xbb\xbftwo,ZWO\r\n\r\nsix , SEX\r\n") == {"two": "ZWO", "six": "SEX"}
    assert read("a\u2028b,c\x85d\n".encode()) == {"a\u2028b": "c\x85d"}, "only line feeds end a line"
    assert read(b"two,ZWO\n", "terms.CSV.gz") == {"two": "ZWO"}
    assert read(b'5" disk\t5" Platte\n"a ""b"""\tc\n', "terms.tsv") == {'5" disk': '5" Platte', 'a "b"': "c"}
    assert read(b"two,ZWO\ntwo,ZWO\n") == {"two": "ZWO"}
    wrong = {
        b'two,"ZWO\nsix,SEX\n': 1,
        b'two,ZWO\n"six"x,SEX\n': 2,
        b'two,"ZWO\nsix"\n': 1,
        b"two,ZWO\n\ntwo,ZWEI\n": 3,
        b"two;ZWO\n": 1,
        b"two,ZWO,2\n": 1,
        b"two,ZWO\nsix,\n": 2,
    }
    for content, line in wrong.items():
        with pytest.raises(UserError) as caught:
            read(content)
        assert (caught.value.code, caught.value.where) == ("bad-line", f"{file}:{line}"), content
    for content, code in ((b"two,\xff\n", "not-utf8"), (b"", "no-data")):
        with pytest.raises(UserError) as caught:
            read(content)
        assert caught.value.code == code


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (("--format", "html", "--json"), "conflicting-options"),
        (("--format", "html", "--nbest", 2), "conflicting-options"),
        (("--format", "html", "--prefix", "x"), "conflicting-options"),
        (("--format", "lines", "--glossary", "x"), "conflicting-options"),
        (("--format", "rtf"), "invalid-option"),
        (("--format", "html", "-o", "a.docx"), "conflicting-options"),
        (("--format", "pdf", "-o", "a.pdf"), "conflicting-options"),
        (("--format", "docx"), "damaged-file"),
    ],
)
def test_options_that_have_no_effect_are_errors(trained: Path, options: tuple[object, ...], code: str) -> None:
    assert fails("translate", trained, *options).code == code


@pytest.mark.parametrize("name", ["a.xml", "a.XML.gz", "a.rtf", "test.fr"])
def test_an_unknown_extension_is_refused(trained: Path, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    content = b"<a>one two three</a>\n"
    file.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert fails("translate", trained, "-i", file, "-o", tmp_path / "out").code == "unsupported-file"
    assert not (tmp_path / "out").exists()
    assert regard("translate", trained, "-i", file, "--format", "html").out == "<a>eins zwei drei</a>\n"


@pytest.mark.parametrize("name", ["a", "a.txt", "a.TXT", "a.txt.gz"])
def test_files_of_lines_need_no_format(trained: Path, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_bytes(gzip.compress(b"one two three\n") if name.endswith(".gz") else b"one two three\n")
    assert regard("translate", trained, "-i", file).out == "eins zwei drei\n"


def test_a_compressed_document_is_a_document(trained: Path, tmp_path: Path) -> None:
    file = tmp_path / "page.html.gz"
    file.write_bytes(gzip.compress(PAGE.encode()))
    assert regard("translate", trained, "-i", file).out == TRANSLATED


def test_the_translation_of_a_pdf_file_is_text(trained: Path, tmp_path: Path) -> None:
    pytest.importorskip("pypdf")
    file, output = tmp_path / "a.pdf", tmp_path / "a.txt"
    file.write_bytes(pdf(["one two three"]))
    assert fails("translate", trained, "-i", file, "-o", tmp_path / "b.pdf").code == "conflicting-options"
    assert regard("translate", trained, "-i", file, "-o", output).status == 0
    assert output.read_text(encoding="utf-8") == "eins zwei drei\n"
