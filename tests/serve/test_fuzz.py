"""Some hundred malformed requests; `python -m tests.serve.fuzz 10000` sends more."""

import asyncio

from fastapi import FastAPI
from tests.serve.fuzz import fuzz


def test_malformed_requests_are_answered_without_an_error_of_the_server(tiny_app: FastAPI) -> None:
    result = asyncio.run(fuzz(tiny_app, 300))
    assert not result.failures
    statuses = {status for counts in result.statuses.values() for status in counts}
    assert {200, 400, 404, 405, 422} <= statuses
