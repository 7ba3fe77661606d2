"""The pictures of docs/ideas about models that read, each trained in seconds on a small world of its own.

    ada marsh the doctor lost her bag . ada lives in port ellen . in port ellen she met hill .

A story has one person: whoever is called Ada is a she and has lost *her* something, a doctor has a bag and a baker an
oven. So one knows what a reader must look at to fill a gap. Where one lives is one story's and the next one's not.
"""

import json
import random
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.charts import chart_svg
from torch.nn.functional import cosine_similarity, one_hot

from regard.files import write_text
from regard.metrics.spans import entity_scores
from regard.run.embedding import text_encoding
from regard.run.model import Model
from regard.run.train import train
from regard.run_files import RECIPE
from regard.tasks.bio import best_sequence, transitions
from regard.tasks.registry import build_recipe
from regard.viz.svg import Panel, panels_svg

PEOPLE = {"she": ("ada", "clara", "grace", "lena"), "he": ("alan", "emil", "karl", "otto")}
FAMILIES = ("marsh", "hill", "woods", "stone", "rivers", "field")
TOWNS = ("port ellen", "new haven", "old sarum", "paris", "vienna", "oslo")
TOOLS = {"doctor": "bag", "baker": "oven", "sailor": "ship", "painter": "brush", "farmer": "horse"}
DEEDS = ("lost", "found", "sold", "praised")
OPINIONS = {"good": ("lovely", "brilliant", "moving", "clever"), "bad": ("dull", "awful", "empty", "silly")}
THINGS = ("music", "story", "cast", "end", "dancing", "light")
MODEL = dict(kind="bert", size="tiny", d_model=128, num_heads=2, d_ff=256, dropout=0.0, attention_dropout=0.0)
PAIR = {"text": "ada marsh the doctor lost her bag .", "pair": "in paris she met hill ."}
HIDDEN = PAIR | {"text": "ada marsh the doctor lost [MASK] bag ."}
REVIEWS = (
    "the music was lovely but the story was dull .",
    "the story was dull but the music was lovely .",
    "the end was awful but the cast was brilliant .",
)
SEEN = 0.05
"""What is less likely is not shown."""
COUNTS = (4, 8, 16, 32, 64, 128)

Example = dict[str, Any]


def story(rng: random.Random) -> list[Example]:
    """Sentences about one person: words and tags."""
    she = rng.choice(tuple(PEOPLE))
    her, first = {"she": "her", "he": "his"}[she], rng.choice(PEOPLE[she])
    job, town = rng.choice(tuple(TOOLS)), rng.choice(TOWNS)
    first_of_all = f"*{first}_{rng.choice(FAMILIES)} the {job} {rng.choice(DEEDS)} {her} {TOOLS[job]} ."
    rest = [
        f"*{first} lives in +{town} .",
        f"in +{town} {she} met *{rng.choice(FAMILIES)} .",
        f"{she} {rng.choice(DEEDS)} {her} {TOOLS[job]} in +{town} .",
    ]
    rng.shuffle(rest)
    return [sentence(each) for each in (first_of_all, *rest)]


def sentence(text: str) -> Example:
    """Words and their tags, where * is before a person, + before a place, and each may be several words."""
    for town in TOWNS:
        text = text.replace(town, town.replace(" ", "_"))
    words: list[str] = []
    tags: list[str] = []
    for name in text.split():
        parts = name.lstrip("*+").split("_")
        kind = {"*": "-PERSON", "+": "-PLACE"}.get(name[0], "")
        words += parts
        tags += ["B" + kind, *["I" + kind] * (len(parts) - 1)] if kind else ["O"]
    return {"words": words, "tags": tags}


def told(sentences: Sequence[Example]) -> str:
    return " ".join(" ".join(each["words"]) for each in sentences)


def question(rng: random.Random) -> Example:
    """Where does somebody live, whom did somebody meet, and what is the whole name?"""
    sentences = story(rng)
    who = sentences[0]["words"][0]
    lives, met = (next(each for each in sentences if verb in each["words"]) for verb in ("lives", "met"))
    asked, place, words = rng.choice([
        (f"where does {who} live ?", lives, lives["words"][3:-1]),
        (f"whom did {who} meet ?", met, met["words"][-2:-1]),
        (f"which {who} is it ?", sentences[0], sentences[0]["words"][:2]),
    ])  # fmt: skip
    context, answer = told(sentences), " ".join(words)
    start = context.index(told([place])) + told([place]).rindex(answer)
    return {"question": asked, "context": context, "answers": [{"text": answer, "start": start}]}


def review(rng: random.Random) -> Example:
    """Two things are said of a film, and what comes after the "but" counts."""
    (_, first), (label, last) = rng.sample(sorted(OPINIONS.items()), 2)
    one, other = rng.sample(THINGS, 2)
    return {"text": f"the {one} was {rng.choice(first)} but the {other} was {rng.choice(last)} .", "label": label}


class Reading:
    """The trained readers and what is drawn of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "reading"

    def drawings(self) -> dict[str, Callable[[], str]]:
        """Every picture by its name."""
        makers = (self.bert_input, self.bert, self.pretraining, self.tagging, self.answering, self.few, self.pooling)
        return {make.__name__.replace("_", "-"): make for make in makers}

    def trained(self, name: str, task: str, data: Example, **groups: Any) -> Model:
        """A run of this name, trained now unless it has been."""
        folder = self.folder / name
        values = {"name": name, "task": task, "data": {"root": str(self.folder), **data}, **groups}
        if not any(folder.glob("checkpoints/*")):
            recipe = build_recipe(values | {"runtime": {"device": "cpu", "threads": 1}}, name)
            train(recipe, folder, resume=(folder / RECIPE).exists(), report=lambda _: None)
        return Model.load(folder, device="cpu")

    def file(self, name: str, make: Callable[[random.Random], Any], count: int) -> Example:
        """Examples of the small world in a file, one a line; another name has others."""
        rng = random.Random(name)
        write_text(self.folder / name, "".join(json.dumps(make(rng)) + "\n" for _ in range(count)))
        return {"file": name}

    @cached_property
    def pretrained(self) -> Model:
        """A BERT that has read 4,000 stories."""
        parts = {}
        for part, count in (("train", 4000), ("valid", 100)):
            rng = random.Random(part)
            lines = ("\n".join(" ".join(each["words"]) for each in story(rng)) for _ in range(count))
            write_text(self.folder / f"{part}.txt", "\n\n".join(lines) + "\n")
            parts[part] = {"file": f"{part}.txt"}
        learning = dict(max_steps=1500, batch_tokens=1024, learning_rate=3e-3, warmup=100, adam_beta2=0.98)
        return self.trained(
            "pretrained",
            "pretraining",
            parts | {"max_length": 24, "masked": 0.2},
            text={"vocab_size": 300},
            model=MODEL,
            training=learning | {"validate_every": 500},
        )

    def bert_input(self) -> str:
        """How alike the tokens of an input are as words, as places and as parts of a text."""
        task: Any = self.pretrained.task
        encoding = text_encoding(self.pretrained)
        reader: Any = encoding.module(self.pretrained.model)
        read = encoding.encode(PAIR)
        names = task.tokenizer.tokens(read.ids)
        parts = {
            "E: token": reader.words(torch.tensor(read.ids)),
            "P: position": reader.positions(torch.arange(len(names))),
            "S: segment": reader.segments(torch.tensor(read.segments)),
        }
        return panels_svg([Panel(cosines(x.detach()), names, names, title) for title, x in parts.items()], 2)

    def bert(self) -> str:
        """Every head while a hidden word is looked for."""
        (found,) = self.pretrained.explain(HIDDEN).maps
        panels = [
            Panel(weights, found.rows, found.columns, f"layer {layer}, head {head}")
            for layer, heads in enumerate(np.asarray(found.weights), 1)
            for head, weights in enumerate(heads, 1)
        ]
        return panels_svg(panels, 2)

    def pretraining(self) -> str:
        """What is thought to stand behind a mask, for every word of a sentence in turn."""
        words = PAIR["text"].split()
        hidden = [" ".join([*words[:place], "[MASK]", *words[place + 1 :]]) for place in range(len(words))]
        said = self.pretrained.predict([PAIR | {"text": text} for text in hidden], nbest=100)
        found = [{each["token"]: each["probability"] for each in one["masks"][0]} for one in said]
        shown = dict.fromkeys(piece for row in found for piece, p in row.items() if p >= SEEN)
        weights = [[row.get(piece, 0.0) for piece in shown] for row in found]
        return panels_svg([Panel(weights, words, list(shown), "masked in turn, and predicted")])

    def tagger(self, name: str, count: int, steps: int, **groups: Any) -> Model:
        """A tagger that has seen so many sentences with tags; fewer are always some of the same."""
        data = {
            "train": self.file("tags.jsonl", one_sentence, 400),
            "valid": self.file("tags-valid.jsonl", one_sentence, 20),
            "limit": count,
            "max_length": 32,
        }
        learning = dict(max_epochs=0, max_steps=steps, validate_every=steps, learning_rate=1e-3, batch_examples=16)
        return self.trained(name, "tagging", data, training=learning, **groups)

    @property
    def begun(self) -> dict[str, str]:
        """What makes a recipe go on from the pretrained BERT."""
        return {"start_from": str(self.pretrained.run.folder)}

    def tagging(self) -> str:
        """Tags said word by word and the likeliest legal ones, where a tagger has learnt too little to be both."""
        tagger = self.tagger("tagger", 12, 12, **self.begun)
        rng = random.Random("lattice")
        task: Any = tagger.task
        follow, before = transitions(task.labels), task.labels.index("O")
        while True:
            example = one_sentence(rng)
            ((logits,),) = task.run(tagger.model, [task.encode(example)]).logits
            log_p = logits[1:-1].double().log_softmax(dim=-1)  # every word of this world is one piece
            likeliest, best = log_p.argmax(dim=-1), torch.tensor(best_sequence(log_p.numpy(), follow, before))
            if not torch.equal(best, likeliest):
                break
        chosen, alone = (one_hot(tags, len(task.labels)).T for tags in (best, likeliest))
        shown = {"p of each tag": log_p.exp().T, "blue: legal; orange: word by word": chosen - alone * (1 - chosen)}
        return panels_svg([Panel(each.numpy(), task.labels, example["words"], title) for title, each in shown.items()])

    def answering(self) -> str:
        """Where an answer begins and ends in every window on a text; [CLS] where it has none."""
        data = {
            "train": self.file("asked.jsonl", question, 1000),
            "valid": self.file("asked-valid.jsonl", question, 50),
            **dict(max_length=40, max_question=24, stride=12),
        }
        learning = dict(max_epochs=5, learning_rate=1e-3, monitor="loss")
        asked = self.trained("answerer", "answering", data, training=learning, **self.begun)
        example = question(random.Random("window"))
        task: Any = asked.task
        inputs = task.encode(example)
        (windows,) = task.run(asked.model, [inputs]).logits
        panels = []
        for number, (read, logits) in enumerate(zip(inputs, windows, strict=True), 1):
            names, places = task.tokenizer.tokens(read.ids), [0, *np.flatnonzero(read.segments)[:-1]]
            p, title = logits.softmax(dim=0)[places].T, f"{example['question']} window {number}"
            panels.append(Panel(p.numpy(), ["begins", "ends"], [names[place] for place in places], title))
        return panels_svg(panels, 1)

    def few(self) -> str:
        """F1 of names over the number of labelled sentences: fine-tuned, from features, from scratch."""
        rng = random.Random("test")
        test = [one_sentence(rng) for _ in range(200)]
        lines: dict[str, list[tuple[float, float]]] = {}
        for count in COUNTS:
            tuned = self.tagger(f"tuned-{count}", count, 60, **self.begun)
            fresh = self.tagger(f"fresh-{count}", count, 60, model=MODEL, text={"vocab_size": 300})
            said = {
                "fine-tuned": [each["tags"] for each in tuned.predict(asked_of(test))],
                "features, and a linear map": self.by_features(list(tuned.task.read("train")), test),
                "from scratch": [each["tags"] for each in fresh.predict(asked_of(test))],
            }
            for name, tags in said.items():
                f1 = entity_scores(tags, [each["tags"] for each in test])["f1"].value
                lines.setdefault(name, []).append((count, f1))
        return chart_svg(lines, "Names of people and places, F1", "labelled sentences", "F1", log="x")

    def by_features(self, train: Sequence[Example], test: Sequence[Example]) -> list[list[str]]:
        """The BERT stays as it is: ridge regression of the tags on its layers side by side."""
        tags = sorted({tag for each in test for tag in each["tags"]})
        x, y = self.features(train), torch.tensor([tags.index(tag) for each in train for tag in each["tags"]])
        linear = torch.linalg.solve(x.T @ x + torch.eye(x.size(1)), x.T @ one_hot(y, len(tags)).double())
        said = iter((self.features(test) @ linear).argmax(dim=1).tolist())
        return [[tags[next(said)] for _ in each["words"]] for each in test]

    def features(self, examples: Sequence[Example]) -> torch.Tensor:
        """All layers of every word, one sentence after another."""
        read = self.pretrained.embed([told([each]) for each in examples], pool="tokens", layers="all")
        return torch.cat([torch.from_numpy(each.vector[1:-1]) for each in read]).double()

    def pooling(self) -> str:
        """Where a recurrent reader listened in the end."""
        data = {
            "train": self.file("reviews.jsonl", review, 2000),
            "valid": self.file("reviews-valid.jsonl", review, 50),
            "max_length": 32,
        }
        reader, learning = dict(kind="recurrent", d_model=64, dropout=0.1), dict(max_epochs=4, learning_rate=3e-3)
        judge = self.trained("judge", "classification", data, model=reader, training=learning | {"monitor": "loss"})
        panels = []
        for text in REVIEWS:
            explanation = judge.explain(text)
            (seen,) = explanation.maps
            title = judge.task.describe(explanation.example, explanation.prediction).summary
            panels.append(Panel(np.asarray(seen.weights)[0, 0], seen.rows, seen.columns, title))
        return panels_svg(panels, 1)


def one_sentence(rng: random.Random) -> Example:
    return rng.choice(story(rng))


def asked_of(examples: Sequence[Example]) -> list[Example]:
    """Without what is right."""
    return [{"words": each["words"]} for each in examples]


def cosines(x: torch.Tensor) -> np.ndarray[Any, Any]:
    """(T, D) -> (T, T)."""
    return cosine_similarity(x[:, None], x[None], dim=-1).numpy()
