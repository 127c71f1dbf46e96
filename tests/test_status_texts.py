"""``doctor`` on states as text: NCCL's RAS status and ``nvidia-smi -q``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranktable.doctor.diagnose import Diagnosis, diagnose, judge_logs
from ranktable.doctor.status_texts import status_log
from tests.effort import law
from tests.file_cases import write_files

if TYPE_CHECKING:
    from pathlib import Path

STATUS = """\
NCCL version 2.28.9 compiled with CUDA 13.0

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          4            1          8        8

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         4         8         8   RUNNING  {word}

Errors
======

{errors}Warnings
========

{warnings}"""
BEHIND = """\
#0-0 (3ab1f0c2d4e59876) MISMATCH
  Communicator ranks have different AllReduce operation counts
  7 ranks have launched up to operation 42
  Rank 3 has {} -- GPU 3 managed by process 4711 on node 10.0.0.7

"""
CLOSE = BEHIND.format("launched up to operation 41")
STATES = """\
#0-0 (3ab1f0c2d4e59876) MISMATCH
  Communicator ranks have different status
  7 ranks have status RUNNING
  Rank 6 has status {} -- GPU 2 managed by process 912 on node 10.0.0.8

"""
DEAD = """\
DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 4713 on node 10.0.0.8 managing GPU 1

#0-0 (3ab1f0c2d4e59876) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 5 -- GPU 1 managed by process 4713 on node 10.0.0.8

"""
MISSING = """\
INCOMPLETE
  Missing communicator data from 1 job process
  Process 4713 on node 10.0.0.8 managing GPU 1

#0-0 (3ab1f0c2d4e59876) INCOMPLETE
  Missing communicator data from 1 rank
  The missing rank: 5

"""
SMI = """\

==============NVSMI LOG==============

Timestamp                                              : Fri Nov 27 12:54:08 2026
Attached GPUs                                          : 2
GPU 00000000:00:06.0
    Product Name                                       : NVIDIA H100 80GB HBM3
    GPU Recovery Action                                : None
    ECC Errors
        Volatile
            SRAM Correctable                           : 4
            DRAM Uncorrectable                         : 0
        Aggregate
            DRAM Uncorrectable                         : 3
    Retired Pages
        Pending Page Blacklist                         : N/A
    Remapped Rows
        Uncorrectable Error                            : 3
        Pending                                        : No
        Remapping Failure Occurred                     : No
GPU 00000000:5D:00.0
    Product Name                                       : NVIDIA H100 80GB HBM3
    GPU Recovery Action                                : {action}
    ECC Errors
        Volatile
            SRAM Correctable                           : 0
            DRAM Uncorrectable                         : {volatile}
        Aggregate
            DRAM Uncorrectable                         : 3
    Remapped Rows
        Uncorrectable Error                            : 3
        Pending                                        : {pending}
        Remapping Failure Occurred                     : No
"""


def status(errors: str = "", warnings: str = "") -> str:
    word = "INCOMPLETE" if errors else "MISMATCH" if warnings else "OK"
    return STATUS.format(word=word, errors=errors, warnings=warnings)


def smi(action: str = "None", volatile: int = 0, pending: str = "No") -> str:
    return SMI.format(action=action, volatile=volatile, pending=pending)


def judged(folder: Path, **files: str) -> Diagnosis:
    write_files(folder, {f"{name}.txt": text for name, text in files.items()})
    return diagnose([str(folder)])


@pytest.mark.parametrize(
    ("text", "rank", "said"),
    [
        (status(DEAD), 5, "is dead for NCCL"),
        (status(MISSING), 5, "rank 5 (10.0.0.8, chip 1): does not answer NCCL"),
        (status(DEAD, BEHIND.format("launched up to operation 38")), 5, "is dead"),
        (status("", BEHIND.format("launched up to operation 38")), 3, "38 of 42"),
        (2 * status("", CLOSE), 3, "41 of 42"),
        (status("", BEHIND.format("not launched any operations")), 3, "0 of 42"),
        (status("", STATES.format("FINALIZE")), 6, "has left its communicator"),
    ],
)
def test_a_status_of_nccl_names_who_is_dead_or_behind(
    text: str, rank: int, said: str, tmp_path: Path
) -> None:
    (cause,) = judged(tmp_path, ras=text).causes

    assert cause.ranks == (rank,)
    assert said in cause.headline


@pytest.mark.parametrize(
    "text",
    [
        status(),
        status("", BEHIND.format("launched up to operation 43")),
        status("", STATES.format("ABORT")),
        status("", CLOSE),
        status("", CLOSE) + status(),
        status("", CLOSE) + status("", CLOSE.replace("41", "57").replace("42", "58")),
    ],
)
def test_a_status_without_anybody_behind_accuses_nobody(
    text: str, tmp_path: Path
) -> None:
    assert judged(tmp_path, ras=text).causes == ()


def test_a_rank_behind_in_one_status_is_no_finding_beside_steps(tmp_path: Path) -> None:
    late = status("", BEHIND.format("launched up to operation 38"))
    log = "".join(f"[rank{n % 8}]: step {n // 8} loss 2\n" for n in range(80))

    found = judged(tmp_path, ras=late, job=log)

    assert found.causes == ()
    assert "38 of 42" in found.notes[0]
    assert "second status" in found.notes[0]


def test_a_rank_one_operation_behind_is_named_if_others_gave_up_waiting(
    tmp_path: Path,
) -> None:
    log = "".join(
        f"[rank{rank}]:[E1105 14:20:01.1 ProcessGroupNCCL.cpp:632] [Rank {rank}] "
        "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=42, OpType=X, "
        "NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600037 milliseconds\n"
        for rank in range(3)
    )

    (cause,) = judged(tmp_path, ras=status("", CLOSE), job=log).causes

    assert cause.ranks == (3,)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (smi(volatile=2), "2 uncorrectable ECC errors"),
        (smi(action="Reset"), "recovery action Reset"),
        (smi(pending="Yes"), "uncorrectable ECC error: Pending"),
    ],
)
def test_a_chip_with_errors_is_named_by_its_place(
    text: str, said: str, tmp_path: Path
) -> None:
    (cause,) = judged(tmp_path, smi=text).causes

    assert cause.rule.code == "RT614"
    assert said in cause.headline
    assert "5D:00.0" in cause.headline


def test_errors_that_a_chip_has_overcome_are_no_failure(tmp_path: Path) -> None:
    assert judged(tmp_path, smi=smi()).causes == ()


def test_counters_of_a_chip_without_a_clock_do_not_stand_above_an_exception(
    tmp_path: Path,
) -> None:
    raised = (
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/job/fit.py", line 7, in <module>\n'
        "[rank1]: KeyError: 'mask'\n"
    )

    (cause,) = judged(tmp_path, job=raised, smi=smi(volatile=2)).causes

    assert (cause.rule.code, cause.ranks) == ("RT610", (1,))


def test_who_does_not_call_stands_above_counters_of_a_chip(tmp_path: Path) -> None:
    late = status("", BEHIND.format("launched up to operation 38"))

    first, second = judged(tmp_path, ras=late, smi=smi(volatile=2)).causes

    assert first.ranks == (3,)
    assert (second.rule.code, second.ranks) == ("RT614", ())


@law(200)
@given(st.lists(st.sampled_from([*status(DEAD, BEHIND).split("\n"), "  Rank 9",
                                 *smi().split("\n"), "  Rank 3 has  -- [",
                                 "#0-0 (ab) ERROR"]), max_size=30))  # fmt: skip
def test_any_lines_of_a_status_end_in_an_answer(lines: list[str]) -> None:
    text = "Job summary\n" + "\n".join(lines)

    log = status_log(text.encode(), "ras.txt")

    assert judge_logs([log]) is not None
    assert all(1 <= event.line <= log.num_lines for event in log.events)
