"""``ranktable doctor``: from the logs of a failed job to the culprit."""

from __future__ import annotations

import os
from typing import Annotated, Literal

import typer

from ranktable.cli.output import (
    COULD_NOT_JUDGE,
    DEFECTS_FOUND,
    Color,
    CommandError,
    style_of,
    write,
)
from ranktable.cli.parameters import ColorOption, SelectOption, codes_in, valued
from ranktable.cli.progress import progress
from ranktable.cli.table_input import sound_table
from ranktable.doctor.diagnose import Diagnosis, diagnose
from ranktable.report.doctor_renderers import RENDERERS
from ranktable.runtime.table import VARIABLE
from ranktable.schema.text import counted


def doctor(
    logs: Annotated[
        list[str],
        typer.Argument(metavar="LOG", help="Logs, folders of logs, or -."),
    ],
    rank_table: Annotated[
        str | None,
        valued("FILE", f"Table of the job; by default ${VARIABLE}, if it is set."),
    ] = None,
    format: Annotated[
        Literal["full", "concise", "json", "markdown"],
        typer.Option(help="Form of the diagnosis."),
    ] = "full",
    select: SelectOption = None,
    color: ColorOption = Color.AUTO,
) -> None:
    """Find from logs which rank, host and chip made a job fail.

    Exit status: 0 no failure, and a sign that the job ended or goes on; 1 a cause
    found; 2 the logs could not be judged, or nothing in them says how the job ended.

    Example: ranktable doctor job.log --rank-table sccl_rank_table.json
    """
    codes = codes_in(select)
    file = rank_table or os.environ.get(VARIABLE)
    table = sound_table(file).table if file else None
    with progress() as line:
        diagnosis = diagnose(
            logs, table=table, on_file=lambda name: line.show(f"reading {name}")
        )
    if not diagnosis.is_judged:
        raise CommandError(_not_judged(diagnosis))
    if codes:
        diagnosis = diagnosis.only(codes)
    write(RENDERERS[format](diagnosis, style_of(color)))
    if diagnosis.causes:
        raise typer.Exit(DEFECTS_FOUND)
    if not (diagnosis.has_ended_well or codes):
        raise typer.Exit(COULD_NOT_JUDGE)


def _not_judged(diagnosis: Diagnosis) -> str:
    problems = [f"{log.file}: {log.problem}" for log in diagnosis.logs if log.problem]
    read = sum(1 for log in diagnosis.logs if log.num_bytes)
    said = f"{counted(read, 'file')} with content, none with a line that is known"
    lines = [f"nothing in these logs could be judged: {said}", *problems[:8]]
    if len(problems) > 8:
        lines.append(f"... and {len(problems) - 8} more that could not be read")
    return "\n".join(lines)
