"""benchmarks/judge.py and its texts."""

from collections import Counter

from benchmarks.judge import FOLDER, Output, find_faults, read_table

from regard.documents.numbers import numbers_agree
from regard.run.memory import bundled_memory

ROWS = list(read_table(FOLDER / "everyday.tsv"))


def test_every_text_is_there_in_five_languages_with_the_same_numbers() -> None:
    assert len(ROWS) == len({row["id"] for row in ROWS}) == 200
    assert all(row[language] for row in ROWS for language in ("en", "de", "fr", "es", "zh"))
    latin = [(row["en"], row[language]) for row in ROWS for language in ("de", "es") if row["kind"] == "number"]
    assert all(numbers_agree(*pair) for pair in latin)


def test_the_bundled_memory_knows_only_a_few_greetings() -> None:
    memory = bundled_memory()
    for source, target in (("en", "de"), ("de", "en"), ("fr", "en"), ("es", "en"), ("zh", "en")):
        found = Counter(row["kind"] for row in ROWS if memory.find(row[source], source, target))
        assert found == {"greeting": 3}, (source, found)


def test_faults_are_found_without_a_reader() -> None:
    def faults(source: str, text: str, direction: str = "en-de", reference: str = "Hallo") -> list[str]:
        return find_faults(Output(direction, "word-01", source, text, reference))

    assert faults("Hello", "Hallo") == [] == faults("Plan B", "Plan B", reference="Plan B")
    assert faults("Hello", " ") == ["empty"]
    assert faults("invoice", "invoice") == ["copied"]
    assert faults("so tired", "so so so so müde") == ["loops"]
    assert faults("butterfly", "utterfly", "en-zh", "蝴蝶") == faults("Hello", "你好") == ["script"]
    assert faults("Room 417 🎉", "Raum 41") == ["numbers", "code"]
