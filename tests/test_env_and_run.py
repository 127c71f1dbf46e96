"""``ranktable env`` and ``ranktable run`` as installed commands."""

from __future__ import annotations

import json
import re
import signal
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ranktable.cluster.generate import make_table
from ranktable.cluster.host_lists import expand_hosts, fold_hosts
from ranktable.runtime.agents import agents_of, find_agent
from ranktable.runtime.environment import Environment
from ranktable.runtime.environment_notes import unused
from ranktable.runtime.resolution import resolve_claims
from ranktable.schema.writing import dump
from tests.commands import (
    BIN,
    run_in_shell,
    run_process,
    start_process,
    torch_environment,
)
from tests.environments import variables
from tests.ranks import free_port, run_program
from tests.test_launchers import CASES, SLURM

if TYPE_CHECKING:
    from tests.commands import Commands
    from tests.conftest import Run


# One node of two hosts whose launcher calls them what the table does.


@pytest.mark.parametrize("name", CASES)
def test_every_variable_that_a_launcher_sets_is_used(name: str) -> None:
    env = CASES[name].env
    used = {claim.variable for claim, _ in resolve_claims(env)}

    # A batch script has variables of a task, and is not one.
    assert len([*unused(env, used)]) == (name == "slurm batch script")


@pytest.mark.parametrize(("chips", "status"), [("1", 0), ("0,1", 1)])
def test_device_0_of_a_list_of_one_chip_is_not_another_rank_of_a_table(
    run: Run, tmp_path: Path, chips: str, status: int
) -> None:
    dump(make_table([range(2)]), tmp_path / "t.json")
    mpi = "OMPI_COMM_WORLD_{0}RANK=1 OMPI_COMM_WORLD_{0}SIZE=2 "
    env = variables(mpi.format("") + mpi.format("LOCAL_") + "LOCAL_RANK=0")
    more = {"CUDA_VISIBLE_DEVICES": chips, "RANK_TABLE_FILE": "t.json"}

    assert run("ranktable", "env", env={**env, **more}).status == status


@pytest.mark.parametrize(("chips", "code"), [("0,1", ""), ("1,0", "RT705")])
def test_env_compares_the_list_with_the_chip_of_the_table(
    run: Run, tmp_path: Path, chips: str, code: str
) -> None:
    dump(make_table([range(2)]), tmp_path / "t.json")
    env = variables("RANK=1 LOCAL_RANK=1 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=n")
    more = {"CUDA_VISIBLE_DEVICES": chips, "RANK_TABLE_FILE": "t.json"}
    done = run("ranktable", "env", env={**env, **more})

    assert (done.status, f"error[{code}]" in done.out) == (bool(code), bool(code))
    assert "error" not in done.out or code


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("PET_NNODES=1:4 PET_NPROC_PER_NODE=8", "PET_NNODES=1:4 is a range: only"),
        ("SM_HOSTS=algo-1,algo-2 SM_CURRENT_HOST=algo-2", "is not a list of names in"),
        ("DMLC_ROLE=worker DMLC_NUM_WORKER=4", "when they come, so no variable has a"),
        ("_CONDOR_PROCNO=1 _CONDOR_NPROCS=2", "says: torchrun --nnodes 2 --node-rank"),
        ("_CONDOR_PROCNO=1", "not used: _CONDOR_PROCNO; a process of htcondor has _"),
    ],
)
def test_env_says_what_a_platform_does_not_tell(
    run: Run, text: str, words: str
) -> None:
    done = run("ranktable", "env", "--explain", env=variables(text))

    assert done.status == 0
    assert words in done.out


TWO_NODES = make_table([[3, 1], [0, 2, 4]], hosts=["n1.site", "n2.site"])


def test_run_refuses_a_table_without_this_node(run: Run, tmp_path: Path) -> None:
    dump(TWO_NODES, tmp_path / "t.json")
    done = run("ranktable", "run", "--table", "t.json", "x.py")

    assert done.status == 2
    assert "this node is not among the 2 of the table: no host of it is " in done.err


def test_rank_of_one_process_a_node_is_the_node() -> None:
    agents = agents_of(make_table([[3, 1], [0, 2]]))
    alone = Environment(rank=1, world_size=2, local_rank=0, local_world_size=1)
    together = Environment(rank=1, world_size=2, local_rank=1, local_world_size=2)

    assert find_agent(agents, alone, "x") == agents[1]
    assert find_agent(agents, together, "x") is None


def test_launchers_name_of_the_host_comes_before_its_index() -> None:
    # Slurm sorts its nodes; the table has them in another order.
    agents = agents_of(make_table([[3, 1], [0, 2]], hosts=["n2", "n1"]))
    first = Environment(rank=0, world_size=2, node_rank=0, host="n1")

    assert find_agent(agents, first, "container-7") == agents[1]


def test_node_that_is_named_may_have_a_launcher_of_its_own(
    run: Run, tmp_path: Path
) -> None:
    dump(make_table([[3, 1], [0, 2]]), tmp_path / "t.json")
    alone = {
        **SLURM,
        **variables(
            "SLURM_STEP_NUM_TASKS=1 SLURM_STEP_NUM_NODES=1 SLURM_STEP_NODELIST=gpu08 "
            "SLURM_STEP_TASKS_PER_NODE=1 SLURM_PROCID=0 SLURM_NODEID=0"
        ),
    }
    options = ("--table", "t.json", "--node", "1", "--master-addr", "n 1", "x.py")
    done = run("ranktable", "run", *options, env=alone)

    # The node is taken; what comes after it is refused.
    assert "ranktable: --master-addr is 'n 1'" in done.err


def test_agents_follow_the_ranks_not_the_file() -> None:
    reversed_nodes = TWO_NODES.nodes[::-1]
    table = type(TWO_NODES)(nodes=reversed_nodes)

    assert [(agent.node_rank, agent.host) for agent in agents_of(table)] == [
        (0, "n1.site"),
        (1, "n2.site"),
    ]


@pytest.mark.parametrize(
    ("host_name", "node_rank", "found"),
    [
        ("n2.site", None, 1),
        ("n2", None, 1),
        ("n2.other", 0, None),
        ("x", 1, None),
    ],
)
def test_node_is_found_by_its_name_alone_if_the_table_has_names(
    host_name: str, node_rank: int | None, found: int | None
) -> None:
    environment = Environment(node_rank=node_rank)
    agent = find_agent(agents_of(TWO_NODES), environment, host_name)

    assert (agent.node_rank if agent else None) == found


@pytest.mark.parametrize("node_rank", [1, 5, None])
def test_launchers_index_counts_where_the_table_has_no_names(
    node_rank: int | None,
) -> None:
    environment = Environment(node_rank=node_rank)
    nameless = agents_of(make_table([[3, 1], [0, 2]]))
    elsewhere = agents_of(make_table([[3, 1], [0]], hosts=["203.0.113.1", "::9"]))
    for agents in (nameless, elsewhere):
        agent = find_agent(agents, environment, "x")

        assert agent == (agents[1] if node_rank == 1 else None)


def test_node_is_found_by_its_address() -> None:
    agents = agents_of(make_table([[3, 1], [0, 2]], hosts=["203.0.113.1", "127.0.0.1"]))

    assert find_agent(agents, Environment(node_rank=0), "x") == agents[1]


def in_step(hosts: list[str], index: int) -> dict[str, str]:
    """Return the environment of one node of a step of Slurm."""
    return {
        "SLURM_PROCID": str(index),
        "SLURM_NODEID": str(index),
        "SLURM_STEP_NUM_TASKS": str(len(hosts)),
        "SLURM_STEP_NUM_NODES": str(len(hosts)),
        "SLURM_STEP_NODELIST": fold_hosts(hosts),
        "SLURM_STEP_TASKS_PER_NODE": f"1(x{len(hosts)})",
        "SLURM_LOCALID": "0",
        "SLURMD_NODENAME": hosts[index],
    }


RUN = ("ranktable", "run", "--table", "a table.json", "x.py")
FITS = "ranktable: there is no script 'x.py'\n"  # the hosts are compared before


def test_long_lists_of_hosts_are_cut(run: Run, tmp_path: Path) -> None:
    dump(make_table([[0]], hosts=["a"]), tmp_path / "a table.json")
    done = run(*RUN, env=in_step(["a", *(f"{at}x{at}" for at in range(99))], 0))

    assert done.err.startswith(
        "ranktable: the table has no node 0x0,1x1,2x2,3x3,4x4,5x5,6x6,7x7 and 91 more\n"
    )


@pytest.mark.parametrize("layout", ["", "--tp 2", "--tp 2 --pp 2"])
@pytest.mark.parametrize(
    "step",
    [
        "n[1-2]",  # fewer
        "n[1-2,4,7]",  # one is replaced
        "n[1-8]",  # more
        "n[1-5]",  # one more; a copy of the model may need two
        "n2,m[5-6].site",  # fewer, and one is replaced
        "m[1-4]",  # all are replaced
        "n[1-3],spare",  # one is replaced by the spare
        "n[2-4],spare,m1",  # more than are lost
        "n[1-4],spare",
        "n[1-3]",
    ],
)
def test_advice_fits_the_table_to_the_nodes_that_are_there(
    step: str,
    layout: str,
    run: Run,
    tmp_path: Path,
    commands: Commands,
) -> None:
    made = run(
        *("ranktable", "gen", "--device-id", "[[0..1]]", "--hosts", "n[1-4].site"),
        *layout.split(),
        *("-o", "a table.json"),
    )
    more = run("ranktable", "fit", "a table.json", "--spare", "spare", "-i")
    hosts = expand_hosts(step)
    assert (made.status, more.status) == (0, 0)
    for _ in range(4):
        done = run(*RUN, env=in_step(hosts, 0))
        line = re.search(r"(?<=: )ranktable .*", done.err)
        only = re.search(
            r"with srun --nodes (\d+) --nodelist (\S+)$", done.err, re.MULTILINE
        )
        if line is not None:
            changed = run_in_shell(line[0], tmp_path, programs=commands.folder)
            assert changed.status == 0, changed.err
        elif only is not None:
            hosts = expand_hosts(only[2].strip("'"))
            assert len(hosts) == int(only[1])

    assert done.err == FITS


def test_advice_reads_addresses_of_new_chips_from_probe(
    run: Run, tmp_path: Path, commands: Commands
) -> None:
    table = make_table(
        [[0], [0]], hosts=["a", "b"], addresses=[["1.2.3.1"], ["1.2.3.2"]]
    )
    dump(table, tmp_path / "a table.json")
    hosts = ["a", "c"]
    refused = run(*RUN, env=in_step(hosts, 0))
    line = re.search("(srun --nodes 2 --nodelist a,c ranktable probe .*)", refused.err)
    chips = [{"device_id": 0, "address": "1.2.3.3"}]
    probes = [json.dumps({"probe": 1, "host": host, "chips": chips}) for host in hosts]
    assert line is not None, refused.err
    (tmp_path / "probes").write_text("\n".join(probes))
    srun = f"srun() {{ cat probes; }}; {line[1]}"
    changed = run_in_shell(srun, tmp_path, programs=commands.folder)

    assert changed.status == 0, changed.err
    assert run(*RUN, env=in_step(hosts, 1)).err == FITS
    assert "1.2.3.3" in (tmp_path / "a table.json").read_text()


@pytest.mark.torch
def test_run_says_which_node_it_waits_for(tmp_path: Path) -> None:
    hosts = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
    dump(make_table([[0], [0], [0]], hosts=hosts), tmp_path / "t.json")
    (tmp_path / "s.py").write_text("")
    port = str(free_port())
    started = []
    for node in ("0", "2"):
        given = ("run", "--table=t.json", "--node", node, "--master-port", port, "s.py")
        command: list[str | Path] = [BIN / "ranktable", *given]
        env = torch_environment()
        started.append(start_process(command, cwd=tmp_path, env=env, pipes=["stderr"]))
    try:
        assert started[0].stderr is not None
        said = started[0].stderr.readline()
    finally:
        for process in started:
            process.kill()
            process.communicate()

    assert said == (
        "ranktable: waiting for node 1 (127.0.0.2); start ranktable run there too\n"
    )


@pytest.mark.torch
def test_node_that_does_not_reach_node_0_says_why(tmp_path: Path) -> None:
    dump(make_table([[0], [0]]), tmp_path / "t.json")
    (tmp_path / "s.py").write_text("")
    silent = socket.create_server(("127.0.0.1", 0))  # another program
    its_port = silent.getsockname()[1]
    port = free_port()
    cases = {
        ("127.0.0.1", port): (
            f"127.0.0.1, port {port}, does not answer: connection refused"
        ),
        ("nosuch.invalid", port): (
            "nosuch.invalid has no address on this node; --master-addr names another "
            "host"
        ),
        ("127.0.0.1", its_port): (
            f"what answers at 127.0.0.1, port {its_port}, is not torchrun; if another "
            "program uses the port, give another --master-port on every node"
        ),
    }
    started = []
    for addr, its in cases:
        to = ["--node", "1", "--master-addr", addr, "--master-port", str(its)]
        command: list[str | Path] = [BIN / "ranktable", "run", "--table", "t.json"]
        env = torch_environment()
        process = start_process(
            [*command, *to, "s.py"], cwd=tmp_path, env=env, pipes=["stderr"]
        )
        started.append(process)
    try:
        said = []
        for process in started:
            assert process.stderr is not None
            # torch writes warnings between them
            said += [next(line for line in process.stderr if "waiting" in line)]
    finally:
        for process in started:
            process.kill()
            process.communicate()
        silent.close()

    assert said == [f"ranktable: waiting for node 0: {why}\n" for why in cases.values()]


@pytest.mark.torch
def test_port_of_another_program_is_named_without_a_traceback(tmp_path: Path) -> None:
    dump(make_table([[0], [0]]), tmp_path / "t.json")
    (tmp_path / "s.py").write_text("")
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        to = ["--node", "0", "--master-addr", "127.0.0.1", "--master-port", str(port)]
        done = run_process(
            [BIN / "ranktable", "run", "--table", "t.json", *to, "s.py"],
            cwd=tmp_path,
            env=torch_environment(),
        )

    assert done.status == 1
    assert "Traceback" not in done.err
    last = done.err.splitlines()[-1]
    assert last.startswith("ranktable: torchrun: ")
    assert f"port: {port}" in last
    assert "in use" in last


def on_this_node(folder: Path, script: str) -> list[str]:
    """Write a table of two chips and a script; return the arguments of run."""
    dump(make_table([[0, 1]]), folder / "t.json")
    (folder / "s.py").write_text(script)
    return ["run", "--rank-table", str(folder / "t.json"), str(folder / "s.py")]


WAIT = """
import os, pathlib, signal, sys, time
signal.signal(signal.SIGINT, lambda *_: sys.exit(3))
folder = pathlib.Path(__file__).parent
(folder / f"{os.environ['RANK']}.new").write_text(str(os.getpid()))
(folder / f"{os.environ['RANK']}.new").rename(folder / os.environ["RANK"])
time.sleep(600)
"""


@pytest.mark.torch
@pytest.mark.parametrize("options", [[], ["--signals-to-handle", "SIGTERM"]])
def test_run_ends_quietly_and_completely_on_ctrl_c(
    tmp_path: Path, options: list[str]
) -> None:
    from torch.distributed.run import get_args_parser

    *arguments, script = on_this_node(tmp_path, WAIT)
    known = get_args_parser().format_help()
    if not all(option in known for option in options[:1]):
        pytest.skip("this torchrun is older than the option")
    arguments += [*options, script]
    process = start_process(
        [BIN / "ranktable", *arguments], pipes=["stderr"], env=torch_environment()
    )
    end = time.monotonic() + 120
    while not all((tmp_path / rank).exists() for rank in "01"):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.05)

    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)

    assert process.returncode == 130
    assert "Traceback" not in said
    for rank in "01":
        assert not Path("/proc", (tmp_path / rank).read_text()).exists()


LAST_WORDS = """
import os, signal, sys, time
def end(*_):
    print("x" * 300_000)
    sys.exit("last words")
signal.signal(signal.SIGTERM, end)
print(os.getpid(), "up", flush=True)
time.sleep(600)
"""


@pytest.mark.torch
def test_run_that_is_ended_shows_all_output_of_its_ranks_to_a_slow_reader(
    tmp_path: Path,
) -> None:
    *arguments, script = on_this_node(tmp_path, LAST_WORDS)
    process = start_process(
        [BIN / "ranktable", *arguments, "--tee", "3", script],
        pipes=["stdout", "stderr"],
        env=torch_environment(),
    )
    assert process.stdout is not None
    pids = [process.stdout.readline().partition(":")[2].split()[0] for _ in "01"]
    process.send_signal(signal.SIGTERM)
    end = time.monotonic() + 120
    while any(Path("/proc", pid).exists() for pid in pids):
        assert time.monotonic() < end
        time.sleep(0.05)
    time.sleep(3)  # the pipe is full
    out, said = process.communicate(timeout=120)

    assert process.returncode == 128 + signal.SIGTERM
    assert out.count("x") >= 600_000
    assert said.count("last words") == 2


@pytest.mark.torch
@pytest.mark.parametrize("node", [0, 1])
def test_ctrl_c_ends_a_run_that_waits_for_another_node(
    tmp_path: Path, node: int
) -> None:
    dump(make_table([[0], [0]]), tmp_path / "t.json")
    (tmp_path / "s.py").write_text("")
    if node == 0:
        port, silent = free_port(), None
    else:  # a master that accepts and says nothing
        silent = socket.create_server(("127.0.0.1", 0))
        port = silent.getsockname()[1]
    given = ["--node", str(node), "--master-addr", "127.0.0.1"]
    given += ["--master-port", str(port), "--rank-table", str(tmp_path / "t.json")]
    process = start_process(
        [BIN / "ranktable", "run", *given, str(tmp_path / "s.py")],
        pipes=["stderr"],
        env=torch_environment(),
    )
    if silent is None:
        end = time.monotonic() + 120
        while (probe := socket.socket()).connect_ex(("127.0.0.1", port)):
            probe.close()
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end
            time.sleep(0.05)
        peer = probe
    else:
        silent.settimeout(120)
        peer, _ = silent.accept()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=120)  # torchrun waits for 15 min

    assert process.returncode == 130
    assert "Traceback" not in said
    peer.close()
    if silent is not None:
        silent.close()


@pytest.mark.torch
def test_run_that_is_told_to_end_before_torchrun_works_says_nothing(
    tmp_path: Path,
) -> None:
    arguments = on_this_node(tmp_path, "")
    (tmp_path / "torch").mkdir()
    interrupt = "import os, signal, time\nos.kill(os.getpid(), 2)\ntime.sleep(60)\n"
    (tmp_path / "torch" / "__init__.py").write_text(interrupt)
    env = {**torch_environment(), "PYTHONPATH": str(tmp_path)}
    done = run_process([BIN / "ranktable", *arguments], env=env)

    assert (done.status, done.out, done.err) == (130, "", "")


@pytest.mark.torch
def test_run_shows_the_traceback_of_the_script_alone(tmp_path: Path) -> None:
    wait = "import os, time\nif os.environ['RANK'] == '0': time.sleep(600)\n"
    arguments = on_this_node(tmp_path, f"{wait}raise KeyError('mine')\n")
    done = run_program("ranktable", *arguments)

    assert done.status == 1
    assert done.err.startswith("Traceback (most recent call last):\n")
    assert done.err.count("Traceback (most recent") == 1
    assert "KeyError: 'mine'\n" in done.err
    assert "s.py FAILED" in done.err


@pytest.mark.torch
def test_run_starts_the_processes_of_this_node(tmp_path: Path) -> None:
    table = make_table([[3, 1]], hosts=[socket.gethostname()])
    dump(table, tmp_path / "t.json")
    (tmp_path / "s.py").write_text(
        "import sys, ranktable\n"
        "from ranktable.runtime import resolve_environment\n"
        "rank = resolve_environment().rank\n"
        "chip = ranktable.read_rank_table()[rank]\n"
        "sys.stdout.write(f'{rank} {chip} {sys.argv[1:]}\\n')"
    )
    # A rendezvous and a program of torchrun's own variables are not the table's.
    env = {"PET_RDZV_BACKEND": "nowhere", "PET_NO_PYTHON": "1", **torch_environment()}
    given = [str(tmp_path / "t.json"), str(tmp_path / "s.py"), "--lr", "0.1"]
    done = run_program("ranktable", "run", "--table", *given, env=env)

    assert done.status == 0, done.err
    assert sorted(done.out.splitlines()) == [
        "0 3 ['--lr', '0.1']",
        "1 1 ['--lr', '0.1']",
    ]


SRUN_TASK = variables(
    "SLURM_JOB_ID=44 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0 "
    "SLURM_STEP_NUM_TASKS=2 SLURM_STEP_NUM_NODES=2 SLURM_STEP_NODELIST=g[1-2] "
    "SLURM_STEP_TASKS_PER_NODE=1(x2) SLURM_GTIDS=0"
)


def test_run_names_the_step_that_has_one_task_here_and_several_elsewhere(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "train.py").touch()
    dump(
        make_table([range(2)] * 4, hosts=["n1", "n2", "n3", "n4"]), tmp_path / "t.json"
    )
    env = {
        **SRUN_TASK,
        **variables(
            "SLURM_PROCID=6 SLURM_NODEID=2 SLURM_GTIDS=6 SLURM_STEP_NUM_TASKS=8 "
            "SLURM_STEP_NUM_NODES=4 SLURM_STEP_TASKS_PER_NODE=4,2,1(x2) "
            "SLURM_STEP_NODELIST=n[1-4] SLURMD_NODENAME=n3"
        ),
    }
    done = run("ranktable", "run", "--rank-table", "t.json", "train.py", env=env)

    assert done.status == 1
    assert "slurm started 8 processes on 4 nodes" in done.err
    assert "srun --ntasks-per-node=1" in done.err


@pytest.mark.torch
def test_run_warns_of_fewer_chips_than_processes(run: Run, tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    dump(make_table([range(2)]), tmp_path / "t.json")
    words = ("ranktable", "run", "--rank-table", "t.json", "--node", "0")
    port = ("--master-port", str(free_port()), "train.py")
    fewer = run(*words, *port, env={"CUDA_VISIBLE_DEVICES": "0"})
    hidden = run(*words, *port, env={"CUDA_VISIBLE_DEVICES": ""})

    assert "2 processes will start here, and 1 chip can be seen" in fewer.err
    assert "unset CUDA_VISIBLE_DEVICES" in fewer.err
    assert "warning: 2 processes" not in hidden.err
    other = run(*words, *port, env={"CUDA_VISIBLE_DEVICES": "1,0"})
    assert 'DEVICES="1,0" shows 1,0, and the table has 0,1' in other.err
    assert "warning" not in run(*words, *port, env={"CUDA_VISIBLE_DEVICES": "0,1"}).err
