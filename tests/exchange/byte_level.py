"""A small vocabulary of byte pair encoding over bytes, as RoBERTa and GPT-2 have it, and hard texts."""

import json
from pathlib import Path

from regard.text.symbols import BYTE_SYMBOLS

TRAINING = ["the cat sat on the mat", "a cat and a hat", "naïve café in Zürich, 1234 times", "don't they'll we've"]
HARD_TEXTS = [
    "", " ", "the cat", " the cat  sat", "Don't! they'll've", "1234567 cats,cats", "naïve café — “quoted”",
    "注意力 is all 你 need",
    "tab\tnew\nline\r\n end  ", "🙂🙃 e\u0301 \u200b x", "<s> is not a token? </s>", "a" * 70,
]  # fmt: skip


def learn(first: list[str], last: list[str] = []) -> tuple[dict[str, int], list[str]]:  # noqa: B006
    """Vocabulary and merges, with these special tokens first and last."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=330, initial_alphabet=list(BYTE_SYMBOLS), show_progress=False)
    learner.train_from_iterator(TRAINING, trainer)
    model = json.loads(learner.to_str())["model"]
    tokens = [*first, *sorted(model["vocab"], key=model["vocab"].__getitem__), *last]
    return {token: number for number, token in enumerate(tokens)}, [" ".join(merge) for merge in model["merges"]]


def write(folder: Path, vocab: dict[str, int], merges: list[str]) -> None:
    """vocab.json and merges.txt."""
    folder.mkdir(exist_ok=True)
    (folder / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n", encoding="utf-8")
