"""Laws of ``doctor`` on drawn jobs: what may not change the culprit, and what may."""

# ruff: noqa: S311 - jobs are drawn, nothing is kept secret

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ranktable.doctor import case, lines, payload, progress
from ranktable.doctor.diagnose import Diagnosis, diagnose
from tests.effort import law
from tests.file_cases import write_files
from tests.property.doctor_jobs import Job, draw

if TYPE_CHECKING:
    from collections.abc import Callable

    Files = dict[str, str]

SEEDS = st.integers(0, 1 << 30)
EXAMPLES = settings(max_examples=40, deadline=None)


def judged(files: Files) -> Diagnosis:
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), files)
        diagnosis = diagnose([folder])
        for cause in diagnosis.causes:
            for event in cause.evidence:
                there = Path(event.file).read_text().count("\n")
                assert 1 <= event.line <= there + 1
        return diagnosis


def answer(files: Files) -> list[tuple[str, tuple[int, ...]]]:
    return [(cause.rule.code, cause.ranks) for cause in judged(files).causes]


def is_right(job: Job) -> bool:
    found = judged(job.files()).causes
    if job.kind == "shape" and job.size == 2:  # a tie names both
        return bool(found) and job.culprit in found[0].ranks
    return bool(found) and found[0].ranks == (job.culprit,)


@given(SEEDS)
@EXAMPLES
def test_with_all_logs_the_culprit_is_named(seed: int) -> None:
    job = draw(Random(seed))

    assert is_right(job)


@given(SEEDS)
@EXAMPLES
def test_a_healthy_job_has_no_finding(seed: int) -> None:
    diagnosis = judged(draw(Random(seed), is_healthy=True).files())

    assert diagnosis.causes == ()
    assert diagnosis.has_ended_well


def of_logs(form: Callable[[str, str], str]) -> Callable[[Files], Files]:
    """Return a change of each line of the logs; kernels stay as they are."""

    def change(files: Files) -> Files:
        return {
            name: text if "dmesg" in name
            else "".join(f"{form(name, line)}\n" for line in text.splitlines())
            for name, text in files.items()
        }  # fmt: skip

    return change


CHANGES: dict[str, Callable[[Files], Files]] = {
    "names that say nothing": lambda files: {
        name if "dmesg" in name or "agent" in name else f"{chr(97 + n)}.txt": text
        for n, (name, text) in enumerate(sorted(files.items()))},
    "each file twice": lambda files: {
        **files, **{f"copy-{name}": text for name, text in files.items()}},
    "one file": lambda files: {
        "all.log": "".join(text for name, text in files.items() if "dmesg" not in name),
        **{name: text for name, text in files.items() if "dmesg" in name}},
    "a healthy job beside it": lambda files: {
        **files, "other.log": "".join(f"step {i} loss 2\n" for i in range(60))},
    "a kernel beside it": lambda files: {
        **files, "zz-dmesg.log": "Nov  5 14:20:00 zz kernel: Out of memory: Killed "
        "process 99 (chrome) total-vm:9kB\n"},
    "kubectl": of_logs(lambda name, line: f"[pod/p-{name[:-4]}/main] {line}"),
    "journald": of_logs(lambda _, line: f"Nov 05 14:20:00 n0 train[77]: {line}"),
    "an invented prefix": of_logs(lambda _, line: f"<< node-a ~ {line}"),
    "JSON": of_logs(lambda _, line: json.dumps({"level": "info", "log": line})),
    "CRLF": of_logs(lambda _, line: f"{line}\r"),
    "another time zone": of_logs(lambda _, line: line.replace("14:20:", "22:20:")),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
@given(seed=SEEDS)
@law(12)
def test_what_loses_nothing_leaves_rank_and_cause_equal(change: str, seed: int) -> None:
    files = draw(Random(seed)).files()

    assert answer(CHANGES[change](files)) == answer(files)


@given(SEEDS)
@EXAMPLES
def test_taking_logs_away_never_names_another_rank(seed: int) -> None:
    random = Random(seed)
    job = draw(random)
    names = sorted(job.files())
    without = set(random.sample(names, random.randrange(len(names))))

    found = judged(job.files(without)).causes

    named = {rank for cause in found[:1] for rank in cause.ranks}
    assert not named or job.culprit in named
    assert all(rank < job.size for cause in found for rank in cause.ranks)


STATES = (
    (
        "[PG {id} ({name}) Rank {place}] Exception (either an error or timeout) "
        "detected by watchdog at work: {seq}, last enqueued NCCL work: {next}, last "
        "completed NCCL work: {done}.\n"
    ),
    (
        "[PG ID {own} PG GUID {id}({name}) Rank {place}]  failure detected by watchdog "
        "at work sequence id: {seq} PG status: last enqueued work: {next}, last "
        "completed work: {done}\n"
    ),
    (
        "[PG {id} Rank {place}] Timeout at NCCL work: {seq}, last enqueued NCCL work: "
        "{next}, last completed NCCL work: {done}.\n"
    ),
    "",
)
"""How torch tells the group of an operation below the line that tells the operation."""


HEADS = (
    *["[rank{rank}]:[E1105 {at} ProcessGroupNCCL.cpp:632] "] * 3,
    "E1105 {at}31 4{rank} ProcessGroupNCCL.cpp:475] ",
    "[E ProcessGroupNCCL.cpp:828] ",
)
"""How lines of torch begin: before 2.2 without the rank, and often without a time."""


SIZES = (
    (2, 2, 1), (4, 2, 1), (2, 4, 1), (2, 3, 1), (1, 8, 1), (2, 2, 2), (1, 4, 2)
)  # fmt: skip
"""Ranks of a tensor group, of a data group, and stages of a pipeline."""


def waiting_in_groups(random: Random) -> tuple[int, Files]:
    """Draw ranks of which one is silent, or late; all others wait in some group."""
    tp, dp, pp = random.choice(SIZES)
    stage, size = tp * dp, tp * dp * pp
    culprit = random.randrange(size)
    groups = [("tp", range(first, first + tp)) for first in range(0, size, tp)]
    groups += [("dp", range(first + place, first + stage, tp))
               for first in range(0, size, stage) for place in range(tp)]  # fmt: skip
    groups += [("pp", range(first, size, stage)) for first in range(stage)]
    groups = [*((name, ranks) for name, ranks in groups if len(ranks) > 1),
              ("default_pg", range(size))]  # fmt: skip
    numbers = [50 * number for number in random.sample(range(1, 20), len(groups))]
    if random.random() < 0.5:  # groups of one kind do the same
        of_kind = {
            name: number for (name, _), number in zip(groups, numbers, strict=True)
        }
        numbers = [of_kind[name] for name, _ in groups]
    head, state = random.choice(HEADS), ""
    if "rank" in head:
        state = random.choice(STATES)

    def report(rank: int, group: int, at: str, later: int = 0) -> str:
        (name, ranks), seq = groups[group], numbers[group] + later
        of_rank = [one for one in groups if rank in one[1]]
        place, own = (
            ranks.index(rank),
            (of_rank.index(groups[group]) + 1) % len(of_rank),
        )
        op = "SEND" if name == "pp" else "ALLREDUCE"
        wait = (
            f"[Rank {place}] Watchdog caught collective operation timeout: WorkNCCL("
            f"SeqNum={seq}, OpType={op}, NumelIn=8, NumelOut=8, Timeout(ms)="
            f"600000) ran for {600030 + rank} milliseconds before timing out.\n"
        )
        below = state.format(id=(group + 1) % len(groups), name=name, place=place,
                             own=own, seq=seq, next=seq + 2, done=seq - 1)  # fmt: skip
        begin = head.format(rank=rank, at=at)
        return "".join(f"{begin}{text}" for text in (wait, below) if text)

    logs = {rank: f"[rank{rank}]: step 1 of 9 loss 2\n" for rank in range(size)}
    blocked = [culprit]
    while len(blocked) < size:
        rank = random.choice([one for one in range(size) if one not in blocked])
        near = [n for n, (_, ranks) in enumerate(groups)
                if rank in ranks and set(ranks) & set(blocked)]  # fmt: skip
        logs[rank] += report(rank, random.choice(near), "14:20:06.1")
        blocked.append(rank)
    if random.random() < 0.3:
        of_it = [n for n, (_, ranks) in enumerate(groups) if culprit in ranks]
        later = random.randrange(1, 3)
        logs[culprit] += report(culprit, random.choice(of_it), "14:31:40.5", later)
    if random.random() < 0.5:
        return culprit, {"job.log": "".join(logs.values())}
    return culprit, {f"rank_{rank}.log": text for rank, text in logs.items()}


@given(SEEDS)
@law(100)
def test_numbers_of_other_groups_accuse_nobody(seed: int) -> None:
    random = Random(seed)
    culprit, files = waiting_in_groups(random)
    lost = random.sample(sorted(files), random.randrange(len(files)))

    (cause,) = judged(files).causes
    some = judged({n: text for n, text in files.items() if n not in lost}).causes

    assert cause.ranks in ((culprit,), ())
    assert all(set(one.ranks) <= {culprit} for one in some)


@given(SEEDS)
@law(30)
def test_a_number_of_old_torch_is_the_rank_if_there_is_one_group(seed: int) -> None:
    random = Random(seed)
    size = random.randrange(3, 10)
    culprit = random.randrange(1, size - 1)
    head = random.choice(HEADS[3:])
    said = (
        head.format(rank=rank, at="14:20:06.1")
        + f"[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL("
        "SeqNum=412, OpType=ALLREDUCE, Timeout(ms)=600000) ran for "
        f"{600030 + random.randrange(900)} milliseconds before timing out.\n"
        + head.format(rank=rank, at="14:20:06.2")
        + "Some NCCL operations have failed or timed out. Due to\n"
        for rank in range(size)
        if rank != culprit
    )

    (cause,) = judged({"job.log": "".join(said)}).causes

    assert cause.ranks == (culprit,)


SWITCHES: dict[str, tuple[object, str, object]] = {
    "prefixes": (lines, "speaker_of", lambda text: ({}, text)),
    "coverage": (
        case.Case,
        "gaps",
        lambda self, _files=None: set(range(max(self.seen, default=0))) - self.seen,
    ),
    "payload": (payload, "_unwrapped", lambda event, _depth=4: event),
    "who went on": (progress.Continuation, "_went_on", lambda _self, _event: False),
}
SAMPLE = range(120)


def num_broken() -> int:
    """Return how many drawn jobs break one of the laws."""
    broken = 0
    for seed in SAMPLE:
        random = Random(seed)
        job = draw(random)
        healthy = draw(random, is_healthy=True)
        names = sorted(job.logs)
        without = set(random.sample(names, random.randrange(len(names))))
        part = job.files(without | set(job.agents))
        named = {rank for cause in judged(part).causes for rank in cause.ranks}
        wrapped = CHANGES["kubectl"](job.files())
        broken += not is_right(job)
        broken += bool(judged(healthy.files()).causes)
        broken += bool(named) and job.culprit not in named
        broken += answer(wrapped) != answer(job.files())
    return broken


def test_no_law_is_broken_on_the_sample() -> None:
    assert num_broken() == 0


@pytest.mark.parametrize("switch", SWITCHES)
def test_the_laws_bite_if_a_part_is_switched_off(
    switch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, name, instead = SWITCHES[switch]
    monkeypatch.setattr(where, name, instead)

    assert num_broken() > 0
