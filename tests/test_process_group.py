"""Process groups in real processes: gloo on the loopback interface."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ranktable
from ranktable.cluster.generate import make_table

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.torch

EXAMPLE = Path(__file__).parent.parent / "examples" / "all_reduce.py"
TORCHRUN = str(Path(sys.executable).parent / "torchrun")
TIMEOUT_S = 120
ORDER = [3, 1, 0, 2, 7, 6, 5, 4]
HEAD = """
import json, os, sys
import torch
import torch.distributed as dist
from ranktable.runtime import *

def say(*values):
    sys.stdout.write(json.dumps(values) + "\\n")
"""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def environment(**more: str) -> dict[str, str]:
    drop = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "RANK_TABLE_FILE", "CHIP_MAP")
    clean = {key: value for key, value in os.environ.items() if key not in drop}
    return {**clean, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **more}


def write_table(folder: Path, chips: Sequence[Sequence[int]]) -> str:
    path = folder / "table.json"
    ranktable.dump(make_table(chips), path)
    return str(path)


def torchrun(
    script: Path, nproc: int, *options: str, **env: str
) -> subprocess.CompletedProcess[str]:
    command = [TORCHRUN, "--nproc-per-node", str(nproc)]
    if not options:
        command.append("--standalone")
    return subprocess.run(  # noqa: S603 - torch's own launcher
        [*command, *options, script],
        env=environment(**env),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def start(
    code: str, rank: int, world_size: int, port: int, **env: str
) -> subprocess.Popen[str]:
    """Start one process by hand, without a launcher."""
    by_hand = {
        "RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    return subprocess.Popen(  # noqa: S603 - this interpreter
        [sys.executable, "-c", HEAD + code],
        env=environment(**by_hand, **env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(processes: Sequence[subprocess.Popen[str]]) -> list[tuple[int, str, str]]:
    """Wait for all of them, and kill what is left when time is up."""
    end = time.monotonic() + TIMEOUT_S
    done = []
    for process in processes:
        try:
            out, err = process.communicate(timeout=max(1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            out, err = process.communicate()
        done.append((process.returncode, out, err))
    return done


def run_all(
    code: str, world_size: int, *, env: dict[str, str] | None = None
) -> list[tuple[int, str, str]]:
    port = free_port()
    return finish(
        [
            start(code, rank, world_size, port, **(env or {}))
            for rank in range(world_size)
        ]
    )


@pytest.mark.parametrize("world_size", [1, 2, 4, 8])
def test_example_adds_up_under_torchrun(world_size: int, tmp_path: Path) -> None:
    chips = ORDER[:world_size]
    done = torchrun(EXAMPLE, world_size, RANK_TABLE_FILE=write_table(tmp_path, [chips]))
    total = ", ".join([f"{world_size}."] * 4)

    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        f"rank {rank}: chip {chip}: [{total}]" for rank, chip in enumerate(chips)
    ]


def test_two_nodes_are_two_agents(tmp_path: Path) -> None:
    table = write_table(tmp_path, [[3, 1], [0, 2]])
    port = str(free_port())
    options = ["--nnodes", "2", "--master-addr", "127.0.0.1", "--master-port", port]
    command = [TORCHRUN, "--nproc-per-node", "2"]
    agents = [
        subprocess.Popen(  # noqa: S603 - torch's own launcher
            [*command, *options, "--node-rank", str(node), EXAMPLE],
            env=environment(RANK_TABLE_FILE=table),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for node in range(2)
    ]
    done = finish(agents)

    assert [status for status, _, _ in done] == [0, 0], done
    assert sorted(line for _, out, _ in done for line in out.splitlines()) == [
        f"rank {rank}: chip {chip}: [4., 4., 4., 4.]"
        for rank, chip in enumerate([3, 1, 0, 2])
    ]


def test_script_that_forgets_the_end_exits_cleanly(tmp_path: Path) -> None:
    table = write_table(tmp_path, [[0, 1]])
    code = """
job = init_process_group("gloo", timeout_s=60)
tensor = torch.ones(1)
dist.all_reduce(tensor)
say(job.rank, job.chip_map, job.device_id, str(job.device), job.backend, tensor.item())
"""
    done = run_all(code, 2, env={"RANK_TABLE_FILE": table})

    assert [(status, err) for status, _, err in done] == [(0, ""), (0, "")]
    assert [json.loads(out) for _, out, _ in done] == [
        [0, [0, 1], 0, "cpu", "gloo", 2.0],
        [1, [0, 1], 1, "cpu", "gloo", 2.0],
    ]


def test_sub_groups_communicate_among_their_members(tmp_path: Path) -> None:
    table = write_table(tmp_path, [[3, 1, 0, 2]])
    code = """
with init_process_group("gloo", timeout_s=60) as job:
    groups = [job.new_group([0, 1]), job.new_group([3, 2], timeout_s=30)]
    mine = groups[job.rank // 2]
    tensor = torch.tensor([float(job.rank)])
    dist.all_reduce(tensor, group=mine)
    say(job.rank, tensor.item(), dist.get_process_group_ranks(mine))
    for wrong in ([], [0, 0], [0, 4], [-1]):
        try:
            job.new_group(wrong)
        except ValueError as error:
            pass
        else:
            raise SystemExit(3)
say(dist.is_initialized())
"""
    done = run_all(code, 4, env={"RANK_TABLE_FILE": table})

    assert [(status, err) for status, _, err in done] == [(0, "")] * 4
    assert [json.loads(out.splitlines()[0]) for _, out, _ in done] == [
        [0, 1.0, [0, 1]],
        [1, 1.0, [0, 1]],
        [2, 5.0, [2, 3]],
        [3, 5.0, [2, 3]],
    ]
    assert {out.splitlines()[1] for _, out, _ in done} == {"[false]"}


def test_sub_group_gets_the_chips_of_its_members(tmp_path: Path) -> None:
    table = write_table(tmp_path, [[3, 1, 0, 2]])
    code = """
from ranktable.runtime.backends.gloo import Gloo
seen = []
Gloo.group_options = lambda self, chip_map: seen.append(chip_map)
with init_process_group("gloo", timeout_s=60) as job:
    job.new_group([3, 1])
say(seen)
"""
    done = run_all(code, 4, env={"RANK_TABLE_FILE": table})

    # torch orders the members of a group by their global rank.
    assert [json.loads(out) for _, out, _ in done] == [[[[3, 1, 0, 2], [1, 2]]]] * 4


FAILS = """
try:
    init_process_group({arguments})
except (LaunchEnvironmentError, BootstrapError, ValueError) as error:
    say(type(error).__name__, str(error), dist.is_initialized())
"""


def failure(
    tmp_path: Path, *, arguments: str = '"gloo", timeout_s=5', rank: int = 0,
    world_size: int = 1, chips: Sequence[Sequence[int]] | None = None, **env: str,
) -> list[object]:  # fmt: skip
    if chips is not None:
        env["RANK_TABLE_FILE"] = write_table(tmp_path, chips)
    process = start(
        FAILS.replace("{arguments}", arguments), rank, world_size, free_port(), **env
    )
    ((status, out, err),) = finish([process])
    assert status == 0, err
    found: list[object] = json.loads(out)
    assert found[2] is False  # nothing was started
    return found


def test_number_of_ranks_must_be_that_of_the_table(tmp_path: Path) -> None:
    kind, text, _ = failure(tmp_path, chips=[[0, 1]])

    assert kind == "ConflictingVariablesError"
    assert str(text).startswith(
        "RT304 the launcher set WORLD_SIZE=1, but the rank table has 2 ranks"
    )


def test_place_within_the_node_must_be_that_of_the_table(tmp_path: Path) -> None:
    kind, text, _ = failure(
        tmp_path, chips=[[0, 1]], rank=1, world_size=2, LOCAL_RANK="0"
    )

    assert kind == "ConflictingVariablesError"
    assert "RANK=1 and LOCAL_RANK=0" in str(text)
    assert "rank 1 is at place 1 of node 0" in str(text)


def test_broken_table_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text('{"version":"1.0","node_list":[]}')
    kind, text, _ = failure(tmp_path, RANK_TABLE_FILE=str(path))

    assert (kind, "RT116 node_list is empty" in str(text)) == ("RankTableError", True)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ('"mpi5"', "RT401", "there is no backend 'mpi5'; there are: sccl, nccl, gloo"),
        ('"nccl"', "RT401", "nccl cannot be used"),
        ('"sccl"', "RT401", "SOPHGO's torch_tpu is not installed"),
    ],
)
def test_backend_that_is_not_there_is_named(
    arguments: str, code: str, said: str, tmp_path: Path
) -> None:
    kind, text, _ = failure(tmp_path, arguments=arguments, chips=[[0]])

    assert (kind, str(text)[:5]) == ("BootstrapError", code)
    assert said in str(text)


@pytest.mark.parametrize("value", ["0", "-1", "float('nan')"])
def test_time_out_must_be_positive(value: str, tmp_path: Path) -> None:
    kind, text, _ = failure(tmp_path, arguments=f'"gloo", timeout_s={value}')

    assert (kind, "not a positive number" in str(text)) == ("ValueError", True)


def test_without_a_launcher_the_way_out_is_shown() -> None:
    done = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, EXAMPLE],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )

    assert done.returncode == 1
    assert "RT301 RANK and WORLD_SIZE are not set" in done.stderr.splitlines()[-1]


def test_master_that_does_not_answer_is_named(tmp_path: Path) -> None:
    begin = time.monotonic()
    kind, text, _ = failure(
        tmp_path, arguments='"gloo", timeout_s=3', rank=1, world_size=2
    )

    assert kind == "BootstrapError"
    assert str(text).startswith("RT404 rank 1 cannot reach the master at 127.0.0.1:")
    assert time.monotonic() - begin < 60


MEET = """
try:
    with init_process_group("gloo", timeout_s=8) as job:
        say("joined")
except BootstrapError as error:
    say(error.code, error.ranks, str(error))
"""


def test_rank_that_never_comes_is_named_by_all_others() -> None:
    port = free_port()
    done = finish([start(MEET, rank, 4, port) for rank in (0, 1, 3)])

    # torch's own log of the time-out is on standard error.
    assert [status for status, _, _ in done] == [0, 0, 0], done
    for rank, (_, out, _) in zip((0, 1, 3), done, strict=True):
        assert json.loads(out) == [
            "RT404",
            [2],
            f"RT404 after 8 s 1 of 4 ranks have not come: 2 (seen by rank {rank})",
        ]


def test_ranks_with_different_tables_all_learn_who(tmp_path: Path) -> None:
    port = free_port()
    tables = []
    for name, chips in (("a", [0, 1, 2]), ("b", [0, 2, 1])):
        (tmp_path / name).mkdir()
        tables.append(write_table(tmp_path / name, [chips]))
    processes = [
        start(MEET, rank, 3, port, RANK_TABLE_FILE=tables[rank == 2])
        for rank in range(3)
    ]
    done = finish(processes)

    assert [(status, err) for status, _, err in done] == [(0, "")] * 3
    assert [json.loads(out)[:2] for _, out, _ in done] == [["RT405", [2]]] * 3


def test_exception_in_the_script_ends_the_process_with_its_traceback(
    tmp_path: Path,
) -> None:
    table = write_table(tmp_path, [[0, 1]])
    code = """
job = init_process_group("gloo", timeout_s=60)
raise ArithmeticError("the script's own mistake")
"""
    done = run_all(code, 2, env={"RANK_TABLE_FILE": table})

    assert [status for status, _, _ in done] == [1, 1]
    for _, _, err in done:
        assert err.splitlines()[-1].endswith(
            "ArithmeticError: the script's own mistake"
        )
