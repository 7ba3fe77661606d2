"""The service without HTTP: many requests at once, languages, alternatives, loops, and texts that stay as they are."""

import asyncio
import hashlib
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
from fastapi import FastAPI
from tests.conftest import TinyRun
from tests.serve.make import Client, identify, make_service, stop
from tests.tiny import number_sentences, translate_words

from regard.documents.segment import SegmentTranslation, join_steps
from regard.errors import UserError
from regard.run.model import Model, Translator
from regard.run.translating import SearchStep, cut_repetition, cut_source, predict_texts, translate_texts
from regard.serve.access import ApiKeys
from regard.serve.errors import ServiceError
from regard.serve.segments import SegmentTranslator, count_tokens
from regard.serve.service import Service, TranslatedText, TranslateRequest
from regard.serve.settings import ServeSettings
from regard.serve.worker import CLIENT
from regard.tasks.base import Example
from regard.tasks.identification import Detected

T = TypeVar("T")


@pytest.fixture
def service(tiny_app: FastAPI) -> Service:
    found: Service = tiny_app.state.service
    return found


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def request(*texts: str, **values: Any) -> TranslateRequest:
    return TranslateRequest(texts, **{"source": "en", "target": "de", **values})


async def all_at_once(service: Service, *requests: TranslateRequest) -> list[list[TranslatedText]]:
    return list(await asyncio.gather(*(service.translate(item) for item in requests)))


def test_a_translation_does_not_depend_on_the_other_requests(tiny_run: TinyRun) -> None:
    """Texts of one to six sentences of different lengths, all at once and with several options, as one by one."""
    pairs = enumerate(zip(number_sentences()[:60], number_sentences()[50:], strict=False))
    lines = [f"{line} {other}"[: 20 + 3 * number % 30].strip() for number, (line, other) in pairs]
    texts = ["\n".join(lines[first : first + 1 + first % 6]) for first in range(0, 54, 2)]
    service = make_service({"numbers": tiny_run("translation")}, ["numbers=en:de"], cache=0, max_batch=7)
    try:
        requests = [request(text, alternatives=n % 3) for n, text in enumerate(texts)]
        together = run(all_at_once(service, *requests))
        worker = service.runs["numbers"].worker
        assert worker.waiting == 0 and worker.computed >= len(lines)
    finally:
        stop(service)
    translator = Translator.load(tiny_run("translation"), device="cpu")
    for text, (found,) in zip(texts, together, strict=True):
        assert found.text == "\n".join(translator.translate(line) for line in text.split("\n"))
        assert found.text not in found.alternatives
        assert len(set(found.alternatives)) == len(found.alternatives)


def test_ctranslate2_gathers_what_waits(tiny_run: TinyRun) -> None:
    pytest.importorskip("ctranslate2")
    lines = number_sentences()[:40]
    model = Translator.load(tiny_run("translation"), engine="ctranslate2", quantization="float32")
    service = Service({"numbers": model}, ServeSettings(languages=("numbers=en:de",), cache=0), identify)
    try:
        together = all_at_once(service, *(request(line) for line in lines))  # all wait before the model is loaded
        service.start()
        assert [found.text for (found,) in run(together)] == [translate_words(line) for line in lines]
        assert service.runs["numbers"].worker.batches < len(lines)
    finally:
        stop(service)


def test_alternatives_do_not_change_the_translation(service: Service) -> None:
    line = number_sentences()[7]
    (found,) = run(service.translate(request(line, alternatives=3)))
    assert found.text == translate_words(line)
    assert 1 <= len(found.alternatives) <= 3


def test_each_text_has_its_own_language(service: Service) -> None:
    english, german = number_sentences()[8], "eins zwei drei"
    found = run(service.translate(request(english, german, "🙂 …", "", source=None)))
    assert [item.text for item in found] == [translate_words(english), german, "🙂 …", ""]
    assert [item.source for item in found] == ["en", "de", "en", "en"]
    assert found[0].detected is not None and found[0].detected[0].confidence == 0.9


def test_a_source_language_that_is_not_identified(tiny_run: TinyRun) -> None:
    """Portuguese looks like Spanish to an identification of de, en and es; the run translates from Portuguese."""
    model = Model.load(tiny_run("translation"), device="cpu")
    settings = ServeSettings(languages=("numbers=pt:en",))
    languages = {"spanish": ("es", "en", "de"), "english": ("en", "es", "de")}

    def detect(texts: Sequence[str], top: int) -> list[list[Detected]]:
        return [[Detected(code, share) for code, share in zip(languages[text], shares, strict=True)] for text in texts]

    shares = (0.95, 0.03, 0.02)
    service = Service({"numbers": model}, settings, detect)
    plans = run(service._plan(request("spanish", "english", source=None, target="en")))
    assert [(plan.direction, plan.run is None) for plan in plans] == [(("pt", "en"), False), (("en", "en"), True)]
    shares = (0.5, 0.3, 0.2)  # too uncertain to copy the text
    (plan,) = run(service._plan(request("english", source=None, target="en")))
    assert plan.direction == ("pt", "en") and plan.run is not None


def test_an_unsure_language_is_a_problem_and_the_candidates_are_kept(tiny_run: TinyRun) -> None:
    model, found = Model.load(tiny_run("translation"), device="cpu"), [Detected("en", 0.5), Detected("fr", 0.4)]
    settings = ServeSettings(languages=("numbers=en:de", "numbers=fr:de"))
    service = Service({"numbers": model}, settings, lambda texts, top: [found[:top] for _ in texts])
    service.start()
    try:
        ((unsure,), (named,)) = run(all_at_once(service, request("one", source=None), request("one")))
    finally:
        stop(service)
    assert (unsure.problems, unsure.source, unsure.detected) == (["unsure-language"], "en", found)
    assert (named.problems, named.text) == ([], unsure.text)


def test_a_memory_translates_the_sentences_that_it_contains(tiny_run: TinyRun, tmp_path: Path) -> None:
    named, pairs = tmp_path / "named.tsv", tmp_path / "pairs.tsv"
    named.write_text("en\tde\nKeep out\tZutritt verboten\n", encoding="utf-8")
    pairs.write_text("Keep out\tZutritt verboten\n", encoding="utf-8")
    runs, text = {"numbers": tiny_run("translation")}, "Keep out! one two three."
    for path in (named, pairs):
        service = make_service(runs, ["numbers=en:de"], memory=(str(path),))
        try:
            ((found,),) = run(all_at_once(service, request(text, formality="more")))
        finally:
            stop(service)
        assert found.text.startswith("Zutritt verboten! ") and found.memory == 1
        assert [value is None for value in found.confidences] == [True, False]


@pytest.mark.parametrize("first", ["", "en\tfr\n"])
def test_a_memory_in_the_wrong_language_is_refused(first: str, tiny_run: TinyRun, tmp_path: Path) -> None:
    """Pairs without languages if there are several directions, and languages that no run translates."""
    (tmp_path / "a.tsv").write_text(f"{first}Keep out\tZutritt verboten\n", encoding="utf-8")
    settings = ServeSettings(languages=("numbers=en:de", "numbers=de:en"), memory=(str(tmp_path / "a.tsv"),))
    with pytest.raises(UserError) as error:
        Service({"numbers": Model.load(tiny_run("translation"), device="cpu")}, settings, identify)
    assert error.value.code == "unknown-pair"


def test_links_are_characters_of_the_whole_text(service: Service) -> None:
    text = "\n\n".join(number_sentences()[9:11])
    (found,) = run(service.translate(request(text, links=True)))
    assert found.links
    for a, b, c, d in found.links:
        assert 0 <= a <= b <= len(text) and 0 <= c <= d <= len(found.text)
        assert "\n" not in text[a:b] and "\n" not in found.text[c:d]


def test_links_beside_code_are_those_of_their_sentence(service: Service) -> None:
    text = "two {x} nine\n\nnine"
    (found,) = run(service.translate(request(text, links=True)))
    lines = {(text.count("\n", 0, a), found.text.count("\n", 0, c)) for a, _, c, _ in found.links}
    assert lines == {(0, 0), (2, 2)}
    assert (4, 7) in {(a, b) for a, b, c, d in found.links if found.text[c:d] == "{x}"}


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"target": "fr"}, "unknown-language"),
        ({"source": "de", "target": "en"}, "unknown-pair"),
        ({"run": "none"}, "unknown-run"),
        ({"run": "reviews"}, "wrong-task"),
        ({"glossary": {str(number): "x" * 99 for number in range(300)}}, "too-long"),
    ],
)
def test_what_no_run_can_do(service: Service, values: dict[str, Any], code: str) -> None:
    with pytest.raises(ServiceError) as error:
        run(service.translate(request("one", **values)))
    assert error.value.code == code


def test_a_translation_that_loops_is_searched_again_and_cut(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    async def looping(self: object, work: SearchStep, events: object) -> list[Any]:
        asked.append(dict(work.options))
        text = "ha ha ha ha ha ha" if not work.options else "ja " * 20
        return [{"translation": text, "looped": True, "parts": 1, "hypotheses": []} for _ in work.examples]

    monkeypatch.setattr(SegmentTranslator, "_compute", looping)
    (found,) = run(service.translate(request("one six one six")))
    assert found.text == "ja"
    assert [set(options) for options in asked] == [set(), {"no_repeat_ngram"}]
    assert cut_repetition("das ist ist ist gut") == "das ist gut"
    assert cut_repetition("天天天天气") == "天气"
    assert cut_repetition("no no, that is fine") == "no no, that is fine"


def test_any_work_on_a_model_happens_in_its_thread(service: Service) -> None:
    import threading

    name = run(service.call("reviews", lambda model: (threading.current_thread().name, model.task.name)))
    assert name[0] != threading.current_thread().name and name[1] == "classification"
    with pytest.raises(ZeroDivisionError):
        run(service.call("reviews", lambda model: 1 // 0))


def test_a_third_language_between_source_and_target() -> None:
    """The bundled translator has no direction from German to French."""
    before = SegmentTranslation("I am hungry.", (), ((0, 3, 0, 1), (4, 8, 2, 4), (9, 15, 5, 11), (15, 16, 11, 12)))
    after = SegmentTranslation("J'ai faim.", ("Faim.",), ((0, 1, 0, 2), (2, 4, 2, 4), (5, 11, 5, 9), (11, 12, 9, 10)))
    joined = join_steps(before, after)
    assert (joined.text, joined.alternatives) == (after.text, after.alternatives)
    assert joined.links == ((0, 3, 0, 2), (4, 8, 2, 4), (9, 15, 5, 9), (15, 16, 9, 10))

    async def translated() -> str:
        service = Service({"translator": Model.load("translator", device="cpu")}, ServeSettings())
        service.start()
        assert ("de", "fr", "translator") in service.languages().directions
        try:
            request = TranslateRequest(["<p>Ich habe <b>Hunger</b>.</p>"], "de", "fr", "html")
            return (await service.translate(request))[0].text
        finally:
            await service.stop()

    assert asyncio.run(translated()) == "<p>J'ai <b>faim</b>.</p>"


# ---- long sentences -------------------------------------------------------------------------------------------------


def test_a_sentence_that_is_too_long_is_cut_and_joined_with_its_blanks(service: Service) -> None:
    """The tiny run reads 16 tokens at a time; a piece is translated as if it were alone."""
    words = " ".join(["one", "six", "two", "nine"] * 20)
    text = words.replace("nine one", "nine  \f one")  # every place where it may be cut
    (found,) = run(service.translate(request(text, links=True)))
    task = cast(Translator, service.runs["numbers"].model).task
    spans = cut_source(task, {"src": text})
    assert len(spans) > 3 and all(len(task.src_tokenizer.encode(text[a:b])) < 16 for a, b in spans)
    alone = [item.text for item in run(service.translate(request(*(text[a:b] for a, b in spans))))]
    gaps = [text[first[1] : second[0]] for first, second in pairwise(spans)]
    assert found.text == "".join(part for pair in zip_longest(alone, gaps, fillvalue="") for part in pair)
    begins = [found.text.index(alone[0])]
    for before, gap in zip(alone, gaps, strict=False):
        begins.append(begins[-1] + len(before) + len(gap))
    for (start, end), begin, translation in zip(spans, begins, alone, strict=True):  # links stay within their piece
        links = [link for link in found.links if start <= link[0] < end]
        assert links and all(b <= end and begin <= c and d <= begin + len(translation) for _, b, c, d in links)


def test_cut_sentences_are_the_same_in_python_and_in_a_prediction(service: Service) -> None:
    text = " ".join(["one", "six", "two", "nine"] * 20)
    (found,) = run(service.translate(request(text)))
    model = service.runs["numbers"].model
    assert list(translate_texts(cast(Translator, model), [text], detect=False)) == [found.text]
    (prediction,) = run(service.predict("numbers", [text]))
    assert (prediction["translation"], prediction["looped"]) == (found.text, False)
    assert prediction["parts"] == len(prediction["hypotheses"]) > 3


def test_one_word_of_19_000_letters_is_many_inputs_of_bounded_cost(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted: list[tuple[list[str], list[int]]] = []

    def submit(key: object, function: object, inputs: Any, costs: list[int]) -> Future[list[Any]]:
        submitted.append(([example["src"] for example in inputs], costs))
        future: Future[list[Any]] = Future()
        hypothesis = {"score": 0.0, "confidence": 1.0, "finished": True, "looped": False}
        one = {"looped": False, "parts": 1, "hypotheses": [hypothesis]}
        future.set_result([{"translation": example["src"].upper(), **one} for example in inputs])
        return future

    monkeypatch.setattr(service.runs["numbers"].worker, "submit", submit)
    word = "onesixtwo" * 2111
    (found,) = run(service.translate(request(word)))
    assert found.text == word.upper()
    costs = [cost for _, costs in submitted for cost in costs]
    assert len(costs) > 10
    assert max(costs) <= 4 * 16 and min(costs) > 0  # a beam of 4 and 16 tokens


def test_the_cost_of_an_example_is_its_tokens_times_the_beam(service: Service) -> None:
    task, text = service.runs["numbers"].model.task, "one two three " * 10
    tokens = 1 + len(task.tokenizers["source"].encode(text))
    assert tokens > 30
    examples: list[Example] = [{"src": text}, {"src": text, "to": "de"}, {"src": text, "more": text}]

    def costs(width: int = 0, **options: object) -> list[int]:
        return run(count_tokens(task.configure(**options), examples, width))

    once = [tokens, tokens, 2 * tokens - 1]
    assert costs() == costs(width=1) == once, "greedy search; the language is no text"
    assert costs(search="beam", beam=5) == costs(width=5) == [5 * cost for cost in once]
    assert costs(search="sample", nbest=3) == [3 * cost for cost in once]
    assert costs(max_length=8 * tokens + 7) == once and costs(max_length=16 * tokens) == [2 * tokens] * 3
    assert costs(extra_length=15 * tokens)[:2] == [2 * tokens] * 2, "an eighth of the longest output"


def test_a_stopped_service_is_not_ready(tiny_run: TinyRun) -> None:
    service = make_service({"numbers": tiny_run("translation")}, ["numbers=en:de"])
    try:
        run(service.loaded())
        assert service.ready
    finally:
        stop(service)
    assert not service.ready


def test_clients_are_told_apart_by_address_and_key(tiny_app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    clients: list[bytes] = []
    worker = tiny_app.state.service.runs["numbers"].worker
    submit = worker.submit

    def recorded(*arguments: Any, **callbacks: Any) -> Any:
        clients.append(CLIENT.get())
        return submit(*arguments, **callbacks)

    monkeypatch.setattr(worker, "submit", recorded)
    key = hashlib.sha256(b"secret")
    monkeypatch.setattr(tiny_app.state.access, "keys", ApiKeys([key.digest()]))
    client = Client(tiny_app)
    for path, body in (("/translate", {"q": "one nine", "source": "en", "target": "de", "api_key": "secret"}),
                       ("/v1/predict/numbers", {"inputs": ["two"]}),
                       ("/v1/translate/stream", {"text": "six two nine", "target": "de"})):  # fmt: skip
        assert client.post(path, json=body, headers={"x-api-key": "secret"}).status_code == 200
    assert set(clients) == {key.digest()} and len(clients) >= 3
    clients.clear()
    monkeypatch.setattr(tiny_app.state.access, "keys", ApiKeys([]))
    assert client.post("/v1/translate", json={"text": "six six", "target": "de"}).status_code == 200
    assert set(clients) == {b"127.0.0.1"}


def test_each_sentence_has_a_confidence(service: Service) -> None:
    text = "one nine two. Привет. six."
    first, again = run(service.translate(request(text))), run(service.translate(request(text)))
    (found,) = first
    assert found.confidences[1] is None  # copied
    assert all(value is not None and 0 < value <= 1 for value in (found.confidences[0], found.confidences[2]))
    assert again == first  # from the cache
    model = service.runs["numbers"].model
    ((_, prediction),) = predict_texts(model, [text], "en", "de")  # type: ignore[arg-type]
    assert prediction["confidences"] == pytest.approx(found.confidences)


def test_problems_of_a_translation_are_reported(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    async def changed(self: object, work: SearchStep, events: object) -> list[Any]:
        return [{"translation": "eins 22", "looped": False, "parts": 1, "hypotheses": []} for _ in work.examples]

    monkeypatch.setattr(SegmentTranslator, "_compute", changed)
    found = run(service.translate(request("Привет, мир", "one 25", "one 22")))
    assert [item.problems for item in found] == [["unknown-script"], ["changed-numbers"], []]
    assert found[0].text == "Привет, мир"
    content = "Привет, мир. one 25.\n".encode()
    _, problems = run(service.translate_file("a.txt", content, "en", "de"))
    assert problems == ["changed-numbers", "unknown-script"]
    assert run(service.translate_file("a.txt", content, "de", "de")) == (content, [])
