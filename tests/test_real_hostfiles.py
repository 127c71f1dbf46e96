"""The real launchers start from our descriptions: mpirun, srun and torchrun."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

import pytest

from ranktable.cluster.hostfiles.hostfile import Host, Hostfile, WriterOptions
from ranktable.cluster.hostfiles.launcher_formats import convert
from tests.commands import BIN
from tests.ranks import free_port
from tests.test_real_launchers import (
    ADDED_UP,
    ALL_REDUCE,
    ALLOCATION,
    ask,
    finish,
    mpirun,
    needs,
    needs_both,
    needs_mpirun,
    needs_slurm,
    start,
)
from tests.test_real_launchers import slurm as slurm  # noqa: PLC0414 - a fixture

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("slurm")]  # one cluster

HERE = "127.0.0.1"
THERE = "127.0.0.2"
# What a process says of itself: its rank and the CPUs that it is bound to.
SAY_CPUS = 'echo "$OMPI_COMM_WORLD_RANK on $(taskset -cp $$ | sed "s/.*: //")"'
SAY_HOST = 'echo "$OMPI_COMM_WORLD_RANK on $SLURMD_NODENAME"'

needs_two_cpus = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2,
    reason="a rank file binds every process to a CPU of its own; there is one",
)


def described(*hosts: tuple[str, int], chips: tuple[int, ...] = (0, 1)) -> Hostfile:
    """Return hosts with as many of these chips as they have processes."""
    return Hostfile(
        hosts=tuple(
            Host(name=name, slots=slots, device_ids=chips[:slots])
            for name, slots in hosts
        )
    )


def written(
    name: str,
    description: Hostfile,
    folder: Path,
    settings: WriterOptions | None = None,
) -> str:
    """Write a description; return the path of its file."""
    path = folder / name
    path.write_text(convert(description, name, settings or WriterOptions()))
    return str(path)


# Open MPI


@needs_mpirun
def test_mpirun_starts_as_many_processes_as_our_host_file_has_slots(
    tmp_path: Path,
) -> None:
    file = written("openmpi-hostfile", described(("localhost", 2)), tmp_path)

    assert ask(mpirun("--hostfile", file), tmp_path) == [
        ("open mpi", rank, 2, rank, 2, None, None, None) for rank in range(2)
    ]


@needs_mpirun
@needs_two_cpus
def test_mpirun_binds_every_rank_of_our_rank_file_to_its_slot(tmp_path: Path) -> None:
    hosts = described(("localhost", 2), chips=(1, 0))
    file = written("openmpi-rankfile", hosts, tmp_path)
    # A rank file binds; the option that leaves processes alone would contradict it.
    launch = [word for word in mpirun() if word not in ("--bind-to", "none")]
    said = finish(
        start([*launch, "--rankfile", file, "sh", "-c", SAY_CPUS], tmp_path), tmp_path
    )

    assert sorted(said.splitlines()) == ["0 on 1", "1 on 0"]


@needs_both
def test_mpirun_takes_hosts_and_ranks_of_our_files_in_an_allocation(
    slurm: Mapping[str, str], tmp_path: Path
) -> None:
    hosts = Hostfile(
        hosts=(
            Host(name=THERE, slots=2, device_ids=(0, 1), ranks=(0, 2)),
            Host(name=HERE, slots=1, device_ids=(0,), ranks=(1,)),
        )
    )
    by_rank = written("openmpi-rankfile", hosts, tmp_path)
    by_host = written("openmpi-hostfile", described((HERE, 1), (THERE, 2)), tmp_path)
    said = []
    for name, option in (("rankfile", by_rank), ("hostfile", by_host)):
        launch = [*ALLOCATION, *mpirun(f"--{name}", option), "sh", "-c", SAY_HOST]
        out = finish(start(launch, tmp_path, name, **slurm), tmp_path, name)
        said.append(sorted(out.splitlines()))

    assert said == [
        [f"0 on {THERE}", f"1 on {HERE}", f"2 on {THERE}"],
        [f"0 on {HERE}", f"1 on {THERE}", f"2 on {THERE}"],
    ]


# MPICH


@needs("mpiexec.hydra")
def test_mpich_starts_on_the_hosts_of_our_machine_file(tmp_path: Path) -> None:
    file = written("mpich-machinefile", described((HERE, 1), (THERE, 2)), tmp_path)
    say = 'echo "$PMI_RANK is $MPI_LOCALRANKID of $MPI_LOCALNRANKS"'
    launch = ["mpiexec.hydra", "-launcher", "fork", "-f", file, "-n", "3"]
    said = finish(start([*launch, "sh", "-c", say], tmp_path), tmp_path)

    assert sorted(said.splitlines()) == ["0 is 0 of 1", "1 is 0 of 2", "2 is 1 of 2"]


# Slurm


@needs_slurm
def test_srun_starts_on_the_hosts_of_our_node_list(
    slurm: Mapping[str, str], tmp_path: Path
) -> None:
    file = written("slurm-nodelist", described((HERE, 2), (THERE, 1)), tmp_path)
    with open(file) as lines:
        nodes, counts = lines.read().split()

    assert (nodes, counts) == ("127.0.0.[1-2]", "2,1")
    assert ask(["srun", "-w", nodes, "-N2", "-n3"], tmp_path, **slurm) == [
        ("slurm", 0, 3, 0, 2, 0, 2, HERE),
        ("slurm", 1, 3, 1, 2, 0, 2, HERE),
        ("slurm", 2, 3, 0, 1, 1, 2, HERE),
    ]


@needs_slurm
def test_srun_gives_every_rank_the_host_of_our_host_file(
    slurm: Mapping[str, str], tmp_path: Path
) -> None:
    hosts = Hostfile(
        hosts=(
            Host(name=THERE, slots=2, ranks=(0, 2)),
            Host(name=HERE, slots=1, ranks=(1,)),
        )
    )
    file = written("srun-hostfile", hosts, tmp_path)
    launch = ["srun", "-n3", "--distribution=arbitrary"]

    assert ask(launch, tmp_path, **slurm, SLURM_HOSTFILE=file) == [
        ("slurm", 0, 3, 0, 2, 1, 2, None),  # the others do not know, so none begins
        ("slurm", 1, 3, 0, 1, 0, 2, None),
        ("slurm", 2, 3, 1, 2, 1, 2, None),
    ]


# torchrun


@pytest.mark.torch
def test_torchrun_adds_up_from_our_command_lines(tmp_path: Path) -> None:
    script = tmp_path / "all reduce.py"
    script.write_text(ALL_REDUCE)
    settings = WriterOptions(script=shlex.quote(str(script)), port=free_port())
    hosts = described((HERE, 1), (THERE, 1))
    text = convert(hosts, "torchrun", settings)
    commands = [line for line in text.splitlines() if not line.startswith("#")]
    names = ("0", "1")
    agents = [
        start(["sh", "-c", f"exec {command}"], tmp_path, name)
        for command, name in zip(commands, names, strict=True)
    ]
    said = [
        finish(agent, tmp_path, name) for agent, name in zip(agents, names, strict=True)
    ]

    assert (BIN / "torchrun").exists()
    assert said == [f"{line}\n" for line in ADDED_UP]
