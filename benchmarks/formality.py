"""Forms of address in translations of English sentences that say "you", and what `formality` costs elsewhere.

    python -m benchmarks.formality DATA [LANGUAGE ...]      DATA as in benchmarks/translator_data.py

The sentences are the first of the held-out Tatoeba splits; news is newstest2013. The memory is off.
"""

import argparse
import re
from collections import Counter
from itertools import islice
from pathlib import Path

from benchmarks.translator_data import CORPORA, GERMAN_NEWS, NEWS, Files, split_pairs

from regard import Translator
from regard.documents.address import FORMAL, INFORMAL, MIXED, form_of
from regard.metrics.translation import bleu
from regard.run.translating import predict_texts

LANGUAGES = ("de", "fr", "es")
YOU = re.compile(r"\byour?\b", re.IGNORECASE)
SENTENCES, NEWS_SENTENCES = 200, 300
FORMALITIES = ("default", "more", "less")


def held_sentences(data: Path, language: str) -> list[str]:
    """English sentences of valid and test that address somebody."""
    splits = split_pairs(Files(tables=(data / CORPORA["tatoeba", language],)).pairs())
    found = (english for split in ("valid", "test") for english, _ in splits[split] if YOU.search(english))
    return list(islice(found, SENTENCES))


def news(data: Path, language: str) -> list[tuple[str, str]]:
    """The first pairs of newstest2013."""
    english, german = (data / f"{GERMAN_NEWS}.{code}.xz" for code in ("en", "de"))
    files = Files(lines=((english, german),)) if language == "de" else Files(tables=(data / NEWS[language],))
    return list(islice(files.pairs(), NEWS_SENTENCES))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("languages", nargs="*", default=LANGUAGES)
    given, translator = parser.parse_args(), Translator.load("translator", device="cpu")
    data = given.data

    def translate(texts: list[str], language: str, formality: str) -> list[str]:
        found = predict_texts(translator, texts, "en", language, memory=False, formality=formality)
        return [str(item["translation"]) for _, item in found]

    for language in given.languages:
        texts, pairs = held_sentences(data, language), news(data, language)
        for formality in FORMALITIES:
            outputs = translate(texts, language, formality)
            counts = Counter(form_of(text, language, source) for text, source in zip(outputs, texts, strict=True))
            print(language, formality, *(f"{form or 'none'} {counts[form]}" for form in (FORMAL, INFORMAL, MIXED, "")))
        for formality in FORMALITIES[:2]:
            outputs = translate([english for english, _ in pairs], language, formality)
            print(language, formality, f"BLEU {bleu(outputs, [other for _, other in pairs]).value:.2f}", flush=True)


if __name__ == "__main__":
    main()
