"""Word vectors from counts, to try `model.embeddings_from`: python -m benchmarks.word_vectors TEXT OUT

    M_wc = max(0, log p(w, c) / (p(w) p(c)^0.75)),   M ~ U S V^T,   vector of w: U_w sqrt(S)

for words w and c at most WINDOW tokens apart (Levy, Goldberg & Dagan 2015). The file is in the form of word2vec.
"""

import re
import sys
from collections import Counter
from itertools import islice
from pathlib import Path

import torch

from regard.files import open_binary

WORDS, WIDTH, WINDOW, DEVIATION = 15_000, 100, 4, 0.4
"""The components of GloVe's vectors have about this standard deviation."""


def main(source: str, target: str) -> None:
    with open_binary(Path(source)) as stream:
        lines = [re.findall(r"\w+|[^\w\s]", line.decode().lower()) for line in stream]
    vocabulary = [word for word, _ in islice(Counter(word for line in lines for word in line).most_common(), WORDS)]
    numbers = {word: number for number, word in enumerate(vocabulary)}
    pairs = Counter[tuple[int, int]]()
    for line in lines:
        ids = [numbers.get(word, -1) for word in line]
        for distance in range(1, WINDOW + 1):
            pairs.update(pair for pair in zip(ids, ids[distance:], strict=False) if min(pair) >= 0)
    one_way = torch.sparse_coo_tensor(
        torch.tensor(list(pairs)).T, torch.tensor(list(pairs.values()), dtype=torch.float), (len(vocabulary),) * 2
    )
    counts = (one_way + one_way.transpose(0, 1)).coalesce()
    totals = counts.sum(dim=1).to_dense()
    smoothed = totals**0.75 / (totals**0.75).sum()
    rows, columns = counts.indices()
    pmi = (counts.values() / (totals[rows] * smoothed[columns])).log().clamp(min=0)
    torch.manual_seed(1)
    matrix = torch.sparse_coo_tensor(counts.indices(), pmi, counts.shape)
    u, s, _ = torch.svd_lowrank(matrix, q=WIDTH, niter=4)
    vectors = u * s.sqrt()
    vectors *= DEVIATION / vectors.std()
    with Path(target).open("w", encoding="utf-8") as output:
        output.write(f"{len(vocabulary)} {WIDTH}\n")
        for word, vector in zip(vocabulary, vectors.tolist(), strict=True):
            output.write(f"{word} {' '.join(f'{value:.4f}' for value in vector)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
