"""How much of a padded batch is real text, for several token budgets.

python -m benchmarks.padding --src train.en.xz --tgt train.de.xz
"""

import argparse
from pathlib import Path

import numpy as np

from regard.data.fields import PAIRS
from regard.data.formats import read_examples
from regard.data.planning import Budget, plan_padded
from regard.data.sources import Source
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--src", required=True, help="source side of a corpus")
    parser.add_argument("--tgt", required=True, help="target side of it")
    parser.add_argument("--vocab-size", type=int, default=8000, help="pieces of the joint vocabulary [8000]")
    options = parser.parse_args()
    pairs = list(read_examples([Source(src=options.src, tgt=options.tgt)], Path(), PAIRS))
    text = TextSettings(vocab_size=options.vocab_size)
    vocabulary = train_tokenizer((side for pair in pairs for side in pair.values()), text)
    src, tgt = (
        np.array([len(ids) + 1 for ids in vocabulary.encode_batch(side)])  # and the end symbol
        for side in ([pair["src"] for pair in pairs], [pair["tgt"] for pair in pairs])
    )
    for budget in (2048, 4096, 8192, 25000):
        padded = sum(
            len(i) * int(src[i].max() + tgt[i].max()) for i in plan_padded((src, tgt), Budget(budget), seed=1, epoch=0)
        )
        print(f"{budget:6,} tokens a batch: {(src.sum() + tgt.sum()) / padded:.2%} real")


if __name__ == "__main__":
    main()
