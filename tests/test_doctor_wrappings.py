"""What launchers and collectors wrap lines in changes nothing that ``doctor`` says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ranktable.doctor.diagnose import diagnose

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

JOBS = Path(__file__).parent / "cases" / "nccl-h100"
RIGHT = {
    "kill9": ("RT611", (2,)),
    "hang": ("RT620", (1,)),
    "exception": ("RT610", (1,)),
    "other_shape_detail": ("RT621", (1,)),
}


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
@pytest.mark.parametrize("name", RIGHT)
def test_what_lines_are_wrapped_in_changes_nothing(
    name: str, wrapping: str, tmp_path: Path
) -> None:
    lines = (JOBS / name / "torchrun.out").read_text().splitlines()
    wrapped = "\n".join(WRAPPINGS[wrapping](lines)) + "\n"
    (tmp_path / "job.log").write_bytes(
        wrapped.encode("utf-16") if wrapping == "CRLF" else wrapped.encode()
    )

    (cause,) = diagnose([str(tmp_path)]).causes

    assert (cause.rule.code, cause.ranks) == RIGHT[name]
