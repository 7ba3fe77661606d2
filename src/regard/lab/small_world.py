"""A small language for pretraining in seconds: a grammar with ambiguous words, and documents with topics.

    sentence       NP VB NP [IN NP] .
    NP             DT [JJ] NN

Some words are adjective or noun, others noun or verb: in "the cold watch the ..." cold is a noun, in "the cold watch
holds the ..." it is an adjective. Only the words to the right tell. A document has a topic, which decides its nouns and
verbs, and each sentence begins with the last object of the one before: "the king saw the ship . a ship ...".

    make_world(seed)                    sentences with the part of speech of every word
    build_bert(...)                     a tiny BERT with the layers of pretraining
    pretrain(model, world, ...)         masked tokens, or every next token if the model is causal
    linear_probe(...)                   accuracy of a linear classifier of hidden states, solved in closed form

S sentences, T tokens of the longest input, special tokens included.
"""

import random
from copy import deepcopy
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention.layouts import Padded, Tokens
from regard.files import JsonObject
from regard.lab.toys import IGNORE, ToyTensors, fit_toy, generator_of, seeded
from regard.losses.crossentropy import Loss, cross_entropy
from regard.models.bert import Bert, BertPretraining, BertSettings
from regard.models.text_encoder import EncoderWithHead
from regard.seeding import derive_seed

SPECIALS = ("[PAD]", "[CLS]", "[SEP]", "[MASK]")
PAD, CLS, SEP, MASK = range(len(SPECIALS))
SENTENCE = 12
"""Words of the longest sentence, its full stop included."""
TOPICS, NOUNS, VERBS, NOUNS_OR_VERBS = 4, 8, 5, 3
TAGS = ("DT", "JJ", "NN", "VB", "IN", ".")
DETERMINERS, PREPOSITIONS, ADJECTIVES, ADJECTIVES_OR_NOUNS = 4, 4, 8, 8
Word = tuple[str, str]
"""A word and its part of speech."""


def _numbered(kind: str, count: int) -> list[str]:
    return [f"{kind}{number}" for number in range(count)]


def all_words() -> list[str]:
    """Every word, in the order of its id after the special tokens."""
    shared = [*_numbered("dt", DETERMINERS), *_numbered("in", PREPOSITIONS), *_numbered("jj", ADJECTIVES)]
    shared += [*_numbered("jj-nn", ADJECTIVES_OR_NOUNS), "."]
    for topic in range(TOPICS):
        shared += [*_numbered(f"nn-{topic}-", NOUNS), *_numbered(f"vb-{topic}-", VERBS)]
        shared += _numbered(f"nn-vb-{topic}-", NOUNS_OR_VERBS)
    return shared


IDS = {word: number for number, word in enumerate([*SPECIALS, *all_words()])}


def sample_noun(rng: random.Random, topic: int) -> str:
    """A noun of the topic; some can also be verbs, some also adjectives."""
    kinds = [_numbered(f"nn-{topic}-", NOUNS), _numbered(f"nn-vb-{topic}-", NOUNS_OR_VERBS)]
    return rng.choice(rng.choices([*kinds, _numbered("jj-nn", ADJECTIVES_OR_NOUNS)], (5, 2, 3))[0])


def sample_phrase(rng: random.Random, noun: str) -> list[Word]:
    adjectives = rng.choice((_numbered("jj", ADJECTIVES), _numbered("jj-nn", ADJECTIVES_OR_NOUNS)))
    adjective = [(rng.choice(adjectives), "JJ")] if rng.random() < 0.5 else []
    return [(rng.choice(_numbered("dt", DETERMINERS)), "DT"), *adjective, (noun, "NN")]


def sample_sentence(rng: random.Random, topic: int, subject: str) -> tuple[list[Word], str]:
    """A sentence with this subject, and its last noun."""
    verbs = rng.choices([_numbered(f"vb-{topic}-", VERBS), _numbered(f"nn-vb-{topic}-", NOUNS_OR_VERBS)], (1, 1))[0]
    last = sample_noun(rng, topic)
    words = [*sample_phrase(rng, subject), (rng.choice(verbs), "VB"), *sample_phrase(rng, last)]
    if rng.random() < 0.3:
        last = sample_noun(rng, topic)
        words += [(rng.choice(_numbered("in", PREPOSITIONS)), "IN"), *sample_phrase(rng, last)]
    return [*words, (".", ".")], last


@dataclass(frozen=True)
class World:
    """Sentences as inputs [CLS] words [SEP], document by document."""

    ids: Tensor  # (S, T)
    lengths: Tensor  # (S,)
    tags: Tensor  # (S, T), IGNORE at special tokens
    documents: Tensor  # (S,)

    def take(self, rows: Tensor) -> "World":
        return World(self.ids[rows], self.lengths[rows], self.tags[rows], self.documents[rows])

    def sample(self, generator: torch.Generator, size: int) -> "World":
        return self.take(torch.randint(len(self.ids), (size,), generator=generator))

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def tokens(self) -> Tokens:
        return Padded.of(self.ids, self.lengths)


def make_world(seed: int, documents: int = 300, sentences: int = 6, purpose: str = "train") -> World:
    """Documents of this many sentences."""
    rng = random.Random(derive_seed(seed, "world", purpose))
    rows: list[list[Word]] = []
    for _ in range(documents):
        topic = rng.randrange(TOPICS)
        subject = sample_noun(rng, topic)
        for _ in range(sentences):
            words, subject = sample_sentence(rng, topic, subject)
            rows.append(words)
    ids = torch.full((len(rows), SENTENCE + 3), PAD)
    tags = torch.full_like(ids, IGNORE)
    for row, words in enumerate(rows):
        ids[row, : len(words) + 2] = torch.tensor([CLS, *(IDS[word] for word, _ in words), SEP])
        tags[row, 1 : len(words) + 1] = torch.tensor([TAGS.index(tag) for _, tag in words])
    lengths = torch.tensor([len(words) + 2 for words in rows])
    return World(ids, lengths, tags, torch.arange(documents).repeat_interleave(sentences))


# ---- a tiny BERT and its pretraining


def build_bert(seed: int, layers: int = 2, width: int = 32, causal: bool = False) -> BertPretraining:
    """A tiny BERT with new weights. They are larger than a large model's: 0.02 is made for a width of 768."""
    seeded(seed, "bert", layers, width)
    values: JsonObject = dict(
        size="custom", layers=layers, d_model=width, num_heads=max(width // 16, 2), d_ff=2 * width, dropout=0.0,
        attention_dropout=0.0, max_positions=2 * SENTENCE + 4, causal=causal,
    )  # fmt: skip
    model = BertPretraining(BertSettings(**values), len(IDS))
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=width**-0.5)
    return model


Shares = tuple[float, float, float]
"""Shares of the chosen tokens that become [MASK], become a random word, or stay."""
BERT_SHARES: Shares = (0.8, 0.1, 0.1)


def mask_tokens(
    ids: Tensor, generator: torch.Generator, rate: float, shares: Shares = BERT_SHARES
) -> tuple[Tensor, Tensor]:
    """Inputs with hidden words, and labels (S, T): the hidden words, IGNORE elsewhere."""
    chosen = (torch.rand(ids.shape, generator=generator) < rate) & (ids >= len(SPECIALS))
    draw = torch.rand(ids.shape, generator=generator)
    words = torch.randint(len(SPECIALS), len(IDS), ids.shape, generator=generator)
    inputs = ids.masked_fill(chosen & (draw < shares[0]), MASK)
    inputs = torch.where(chosen & (draw >= shares[0]) & (draw < shares[0] + shares[1]), words, inputs)
    return inputs, ids.masked_fill(~chosen, IGNORE)


def next_tokens(ids: Tensor) -> Tensor:
    """Labels of a left-to-right model: the token after each, IGNORE where there is none."""
    following = torch.cat([ids[:, 1:], torch.full_like(ids[:, :1], PAD)], dim=1)
    return following.masked_fill(following == PAD, IGNORE)


def predict(model: nn.Module, batch: ToyTensors) -> tuple[Tensor, Tensor]:
    """Logits (M, V) of all labelled positions, and their labels (M,)."""
    assert isinstance(model, BertPretraining)
    positions = (batch["labels"].flatten() != IGNORE).nonzero()[:, 0]
    projection, _ = model(Padded.of(batch["ids"], batch["lengths"]), None, positions)
    return projection.logits(), batch["labels"].flatten()[positions]


def token_loss(model: nn.Module, batch: ToyTensors) -> Loss:
    """Cross-entropy of the labelled tokens."""
    return cross_entropy(*predict(model, batch), ignore=IGNORE)


def pretrain(
    model: BertPretraining,
    world: World,
    *,
    steps: int,
    seed: int,
    rate: float = 0.15,
    shares: Shares = BERT_SHARES,
    size: int = 32,
) -> None:
    """Train with masked tokens, or with every next token if the model is causal."""

    def batch(generator: torch.Generator) -> ToyTensors:
        sentences = world.sample(generator, size)
        if model.settings.causal:
            return {"ids": sentences.ids, "labels": next_tokens(sentences.ids), "lengths": sentences.lengths}
        inputs, labels = mask_tokens(sentences.ids, generator, rate, shares)
        return {"ids": inputs, "labels": labels, "lengths": sentences.lengths}

    fit_toy(model, batch, token_loss, steps=steps, rate=3e-3, warmup=min(50, steps // 4), seed=seed)


# ---- what the model learnt: parts of speech


@torch.no_grad()
def layer_states(bert: Bert, world: World) -> list[Tensor]:
    """The embeddings and the output of each layer at every word, (words, D) each."""
    bert.eval()
    return [states[world.tags != IGNORE] for states in bert.hidden_states(world.tokens)]


def word_tags(world: World) -> Tensor:
    """The part of speech of every word, in the order of `layer_states`."""
    return world.tags[world.tags != IGNORE]


def linear_probe(train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], penalty: float = 1e-2) -> float:
    """Accuracy of a linear classifier of states (N, D) with labels (N,): ridge regression of one-hot labels."""
    (x, labels), (new_x, new_labels) = train, test
    classes = int(max(labels.max(), new_labels.max())) + 1
    x, new_x = (torch.cat([part, part.new_ones(len(part), 1)], dim=1).double() for part in (x, new_x))
    targets = nn.functional.one_hot(labels, classes).double()
    weights = torch.linalg.solve(x.T @ x + penalty * len(x) * torch.eye(x.size(1), dtype=x.dtype), x.T @ targets)
    return float(((new_x @ weights).argmax(dim=1) == new_labels).double().mean())


def probe_layers(bert: Bert, train: World, test: World) -> list[float]:
    """Accuracy of parts of speech from the embeddings and from each layer: a linear probe of the frozen model."""
    states = zip(layer_states(bert, train), layer_states(bert, test), strict=True)
    return [linear_probe((x, word_tags(train)), (new_x, word_tags(test))) for x, new_x in states]


def finetune(bert: Bert, labelled: World, *, steps: int, seed: int, rate: float = 1e-3) -> EncoderWithHead:
    """A copy of the model, trained as a whole on the parts of speech of the labelled sentences."""
    seeded(seed, "head")
    model = EncoderWithHead(deepcopy(bert), len(TAGS), pooled=False, dropout=0.0)

    def batch(generator: torch.Generator) -> ToyTensors:
        sentences = labelled.sample(generator, 16)
        return {"ids": sentences.ids, "labels": sentences.tags, "lengths": sentences.lengths}

    def loss(model: nn.Module, batch: ToyTensors) -> Loss:
        words = batch["labels"] != IGNORE
        logits = model(Padded.of(batch["ids"], batch["lengths"]))[words]
        return cross_entropy(logits, batch["labels"][words], ignore=IGNORE)

    fit_toy(model, batch, loss, steps=steps, rate=rate, seed=seed)
    return model


@torch.no_grad()
def tagging_accuracy(model: EncoderWithHead, world: World) -> float:
    """Share of words whose part of speech the model predicts."""
    right = model(world.tokens).argmax(dim=-1) == world.tags
    return float(right[world.tags != IGNORE].double().mean())


def ambiguous(world: World) -> Tensor:
    """Whether each word, in the order of `layer_states`, can be adjective or noun."""
    ids = torch.tensor([IDS[word] for word in _numbered("jj-nn", ADJECTIVES_OR_NOUNS)])
    return torch.isin(world.ids, ids)[world.tags != IGNORE]


def random_rows(world: World, count: int, seed: int) -> World:
    """This many random sentences, no sentence twice."""
    return world.take(torch.randperm(len(world), generator=generator_of(seed, "rows"))[:count])
