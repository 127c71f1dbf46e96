"""Process groups in real processes: gloo on the loopback interface."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ranktable
from ranktable.cluster.generate import make_table
from ranktable.runtime import (
    ConflictingVariablesError,
    MissingVariableError,
    init_process_group,
)
from ranktable.runtime.backends.backend import choose_backend
from ranktable.runtime.environment import Environment
from ranktable.runtime.errors import BootstrapError
from ranktable.runtime.process_group import place
from ranktable.runtime.rendezvous import GRACE_S
from tests.commands import run_process, run_python, torch_environment
from tests.ranks import (
    HEAD,
    Process,
    finish,
    free_port,
    run_code,
    run_program,
    start,
    start_code,
    torchrun,
    write_table,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.torch

EXAMPLE = Path(__file__).parent.parent / "examples" / "all_reduce.py"
ORDER = [3, 1, 0, 2, 7, 6, 5, 4]
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}
"""The example takes NCCL where there is a GPU, and one is not enough for its ranks."""
LATE_S = 20.0
"""How late a process may be on a machine that does more; else it is ``GRACE_S``."""
MOST_MODULES = 30
"""Modules of ours that a training process without a table may import."""


def test_init_process_group_without_a_table_loads_few_modules() -> None:
    code = (
        "import sys; from ranktable.runtime import init_process_group; "
        "init_process_group('gloo'); "
        "print(*(name for name in sys.modules if name.split('.')[0] == 'ranktable'))"
    )
    by_hand = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    env = {**torch_environment(), **by_hand, "MASTER_PORT": str(free_port())}
    words = run_python("-c", code, env=env).out.split()

    modules = [word for word in words if word.startswith("ranktable")]
    assert "ranktable.runtime.process_group" in modules
    assert len(modules) <= MOST_MODULES


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_example_adds_up_under_torchrun(world_size: int, tmp_path: Path) -> None:
    chips = ORDER[:world_size]
    table = write_table(tmp_path, [chips])
    done = torchrun(EXAMPLE, world_size, RANK_TABLE_FILE=table, **NO_GPU)
    total = ", ".join([f"{world_size}."] * 4)

    assert done.status == 0, done.err
    assert sorted(done.out.splitlines()) == [
        f"rank {rank}: chip {chip}: [{total}]" for rank, chip in enumerate(chips)
    ]


def test_two_nodes_are_two_agents(tmp_path: Path) -> None:
    table = write_table(tmp_path, [[3, 1], [0, 2]])
    port = str(free_port())
    options = ["--nnodes", "2", "--master-addr", "127.0.0.1", "--master-port", port]
    options += ["--nproc-per-node", "2"]
    env = {**torch_environment(), **NO_GPU, "RANK_TABLE_FILE": table}
    agents = [
        start("torchrun", *options, "--node-rank", str(node), EXAMPLE, env=env)
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
    done = run_code(code, 2, env={"RANK_TABLE_FILE": table})

    assert [(status, err) for status, _, err in done] == [(0, ""), (0, "")]
    assert [json.loads(out) for _, out, _ in done] == [
        [0, [0, 1], 0, "cpu", "gloo", 2.0],
        [1, [0, 1], 1, "cpu", "gloo", 2.0],
    ]


def test_address_that_is_an_argument_is_not_judged_by_the_variable() -> None:
    # Two nodes of mpirun on one machine; the variable was left over.
    code = """
with init_process_group("gloo", timeout_s=60, master_addr="127.0.0.1"):
    dist.barrier()  # none leaves before the others are connected
"""
    port = free_port()
    node = {"OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}
    size = {"OMPI_COMM_WORLD_SIZE": "2", "MASTER_ADDR": "localhost"}
    ranks = [
        start_code(code, rank, 2, port, OMPI_COMM_WORLD_RANK=str(rank), **size, **node)
        for rank in range(2)
    ]

    assert [(status, err) for status, _, err in finish(ranks)] == [(0, "")] * 2


def test_sub_groups_communicate_among_their_members(tmp_path: Path) -> None:
    table = write_table(tmp_path, [[3, 1, 0, 2]])
    code = """
with init_process_group("gloo", timeout_s=60) as job:
    groups = [job.new_group([0, 1]), job.new_group([3, 2], timeout_s=30)]
    mine = groups[job.rank // 2]
    tensor = torch.tensor([float(job.rank)])
    dist.all_reduce(tensor, group=mine)
    say(job.rank, tensor.item(), dist.get_process_group_ranks(mine))
    for wrong in ([], [0, 0], [0, 4], [-1], [0]):
        try:
            job.new_group(wrong, timeout_s=float("inf") if wrong == [0] else None)
        except ValueError as error:
            pass
        else:
            raise SystemExit(3)
say(dist.is_initialized())
"""
    done = run_code(code, 4, env={"RANK_TABLE_FILE": table})

    assert [(status, err) for status, _, err in done] == [(0, "")] * 4
    assert [json.loads(out.splitlines()[0]) for _, out, _ in done] == [
        [0, 1.0, [0, 1]],
        [1, 1.0, [0, 1]],
        [2, 5.0, [2, 3]],
        [3, 5.0, [2, 3]],
    ]
    assert {out.splitlines()[1] for _, out, _ in done} == {"[false]"}


def test_sub_group_gets_the_chips_of_its_members(tmp_path: Path) -> None:
    table = write_table(tmp_path, [[3, 1, 0]])
    code = """
from ranktable.runtime.backends.backend import Backend
seen = []
Backend.group_options = lambda self, chip_map: seen.append(chip_map)
with init_process_group("gloo", timeout_s=60) as job:
    job.new_group([2, 1])
    dist.barrier()  # torch makes the group in the store, which ends with rank 0
say(seen)
"""
    done = run_code(code, 3, env={"RANK_TABLE_FILE": table})

    # torch orders the members of a group by their global rank.
    assert [json.loads(out) for _, out, _ in done] == [[[[3, 1, 0], [1, 0]]]] * 3


FAILS = """
begin = time.monotonic()
try:
    init_process_group({arguments})
except (LaunchEnvironmentError, BootstrapError, ValueError) as error:
    say(type(error).__name__, str(error), dist.is_initialized())
    sys.stderr.write(f"{time.monotonic() - begin}")
"""


def failure(
    tmp_path: Path, *, arguments: str = '"gloo", timeout_s=5', rank: int = 0,
    world_size: int = 1, chips: Sequence[Sequence[int]] | None = None, **env: str,
) -> list[object]:  # fmt: skip
    if chips is not None:
        env["RANK_TABLE_FILE"] = write_table(tmp_path, chips)
    process = start_code(
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


def test_place_within_the_node_must_be_that_of_the_table() -> None:
    environment = Environment(rank=1, world_size=2, local_rank=0)

    with pytest.raises(ConflictingVariablesError) as raised:
        place(environment, make_table([[0, 1]]))
    assert "rank=1 and local_rank=0" in str(raised.value)
    assert "the rank table gives rank 1 local rank 1 on node 0" in str(raised.value)


def test_size_of_the_job_may_be_in_the_table_only(tmp_path: Path) -> None:
    code = """
with init_process_group("gloo", timeout_s=60) as job:
    say(job.rank, job.world_size, job.device_id)
"""
    env = {"RANK": "", "WORLD_SIZE": "", "RANK_ID": "0"}
    table = write_table(tmp_path, [[3]])
    process = start_code(code, 0, 1, free_port(), RANK_TABLE_FILE=table, **env)
    ((status, out, err),) = finish([process])

    assert (status, json.loads(out or "null")) == (0, [0, 1, 3]), err


def test_chip_map_must_be_that_of_the_table(tmp_path: Path) -> None:
    kind, text, _ = failure(tmp_path, chips=[[3]], CHIP_MAP="4")

    assert kind == "ConflictingVariablesError"
    assert str(text).startswith("RT305 CHIP_MAP is '4', but the rank table gives")


def test_broken_table_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bad.json"
    path.write_text('{"version":"1.0","node_list":[]}')
    monkeypatch.setattr(os, "environ", {"RANK": "0", "WORLD_SIZE": "1"})

    with pytest.raises(ranktable.RankTableError, match="RT116 node_list is empty"):
        init_process_group("gloo", table=path)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("mpi5", "there is no backend 'mpi5'; there are: sccl, nccl, hccl"),
        ("hccl", "hccl cannot be used"),
        ("sccl", "SOPHGO's torch_tpu is not installed"),
    ],
)
def test_backend_that_is_not_there_is_named(name: str, said: str) -> None:
    with pytest.raises(BootstrapError, match=said) as raised:
        choose_backend(name)
    assert raised.value.code == "RT401"


@pytest.mark.parametrize("value", [0, -1, 1e-9, 1e10, float("nan"), float("inf")])
def test_time_out_must_be_a_usable_number_of_seconds(value: float) -> None:
    with pytest.raises(ValueError, match=r"timeout_s is .* not a positive number"):
        init_process_group("gloo", timeout_s=value)


def test_table_may_be_a_path_of_bytes_and_the_error_names_it(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    given = write_table(tmp_path / "other", [[0, 1]])
    kind, text, _ = failure(
        tmp_path, arguments=f'"gloo", table={os.fsencode(given)!r}', chips=[[0]]
    )

    assert kind == "ConflictingVariablesError"
    assert f"the rank table has 2 ranks ({given})" in str(text)


def test_table_of_an_empty_path_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"RANK": "0", "WORLD_SIZE": "1"})

    with pytest.raises(ValueError, match="table is an empty path"):
        init_process_group("gloo", table="")


def test_device_is_not_guessed_without_a_local_rank() -> None:
    environment = Environment(rank=1, world_size=2)

    assert place(environment, None).device_id is None
    with pytest.raises(MissingVariableError, match=r"RT301 .* LOCAL_RANK") as raised:
        place(environment, None, needs_device=True)
    assert raised.value.variables == {"LOCAL_RANK": None, "RANK_TABLE_FILE": None}


def test_without_torch_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)
    monkeypatch.setitem(sys.modules, "torch", None)

    with pytest.raises(BootstrapError) as raised:
        choose_backend(None)
    assert raised.value.code == "RT401"
    assert "nccl cannot be used: torch is not installed" in str(raised.value)
    assert "gloo cannot be used: torch is not installed" in str(raised.value)


def test_second_group_is_refused_before_a_device_is_selected() -> None:
    code = """
from ranktable.runtime.backends.backend import Backend
with init_process_group("gloo", timeout_s=30):
    Backend.select_device = None
    try:
        init_process_group("gloo", timeout_s=30)
    except RuntimeError as error:
        say(str(error))
"""
    ((status, out, err),) = run_code(code, 1)

    assert (status, err) == (0, "")
    assert "has a process group already; end it first" in out


def test_without_a_launcher_the_way_out_is_shown() -> None:
    done = run_program("python", EXAMPLE)

    assert done.status == 1
    assert "RT301 RANK and WORLD_SIZE are not set" in done.err.splitlines()[-1]


def elapsed(stderr: str) -> float:
    """Return the seconds that a script wrote last, after torch's own log."""
    return float(stderr.splitlines()[-1])


def bootstrap_failure(port: int, *, rank: int, arguments: str) -> tuple[str, float]:
    """Return the message of a process that cannot join, and its seconds."""
    code = FAILS.replace("{arguments}", arguments)
    ((status, out, err),) = finish([start_code(code, rank, 2, port)])
    assert status == 0, err
    kind, text, _ = json.loads(out)
    assert kind == "BootstrapError"
    return text, elapsed(err)


def test_master_that_does_not_answer_is_named() -> None:
    text, seconds = bootstrap_failure(
        free_port(), rank=1, arguments='"gloo", timeout_s=2'
    )

    assert text.startswith("RT404 rank 1 cannot reach the master at 127.0.0.1:")
    assert "Connection refused; look at the output of rank 0" in text
    assert seconds < 2 + LATE_S


SILENT_NAME_SERVER = """
import fcntl, socket, struct, subprocess
from pathlib import Path

with socket.socket() as loopback:
    flags = struct.pack("16sh", b"lo", 1)  # IFF_UP
    fcntl.ioctl(loopback, 0x8914, flags)  # SIOCSIFFLAGS
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.1", 53))
Path("resolv.conf").write_text("nameserver 127.0.0.1")
Path("hosts").write_text("")
for name in ("resolv.conf", "hosts"):
    subprocess.run(["mount", "--bind", name, "/etc/" + name], check=True)

from ranktable.runtime import BootstrapError, init_process_group
try:
    init_process_group("gloo", timeout_s=2)
except BootstrapError as error:
    print(error, error.ranks)
"""
"""Rank 0, where no name is known and the name server does not answer."""


def test_rank_0_does_not_blame_another_program_for_a_silent_name_server(
    tmp_path: Path,
) -> None:
    alone = ["unshare", "--user", "--map-root-user", "--mount", "--net"]
    if run_process([*alone, "true"]).status != 0:
        pytest.skip("no namespaces here")
    place = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    late = {"MASTER_PORT": "29500", "RES_OPTIONS": "timeout:30 attempts:1"}
    done = run_process(
        [*alone, sys.executable, "-c", SILENT_NAME_SERVER],
        env={**torch_environment(), **place, **late},
        cwd=tmp_path,
    )

    assert done.out == (
        "RT404 rank 0 started the store of the job, but cannot connect to it at "
        "127.0.0.1:29500: no answer within 2 s; check that MASTER_ADDR is an address "
        "of this host, and whether the name server in /etc/resolv.conf answers, which "
        "torch asks for the name of each address (0,)\n"
    ), done.err


def test_master_that_is_no_store_is_told_from_one_that_is_slow() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:  # accepts, says nothing
        text, seconds = bootstrap_failure(
            listener.getsockname()[1], rank=1, arguments='"gloo", timeout_s=2'
        )

    from torch._C._distributed_c10d import TCPStore

    if hasattr(TCPStore, "clone"):
        assert "a program answers at 127.0.0.1:" in text
        assert "but not as torch's store does" in text
    else:  # a store of torch 2.4 or older says nothing when a client comes
        assert "the store of the job no longer answers rank 1" in text
    assert seconds < 2 + LATE_S


def test_port_that_is_taken_is_named_by_rank_0() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        text, _ = bootstrap_failure(port, rank=0, arguments='"gloo", timeout_s=20')

    assert f"port {port} of this host is used already" in text
    assert "choose another MASTER_PORT" in text


# A machine whose name service is slow spends 5 s on a connection, so no less than this.
MEET_S = 7
MEET = """
begin = time.monotonic()
try:
    with init_process_group("gloo", timeout_s=7) as job:
        say("joined")
except BootstrapError as error:
    say(error.code, error.ranks, str(error))
sys.stderr.write(f"{time.monotonic() - begin}")
"""


def outcomes(
    processes: Sequence[Process], *, within_s: float = LATE_S
) -> list[list[object]]:
    """Return the output of scripts that try to join, after a check of their times."""
    done = finish(processes)
    assert [status for status, _, _ in done] == [0] * len(done), done
    assert max(elapsed(err) for _, _, err in done) < MEET_S + within_s
    return [json.loads(out) for _, out, _ in done]


@pytest.mark.deadline
def test_rank_that_never_connects_is_named_by_all_others() -> None:
    port = free_port()
    run_code("", 1)  # from now on torch has been imported
    found = outcomes(
        [start_code(MEET, rank, 4, port) for rank in (0, 1, 3)], within_s=GRACE_S
    )

    assert [item[:2] for item in found] == [["RT404", [2]]] * 3
    # Only one of them looks, and all say what it saw.
    assert len({str(text) for _, _, text in found}) == 1
    assert "after 7 s 1 of 4 ranks did not connect: 2 (reported by rank " in str(
        found[0][2]
    )


def test_rank_that_dies_while_waiting_is_named() -> None:
    port = free_port()
    dies = """
from ranktable.runtime import rendezvous
real = rendezvous._Joining
def joining(member, phase):
    if phase == "ready":
        sys.stderr.write("0.0")
        sys.stderr.flush()
        os.write(1, b"[]")
        os._exit(0)
    return real(member, phase)
rendezvous._Joining = joining
"""
    codes = [MEET, dies + MEET, MEET]
    found = outcomes([start_code(code, r, 3, port) for r, code in enumerate(codes)])

    assert [item[:2] for item in found] == [["RT404", [1]], [], ["RT404", [1]]]
    assert "1 of 3 ranks connected and then ended: 1" in str(found[0][2])


@pytest.mark.parametrize("timeout", ["timeout_s=7", "timeout_s=None"])
def test_rank_that_ends_after_the_rendezvous_is_a_missing_peer(timeout: str) -> None:
    port = free_port()
    gone = """
from ranktable.runtime import process_group
def leave(*_, **__):
    sys.stderr.write("0.0")
    sys.stderr.flush()
    os.write(1, b"[]")
    os._exit(0)
process_group._start_group = leave
"""
    # By default gloo alone would wait for half an hour.
    short = "from ranktable.runtime import process_group\n"
    short += "process_group.DEFAULT_TIMEOUT_S = 7.0\n"
    stays = short + MEET.replace("timeout_s=7", timeout)
    # Rank 0 serves the store, so it is the one that stays.
    found = outcomes(
        [start_code(stays, 0, 2, port), start_code(gone + MEET, 1, 2, port)]
    )

    assert found[0][0] == "RT404", found
    assert "ranks joined" in str(found[0][2])


def test_two_processes_of_one_rank_are_refused() -> None:
    port = free_port()
    found = outcomes([start_code(MEET, rank, 3, port) for rank in (0, 1, 1)])

    assert [item[:2] for item in found] == [["RT405", [1]]] * 3
    assert "two processes have rank 1; give every process" in str(found[0][2])


def test_ranks_of_jobs_of_two_sizes_are_refused() -> None:
    port = free_port()
    found = outcomes([start_code(MEET, 0, 2, port), start_code(MEET, 2, 3, port)])

    assert [item[:2] for item in found] == [["RT405", [2]]] * 2
    assert "rank 2 expects 3 ranks, and rank 0 expects 2" in str(found[0][2])


def test_every_rank_names_the_rank_with_a_different_table(tmp_path: Path) -> None:
    port = free_port()
    tables = []
    for name in ("a", "b"):  # the same chips on hosts of other names
        tables.append(str(tmp_path / name))
        ranktable.dump(make_table([[0, 1, 2]], hosts=[name]), tables[-1])
    late = "time.sleep(1)\n"  # rank 0 knows by then, and still serves the store
    processes = [
        start_code(code + MEET, rank, 3, port, RANK_TABLE_FILE=tables[rank == 2])
        for rank, code in enumerate(["", late, ""])
    ]
    found = outcomes(processes)

    assert [item[:2] for item in found] == [["RT405", [2]]] * 3
    assert "rank 2 and rank 0 have different rank tables" in str(found[1][2])


def test_exception_leaves_the_job_without_waiting_for_a_peer() -> None:
    code = """
try:
    with init_process_group("gloo", timeout_s=100) as job:
        dist.barrier()
        if job.rank:
            time.sleep(20)
        else:
            work = dist.all_reduce(torch.ones(3), async_op=True)
            begin = time.monotonic()
            raise KeyboardInterrupt
except KeyboardInterrupt:
    say(time.monotonic() - begin)
"""
    left, _ = run_code(code, 2)

    assert left.status == 0, left
    assert json.loads(left.out)[0] < 10


def test_job_may_be_joined_again_by_the_same_processes(tmp_path: Path) -> None:
    script = tmp_path / "twice.py"
    script.write_text(
        HEAD
        + """
for turn in range(3):
    with init_process_group("gloo", timeout_s=60) as job:
        total = torch.ones(1)
        dist.all_reduce(total)
say(total.item())
"""
    )
    by_agent = torchrun(script, 2)
    by_hand = run_code(script.read_text(), 2)

    assert by_agent.status == 0, by_agent.err
    assert by_agent.out.split() == ["[2.0]", "[2.0]"]
    assert by_hand == [(0, "[2.0]\n", "")] * 2


def test_exception_in_the_script_ends_the_process_with_its_traceback(
    tmp_path: Path,
) -> None:
    table = write_table(tmp_path, [[0, 1]])
    code = """
import torch.distributed

job = init_process_group("gloo", timeout_s=60)
torch.distributed.barrier()  # or the first to end breaks the connections of the other
raise ArithmeticError("the script's own mistake")
"""
    done = run_code(code, 2, env={"RANK_TABLE_FILE": table})

    assert [status for status, _, _ in done] == [1, 1]
    for _, _, err in done:
        assert err.splitlines()[-1].endswith(
            "ArithmeticError: the script's own mistake"
        )
