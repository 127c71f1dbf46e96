"""Joining and leaving a job with any launcher, and the ranks of a node."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

import ranktable
from ranktable import dist
from ranktable.cluster.generate import make_table
from ranktable.runtime import MissingVariableError
from ranktable.runtime.job import current_job
from tests.rank_worker import group_of, tensor, told
from tests.ranks import free_port, run_code

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ranks import Pool

pytestmark = pytest.mark.torch

SLURM = {
    "SLURM_JOB_ID": "1",
    "SLURM_PROCID": "0",
    "SLURM_NTASKS": "1",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "1",
    "SLURM_STEP_NODELIST": "localhost",
    "SLURM_NODELIST": "localhost",
}
OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "0",
    "OMPI_COMM_WORLD_SIZE": "1",
    "OMPI_COMM_WORLD_LOCAL_RANK": "0",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "1",
}
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
calls = [files_of(all_reduce, torch.ones(count)) for count in (4, 4, 5, 5)]
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


def reduce_on_each_node(port: int, nodes: list[list[int]], table: str) -> object:
    """Join as some nodes and add up the ranks of each."""
    rank = dist.get_rank()
    leave()
    [node] = [each for each in nodes if rank in each]
    env = {"GROUP_RANK": str(nodes.index(node)), "LOCAL_RANK": str(node.index(rank))}
    env |= {"LOCAL_WORLD_SIZE": str(len(node)), "MASTER_PORT": str(port)}
    env |= {"RANK_TABLE_FILE": table} if table else {}
    join_again({**env, "TORCHELASTIC_RUN_ID": "1"})
    group = dist.local_group()
    data = tensor([rank])
    dist.all_reduce(data, group=group)
    local = [dist.get_local_rank(), dist.get_local_size()]
    of_group = [dist.get_rank(group), dist.get_world_size(group)]
    return [data.item(), local == of_group, *local, dist.local_group() is group]


@pytest.mark.parametrize("nodes", [[[0, 2], [1, 3]], [[0, 3], [1], [2]]])
def test_b13_each_node_has_a_group_of_its_ranks(
    quartet: Pool, nodes: list[list[int]]
) -> None:
    port = free_port()
    found = quartet.returned(reduce_on_each_node, port, nodes, "", is_last=True)

    of_rank = {rank: node for node in nodes for rank in node}
    assert found == [
        [sum(node), True, node.index(rank), len(node), True]
        for rank, node in sorted(of_rank.items())
    ]


def test_b13_nodes_come_from_the_rank_table(quartet: Pool, tmp_path: Path) -> None:
    nodes, port = [[0], [1, 2, 3]], free_port()
    table = tmp_path / "table.json"
    ranktable.dump(make_table([[5], [0, 1, 2]]), table)
    found = quartet.returned(reduce_on_each_node, port, nodes, str(table), is_last=True)

    assert found == [
        [0, True, 0, 1, True],
        [6, True, 0, 3, True],
        [6, True, 1, 3, True],
        [6, True, 2, 3, True],
    ]


def local_group_of_a_group() -> object:
    group = group_of(1, 2)
    if dist.get_rank() == 0:
        return None
    local = dist.local_group(group)
    data = tensor([dist.get_rank()])
    dist.all_reduce(data, group=local)
    return [data.item(), dist.local_group(group) is local]


def test_a_group_has_local_groups_too(trio: Pool) -> None:
    assert trio.returned(local_group_of_a_group) == [None, [3, True], [3, True]]


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


def reduce_by_the_manual() -> object:
    rank = dist.get_rank()
    data = tensor([rank + 1.0, 2.0])
    dist.all_reduce(data, "mean")
    counted = tensor([2**40 + rank])
    dist.all_reduce(counted)
    return [
        data.tolist(),
        counted.item(),
        dist.shift(tensor([rank])).item(),
        told(dist.send, data, 1 - rank)[0],
        dist.all_gather_object(rank),
    ]


def test_chips_as_in_their_manual_do_the_same(manual: Pool) -> None:
    total, refused = 2**41 + 1, "UnsupportedError"
    assert manual.returned(reduce_by_the_manual) == [
        [[1.5, 2], total, 1, refused, [0, 1]],
        [[1.5, 2], total, 0, refused, [0, 1]],
    ]


@pytest.mark.parametrize("world_size", [1, 2])
def test_joining_and_an_all_reduce_pass_few_files(world_size: int) -> None:
    for done in run_code(JOURNEY, world_size):
        both, *calls = json.loads(done.out)

        # Two ranks compare what they do, which one need not.
        assert both <= (18 if world_size == 1 else 19), (both, calls)
        first, second, other, again = map(len, calls)
        assert max(first, other) <= 8, calls
        assert max(second, again) <= 4, calls
