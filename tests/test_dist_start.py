"""Joining and leaving a job with any launcher, and the ranks of a node."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from ranktable import dist
from ranktable.runtime import MissingVariableError
from ranktable.runtime.job import current_job
from tests.environments import variables
from tests.rank_worker import group_of, tensor, told
from tests.ranks import free_port, run_code

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ranks import Pool

pytestmark = pytest.mark.torch

SLURM = variables(
    "SLURM_JOB_ID=1 SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_LOCALID=0 SLURM_NODEID=0 "
    "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 SLURM_STEP_NODELIST=localhost "
    "SLURM_NODELIST=localhost"
)
OPEN_MPI = variables(
    "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_LOCAL_RANK=0 "
    "OMPI_COMM_WORLD_LOCAL_SIZE=1"
)
TORCHRUN = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}


JOURNEY = """
from ranktable import dist as ours
ROOT = os.sep + "ranktable" + os.sep

def files_of(function, *given, **named):
    files, importing = [], 0
    def profile(frame, event, _):
        nonlocal importing
        code = frame.f_code
        file = code.co_filename.rpartition(ROOT)[2]
        if file == code.co_filename or "tests" in file:
            return
        if code.co_name == "<module>":
            importing += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not importing and not code.co_name.startswith("<"):
            files.append(file)
    sys.setprofile(profile)
    try:
        function(*given, **named)
    finally:
        sys.setprofile(None)
    return sorted(set(files))

joining = files_of(lambda: ours.init_dist(backend="gloo"))
all_reduce = ours.all_reduce
calls = [files_of(all_reduce, torch.ones(4)) for _ in range(2)]
say(len({*joining, *calls[0]}), *calls)
"""
"""Says how many files of the package joining and a first all_reduce pass, and which
an all_reduce does."""


def leave() -> None:
    job = current_job()
    assert job is not None
    job.close()


def join_again(env: dict[str, str]) -> None:
    os.environ.update(env)
    dist.init_dist("pytorch", "gloo", timeout=20)


def leave_and_join(port: int) -> object:
    """Leave the job, work alone, and join another one of the same ranks."""
    group, rank = group_of(0, 1), int(os.environ["RANK"])
    leave()
    data = tensor([float(rank)])
    dist.all_reduce(data)
    alone = [data.item(), dist.get_world_size(), dist.is_distributed()]
    outdated = told(dist.all_reduce, data, group=group)[0]
    join_again({"MASTER_PORT": str(port)})
    dist.all_reduce(data)
    return [alone, outdated, data.item(), dist.get_world_size()]


def test_a_job_can_be_left_and_joined_again(pair: Pool) -> None:
    if pair.backend != "gloo":
        pytest.skip("the second job is one of gloo")
    found = pair.returned(leave_and_join, free_port(), is_last=True)

    refused = "NotMemberError"
    assert found == [
        [[0, 1, False], refused, 1, 2],
        [[1, 1, False], refused, 1, 2],
    ]


def join_as(launcher: str, port: int) -> object:
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    job = dist.init_dist(launcher, "gloo", timeout=20)
    found = [dist.get_dist_info(), dist.get_backend(), str(job.device)]
    data = tensor([3.0])
    dist.all_reduce(data, "mean")
    job.close()
    return [*found, data.item(), dist.get_backend()]


@pytest.mark.parametrize(
    ("launcher", "env"),
    [
        ("pytorch", TORCHRUN),
        ("slurm", SLURM),
        ("mpi", OPEN_MPI),
        ("open mpi", OPEN_MPI),
    ],
)
def test_b10_any_launcher_joins_on_a_cpu(
    alone: Pool, launcher: str, env: dict[str, str]
) -> None:
    [found] = alone.returned(join_as, launcher, free_port(), env=env)

    assert found == [(0, 1), "gloo", "cpu", 3, None]


@pytest.mark.parametrize(
    ("launcher", "env", "found"),
    [
        ("slurm", TORCHRUN, "RANK"),
        ("mpi", SLURM, "slurm"),
        ("pytorch", OPEN_MPI, "OMPI_COMM_WORLD_RANK"),
        ("pytorch", {}, "no launcher says which rank this process is"),
    ],
)
def test_another_launcher_than_the_one_named_is_refused(
    monkeypatch: pytest.MonkeyPatch, launcher: str, env: dict[str, str], found: str
) -> None:
    for name in {*TORCHRUN, *SLURM, *OPEN_MPI, "LOCAL_WORLD_SIZE"}:
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(MissingVariableError, match=f"(?s){launcher}.*{found}"):
        dist.init_dist(launcher, "gloo")


def test_a_launcher_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(ValueError, match=r"no launcher 'qsub'; there are .*open mpi"):
        dist.init_dist("qsub", "gloo")


@pytest.mark.parametrize(
    "arguments",
    [
        {"port": "x"},
        {"port": 0},
        {"port": 65536},
        {"master_addr": 3},
        {"master_addr": ""},
        {"timeout": "x"},
    ],
    ids=str,
)
def test_impossible_rendezvous_address_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any]
) -> None:
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)

    with pytest.raises(ValueError, match=r"is .*, not "):
        dist.init_dist("pytorch", "gloo", **arguments)


def test_b11_node_list_is_not_run_by_a_shell(alone: Pool, tmp_path: Path) -> None:
    made = tmp_path / "made"
    lines = {name: f"a;touch {made}" for name in SLURM if "NODELIST" in name}
    [_] = alone.call(join_as, "slurm", free_port(), env={**SLURM, **lines})

    assert not made.exists()


@pytest.mark.parametrize("world_size", [1, 2])
def test_joining_and_an_all_reduce_pass_few_files(world_size: int) -> None:
    for done in run_code(JOURNEY, world_size):
        both, *calls = json.loads(done.out)

        assert both <= 19, (both, calls)
        first, second = map(len, calls)
        assert first <= 6, calls
        assert second <= 4, calls
