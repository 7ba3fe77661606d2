"""Softmax regression: p = softmax(W x + b), cross-entropy, and its gradient (p - y) x^T."""

import numpy as np


def softmax(o):
    e = np.exp(o - o.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def loss_and_gradient(W, X, labels):
    """Mean of -log p[label] and its gradient; X (N, V), W (O, V)."""
    p = softmax(X @ W.T)  # (N, O)
    nll = -np.log(p[np.arange(len(X)), labels]).mean()
    return nll, (p - np.eye(len(W))[labels]).T @ X / len(X)


texts = {
    "sport": ["the team won the match", "a late goal won the cup", "the coach praised the team"],
    "money": ["the bank raised its rates", "shares fell as the bank lost money", "the market lost a cup of gains"],
}
words = sorted({word for group in texts.values() for text in group for word in text.split()})


def bag(text):
    return np.array([*(float(word in text.split()) for word in words), 1.0])  # the last feature is the bias


X = np.stack([bag(text) for group in texts.values() for text in group])
labels = np.repeat(np.arange(2), 3)
W = np.zeros((2, len(words) + 1))
for step in range(201):
    nll, gradient = loss_and_gradient(W, X, labels)
    if step in (0, 10, 200):
        print(f"step {step:3}: loss {nll:.4f}")
    W -= 1.0 * gradient
ranked = [words[n] for n in np.argsort(W[1] - W[0], kind="stable") if n < len(words)]
print("for sport:", *ranked[:4], "| for money:", *ranked[-4:])
for text in ("the team lost the cup", "the bank won"):
    print(f"{text!r}:", dict(zip(texts, softmax(W @ bag(text)).round(3).tolist(), strict=True)))
