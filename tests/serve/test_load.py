"""The load of benchmarks/serving.py, for a moment, on a server in this process."""

import random
from argparse import Namespace

from benchmarks.serving import measure_address, sentence
from tests.conftest import TinyRun
from tests.serve.make import make_app, running


def test_many_clients_get_answers_and_no_errors(tiny_run: TinyRun) -> None:
    options = Namespace(source="en", target="de", clients=6, seconds=0.2)
    app = make_app({"numbers": tiny_run("translation")}, ["numbers=en:de"], cache=0)
    with running(app) as address:
        one, many = measure_address("regard", address, options)
    assert (one.clients, many.clients) == (1, 6)
    assert one.errors == many.errors == 0
    assert len(one.durations) >= 1 and len(many.durations) >= 6
    assert 0 < many.quantile(0.5) <= many.quantile(0.99)
    assert len(many.row()) == 8


def test_the_sentences_of_the_load_differ() -> None:
    rng = random.Random(1)
    assert len({sentence(rng) for _ in range(200)}) > 150
