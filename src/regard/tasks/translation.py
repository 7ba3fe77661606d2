"""Translation: a sentence in, a sentence out."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial

from torch import nn

from regard.decoding.engine import Engine
from regard.metrics.score import Score, exact_match
from regard.metrics.significance import Scorer, mean_scorer, translation_scorer
from regard.metrics.summaries import ROUGE, rouge, rouge_scores
from regard.metrics.translation import bleu, bleu_metric, bleu_tokenizer_for, chrf, chrf_metric, ter, ter_metric
from regard.tasks.base import Example, Exchange, Prediction
from regard.tasks.checks import pair_warnings
from regard.tasks.languages import Languages, through_pivots
from regard.tasks.seq2seq import CHUNK_LINES, Seq2Seq, Seq2SeqChecks, TranslationRecipe, default_target
from regard.tasks.tables import direction_table, length_table, lowest_chrf
from regard.tasks.variants import TRANSLATION_VARIANTS
from regard.training.advice import Advice
from regard.viz.content import Description, Tables


class TranslationChecks(Seq2SeqChecks["Translation"]):
    """Hooks for translations: sources and targets belong together."""

    def data_warnings(self, samples: Mapping[str, Sequence[Example]]) -> list[Advice] | None:
        return pair_warnings({split: [(e["src"], e["tgt"]) for e in examples] for split, examples in samples.items()})


class Translation(Seq2Seq[TranslationRecipe]):
    """{"src", "prefix"?} -> {"translation", "score", "confidence", "finished", "looped", "parts", "hypotheses"}."""

    name = "translation"
    exchange = Exchange("translate", "translation")
    title = "a text in another language"
    recipe_type = TranslationRecipe
    command = "translate"
    variants = TRANSLATION_VARIANTS
    checks = TranslationChecks()

    @cached_property
    def languages(self) -> Languages:
        data, tokenizer = self.recipe.data, self.src_tokenizer
        own = (self.source_language, default_target(self))
        return Languages(data.directions, tokenizer.language_tags, tokenizer.placeholders, *own)

    def predict(self, engine: nn.Module | Engine, examples: Iterable[Example]) -> Iterator[Prediction]:
        if len(self.languages.directions) > 1:
            examples = through_pivots(self, engine, examples, CHUNK_LINES)
        return super().predict(engine, examples)

    def monitored_scores(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, float]:
        monitor = self.recipe.training.monitor
        return {monitor: self.metrics(examples, predictions)[monitor]().value}

    def score(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, Score]:
        return {name: compute() for name, compute in self.metrics(examples, predictions).items()}

    def metrics(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, Callable[[], Score]]:
        """A function for each score; BLEU and TER split the words as the target language writes them."""
        texts = [item["translation"] for item in predictions], [item["tgt"] for item in examples]
        tokenizer = self.word_tokenizer(examples)
        return {
            "bleu": partial(bleu, *texts, self.bleu_tokenizer or tokenizer),
            "chrf": partial(chrf, *texts),
            "ter": partial(ter, *texts, tokenizer),
            "exact_match": partial(exact_match, *texts),
            **({name: partial(rouge, *texts, name) for name in ROUGE} if self.is_summary else {}),
        }

    @property
    def is_summary(self) -> bool:
        """True if the recipe monitors ROUGE."""
        return self.recipe.training.monitor in ROUGE

    def scorer(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> Scorer:
        """BLEU and chrF, and TER, exact match or ROUGE if the recipe monitors it."""
        outputs, references = [item["translation"] for item in predictions], [item["tgt"] for item in examples]
        words = self.word_tokenizer(examples)
        used = {"bleu": ("BLEU", bleu_metric(self.bleu_tokenizer or words)), "chrf": ("chrF", chrf_metric())}
        used |= {"ter": ("TER", ter_metric(references, words))} if self.recipe.training.monitor == "ter" else {}
        corpus = translation_scorer(outputs, references, used)
        exact = mean_scorer([self.correct(*pair) for pair in zip(examples, predictions, strict=True)])
        if self.is_summary:
            pairs = zip(outputs, references, strict=True)
            exact = mean_scorer([{ROUGE[name]: f for name, f in rouge_scores(*pair).items()} for pair in pairs])
        return lambda weights: {**corpus(weights), **exact(weights)}

    def word_tokenizer(self, examples: Sequence[Example]) -> str:
        """The tokenizer of BLEU for the only target language of examples; for several, or if none is named, by the
        script of most targets."""
        named = {example.get("to") or default_target(self) for example in examples} - {""}
        codes = named or {target for _, target in self.languages.directions}
        return bleu_tokenizer_for([example["tgt"] for example in examples], codes.pop() if len(codes) == 1 else "")

    def correct(self, example: Example, prediction: Prediction) -> dict[str, float]:
        """Right or wrong only if exact matches are what counts."""
        if self.recipe.training.monitor != "exact_match":
            return {}
        return {"exact match": float(prediction["translation"] == example["tgt"])}

    def describe(self, example: Example, prediction: Prediction) -> Description:
        reference = example.get("tgt", "")
        exact = self.correct(example, prediction).values() if reference else ()
        correct = all(exact) if exact else None
        return Description(example["src"], [prediction["translation"]], reference, correct)

    def tables(self, examples: Sequence[Example], predictions: Sequence[Prediction], page: bool) -> Tables:
        """Scores by direction if the examples have several, and on a page by length, and the worst translations."""
        scored = (examples, predictions)
        tables = direction_table(*scored, self.bleu_tokenizer)
        if not page:
            return [*tables]
        tokenizer = self.bleu_tokenizer or self.word_tokenizer(examples)
        return [*tables, length_table(self.src_tokenizer, *scored, tokenizer), *lowest_chrf(*scored)]

    def next_commands(self, folder: str, example: str) -> list[str]:
        data = self.recipe.data
        chat = [f"regard chat {folder}"] if any(source.format == "dialogues" for source in data.train) else []
        to = f" --to {default_target(self) or next(iter(tags))}" if (tags := self.src_tokenizer.language_tags) else ""
        inspect = [f"regard inspect {folder} {example}{to}"] if self.recipe.has_attention else []
        evaluate = f"regard evaluate {folder}{'' if data.test else ' --on valid'}"
        return [*chat, f"echo {example} | regard translate {folder}{to}", evaluate, *inspect]
