"""Distributed and distributional: the neighbours of one word in four representations of the same text."""

import torch
from torch import nn

from regard.data.builtin import trees  # sentences of a small grammar, generated without a download
from regard.trees import words as words_of

torch.manual_seed(0)
sentences = [words_of(tree) for tree in trees("train")][:4000]
vocabulary = ["<pad>", "<mask>", *sorted({word for sentence in sentences for word in sentence})]
ids, V = {word: number for number, word in enumerate(vocabulary)}, len(vocabulary)
T = max(map(len, sentences))
text = torch.tensor([[ids[word] for word in s] + [0] * (T - len(s)) for s in sentences])


def neighbours(E, word):
    """The four words with the largest cosine."""
    similar = nn.functional.normalize(E, dim=1) @ nn.functional.normalize(E[ids[word]], dim=0)
    similar[[0, 1, ids[word]]] = -2
    return ", ".join(f"{vocabulary[n]} {similar[n]:.2f}" for n in similar.sort(descending=True, stable=True)[1][:4])


def minimise(loss, parameters, steps):
    optimizer = torch.optim.Adam(parameters, 0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        loss(text[torch.randint(len(text), (128,))]).backward()
        optimizer.step()


counts = torch.zeros(V, V)  # distributional: a word is known by the words before and after it
left, right = text[:, :-1].flatten(), text[:, 1:].flatten()
counts.index_put_((left, right), torch.ones(len(left)), accumulate=True)
counts[0], counts[:, 0] = 0, 0
expected = counts.sum(1, keepdim=True) @ counts.sum(0, keepdim=True) / counts.sum()
pmi = (counts / expected.clamp(min=1e-9)).clamp(min=1).log()  # positive pointwise mutual information
U, s, _ = torch.linalg.svd(torch.cat([pmi, pmi.T], dim=1))
vectors, context = (nn.Parameter(0.1 * torch.randn(V, 16)) for _ in range(2))


def skip_gram(rows):  # word vectors: predict the next word, and the one before
    pairs = torch.cat([rows.unfold(1, 2, 1).flatten(0, 1), rows.flip(1).unfold(1, 2, 1).flatten(0, 1)])
    centre, other = pairs[(pairs > 0).all(1)].unbind(1)
    return nn.functional.cross_entropy(vectors[centre] @ context.T, other)


embedding, positions, output = nn.Embedding(V, 32), nn.Parameter(torch.randn(T, 32)), nn.Linear(32, V)
layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True, norm_first=True)


def states(rows):
    return layer(embedding(rows) + positions, src_key_padding_mask=rows == 0)


def masked(rows):  # a masked language model: fill in one word in five
    hidden = (torch.rand(rows.shape) < 0.2) & (rows > 0)
    return nn.functional.cross_entropy(output(states(rows.masked_fill(hidden, 1)))[hidden], rows[hidden])


minimise(skip_gram, [vectors, context], 150)
minimise(masked, [*embedding.parameters(), positions, *layer.parameters(), *output.parameters()], 150)
h, flat = states(text[:1000]).detach().flatten(0, 1), text[:1000].flatten()
means = torch.zeros(V, 32).index_add(0, flat, h) / flat.bincount(minlength=V).clamp(min=1)[:, None]
svd = U[:, :16] * s[:16]
tables = {"one-hot": torch.eye(V), "co-occurrence, SVD": svd, "word vectors": vectors, "masked LM": means}
for name, table in tables.items():
    print(f"{name:18} {table.size(1):3} numbers; king: {neighbours(table.detach(), 'king')}")


def state(sentence, word):
    row = torch.tensor([[ids[w] for w in sentence.split()] + [0] * (T - len(sentence.split()))])
    return states(row)[0, sentence.split().index(word)].detach()


said = state("Ada said that Otto slept .", "that")
for other in ("Ada thought that Emil laughed .", "the dog that slept saw Otto ."):
    cosine = torch.cosine_similarity(said, state(other, "that"), dim=0)
    print(f"state of 'that' in 'Ada said that Otto slept .' and in {other!r}: cosine {cosine:.2f}")
