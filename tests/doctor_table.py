"""Print how many drawn jobs get the right answer: python -m tests.doctor_table 60.

With a folder as the second argument, the files of what fails are written there.
"""

# ruff: noqa: S311, T201 - jobs are drawn, and this is a script

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from ranktable.doctor.diagnose import Diagnosis, diagnose
from tests import doctor_generator as generator
from tests.file_cases import write_files

if TYPE_CHECKING:
    from tests.doctor_generator import Files, Job

GRADES = ("right", "other cause", "weaker", "host", "nobody", "acquitted", "wrong name")
GOOD = ("right", "host")


def judged(files: Files) -> Diagnosis:
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), files)
        return diagnose([folder])


def grade(job: Job, found: Diagnosis) -> str:
    """Return how good an answer is; the last of ``GRADES`` is the worst."""
    if not job.culprits:
        return "wrong name" if found.causes else "right"
    if not found.causes:
        return "acquitted"
    first = found.causes[0]
    if not first.ranks:  # a kernel knows hosts and process ids alone
        is_known = job.kind in ("host memory", "xid") and first.rule.code in job.codes
        return "host" if is_known and first.host == job.host(job.culprit) else "nobody"
    if not set(first.ranks) <= job.culprits:
        is_wider = job.culprits <= set(first.ranks)
        return "weaker" if is_wider else "wrong name"
    return "right" if first.rule.code in job.codes else "other cause"


def show(kind: str, number: int, kept: Path | None) -> None:
    """Print the grades of some jobs of a kind, and what went wrong."""
    grades: Counter[str] = Counter()
    for seed in range(number):
        random = Random(f"{kind} {seed}")
        is_healthy = kind == "healthy"
        job = (generator.draw_healthy(random) if is_healthy
               else generator.draw(random, kind))  # fmt: skip
        form = generator.draw_form(random, job)
        files = generator.files(job, *form)
        found = judged(files)
        result = grade(job, found)
        grades[result] += 1
        if kept and result not in GOOD:
            write_files(kept / f"{result}-{kind}-{seed}".replace(" ", "_"), files)
            said = [f"{one.rule.code} {one.headline}" for one in found.causes[:2]]
            print("   ", seed, result, form, job.launcher, job.library, job.tp,
                  set(job.culprits), said)  # fmt: skip
    print(f"{kind:32}" + "".join(f"{grades[name]:13}" for name in GRADES))


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    kept = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    print(f"{'kind':32}" + "".join(f"{name:>13}" for name in GRADES))
    for kind in (*sorted(generator.KINDS), "healthy"):
        show(kind, number, kept)


if __name__ == "__main__":
    main()
