"""The service without HTTP: many requests at once, languages, alternatives, loops, and texts that stay as they are."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import pytest
from fastapi import FastAPI
from tests.conftest import TinyRun
from tests.serve.make import identify, make_service, stop
from tests.tiny import number_sentences, translate_words

from regard.documents.segment import SegmentTranslation, join_steps
from regard.run.identification import Detected
from regard.run.model import Model, Translator
from regard.run.translating import SearchStep, cut_repetition
from regard.serve.errors import ServiceError
from regard.serve.segments import SegmentTranslator
from regard.serve.service import Service, TranslatedText, TranslateRequest
from regard.serve.settings import ServeSettings

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
        return [[Detected(code, 0.3) for code in languages[text]] for text in texts]

    service = Service({"numbers": model}, settings, detect)
    plans = run(service._plan(request("spanish", "english", source=None, target="en")))
    assert [(plan.direction, plan.run is None) for plan in plans] == [(("pt", "en"), False), (("en", "en"), True)]


def test_links_are_characters_of_the_whole_text(service: Service) -> None:
    text = "\n\n".join(number_sentences()[9:11])
    (found,) = run(service.translate(request(text, links=True)))
    assert found.links
    for a, b, c, d in found.links:
        assert 0 <= a <= b <= len(text) and 0 <= c <= d <= len(found.text)
        assert "\n" not in text[a:b] and "\n" not in found.text[c:d]


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
