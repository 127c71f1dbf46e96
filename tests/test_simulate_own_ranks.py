"""Scripts under ``ranktable simulate`` that start ranks or make groups themselves."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from ranktable.cluster.generate import make_table
from ranktable.schema.writing import dump
from tests.ranks import free_port
from tests.simulate_command import ADD_UP, left_in, simulate, simulate_afresh, write

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.torch
def test_script_that_starts_its_ranks_itself_is_started_once(tmp_path: Path) -> None:
    write(
        tmp_path,
        "s.py",
        """
import os, sys
import torch, torch_tpu
import torch.distributed as dist
import torch.multiprocessing as mp

def add_up(rank, chip_map, store, options=None):
    dist.init_process_group("sccl", init_method=store, rank=rank, world_size=2,
                            pg_options=options)
    tensor = torch.ones(1).to(f"tpu:{chip_map[rank]}")
    dist.all_reduce(tensor)
    sys.stdout.write(f"{rank} {tensor.device} {tensor.tolist()}\\n")
    dist.destroy_process_group()

def work(rank, port):
    chip_map = torch_tpu.tpu.read_rank_table()
    torch_tpu.tpu.set_device(chip_map[rank])
    options = torch_tpu.ProcessGroupSCCLOptions()
    options.chip_map = chip_map
    add_up(rank, chip_map, f"file://{os.getcwd()}/store", options)
    add_up(rank, chip_map, f"tcp://127.0.0.1:{port}")

if __name__ == "__main__":
    assert "RANK" not in os.environ
    mp.spawn(work, (int(sys.argv[1]),), nprocs=2)
""",
    )
    dump(make_table([[3, 1]]), tmp_path / "t.json")
    options = ["--rank-table", "t.json", "--once", "s.py"]
    done = simulate_afresh(tmp_path, *options, str(free_port()))

    assert done.status == 0, done.err
    assert sorted(done.out.splitlines()) == [
        *["0 tpu:3 [2.0]"] * 2,
        *["1 tpu:1 [2.0]"] * 2,
    ]
    assert left_in(tmp_path) == []


OWN_RANKS = """
import glob, os, subprocess, sys, time
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def join(rank, port):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=port)
    try:
        dist.init_process_group("gloo", rank=rank, world_size=2)
    except Exception:
        open(f"refused{os.getpid()}", "w").close()
        raise
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    sys.stdout.write(f"{rank} {tensor.item()}\\n")
    while os.path.exists("all at once") and len(glob.glob("refused*")) < 2:
        time.sleep(0.01)

if __name__ == "__main__":
    how, port, *rank = sys.argv[1:]
    if rank:
        join(int(rank[0]), port)
    elif how == "command":
        command = [sys.executable, *sys.argv]
        started = [subprocess.Popen([*command, str(rank)]) for rank in range(2)]
        [each.wait() for each in started]
    else:
        own = os.environ.get("RANK")
        ranks = [int(own)] if how == "helpers" else range(2)
        mp.set_start_method("fork" if how == "fork" else "spawn")
        started = [mp.Process(target=join, args=(rank, port)) for rank in ranks]
        [each.start() for each in started]
        [each.join() for each in started]
"""
"""Each rank makes a group of two processes. If there is a file ``all at once``, those
that have one stay until the two others were refused: ranks may take turns."""


@pytest.mark.torch
@pytest.mark.parametrize("how", ["spawn", "fork", "command"])
def test_script_that_starts_its_ranks_itself_is_told_of_once(
    how: str, tmp_path: Path
) -> None:
    write(tmp_path, "s.py", OWN_RANKS)
    write(tmp_path, "all at once", "")
    done = simulate_afresh(tmp_path, "--nproc", "2", "s.py", how, str(free_port()))

    assert done.status == 1
    told = [line for line in done.err.splitlines() if line.startswith("error: ")]
    # One process of each pair is refused, perhaps not both of the same rank.
    why = "ranks have started processes that make the same process group; give --once"
    assert any(why in line for line in told), done.err


IN_ORDER = """
import os, sys, time
from datetime import timedelta
import torch.distributed as dist
import torch.multiprocessing as mp

def await_file(name):
    while not os.path.exists(name):
        time.sleep(0.01)

def join(rank, port, until):
    os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=port)
    limit = timedelta(seconds=60)
    dist.init_process_group("gloo", rank=rank, world_size=2, timeout=limit)
    dist.barrier()
    await_file(until)

def begin(rank, port, until):
    started = mp.Process(target=join, args=(rank, port, until))
    started.start()
    return started

if __name__ == "__main__":
    port, staying, until, after = sys.argv[1:]
    mp.set_start_method("fork")
    if os.environ["RANK"] == "0":
        staying = int(staying)
        first = [begin(r, port, until if r == staying else "s.py") for r in range(2)]
        first[1 - staying].join()
        open("one", "w").close()
        first[staying].join()
        open("all", "w").close()
    else:
        await_file("one")
        for rank in range(2):
            begin(rank, port, "s.py").join()
            open(f"second{rank}", "w").close()
            await_file(after)
"""
"""Processes of rank 0 make a group, and one of them ends before those of rank 1 start.

The other one stays until a file is there. So does rank 1 between its two processes.
"""


@pytest.mark.torch
@pytest.mark.parametrize("staying", ["0", "1"])
@pytest.mark.parametrize("until", ["second0", "second1"])
def test_processes_of_a_rank_that_comes_late_are_all_refused(
    staying: str, until: str, tmp_path: Path
) -> None:
    write(tmp_path, "s.py", IN_ORDER)
    after = "all" if until == "second0" else "one"
    arguments = ["s.py", str(free_port()), staying, until, after]
    done = simulate(tmp_path, "--nproc", "2", *arguments)

    assert done.status == 1
    assert done.err.count("SimulationError: several ranks have started") == 2, done.err
    assert "torch.distributed.Dist" not in done.err


TAKING_TURNS = IN_ORDER.replace(
    'await_file("one")\n        for rank in range(2):',
    'await_file("all")\n        for rank in ():',
) + (
    "        second = [begin(rank, port, 's.py') for rank in range(2)]\n"
    "        [each.join() for each in second]\n"
    "        sys.exit(sum(each.exitcode for each in second))\n"
)


@pytest.mark.torch
def test_ranks_may_take_turns_with_one_port(tmp_path: Path) -> None:
    write(tmp_path, "s.py", TAKING_TURNS)
    arguments = ["s.py", str(free_port()), "0", "s.py", "s.py"]
    done = simulate(tmp_path, "--nproc", "2", *arguments)

    assert done.status == 0, done.err


@pytest.mark.torch
@pytest.mark.parametrize(
    ("options", "how"),
    [
        (["--nproc", "2", "--once"], "spawn"),
        (["--nproc", "1"], "spawn"),
        (["--nproc", "2"], "helpers"),
    ],
)
def test_processes_of_ranks_that_do_not_clash_make_a_group(
    options: list[str], how: str, tmp_path: Path
) -> None:
    write(tmp_path, "s.py", OWN_RANKS)
    (tmp_path / "site").mkdir()
    write(tmp_path, "site/sitecustomize.py", "import sys; sys.stdout.write('own ')")
    arguments = [*options, "s.py", how, str(free_port())]
    done = simulate_afresh(tmp_path, *arguments, PYTHONPATH=str(tmp_path / "site"))

    assert done.status == 0, done.err
    assert {"0 2.0", "1 2.0"} <= set(done.out.replace("own ", "").splitlines())
    assert done.out.count("own ") > 1


@pytest.mark.torch
def test_job_that_torchrun_restarts_until_it_succeeds_has_succeeded(
    tmp_path: Path,
) -> None:
    write(tmp_path, "s.py", ADD_UP)
    write(
        tmp_path,
        "elastic.py",
        "import subprocess, sys\n"
        "run = [sys.executable, '-m', 'torch.distributed.run', '--nproc-per-node', '2']"
        "\nrun += ['--standalone', '--max-restarts', '2', 's.py']\n"
        "sys.exit(subprocess.run(run).returncode)\n",
    )
    options = ["--nproc", "2", "--once", "--fault", "die:1@2", "--timeout", "30"]
    done = simulate_afresh(tmp_path, *options, "elastic.py")

    assert done.status == 0, done.err
    assert "error: " not in done.err
    assert sorted(done.out.splitlines()) == [
        "0 tpu:0 [4.0, 4.0]",
        "1 tpu:1 [4.0, 4.0]",
    ]


BESIDE_A_LISTENER = """
import sys
import torch.distributed as dist
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:" + sys.argv[1],
                        rank=0, world_size=1)
"""


@pytest.mark.torch
def test_a_program_on_the_port_of_the_script_is_no_store(tmp_path: Path) -> None:
    write(tmp_path, "s.py", BESIDE_A_LISTENER)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        arguments = ["--nproc", "1", "--timeout", "20", "s.py", port]
        done = simulate_afresh(tmp_path, *arguments)

    assert done.status == 1
    assert "EADDRINUSE" in done.err
