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
from tests.file_cases import read_cases

if TYPE_CHECKING:
    from collections.abc import Callable

READ = {name: text.rstrip("\n") for text, name in read_cases("failures").items()}
FORMS = {name: text for name, text in READ.items() if not name.startswith("stop: ")}
"""Forms of a failure of a process's own."""

STOPS = {name: text for name, text in READ.items() if name not in FORMS}
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
