"""Collectives under ``ranktable simulate``: results, faults and errors of ranks."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING

import pytest

from ranktable.cluster.generate import make_table
from ranktable.schema.writing import dump
from tests.simulate_command import ADD_UP, TIMEOUT_S, left_in, simulate, write

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.torch
def test_without_a_script_a_table_shows_what_each_rank_has_got(tmp_path: Path) -> None:
    dump(make_table([[6, 2], [3]]), tmp_path / "t.json")
    done = simulate(tmp_path, "--rank-table", "t.json")
    rows = [line.split("  ") for line in done.out.splitlines()]
    cells = [[cell.strip() for cell in row if cell] for row in rows]

    assert done.status == 0, done.err
    assert cells[0] == ["rank", "node", "chip", "result", "time"]
    assert [row[:4] for row in cells[1:]] == [
        ["0", "0", "6", "[3., 3., 3., 3.]"],
        ["1", "0", "2", "[3., 3., 3., 3.]"],
        ["2", "1", "3", "[3., 3., 3., 3.]"],
    ]
    assert all(row[4].endswith(" ms") for row in cells[1:])
    assert left_in(tmp_path) == []


@pytest.mark.torch
def test_json_has_the_same_and_the_findings(tmp_path: Path) -> None:
    options = ["--nproc", "2", "--format", "json"]
    good = json.loads(simulate(tmp_path, *options).out)
    done = simulate(tmp_path, *options, "--fault", "die:1")
    bad = json.loads(done.out)

    times = [rank.pop("time_s") for rank in good["ranks"]]
    assert all(0 < time_s < TIMEOUT_S for time_s in times)
    assert good == {
        "ok": True,
        "world_size": 2,
        "num_nodes": 1,
        "ranks": [
            {"rank": 0, "node_rank": 0, "device_id": 0, "result": [2.0] * 4},
            {"rank": 1, "node_rank": 0, "device_id": 1, "result": [2.0] * 4},
        ],
        "findings": [],
    }
    assert (done.status, bad["ok"], bad["ranks"]) == (1, False, [])
    assert [found["rank"] for found in bad["findings"]] == [1]


@pytest.mark.torch
def test_box_without_a_ring_is_warned_of_once(tmp_path: Path) -> None:
    done = simulate(tmp_path, "--nproc", "3")

    assert done.status == 0, done.err
    assert done.err.count("warning: ") == done.err.count("ring") == 1


NO_ROOM = """\
import os, resource, sys
import torch, torch.distributed as dist, torch_tpu

rank = int(os.environ["RANK"])
torch_tpu.tpu.set_device(torch_tpu.tpu.read_rank_table()[rank])
dist.init_process_group("sccl")
if rank == 1:  # as if the disk were full
    room = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
dist.all_reduce(torch.ones(1 << 20, device="tpu"))
"""


@pytest.mark.torch
def test_rank_without_room_for_its_tensor_says_where(tmp_path: Path) -> None:
    script = write(tmp_path, "s.py", NO_ROOM)
    done = simulate(tmp_path, "--nproc", "2", script, str(1 << 20))

    assert done.status == 1
    assert re.search(
        r"error: rank 1 cannot write 4194304 bytes for other ranks into \S+: File too "
        "large; set TMPDIR to a folder with room",
        done.err,
    )


@pytest.mark.torch
def test_rank_without_room_for_anything_says_so_itself(tmp_path: Path) -> None:
    script = write(tmp_path, "s.py", NO_ROOM)
    done = simulate(tmp_path, "--nproc", "2", script, "10")

    assert done.status == 1
    assert "SimulationError: rank 1 cannot write 4194304 bytes" in done.err
    assert "error: rank 1 ended" in done.err
    assert "internal error" not in done.err


@pytest.mark.torch
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("late:1=60", "rank 1 did not join .* within 9 s"),
        ("hang:1", "rank 1 did not reach all_reduce .*, within 9 s"),
        ("hang:1@2", "rank 1 did not reach all_reduce .* collective 2 .*, within 9 s"),
        ("die:1@2", "rank 1 ended"),
    ],
)
def test_fault_ends_the_run_with_a_sentence_that_names_the_rank(
    fault: str, said: str, tmp_path: Path
) -> None:
    write(tmp_path, "s.py", ADD_UP)
    begin = time.monotonic()
    done = simulate(
        tmp_path, "--nproc", "2", "--timeout", "9", "--fault", fault, "s.py"
    )
    errors = [line for line in done.err.splitlines() if line.startswith("error: ")]

    assert done.status == 1
    assert re.search(said, errors[0]), done.err
    assert time.monotonic() - begin < 90
    assert left_in(tmp_path) == []


@pytest.mark.torch
def test_late_rank_within_the_timeout_is_waited_for(tmp_path: Path) -> None:
    write(tmp_path, "s.py", ADD_UP)
    done = simulate(tmp_path, "--nproc", "2", "--fault", "late:1=1", "s.py")

    assert done.status == 0, done.err
    assert sorted(done.out.splitlines()) == [
        "0 tpu:0 [4.0, 4.0]",
        "1 tpu:1 [4.0, 4.0]",
    ]


@pytest.mark.torch
def test_error_fails_the_run_even_if_the_script_catches_it(tmp_path: Path) -> None:
    script = ADD_UP.replace("torch.ones(2)", "torch.ones(2 + rank)")
    caught = "".join(f"    {line}\n" for line in script.splitlines())
    write(tmp_path, "s.py", f"try:\n{caught}except RuntimeError:\n    pass\n")
    done = simulate(tmp_path, "--nproc", "2", "s.py")

    assert done.status == 1
    assert "error: in collective 1" in done.err
    assert "Traceback" not in done.err
