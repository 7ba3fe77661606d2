"""README.md of an export: a program that runs the model without regard.

A template has names in capitals, which are replaced all at once: tokens, names of tokenizer files and an example.
"""

import json
import re
from pathlib import Path

from regard.tasks.base import AnyTask, Example
from regard.tasks.choice import Choice
from regard.tasks.dependencies import Dependencies
from regard.tasks.labelled import LabelledTask
from regard.tasks.language import Language
from regard.tasks.pretraining import Pretraining
from regard.tasks.seq2seq import Seq2SeqTask
from regard.text.symbols import BOS, EOS

README = "README.md"

ONNX_OPEN = """import numpy as np
import onnxruntime
from tokenizers import Tokenizer

def graph(name):
    session = onnxruntime.InferenceSession(f"{name}.onnx")
    names = [value.name for value in session.get_outputs()]
    return lambda **inputs: dict(zip(names, session.run(None, inputs)))
"""
TORCH_OPEN = """import json
import numpy as np
import torch
from tokenizers import Tokenizer

signatures = {item["name"]: item for item in json.load(open("graphs.json"))}

def graph(name):
    module, signature = torch.export.load(f"{name}.pt2").module(), signatures[name]
    def run(**inputs):
        outputs = module(*(torch.from_numpy(inputs[value["name"]]) for value in signature["inputs"]))
        return {value["name"]: x.detach().numpy() for value, x in zip(signature["outputs"], outputs)}
    return run
"""
WRITE = """
source, target = Tokenizer.from_file("SRC"), Tokenizer.from_file("TGT")
encoder, decoder = graph("encoder"), graph("decoder")

def translate(textLANGUAGE, max_tokens=200):
    ids = np.array([TAGsource.encode(text, add_special_tokens=False).ids + [END]])
    state, tokens = encoder(input_ids=ids, attention_mask=np.ones_like(ids)), [START]
    while tokens[-1] != END and len(tokens) <= max_tokens:
        new = decoder(input_ids=np.array([tokens[-1:]]), **state)
        logits = new.pop("logits")[0, 0]
        logits[[0, 1]] = -np.inf  # padding and the beginning are never written
        tokens.append(int(logits.argmax()))
        state.update((name.removeprefix("new_"), x) for name, x in new.items())
    return target.decode([token for token in tokens if token > 2])

print(translate(EXAMPLE))
"""
CONTINUE = """
tokenizer, decoder = Tokenizer.from_file("SRC"), graph("decoder")
state = STATE

def generate(text, max_tokens=50):
    prompt, now = tokenizer.encode(text, add_special_tokens=False).ids, dict(state)
    tokens = BEGINNING
    while len(tokens) <= max_tokens:
        new = decoder(input_ids=np.array([tokens[-1:]]), **now)
        logits = new.pop("logits")[0, 0]
        logits[0] = -np.inf  # padding is never written
        now.update((name.removeprefix("new_"), x) for name, x in new.items())
        tokens.append(prompt[len(tokens) - 1] if len(tokens) <= len(prompt) else int(logits.argmax()))
        if tokens[-1] == END:
            break
    return tokenizer.decode([token for token in tokens if token != END])

print(generate(EXAMPLE))
"""
READ = """
tokenizer, model = Tokenizer.from_file("SRC"), graph("model")

def encode(text):
    return tokenizer.encode(text, add_special_tokens=False).ids

def logits(text, pair=None):
    first = [FIRST, *encode(text), *([LAST] if pair is None else [BETWEEN])]
    second = [] if pair is None else [*encode(pair), LAST]
    ids, types = np.array([first + second]), np.array([[0] * len(first) + [1] * len(second)])
    return model(input_ids=ids, attention_mask=np.ones_like(ids), token_type_ids=types)["logits"]

print(logits(EXAMPLE))SHOWN
"""
PARSE = """
tokenizer, model = Tokenizer.from_file("SRC"), graph("model")

def scores(words):
    tokens = [tokenizer.encode(word, add_special_tokens=False).ids for word in words]
    ids = np.array([[FIRST, *(token for word in tokens for token in word), LAST]])
    first = np.array([[False, *(number == 0 for word in tokens for number in range(len(word))), False]])
    inputs = {"attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids), "first_tokens": first}
    return model(input_ids=ids, **inputs)

print(scores(EXAMPLE))  # scores of heads, and of relations: LABELS
"""
CTRANSLATE2 = """import ctranslate2
from tokenizers import Tokenizer

source, target = Tokenizer.from_file("SRC"), Tokenizer.from_file("TGT")
translator = ctranslate2.Translator(".", compute_type="QUANTIZATION")

def translate(textLANGUAGE):
    ids = [TAGsource.encode(text, add_special_tokens=False).ids + [END]]
    result = translator.translate_batch([[str(token) for token in ids[0]]], beam_size=BEAM)[0]
    return target.decode([int(token) for token in result.hypotheses[0]])

print(translate(EXAMPLE))
"""
TRANSFORMERS = """from transformers import AutoTokenizer, CLASS

tokenizer, model = AutoTokenizer.from_pretrained("."), CLASS.from_pretrained(".")
"""


def readme(task: AnyTask, folder: Path, to: str, quantization: str, example: Example) -> str:
    """The text of README.md for an export in `folder`."""
    name, model = task.recipe.name or "A model", task.recipe.model.summary
    return (
        f"# {name}, exported by regard to {to}\n\n"
        f"Task {task.name}; {model}; weights {quantization}.\n"
        "`certificate.json` says how this export differs from the run that it was made from. This program runs it, in\n"
        "this folder and without regard:\n\n"
        f"```python\n{program(task, folder, to, quantization, example)}```\n{notes(task)}"
    )


def program(task: AnyTask, folder: Path, to: str, quantization: str, example: Example) -> str:
    """A Python program that runs the export."""
    if to == "huggingface":
        return transformers_program(task, folder, example)
    if to == "ctranslate2":
        return fill(task, CTRANSLATE2.replace("QUANTIZATION", quantization), example)
    opening = ONNX_OPEN if to == "onnx" else TORCH_OPEN
    bodies = {Seq2SeqTask: WRITE, Language: CONTINUE, Dependencies: PARSE}
    body = next((text for kind, text in bodies.items() if isinstance(task, kind)), READ)
    if isinstance(task, Language):
        body = body.replace("STATE", initial_state(folder))
    return opening + fill(task, body, example)


def fill(task: AnyTask, template: str, example: Example) -> str:
    """A template with the tokens of a task."""
    names = [name for name in task.artifacts(task.recipe) if name.endswith("tokenizer.json")]
    tags = getattr(getattr(task, "src_tokenizer", None), "language_tags", {})
    frame = task.tokenizer.frame if isinstance(task, LabelledTask | Pretraining) else ([], [], [])
    labels = getattr(task, "labels", ())
    values = {
        "SRC": names[0],
        "TGT": names[-1],
        "LANGUAGE": ", to" if tags else "",
        "TAG": f"[{json.dumps(tags)}[to]] + " if tags else "",
        "BEAM": str(task.decoding.beam if isinstance(task, Seq2SeqTask) and task.decoding.search == "beam" else 1),
        "FIRST": ", ".join(map(str, frame[0])),
        "BETWEEN": ", ".join(map(str, frame[1])),
        "LAST": ", ".join(map(str, frame[2])),
        "BEGINNING": f"[{EOS}]" if getattr(task.recipe.model, "begin_symbol", True) else "[prompt.pop(0)]",
        "END": str(EOS),
        "START": str(BOS),
        "EXAMPLE": arguments_of(task, example),
        "SHOWN": f"  # labels: {', '.join(labels)}" if labels else "",
        "LABELS": ", ".join(labels),
    }
    return re.sub("|".join(values), lambda name: values[name[0]], template)


def arguments_of(task: AnyTask, example: Example) -> str:
    """An example as arguments of a function in Python: texts, and the language to translate to."""
    if isinstance(task, Dependencies):
        return repr(list(example["words"]))
    keys = [key for key in ("src", "text", "question", "context", "pair", "to") if isinstance(example.get(key), str)]
    values = [example[key] for key in keys] or [" ".join(example.get("words", ["A", "text."]))]
    values += list(example.get("choices", ()))[:1]
    return ", ".join(repr(value) for value in values)


def initial_state(folder: Path) -> str:
    """The state of a language model before the first token, as Python."""
    decoder = json.loads((folder / "graphs.json").read_text(encoding="utf-8"))[0]
    sizes, entries = {"batch": 1, "hypotheses": 1, "past": 0}, ""
    for value in decoder["inputs"][1:]:
        shape = tuple(sizes.get(axis, axis) for axis in value["axes"])
        entries += f'    "{value["name"]}": np.zeros({shape}, "{value["dtype"]}"),\n'
    return f"{{\n{entries}}}"


def transformers_program(task: AnyTask, folder: Path, example: Example) -> str:
    """A program for transformers."""
    architecture = json.loads((folder / "config.json").read_text(encoding="utf-8"))["architectures"][0]
    opening = TRANSFORMERS.replace("CLASS", architecture)
    tags = getattr(getattr(task, "src_tokenizer", None), "language_tags", {})
    if isinstance(task, Choice):
        text, choices = example["text"], list(example["choices"])
        return (
            f"{opening}choices = {choices!r}\n"
            f'inputs = tokenizer([{text!r}] * len(choices), choices, return_tensors="pt", padding=True)\n'
            "print(model(**{name: x[None] for name, x in inputs.items()}).logits)\n"
        )
    if not isinstance(task, Seq2SeqTask):
        return f'{opening}print(model(**tokenizer({arguments_of(task, example)}, return_tensors="pt")))\n'
    target = '.from_pretrained("target")' if (folder / "target").is_dir() else ""
    reader = f"AutoTokenizer{target}" if target else "tokenizer"
    tag = f"⟨2{example.get('to', next(iter(tags)))}⟩" if tags else ""
    return (
        f'{opening}inputs = tokenizer([{tag + example["src"]!r}], return_tensors="pt")\n'
        f"print({reader}.batch_decode(model.generate(**inputs), skip_special_tokens=True))\n"
    )


def notes(task: AnyTask) -> str:
    """How to give the target language to a model of several languages, and which directions it was trained on."""
    tags = getattr(getattr(task, "src_tokenizer", None), "language_tags", {})
    if not tags:
        return ""
    listed = ", ".join(f"{language} {number}" for language, number in tags.items())
    trained = ", ".join(f"{source} to {target}" for source, target in getattr(task, "directions", ()))
    directions = f"The model was trained on {trained}. For another direction, translate twice.\n" if trained else ""
    return f"\nThe first token of a source is the tag of the target language: {listed}.\n{directions}"
