"""``ranktable doctor``: messages, causes, and the lines that prove them."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ranktable
from ranktable.doctor.causes import Meaning, meaning_of, meanings
from ranktable.doctor.diagnose import Diagnosis, diagnose
from ranktable.doctor.lines import read_log, recognise
from ranktable.doctor.patterns import LogPattern, patterns, triggers
from ranktable.doctor.rules import RULES
from ranktable.report.rule_pages import page_of
from tests.file_cases import write_files
from tests.rule_examples import diagnose_example

if TYPE_CHECKING:
    from collections.abc import Callable

    from ranktable.schema.finding import Rule
    from tests.conftest import Outcome

    Run = Callable[..., Outcome]

TABLE = ranktable.dumps(
    ranktable.loads(
        b'{"status":"completed","version":"1.0","server_count":"2","server_list":['
        b'{"server_id":"10.0.0.1","device":['
        b'{"device_id":"0","rank_id":"0","device_ip":"192.168.1.1"},'
        b'{"device_id":"1","rank_id":"1","device_ip":"192.168.1.2"}]},'
        b'{"server_id":"10.0.0.2","device":['
        b'{"device_id":"0","rank_id":"2","device_ip":"192.168.1.3"},'
        b'{"device_id":"1","rank_id":"3","device_ip":"192.168.1.4"}]}]}'
    )
)
"""Two servers of HCCL with two chips each."""


def judged(folder: Path, logs: dict[str, str], table: bytes | None = None) -> Diagnosis:
    write_files(folder, logs)
    return diagnose(
        [str(folder)], table=None if table is None else ranktable.loads(table)
    )


def waits(rank: int, seq: int, op: str = "ALLREDUCE", numel: int = 8) -> str:
    return (
        f"[rank{rank}]:[E105 06:15:00.1 ProcessGroupNCCL.cpp:632] [Rank {rank}] "
        f"Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, "
        f"OpType={op}, NumelIn={numel}, NumelOut={numel}, Timeout(ms)=600000) ran for "
        "600021 milliseconds before timing out.\n"
    )


def dumps(rank: int, done: int) -> str:
    return (
        f"[rank{rank}]:[E105 06:15:01.1 ProcessGroupNCCL.cpp:1746] [PG ID 0 PG GUID "
        f"0(default_pg) Rank {rank}] Received a dump signal due to a collective "
        f"timeout from rank 9 and we will try. Last enqueued NCCL work: {done}, last "
        f"completed NCCL work: {done}.\n"
    )


def plog(pid: int, text: str, level: str = "ERROR") -> str:
    return (
        f"[{level}] HCCL({pid},python3):2026-01-05-10:00:00.000.001 [a.cc:9] [7] "
        f"{text}\n"
    )


@pytest.mark.parametrize("pattern", patterns(), ids=lambda pattern: pattern.name)
def test_a_message_is_known_by_its_example_alone(pattern: LogPattern) -> None:
    lines = pattern.example.splitlines()
    at = pattern.before if len(lines) > 1 else 0
    found = recognise(lines[at], lines[:at], lines[at + 1 :])
    letters = re.sub("[^A-Za-z]", "", lines[at]).encode()

    assert any(trigger in letters for trigger in triggers())
    assert found is not None
    assert found[0] is pattern
    others = [
        other.name
        for other in patterns()
        if other is not pattern
        # The code beside which other messages stand, and what is left.
        and other.name not in ("hccl-code", "unknown-error")
        and not other.is_form
        and other.fields(pattern.example) is not None
    ]
    assert others == []


@pytest.mark.parametrize(
    "pattern", [one for one in patterns() if one.counter], ids=lambda one: one.name
)
def test_a_message_does_not_take_a_similar_line(pattern: LogPattern) -> None:
    assert pattern.fields(pattern.counter) is None


@pytest.mark.parametrize("meaning", meanings(), ids=lambda one: one.example[:40])
def test_the_meaning_of_an_error_is_known_by_its_example_alone(
    meaning: Meaning,
) -> None:
    other = meaning_of(meaning.counter)

    assert meaning_of(meaning.example) is meaning
    assert other is None or other.of_class != meaning.of_class
    assert "rain the node" not in meaning.advice or meaning.of_class == "chip"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rule_is_the_cause_of_its_bad_log_only(rule: Rule) -> None:
    bad = diagnose_example(rule, page_of(rule).bad)
    good = diagnose_example(rule, page_of(rule).good)

    assert [cause.rule for cause in bad.causes] == [rule]
    assert rule not in [cause.rule for cause in good.causes]


PREFIXES: tuple[Callable[[int], str], ...] = (
    lambda rank: f"{rank}: ",
    lambda rank: f"[default{rank}]:",
    lambda _: "2026-01-05T06:15:00.123456789Z ",
    lambda _: " 45%|####      | 45/100 [00:30<00:36,  1.5it/s]\r",
    lambda _: " 45%|####      | 45/100 [00:30<00:36,  1.5it/s]",
    lambda rank: f"\x1b[36m(Worker pid={rank}, ip=10.0.0.{rank})\x1b[0m ",
    lambda rank: f"(Worker_TP{rank} pid=20{rank}) ",
    lambda rank: f"worker-{rank // 2}: ",
)
"""What launchers and loggers put before the line of a rank."""


def progress(number: int, start: int = 0) -> str:
    return "".join(f"step {start + i} loss 2.{i:03}\n" for i in range(number))


def traceback(error: str, prefix: str = "") -> str:
    lines = ("Traceback (most recent call last):", '  File "/job/a.py", line 3, in f',
             "    load()", error)  # fmt: skip
    return "".join(f"{prefix}{line}\n" for line in lines)


HEALTHY = {
    "retried download": progress(30)
    + traceback("urllib3.exceptions.ReadTimeoutError: Read timed out.")
    + "WARNING retry 1\n" + progress(300, 30),
    "missing extra": "WARNING: could not import flash_attn\n"
    + traceback("ModuleNotFoundError: No module named 'flash_attn'") + progress(300),
    "largest batch sought":
    traceback("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.")
    + "batch size 64 is too large, trying 32\n" + progress(300),
    "words": "".join(f"step {i} error 0.1 failed 0 exit loss timeouts 0 out of 9\n"
                     for i in range(300)),
    "store was slow": "failed to connect, willRetry=1, retry=1, retryLimit=3, rank=1, "
    "size=2, local=[10.0.0.1]:1, remote=[10.0.0.2]:2, error=Connection refused\n"
    + progress(300),
    "advice": "[rank1]: CUDA kernel errors might be asynchronously reported at some "
    "other API call.\n[rank1]: For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n",
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_what_a_program_has_overcome_is_no_failure(name: str, tmp_path: Path) -> None:
    diagnosis = judged(tmp_path, {"job.log": f"[rank0]: start\n{HEALTHY[name]}"})

    assert diagnosis.causes == ()
    assert diagnosis.is_judged


@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_prefix_of_a_launcher_hides_no_rank(
    prefix: Callable[[int], str], tmp_path: Path
) -> None:
    log = "".join(prefix(rank) + waits(rank, 77) for rank in (0, 1, 3))
    found = judged(tmp_path, {"job.log": log}).causes

    assert [(cause.rule.code, cause.ranks) for cause in found] == [("RT620", (2,))]


def test_what_was_caught_long_before_the_others_waited_is_not_the_cause(
    tmp_path: Path,
) -> None:
    caught = traceback("ValueError: x", "[rank1]: ") + progress(300)
    log = caught + "".join(waits(rank, 77) for rank in (0, 1, 3))
    found = judged(tmp_path, {"job.log": log}).causes

    assert [(cause.rule.code, cause.ranks) for cause in found] == [("RT620", (2,))]


def ended(reason: str, code: int) -> dict[str, object]:
    state = {"terminated": {"reason": reason, "exitCode": code}}
    return {"containerStatuses": [{"state": state}]}


EVENTS = "LAST SEEN   TYPE      REASON      OBJECT        MESSAGE\n"


def test_events_of_the_pods_of_another_job_count_only_without_those_of_this_one(
    tmp_path: Path,
) -> None:
    gone = "3m2s   Warning   Evicted   pod/{}   The node was low on resource: memory.\n"
    steps = "".join(f"[pod/fit-{i % 2}/main] step {i} loss 2\n" for i in range(40))
    events = EVENTS + gone.format("web-6d4cf56db6-x7k2p")

    other = judged(tmp_path, {"job.log": steps, "events.txt": events}).causes
    own = judged(tmp_path, {"events.txt": events + gone.format("fit-1")}).causes

    assert other == ()
    assert [one.rule.code for one in own] == ["RT612"]
    assert "pod fit-1" in own[0].headline


@pytest.mark.parametrize(
    ("counts", "missing", "said"),
    [
        ((42, 42, 42, 42), (), []),
        ((42, 42, 38, 42), (), [(2, "launched fewer operations, 38 of 42")]),
        ((42, 42, 41, 42), (), []),
        ((42, 42, 41), (3,), [(3, "is dead for NCCL")]),
    ],
)
def test_ras_of_nccl_names_who_is_dead_or_behind(
    counts: tuple[int, ...], missing: tuple[int, ...], said: object, tmp_path: Path
) -> None:
    report = {"communicators": [{
        "hash": "0xab", "size": 4,
        "ranks": [{"rank": rank, "collective_counts": {"AllReduce": count}}
                  for rank, count in enumerate(counts)],
        "missing_ranks": [{"rank": rank, "status": {"considered_dead": True}}
                          for rank in missing]}]}  # fmt: skip

    found = judged(tmp_path, {"ras.json": json.dumps(report)}).causes

    assert [(c.ranks[0], c.headline.partition(": ")[2]) for c in found] == said


def test_what_nccl_reports_of_a_rank_is_no_line_of_the_rank(tmp_path: Path) -> None:
    ranks = [{"rank": rank, "host": "n0"} for rank in range(4)]
    report = {"communicators": [{"hash": "0xab", "size": 4, "ranks": ranks}]}
    lines = "".join(waits(rank, 77) for rank in (0, 1, 3))
    logs = {"ras.json": json.dumps(report), "job.log": lines}

    (cause,) = judged(tmp_path, logs).causes

    assert cause.headline == (
        "rank 2 (n0) reported nothing, although its neighbours did"
    )


def test_what_a_host_killed_is_joined_with_the_rank_that_is_behind(
    tmp_path: Path,
) -> None:
    logs = {f"n{n}/worker.log": "".join(waits(r, 77) for r in (2 * n, 2 * n + 1))
            for n in range(2)}  # fmt: skip
    logs["n1/worker.log"] = waits(2, 77) + dumps(3, 76)
    logs["n1/dmesg"] = (
        "[ 9.1] Memory cgroup out of memory: Killed process 9 (python3)\n"
    )
    table = TABLE.replace(b"10.0.0.1", b"n0").replace(b"10.0.0.2", b"n1")

    (cause,) = judged(tmp_path, logs, table).causes

    assert (cause.rule.code, cause.ranks, cause.host) == ("RT612", (3,), "n1")
    assert cause.headline == ("rank 3 (n1, chip 1) was killed by its host for memory")
    assert cause.waiting is not None
    assert cause.waiting.startswith("3 ranks (0-2) wait for it in ALLREDUCE 77")


def test_what_a_host_of_the_table_killed_counts_though_no_rank_of_it_spoke(
    tmp_path: Path,
) -> None:
    logs = {
        "n0.log": waits(0, 77) + waits(1, 77),
        "n1.log": "[ 9.1] Memory cgroup out of memory: Killed process 9 (python3)\n",
    }
    table = TABLE.replace(b"10.0.0.1", b"n0").replace(b"10.0.0.2", b"n1")

    (cause,) = judged(tmp_path, logs, table).causes

    assert (cause.rule.code, cause.ranks, cause.host) == ("RT612", (), "n1")


@pytest.mark.parametrize(("group_rank", "silent"), [(0, (7,)), (2, ())])
def test_a_sub_group_is_found_in_the_layout_by_the_rank_in_it(
    group_rank: int, silent: tuple[int, ...], run: Run, tmp_path: Path
) -> None:
    table = tmp_path / "t.json"
    run("ranktable", "gen", "--hosts", "n0", "--device-id", "[[0..7]]", "--tp", "2",
        "--dp", "4", "-o", str(table))  # fmt: skip
    mark = f"[PG ID 4 PG GUID 45 Rank {group_rank}]"
    log = waits(6, 7).replace("[Rank 6]", mark)

    (cause,) = judged(tmp_path / "logs", {"job.log": log}, table.read_bytes()).causes

    assert cause.ranks == silent


def test_rank_beyond_the_layout_is_named_without_coordinates(
    run: Run, tmp_path: Path
) -> None:
    table = tmp_path / "t.json"
    run("ranktable", "gen", "--hosts", "n0", "--device-id", "[[0..7]]", "--tp", "2",
        "--dp", "4", "-o", str(table))  # fmt: skip
    log = traceback("OSError: disk full", "[rank8]: ")
    (cause,) = judged(tmp_path / "logs", {"job.log": log}, table.read_bytes()).causes

    assert cause.headline == "rank 8 raised OSError: disk full"


def test_only_the_last_attempt_of_a_job_counts(tmp_path: Path) -> None:
    def attempt(number: int) -> str:
        return (
            "I0105 06:00:00.0 9 api.py:531] [default] Rendezvous complete for workers. "
            f"Result:\n  restart_count={number}\n  master_addr=n0\n  master_port=2\n"
            "  group_rank=0\n  group_world_size=1\n  local_ranks=[0, 1]\n"
            "  role_ranks=[0, 1]\n  global_ranks=[0, 1]\n"
        )

    failed = (
        "[rank0]: Traceback (most recent call last):\n[rank0]: ValueError: first try\n"
    )
    log = attempt(0) + failed + attempt(1) + failed.replace("first", "second")

    (cause,) = judged(tmp_path, {"job.log": log}).causes

    assert cause.headline == "rank 0 raised ValueError: second try"


def test_ranks_of_tracebacks_without_a_rank_are_told_by_how_processes_end(
    tmp_path: Path,
) -> None:
    # torch before 2.2 puts no rank before the lines of a traceback.
    lost = (
        "Traceback (most recent call last):\n"
        "RuntimeError: [pair.cc:553] Connection closed by peer [127.0.0.1]:4123\n"
    )
    ended = "".join(
        f"  rank      : {rank} (local_rank: {rank})\n  exitcode  : 1 (pid: 9{rank})\n"
        for rank in (0, 2)
    )

    (cause,) = judged(tmp_path, {"job.log": lost + lost + ended}).causes

    assert (cause.rule.code, cause.ranks) == ("RT620", (1,))


def test_who_runs_elsewhere_than_the_table_says_comes_first(tmp_path: Path) -> None:
    said = (
        "[HCCL_TRACE]hcom init by file success,take time [9]us, rankTablePath[/a.json],"
        " rankNum[4], rank[1],server[10.0.0.2], device[1]"
    )
    log = plog(9, said, "INFO")

    first, *_ = judged(tmp_path, {"a.log": log + waits(2, 7)}, TABLE).causes

    assert first.rule.code == "RT601"
    assert first.headline == (
        "rank 1 (10.0.0.1, chip 1) runs on 10.0.0.2, and the table has it on 10.0.0.1"
    )


def test_logs_of_any_form_are_read(tmp_path: Path) -> None:
    long = b"x" * (3 << 20)
    data = long + b"\n\xff\xfe\x00 45%|###| [00:30<00:36]\r" + waits(1, 7).encode()
    (tmp_path / "a.log.gz").write_bytes(gzip.compress(data))
    (tmp_path / "cut.gz").write_bytes(gzip.compress(data)[:-20])
    (tmp_path / "link").symlink_to("/etc/hostname")

    diagnosis = diagnose([str(tmp_path), str(tmp_path / "none")])

    read = {
        Path(log.file).name: (len(log.events), log.problem) for log in diagnosis.logs
    }
    assert read["a.log.gz"] == (1, None)
    assert read["cut.gz"][1] is not None
    assert read["none"] == (0, "No such file or directory")
    assert "link" not in read
    assert diagnosis.logs[0].events[0].line == 2
    assert diagnosis.causes[0].rule.code == "RT630"


def test_what_is_kept_of_a_log_is_bounded() -> None:
    class Endless:
        left = 40

        def read(self, size: int) -> bytes:
            self.left -= 1
            return waits(1, 7).encode() * (size // 250) if self.left > 0 else b""

    log = read_log(Endless(), "endless")  # type: ignore[arg-type]

    assert len(log.events) <= 48
    assert sum(event.count for event in log.events) == log.num_lines


def test_the_command_names_the_culprit_and_exits_with_1(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "job.log").write_text(waits(1, 7) + waits(2, 7) + waits(3, 7))

    done = run("ranktable", "doctor", str(tmp_path / "job.log"))

    assert done.status == 1
    assert done.out.splitlines()[:2] == [
        "job failed: rank 0 reported nothing, although its neighbours did",
        "  3 ranks (1-3) wait for it in ALLREDUCE 7",
    ]


def test_a_log_without_a_failure_exits_with_0_and_one_without_a_job_with_2(
    run: Run, tmp_path: Path
) -> None:
    (tmp_path / "fine.log").write_text("[rank0]: step 1\n[rank1]: step 1\n")
    (tmp_path / "other.log").write_text("hello\n")

    fine = run("ranktable", "doctor", str(tmp_path / "fine.log"))
    other = run(
        "ranktable", "doctor", str(tmp_path / "other.log"), str(tmp_path / "missing")
    )

    assert (fine.status, fine.out) == (
        0, "no failure found in 1 log, 2 lines, 0 of them recognised\n",
    )  # fmt: skip
    assert other.status == 2
    assert "missing: No such file or directory" in other.err


def test_numbers_that_no_job_has_are_not_taken_for_ranks_or_sizes(
    tmp_path: Path,
) -> None:
    many = "9" * 20
    log = (
        waits(1, 7)
        + waits(2, 7).replace("[rank2]", "[rank999999999]")
        + f"Timed out after 601 seconds waiting for clients. 1/{many} clients joined.\n"
        + f"[{'9' * 5000}] finished collective #7, but didn't join collective #8\n"
    )

    diagnosis = judged(tmp_path, {"job.log": log})

    assert diagnosis.ranks.size == 3  # the line says [Rank 2] too


@pytest.mark.parametrize(
    ("given", "status"),
    [("RT6", 1), ("RT612,RT613", 1), ("RT612", 0), ("RT6130", 2), ("memory", 2)],
)
def test_selected_codes_are_a_list(
    given: str, status: int, run: Run, tmp_path: Path
) -> None:
    text = (
        "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n"
    )
    (tmp_path / "job.log").write_text(text)
    done = run("ranktable", "doctor", "job.log", "--select", given)

    assert (done.status, "no memory left" in done.out) == (status, status == 1)
    if status == 0:  # not "no failure found"
        assert done.out.startswith("no cause with these codes; 1 cause ignored\n")
