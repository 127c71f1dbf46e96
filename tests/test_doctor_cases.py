"""Logs of failed jobs with the right answer: the culprits, the cause, the exit status.

``cases/doctor`` has small logs of kinds that are easily answered wrongly, and reports
as people pasted them; ``cases/nccl-h100`` has real jobs of torch 2.11 on three ranks
that shared a GPU, ended in ways that are known.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from ranktable import load
from ranktable.doctor.diagnose import diagnose
from tests.file_cases import write_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Outcome

    Run = Callable[..., Outcome]

HERE = Path(__file__).parent / "cases"
REPORTS = json.loads((HERE / "doctor" / "reports.json").read_text())


class Right(NamedTuple):
    """What the first finding says.

    Attributes:
        codes: Its code is one of these.
        ranks: The ranks that it accuses, exactly.
        says: Texts that the whole answer has, in any case.
        never: Texts that no finding has.
    """

    codes: tuple[str, ...]
    ranks: tuple[int, ...] = ()
    says: tuple[str, ...] = ()
    never: tuple[str, ...] = ()


CASES = {
    "d01-kernel-oom": Right(("RT612",), (6,), ("hb1",)),
    "d02-plog-transport": Right(("RT604", "RT609"), (0,), ("10.61.0.1",)),
    "d03-ib-completion": Right(("RT623",), (), ("pa", "pb")),
    "d04-sixty-ranks-one-file.log": Right(("RT620",), (23,)),
    "d05-victims-raise.log": Right(("RT611",), (3,), ("hc2", "SIGKILL")),
    "d06-logs-of-one-node.log": Right(("RT630",), (), ("0-7",), ("stopped",)),
    "d07-kubectl-prefix.log": Right(("RT610",), (), ("fit-worker-2", "IndexError")),
    "d08-horovod-prefix.log": Right(("RT610",), (2,), ("IndexError",)),
    "d09-json-lines.log": Right(("RT610",), (2,), ("IndexError",)),
    "d10-device-error-in-watchdog.log": Right(("RT614",), (12,), ("ECC",)),
    "d11-elastic-restart.log": Right(("RT610",), (0,), ("ValueError",), ("MemoryErr",)),
    "d12-device-ordinal.log": Right(
        ("RT606",), (4, 5, 6, 7), ("visible",), ("Drain the node",)
    ),
    "d13-store-barrier.log": Right(("RT604",), (), ("1 rank",)),
    "d14-p2p-graph": Right(("RT604", "RT620"), (9,)),
    "d15-torchrun-block.log": Right(("RT610",), (5,), ("KeyError: 'mask'",)),
    "d16-two-clocks.log": Right(("RT610",), (2,), ("KeyError",)),
    "d17-mpirun.log": Right(("RT611",), (5,), ("hf03", "SIGSEGV")),
    "d18-deepspeed.log": Right(("RT611",), (), ("SIGKILL",), ("rank 3 ",)),
    "d19-ray-memory.log": Right(("RT612",), (), ("10.61.0.7",)),
    "d21-reports-otherwise.log": Right(("RT630",), (), (), ("stopped answering",)),
    "d22-older-client-timeout.log": Right(("RT609",), (), ("10.61.0.1", "29411")),
    "d23-node-failure-only.log": Right(("RT615",), (), (), ("hg01 was lost",)),
    "d24-evicted.log": Right(
        ("RT612", "RT616"), (), ("fit-worker-3", "hh-17", "ephemeral-storage")
    ),
    "d25-connected-512.log": Right(("RT604",), (300,)),
    "d26-tie.log": Right(("RT621",), (3, 7), ("BROADCAST", "ALLREDUCE")),
    "d27-xid-facts": Right(("RT614",), (6,), ("119", "0000:5d:00", "hi1")),
    "d28-names-of-a-host": Right(("RT612",), (3,), ("hj3",)),
    "d29-many-tracebacks.log": Right(("RT610",), (0, 1, 2, 3), ("ValueError",)),
    "d30-logical-chip.log": Right(("RT610",), (1,), ("ValueError",), ("RT601",)),
    "d31-named-timed-out-node.log": Right(("RT604",), (), ("node 3",)),
}
JOBS = {
    "ddp_one_batch_fewer": Right(("RT620", "RT621"), (1,)),
    "device_assert": Right(("RT610",), (1,), ("device-side assert",), ("Drain",)),
    "duplicate_gpu_warn": Right(("RT602",), (0, 1, 2)),
    "early_exit": Right(("RT620",), (1,)),
    "exception": Right(("RT610",), (1,), ("label 1003 is out of range",)),
    "exception_slow_exit": Right(("RT610",), (1,), ("KeyError: 'input_ids'",)),
    "hang": Right(("RT620",), (1,), ("ALLREDUCE 8",)),
    "illegal_access": Right(("RT610",), (1,), ("illegal memory access",), ("Drain",)),
    "kill9": Right(("RT611",), (2,), ("SIGKILL",)),
    "kill9_nccl_info": Right(("RT611",), (2,), ("SIGKILL",)),
    "nan_assert": Right(("RT610",), (2,), ("AssertionError",)),
    "other_shape": Right(("RT621",), (1,), ("1024", "65536")),
    "other_shape_detail": Right(("RT621",), (1,), ("1024", "65536")),
    "python_hang": Right(("RT620",), (2,), ("ALLREDUCE 8",)),
    "segfault": Right(("RT611",), (1,), ("SIGSEGV",)),
    "sigterm": Right(("RT611",), (2,), ("SIGTERM",)),
}


def judge(path: Path, right: Right) -> None:
    """Hold the answer about logs against the right one."""
    tables = list(path.parent.glob(f"{path.stem}.table.json"))
    table = load(tables[0]) if path.is_file() and tables else None
    found = diagnose([str(path)], table=table)
    answer = "\n".join(
        f"{one.code} {one.message}\n{one.hint}" for one in found.diagnostics()
    )
    assert found.causes, answer
    first = found.causes[0]
    assert first.rule.code in right.codes, answer
    assert first.ranks == right.ranks, answer
    for text in right.says:
        assert text.lower() in answer.lower(), answer
    for text in right.never:
        assert text.lower() not in answer.lower(), answer
    for event in (event for cause in found.causes for event in cause.evidence):
        assert event.line >= 1
        assert Path(event.file).exists()


@pytest.mark.parametrize("name", CASES)
def test_small_logs_get_the_right_answer(name: str) -> None:
    judge(HERE / "doctor" / name, CASES[name])


@pytest.mark.parametrize("name", JOBS)
def test_real_jobs_get_the_right_answer(name: str) -> None:
    judge(HERE / "nccl-h100" / name, JOBS[name])


@pytest.mark.parametrize("what", ["logs", "torchrun.out"])
@pytest.mark.parametrize("name", JOBS)
def test_a_part_of_the_logs_of_a_real_job_accuses_nobody_else(
    name: str, what: str
) -> None:
    path = HERE / "nccl-h100" / name / what
    found = diagnose([str(path)])

    accused = {rank for cause in found.causes[:1] for rank in cause.ranks}
    assert accused <= set(JOBS[name].ranks)


def test_a_job_that_ended_well_has_no_failure(run: Run) -> None:
    done = run("ranktable", "doctor", str(HERE / "doctor/d20-job-that-ended-well.log"))

    assert done.status == 0
    assert "no failure found" in done.out


def test_equal_tracebacks_are_one_finding() -> None:
    found = diagnose([str(HERE / "doctor" / "d29-many-tracebacks.log")])

    assert len(found.causes) == 1


@pytest.mark.parametrize("name", [each["name"] for each in REPORTS])
def test_reports_get_the_right_answer(name: str, run: Run, tmp_path: Path) -> None:
    (case,) = [each for each in REPORTS if each["name"] == name]
    write_files(tmp_path, case["files"])

    done = run(*case["command"])

    expect = case["expect"]
    assert done.status == expect.get("exit", done.status), done
    answer = done.out + done.err
    assert any(text in answer for text in expect.get("contains_any", [""])), answer
    for text in expect.get("contains_all", []):
        assert text in answer
    assert [one for one in expect.get("not_contains", []) if one in answer] == []
