"""The dictionary of benchmarks.word_pairs."""

import random

from benchmarks.word_pairs import word_pairs

ENGLISH = ("house", "dog", "tree", "water", "Anna", "bird", "road", "stone")
FRENCH = ("maison", "chien", "arbre", "eau", "Anne", "oiseau", "route", "pierre")


def test_words_of_sentences_in_another_order_are_found() -> None:
    rng = random.Random(3)
    pairs = []
    for _ in range(300):
        chosen = rng.sample(range(len(ENGLISH)), 4)
        english = [ENGLISH[number] for number in chosen]
        french = [FRENCH[number] for number in chosen]
        rng.shuffle(french)
        pairs.append((f"{english[0].title()} {' '.join(english[1:])}.", f"L'{' '.join(french)} !"))
    assert dict(word_pairs(pairs)) == dict(zip(ENGLISH, FRENCH, strict=True))


def test_rare_and_uncertain_words_are_left_out() -> None:
    pairs = [("the cat sleeps", "die Katze schläft"), ("the cat", "die Katze")] * 3 + [("a rare word", "ein Wort")]
    found = dict(word_pairs(pairs))
    assert found["cat"].lower() in ("katze", "die") and not {"a", "rare", "word"} & set(found)
