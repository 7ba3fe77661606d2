"""CTranslate2 gives the results of the reference engine: weights, scores, searches, lengths, prefixes."""

import itertools
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from benchmarks.rows import concatenate_rows

from regard.attention.layouts import Padded
from regard.data.builtin import pairs
from regard.data.pairs import pad_pairs
from regard.decoding.constraints import LoopGuard
from regard.decoding.engine import DecodingRequest
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import DecodingSettings
from regard.decoding.stepper import Symbols
from regard.engines.ctranslate2 import CTranslate2Engine, split_batches, translate_options
from regard.engines.stepper_engine import StepperEngine
from regard.errors import UserError
from regard.exchange.ctranslate2 import write_ctranslate2
from regard.models.transformer import Transformer, TransformerSettings
from regard.text.factory import train_tokenizer
from regard.text.settings import TextSettings
from regard.text.symbols import BOS, EOS, PAD
from regard.text.tokenizer import Tokenizer

ctranslate2 = pytest.importorskip("ctranslate2")

SYMBOLS = Symbols(bos=BOS, eos=EOS, pad=PAD)
GREEDY = DecodingSettings(search="greedy")
BEAM = DecodingSettings(search="beam", beam=4)
VOCABULARY, STEPS = 40, 200
CPU = torch.device("cpu")


class Dates:
    """A small model that has learnt to read dates, as far as a few seconds go, and questions for it."""

    def __init__(self, folder: Path) -> None:
        torch.manual_seed(1)
        learnt = list(itertools.islice(pairs("dates", "train"), 4000))
        words: Tokenizer = train_tokenizer((text for pair in learnt for text in pair), TextSettings(vocab_size=400))
        shape: dict[str, Any] = dict(d_model=64, num_heads=4, d_ff=128, encoder_layers=1, decoder_layers=1)
        settings = TransformerSettings(norm="pre", dropout=0.0, **shape)
        self.model = Transformer(settings, len(words), len(words))
        self._learn([(words.encode(src), words.encode(tgt)) for src, tgt in learnt])
        test_pairs = list(itertools.islice(pairs("dates", "test"), 120))
        self.sources = [[*words.encode(src), EOS] for src, _ in test_pairs]
        self.targets = [words.encode(tgt) for _, tgt in test_pairs]
        self.max_new_tokens = [len(source) + 10 for source in self.sources]
        self.readable = StepperEngine(self.model, SYMBOLS, CPU)
        self.folders = {name: folder / name for name in ("float32", "int8")}
        for name, index in self.folders.items():
            write_ctranslate2(self.model, SYMBOLS, index, name)

    def _learn(self, examples: list[tuple[list[int], list[int]]]) -> None:
        optimizer = torch.optim.Adam(self.model.parameters(), lr=4e-3, betas=(0.9, 0.98))
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=STEPS, pct_start=0.2)
        rng = random.Random(1)
        for _ in range(STEPS):
            batch = pad_pairs(
                *map(
                    concatenate_rows,
                    zip(
                        *[(np.array([*a, EOS]), np.array([*b, EOS])) for a, b in rng.sample(examples, 48)], strict=True
                    ),
                )
            )
            logits = self.model(batch.source, batch.target).logits()
            optimizer.zero_grad()
            F.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), ignore_index=PAD).backward()
            optimizer.step()
            schedule.step()
        self.model.eval()

    def engine(self, name: str = "float32", workers: int = 1) -> CTranslate2Engine:
        return CTranslate2Engine(self.folders[name], SYMBOLS, name, workers=workers)

    def share_right(self, results: list[list[Hypothesis]]) -> float:
        return sum(a[0].tokens == b for a, b in zip(results, self.targets, strict=True)) / len(self.targets)


@pytest.fixture(scope="module")
def dates(tmp_path_factory: pytest.TempPathFactory) -> Dates:
    return Dates(tmp_path_factory.mktemp("dates"))


def random_model(seed: int = 0, **changes: Any) -> Transformer:
    torch.manual_seed(seed)
    shape: dict[str, Any] = dict(size="tiny", d_model=32, num_heads=4, d_ff=48, max_positions=32)
    model = Transformer(TransformerSettings(**(shape | changes)), VOCABULARY, VOCABULARY).eval()
    with torch.no_grad():
        for weights in model.parameters():
            weights.add_(0.1 * torch.randn_like(weights))
    return model


@torch.no_grad()
def likelihood(model: Transformer, source: list[int], target: list[int]) -> list[float]:
    """log P of every token of the target and of its end, by the training path."""
    src = Padded.of(torch.tensor([source]), torch.tensor([len(source)]))
    tgt = Padded.of(torch.tensor([[BOS, *target]]), torch.tensor([len(target) + 1]))
    log_probs = model(src, tgt).logits().log_softmax(dim=-1)[0]
    return [float(log_probs[index, token]) for index, token in enumerate([*target, EOS])]


def names(ids: list[int]) -> list[str]:
    return [str(number) for number in ids]


@pytest.mark.parametrize(
    "kind",
    [
        dict(norm="post", activation="relu", positions="sinusoidal", tie="all"),
        dict(norm="pre", activation="gelu", positions="learned", tie="output"),
        dict(norm="pre", activation="silu", positions="rotary", tie="none"),
        dict(norm="post", activation="gelu", positions="none", tie="all"),
        dict(share_qk=True, scale_embeddings=False),
    ],
    ids=str,
)
def test_every_kind_of_transformer_is_converted_exactly(kind: dict[str, Any], tmp_path: Path) -> None:
    model = random_model(**kind, decoder_layers=3)
    write_ctranslate2(model, SYMBOLS, tmp_path / "model", "float32")
    pool = ctranslate2.Translator(str(tmp_path / "model"), compute_type="float32", intra_threads=1)
    sources = [[5, 9, 11, 7, EOS], [4, EOS], [8, 8, 30, EOS]]
    targets = [[6, 7, 8], [9, 10, 11, 12, 13], []]
    scored = pool.score_batch([names(ids) for ids in sources], [names(ids) for ids in targets])
    for source, target, actual in zip(sources, targets, scored, strict=True):
        assert actual.log_probs == pytest.approx(likelihood(model, source, target), abs=1e-4)


@pytest.mark.parametrize("settings", [GREEDY, BEAM, DecodingSettings(beam=1)], ids=["greedy", "beam 4", "beam 1"])
def test_results_equal_the_reference_engine(dates: Dates, settings: DecodingSettings) -> None:
    theirs = dates.engine().decode(DecodingRequest(dates.sources, dates.max_new_tokens, settings))
    ours = dates.readable.decode(DecodingRequest(dates.sources, dates.max_new_tokens, settings))
    assert dates.share_right(ours) > 0.5, "the model has learnt something"
    same = 0
    for source, (a,), (b,) in zip(dates.sources, theirs, ours, strict=True):
        same += a.tokens == b.tokens
        assert a.finished and a.log_prob == pytest.approx(sum(likelihood(dates.model, source, a.tokens)), abs=1e-3)
        if a.tokens == b.tokens:
            assert (a.score, a.log_prob) == pytest.approx((b.score, b.log_prob), abs=1e-3)
    assert same == len(ours) if settings.search == "greedy" else same >= 0.97 * len(ours)


@pytest.mark.parametrize("alpha", [0.0, 1.5])
def test_alpha_is_our_length_penalty(dates: Dates, alpha: float) -> None:
    settings = DecodingSettings(beam=4, alpha=alpha)
    theirs = dates.engine().decode(DecodingRequest(dates.sources, dates.max_new_tokens, settings))
    ours = dates.readable.decode(DecodingRequest(dates.sources, dates.max_new_tokens, settings))
    assert sum(a[0].tokens == b[0].tokens for a, b in zip(theirs, ours, strict=True)) >= 0.97 * len(ours)
    for (hypothesis,) in theirs:
        penalty = ((5 + len(hypothesis.tokens) + 1) / 6) ** alpha
        assert hypothesis.score == pytest.approx(hypothesis.log_prob / penalty)


def test_the_hypothesis_that_the_library_ranks_first_is_not_always_the_best(tmp_path: Path) -> None:
    model, settings = random_model(tie="none"), DecodingSettings(beam=4, alpha=1.0)
    with torch.no_grad():
        model.output.weight[EOS] *= 2  # so that hypotheses end, after few tokens or after many
    write_ctranslate2(model, SYMBOLS, tmp_path / "model", "float32")
    engine, options = CTranslate2Engine(tmp_path / "model", SYMBOLS, "float32", workers=1), translate_options(settings)
    sources = [names(ids) for ids in SOURCES]
    whole = engine.pool.translate_batch(sources, max_decoding_length=30, **options)
    first = engine.pool.translate_batch(sources, max_decoding_length=30, **(options | {"num_hypotheses": 1}))
    assert [a.hypotheses[:1] for a in whole] == [b.hypotheses for b in first], "the number only cuts the result"
    better = 0
    for (best,), result in zip(engine.decode(DecodingRequest(SOURCES, [30] * 12, settings)), whole, strict=True):
        tokens = result.hypotheses[0]
        score = result.scores[0] * len(tokens) / ((5 + len(tokens)) / 6)  # its score is log P / |Y|
        better += best.score > score + 1e-3 and [*names(best.tokens), str(EOS)] in result.hypotheses[1:]
    assert better, "one hypothesis of the library would change a translation"


@pytest.mark.parametrize("name", ["float32", "int8"])
@pytest.mark.parametrize("settings", [GREEDY, BEAM], ids=["greedy", "beam"])
def test_results_equal_a_direct_call_of_the_library(dates: Dates, name: str, settings: DecodingSettings) -> None:
    actual = dates.engine(name, workers=2).decode(DecodingRequest(dates.sources, dates.max_new_tokens, settings))
    pool = ctranslate2.Translator(str(dates.folders[name]), compute_type=name, intra_threads=1)
    direct = pool.translate_batch(
        [names(ids) for ids in dates.sources],
        max_decoding_length=max(dates.max_new_tokens),
        **translate_options(settings),
    )
    for (best,), result in zip(actual, direct, strict=True):
        texts = [[int(token) for token in text[:-1]] for text in result.hypotheses if text[-1] == str(EOS)]
        assert best.tokens in texts
        if settings.search == "greedy":
            assert [best.tokens] == texts and best.log_prob == pytest.approx(result.scores[0], abs=1e-3)


def test_int8_is_almost_as_good(dates: Dates) -> None:
    right = {
        name: dates.share_right(dates.engine(name).decode(DecodingRequest(dates.sources, dates.max_new_tokens, BEAM)))
        for name in dates.folders
    }
    assert right["int8"] >= right["float32"] - 0.05, right


def test_nbest_hypotheses_are_sorted(dates: Dates) -> None:
    settings = DecodingSettings(beam=4, nbest=3)
    theirs = dates.engine().decode(DecodingRequest(dates.sources, dates.max_new_tokens, settings))
    ours = dates.readable.decode(DecodingRequest(dates.sources, dates.max_new_tokens, settings))
    for a, b in zip(theirs, ours, strict=True):
        scores = [hypothesis.score for hypothesis in a]
        assert len(a) == 3 and scores == sorted(scores, reverse=True)
        assert len({tuple(hypothesis.tokens) for hypothesis in a}) == 3
        assert a[0].score <= b[0].score + 1e-4, "ours searches on while something better may come"


def test_truncated_hypotheses_are_returned_only_if_none_has_ended(dates: Dates) -> None:
    engine = dates.engine()
    ended, truncated = (["7", engine.end], -3.0), (["7", "8"], -0.5)
    beam = DecodingSettings(beam=2, nbest=2, alpha=0.0)
    assert [h.tokens for h in engine._hypotheses([truncated, ended], beam)] == [[7]]
    assert [h.tokens for h in engine._hypotheses([ended, truncated], beam)] == [[7]]
    assert [h.tokens for h in engine._hypotheses([truncated], beam)] == [[7, 8]]
    sampled = DecodingSettings(search="sample", nbest=2, alpha=0.0)
    assert [(h.tokens, h.finished) for h in engine._hypotheses([ended, truncated], sampled)] == [
        ([7, 8], False),
        ([7], True),
    ]


@pytest.mark.parametrize("settings", [GREEDY, BEAM], ids=["greedy", "beam"])
def test_a_prefix_is_kept_and_scored(dates: Dates, settings: DecodingSettings) -> None:
    wrong_year = dates.targets[1][:2]
    prefixes = [[], wrong_year, [], dates.targets[3][:1], wrong_year + dates.targets[4][:3]] + [[]] * 5
    sources, max_new_tokens = dates.sources[:10], dates.max_new_tokens[:10]
    theirs = dates.engine().decode(DecodingRequest(sources, max_new_tokens, settings, prefixes=prefixes))
    ours = dates.readable.decode(DecodingRequest(sources, max_new_tokens, settings, prefixes=prefixes))
    for (a,), (b,), prefix in zip(theirs, ours, prefixes, strict=True):
        assert a.tokens == b.tokens and a.tokens[: len(prefix)] == prefix
        assert a.log_prob == pytest.approx(b.log_prob, abs=1e-3)


@pytest.mark.parametrize("settings", [GREEDY, BEAM], ids=["greedy", "beam"])
def test_no_hypothesis_exceeds_its_maximum_length(dates: Dates, settings: DecodingSettings) -> None:
    max_new_tokens = [1 + number % 8 for number in range(len(dates.sources))]
    theirs = dates.engine().decode(DecodingRequest(dates.sources, max_new_tokens, settings))
    ours = dates.readable.decode(DecodingRequest(dates.sources, max_new_tokens, settings))
    for (a,), (b,), limit in zip(theirs, ours, max_new_tokens, strict=True):
        assert len(a.tokens) + a.finished <= limit
        if settings.search == "greedy" or a.finished:
            assert a.tokens == b.tokens and a.finished == b.finished
            assert a.log_prob == pytest.approx(b.log_prob, abs=1e-3)
        else:  # of its texts it may return only those that were cut, where they are likelier
            assert len(a.tokens) == limit and a.score >= b.score - 1e-4
    assert {a.finished for (a,) in theirs} == {True, False}


@pytest.fixture(scope="module")
def random_engines(tmp_path_factory: pytest.TempPathFactory) -> tuple[StepperEngine[Any], CTranslate2Engine]:
    """A model that has learnt nothing and likes to write symbols that are no text, in both engines."""
    model = random_model(3, tie="none")
    with torch.no_grad():
        model.output.weight[[PAD, BOS]] *= 3
    folder = tmp_path_factory.mktemp("babbling") / "model"
    write_ctranslate2(model, SYMBOLS, folder, "float32")
    return StepperEngine(model, SYMBOLS, CPU), CTranslate2Engine(folder, SYMBOLS, "float32", workers=1)


SOURCES = [[3 + (7 * number + index) % 37 for index in range(1 + number)] + [EOS] for number in range(12)]


@pytest.mark.parametrize("changes", [{}, {"no_repeat_ngram": 2}], ids=["free", "no repetition"])
def test_special_symbols_are_never_generated(
    random_engines: tuple[StepperEngine[Any], CTranslate2Engine], changes: dict[str, Any]
) -> None:
    settings = DecodingSettings(search="greedy", loop_guard=False, **changes)
    max_new_tokens = [30] * len(SOURCES)
    ours, theirs = (engine.decode(DecodingRequest(SOURCES, max_new_tokens, settings)) for engine in random_engines)
    for (a,), (b,) in zip(theirs, ours, strict=True):
        assert a.tokens == b.tokens and a.finished == b.finished
        assert a.log_prob == pytest.approx(b.log_prob, abs=1e-3)
        assert not {PAD, BOS, EOS} & set(a.tokens)


def test_loops_are_marked(random_engines: tuple[StepperEngine[Any], CTranslate2Engine]) -> None:
    guarded, free = (DecodingSettings(search="greedy", loop_guard=guard) for guard in (True, False))
    max_new_tokens = [60] * len(SOURCES)
    ours, theirs = (
        random_engines[0].decode(DecodingRequest(SOURCES, max_new_tokens, free)),
        random_engines[1].decode(DecodingRequest(SOURCES, max_new_tokens, guarded)),
    )
    loops = [bool(LoopGuard()(torch.tensor([[actual.tokens]]))) for (actual,) in ours]
    assert {True, False} == set(loops), "such a model loops, and not always"
    assert [actual.looped for (actual,) in theirs] == loops
    assert not any(
        actual.looped for (actual,) in random_engines[1].decode(DecodingRequest(SOURCES, max_new_tokens, free))
    )


def test_samples_depend_on_the_seed_and_have_correct_scores(dates: Dates) -> None:
    engine = dates.engine(workers=2)
    sources, max_new_tokens = dates.sources[:20], dates.max_new_tokens[:20]

    def drawn(seed: int, **changes: Any) -> list[list[Hypothesis]]:
        settings = DecodingSettings(search="sample", seed=seed, **changes)
        return engine.decode(DecodingRequest(sources, max_new_tokens, settings, sentence_ids=range(20)))

    first = drawn(1, nbest=2, temperature=2.0)
    assert first == drawn(1, nbest=2, temperature=2.0)
    assert first != drawn(2, nbest=2, temperature=2.0)
    for source, answer in zip(sources, first, strict=True):
        assert len(answer) == 2
        for actual in answer:
            expected = likelihood(dates.model, source, actual.tokens)[: len(actual.tokens) + actual.finished]
            assert actual.log_prob == pytest.approx(sum(expected), abs=1e-2)
    assert drawn(1, top_k=10**6) == drawn(1), "as many as there are is all of them"
    likeliest = [
        [answer[0].tokens] for answer in dates.readable.decode(DecodingRequest(sources, max_new_tokens, GREEDY))
    ]
    assert [[each.tokens for each in answer] for answer in drawn(1, top_k=1, nbest=3)] == likeliest


def test_conversion_does_not_change_the_model(tmp_path: Path) -> None:
    model = random_model()
    before = {name: weights.clone() for name, weights in model.state_dict().items()}
    write_ctranslate2(model, SYMBOLS, tmp_path / "model", "int8")
    for name, weights in model.state_dict().items():
        torch.testing.assert_close(weights, before[name], rtol=0, atol=0)


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 5, 40, 400])
@pytest.mark.parametrize("most", [50, 1000])
def test_batches_contain_every_sentence_once_and_use_all_workers(count: int, workers: int, most: int) -> None:
    lengths = [1 + number * 17 % 30 for number in range(count)]
    actual = split_batches(lengths, 200, most, workers)
    assert sorted(index for share in actual for index in share) == list(range(count))
    assert len(actual) >= min(workers, count)
    for share in actual:
        assert len(share) == 1 or len(share) * max(lengths[index] for index in share) <= most


def test_unsupported_requests_are_refused(dates: Dates, tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        write_ctranslate2(dates.model, SYMBOLS, tmp_path / "model", "int3")
    assert (error.value.code, error.value.where) == ("invalid-setting", "quantization")
    if "float16" not in ctranslate2.get_supported_compute_types("cpu"):
        with pytest.raises(UserError) as error:
            CTranslate2Engine(dates.folders["float32"], SYMBOLS, "float16")
        assert (error.value.code, error.value.where) == ("unsupported", "quantization")
        assert "int8" in error.value.remedy
    with pytest.raises(UserError) as error:
        dates.engine().decode(DecodingRequest([[5] * 5000], [5050], GREEDY))
    assert (error.value.code, error.value.where) == ("too-long", str(dates.folders["float32"]))


def test_damaged_weights_are_refused(tmp_path: Path) -> None:
    model = random_model()
    with torch.no_grad():
        model.decoder[0].feedforward.fc1.weight[0, 0] = torch.nan
    with pytest.raises(UserError, match="NaN"):
        write_ctranslate2(model, SYMBOLS, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_missing_package_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(UserError, match=r"pip install 'regard\[ctranslate2\]'"):
        write_ctranslate2(random_model(), SYMBOLS, tmp_path / "model")
