"""The models that `regard ladder` compares: what each is, and who proposed it.

A variant is a change to one recipe, that of a Transformer (of an LSTM for language models). Data, vocabulary, number of
training tokens and schedule stay the same, so that two variants differ in their model only. They are in variants.toml.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from regard.errors import UserError
from regard.files import JsonObject
from regard.messages import Message
from regard.reading import read_toml


@dataclass(frozen=True)
class Variant:
    """One model of the ladder."""

    name: str
    title: str
    paper: str
    settings: tuple[str, ...] = ()
    """Changes to the recipe, as on the command line."""
    searches: tuple[tuple[str, JsonObject], ...] = (("", {"search": "greedy"}),)
    """The searches that it is evaluated with: an addition to the title, and changed settings."""
    teacher: str = ""
    """The variant whose translations of the training data replace the references (sequence-level distillation)."""


@dataclass(frozen=True)
class VariantSet:
    """The variants of one task."""

    kind: str
    """The model kind of the recipe that they change."""
    variants: tuple[Variant, ...]
    defaults: tuple[str, ...]
    """The names of the variants that are trained if none are named."""
    placeholders: Mapping[str, str]
    """Words in settings, and the model setting whose value replaces them."""
    has_alignment: bool = False
    """True if cross-attention is evaluated as a word alignment and drawn."""
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names for several variants."""

    def select(self, names: Sequence[str] = ()) -> list[Variant]:
        """The variants of these names, or the default ones; a teacher comes before its students."""
        by_name = {variant.name: variant for variant in self.variants}
        names = [member for name in names for member in self.groups.get(name, (name,))]
        unknown = [name for name in names if name not in by_name]
        if unknown:
            problem = f"the ladder has no variant {', '.join(unknown)}"
            remedy = f"choose from {','.join([*self.groups, *by_name])}"
            raise UserError(problem, remedy, code="unknown-variant", where=", ".join(unknown))
        selected = names or self.defaults
        needed = {*selected, *(by_name[name].teacher for name in selected)}
        return [variant for variant in self.variants if variant.name in needed]

    def settings(self, variant: Variant, model: object) -> list[str]:
        """The settings of a variant, with the values of `model` in place of the placeholders."""
        settings = list(variant.settings)
        for word, name in self.placeholders.items():
            settings = [setting.replace(word, str(getattr(model, name))) for setting in settings]
        return settings


def read_variants(task: str) -> tuple[Variant, ...]:
    """The variants of a task in variants.toml."""
    tables = read_toml(Path(__file__).with_name("variants.toml"))
    variants = []
    for row in tables[task]:
        title, settings = Message(row["title"]), row.get("settings", ())
        for word, text in tables["words"].items():
            settings = tuple(setting.replace(word, text) for setting in settings)
        rounds = [
            (f"T\u00a0=\u00a0{n}", {"search": "mask_predict", "iterations": n}) for n in row.get("iterations", ())
        ]
        searches = tuple(rounds) or Variant.searches
        variants.append(Variant(row["name"], title, row["paper"], settings, searches, row.get("teacher", "")))
    return tuple(variants)


RACE = "race"
"""The group of variants that a race trains if none are named."""
_TRANSLATION, _LANGUAGE = read_variants("translation"), read_variants("language")


def table_3(row: str, name: str, title: str, *settings: str) -> Variant:
    """A row of table 3 of Vaswani et al. 2017: the Transformer with one thing changed."""
    title = Message("({row}) {title}", row=row, title=title)
    return Variant(f"{row}-{name}", title, "Vaswani et al. 2017, table 3", settings)


# The paper's base model has 6 layers of width 512 with 8 heads, 2048 inner units, dropout and label smoothing 0.1. The
# rows here change a recipe of any size; their values suit 4 layers of width 256 with 4 heads (multi30k-en-de).
_TABLE_3: tuple[Variant, ...] = (
    *(table_3("A", f"heads-{n}", Message("{n} heads", n=n), f"model.num_heads={n}") for n in (1, 2, 8, 16, 32)),
    *(table_3("B", f"key-{n}", Message("heads of size {n}", n=n), f"model.head_dim={n}") for n in (16, 32)),
    *(table_3("C", f"layers-{n}", Message("{n} + {n} layers", n=n), f"model.encoder_layers={n}",
              f"model.decoder_layers={n}") for n in (1, 2, 6)),
    *(table_3("C", f"width-{n}", Message("width {n}", n=n), f"model.d_model={n}") for n in (128, 512)),
    *(table_3("C", f"inner-{n}", Message("{n} inner units", n=n), f"model.d_ff={n}") for n in (256, 2048)),
    *(table_3("D", f"dropout-{p}", f"dropout {p}", f"model.dropout={p}") for p in (0.0, 0.1, 0.5)),
    *(table_3("D", f"smoothing-{p}", Message("label smoothing {p}", p=p), f"training.label_smoothing={p}")
      for p in (0.0, 0.2)),
)  # fmt: skip

TRANSLATION_VARIANTS = VariantSet(
    "transformer",
    _TRANSLATION + _TABLE_3,
    # The variants after masked-distilled are changes to the Transformer: they are trained only if they are named.
    tuple(variant.name for variant in _TRANSLATION[: 1 + [v.name for v in _TRANSLATION].index("masked-distilled")]),
    {"WIDTH": "d_model", "LAYERS": "encoder_layers", "DROPOUT": "dropout", "TIE": "tie"},
    has_alignment=True,
    groups={
        "table-3": ("transformer", *(variant.name for variant in _TABLE_3), "learned"),
        RACE: ("luong", "convolutional", "transformer"),
    },
)
LANGUAGE_VARIANTS = VariantSet(
    "lstm",
    _LANGUAGE,
    # The variants after the Transformer are trained only if they are named.
    tuple(variant.name for variant in _LANGUAGE[: 1 + [v.name for v in _LANGUAGE].index("transformer")]),
    {"WIDTH": "d_model", "LAYERS": "layers", "DROPOUT": "output_dropout"},
)
