"""Errors of collectives: a process of the group that is gone has a message in every other one."""

from dataclasses import replace

import pytest
import torch.distributed as dist
from tests.training.toy import cpu_world

from regard.errors import UserError
from regard.training.distributed import peer_errors

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
