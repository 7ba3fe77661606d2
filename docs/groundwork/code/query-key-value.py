"""Query, key and value in one head: a question, the labels on the drawers, and what is in them."""

import numpy as np

np.set_printoptions(precision=2, suppress=True)
words = ["the", "cat", "sat", "because", "it", "was", "tired"]
# features by hand, so that you can read them:   noun  animal  pronoun  verb  tired
X = np.array([[0, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 0],
              [0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]], dtype=float)  # fmt: skip

W_q = np.zeros((5, 2))
W_q[2] = [4, 4]  # a pronoun asks: who is a noun, and an animal?
W_k = np.zeros((5, 2))
W_k[0], W_k[1] = [1, 0], [0, 1]  # a key answers: am I a noun? an animal?
W_v = np.zeros((5, 3))
W_v[1], W_v[3], W_v[4] = [1, 0, 0], [0, 1, 0], [0, 0, 1]  # a value says: animal, verb, tired

Q, K, V = X @ W_q, X @ W_k, X @ W_v
scores = Q @ K.T / np.sqrt(K.shape[1])
weights = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
output = weights @ V

it = words.index("it")
print("query of 'it':", Q[it], "  key of 'cat':", K[1], "  key of 'sat':", K[2])
for word, score, weight, value in zip(words, scores[it], weights[it], V, strict=True):
    print(f"{word:8} score {score:5.2f}  weight {weight:.3f}  value {value}")
print("output for 'it': ", output[it], "  that is: an animal")
print("output for 'sat':", output[2], "  its query is zero, so it gets the mean of all values:", V.mean(axis=0))

mixed = np.exp(X @ X.T) / np.exp(X @ X.T).sum(axis=1, keepdims=True)  # query = key = value = X, no matrices
print("without the three matrices 'it' attends most to", repr(words[mixed[it].argmax()]), "and gets", (mixed @ X)[it])
