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

from ranktable.doctor import case, lines, payload
from ranktable.doctor.diagnose import Diagnosis, diagnose
from tests.property.doctor_jobs import Job, draw

if TYPE_CHECKING:
    from collections.abc import Callable

    Files = dict[str, str]

SEEDS = st.integers(0, 1 << 30)
EXAMPLES = settings(max_examples=40, deadline=None)


def judged(files: Files) -> Diagnosis:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            Path(folder, name).write_text(text, newline="")
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
@settings(max_examples=12, deadline=None)
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


SWITCHES: dict[str, tuple[object, str, object]] = {
    "prefixes": (lines, "speaker_of", lambda text: ({}, text)),
    "coverage": (
        case.Case,
        "gaps",
        lambda self, _files=None: set(range(max(self.seen, default=0))) - self.seen,
    ),
    "payload": (payload, "_unwrapped", lambda event, _depth=4: event),
    "who went on": (case.Case, "_went_on", lambda _self, _event: False),
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
