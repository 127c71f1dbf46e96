"""Whatever form a process dies in, its last words are evidence, unless it goes on."""

# ruff: noqa: S311 - jobs are drawn, nothing is kept secret

from __future__ import annotations

import io
import json
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranktable.doctor.diagnose import Diagnosis, judge_logs
from ranktable.doctor.lines import read_log
from tests.effort import law

if TYPE_CHECKING:
    from collections.abc import Callable

FORMS = {
    "traceback": """\
Traceback (most recent call last):
  File "/w/fit.py", line 12, in run
    loss = step(batch)
ValueError: label 1003 is out of range""",
    "rich": """\
╭───────────────── Traceback (most recent call last) ─────────────────╮
│ /w/fit.py:12 in run                                                 │
│                                                                     │
│ ❱ 12 │   loss = step(batch)                                         │
╰─────────────────────────────────────────────────────────────────────╯
ValueError: label 1003 is out of range""",
    "rich in ASCII": """\
+----------------- Traceback (most recent call last) -----------------+
| /w/fit.py:12 in run                                                 |
| > 12 |   loss = step(batch)                                         |
+---------------------------------------------------------------------+
ValueError: label 1003 is out of range""",
    "group": """\
  + Exception Group Traceback (most recent call last):
  |   File "/w/fit.py", line 12, in run
  |     asyncio.run(go())
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/w/data.py", line 4, in load
    |     raise ValueError("bad shard")
    | ValueError: bad shard
    +------------------------------------""",
    "group of a bare one": """\
  + Exception Group Traceback (most recent call last):
  |   File "/w/fit.py", line 12, in run
  | ExceptionGroup: two of them (1 sub-exception)
  +-+---------------- 1 ----------------
    | ValueError: bad shard
    +------------------------------------""",
    "loguru": """\
2026-11-05 10:00:00.123 | ERROR    | fit:run:12 - An error has been caught:
Traceback (most recent call last):

> File "/w/fit.py", line 12, in run
    step(batch)
    └ <function step at 0x7f>

ZeroDivisionError: division by zero""",
    "each line logged": """\
2026-11-05 10:00:00,123 ERROR trainer: Traceback (most recent call last):
2026-11-05 10:00:00,124 ERROR trainer:   File "/w/fit.py", line 12, in run
2026-11-05 10:00:00,124 ERROR trainer:     step(batch)
2026-11-05 10:00:00,124 ERROR trainer: ZeroDivisionError: division by zero""",
    "syntax": """\
  File "/w/fit.py", line 4
    x = = 3
        ^
SyntaxError: invalid syntax""",
    "bare exception": "IndexError: list index out of range",
    "exception of a library": "jax.errors.JaxRuntimeError: INTERNAL: device halted",
    "exception without text": "AssertionError",
    "C++": """\
terminate called after throwing an instance of 'std::out_of_range'
  what():  vector::_M_range_check: __n (which is 9) >= this->size() (which is 0)""",
    "C++ without a text": "terminate called after throwing an instance of 'int'",
    "glog": """\
F1105 10:00:00.123456  81 kernel.cc:88] Check failed: n > 0 (0 vs. 0)
*** Check failure stack trace: ***""",
    "glog without a condition": """\
F20261105 10:00:00.123456  81 kernel.cc:88] the table is empty
*** Check failure stack trace: ***""",
    "TensorFlow": "2026-11-05 10:00:00.123456: F tensorflow/core/a.cc:88] Check "
    "failed: x.ok()",
    "signal of glog": "*** SIGSEGV (@0x0) received by PID 81 (TID 0x7f) from PID 0; "
    "stack trace: ***",
    "abort of glog": "*** SIGABRT (@0x51) received by PID 81 (TID 0x7f) from PID 81; "
    "stack trace: ***",
    "assertion": "python3: /w/x.cu:88: void launch(): Assertion `err == 0' failed.",
    "malloc": "malloc(): corrupted top size",
    "free": "free(): invalid pointer",
    "double free": "double free or corruption (!prev)",
    "old glibc": "*** Error in `python': corrupted size vs. prev_size: 0x01 ***",
    "stack": "*** stack smashing detected ***: terminated",
    "Rust": """\
thread '<unnamed>' panicked at src/lib.rs:88:9:
called `Result::unwrap()` on an `Err` value: Custom { kind: UnexpectedEof }
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace""",
    "older Rust": "thread 'main' panicked at 'index 9', src/main.rs:4:5",
    "Go": "panic: runtime error: index out of range [5] with length 3",
    "Python": "Fatal Python error: Segmentation fault",
    "ROCm": "Memory access fault by GPU node-5 (Agent handle: 0x55d0) on address "
    "0x7f1c40c00000. Reason: Page not present or supervisor privilege.",
    "FATAL": "FATAL: data directory /data/x is empty",
    "ERROR": "2026-11-05 10:00:00 ERROR the shard index is broken",
    "JSON": '{"level":"error","msg":"training crashed"}',
    "JSON with a time first": '{"time": "10:00", "severity": "FATAL", "message": "no"}',
    "JSON of pino": '{"level":60,"msg":"training crashed"}',
    "options": "fit.py: error: unrecognized arguments: --lr",
    "a program": "Error: cannot open /data/x",
    "killed": "Killed",
    "crash": "Segmentation fault (core dumped)",
    "abort": "Aborted (core dumped)",
    "instruction": "Illegal instruction (core dumped)",
    "number": "Floating point exception (core dumped)",
    "script": "run.sh: line 9:  4411 Aborted                 (core dumped) python x.py",
    "zsh": "zsh: segmentation fault  python x.py",
    "job of a shell": "[1]+  Killed                  python x.py",
    "make": "make: *** [Makefile:12: train] Error 1",
    "make of a part": "make[2]: *** [Makefile:12: train] Killed",
    "kubectl": "command terminated with exit code 137",
    "compose": "trainer exited with code 139",
    "GitHub": "##[error]Process completed with exit code 1.",
    "time": "Command terminated by signal 9",
    "time and status": "Command exited with non-zero status 1",
    "Go program": "exit status 2",
    "registration": "(raylet) worker_pool.cc:586: Some workers of the worker process("
    "26154) have not registered within the timeout. The process is dead, probably it "
    "crashed during start.",
}  # fmt: skip
"""Forms of a failure of a process's own."""

STOPS = {
    "Ctrl-C": "^C\nKeyboardInterrupt",
    "told to end": "Terminated",
    "told to end, by make": "make: *** [Makefile:2: all] Terminated",
    "ssh": "Connection to gpu-3 closed by remote host.",
    "client of ssh": "client_loop: send disconnect: Broken pipe",
}
"""Forms in which a process ends because of others: they accuse nobody."""

WRAPPINGS: dict[str, Callable[[int, str], str]] = {
    "plain": lambda _, line: line,
    "rank": lambda rank, line: f"[rank{rank}]: {line}",
    "srun -l": lambda rank, line: f"{rank}: {line}",
    "kubectl": lambda rank, line: f"[pod/fit-worker-{rank}/main] {line}",
    "JSON": lambda rank, line: json.dumps({"rank": rank, "level": "info", "msg": line}),
}
NAMES = {"rank": "rank 2", "srun -l": "rank 2", "JSON": "rank 2",
         "kubectl": "fit-worker-2"}  # fmt: skip
LOST = (
    "torch.distributed.DistBackendError: NCCL error in: /b/ProcessGroupNCCL.cpp:3690, "
    "remote process exited or there was a network error, NCCL version 2.21.5"
)
CULPRIT = 2
ENOUGH = 20
"""Steps after which also a process without a name has overcome an error."""

seeds = st.integers(0, 1 << 30)


def steps(
    start: int, number: int, random: Random, *ranks: int
) -> list[tuple[int, str]]:
    """Return lines of steps, of each rank in order, in any order of ranks."""
    said = [(rank, f"step {start + n} loss {3 - n / 99:.3f}") for rank in ranks
            for n in range(number)]  # fmt: skip
    order = random.sample(range(len(said)), len(said))
    at = {rank: iter([line for line in said if line[0] == rank]) for rank in ranks}
    return [next(at[said[place][0]]) for place in order]


def judged(said: list[tuple[int, str]], wrapping: str) -> Diagnosis:
    text = "".join(f"{WRAPPINGS[wrapping](*line)}\n" for line in said)
    return judge_logs([read_log(io.BytesIO(text.encode()), "job.log")])


def of(form: str) -> list[tuple[int, str]]:
    return [(CULPRIT, line) for line in {**FORMS, **STOPS}[form].split("\n")]


def told(diagnosis: Diagnosis) -> str:
    causes = (f"{cause.headline} {cause.evidence}" for cause in diagnosis.causes[:1])
    return " ".join((*causes, diagnosis.unknown_text or ""))


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("form", FORMS)
@law(10)
@given(seeds)
def test_who_dies_in_a_form_is_named_even_after_steps(
    form: str, wrapping: str, seed: int
) -> None:
    random = Random(seed)
    said = steps(0, random.randint(1, 30), random, *range(4)) + of(form)
    if random.random() < 0.5:  # rank 1 is only quiet
        said += [(rank, LOST) for rank in (0, 3)]

    diagnosis = judged(said, wrapping)

    assert diagnosis.causes
    assert {rank for cause in diagnosis.causes for rank in cause.ranks} <= {CULPRIT}
    assert NAMES.get(wrapping, "") in told(diagnosis).replace("1 rank (", "rank ")


@pytest.mark.parametrize("form", STOPS)
@law(10)
@given(seeds)
def test_a_job_that_is_stopped_did_not_end_well(form: str, seed: int) -> None:
    random = Random(seed)

    diagnosis = judged(steps(0, random.randint(1, 30), random, 0) + of(form), "plain")

    assert diagnosis.causes
    assert not any(cause.ranks for cause in diagnosis.causes)


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("form", [*FORMS, *STOPS])
@law(10)
@given(seeds)
def test_who_goes_on_below_a_form_has_overcome_it(
    form: str, wrapping: str, seed: int
) -> None:
    random = Random(seed)
    least = ENOUGH if wrapping == "plain" else 1
    said = steps(0, random.randint(1, 9), random, *range(4)) + of(form)
    said += steps(30, random.randint(least, least + 9), random, *range(4))

    diagnosis = judged(said, wrapping)

    assert diagnosis.causes == ()
    assert diagnosis.has_ended_well


@pytest.mark.parametrize(
    "line",
    [
        "worker 3 exited with code 0", "ERRORS: 0", "error: 0.25 at the end",
        "val_error: 0.1", "make: [Makefile:3: lint] Error 1 (ignored)",
        "tcmalloc: large alloc 1073741824 bytes == 0x55", "Aborted: 0 of 8",
        "Connection to gpu-3 closed.", "all Assertions passed", "Terminated workers: 0",
        '{"level":"info","msg":"no error"}', "exit code 0", "Check failed: none",
        "E0000 00:00:1762.1 7 cuda_dnn.cc:8310] Unable to register cuDNN factory",
        "Killed 3 of 9 monsters", "the ValueError: of the reader is handled",
        "UserWarning: the sampler has no seed",
    ],
)  # fmt: skip
def test_a_similar_line_at_the_end_is_no_failure(line: str) -> None:
    diagnosis = judged([*steps(0, 9, Random(1), 0), (0, line)], "plain")

    assert diagnosis.causes == ()
    assert diagnosis.has_ended_well
