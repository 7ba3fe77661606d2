"""Tables of elements, namespaces, abbreviations, separators of numbers and scripts, read from tables.toml."""

from pathlib import Path

from regard.reading import read_toml

TABLES = read_toml(Path(__file__).with_name("tables.toml"))
