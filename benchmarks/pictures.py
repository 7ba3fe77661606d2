"""Every picture of docs/ideas, drawn from models trained on the spot or straight from an equation.

    python -m benchmarks.pictures                        trains what is not trained yet, then draws
    python -m benchmarks.pictures --only scores,masks    some of them
    python -m benchmarks.pictures --folder runs/pictures --output docs/ideas/pictures

The translators are the variants of `regard ladder numbers text.vocab_size=340 --steps 300`: number words, English to
German, "forty-five" to "fünfundvierzig", whose units come before the tens. A vocabulary that small has no piece for
"undvierzigtausend", so one can see who looks at what. The language models read the German side by characters. What is
trained stays in the folder and is not trained again. With one thread of a busy CPU the training took 25 minutes.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks import pictures_computed, windows
from benchmarks.charts import bars_svg, chart_svg
from benchmarks.pictures_reading import Reading

from regard.attention.layouts import Padded, Tokens
from regard.data.alignments import gold, unit_links, units
from regard.data.audio import read_frames
from regard.data.builtin import quantities
from regard.engines.mask_predict import argmax_words, least_likely, masked_target
from regard.files import write_text
from regard.metrics.alignment import pool_words
from regard.reading import read_json, read_text
from regard.recipe import Recipe
from regard.run.alignment import AlignmentHead, cross_attentions, encode_pairs
from regard.run.model import Model, Translator
from regard.run.train import train
from regard.run_files import RECIPE
from regard.tasks.recognition import RecognitionRecipe
from regard.tasks.registry import build_recipe, load_recipe
from regard.tasks.seq2seq import SYMBOLS
from regard.text.symbols import EOS
from regard.viz.svg import Panel, panels_svg

RACE = "small-numbers --race --steps 600"
RECORDING = "tones:1:3 0 3"
LADDER = "numbers text.vocab_size=340 --steps 300"
NUMBER = 45_683  # of the test part: no model has seen it
SOURCE = "forty-five thousand, six hundred and eighty-three"
LANGUAGE: dict[str, dict[str, Any]] = {
    "2-gram": {"kind": "ngram", "order": 2},
    "3-gram": {"kind": "ngram", "order": 3},
    "6-gram": {"kind": "ngram", "order": 6},
    "Bengio's network, 6 back": {"kind": "markov", "history": 6, "d_model": 128, "d_embedding": 32, "dropout": 0.0},
    **{
        name: dict(kind=name.lower(), d_model=128, layers=1, input_dropout=0.0, output_dropout=0.0, word_dropout=0.0)
        for name in ("RNN", "GRU", "LSTM")
    },
    "Transformer": {"kind": "transformer", "d_model": 128, "num_heads": 4, "d_ff": 512, "layers": 2, "dropout": 0.0},
}
PARTS = {part: {"builtin": "numbers", "split": part, "side": "tgt"} for part in ("train", "valid", "test")}


class Studio:
    """The trained models and what is drawn of them."""

    def __init__(self, folder: Path) -> None:
        assert NUMBER in set(quantities("test"))
        self.folder = folder

    @cached_property
    def ladder(self) -> dict[str, Any]:
        """The results of all variants; they are trained first if needed."""
        path = self.folder / "ladder" / "ladder.json"
        if not path.exists():
            command = [sys.executable, "-m", "regard", "ladder", *LADDER.split(), "--folder", str(path.parent)]
            subprocess.run(command, check=True)
        return read_json(path, dict[str, Any])

    def translator(self, variant: str) -> Translator:
        assert self.ladder
        return Translator.load(self.folder / "ladder" / f"{variant}-seed1", engine="readable")

    def panels(self, variant: str, title: str, heads: bool = False) -> list[Panel]:
        """The cross-attention of a variant while it writes the number, a panel a layer, or a head of its last layer."""
        maps = self.translator(variant).explain(SOURCE).maps
        weights, rows, columns = np.asarray(maps[-1].weights), maps[-1].rows, maps[-1].columns
        if heads:
            return [Panel(w, rows, columns, f"{title}, head {n}") for n, w in enumerate(weights[-1], 1)]
        one = len(weights) == 1
        return [
            Panel(w.mean(axis=0), rows, columns, title if one else f"{title}, layer {n}")
            for n, w in enumerate(weights, 1)
        ]

    def one(self, variant: str, title: str) -> str:
        return panels_svg(self.panels(variant, title))

    def local_learnt(self) -> str:
        return panels_svg([*self.panels("local-m", "local-m, D = 5"), *self.panels("local-p", "local-p, D = 5")], 2)

    def hard(self) -> str:
        variants = {"luong": "soft: a mean", "hard": "hard: Gumbel-softmax", "reinforce": "hard: REINFORCE"}
        return panels_svg([panel for variant, title in variants.items() for panel in self.panels(variant, title)], 2)

    def heads(self) -> str:
        return panels_svg(self.panels("transformer", "layer 2", heads=True), 2)

    def passes(self) -> str:
        """Mask-predict pass by pass: how likely each written word was, where it was predicted anew."""
        translator = self.translator("masked")
        model: Any = translator.model
        vocabulary, total = translator.task.src_tokenizer, 4
        source = torch.tensor([[*vocabulary.encode(SOURCE), EOS]])
        src = Padded.of(source, torch.tensor([source.size(1)]))
        with torch.inference_mode():
            memory, length = model.encode(src)
            counts = model.predict_length(length).argmax(dim=1)
            nothing = Padded.of(torch.zeros(1, 0, dtype=torch.long), torch.zeros(1, dtype=torch.long))
            words, free = masked_target(nothing, counts, SYMBOLS)
            masked, log_p = free, torch.zeros(words.shape)
            panels = []
            for t in range(total):
                if t:
                    masked = least_likely(log_p, free, counts[:, None] * (total - t) // total)
                asked = words.masked_fill(masked, SYMBOLS.bos)
                logits = model.predict(Tokens(asked, Padded(counts + 1, words.size(1))), memory, src)
                best, likeliest = argmax_words(logits, SYMBOLS)
                words, log_p = torch.where(masked, likeliest, words), torch.where(masked, best, log_p)
                pieces = vocabulary.tokens(words[0, :-1].tolist())
                shown = torch.stack([masked[0, :-1].double(), log_p[0, :-1].exp().double()])
                panels.append(Panel(shown.numpy(), ["masked", "p"], pieces, f"pass {t + 1} of {total}"))
        return panels_svg(panels, 2)

    def masked(self) -> str:
        """How often a model that writes all words at once is right after a few passes."""
        rows = [row for row in self.ladder["rows"] if "T\u00a0=" in row["title"]]
        bars = {row["title"]: {"exact match, %": row["exact"][0]} for row in rows}
        return bars_svg(bars, "Correct numbers after T passes, %")

    def alignment(self) -> str:
        """Gold links beside the weights of two models, between the smallest parts that are whole pieces."""
        pair = next(pair for pair in gold("numbers", "test") if pair.src == SOURCE)
        task = self.translator("bahdanau").task
        ours = units(pair.src_segments, task.src_tokenizer.encode(pair.src), task.src_tokenizer)
        theirs = units(pair.tgt_segments, task.tgt_tokenizer.encode(pair.tgt), task.tgt_tokenizer)
        columns = ["".join(pair.src_segments[n].text for n in unit) for unit in ours.segments]
        rows = ["".join(pair.tgt_segments[n].text for n in unit) for unit in theirs.segments]
        links = np.zeros((len(rows), len(columns)))
        for kind, weight in ((pair.possible, 0.3), (pair.sure, 1.0)):
            for column, row in unit_links(kind, ours, theirs):
                links[row, column] = weight
        panels = [Panel(links, rows, columns, "gold: sure, and possible (pale)")]
        for variant, title in (("bahdanau", "additive attention"), ("transformer", "Transformer, its best head")):
            translator = self.translator(variant)
            (_, cross), *_ = cross_attentions(translator, encode_pairs(translator, [pair.src], [pair.tgt]))
            best = next(run["alignment"] for run in self.ladder["runs"] if run["variant"] == variant)
            matrix = AlignmentHead(best["layer"], best["head"]).select(cross)
            panels.append(Panel(pool_words(matrix, theirs.tokens, ours.tokens), rows, columns, title))
        return panels_svg(panels, 2)

    def errors(self) -> str:
        """The alignment error rate of every variant that has attention."""
        bars = {
            row["title"].split(", T\u00a0=")[0]: {"AER": row["aer"][0]} for row in self.ladder["rows"] if row["aer"]
        }
        return bars_svg(bars, "Alignment error rate on 200 test numbers")

    def variants(self) -> str:
        """How often every variant is right."""
        bars = {row["title"]: {"exact match, %": row["exact"][0]} for row in self.ladder["rows"]}
        return bars_svg(bars, "Correct numbers, %")

    def race(self) -> str:
        """Three models over training time and over operations; they are trained first if needed."""
        path = self.folder / "race" / "race.svg"
        if not path.exists():
            command = [sys.executable, "-m", "regard", "ladder", *RACE.split(), "--folder", str(path.parent)]
            subprocess.run(command, check=True)
        return read_text(path)

    def features(self) -> str:
        """A recording as a model reads it, where a decoder looks for each word, and the alignment of CTC."""
        maps = {}
        for name in ("small-tones", "small-tones-ctc"):
            folder = self.folder / name
            if not any(folder.glob("checkpoints/*")):
                train(load_recipe(name), folder, resume=(folder / RECIPE).exists(), report=lambda _: None)
            model = Model.load(folder)
            maps[name] = model.explain(RECORDING).maps[-1]
        cross, aligned = maps.values()
        assert isinstance(model.run.recipe, RecognitionRecipe)
        frames = read_frames({"audio": RECORDING}, model.run.recipe.data)[::4].T[::-1]  # high bands above
        times, low = list(cross.columns), frames.min()
        bands = ["4kHz", *[""] * (len(frames) - 2), "0"]
        panels = [
            Panel((frames - low) / (frames.max() - low), bands, times, "the recording: features over time, in seconds"),
            Panel(np.asarray(cross.weights)[0].mean(axis=0), cross.rows, times, "attention, mean of 4 heads"),
            Panel(np.asarray(aligned.weights)[0, 0].T, list(aligned.columns), times, "CTC, the alignment"),
        ]
        return panels_svg(panels, 1)

    def language(self) -> str:
        """Bits per character of the German number words."""
        return bars_svg({name: {"bits": self.bits(name)} for name in LANGUAGE}, "Bits per character, numbers in German")

    def bits(self, name: str) -> float:
        folder = self.folder / "language" / name.replace(" ", "-").replace("'", "").replace(",", "")
        recipe = language_recipe(name)
        if not any(folder.glob("checkpoints/*")):
            train(recipe, folder, resume=(folder / RECIPE).exists(), report=lambda _: None)
        scores = Model.load(folder).evaluate("test").scores
        return next(score.value for score in scores if score.name == "bits per character")

    def restricted(self) -> str:
        """Seconds of full and of restricted self-attention over the length of a sentence."""
        options = argparse.Namespace(device="cpu", window=32, shortest=256, longest=4096, threads=1, repeats=3)
        series: dict[str, list[tuple[float, float]]] = {}
        for row in windows.measured(options):
            series.setdefault(row["series"], []).append((row["value"], 1000 * row["seconds"]))
        return chart_svg(series, "Self-attention, forward and backward", "tokens of a sentence", "ms", log="xy")


def language_recipe(name: str) -> Recipe:
    """A small model of one kind, by characters."""
    training: dict[str, Any] = {"monitor": "perplexity", "samples": 0}
    if LANGUAGE[name]["kind"] != "ngram":  # it is counted: settings of gradient steps have no effect
        training |= {
            "max_steps": 300, "batch_tokens": 2048, "schedule": "cosine", "learning_rate": 4e-3, "warmup": 50,
            "clip": 1.0, "validate_every": 300,
        }  # fmt: skip
    values = {
        "name": "numbers-" + LANGUAGE[name]["kind"],
        "task": "language",
        "data": {**PARTS, "bptt": 64},
        "text": {"kind": "char", "vocab_size": 300},
        "model": LANGUAGE[name],
        "training": training,
    }
    return build_recipe(values, name)


def drawings(studio: Studio) -> dict[str, Callable[[], str]]:
    """Every picture by its name."""
    return {
        "additive": partial(studio.one, "bahdanau", "additive attention"),
        "multiplicative": partial(studio.one, "luong", "multiplicative attention"),
        "local-learnt": studio.local_learnt,
        "hard": studio.hard,
        "convolutional": partial(studio.one, "convolutional", "convolutions"),
        "heads": studio.heads,
        "passes": studio.passes,
        "masked": studio.masked,
        "alignment": studio.alignment,
        "errors": studio.errors,
        "ladder": studio.variants,
        "race": studio.race,
        "features": studio.features,
        "language": studio.language,
        "restricted": studio.restricted,
        **Reading(studio.folder).drawings(),
        **pictures_computed.DRAWINGS,
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("runs/pictures"), help="where models are [runs/pictures]")
    parser.add_argument("--output", type=Path, default=Path("docs/ideas/pictures"), help="[docs/ideas/pictures]")
    parser.add_argument("--only", help="names of pictures, with commas between them [all]")
    options = parser.parse_args(arguments)
    known = drawings(Studio(options.folder))
    wanted = options.only.split(",") if options.only else list(known)
    if unknown := set(wanted) - set(known):
        parser.error(f"there is no picture {', '.join(sorted(unknown))}: write some of {','.join(known)}")
    for name in wanted:
        path = options.output / f"{name}.svg"
        write_text(path, known[name]())
        print(path)


if __name__ == "__main__":
    main()
