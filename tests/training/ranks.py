"""Several ranks of one test, as processes that are forked from a server in which torch is imported already."""

import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from itertools import count

from torch.distributed import TCPStore  # type: ignore[attr-defined]

from regard.runtime import close_world

WAIT = 120
"""Seconds after which a test fails instead of waiting for its processes."""
_groups = count()


def run_ranks(size: int, function: Callable[..., None], *arguments: object, local_size: int | None = None) -> None:
    """Call `function(*arguments)` in `size` processes with the variables of torchrun; each must succeed.

    The parent holds the store, on a port that the system chose, so no two tests can meet.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.training.toy"])
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    shared = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(local_size or size),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RUN_ID": f"test-{next(_groups)}",
    }
    processes = []
    for rank in range(size):
        variables = shared | {"RANK": str(rank), "LOCAL_RANK": str(rank % (local_size or size))}
        processes.append(context.Process(target=_rank, args=(variables, function, *arguments), daemon=True))
        processes[-1].start()
    try:
        for process in processes:
            process.join(WAIT)
        assert [process.exitcode for process in processes] == [0] * size
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                process.kill()
            process.join()


def _rank(variables: dict[str, str], function: Callable[..., None], *arguments: object) -> None:
    os.environ.update(variables)
    status = 1
    try:
        function(*arguments)
        close_world()
        status = 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # gloo's threads may still free a tensor: see src/regard/__main__.py
