"""Every launcher by the literal environment that it sets, with its version."""

from __future__ import annotations

import re
from types import MappingProxyType

import pytest

from ranktable.runtime import (
    ConflictingVariablesError,
    InvalidVariableError,
    LaunchEnvironmentError,
    MissingVariableError,
    resolve_environment,
)
from ranktable.runtime.environment import advice, no_rank
from ranktable.runtime.launchers.slurm import tasks_per_node
from ranktable.runtime.resolution import Outcome, resolve_claims
from tests.environments import variables
from tests.launch_cases import found_in, read_cases

# srun of Slurm 22.05: 6 tasks on two nodes, task 4.
SLURM = variables(
    "SLURM_JOB_ID=4711 SLURM_STEP_ID=0 SLURM_PROCID=4 SLURM_LOCALID=0 SLURM_NODEID=1 "
    "SLURM_NTASKS=6 SLURM_STEP_NUM_TASKS=6 SLURM_STEP_TASKS_PER_NODE=4,2 "
    "SLURM_STEP_NODELIST=gpu[07-08] SLURM_STEP_NUM_NODES=2 "
    "SLURM_JOB_NODELIST=gpu[01-08] SLURM_NODELIST=gpu[01-08] SLURM_NNODES=2"
)
# srun -N2 --ntasks-per-node=1 of Slurm 22.05, task 1: the step of agents.
AGENTS = variables(
    "SLURM_JOB_ID=4711 SLURM_STEP_ID=0 SLURM_PROCID=1 SLURM_LOCALID=0 SLURM_NODEID=1 "
    "SLURM_GTIDS=1 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_TASKS_PER_NODE=1(x2) "
    "SLURM_STEP_NODELIST=gpu[07-08] SLURM_STEP_NUM_NODES=2"
)
# torchrun of torch 2.13.0: 2 nodes, 4 processes each, rank 5.
TORCHRUN = variables(
    "TORCHELASTIC_RUN_ID=none RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 "
    "GROUP_RANK=1 GROUP_WORLD_SIZE=2 MASTER_ADDR=gpu07 MASTER_PORT=29400"
)
# mpirun of Open MPI 4.1.4: 4 processes on two hosts, rank 3.
OPEN_MPI = variables(
    "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 "
    "OMPI_COMM_WORLD_LOCAL_SIZE=2 OMPI_COMM_WORLD_NODE_RANK=1 OMPI_UNIVERSE_SIZE=16 "
    "PMIX_RANK=3"
)


CASES = read_cases("alone")
EVERY = {**CASES, **read_cases("nested"), **read_cases("wrong")}


@pytest.mark.parametrize("name", EVERY)
def test_environment_says_what_its_launchers_mean(name: str) -> None:
    found, says, env = EVERY[name]

    assert found_in(env) == found
    for words in says:
        assert words in no_rank(resolve_environment(env), env).message


WRONG = [name for name in EVERY if EVERY[name].found.startswith("RT30")]


@pytest.mark.parametrize("name", WRONG)
def test_values_that_are_wrong_are_told(name: str) -> None:
    found, _, env = EVERY[name]
    code, *variables = found.replace(",", "").split()
    with pytest.raises(LaunchEnvironmentError) as raised:
        resolve_environment(env)
    said = str(raised.value)

    if code == "RT302":
        assert re.match(rf"RT302 {variables[0]}(, item [0-9]+,)? is ", said), said
    for variable in variables:
        shown = f"{variable}={env[variable]}" if code == "RT303" else variable
        assert shown in said


OUTSIDE = (
    *("socket.socket", "socket.getaddrinfo", "socket.gethostname"),
    *("subprocess.Popen", "os.system", "os.fork", "os.getenv", "os.stat", "os.open"),
    *("io.open", "builtins.open"),
)


@pytest.mark.parametrize("name", CASES)
def test_resolver_looks_at_nothing_but_the_variables(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def outside(*_: object, **__: object) -> None:
        raise AssertionError(name)

    variables = MappingProxyType(CASES[name].env)
    with monkeypatch.context() as patched:
        for place in OUTSIDE:
            patched.setattr(place, outside)
        found = resolve_environment(variables)

    assert found == resolve_environment(variables)


@pytest.mark.parametrize(
    "env",
    [
        {"OMPI_COMM_WORLD_RANK": "1"},
        {"PMI_RANK": "3"},
        {"FLUX_TASK_RANK": "3"},
        {"PADDLE_TRAINER_ID": "3"},
        {"RANK_SIZE": "8"},
        {"MS_ROLE": "MS_WORKER", "MS_NODE_ID": "3"},
    ],
)
def test_rank_without_size_is_never_rank_of_one(env: dict[str, str]) -> None:
    with pytest.raises(MissingVariableError, match=r"is not set; set or unset both"):
        resolve_environment(env)


@pytest.mark.parametrize(
    ("env", "word"),
    [
        (CASES["slurm batch script"].env, "srun"),
        (CASES["slurm adopted ssh"].env, "srun"),
        (CASES["mpich by port"].env, "without -pmi-port"),
        (CASES["pbs job"].env, "PBS_NODEFILE"),
        (CASES["sge job"].env, "PE_HOSTFILE"),
        (CASES["kubernetes indexed job"].env, "every pod"),
    ],
)
def test_job_without_ranks_says_how_to_get_them(env: dict[str, str], word: str) -> None:
    assert resolve_environment(env).rank is None
    assert word in (advice(env) or "")


@pytest.mark.parametrize("value", ["\x1b[31m", "1\n", "9" * 9999, "\udcff", "\0"])
@pytest.mark.parametrize(
    ("env", "variable"),
    [
        (TORCHRUN, "RANK"),
        (SLURM, "SLURM_STEP_NODELIST"),
        (CASES["sophgo"].env, "CHIP_MAP"),
    ],
)
def test_message_is_one_short_line(
    env: dict[str, str], variable: str, value: str
) -> None:
    with pytest.raises(LaunchEnvironmentError) as raised:
        resolve_environment({**env, variable: value})

    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 500
    assert raised.value.variables[variable] == value


def test_invalid_claim_leaves_the_others_to_be_shown() -> None:
    resolved = resolve_claims({**TORCHRUN, "WORLD_SIZE": "8x"})
    outcomes = {(claim.variable, claim.value): outcome for claim, outcome in resolved}

    assert outcomes["RANK", 5] is Outcome.WON
    assert outcomes["WORLD_SIZE", None] is Outcome.INVALID


def test_jobs_side_by_side_have_ports_of_their_own() -> None:
    ports = {
        resolve_environment(
            {**SLURM, "SLURM_JOB_ID": str(job), "SLURM_STEP_ID": str(step)}
        ).master_port
        for job in range(4711, 4731)
        for step in range(20)
    }

    assert len(ports) == 400


def test_wrong_item_of_a_list_is_named_and_the_list_kept() -> None:
    with pytest.raises(InvalidVariableError) as raised:
        resolve_environment({**SLURM, "SLURM_GTIDS": "4,,5"})

    assert raised.value.message.startswith("SLURM_GTIDS, item 2, is '', not a plain")
    assert raised.value.variables == {"SLURM_GTIDS": "4,,5"}


def test_job_of_a_federation_has_a_port() -> None:
    env = {**SLURM, "SLURM_JOB_ID": "4227858433"}  # of the last cluster that can be

    port = resolve_environment(env).master_port
    assert port is not None
    assert 20_000 <= port < 30_000


def test_local_rank_shows_that_rank_is_the_process() -> None:
    env = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "3", "NPROC_PER_NODE": "4"}
    found = resolve_environment(env)

    assert (found.rank, found.node_rank, found.launcher) == (3, None, "environment")


def test_what_an_outer_launcher_cannot_mean_is_shadowed() -> None:
    found = resolve_environment({**SLURM, **TORCHRUN, "SLURM_JOB_NODELIST": "other"})

    assert (found.rank, found.launcher) == (5, "torchrun")


def test_step_that_a_script_inherited_is_shadowed_by_its_mpirun() -> None:
    # mpirun -n 2 has as many processes as the step had from which sbatch was called.
    inherited = EVERY["batch script that inherited a step"].env
    ranks = {**OPEN_MPI, "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2",
             "OMPI_COMM_WORLD_LOCAL_RANK": "0"}  # fmt: skip
    found = resolve_environment({**inherited, **ranks})

    assert (found.rank, found.world_size, found.launcher) == (0, 2, "open mpi")


def test_shadowed_claims_are_shown_as_such() -> None:
    env = {**AGENTS, **TORCHRUN}
    outcomes = {
        (claim.field, claim.launcher): outcome for claim, outcome in resolve_claims(env)
    }

    assert outcomes["rank", "torchrun"] is Outcome.WON
    assert outcomes["rank", "slurm"] is Outcome.SHADOWED
    assert outcomes["master_addr", "slurm"] is Outcome.SHADOWED


@pytest.mark.parametrize(
    ("text", "runs"),
    [("8", [(8, 1)]), ("8(x2),4", [(8, 2), (4, 1)]), ("1(x128)", [(1, 128)])],
)
def test_counts_per_node_are_read(text: str, runs: list[tuple[int, int]]) -> None:
    assert tasks_per_node(text) == runs


@pytest.mark.parametrize(
    "text", ["", "8,", "8(2)", "8(x)", "x2", "8 (x2)", "-1", "٨", "08", "8(x0)"]
)
def test_malformed_counts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^"):
        tasks_per_node(text)


@pytest.mark.parametrize(
    ("env", "stranger"),
    [
        ({"SM_HOSTS": '["algo-1","algo-2"]'}, ("SM_CURRENT_HOST", "algo-3", "algo-2")),
        (
            {"DSTACK_NODE_RANK": "1", "DSTACK_NODES_NUM": "2"}
            | {"DSTACK_NODES_IPS": "10.9.0.1\n10.9.0.2"},
            ("DSTACK_MASTER_NODE_IP", "10.9.0.7", "10.9.0.1"),
        ),
    ],
)
def test_host_that_is_not_in_the_list_of_the_platform_is_a_conflict(
    env: dict[str, str], stranger: tuple[str, str, str]
) -> None:
    variable, wrong, right = stranger

    with pytest.raises(ConflictingVariablesError, match="which is not in"):
        resolve_environment({**env, variable: wrong})
    assert resolve_environment({**env, variable: right}).num_nodes == 2
