"""Errors of collectives: a process of the group that is gone has a message in every other one."""

import os
from dataclasses import replace

import pytest
import torch.distributed as dist
from tests.training.ranks import run_ranks
from tests.training.toy import cpu_world
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from regard.errors import UserError
from regard.runtime import RuntimeSettings, close_world, limit_waiting, open_world
from regard.training.distributed import all_reduce_max, peer_errors

GLOO = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:544] Connection closed by peer [127.0.0.1]:1718"


@pytest.mark.parametrize("error", [RuntimeError(GLOO), dist.DistNetworkError("timeout"), dist.DistBackendError("x")])
def test_a_lost_process_is_an_error_of_the_others(error: RuntimeError) -> None:
    world = replace(cpu_world(), rank=1, size=2)
    with pytest.raises(UserError) as raised, peer_errors(world):
        raise error
    assert (raised.value.code, raised.value.where) == ("lost-process", "rank 1")
    with pytest.raises(type(error)), peer_errors(cpu_world()):
        raise error


def test_other_errors_pass() -> None:
    with pytest.raises(RuntimeError), peer_errors(replace(cpu_world(), size=2)):
        raise RuntimeError("shapes differ")
    with peer_errors(replace(cpu_world(), size=2)):
        pass


def wait_for_a_hung_rank() -> None:
    """Rank 1 hangs until rank 0 has noticed it."""
    world = open_world(RuntimeSettings(device="cpu"))
    store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    if world.rank == 1:
        store.wait(["noticed"])
        os._exit(0)
    limit_waiting(minutes=1 / 60)
    with pytest.raises(UserError) as raised, peer_errors(world):
        all_reduce_max(1, world)
    assert raised.value.code == "lost-process"
    store.set("noticed", "1")
    os._exit(0)


@pytest.mark.skipif(not dist.is_gloo_available(), reason="needs gloo")
def test_a_hung_rank_ends_the_others_after_the_timeout() -> None:
    run_ranks(2, wait_for_a_hung_rank)


def join_again(times: int) -> None:
    """Join the processes several times, as if torchrun's agents had counted different numbers of restarts."""
    os.environ["TORCHELASTIC_RESTART_COUNT"] = os.environ["RANK"]
    for number in range(times):
        world = open_world(RuntimeSettings(device="cpu"))
        assert all_reduce_max(number * world.rank, world) == 2 * number
        close_world()


@pytest.mark.skipif(not dist.is_gloo_available(), reason="needs gloo")
def test_restarted_processes_find_each_other_in_a_store_that_is_not_new() -> None:
    run_ranks(3, join_again, 3)
