"""Hugging Face's inference API, by its own client where it has a method: every task of regard."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import requests
from tests.conftest import TinyRun
from tests.serve.make import Client, make_app, running, stop
from tokenizers import AddedToken

from regard.run.importing import import_model

hub = pytest.importorskip("huggingface_hub", reason="needs huggingface_hub")

TASKS = ("translation", "classification", "regression", "tagging", "answering", "pretraining", "language", "choice")
OTHERS = ("parsing", "dependencies")
Call = Callable[[str], Any]


@pytest.fixture(scope="module")
def address(tiny_run: TinyRun) -> Iterator[str]:
    """A real server of one run of each task."""
    app = make_app({task: tiny_run(task) for task in (*TASKS, *OTHERS)}, ["translation=en:de"])
    with running(app) as address:
        yield address
    stop(app.state.service)


@pytest.fixture(scope="module")
def client(address: str) -> Call:
    """client("tagging"): the client of a run."""
    return lambda run: hub.InferenceClient(model=f"{address}/models/{run}")


def test_translation(client: Call) -> None:
    assert client("translation").translation("one two three").translation_text == "eins zwei drei"
    answer = client("translation").translation("one two three", src_lang="en_XX", tgt_lang="de_DE")
    assert answer.translation_text == "eins zwei drei"


def test_classes_of_texts_and_scores_of_pairs(client: Call, address: str) -> None:
    labels = client("classification").text_classification("a lovely film")
    assert [item.label for item in labels] == ["good", "bad"] and sum(item.score for item in labels) == pytest.approx(1)
    assert len(client("classification").text_classification("a dull film", top_k=1)) == 1
    similar = client("regression").sentence_similarity("a film", others := ["the film", "the book"])
    for other, value in zip(others, similar, strict=True):
        pair = {"text": "a film", "text_pair": other}
        ((score,),) = requests.post(f"{address}/models/regression", json={"inputs": pair}, timeout=60).json()
        assert value == pytest.approx(score["score"])


def test_entities_have_their_places(client: Call) -> None:
    text = "Ada reads 7 book in Rome ."
    found = client("tagging").token_classification(text)
    assert [(item.entity_group, item.word) for item in found] == [("PER", "Ada"), ("LOC", "Rome")]
    assert all(text[item.start : item.end] == item.word and 0 < item.score <= 1 for item in found)
    tags = client("tagging").token_classification(text, aggregation_strategy="none")
    assert [item.entity for item in tags] == ["B-PER", "B-LOC"]


def test_answers(client: Call) -> None:
    question, context = "Who lives there ?", "Ada lives in Rome ."
    found = client("answering").question_answering(question=question, context=context)
    assert context[found.start : found.end] == found.answer
    assert len(client("answering").question_answering(question=question, context=context, top_k=3)) == 3


def test_masks(client: Call) -> None:
    found = client("pretraining").fill_mask("a [MASK] film", top_k=4)
    assert len(found) == 4 and found[0].score > found[3].score
    assert found[0].sequence == f"a {found[0].token_str} film"
    chosen = client("pretraining").fill_mask("a [MASK] film", targets=["dull", "fine"])
    assert {item.token_str for item in chosen} == {"dull", "fine"}
    assert [len(item) for item in client("pretraining").fill_mask("a [MASK] [MASK]", top_k=2)] == [2, 2]


def test_vectors(client: Call) -> None:
    one = client("pretraining").feature_extraction("a film")
    several = client("classification/pipeline/feature-extraction").feature_extraction(["a film", "b"], normalize=True)
    assert one.shape == (1, 32) and several.shape == (2, 32)
    assert np.linalg.norm(several, axis=1) == pytest.approx([1, 1], abs=1e-5)
    assert client("pretraining").sentence_similarity("a film", ["a film", "x"])[0] == pytest.approx(1, abs=1e-5)


def test_text_generation(client: Call) -> None:
    prompt = "the cat"
    whole = client("language").text_generation(prompt, return_full_text=True)
    assert whole == prompt + client("language").text_generation(prompt)
    samples = [client("language").text_generation(prompt, do_sample=True, seed=3, top_k=5) for _ in range(2)]
    assert samples[0] == samples[1]
    details = client("language").text_generation(prompt, max_new_tokens=1, details=True).details
    assert details.finish_reason == "length"
    assert "the" not in client("language").text_generation(prompt, stop=["the"])


def test_choices_and_trees(client: Call, address: str) -> None:
    found = client("choice").zero_shot_classification("the film is the", ["book", "film"])
    assert {item.label for item in found} == {"book", "film"} and found[0].score > found[1].score
    (tree,) = requests.post(f"{address}/models/parsing", json={"inputs": "the cat slept ."}, timeout=60).json()
    assert tree["tree"].startswith("(ROOT")
    body = {"inputs": ["Ada reads the book in Rome ."]}
    (parse,) = requests.post(f"{address}/models/dependencies", json=body, timeout=60).json()
    assert len(parse["heads"]) == 7


@pytest.mark.parametrize("run", [*TASKS, *OTHERS])
def test_several_inputs_give_a_list_and_blank_ones_an_answer(run: str, address: str) -> None:
    blank: dict[str, Any] = {
        "answering": {"question": "", "context": " "},
        "choice": {"text": "", "choices": ["", " "]},
        "pretraining": "[MASK]",
    }
    inputs = [blank.get(run, " ")] * 3
    answer = requests.post(f"{address}/models/{run}", json={"inputs": inputs}, timeout=60)
    assert answer.status_code == 200 and len(answer.json()) == 3


@pytest.mark.parametrize(
    ("run", "body"),
    [
        ("choice", {"inputs": "a", "parameters": {"candidate_labels": ["b"] * 129}}),
        ("choice", {"inputs": "a", "parameters": {"candidate_labels": ["b" * 20_000]}}),
        ("choice", {"inputs": [{"text": "a", "choices": ["b"] * 65}] * 2}),
        ("regression", {"inputs": {"source_sentence": "a", "sentences": ["b"] * 128}}),
        ("classification", {"inputs": {"source_sentence": "a", "sentences": ["b"] * 128}}),
        ("classification", {"inputs": ["a"] * 129}),
    ],
)
def test_too_much_is_413(address: str, run: str, body: Any) -> None:
    answer = requests.post(f"{address}/models/{run}", json=body, timeout=60)
    assert answer.status_code == 413 and isinstance(answer.json()["error"], str)


@pytest.mark.parametrize(
    ("run", "body"),
    [
        ("translation", {"inputs": [{"src": 3}]}),
        ("translation", {"inputs": "one", "parameters": {"tgt_lang": 3}}),
        ("translation", {"inputs": "one", "parameters": {"src_lang": "de", "tgt_lang": "en"}}),
        ("classification", {"inputs": 3}),
        ("classification", {"inputs": []}),
        ("classification", {"inputs": {"text_pair": "x"}}),
        ("classification", {"inputs": "a", "parameters": {"top_k": 0}}),
        ("classification", {"inputs": "a", "parameters": ["x"]}),
        ("classification", {"input": "a"}),
        ("classification", []),
        ("answering", {"inputs": "no context"}),
        ("answering", {"inputs": {"question": 1, "context": []}}),
        ("choice", {"inputs": "a", "parameters": {"candidate_labels": 3}}),
        ("choice", {"inputs": {"text": "a", "choices": [1, None]}}),
        ("tagging", {"inputs": {"words": 3}}),
        ("language", {"inputs": {"text": 3}}),
        ("language", {"inputs": "a", "parameters": {"temperature": "hot"}}),
        ("language", {"inputs": "a", "parameters": {"max_new_tokens": 10**9}}),
        ("language", {"inputs": "a", "stream": True}),
        ("parsing/pipeline/feature-extraction", {"inputs": "a"}),
        ("classification/pipeline/sentence-similarity", {"inputs": "a"}),
        ("classification/pipeline/feature-extraction", {"inputs": "a", "pool": "x"}),
    ],
)
def test_a_wrong_request_is_400_with_an_error(run: str, body: Any, address: str) -> None:
    answer = requests.post(f"{address}/models/{run}", json=body, timeout=60)
    assert answer.status_code == 400 and list(answer.json()) == ["error"], answer.text


def test_an_unknown_run_is_404(address: str) -> None:
    assert requests.post(f"{address}/models/none", json={"inputs": "a"}, timeout=60).status_code == 404


@pytest.mark.filterwarnings("ignore")  # of transformers
@pytest.mark.parametrize(
    ("task", "pipeline", "value"),
    [
        ("pretraining", "fill-mask", "the <mask> sat on the mat"),
        ("classification", "text-classification", "the cat sat"),
    ],
)
def test_the_answer_is_that_of_transformers(tmp_path: Path, task: str, pipeline: str, value: Any) -> None:
    """The same random RoBERTa in a pipeline of transformers and as an imported run."""
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    from tests.exchange.test_exchange_encoders import saved

    theirs = saved("Roberta", task, tmp_path / "theirs")
    tokenizer = transformers.RobertaTokenizer.from_pretrained(
        tmp_path / "theirs", mask_token=AddedToken("<mask>", lstrip=True)
    )
    expected = transformers.pipeline(pipeline, model=theirs, tokenizer=tokenizer, top_k=3)(value)
    run = import_model(tmp_path / "theirs", tmp_path / "run").run.folder
    app = make_app({"run": run})
    answer = Client(app).post("/models/run", json={"inputs": value, "parameters": {"top_k": 3}}).json()
    stop(app.state.service)
    found, other = (items[0] if pipeline == "text-classification" else items for items in (answer, expected))
    assert found == [{**item, "score": pytest.approx(item["score"], abs=1e-5)} for item in other]
