"""README.md of an export, with a Python script that runs the model without regard.

The scripts are Jinja2 templates: TARGET.py.j2 opens the files, and SCRIPT.py.j2 (`Exchange.script`) runs them.
"""

import json
from pathlib import Path

from regard.exchange.folders import CONFIG, Config
from regard.exchange.graphs import GRAPHS, read_signatures
from regard.export.target import Target
from regard.reading import read_json
from regard.tasks.base import Example
from regard.tasks.labelled import LABELS, read_names
from regard.tasks.languages import Languages
from regard.text.inputs import ByteLevelInputTokenizer
from regard.text.symbols import BOS, EOS, language_tag

README = "README.md"
TEXTS = ("src", "text", "question", "context", "pair", "to")
"""Keys of an example whose values are arguments of a script's function, in this order."""


def render_readme(target: Target, folder: Path, example: Example) -> str:
    """The text of README.md for an export in `folder`; its script runs the example."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("regard.export"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"json": json.dumps, "repr": repr}
    trained, task = target.trained, target.trained.task
    recipe, tokenizer, exchange = task.recipe, next(iter(task.tokenizers.values())), trained.exchange
    texts = [example[key] for key in TEXTS if isinstance(example.get(key), str)]
    texts = (texts or [" ".join(example.get("words", ["A", "text."]))]) + list(example.get("choices", ()))[:1]
    languages = task.languages or Languages()
    return environment.get_template("README.md.j2").render(
        to=target.name,
        quantization=target.quantization,
        task=task,
        recipe=recipe,
        exchange=exchange,
        example=example,
        texts=texts,
        arguments=", ".join(map(repr, texts)),
        files=[name for name in trained.artifacts if name.endswith("tokenizer.json")],
        labels=read_names(trained.folder / LABELS),
        tokenizer=tokenizer,
        byte_level=isinstance(tokenizer, ByteLevelInputTokenizer),
        tags=dict(languages.tags),
        tag_text=language_tag(example.get("to", next(iter(languages.tags)))) if languages.tags else "",
        directions=languages.directions,
        bos=BOS,
        eos=EOS,
        has_target=(folder / "target").is_dir(),
        config=read_json(folder / CONFIG, Config) if target.name == "huggingface" else {},
        graphs=read_signatures(folder) if (folder / GRAPHS).exists() else [],
    )
