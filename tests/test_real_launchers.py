"""What the real launchers set, on this machine: torchrun, mpirun, and Slurm's own.

Every process writes what ``ranktable env`` says of it to a file of its own; where torch
is asked for, the processes then join one group and add up.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

import ranktable
from ranktable.cluster.generate import make_table
from ranktable.cluster.submissions.launch_options import torchrun_name
from ranktable.cluster.submissions.read_submissions import read_submissions
from ranktable.doctor.diagnose import diagnose
from ranktable.runtime.submitted import predict
from ranktable.schema.writing import dump
from tests.commands import BIN, start_process, wait_at_most
from tests.node_tree import Tree, sophgo_node
from tests.ranks import free_port
from tests.slurm_cluster import (
    PAUSE_S,
    PROGRAMS,
    find_program,
    slurm_cluster,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tests.commands import Started

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("slurm")]  # one cluster

TIMEOUT_S = 80
TORCHRUN = str(BIN / "torchrun")
# A file for each process. torchrun makes one dollar of two, so $$ cannot name it.
PROBE = 'ranktable env --format json > "$(mktemp "$0/XXXXXXXX.json")"'
FIELDS = (
    *("launcher", "rank", "world_size", "local_rank", "local_world_size"),
    *("node_rank", "num_nodes", "master_addr"),
)
ALL_REDUCE = """
import torch
import torch.distributed as dist
from ranktable.runtime import init_process_group

with init_process_group("gloo", timeout_s=60) as job:
    tensor = torch.tensor([job.rank + 1])
    dist.all_reduce(tensor)
    print(f"rank {job.rank} of {job.world_size}: {tensor.item()}", flush=True)
"""
ADDED_UP = ["rank 0 of 2: 3", "rank 1 of 2: 3"]

Place = tuple[object, ...]
"""What is known of a process, in the order of FIELDS."""


def needs(*programs: str) -> pytest.MarkDecorator:
    """Skip a test where a program is missing, and name it."""
    missing = [name for name in programs if find_program(name) is None]
    return pytest.mark.skipif(
        bool(missing), reason=f"not installed: {', '.join(missing)}"
    )


needs_slurm = needs(*PROGRAMS)
needs_mpirun = needs("mpirun")
needs_both = needs(*PROGRAMS, "mpirun")


@pytest.fixture(scope="session")
def slurm() -> Iterator[Mapping[str, str]]:
    """The variables that the commands of a private Slurm of two nodes need."""
    with slurm_cluster() as variables:
        yield variables


def start(
    command: Sequence[str], folder: Path, name: str = "it", **env: str
) -> Started:
    """Start a launcher with a clean environment; what it prints goes to files."""
    clean = {key: os.environ[key] for key in ("HOME", "LANG") if key in os.environ}
    with (
        (folder / f"{name}.out").open("wb") as out,
        (folder / f"{name}.err").open("wb") as err,
    ):
        return start_process(
            command,
            out=out,
            err=err,
            env={
                **clean,
                "PATH": f"{BIN}:{os.environ.get('PATH', '')}",
                "TMPDIR": str(folder),
                "OMP_NUM_THREADS": "1",
                "GLOO_SOCKET_IFNAME": "lo",
                **env,
            },
            cwd=folder,
            leads_session=True,
        )


def finish(process: Started, folder: Path, name: str = "it") -> str:
    """Return what a launcher printed, or fail with all of it."""
    status = status_of(process)
    out, err = ((folder / f"{name}.{end}").read_text() for end in ("out", "err"))
    assert status == 0, f"exit status {status}\n{out}{err}"
    return out


def status_of(process: Started) -> int:
    """Return the exit status of a launcher, after killing it when time is up."""
    if not wait_at_most(process, TIMEOUT_S):
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


def answers(folder: Path) -> list[dict[str, Any]]:
    """Return what ``ranktable env`` said to every process, in no order."""
    return [json.loads(path.read_text()) for path in folder.glob("*.json")]


def places(folder: Path) -> list[Place]:
    """Return the place of every process, by rank."""
    said = answers(folder)
    assert [answer["problem"] for answer in said] == [None] * len(said)
    return sorted(
        (tuple(answer["environment"][name] for name in FIELDS) for answer in said),
        key=str,
    )


def ask(launch: Sequence[str], folder: Path, **env: str) -> list[Place]:
    """Return the place of every process that a launcher starts, by rank."""
    finish(start([*launch, "sh", "-c", PROBE, str(folder)], folder, **env), folder)
    return places(folder)


def adding_up(folder: Path) -> list[str]:
    """Return the command of a process that is asked, then joins the others."""
    script = folder / "all_reduce.py"
    script.write_text(ALL_REDUCE)
    return [
        "sh",
        "-c",
        f'{PROBE} && exec "$@"',
        str(folder),
        sys.executable,
        str(script),
    ]


def add_up(launch: Sequence[str], folder: Path, **env: str) -> list[str]:
    """Return what the processes say after an all_reduce, by rank."""
    process = start([*launch, *adding_up(folder)], folder, **env)
    return sorted(finish(process, folder).splitlines())


def fates(folder: Path, launcher: str) -> set[str]:
    """Return the outcomes of a launcher's claims about any process."""
    return {
        claim["outcome"]
        for answer in answers(folder)
        for claim in answer["claims"]
        if claim["launcher"] == launcher and claim["field"] != "host"
    }


def torchrun(*options: str, nproc: int = 1) -> list[str]:
    """Return the command of one agent that starts programs, not Python scripts."""
    return [TORCHRUN, "--no-python", f"--nproc-per-node={nproc}", *options]


def of_two_agents(port: int) -> tuple[str, ...]:
    return ("--nnodes=2", "--master-addr=127.0.0.1", f"--master-port={port}")


def in_srun(*options: str) -> list[str]:
    """Return the command of one torchrun a node, as batch scripts have it."""
    agent = " ".join(torchrun(*options))
    return ["srun", "-N2", "-n2", "sh", "-c", f'exec {agent} "$@"', "sh"]


def mpirun(*options: str) -> list[str]:
    """Return the command of Open MPI's mpirun; this machine may have one core."""
    as_root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    over_loopback = [
        word
        for layer in ("btl", "oob")
        for word in ("--mca", f"{layer}_tcp_if_include", "lo")
    ]
    shared = ["--oversubscribe", "--bind-to", "none"]
    return ["mpirun", *as_root, *over_loopback, *shared, *options]


def meeting_at(port: int) -> tuple[str, ...]:
    """Return the options that set the address, which mpirun does not set."""
    return ("-x", "MASTER_ADDR=127.0.0.1", "-x", f"MASTER_PORT={port}")


# torchrun


@pytest.mark.torch
def test_one_agent_of_torchrun(tmp_path: Path) -> None:
    port = free_port()
    alone = ("--master-addr=127.0.0.1", f"--master-port={port}")

    assert add_up(torchrun(*alone, nproc=2), tmp_path) == ADDED_UP
    assert places(tmp_path) == [
        ("torchrun", rank, 2, rank, 2, 0, 1, "127.0.0.1") for rank in range(2)
    ]


@pytest.mark.torch
def test_two_agents_of_torchrun(tmp_path: Path) -> None:
    both = of_two_agents(free_port())
    command = adding_up(tmp_path)
    names = ("0", "1")
    agents = [
        start([*torchrun(*both, f"--node-rank={name}"), *command], tmp_path, name)
        for name in names
    ]
    said = [
        finish(agent, tmp_path, name) for agent, name in zip(agents, names, strict=True)
    ]

    assert said == [f"{line}\n" for line in ADDED_UP]
    assert places(tmp_path) == [
        ("torchrun", rank, 2, 0, 1, rank, 2, "127.0.0.1") for rank in range(2)
    ]


# Open MPI


@needs_mpirun
def test_mpirun(tmp_path: Path) -> None:
    # Open MPI says nothing of nodes and of a place to meet.
    assert ask(mpirun("-n", "2"), tmp_path) == [
        ("open mpi", rank, 2, rank, 2, None, None, None) for rank in range(2)
    ]


@needs_mpirun
@pytest.mark.torch
def test_mpirun_adds_up(tmp_path: Path) -> None:
    launch = mpirun("-n", "2", *meeting_at(free_port()))

    assert add_up(launch, tmp_path) == ADDED_UP


# Slurm

ALLOCATION = ("salloc", "--quiet", "-N2", "-n4")
PART = (*ALLOCATION, "srun", "-N1", "-n2", "-w127.0.0.2")
STEPS: dict[str, tuple[Sequence[str], list[Place]]] = {
    "uneven": (
        ["srun", "-N2", "-n3"],
        [
            ("slurm", 0, 3, 0, 2, 0, 2, "127.0.0.1"),
            ("slurm", 1, 3, 1, 2, 0, 2, "127.0.0.1"),
            ("slurm", 2, 3, 0, 1, 1, 2, "127.0.0.1"),
        ],
    ),
    "cyclic": (
        ["srun", "-N2", "-n3", "--distribution=cyclic"],
        [
            ("slurm", 0, 3, 0, 2, 0, 2, "127.0.0.1"),
            ("slurm", 1, 3, 0, 1, 1, 2, "127.0.0.1"),
            ("slurm", 2, 3, 1, 2, 0, 2, "127.0.0.1"),
        ],
    ),
    "part of an allocation": (
        PART,
        [("slurm", rank, 2, rank, 2, 0, 1, "127.0.0.2") for rank in range(2)],
    ),
    "part of an allocation, the job's sizes kept": (
        [*PART, "--preserve-env"],
        [("slurm", rank, 2, rank, 2, 0, 1, "127.0.0.2") for rank in range(2)],
    ),
    "two components": (
        ["srun", "-N1", "-n1", ":", "-N1", "-n2"],
        [
            ("slurm", 0, 3, 0, 1, 0, 2, "127.0.0.1"),
            ("slurm", 1, 3, 0, 2, 1, 2, "127.0.0.1"),
            ("slurm", 2, 3, 1, 2, 1, 2, "127.0.0.1"),
        ],
    ),
}


@needs_slurm
@pytest.mark.parametrize(("launch", "expected"), STEPS.values(), ids=STEPS)
def test_srun(
    launch: Sequence[str],
    expected: list[Place],
    slurm: Mapping[str, str],
    tmp_path: Path,
) -> None:
    assert ask(launch, tmp_path, **slurm) == expected


@needs_slurm
def test_first_host_is_no_master_where_rank_0_is_elsewhere(
    slurm: Mapping[str, str], tmp_path: Path
) -> None:
    # SLURM_STEP_NODELIST is sorted: it is 127.0.0.[1-2] here, as it is without -m.
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.2\n127.0.0.1\n127.0.0.2\n")
    launch = ["srun", "-n3", "--distribution=arbitrary"]

    assert ask(launch, tmp_path, **slurm, SLURM_HOSTFILE=str(hosts)) == [
        ("slurm", 0, 3, 0, 2, 1, 2, None),
        ("slurm", 1, 3, 0, 1, 0, 2, None),
        ("slurm", 2, 3, 1, 2, 1, 2, None),
    ]


@needs_slurm
def test_components_may_come_in_another_order_than_the_hosts(
    slurm: Mapping[str, str], tmp_path: Path
) -> None:
    first, second = ("-w127.0.0.2", "-N1", "-n1"), ("-w127.0.0.1", "-N1", "-n2")
    found = ask([*ALLOCATION, "srun", *first, ":", *second], tmp_path, **slurm)

    # Both nodes see that the list has the other in their place.
    assert found == [
        ("slurm", 0, 3, 0, 1, 0, 2, None),
        ("slurm", 1, 3, 0, 2, 1, 2, None),
        ("slurm", 2, 3, 1, 2, 1, 2, None),
    ]


@needs_slurm
def test_batch_script_is_no_process_and_its_step_has_two(
    slurm: Mapping[str, str], tmp_path: Path
) -> None:
    folders = [tmp_path / name for name in ("script", "step")]
    for folder in folders:
        folder.mkdir()
    probes = (f"sh -c '{PROBE}' {folder}" for folder in folders)
    script = tmp_path / "job.sh"
    # sbatch --wait would look for the end only after ten seconds.
    script.write_text("#!/bin/sh\n{}\nsrun {}\ntouch done\n".format(*probes))
    finish(start(["sbatch", "-N2", "-n2", str(script)], tmp_path, **slurm), tmp_path)
    end = time.monotonic() + TIMEOUT_S
    while not (tmp_path / "done").exists() and time.monotonic() < end:
        time.sleep(PAUSE_S)

    assert [places(folder) for folder in folders] == [
        [(None,) * len(FIELDS)],
        [("slurm", rank, 2, 0, 1, rank, 2, "127.0.0.1") for rank in range(2)],
    ]


@needs_slurm
def test_stale_rank_under_srun_is_refused(
    slurm: Mapping[str, str], tmp_path: Path
) -> None:
    command = ["srun", "-N2", "-n2", "sh", "-c", PROBE, str(tmp_path)]
    process = start(command, tmp_path, **slurm, RANK="0", WORLD_SIZE="1")

    assert status_of(process) == 1
    problems = [answer["problem"] for answer in answers(tmp_path)]
    assert [problem["code"] for problem in problems] == ["RT303"] * 2
    # Process 0 contradicts the size alone.
    assert sorted(sorted(problem["variables"]) for problem in problems) == [
        ["RANK", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "WORLD_SIZE"],
        ["SLURM_STEP_NUM_TASKS", "WORLD_SIZE"],
    ]


@needs_slurm
@pytest.mark.torch
@pytest.mark.parametrize("launch", [("srun", "-N2", "-n2"), PART], ids=["all", "part"])
def test_srun_adds_up(
    launch: Sequence[str], slurm: Mapping[str, str], tmp_path: Path
) -> None:
    assert add_up(launch, tmp_path, **slurm) == ADDED_UP


# one launcher within another


@needs_slurm
@pytest.mark.torch
def test_torchrun_wins_over_the_srun_around_it(
    slurm: Mapping[str, str], tmp_path: Path
) -> None:
    # The agents are numbered otherwise than Slurm's nodes, as the c10d rendezvous may.
    agents = of_two_agents(free_port())
    launch = in_srun(*agents, '--node-rank="$((1 - SLURM_NODEID))"')

    assert add_up(launch, tmp_path, **slurm) == ADDED_UP
    assert places(tmp_path) == [
        ("torchrun", rank, 2, 0, 1, rank, 2, "127.0.0.1") for rank in range(2)
    ]
    assert fates(tmp_path, "slurm") == {"shadowed"}


@needs_both
def test_mpirun_wins_over_the_allocation_around_it(
    slurm: Mapping[str, str], tmp_path: Path
) -> None:
    # mpirun starts one daemon a node by srun, and these start the processes.
    assert ask([*ALLOCATION, *mpirun("-n", "4")], tmp_path, **slurm) == [
        ("open mpi", rank, 4, rank % 2, 2, None, None, None) for rank in range(4)
    ]
    assert fates(tmp_path, "slurm") == {"shadowed"}


@needs_both
def test_mpirun_with_as_many_processes_as_daemons(
    slurm: Mapping[str, str], tmp_path: Path
) -> None:
    # Both processes are on the first node, whose daemon is task 0 of 2 as well.
    assert ask([*ALLOCATION, *mpirun("-n", "2")], tmp_path, **slurm) == [
        ("open mpi", rank, 2, rank, 2, None, None, None) for rank in range(2)
    ]


@needs_both
def test_mpirun_wins_over_the_step_around_it(
    slurm: Mapping[str, str], tmp_path: Path
) -> None:
    # The step's PMI-2 has left PMI_RANK and PMI_SIZE; its CPUs are taken, so that
    # mpirun must not ask Slurm for more of them.
    own = ("--mca", "plm", "^slurm", "--mca", "ras", "^slurm")
    launch = ["srun", "--mpi=pmi2", "-N1", "-n1", *mpirun(*own, "-n", "2")]

    assert ask(launch, tmp_path, **slurm) == [
        ("open mpi", rank, 2, rank, 2, None, None, None) for rank in range(2)
    ]
    assert fates(tmp_path, "slurm") == {"shadowed"}
    assert fates(tmp_path, "mpich or intel mpi") == {"shadowed"}


@needs_both
def test_mpirun_of_one_process_in_an_allocation_of_two_nodes(
    slurm: Mapping[str, str], tmp_path: Path
) -> None:
    # The daemon of its node is task 0 of 2.
    assert ask([*ALLOCATION, *mpirun("-n", "1")], tmp_path, **slurm) == [
        ("open mpi", 0, 1, 0, 1, None, None, None)
    ]


@needs_both
@pytest.mark.parametrize("tasks", [2, 4])
def test_srun_wins_over_the_mpirun_that_started_it(
    tasks: int, slurm: Mapping[str, str], tmp_path: Path
) -> None:
    launch = [*mpirun("-n", "1"), "srun", "-N2", f"-n{tasks}"]
    found = ask(launch, tmp_path, **slurm)

    assert [place[:3] for place in found] == [
        ("slurm", rank, tasks) for rank in range(tasks)
    ]
    assert fates(tmp_path, "open mpi") == {"shadowed"}


@needs_both
@pytest.mark.parametrize("tasks", [2, 4])
def test_srun_in_a_script_that_mpirun_started_is_refused(
    tasks: int, slurm: Mapping[str, str], tmp_path: Path
) -> None:
    # Open MPI's variables are those of rank 0 of 1 in every task.
    script = tmp_path / "job.sh"
    script.write_text(f'exec srun -N2 -n{tasks} "$@"\n')
    command = [*mpirun("-n", "1"), "sh", str(script), "sh", "-c", PROBE, str(tmp_path)]
    process = start(command, tmp_path, **slurm)

    assert status_of(process) != 0
    problems = [answer["problem"] for answer in answers(tmp_path)]
    assert [problem["code"] for problem in problems] == ["RT303"] * tasks
    named = {"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"}
    assert all(named <= problem["variables"].keys() for problem in problems)


@needs_both
@pytest.mark.torch
def test_mpirun_in_an_allocation_adds_up(
    slurm: Mapping[str, str], tmp_path: Path
) -> None:
    allocation = ("salloc", "--quiet", "-N2", "-n2")
    launch = [*allocation, *mpirun("-n", "2", *meeting_at(free_port()))]

    assert add_up(launch, tmp_path, **slurm) == ADDED_UP
    assert [place[:5] for place in places(tmp_path)] == [
        ("open mpi", rank, 2, 0, 1) for rank in range(2)
    ]


# ranktable run


@needs_slurm
@pytest.mark.torch
def test_run_in_srun_starts_the_ranks_of_each_host(
    slurm: Mapping[str, str], tmp_path: Path
) -> None:
    # Slurm numbers its nodes the other way, and no node has this machine's host name.
    hosts = ["127.0.0.2", "127.0.0.1"]
    dump(make_table([[3], [1]], hosts=hosts), tmp_path / "t.json")
    (tmp_path / "s.py").write_text(
        "import os, ranktable\n"
        "from ranktable.runtime import resolve_environment\n"
        "rank = resolve_environment().rank\n"
        "chip = ranktable.read_rank_table()[rank]\n"
        "print(os.environ['SLURMD_NODENAME'], rank, chip, flush=True)\n"
    )
    launch = ["srun", "-N2", "-n2", "ranktable", "run", "--table", "t.json", "s.py"]
    said = finish(start(launch, tmp_path, **slurm), tmp_path)

    assert sorted(said.splitlines()) == ["127.0.0.1 1 1", "127.0.0.2 0 3"]


# gathering


@needs_slurm
def test_srun_gathers_the_probes_of_its_nodes(
    slurm: Mapping[str, str], tmp_path: Path
) -> None:
    # /dev of this machine has no chips, and both nodes are on it: a tree for each.
    for host, chips in (("127.0.0.1", range(4)), ("127.0.0.2", range(2))):
        sophgo_node(tmp_path / host, host, chips)
    look = 'ranktable probe --root "$0/$SLURMD_NODENAME"'
    job = f"srun -N2 -n2 sh -c '{look}' {tmp_path} | ranktable merge - -o table.json"
    finish(start(["bash", "-o", "pipefail", "-c", job], tmp_path, **slurm), tmp_path)
    table = ranktable.load(tmp_path / "table.json")

    assert [(n.host, len(n.devices)) for n in table.nodes] == [
        ("127.0.0.1", 4),
        ("127.0.0.2", 2),
    ]
    assert table.chip_map == [0, 1, 2, 3, 0, 1]
    assert "warning[RT232] 127.0.0.2 has 2 devices" in (tmp_path / "it.err").read_text()


@needs_slurm
def test_node_that_sees_no_chips_is_named_after_srun(
    slurm: Mapping[str, str], tmp_path: Path
) -> None:
    sophgo_node(tmp_path / "127.0.0.1", "127.0.0.1", range(2))
    Tree(tmp_path / "127.0.0.2", "127.0.0.2")
    look = 'ranktable probe --root "$0/$SLURMD_NODENAME"'
    merge = "ranktable merge - --hosts '127.0.0.[1-2]' -o table.json"
    job = f"srun -N2 -n2 sh -c '{look}' {tmp_path} | {merge}"
    process = start(["bash", "-c", job], tmp_path, **slurm)

    assert status_of(process) == 1
    assert (
        "error[RT143] no chips were found on 127.0.0.2"
        in (tmp_path / "it.out").read_text()
    )
    assert not (tmp_path / "table.json").exists()


@needs_slurm
def test_doctor_names_the_task_that_was_killed(
    slurm: Mapping[str, str], tmp_path: Path
) -> None:
    script = 'test $SLURM_PROCID = 1 && kill -9 $$; echo "[rank0]: step 1"; sleep 60'
    command = ["srun", "-N2", "-n2", "--kill-on-bad-exit=1", "sh", "-c", script]
    with (tmp_path / "job.log").open("wb") as log:
        process = start_process(
            command, out=log, err=log, env={**os.environ, **slurm}, cwd=tmp_path
        )
        wait_at_most(process, TIMEOUT_S)

    (cause,) = diagnose([str(tmp_path / "job.log")]).causes

    assert (cause.rule.code, cause.ranks, cause.host) == ("RT611", (1,), "127.0.0.2")


# check --live

LIVE = ("ranktable", "check", "--live", "--format", "json")


def checked(launch: Sequence[str], folder: Path, **env: str) -> tuple[bool, set[str]]:
    """Return whether a launcher's job is sound, and the codes of what was found."""
    status = status_of(start(launch, folder, **env))
    verdict = json.loads((folder / "it.out").read_text())
    assert verdict["ok"] == (status == 0)
    assert "internal error" not in (folder / "it.err").read_text()
    return verdict["ok"], {each["code"] for each in verdict["findings"]}


def read_observed(folder: Path) -> list[str]:
    """Return what four commands say of the table that a job wrote."""
    commands = ("show", "validate", "plan --tp 2", "mesh --tp 2")
    said = []
    for number, words in enumerate(commands):
        command, *options = words.split()
        process = start(["ranktable", command, "o.json", *options], folder, f"{number}")
        said.append(finish(process, folder, f"{number}"))
    return said


@needs_slurm
@pytest.mark.torch
def test_srun_checks_its_tasks_and_makes_their_table(
    slurm: Mapping[str, str], tmp_path: Path
) -> None:
    launch = ["srun", "-N2", "-n4", *LIVE, "-o", "o.json"]

    assert checked(launch, tmp_path, **slurm) == (True, set())
    table = ranktable.load(tmp_path / "o.json")
    assert table.hosts == ("127.0.0.1", "127.0.0.2")
    assert table.chip_map == [0, 1, 0, 1]
    shown, _, planned, meshed = read_observed(tmp_path)
    assert "2 nodes, 4 ranks" in shown
    assert ["dp", "2", "2", "0/2", "2", "yes"] in map(str.split, planned.splitlines())
    assert "tp/1: ranks 2,3, chips 0,1" in meshed

    # The job fails later, and the table says what its logs lack.
    script = 'test $SLURM_PROCID = 3 && kill -9 $$; echo "[rank0]: step 1"; sleep 60'
    launch = ["srun", "-N2", "-n4", "--kill-on-bad-exit=1", "sh", "-c", script]
    status_of(start(launch, tmp_path, "job", **slurm))
    logs = ["job.out", "job.err", "--rank-table", "o.json", "--format", "json"]
    doctor = start(["ranktable", "doctor", *logs], tmp_path, "doctor")
    assert status_of(doctor) == 1
    (cause,) = json.loads((tmp_path / "doctor.out").read_text())["causes"]
    assert (cause["ranks"], cause["host"], cause["chips"]) == ([3], "127.0.0.2", [1])


@needs_slurm
@pytest.mark.torch
def test_srun_names_the_node_with_another_table(
    slurm: Mapping[str, str], tmp_path: Path
) -> None:
    hosts = ["127.0.0.1", "127.0.0.2"]
    for host, chip in zip(hosts, (1, 2), strict=True):
        dump(make_table([[0, 1], [0, chip]], hosts=hosts), tmp_path / f"{host}.json")
    command = f'exec {" ".join(LIVE)} "$SLURMD_NODENAME.json"'
    launch = ["srun", "-N2", "-n4", "sh", "-c", command]

    assert checked(launch, tmp_path, **slurm) == (False, {"RT733"})
    assert "2, 3 (127.0.0.2); first difference" in (tmp_path / "it.out").read_text()


@needs_mpirun
@pytest.mark.torch
def test_mpirun_checks_its_processes(tmp_path: Path) -> None:
    job = mpirun("-n", "2", *meeting_at(free_port()))

    assert checked([*job, *LIVE, "-o", "o.json"], tmp_path) == (True, set())
    assert ranktable.load(tmp_path / "o.json").chip_map == [0, 1]


@needs_mpirun
@pytest.mark.torch
def test_mpirun_names_a_rank_that_came_twice(tmp_path: Path) -> None:
    port = free_port()
    second = ("env", "OMPI_COMM_WORLD_RANK=0", *LIVE)
    part = meeting_at(port)
    launch = mpirun("-n", "1", *part, *LIVE, ":", "-n", "1", *part, *second)
    status = status_of(start(launch, tmp_path))

    assert status == 1
    verdict = json.loads((tmp_path / "it.out").read_text())
    assert {"RT731"} <= {each["code"] for each in verdict["findings"]}


@pytest.mark.torch
def test_torchrun_checks_its_workers_and_makes_their_table(tmp_path: Path) -> None:
    launch = torchrun("--standalone", nproc=4)

    assert checked([*launch, *LIVE, "-o", "o.json"], tmp_path) == (True, set())
    assert ranktable.load(tmp_path / "o.json").chip_map == [0, 1, 2, 3]
    assert "1 node, 4 ranks" in read_observed(tmp_path)[0]


@pytest.mark.torch
def test_torchrun_names_the_worker_with_another_variable(tmp_path: Path) -> None:
    command = f"NCCL_ALGO=$((RANK / 2)) exec {' '.join(LIVE)}"
    launch = [*torchrun("--standalone", nproc=3), "sh", "-c", command]

    assert checked(launch, tmp_path) == (False, {"RT736"})
    assert "0 on 2 ranks and 1 on rank 2" in (tmp_path / "it.out").read_text()


# What a batch script says, and what Slurm makes of it

SCRIPTS = [
    ("-N2 --ntasks-per-node=2", "srun"),
    ("-N2", "srun"),
    ("--nodes=2 --ntasks=2", "srun"),
    ("--nodes 2 -n 4 --ntasks-per-node=2", "srun"),
    ("-N1 -n2", "srun"),
    ("--ntasks-per-node=2", "srun"),
    ("-N2 --ntasks-per-node=2", "srun -n $SLURM_NNODES --ntasks-per-node=1"),
    ("-N2 --ntasks-per-node=2", "srun -N1 -n2"),
    ("-N2 -c2", "srun --ntasks-per-node=1"),
    ("-N2 --ntasks-per-node=2", "srun -n1"),
    ("-N2 -n1", "srun"),
    ("-N2 --tasks-per-node=2", "srun"),
]


def submit(text: str, folder: Path, slurm: Mapping[str, str]) -> list[Place]:
    """Return the place of every process of a batch script, without the master."""
    script = folder / "job.sbatch"
    script.write_text(text)
    output = f"--output={folder / 'said'}"
    # sbatch --wait would look for the end only after ten seconds.
    finish(start(["sbatch", output, str(script)], folder, **slurm), folder)
    wanted = len(predicted(text))
    end = time.monotonic() + TIMEOUT_S
    while len([p for p in folder.glob("*.json") if p.stat().st_size]) < wanted:
        assert time.monotonic() < end, (folder / "said").read_text()
        time.sleep(PAUSE_S)
    return [place[:-1] for place in places(folder)]


def predicted(text: str) -> list[Place]:
    """Return the place of every process as the file says, without the master."""
    (one,) = read_submissions(text.encode(), file="job").submissions
    found = [process.environment for process in predict(one)]
    return sorted(
        (tuple(getattr(each, name) for name in FIELDS[:-1]) for each in found), key=str
    )


@needs_slurm
@pytest.mark.parametrize(("options", "step"), SCRIPTS)
def test_batch_script_starts_what_it_says(
    options: str, step: str, tmp_path: Path, slurm: Mapping[str, str]
) -> None:
    text = f"#!/bin/sh\n#SBATCH {options}\n{step} sh -c '{PROBE}' {tmp_path}\n"
    said = predicted(text)

    assert said
    assert submit(text, tmp_path, slurm) == said


@needs_slurm
@pytest.mark.torch
def test_agents_of_a_batch_script_start_what_it_says(
    tmp_path: Path, slurm: Mapping[str, str]
) -> None:
    agent = (
        "torchrun --nnodes $SLURM_NNODES --node-rank $SLURM_NODEID --nproc_per_node=2 "
        f"--master-addr 127.0.0.1 --master-port {free_port()} --no-python"
    )
    probe = tmp_path / "probe.sh"
    probe.write_text(f"#!/bin/sh\nset -- {tmp_path}\n{PROBE.replace('$0', '$1')}\n")
    probe.chmod(0o755)
    text = (
        "#!/bin/sh\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n"
        f"srun bash -c '{agent} {probe}'\n"
    )

    assert submit(text, tmp_path, slurm) == predicted(text)
    assert len(predicted(text)) == 4


@pytest.mark.torch
def test_every_option_of_torchrun_is_known() -> None:
    from torch.distributed.run import get_args_parser

    actions = get_args_parser()._actions
    options = {text for action in actions for text in action.option_strings}

    assert [
        text for text in sorted(options) if len(text) > 2 and not torchrun_name(text)
    ] == []


CHIPS = {  # whether sbatch refuses them
    "-n2 --gpus-per-task=1": False,
    "-N2 --gpus-per-task=1": False,
    "-N2-2 --gpus-per-task=1": False,
    "--gpus=4 --gpus-per-task=1": False,
    "--ntasks-per-node=4 --gpus-per-task=1": False,
    "--gpus-per-task=1": True,
    "-N1-2 --gpus-per-task=1": True,
    "-c2 --gpus-per-node=2 --gpus-per-task=1": True,
    "-n2 --gpus=2 --gpus-per-task=1": False,
    "-n2 --gpus=4 --gpus-per-task=1": True,
    "-N2 --gpus=8 --gpus-per-node=4": False,
    "-N2 --gpus=4 --gpus-per-node=4": True,
    "-N4 -n2 --gpus=4 --gpus-per-node=2": False,
    "-N2 --gpus=4 --gres=gpu:4": True,
    "-N1 --ntasks-per-node=4 --gres=gpu:4 --gpus-per-task=1": False,
    "-N1 --ntasks-per-node=2 --gres=gpu:4 --gpus-per-task=1": True,
    "-N1 --gpus-per-socket=2 --sockets-per-node=2": False,
    "-N1 --gpus-per-socket=2": True,
}


@needs_slurm
def test_numbers_of_chips_are_refused_where_sbatch_refuses_them(
    slurm: Mapping[str, str], tmp_path: Path
) -> None:
    by_sbatch, by_us = {}, {}
    for number, options in enumerate(CHIPS):
        lines = "\n".join(f"#SBATCH {option}" for option in options.split())
        script = tmp_path / f"{number}.sh"
        script.write_text(f"#!/bin/sh\n{lines}\nsrun true\n")
        command = ["sbatch", "--test-only", str(script)]  # no node has chips
        status_of(start(command, tmp_path, script.name, **slurm))
        said = (tmp_path / f"{script.name}.err").read_text()
        by_sbatch[options] = "Invalid generic resource" in said
        report = read_submissions(script.read_bytes(), file="job").report
        found = () if report is None else report.diagnostics
        by_us[options] = any(each.code == "RT331" for each in found)

    assert (by_sbatch, by_us) == (CHIPS, CHIPS)
