"""``doctor`` on small logs of many kinds, and on jobs of NCCL that really failed.

Each says which code, ranks and words are right; ``doctor_cases/nccl/README.md`` says
what had gone wrong in the real jobs. What a launcher or collector wraps lines in
changes nothing.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import ranktable
from ranktable.doctor.diagnose import Diagnosis, diagnose
from ranktable.report.doctor_renderers import render_full
from ranktable.report.terminal import Style

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

HERE = Path(__file__).parent / "doctor_cases"


@dataclass(frozen=True)
class Right:
    """What is right of a case: any of some codes, the ranks, words that are told."""

    codes: tuple[str, ...]
    ranks: tuple[int, ...] = ()
    words: tuple[str, ...] = ()
    never: tuple[str, ...] = ()


_NO_CHIP = ("rain the node", "RT614")

SMALL = {
    "d01-kernel-oom": Right(("RT612",), (6,), ("hb1",)),
    "d02-plog-transport": Right(("RT604", "RT620"), (0,)),
    "d03-ib-completion": Right(("RT623",), (0, 2, 3), ("10.61.4.2",)),
    "d04-sixty-ranks-one-file.log": Right(("RT620",), (23,)),
    "d05-victims-raise.log": Right(("RT611",), (3,), ("hc2",)),
    "d06-logs-of-one-node.log": Right(("RT630",), (), ("0-7",)),
    "d07-kubectl-prefix.log": Right(("RT610",), (), ("fit-worker-2", "IndexError")),
    "d08-horovod-prefix.log": Right(("RT610",), (2,), ("IndexError",)),
    "d09-json-lines.log": Right(("RT610",), (2,), ("IndexError",)),
    "d10-device-error-in-watchdog.log": Right(("RT614",), (12,), ("ECC",)),
    "d11-elastic-restart.log": Right(("RT610",), (0,), ("ValueError",)),
    "d12-device-ordinal.log": Right(
        ("RT606",), (4, 5, 6, 7), ("CUDA_VISIBLE_DEVICES",), _NO_CHIP
    ),
    "d13-store-barrier.log": Right(("RT604",), (), ("1 rank never joined",)),
    "d14-p2p-graph": Right(("RT604",), (9,), ("10.61.0.9",)),
    "d15-torchrun-block.log": Right(("RT610",), (5,), ("he1", "KeyError: 'mask'")),
    "d16-two-clocks.log": Right(("RT610",), (2,), ("KeyError",)),
    "d17-mpirun.log": Right(("RT611",), (5,), ("hf03", "SIGSEGV", "4413")),
    "d18-deepspeed.log": Right(("RT611",), (), ("SIGKILL",), ("rank 3",)),
    "d19-ray-memory.log": Right(("RT612",), (), ("10.61.0.7",)),
    "d20-job-that-ended-well.log": Right(()),
    "d21-reports-otherwise.log": Right(("RT630",)),
    "d22-older-client-timeout.log": Right(("RT609",), (), ("10.61.0.1", "29411")),
    "d23-node-failure-only.log": Right(("RT615",), (), (), ("hg01 was",)),
    "d24-evicted.log": Right(
        ("RT616",), (), ("fit-worker-3", "hh-17", "ephemeral-storage")
    ),
    "d25-connected-512.log": Right(("RT604",), (300,)),
    "d26-tie.log": Right(
        ("RT621",), (3, 7), ("rank 3 was in BROADCAST", "rank 7 was in ALLREDUCE")
    ),
    "d27-xid-facts": Right(("RT614",), (6,), ("Xid 119", "0000:5d:00", "hi1")),
    "d28-names-of-a-host": Right(("RT612",), (3,), ("hj3",)),
    "d29-many-tracebacks.log": Right(("RT610",), (0, 1, 2, 3)),
    "d30-logical-chip.log": Right(("RT610",), (1,), ("ValueError",)),
    "d31-named-timed-out-node.log": Right(("RT604",), (), ("node 3 did not join",)),
}

REAL = {
    "ddp_one_batch_fewer": Right(("RT620", "RT621"), (1,)),
    "device_assert": Right(("RT610",), (1,), ("device-side assert",), _NO_CHIP),
    "duplicate_gpu_warn": Right(("RT602",), (0, 1, 2)),
    "early_exit": Right(("RT620",), (1,)),
    "exception": Right(("RT610",), (1,), ("ValueError: label 1003",)),
    "exception_slow_exit": Right(("RT610",), (1,), ("KeyError: 'input_ids'",)),
    "hang": Right(("RT620",), (1,), ("operation 7",)),
    "illegal_access": Right(("RT610",), (1,), ("illegal memory",), _NO_CHIP),
    "kill9": Right(("RT611",), (2,), ("SIGKILL",)),
    "kill9_nccl_info": Right(("RT611",), (2,), ("SIGKILL",)),
    "nan_assert": Right(("RT610",), (2,), ("loss is nan",)),
    "other_shape": Right(("RT621",), (1,), ("1024",)),
    "other_shape_detail": Right(("RT621",), (1,), ("1024",)),
    "python_hang": Right(("RT620",), (2,), ("operation 7",)),
    "segfault": Right(("RT611",), (1,), ("SIGSEGV",)),
    "sigterm": Right(("RT611",), (2,), ("SIGTERM",)),
}


def told(diagnosis: Diagnosis) -> str:
    return "".join(render_full(diagnosis, Style()))


def check(diagnosis: Diagnosis, right: Right) -> None:
    codes = [cause.rule.code for cause in diagnosis.causes]
    if not right.codes:
        assert codes == []
        assert diagnosis.has_ended_well
        return
    assert len(codes) == 1
    assert codes[0] in right.codes
    assert diagnosis.causes[0].ranks == right.ranks
    said = told(diagnosis)
    assert [word for word in right.words if word not in said] == []
    assert [word for word in right.never if word in said] == []


@pytest.mark.parametrize("name", SMALL)
def test_the_cause_in_a_small_log_is_found(name: str) -> None:
    path = HERE / "small" / name
    beside = path.with_name(f"{path.stem}.table.json")
    table = ranktable.loads(beside.read_bytes()) if beside.exists() else None

    check(diagnose([str(path)], table=table), SMALL[name])


@pytest.mark.parametrize("name", REAL)
def test_the_cause_of_a_job_that_really_failed_is_found(name: str) -> None:
    check(diagnose([str(HERE / "nccl" / name)]), REAL[name])
    check(diagnose([str(HERE / "nccl" / name / "torchrun.out")]), REAL[name])


@pytest.mark.parametrize("name", REAL)
def test_without_the_launcher_the_same_rank_is_named(name: str) -> None:
    diagnosis = diagnose([str(HERE / "nccl" / name / "logs")])

    assert diagnosis.causes[0].ranks == REAL[name].ranks


@pytest.mark.parametrize("name", [*SMALL, *REAL])
def test_every_line_that_is_cited_exists(name: str) -> None:
    folder = "small" if name in SMALL else "nccl"
    diagnosis = diagnose([str(HERE / folder / name)])

    for cause in diagnosis.causes:
        for event in cause.evidence:
            lines = Path(event.file).read_text("utf-8", "replace").splitlines()
            assert event.text.strip()[:40] in lines[event.line - 1]


def of_ranks(form: str, agent: str = "") -> Callable[[Sequence[str]], list[str]]:
    """Return how a launcher prefixes the lines of ranks, and its own."""

    def wrap(lines: Sequence[str]) -> list[str]:
        wrapped = []
        for line in lines:
            found = re.match(r"\[default(\d)\]:", line)
            rest = line[found.end() :] if found else line
            wrapped.append((form.format(found[1]) if found else agent) + rest)
        return wrapped

    return wrap


def of_all(form: str) -> Callable[[Sequence[str]], list[str]]:
    return lambda lines: [form.format(n % 60) + line for n, line in enumerate(lines)]


WRAPPINGS: dict[str, Callable[[Sequence[str]], list[str]]] = {
    "kubectl": of_all("[pod/fit-a/main] "),
    "kubectl of pods": of_ranks("[pod/fit-worker-{}/main] ", "[pod/fit-0/main] "),
    "stern": of_ranks("fit-worker-{} main ", "fit-launcher-0 main "),
    "compose": of_ranks("worker-{}  | ", "agent-0  | "),
    "journald": of_all("Nov 05 14:20:{:02} n0 train[77]: "),
    "journald in ISO": of_all("2026-11-05T14:20:{:02}+0000 n0 train[77]: "),
    "horovod": of_ranks("[{}]<stderr>:", "[0]<stdout>:"),
    "Open MPI 4": of_ranks("[1,{}]<stderr>: ", "[1,0]<stdout>: "),
    "Open MPI 5": of_ranks("[prterun-n1-88@1,{}]<stderr>: "),
    "hydra": of_ranks("[{}] "),
    "srun -l": of_ranks("  {}: "),
    "CRI": of_all("2026-11-05T14:20:{:02}.123456789Z stderr F "),
    "Ray": of_ranks("(RayTrainWorker pid=4{}, ip=10.0.0.7) ", "(driver pid=7) "),
    "pdsh": of_all("node1: "),
    "invented": of_ranks("<< proc {} >> ", "<< proc a >> "),
    "invented with a counter": of_all("alpha|{}|"),
    "a logger": of_ranks("2026-11-05 14:20:00,123 INFO worker-{} : "),
    "two of them": of_all("2026-11-05T14:20:{:02}.1Z [pod/fit-a/main] "),
    "colours": lambda lines: [f"\x1b[36m{line}\x1b[0m" for line in lines],
    "JSON": lambda lines: [json.dumps({"n": n, "log": f"{line}\n"})
                           for n, line in enumerate(lines)],
    "CRLF": lambda lines: [f"{line}\r" for line in lines],
    "a healthy log above": lambda lines: [
        *(f"INFO other job step {n}" for n in range(40)), *lines],
}  # fmt: skip


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("name", ["kill9", "hang", "exception", "other_shape_detail"])
def test_what_lines_are_wrapped_in_changes_nothing(
    name: str, wrapping: str, tmp_path: Path
) -> None:
    lines = (HERE / "nccl" / name / "torchrun.out").read_text().splitlines()
    wrapped = "\n".join(WRAPPINGS[wrapping](lines)) + "\n"
    (tmp_path / "job.log").write_bytes(
        wrapped.encode("utf-16") if wrapping == "CRLF" else wrapped.encode()
    )

    check(diagnose([str(tmp_path)]), REAL[name])
