"""Nested launchers and the variables that they leave: the rank is right or refused."""

from __future__ import annotations

import pytest

from ranktable.runtime import (
    ConflictingVariablesError,
    LaunchEnvironmentError,
    resolve_environment,
)
from ranktable.runtime.environment import no_rank
from ranktable.runtime.environment_notes import notes
from ranktable.runtime.launchers.declared import LAUNCHERS
from ranktable.runtime.launchers.launcher import ClaimLevel
from ranktable.runtime.launchers.nesting import NESTINGS, SETS_TOO
from tests.environments import variables
from tests.test_launchers import AGENTS, OPEN_MPI, TORCHRUN

# PALS 1.2, mpiexec --ppn 1 within PBS: one agent on each of two nodes.
PALS = variables(
    "PALS_RANKID=1 PALS_NODEID=1 PALS_LOCAL_RANKID=0 PALS_LOCAL_SIZE=1 "
    "PBS_NODEFILE=/var/spool/pbs/aux/1.pbs"
)
PALS_WITH_PMI = {**PALS, "PMI_RANK": "1", "PMI_SIZE": "2", "PMI_LOCAL_RANK": "0"}


@pytest.mark.parametrize(
    "env",
    [
        # Who has one node may well meet on it.
        {**OPEN_MPI, "OMPI_COMM_WORLD_LOCAL_SIZE": "4", "MASTER_ADDR": "localhost"},
        # Nodes that are on one machine, as in the tests of a cluster.
        {**AGENTS, "SLURM_STEP_NODELIST": "127.0.0.[1-2]", "MASTER_ADDR": "127.0.0.1"},
        # torchrun's own address, from agents on one machine.
        {**TORCHRUN, "MASTER_ADDR": "127.0.0.1"},
        {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"},
    ],
)
def test_loopback_address_is_right_on_one_machine(env: dict[str, str]) -> None:
    assert resolve_environment(env).master_addr == env["MASTER_ADDR"]


def test_index_beyond_its_size_gets_a_hint_that_helps() -> None:
    with pytest.raises(ConflictingVariablesError) as raised:
        resolve_environment({"RANK": "4", "WORLD_SIZE": "4"})

    assert raised.value.message == (
        "RANK=4 is not below WORLD_SIZE=4; a rank counts from 0, so the last one is 3: "
        "correct RANK, or WORLD_SIZE if it is left over"
    )


LACKING = [
    # environment, variables that are missing, words of the message
    ({"RANK_ID": "3"}, {"RANK_SIZE", "RANK_TABLE_FILE"}, "RANK_ID=3"),
    ({"MS_ROLE": "MS_WORKER", "MS_WORKER_NUM": "8"}, {"MS_NODE_ID"}, "msrun"),
    # The scheduler of msrun in srun is not a rank of srun's.
    (
        {"JOB_COMPLETION_INDEX": "2", "PET_NNODES": "4"},
        {"RANK", "WORLD_SIZE"},
        "RANK=$JOB_COMPLETION_INDEX",
    ),
    # A worker of torchrun that has unset its rank is not the agent.
    ({**AGENTS, "TORCHELASTIC_RUN_ID": "x"}, {"RANK"}, "TORCHELASTIC_RUN_ID is set"),
    ({}, {"RANK", "WORLD_SIZE"}, "torchrun"),
]


@pytest.mark.parametrize(("env", "missing", "words"), LACKING)
def test_process_without_a_rank_is_told_which_variable_is_missing(
    env: dict[str, str], missing: set[str], words: str
) -> None:
    found = resolve_environment(env)
    error = no_rank(found, env)

    assert None in {found.rank, found.world_size}
    assert missing <= {name for name, value in error.variables.items() if not value}
    assert all(name in error.message for name in missing)
    assert words in error.message


def test_every_pair_of_the_relation_is_of_launchers_that_there_are() -> None:
    names = {launcher.name for launcher in LAUNCHERS}
    named = {name for row in NESTINGS for name in (*row.inner, *row.outer)}
    named |= {name for owner, others in SETS_TOO.items() for name in (owner, *others)}

    assert named <= names
    assert all(row.source for row in NESTINGS)


def test_only_launchers_that_the_environment_distinguishes_may_be_reversed() -> None:
    pairs = {(i, o) for row in NESTINGS for i in row.inner for o in row.outer}

    assert {frozenset(pair) for pair in pairs if pair[::-1] in pairs} == {
        frozenset(("slurm", "open mpi")),
        frozenset(("flux", "open mpi")),
    }


def test_every_launcher_of_workers_is_inside_every_one_of_agents() -> None:
    pairs = {(i, o) for row in NESTINGS for i in row.inner for o in row.outer}
    processes = {
        launcher.name for launcher in LAUNCHERS if launcher.level is ClaimLevel.PROCESS
    }
    agents = {o for _, o in pairs} & processes
    workers = {i for i, _ in pairs} - {o for _, o in pairs}

    assert workers == {
        "torchrun",
        "deepspeed",
        "ray train",
        "msrun",
        "paddle",
        "horovod",
    }
    assert agents >= {"slurm", "flux", "pals", "open mpi"}
    assert {(i, o) for i in workers for o in agents} <= pairs


# prterun of PRRTE 3.0.
PRTERUN = variables("PMIX_RANK=1 PMIX_NAMESPACE=prterun-n1-77@1 PRTE_LAUNCHED=1")


@pytest.mark.parametrize(
    ("env", "launcher"),
    [
        ({"PMIX_RANK": "1"}, "pmix"),
        (PRTERUN, "prterun"),
        # Its daemons are the tasks of Slurm or PALS, one on each node.
        ({**AGENTS, **PRTERUN}, "prterun"),
        ({**PALS_WITH_PMI, **PRTERUN}, "prterun"),
    ],
)
def test_bare_process_of_prterun_says_what_is_missing(
    env: dict[str, str], launcher: str
) -> None:
    found = resolve_environment(env)
    error = no_rank(found, env)

    assert (found.rank, found.world_size) == (None, None)
    assert "PMIX_RANK is set, but not the number of processes" in str(error)
    assert f"({launcher})" in str(error)


def test_process_of_prterun_in_slurm_takes_the_rank_that_its_command_sets() -> None:
    found = resolve_environment({**AGENTS, **PRTERUN, "RANK": "3", "WORLD_SIZE": "4"})

    assert (found.rank, found.world_size, found.launcher) == (3, 4, "environment")


RANK_1_OF_2 = {"RANK": "1", "WORLD_SIZE": "2"}
# Several nodes that a user starts by hand on one machine.
NODES_BY_HAND = {
    **RANK_1_OF_2,
    **variables("LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=127.0.0.1"),
}


@pytest.mark.parametrize(
    "env",
    [
        NODES_BY_HAND,
        {**NODES_BY_HAND, "NODE_RANK": "1"},
        {**RANK_1_OF_2, "NODE_RANK": "1", "MASTER_ADDR": "localhost"},
        {**NODES_BY_HAND, "RANK": "0", "NODE_RANK": "0", "MASTER_ADDR": "localhost"},
    ],
)
def test_loopback_address_that_can_be_right_is_taken(env: dict[str, str]) -> None:
    assert resolve_environment(env).master_addr == env["MASTER_ADDR"]


DEEPSPEED = "WORLD_SIZE=16 LOCAL_RANK=1 LOCAL_SIZE=8 MASTER_PORT=29500"
TWO_AGENTS = (
    "TORCHELASTIC_RUN_ID=none RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 "
    "GROUP_RANK=1 GROUP_WORLD_SIZE=2 MASTER_PORT=29500"
)
RAY_TRAIN = (
    "RAY_JOB_ID=01000000 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 "
    "MASTER_ADDR=localhost MASTER_PORT=41231"
)


@pytest.mark.parametrize(
    ("env", "is_said"),
    [
        # DeepSpeed and torchrun set the address themselves, of the machine of a test.
        (f"{DEEPSPEED} RANK=9 CROSS_RANK=1 CROSS_SIZE=2 MASTER_ADDR=127.0.0.1", True),
        (f"{DEEPSPEED} RANK=9 CROSS_RANK=1 CROSS_SIZE=2 MASTER_ADDR=10.0.0.4", False),
        (f"{TWO_AGENTS} MASTER_ADDR=localhost", True),
        (f"{TWO_AGENTS} MASTER_ADDR=n1", False),
        (f"{RAY_TRAIN} RANK=3 NODE_RANK=1", True),
        (f"{RAY_TRAIN} RANK=0 NODE_RANK=0", False),
    ],
)
def test_loopback_address_of_several_nodes_is_said(env: str, is_said: bool) -> None:
    given = variables(env)

    said = " ".join(notes(resolve_environment(given), given))

    assert ("only if all of them are on one machine" in said) == is_said


def test_loopback_address_that_nobody_uses_is_not_refused() -> None:
    env = {**PALS_WITH_PMI, "MASTER_ADDR": "localhost"}

    assert resolve_environment(env, has_address=True).rank == 1
    with pytest.raises(LaunchEnvironmentError, match="MASTER_ADDR=localhost means"):
        resolve_environment(env)


@pytest.mark.parametrize(
    ("more", "rank"),
    [
        ({"PET_NPROC_PER_NODE": "1"}, 0),
        ({"PET_NPROC_PER_NODE": "1", "PET_NODE_RANK": "0"}, 0),
        ({"PET_NPROC_PER_NODE": "1", "LOCAL_RANK": "0"}, 0),
        ({"PET_NPROC_PER_NODE": "8"}, None),
    ],
)
def test_master_pod_of_a_pytorchjob_may_have_the_loopback_address(
    more: dict[str, str], rank: int | None
) -> None:
    # kubeflow's pytorch-operator gives the pod of rank 0 the address localhost.
    env = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"}

    found = resolve_environment({**env, **more, "PET_NNODES": "2"})

    assert (found.rank, found.master_addr) == (rank, "localhost")


@pytest.mark.parametrize(("processes", "rank"), [("1", 0), ("8", None)])
def test_master_pod_without_pet_variables_may_have_the_loopback_address(
    processes: str, rank: int | None
) -> None:
    # KubeDL sets the first three, and a user the last one.
    env = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost"}

    found = resolve_environment({**env, "NPROC_PER_NODE": processes})

    assert (found.rank, found.num_nodes, found.master_addr) == (rank, 2, "localhost")
