"""Logs of several attempts: the last one is judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ranktable.doctor.diagnose import Diagnosis, diagnose
from tests.file_cases import write_files

if TYPE_CHECKING:
    from pathlib import Path

RESTART = (
    "I1105 14:00:06.2 70 torch/distributed/elastic/agent/server/api.py:939] [default] "
    "Worker group FAILED. 2/3 attempts left; will restart worker group"
)
REQUEUE = (
    "slurmstepd: error: *** STEP 88.0 ON n1 CANCELLED AT 2026-11-05T14:00:06 DUE TO "
    "JOB REQUEUE ***"
)
KILLED = "srun: error: n1: task 3: Killed"
LONG = [f"[rank{n % 4}]: text number {n} of the data" for n in range(9000)]


def steps(first: int, last: int, form: str = "[rank{}]: iter {} loss 2.5") -> list[str]:
    return [form.format(r, n) for n in range(first, last) for r in range(4)]


def raised(rank: int, what: str) -> list[str]:
    lines = ("Traceback (most recent call last):", '  File "/w/fit.py", line 7, in f',
             "    g()", what)  # fmt: skip
    return [f"[rank{rank}]: {line}" for line in lines]


def ended(local_rank: int, code: int) -> str:
    return (
        "E1105 14:00:06.1 70 torch/distributed/elastic/multiprocessing/api.py:882] "
        f"failed (exitcode: {code}) local_rank: {local_rank} (pid: 8{local_rank}) of "
        "binary: /v/bin/python"
    )


def judged(folder: Path, *files: list[str], names: tuple[str, ...] = ()) -> Diagnosis:
    texts = ("\n".join(lines) + "\n" for lines in files)
    write_files(folder, dict(zip(names or ("job.log",), texts, strict=True)))
    return diagnose([str(folder)])


FIRST = {
    "an exception": [*raised(1, "MemoryError: x"), ended(1, 1), RESTART],
    "a signal": [ended(1, -9), RESTART],
    "an end without a mark": [ended(1, -9)],
    "a task that was killed": [KILLED, REQUEUE],
    "a task of which srun tells below": [REQUEUE, KILLED],
    "a task of a log that is appended to": [KILLED],
}


@pytest.mark.parametrize("why", ["PREEMPTION", "NODE FAILURE", "TIME LIMIT"])
@pytest.mark.parametrize("first", [5, 29], ids=["steps fall", "steps go on"])
def test_steps_below_the_end_by_a_scheduler_are_of_another_attempt(
    why: str, first: int, tmp_path: Path
) -> None:
    ends = REQUEUE.replace("JOB REQUEUE", why)
    lines = [*steps(0, 30), ends, *steps(first, 60), "[rank0]: training finished"]

    assert judged(tmp_path, lines).causes == ()
    assert judged(tmp_path, lines[: len(steps(0, 30)) + 3]).causes


@pytest.mark.parametrize("between", [[], LONG], ids=["short", "long"])
@pytest.mark.parametrize("first", FIRST)
def test_an_earlier_attempt_changes_nothing(
    first: str, between: list[str], tmp_path: Path
) -> None:
    above = [*steps(0, 30), *between, *steps(500, 520), *FIRST[first]]
    last = [*steps(510, 515), *between, *raised(2, "KeyError: 'mask'"), ended(2, 1)]

    (cause,) = judged(tmp_path, above + last).causes

    assert cause.headline.startswith("rank 2 raised KeyError: 'mask'")


@pytest.mark.parametrize("first", FIRST)
def test_a_job_that_ended_well_in_its_last_attempt_has_no_failure(
    first: str, tmp_path: Path
) -> None:
    last = [*steps(20, 40), "[rank0]: training finished"]

    found = judged(tmp_path, [*steps(0, 30), *FIRST[first], *last])

    assert (found.causes, found.has_ended_well) == ((), True)


@pytest.mark.parametrize("first", FIRST)
def test_an_attempt_that_nothing_follows_is_the_last_one(
    first: str, tmp_path: Path
) -> None:
    assert judged(tmp_path, [*steps(0, 30), *FIRST[first]]).causes


def test_an_attempt_that_fails_before_its_first_step_is_the_last_one(
    tmp_path: Path,
) -> None:
    log = [*steps(0, 9), *FIRST["an exception"], *raised(0, "OSError: no checkpoint")]

    (cause,) = judged(tmp_path, log).causes

    assert cause.headline.startswith("rank 0 raised OSError: no checkpoint")


@pytest.mark.parametrize(
    "below",
    [steps(1, 3, "[rank{0}]: epoch 1 iter {1} loss 2"), steps(31, 33), []],
    ids=["a new epoch", "more steps", "nothing"],
)
def test_steps_that_rise_are_of_the_same_attempt(
    below: list[str], tmp_path: Path
) -> None:
    others = [line for line in below if "rank3" not in line]

    (cause,) = judged(tmp_path, [*steps(0, 30), KILLED, *others]).causes

    assert cause.ranks == (3,)


def test_a_container_that_was_restarted_has_the_log_of_its_last_start(
    tmp_path: Path,
) -> None:
    folder = "a_fit-0_0b0f8a52-7b53-4a0e-9d0f-3f0c6d3b1d11/main"
    old = raised(1, "ValueError: old")

    new = raised(2, "KeyError: 'new'")
    names = (f"{folder}/0.log", f"{folder}/1.log")

    (cause,) = judged(tmp_path, old, new, names=names).causes

    assert cause.headline.startswith("rank 2 raised KeyError: 'new'")


@pytest.mark.parametrize("before", [[], ["[rank0]: step 1 begins"]])
def test_a_line_of_a_step_that_comes_late_begins_no_attempt(
    before: list[str], tmp_path: Path
) -> None:
    # srun says at once who was killed; what tasks print arrives later.
    lines = [
        *before,
        KILLED,
        "srun: launch/slurm: _step_signal: Terminating StepId=3.0",
        "[rank0]: step 1",
        "slurmstepd: error: *** STEP 3.0 ON n0 CANCELLED AT 2026-11-05T14:00:06 ***",
        "srun: error: n0: task 0: Terminated",
    ]
    (cause,) = judged(tmp_path, lines).causes

    assert (cause.rule.code, cause.ranks, cause.host) == ("RT611", (3,), "n1")


# A restart that only the log of the agent tells


def agent(*lines: tuple[str, str]) -> list[str]:
    where = "torch/distributed/elastic"
    return [f"{'E' if 'failed' in text else 'I'}1105 {when}.2 70 {where}/a.py:9] {text}"
            for when, text in lines]  # fmt: skip


FAILED = "failed (exitcode: {}) local_rank: {} (pid: 8{}) of binary: /v/bin/python"


def block(rank: int, code: int) -> list[str]:
    return ["  time      : 2026-11-05_14:20:09", "  host      : n1",
            f"  rank      : {rank} (local_rank: {rank})",
            f"  exitcode  : {code} (pid: 8{rank})"]  # fmt: skip


AGAIN = "[default] Worker group FAILED. 2/3 attempts left; will restart worker group"
AGENT = agent(("14:00:06", FAILED.format(1, 1, 1)), ("14:00:07", AGAIN))


def told(when: str, *lines: str) -> list[str]:
    return [f"2026-11-05 {when},015 INFO going on", *lines]


def of_ranks(
    clocks: tuple[str, ...] = ("14:00:05", "14:20:05"), what: str = "ValueError: old"
) -> dict[str, list[str]]:
    """Return logs of three ranks: rank 1 raises in the first of two attempts."""
    found: dict[str, list[str]] = {}
    for rank in range(3):
        error = raised(rank, what) if rank == 1 else []
        first, *more = clocks or ("",)
        log = [*(told(first) if first else []), f"step 7 loss {rank}.5"]
        log += [f"2026-11-05 {first},015 ERROR it failed"] * bool(first and error)
        log += error
        for clock in more:
            log += [f"2026-11-05 {clock},015 INFO read the checkpoint"]
        found[f"rank_{rank}.log"] = log
    return found


def test_what_failed_before_the_restart_of_the_agent_is_not_judged(
    tmp_path: Path,
) -> None:
    logs = {"agent.log": [*AGENT, *block(2, -9)], **of_ranks()}

    (cause,) = judged(tmp_path, *logs.values(), names=tuple(logs)).causes

    assert (cause.rule.code, cause.ranks) == ("RT611", (2,))


@pytest.mark.parametrize("clocks", [(), ("06:00:05", "06:20:05")],
                         ids=["no clock", "another zone"])  # fmt: skip
@pytest.mark.parametrize("code", [-9, 1])
def test_lines_of_an_attempt_that_is_not_known_accuse_nobody(
    clocks: tuple[str, ...], code: int, tmp_path: Path
) -> None:
    logs = {"agent.log": [*AGENT, *block(2, code)], **of_ranks(clocks)}

    found = judged(tmp_path, *logs.values(), names=tuple(logs))

    assert all(1 not in cause.ranks for cause in found.causes)
    assert "agent.log:2" in found.causes[0].headline


def test_an_agent_and_lines_of_an_unknown_attempt_that_agree_name_the_rank(
    tmp_path: Path,
) -> None:
    logs = {"agent.log": [*AGENT, *block(1, 1)], **of_ranks(())}

    found = judged(tmp_path, *logs.values(), names=tuple(logs))

    assert [cause.ranks for cause in found.causes] == [(1,)]
    assert "ValueError: old" in "".join(found.notes)


def test_a_restart_that_nothing_follows_leaves_the_attempt_before_to_be_judged(
    tmp_path: Path,
) -> None:
    logs = {"agent.log": AGENT, **of_ranks(("14:00:05",))}

    (cause,) = judged(tmp_path, *logs.values(), names=tuple(logs)).causes

    assert cause.headline.startswith("rank 1 raised ValueError: old")


def test_steps_that_fall_tell_the_attempt_where_clocks_do_not(tmp_path: Path) -> None:
    logs = {"agent.log": [*AGENT, *block(2, -9)], **of_ranks(())}
    for log in list(logs.values())[1:]:
        log += ["step 3 loss 1.5", "step 4 loss 1.5"]

    (cause,) = judged(tmp_path, *logs.values(), names=tuple(logs)).causes

    assert (cause.rule.code, cause.ranks) == ("RT611", (2,))
