"""Seeds, devices, precision, and a process group that is joined again after a restart."""

import random
from collections.abc import Iterator
from threading import Thread
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.distributed import HashStore  # type: ignore[attr-defined]
from torch.distributed.distributed_c10d import Store

from regard import runtime
from regard.config import build
from regard.errors import UserError
from regard.kernels import kernels_available
from regard.runtime import RuntimeSettings, World, autocast, close_world, open_world, seed_everything
from regard.seeding import derive_seed


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)


def test_one_process_is_a_world() -> None:
    world = open_world(RuntimeSettings(device="cpu", seed=5))
    assert world == World(0, 1, 0, torch.device("cpu"), "fp32", 5)
    assert world.is_main
    close_world()


def test_a_process_alone_ignores_the_variables_of_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.setenv(name, "x")
    assert open_world(RuntimeSettings(device="cpu"), alone=True) == World(0, 1, 0, torch.device("cpu"), "fp32", 1)


@pytest.mark.parametrize(
    ("variables", "where"),
    [
        ({}, "MASTER_ADDR, MASTER_PORT"),
        ({"MASTER_ADDR": "localhost"}, "MASTER_PORT"),
        ({"MASTER_ADDR": "localhost", "MASTER_PORT": "1", "RANK": "2"}, "RANK"),
        ({"MASTER_ADDR": "localhost", "MASTER_PORT": "1", "RANK": "-1"}, "RANK"),
    ],
)
def test_incomplete_variables_of_torchrun_are_an_error(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], where: str
) -> None:
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"WORLD_SIZE": "2", **variables}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UserError) as error:
        open_world(RuntimeSettings(device="cpu"))
    assert (error.value.code, error.value.where) == ("invalid-environment", where)


def test_open_world_sets_all_seeds() -> None:
    open_world(RuntimeSettings(device="cpu", seed=5))
    first = torch.rand(3), np.random.rand(), random.random()
    open_world(RuntimeSettings(device="cpu", seed=5))
    second = torch.rand(3), np.random.rand(), random.random()
    assert torch.equal(first[0], second[0])
    assert first[1:] == second[1:]
    open_world(RuntimeSettings(device="cpu", seed=6))
    assert not torch.equal(first[0], torch.rand(3))


def test_variables_of_torchrun_count_unless_the_process_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "first")
    assert open_world(RuntimeSettings(device="cpu"), alone=True).rank == 0
    with pytest.raises(UserError) as error:
        open_world(RuntimeSettings(device="cpu"))
    assert (error.value.code, error.value.where) == ("invalid-environment", "RANK")


def test_threads_are_set_only_if_they_are_given() -> None:
    before = torch.get_num_threads()
    try:
        open_world(RuntimeSettings(device="cpu", threads=before + 1))
        assert torch.get_num_threads() == before + 1
        open_world(RuntimeSettings(device="cpu", threads=0))
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


def test_seed_everything_returns_the_derived_seed() -> None:
    assert seed_everything(1, "a") == derive_seed(1, "a")


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "tpu", "cpu:0"])
def test_unknown_device_is_refused(name: str) -> None:
    with pytest.raises(UserError) as error:
        build(RuntimeSettings, {"device": name}, "recipe.toml")
    assert (error.value.code, error.value.where) == ("invalid-setting", "device")


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
@pytest.mark.parametrize(("alone", "where", "remedy"), [(False, "runtime.device", "="), (True, "device", "--device ")])
def test_missing_gpu_is_an_error(monkeypatch: pytest.MonkeyPatch, alone: bool, where: str, remedy: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError) as error:
        open_world(RuntimeSettings(device="cuda"), alone=alone)
    assert (error.value.code, error.value.where) == ("no-device", where)
    assert f"{remedy}cpu" in error.value.remedy, "as the user wrote it: a setting or an option"


def test_device_depends_on_the_number_of_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert runtime._choose_device("auto", size=1, local_rank=0) == torch.device("cuda", 0)
    assert runtime._choose_device("cuda", size=2, local_rank=1) == torch.device("cuda", 1)
    assert runtime._choose_device("cuda:1", size=1, local_rank=0) == torch.device("cuda", 1)
    for name, size, code in (("cuda:2", 1, "no-device"), ("cuda:1", 4, "invalid-setting")):
        with pytest.raises(UserError) as error:
            runtime._choose_device(name, size, local_rank=0)
        assert (error.value.code, error.value.where) == (code, "runtime.device")


def test_cpu_without_bf16_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "_BF16_PROBE", "import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    with pytest.raises(UserError) as error:
        open_world(RuntimeSettings(device="cpu", precision="bf16"))
    assert (error.value.code, error.value.where) == ("unsupported", "runtime.precision")
    monkeypatch.setattr(runtime, "_BF16_PROBE", "")
    assert open_world(RuntimeSettings(device="cpu", precision="bf16")).precision == "bf16"


def test_autocast_follows_the_precision() -> None:
    layer, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
    cpu = torch.device("cpu")
    with autocast(World(0, 1, 0, cpu, "fp32")):
        assert layer(x).dtype == torch.float32
    with autocast(World(0, 1, 0, cpu, "bf16")):
        assert torch.is_autocast_enabled("cpu")
        assert torch.get_autocast_dtype("cpu") == torch.bfloat16


def test_invalid_environment_variable_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "many")
    with pytest.raises(UserError) as error:
        open_world(RuntimeSettings(device="cpu"))
    assert (error.value.code, error.value.where) == ("invalid-environment", "WORLD_SIZE")


def test_restarted_group_has_a_store_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    agents_store = HashStore()
    groups: list[dict[str, Any]] = []

    def meet(*_: object, **__: object) -> Iterator[tuple[Store, int, int]]:
        yield agents_store, 0, 2

    monkeypatch.setattr(runtime, "rendezvous", meet)
    monkeypatch.setattr(dist, "init_process_group", lambda **group: groups.append(group))
    launch = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
    for name, value in {**launch, "TORCHELASTIC_RUN_ID": "x"}.items():
        monkeypatch.setenv(name, value)
    for attempt in ("0", "1"):
        monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", attempt)
        other = Thread(target=runtime.agree_on_attempt, args=(agents_store, 1, 2), daemon=True)
        other.start()
        assert open_world(RuntimeSettings(device="cpu")).size == 2
        other.join()
    first, second = (group["store"] for group in groups)
    first.set("address of rank 1", "gone")
    assert first.check(["address of rank 1"])
    assert not second.check(["address of rank 1"])
    assert groups[0]["backend"] == "gloo"


def test_kernels_need_triton_and_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    for triton, compiler in ((True, "/usr/bin/cc"), (True, None), (False, "/usr/bin/cc")):
        monkeypatch.setattr("regard.kernels.find_spec", lambda name, installed=triton: object() if installed else None)
        monkeypatch.setattr("regard.kernels.shutil.which", lambda name, path=compiler: path)
        assert kernels_available.__wrapped__() == (triton and compiler is not None)


def test_cpu_compiles_only_on_request() -> None:
    world = open_world(RuntimeSettings(device="cpu"))
    assert not world.compile and not world.capture
    assert open_world(RuntimeSettings(device="cpu", compile="on")).compile


@pytest.mark.parametrize(("threads", "cores", "used"), [(3, 2, 3), (64, 2, 64), (1024, 2, 64), (1024, 96, 96)])
def test_many_threads_need_as_many_cores(threads: int, cores: int, used: int, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers: list[int] = []
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    monkeypatch.setattr(torch, "set_num_threads", numbers.append)
    open_world(RuntimeSettings(device="cpu", threads=threads))
    assert numbers == [used]
