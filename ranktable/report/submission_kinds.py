"""Batch scripts and manifests of jobs as kinds of files.

Their readers are imported when a file is one: other files would pay 30 ms for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ranktable.cluster.submissions.detect import SCRIPT_NAMES, is_manifest, is_sbatch
from ranktable.schema.file_kind import DESCRIPTIONS, FileKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from ranktable.schema.file_kind import Shown, Source
    from ranktable.schema.report import Options, Report


def _judge(*, is_script: bool) -> Callable[[Source, Options], list[Report]]:
    def judge(source: Source, options: Options) -> list[Report]:
        from ranktable.report.submission_views import judge_source

        return judge_source(source, options, is_script=is_script)

    return judge


def _show(*, is_script: bool) -> Callable[[Source], Shown]:
    def show(source: Source) -> Shown:
        from ranktable.report.submission_views import show_source

        return show_source(source, is_script=is_script)

    return show


SBATCH: Final = FileKind(
    name="sbatch",
    title="a batch script of Slurm",
    detect=lambda start, name: (
        name.lower().endswith(SCRIPT_NAMES)
        or is_sbatch(start.decode("utf-8", "replace"))
    ),
    judge=_judge(is_script=True),
    names=tuple(f"*{ending}" for ending in SCRIPT_NAMES),
    endings=(".sh", ".bash", ".job", ".sub", ".batch", ".submit"),
    advice="ranktable gen makes a table of the hosts of the job",
    show=_show(is_script=True),
)
JOBS: Final = FileKind(
    name="job",
    title="the manifest of a job",
    detect=lambda start, _: is_manifest(start.decode("utf-8", "replace")),
    judge=_judge(is_script=False),
    endings=DESCRIPTIONS,
    is_part=True,
    advice="ranktable check --pods reads the pods of a job that runs",
    show=_show(is_script=False),
)
