"""``ranktable check --live``: real processes, and thousands of them as threads."""

from __future__ import annotations

import json
import os
import signal
import socketserver
import sys
import threading
import time
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

from torch._C._distributed_c10d import PrefixStore, TCPStore

import ranktable
from ranktable.cluster.generate import make_table
from ranktable.preflight.live import DEFAULT_TIMEOUT_S, LiveChecked, Meeting, check_live
from ranktable.preflight.records import ProcessRecord, judge, judge_clocks
from ranktable.report.check_renderers import render_full
from ranktable.report.terminal import Style
from ranktable.runtime.process_chip import ProcessChip
from ranktable.runtime.rendezvous import Deadline
from tests.commands import start_process, torch_environment, wait_at_most
from tests.node_tree import Tree
from tests.ranks import Process, finish, free_port, job_variables, start
from tests.test_store_round import Counting

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.commands import Outcome, Started

pytestmark = pytest.mark.torch

BOUND_S = 10.0
"""Within which a verdict comes. It takes 3 to 5 s on two quiet cores; a default that
waited for its time-out would take 30 s."""


def begin(rank: int, world_size: int, port: int, *options: str, **env: str) -> Process:
    """Start one process of a job that checks itself."""
    variables = {
        **torch_environment(),
        **job_variables(rank, world_size, port),
        "LOCAL_RANK": str(rank),
        **env,
    }
    words = ("check", "--live", "--format", "json", *options)
    return start("ranktable", *words, env=variables, name=f"rank {rank}")


def live(
    *jobs: tuple[int, int],
    options: Sequence[str] = (),
    **env: str,
) -> list[Outcome]:
    """Run processes with these ranks and sizes to their end."""
    port = free_port()
    return finish([begin(rank, size, port, *options, **env) for rank, size in jobs])


def findings(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Return what the only one that speaks has found, by code."""
    (said,) = [each.out for each in outcomes if each.out]
    return {each["code"]: each["message"] for each in json.loads(said)["findings"]}


def statuses(outcomes: Sequence[Outcome]) -> set[int]:
    assert not any("Traceback" in each.err for each in outcomes)
    return {each.status for each in outcomes}


def limit_s() -> float:
    """Return the bound, longer on a machine that does more besides."""
    return BOUND_S * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


@pytest.mark.deadline
def test_job_that_agrees_says_so_once() -> None:
    done = live((0, 3), (1, 3), (2, 3))

    assert statuses(done) == {0}
    assert findings(done) == {}
    (said,) = [json.loads(each.out) for each in done if each.out]
    assert {"RT730", "RT731", "RT734", "RT737"} <= set(said["agrees"])
    codes = {each["code"] for each in said["not_checked"]}
    assert {"RT732", "RT733", "RT738"} <= codes  # no chips, no table


@pytest.mark.deadline
@pytest.mark.parametrize(
    ("jobs", "code", "words"),
    [
        ([(0, 2), (1, 2), (2, 3)], "RT734", "2 on 2 ranks and 3 on rank 2"),
        ([(0, 2), (1, 2), (1, 2)], "RT731", "rank 1 (pid "),
        ([(0, 2), (0, 2), (1, 2)], "RT731", "rank 0 (pid "),
        ([(0, 2), (1, 2), (2, 2)], "RT734", "RANK=2 is not below WORLD_SIZE=2"),
        ([(0, 2), (1, 3)], "RT734", "the size of the job is"),
        ([(0, 2), (0, 2), (1, 2), (1, 2)], "RT731", "2 ranks came more than once"),
    ],
)
def test_worlds_that_torch_makes_in_silence_are_named(
    jobs: list[tuple[int, int]], code: str, words: str
) -> None:
    began = time.monotonic()
    done = live(*jobs)

    assert time.monotonic() - began < limit_s()
    assert statuses(done) == {1}
    assert words in findings(done)[code]


@pytest.mark.deadline
def test_address_that_does_not_resolve_is_named_by_each_rank() -> None:
    began = time.monotonic()
    done = live((0, 2), (1, 2), MASTER_ADDR="nowhere.invalid")

    assert time.monotonic() - began < limit_s()
    assert statuses(done) == {3}
    for rank, each in enumerate(done):
        (found,) = json.loads(each.out)["findings"]
        assert found["code"] == "RT739"
        assert f"rank {rank}, pid" in found["message"]
        assert "the name nowhere.invalid does not resolve" in found["message"]


class _Web(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.deadline
def test_port_on_which_a_web_server_answers_is_named_by_each_rank() -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Web) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        began = time.monotonic()
        done = finish([begin(rank, 2, port) for rank in range(2)])
        took_s = time.monotonic() - began
        server.shutdown()

    assert took_s < limit_s()
    assert statuses(done) == {3}
    assert all("something else answers at" in each.out for each in done)
    assert all("HTTP/1.0 200" in each.out for each in done)


@pytest.mark.deadline
def test_rank_0_that_was_not_started_is_a_port_that_refuses() -> None:
    (done,) = live((1, 2), options=["--timeout", "1"])

    assert done.status == 3
    assert "the port refuses: nothing listens at 127.0.0.1:" in done.out


@pytest.mark.parametrize("rank", [0, 1])
def test_time_that_is_over_before_the_first_attempt_is_no_error_of_the_address(
    rank: int,
) -> None:
    # Not even a name is looked up, which may take long on such a host.
    env = {**job_variables(rank, 2, free_port()), "MASTER_ADDR": "host.invalid"}
    done = check_live(env, timeout_s=1e-9)

    (found,) = done.checked.diagnostics
    assert found.code == "RT739"
    assert f"rank {rank} did not try to connect: the 1e-09 s were over" in found.message
    assert not any(words in found.message for words in ("MASTER", "listens", "name "))


@pytest.mark.deadline
def test_missing_rank_is_named_with_its_host(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    ranktable.dump(make_table([range(2)] * 2, hosts=["n1", "n2"]), path)
    done = live(
        (0, 4), (1, 4), (3, 4), options=["--timeout", "1"], RANK_TABLE_FILE=str(path),
        LOCAL_RANK="",
    )  # fmt: skip

    assert statuses(done) == {1}
    assert findings(done)["RT730"] == "1 rank of 4 did not come: 2 (n2)"


@pytest.mark.deadline
def test_tables_that_differ_are_told_with_their_first_difference(
    tmp_path: Path,
) -> None:
    for name, chips in (("a", [0, 1, 2]), ("b", [0, 3, 2])):
        ranktable.dump(make_table([chips], hosts=["n1"]), tmp_path / f"{name}.json")
    port = free_port()
    done = finish(
        [
            begin(rank, 3, port, RANK_TABLE_FILE=str(tmp_path / f"{'aab'[rank]}.json"))
            for rank in range(3)
        ]
    )

    assert statuses(done) == {1}
    assert findings(done)["RT733"].endswith(
        "first difference: rank 1 on chip 3 of n1, not rank 1 on chip 1 of n1"
    )


@pytest.mark.deadline
def test_table_that_one_host_cannot_read_is_told_to_all(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    ranktable.dump(make_table([range(2)]), path)
    port = free_port()
    done = finish(
        [
            begin(0, 2, port, RANK_TABLE_FILE=str(path)),
            begin(1, 2, port, RANK_TABLE_FILE=str(tmp_path / "gone.json")),
        ]
    )

    assert statuses(done) == {1}
    assert "RT001" in findings(done)["RT733"]


@pytest.mark.deadline
@pytest.mark.parametrize(
    ("lists", "rows", "codes"),
    [
        (("1,0", "1,0"), [1, 0], set()),
        (("1,0", "1,0"), [0, 1], {"RT705"}),
        (("0,1", "0"), [0, 1], {"RT705", "RT720"}),
        (("0,1", "1,0"), [0, 1], {"RT705", "RT732"}),
    ],
)
def test_chips_behind_the_lists_of_a_job_are_compared(
    tmp_path: Path, lists: tuple[str, str], rows: list[int], codes: set[str]
) -> None:
    tree = Tree(tmp_path / "h")
    cells = ("GPU-{0}a-1", "00000000:0{1}:00.0", "16{0}", "NVIDIA H100")
    chips = [", ".join((str(n), *cells)).format(n, n + 1) for n in range(2)]
    rows_of_tool = f"printf '{chips[0]}\\n{chips[1]}\\n'"
    tree.install("nvidia-smi", f"case $1 in *=index,*) {rows_of_tool};; esac")
    ranktable.dump(make_table([rows]), tmp_path / "t.json")
    env = {"PATH": f"{tree.root}/usr/bin:{os.environ['PATH']}", "LOCAL_WORLD_SIZE": "2"}
    port, table = free_port(), str(tmp_path / "t.json")
    done = finish(
        [
            begin(rank, 2, port, table, CUDA_VISIBLE_DEVICES=lists[rank], **env)
            for rank in range(2)
        ]
    )

    assert set(findings(done)) == codes
    (said,) = [json.loads(each.out) for each in done if each.out]
    known = {"RT702", "RT704", "RT705", "RT732"} - codes
    assert known <= set(said["agrees"])


@pytest.mark.deadline
def test_variables_that_must_agree_are_compared_and_others_are_not() -> None:
    port = free_port()
    done = finish(
        [
            begin(
                rank, 3, port,
                NCCL_ALGO="Tree" if rank == 2 else "Ring",
                NCCL_SOCKET_IFNAME=f"eth{rank}",
            )
            for rank in range(3)
        ]
    )  # fmt: skip

    assert statuses(done) == {1}
    assert list(findings(done)) == ["RT713", "RT736"]  # no host has eth0
    assert "NCCL_ALGO is Ring on 2 ranks and Tree on rank 2" in findings(done)["RT736"]


def real(
    rank: int, world_size: int, port: int, folder: Path, *program: str, time_s: int = 25
) -> Started:
    """Start a process that a signal reaches; the others are forks of a server."""
    variables = {
        **torch_environment(),
        **job_variables(rank, world_size, port),
        "LOCAL_RANK": str(rank),
    }
    words = ("check", "--live", "--format", "json", "--timeout", str(time_s))
    name = len(list(folder.iterdir()))
    with (folder / str(name)).open("wb") as out:
        command = [sys.executable, *(program or ("-m", "ranktable")), *words]
        return start_process(command, out=out, err=out, env=variables)


def ended(processes: Sequence[Started], folder: Path, ranks: Sequence[int]) -> str:
    """Return what processes say that end by themselves; the others are killed."""
    for rank in ranks:
        assert wait_at_most(processes[rank], 90)
    for process in processes:
        process.kill()
        process.wait()
    return "".join((folder / str(rank)).read_text() for rank in ranks)


def await_records(port: int, count: int) -> None:
    """Wait until some processes have posted what they know in the store of a port."""
    store = TCPStore("localhost", port, is_master=False, timeout=timedelta(minutes=1))
    end = time.monotonic() + 60
    records = PrefixStore("ranktable/0/1/records", store)
    while records.add("count", 0) < count:
        assert time.monotonic() < end, "nobody came"
        time.sleep(0.05)


@pytest.mark.deadline
@pytest.mark.parametrize(
    ("jobs", "words"),
    [
        ([(0, 2), (1, 2), (2, 3)], "2 on 2 ranks and 3 on rank 2"),
        ([(0, 2), (1, 2), (1, 2)], "rank 1 (pid "),
    ],
)
def test_silent_world_is_named_in_time_from_the_start_of_its_interpreters(
    jobs: list[tuple[int, int]], words: str, tmp_path: Path
) -> None:
    port = free_port()
    began = time.monotonic()
    processes = [real(rank, size, port, tmp_path) for rank, size in jobs]
    said = ended(processes, tmp_path, range(len(jobs)))

    assert time.monotonic() - began < limit_s()
    assert {process.returncode for process in processes} == {1}
    assert words in said


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP])
def test_rank_that_ends_or_stops_at_the_start_is_missing(
    sent: signal.Signals, tmp_path: Path
) -> None:
    port = free_port()
    processes = [real(rank, 3, port, tmp_path) for rank in range(3)]
    processes[2].send_signal(sent)
    said = ended(processes, tmp_path, [0, 1])

    assert "RT730" in said
    assert "1 rank of 3 did not come: 2" in said


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP])
def test_rank_that_ends_or_stops_while_it_waits_is_missing(
    sent: signal.Signals, tmp_path: Path
) -> None:
    port = free_port()
    processes = [real(rank, 3, port, tmp_path, time_s=90) for rank in range(2)]
    await_records(port, 2)
    processes[1].send_signal(sent)
    processes.append(real(2, 3, port, tmp_path, time_s=90))
    said = ended(processes, tmp_path, [0, 2])

    assert "RT730" in said
    assert "1 rank ended or stopped meanwhile: 1" in said


STRUCK = """
import os, signal, sys, time
from ranktable.cli import main
from ranktable.preflight import live

_, phase, act, *words = sys.argv
owner, name = {
    "joining": (live, "_open"),
    "gathering": (live.Meeting, "_offer_rows"),
    "confirming": (live.Meeting, "_confirm"),
    "leaving": (live.Meeting, "_leave"),
}[phase]
original = getattr(owner, name)

def struck(*given, **named):
    if act == "late":
        time.sleep(12)
    else:
        # Sent to the process, a stop may first be seen by another thread of it.
        signal.raise_signal(getattr(signal, act))
    return original(*given, **named)

setattr(owner, name, struck)
sys.argv[1:] = words
main()
"""
"""``ranktable``, which a signal ends or stops, or which sleeps, before one step."""

STRUCK_TIME_S = 10


def struck(
    rank: int, phase: str, act: str, folder: Path
) -> tuple[list[Started], list[str]]:
    """Return the processes of a job with one that is struck, and what each said."""
    port = free_port()
    program = ("-c", STRUCK, phase, act)
    processes = [
        real(each, 3, port, folder, *program * (each == rank), time_s=STRUCK_TIME_S)
        for each in range(3)
    ]
    others = [each for each in range(3) if act == "late" or each != rank]
    ended(processes, folder, others)
    return processes, [(folder / str(each)).read_text() for each in range(3)]


@pytest.mark.slow
@pytest.mark.deadline
@pytest.mark.parametrize("act", ["SIGKILL", "SIGSTOP", "late"])
@pytest.mark.parametrize(
    ("phase", "words"),
    [
        ("joining", "1 rank of 3 did not come: 1"),
        ("gathering", "1 rank of 3 did not come: 1"),
        ("confirming", "1 rank ended or stopped meanwhile: 1"),
        ("leaving", '"findings": []'),  # all that it had to say was said
    ],
)
def test_rank_that_is_struck_at_any_step_is_named_and_nothing_hangs(
    phase: str, words: str, act: str, tmp_path: Path
) -> None:
    processes, said = struck(1, phase, act, tmp_path)

    (verdict,) = [text for text in (said[0], said[2]) if text]
    # A slow machine may hear of the rank before it is struck.
    later = "1 rank ended or stopped meanwhile: 1"
    told = words if phase == "leaving" or words in verdict else later
    assert told in " ".join(verdict.split())
    assert not any("Traceback" in text for text in said)
    expected = 0 if phase == "leaving" else 1
    assert {processes[0].returncode, processes[2].returncode} == {expected}
    if act == "late":
        # The store stays for a late process for some seconds, and then refuses it.
        assert processes[1].returncode in {expected, 3}
        came_late = "came after the verdict" in said[1] or "RT739" in said[1]
        assert came_late or phase in {"confirming", "leaving"}


@pytest.mark.slow
@pytest.mark.deadline
@pytest.mark.parametrize(
    ("phase", "act", "words"),
    [
        (phase, act, words)
        for phase in ("joining", "gathering", "confirming", "leaving")
        for act, words in (
            ("SIGKILL", ("the port refuses", "the store of rank 0 was lost")),
            ("SIGSTOP", ("the port refuses", "is stopped or hangs")),
        )
    ],
)
def test_rank_0_that_is_struck_at_any_step_is_named_by_each_other_rank(
    phase: str, act: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    processes, said = struck(0, phase, act, tmp_path)

    for rank in (1, 2):
        assert f"rank {rank}, pid" in said[rank]
        assert any(each in said[rank] for each in words)
        assert processes[rank].returncode == 3


@pytest.mark.deadline
def test_rank_that_comes_late_in_time_is_waited_for() -> None:
    port = free_port()
    processes = [begin(0, 2, port)]
    time.sleep(2)
    processes.append(begin(1, 2, port))
    done = finish(processes)

    assert statuses(done) == {0}


@pytest.mark.deadline
def test_job_without_a_table_makes_one(tmp_path: Path) -> None:
    path = tmp_path / "observed.json"
    done = live((0, 2), (1, 2), options=["-o", str(path)])

    assert statuses(done) == {0}
    table = ranktable.load(path)
    assert table.chip_map == [0, 1]
    assert table.hosts == (os.uname().nodename,)


@pytest.mark.deadline
def test_job_of_ray_without_a_table_makes_one(tmp_path: Path) -> None:
    # What Ray Train sets; the chips are those of the variable that Ray sets, too.
    path, port = tmp_path / "observed.json", free_port()
    of_ray = {"RAY_JOB_ID": "01000000", "NODE_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    chips = {"CUDA_VISIBLE_DEVICES": "2,5"}
    processes = [
        begin(rank, 2, port, "-o", str(path), **of_ray, **chips) for rank in range(2)
    ]

    assert statuses(finish(processes)) == {0}
    assert ranktable.load(path).chip_map == [2, 5]


@pytest.mark.deadline
def test_job_whose_processes_count_their_own_chip_makes_a_table(
    tmp_path: Path,
) -> None:
    path = tmp_path / "observed.json"
    own = {"CUDA_VISIBLE_DEVICES": "0", "SLURM_GPUS_PER_TASK": "1"}
    done = live((0, 2), (1, 2), options=["-o", str(path)], **own)

    assert statuses(done) == {0}
    assert list(findings(done)) == ["RT720"]  # a note about local rank 1
    assert ranktable.load(path).chip_map == [0, 1]


@pytest.mark.deadline
def test_no_table_is_made_of_a_job_that_is_not_whole(tmp_path: Path) -> None:
    path = tmp_path / "observed.json"
    options = ["-o", str(path), "--timeout", "1"]
    done = live((0, 2), options=options)

    assert statuses(done) == {1}
    assert "is not written: RT730" in done[0].err
    assert not path.exists()


@pytest.mark.deadline
def test_process_without_a_launcher_is_told_what_to_do(tmp_path: Path) -> None:
    process = start("ranktable", "check", "--live", env=torch_environment())
    (done,) = finish([process])

    assert done.status == 2
    assert "torchrun" in done.err


# What a job starts with


@pytest.mark.deadline
def test_job_that_is_smaller_than_its_table_is_told(tmp_path: Path) -> None:
    ranktable.dump(make_table([range(4)]), tmp_path / "t.json")
    done = live((0, 2), (1, 2), options=[str(tmp_path / "t.json")])

    assert statuses(done) == {1}
    assert findings(done) == {
        "RT734": "the processes expect 2 ranks, and the table has 4"
    }


@pytest.mark.deadline
def test_store_that_was_left_over_on_the_port_is_told_each_time() -> None:
    left_over = TCPStore("127.0.0.1", 0, None, is_master=True, wait_for_workers=False)
    port = left_over.port
    first = finish([begin(rank, 2, port) for rank in range(2)])
    second = finish([begin(rank, 2, port) for rank in range(2)])

    assert statuses(first) == statuses(second) == {1}
    assert f"rank 0 cannot listen on port {port}" in findings(first)["RT710"]
    for each in second:
        assert f"rank 0 cannot listen on port {port}" in each.out


@pytest.mark.deadline
def test_interface_that_no_host_has_is_told_once_for_all() -> None:
    done = live((0, 2), (1, 2), GLOO_SOCKET_IFNAME="eth77")

    assert statuses(done) == {1}
    assert list(findings(done)) == ["RT713"]
    assert findings(done)["RT713"].startswith(f"{os.uname().nodename}: GLOO_SOCKET")


@pytest.mark.deadline
def test_port_that_refuses_is_told_with_the_address_of_the_name() -> None:
    (done,) = live((1, 2), options=["--timeout", "1"], MASTER_ADDR="localhost")

    assert done.status == 3
    assert "127.0.0.1" in done.out
    assert "or the name means another host here" in done.out


@pytest.mark.deadline
def test_two_nodes_of_a_table_on_one_machine_agree(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    ranktable.dump(make_table([range(1)] * 2, hosts=["n1", "n2"]), path)
    port = free_port()
    done = finish(
        [
            begin(
                rank, 2, port, RANK_TABLE_FILE=os.path.relpath(path), LOCAL_RANK="0",
                GLOO_SOCKET_IFNAME="lo",
            )
            for rank in range(2)
        ]
    )  # fmt: skip

    assert statuses(done) == {0}
    assert findings(done) == {}


SKEWED = """
import sys, time
right, off = time.time, float(sys.argv.pop(1))
time.time = lambda: right() + off
from ranktable.cli import main
main()
"""


@pytest.mark.deadline
@pytest.mark.parametrize("bad", [0, 2])
def test_one_wrong_clock_of_four_is_named(bad: int, tmp_path: Path) -> None:
    port = free_port()
    processes = [
        real(rank, 4, port, tmp_path, "-c", SKEWED, "37" if rank == bad else "0")
        for rank in range(4)
    ]
    said = ended(processes, tmp_path, range(4))

    assert f"the clock of 1 rank is off: {bad}; that of rank {bad} by +3" in said


@pytest.mark.slow
def test_rank_that_is_killed_while_another_never_comes_is_named_with_it(
    tmp_path: Path,
) -> None:
    port = free_port()
    processes = [real(rank, 3, port, tmp_path, time_s=20) for rank in range(2)]
    await_records(port, 2)
    processes[1].send_signal(signal.SIGKILL)
    said = ended(processes, tmp_path, [0])

    assert "2 ranks of 3 are missing: 1 ended or stopped" in said
    assert "; 2 did not come" in said


# Without processes


def of_chip(number: int) -> ProcessChip:
    return ProcessChip(device_id=number, identity=f"GPU-{number}")


def record(rank: int, **changed: Any) -> ProcessRecord:
    facts: dict[str, Any] = {
        "rank": rank, "world_size": 10_000, "host": f"n{rank // 8:04}", "pid": rank,
        "chip": of_chip(rank % 8), "table": "a", "versions": {"torch": "2.13.0"},
        "settings": {},
    }  # fmt: skip
    return ProcessRecord(**{**facts, **changed})


def test_verdict_does_not_depend_on_who_came_first() -> None:
    records = [record(rank, table="ab"[rank], world_size=2 + rank) for rank in (0, 1)]

    assert judge(records, None) == judge(records[::-1], None)
    assert "a on rank 0" in judge(records[::-1], None)[-1].message


@pytest.mark.deadline
def test_ten_thousand_ranks_with_every_fault_take_forty_lines() -> None:
    records = [record(rank) for rank in range(10_000) if rank % 9]
    records += [record(rank, pid=7) for rank in range(1, 3000, 50)]
    records += [record(rank, chip=of_chip(0), table="b") for rank in range(9, 900, 9)]
    records += [record(0, world_size=9_999, table="c")]
    settings = [
        record(rank, settings={f"NCCL_{n}": str(rank) for n in range(20)})
        for rank in range(18, 1800, 9)
    ]
    began = time.monotonic()
    found = judge([*records, *settings], None)

    assert time.monotonic() - began < limit_s()
    codes = {each.rule.code for each in found}
    assert codes == {f"RT73{n}" for n in (0, 1, 2, 3, 4, 6)}
    from ranktable.preflight.here import Checked
    from ranktable.preflight.stored_findings import diagnostics_of

    checked = Checked(subject="job", diagnostics=diagnostics_of(found))
    lines = "".join(render_full(checked, Style())).splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) < 500


@pytest.mark.deadline
def test_clock_is_off_only_where_that_is_certain() -> None:
    def told(*offsets: float, lasts_s: float = 0.5) -> list[str]:
        times = {
            n: (100.0 + off, 100.0 + off + lasts_s) for n, off in enumerate(offsets)
        }
        return [each.message for each in judge_clocks(times)]

    assert told(0.0, 0.4, 1.2) == []
    assert told(0.0, 0.0, 0.0, 4.0, lasts_s=5.0) == []  # the round was as slow
    for rank in range(4):
        ahead = [37.0 * (rank == each) for each in range(4)]
        assert told(*ahead) == [
            f"the clock of 1 rank is off: {rank}; that of rank {rank} by +36.5 s"
        ]
        assert f"1 rank is off: {rank};" in told(*(-each for each in ahead))[0]
    assert told(0.0, 0.0, 9.0) == [
        "the clock of 1 rank is off: 2; that of rank 2 by +8.5 s"
    ]
    assert "of two halves of the job differ by 8.5 s: ranks 1" in told(0.0, 9.0)[0]


def hold_all(count: int) -> tuple[list[LiveChecked], list[int]]:
    """Return the verdict of every process of a job of threads, and its requests."""
    served = TCPStore(
        "127.0.0.1", 0, None, is_master=True, wait_for_workers=False,
        timeout=timedelta(seconds=4 * DEFAULT_TIMEOUT_S),
    )  # fmt: skip
    results: list[LiveChecked] = []
    requests: list[int] = []

    def rank_does(rank: int) -> None:
        own: list[Counting] = []
        client = TCPStore("127.0.0.1", served.port, None, is_master=False)

        def part(name: str) -> Counting:
            own.append(Counting(PrefixStore(name, client)))
            return own[-1]

        meeting = Meeting(
            part=part,
            record=record(rank, world_size=count),
            table=None,
            deadline=Deadline.after(4 * DEFAULT_TIMEOUT_S),
            serves=False,
            ready_s=4 * DEFAULT_TIMEOUT_S,
        )
        result = meeting.hold()
        result.leave()
        results.append(result)
        requests.append(sum(each.count for each in own))

    threads = [threading.Thread(target=rank_does, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results, requests


@pytest.fixture
def patient_threads() -> Iterator[None]:
    """Let threads wait for the interpreter without asking for it 200 times a second."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1.0)
    yield
    sys.setswitchinterval(before)


@pytest.mark.deadline
@pytest.mark.usefixtures("patient_threads")
def test_requests_of_a_process_do_not_grow_with_their_number() -> None:
    few, many = hold_all(20), hold_all(2000)

    assert {each.checked.is_agreed for each in (*few[0], *many[0])} == {True}
    assert [each.is_speaker for each in many[0]].count(True) == 1
    # If they come slowly, their clocks are compared, in a round of 7 requests more.
    assert median(many[1]) <= median(few[1]) + 8
    assert max(many[1]) <= 2 * max(few[1])
    assert sum(many[1]) <= 100 * sum(few[1]) * 1.5
