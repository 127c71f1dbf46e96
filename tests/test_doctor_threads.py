"""``doctor`` on what people paste into threads, and on logs of healthy jobs.

``cases/pasted`` has a file for each subject. A log begins with what is found in it: a
code and the ranks that it accuses, with their host where it counts; ``healthy`` for a
job that ended well; ``open`` if that is not known. Lines with ``says`` and ``never``
are texts of the answer, names between arrows are those of files or ``table``, and
``step 0..8`` stands for nine lines. The values are invented; the messages are those of
libraries and launchers.
"""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from ranktable import loads
from ranktable.doctor.diagnose import diagnose
from tests.file_cases import write_files

if TYPE_CHECKING:
    from ranktable.doctor.headlines import Cause

PASTED = Path(__file__).parent / "cases" / "pasted"


class Case(NamedTuple):
    """What is found in logs, with texts that the answer has and has not."""

    found: str
    says: list[str]
    never: list[str]
    logs: dict[str, str]


def read_cases() -> dict[str, Case]:
    """Return all cases, by name."""
    cases: dict[str, Case] = {}
    for path in sorted(PASTED.glob("*.log")):
        for block in path.read_text()[3:].split("\n\n@@ "):
            head, *lines = block.rstrip("\n").split("\n")
            found, name = head.split(" @@ ")
            assert name not in cases, name
            cases[name] = Case(found, [], [], {})
            log = "job.log"
            for line in lines:
                if told := re.fullmatch("(says|never) (.*)", line):
                    (
                        cases[name].says if told[1] == "says" else cases[name].never
                    ).append(told[2])
                elif file := re.fullmatch("==> (.*) <==", line):
                    log = file[1]
                else:
                    cases[name].logs[log] = cases[name].logs.get(log, "") + expand(line)
    return cases


def expand(line: str) -> str:
    """Return the lines that ``step 0..8`` stands for, or a line as it is."""
    steps = re.fullmatch(r"(.*step )(\d+)\.\.(\d+)", line)
    if steps is None:
        return f"{line}\n"
    first, last = int(steps[2]), int(steps[3])
    return "".join(
        f"{steps[1]}{n} loss {3 - (n - first) / 100:.3f}\n"
        for n in range(first, last + 1)
    )


CASES = read_cases()


@pytest.mark.parametrize("name", CASES)
def test_what_people_paste_is_told_as_what_it_is(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    table = loads(case.logs["table"]) if "table" in case.logs else None
    logs = {file: text for file, text in case.logs.items() if file != "table"}
    write_files(tmp_path, logs)

    answer = diagnose([str(tmp_path)], table=table)

    verdicts = [verdict(cause, " on " in case.found) for cause in answer.causes]
    without = "healthy" if answer.has_ended_well else "open"
    assert (verdicts or [without]) == [case.found]
    assert all(cause.evidence for cause in answer.causes)
    assert all(one.text.strip() for cause in answer.causes for one in cause.evidence)
    told = (f"{cause.headline}\n{cause.waiting}" for cause in answer.causes)
    said = "\n".join((*told, *answer.notes, answer.unknown_text or ""))
    assert [text for text in case.says if text not in said] == []
    assert [text for text in case.never if text in said] == []


def verdict(cause: Cause, with_host: bool) -> str:
    """Return a code and the ranks that it accuses, as the cases write them."""
    ranks = ", ".join(map(str, cause.ranks))
    words = f" rank{'s' * (len(cause.ranks) > 1)} {ranks}" if ranks else ""
    return cause.rule.code + words + (f" on {cause.host}" if with_host else "")


LOST = (
    "torch.distributed.DistBackendError: NCCL error in: /p/u.hpp:219, remote process "
    "exited or there was a network error, NCCL version 2.28.9"
)


def raised(rank: int | None, *errors: str, file: str = "/job/fit.py") -> str:
    prefix = "" if rank is None else f"[rank{rank}]: "
    lines = ("Traceback (most recent call last):", f'  File "{file}", line 7, in run',
             "    loss = step(batch)", *errors)  # fmt: skip
    return "".join(f"{prefix}{line}\n" for line in lines)


def ended(rank: int, status: int, pid: int = 82, at: str = "14:20:01") -> str:
    return (
        f"  time      : 2026-11-05_{at}\n  host      : n1\n"
        f"  rank      : {rank} (local_rank: {rank})\n"
        f"  exitcode  : {status} (pid: {pid})\n"
    )


def agent(host: str, prefix: str, status: int, *, first: int, pid: int = 81) -> str:
    """Return what an agent of two ranks says of their end."""
    text = (
        f"W1105 14:20:09.1 70 torch/api.py:897] Sending process {pid + 1} closing "
        f"signal SIGTERM\nE1105 14:20:10.1 70 torch/api.py:869] failed (exitcode: "
        f"{status}) local_rank: 0 (pid: {pid}) of binary: /v/python\n"
        + ended(first, status, pid).replace("n1", host).replace(
            f"local_rank: {first}", "local_rank: 0")
    )  # fmt: skip
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


@pytest.mark.parametrize(
    "form", ["[pod/fit-{}/main] ", "tr-a4{}: ", "node-{}  | ", "{}: "]
)
@pytest.mark.parametrize("is_mixed", [False, True])
def test_processes_of_two_agents_with_one_id_are_two(
    form: str, is_mixed: bool, tmp_path: Path
) -> None:
    logs = [
        [*raised(0, LOST).splitlines(), *agent("n0", "", 1, first=0).splitlines()],
        [*raised(3, LOST).splitlines(), *agent("n1", "", -11, first=2).splitlines()],
    ]
    lines = [(number, f"{form.format(number)}{line}\n")
             for number, log in enumerate(logs) for line in log]  # fmt: skip
    if is_mixed:  # line by line, as they come
        half = len(logs[0])
        both = itertools.zip_longest(lines[:half], lines[half:], fillvalue=(0, ""))
        lines = [line for pair in both for line in pair]
    (tmp_path / "job.log").write_text("".join(line for _, line in lines))

    (cause,) = diagnose([str(tmp_path)]).causes

    assert (cause.rule.code, cause.ranks) == ("RT611", (2,))


@pytest.mark.parametrize("same_pids", [True, False])
@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("Memory cgroup out of memory: Killed process {} (python3) anon-rss:8kB", 612),
        ("python3[{}]: segfault at 28 ip 7f sp 7f error 4 in libcuda.so.1", 611),
        ("traps: python3[{}] general protection fault ip:7f sp:7f error:0", 611),
        ("NVRM: Xid (PCI:0000:1b:00): 48, pid={}, name=python3, DBE (double bit)", 614),
    ],
)
@pytest.mark.parametrize("culprit", range(4))
def test_a_line_of_the_kernel_is_of_the_rank_with_its_process_id_on_its_host(
    culprit: int, line: str, code: int, *, same_pids: bool, tmp_path: Path
) -> None:
    pids = [300 + (rank % 2 if same_pids else rank) for rank in range(4)]
    for rank in range(4):
        start = f"n{rank // 2}:{pids[rank]}:9 [{rank % 2}] NCCL INFO ncclCommInitRank"
        (tmp_path / f"rank{rank}.log").write_text(
            f"{start} comm 0x5{rank} rank {rank} nranks 4 cudaDev {rank % 2} nvmlDev "
            f"{rank % 2} busId {rank % 2}b000 commId 0x9 - Init COMPLETE\n"
        )
    host = f"n{culprit // 2}"
    said = line.format(pids[culprit])
    (tmp_path / f"{host}-messages.log").write_text(
        f"Dec  3 04:05:10 {host} kernel: {said}\n"
        f"Dec  3 04:05:11 {host} kernel: {said.replace(str(pids[culprit]), '77')}\n"
    )

    first, *others = diagnose([str(tmp_path)]).causes

    assert (first.rule.code, first.ranks) == (f"RT{code}", (culprit,))
    assert all(not other.ranks for other in others)


def test_a_file_of_an_error_tells_whose_an_exception_is(tmp_path: Path) -> None:
    calls = raised(None, "ZeroDivisionError: division by zero")
    error = {"message": {"message": "x", "extraInfo": {"py_callstack": calls}}}
    (tmp_path / "attempt_0" / "2").mkdir(parents=True)
    (tmp_path / "attempt_0" / "2" / "error.json").write_text(json.dumps(error))
    (tmp_path / "launcher.log").write_text(ended(2, 1))

    (cause,) = diagnose([str(tmp_path)]).causes

    assert cause.headline.startswith("rank 2 ")


def test_adapters_of_two_hosts_are_both_told_though_their_processes_have_one_id(
    tmp_path: Path,
) -> None:
    said = "NCCL WARN NET/IB : Got completion from peer 10.0.0.7<53249> with error 4"
    hosts = ("n2", "n1")
    (tmp_path / "job.log").write_text("".join(
        f"{host}:90:98 [1] transport/net_ib.cc:1295 {said}, opcode 32564, len 9, "
        "vendor err 81 (Send)\n" for host in hosts))  # fmt: skip

    causes = diagnose([str(tmp_path)]).causes

    assert [(one.rule.code, one.host) for one in causes] == [
        ("RT614", host) for host in hosts
    ]
