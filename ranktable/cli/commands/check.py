"""``ranktable check``: what is declared against what is there, before a job."""

from __future__ import annotations

import math
import os
import sys
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ranktable.cli.output import (
    DEFECTS_FOUND,
    Color,
    CommandError,
    put_table,
    style_of,
    write,
)
from ranktable.cli.parameters import (
    ColorOption,
    ReplaceTableOption,
    RootOption,
    RunProgramsOption,
    SelectOption,
    codes_in,
    flag,
    valued,
)
from ranktable.cli.sources import check_file, read_input
from ranktable.cli.table_input import table_in
from ranktable.cli.this_node import ROOT, TIMEOUT_S, machine_at
from ranktable.preflight.here import Checked, check_here
from ranktable.preflight.live import check_live
from ranktable.preflight.pods import MAX_SIZE_BYTES, check_pods
from ranktable.preflight.records import table_of
from ranktable.report.check_renderers import RENDERERS
from ranktable.runtime.table import VARIABLE
from ranktable.schema.finding import RankTableError
from ranktable.schema.report import Options
from ranktable.schema.text import printable
from ranktable.schema.writing import dumps_judged

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ranktable.preflight.records import ProcessRecord
    from ranktable.schema.report import Report

COULD_NOT_FINISH: Final = 3


class CheckFormat(str, Enum):
    """Forms of what a check has found."""

    FULL = "full"
    CONCISE = "concise"
    JSON = "json"
    MARKDOWN = "markdown"
    SARIF = "sarif"
    GITHUB = "github"


def check(
    table: Annotated[
        str | None,
        typer.Argument(metavar="TABLE", help=f"Rank table; by default ${VARIABLE}."),
    ] = None,
    host: Annotated[
        str | None,
        valued("NAME", "What the table calls this host, or the index of its node."),
    ] = None,
    format: Annotated[
        CheckFormat, typer.Option(help="Form of the findings.")
    ] = CheckFormat.FULL,
    select: SelectOption = None,
    ignore: Annotated[
        list[str] | None, valued("CODES", "Report all but these codes.")
    ] = None,
    pods: Annotated[
        str | None,
        valued("FILE", "Look at these pods: what kubectl get pods -o json prints."),
    ] = None,
    root: RootOption = ROOT,
    run_programs: RunProgramsOption = False,
    live: Annotated[
        bool, flag("Compare all processes of a job; start it like the job.", "--live")
    ] = False,
    links: Annotated[
        bool,
        flag(
            "Measure an all_reduce in each node, then between pairs of nodes; start it "
            "like the job.",
            "--links",
        ),
    ] = False,
    size: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=4096,
            metavar="MIB",
            help="With --links, size of a tensor; by default 64, on CPUs 4.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        valued(
            "FILE", "With --live, the table of the job as it runs.", "--output", "-o"
        ),
    ] = None,
    force: ReplaceTableOption = False,
    timeout: Annotated[
        float | None,
        valued(
            "S",
            "Seconds for each vendor's tool, by default 10; with --live for all "
            "processes to come, by default 30; with --links as long again to measure, "
            "by default 120.",
        ),
    ] = None,
    color: ColorOption = Color.AUTO,
) -> None:
    """Compare what a table declares with this host, or with all processes of a job.

    Exit status: 0 all that was checked agrees, 1 something differs, 2 wrong usage, 3 it
    could not finish.

    Example: ranktable check --root recorded --format concise; echo "exit status $?"
    """
    only = (codes_in(select), codes_in(ignore))
    of_job = "--live" if live else "--links" if links else ""
    other = of_job or ("--pods" if pods is not None else "")
    misused = {
        "TABLE: the name is empty": table == "",
        "--host: the name is empty": host is not None and not host.strip(),
        f"--host and --root are about one host, not about {other}": (
            other and (host is not None or root != ROOT)
        ),
        "--size needs --links: it is the size of what is sent": (
            size is not None and not links
        ),
        f"--pods is for one process, {of_job} for all of a job": (
            pods is not None and of_job
        ),
        "--timeout: the seconds are above 0": (
            timeout is not None and not (math.isfinite(timeout) and timeout > 0)
        ),
        "-o needs --live: the table is made of what processes say": (
            output is not None and not live
        ),
        "--force needs -o: it replaces that file": force and output is None,
        "--run-programs needs --root: on this host they are run anyway": (
            run_programs and root == ROOT
        ),
    }
    for why, is_wrong in misused.items():
        if is_wrong:
            raise CommandError(why)
    file = table or os.environ.get(VARIABLE) or None
    if pods is not None:
        checked = _against_pods(file, pods)
        _end(checked.only(*only), format, color)
        return
    if of_job:
        measure = {"size_mib": size, "with_live": live} if links else None
        _live(file, timeout, output, only, format, color, force=force, measure=measure)
        return
    machine = machine_at(
        root, run_programs=run_programs, timeout_s=timeout or TIMEOUT_S
    )
    report = None if file is None else _report(file)
    checked = check_here(machine, os.environ, report, host=host, path=file)
    _end(checked.only(*only), format, color)


def _report(file: str) -> Report:
    """Return the report of a sound table."""
    report = check_file(file, Options(limit=5))
    table_in(report)
    return report


def _against_pods(table: str | None, pods: str) -> Checked:
    """Return what is wrong with pods, and how a table, if any, differs from them.

    Raises:
        CommandError: One of them cannot be read.
    """
    if table == pods == "-":
        raise CommandError("standard input is the table or the pods, not both")
    read = read_input(pods, MAX_SIZE_BYTES)
    report = None if table is None else _report(table)
    try:
        return check_pods(report, read.data, file=read.name)
    except RankTableError as error:
        message = f"the pods cannot be read\n{error}"
        raise CommandError(message, COULD_NOT_FINISH) from None


def _live(
    file: str | None,
    timeout_s: float | None,
    output: str | None,
    only: tuple[tuple[str, ...], tuple[str, ...]],
    form: CheckFormat,
    color: Color,
    *,
    force: bool,
    measure: Mapping[str, Any] | None,
) -> None:
    """Compare all processes, and end this one with the status of the verdict.

    With ``measure`` they then measure their links, with these options.
    """
    found, unread = None, ""
    if file is not None:
        report = check_file(file, Options(limit=1, is_table_wanted=True))
        found = report.table
        if found is None:
            first = report.diagnostics[0]
            unread = f"not read ({first.code} {first.message})"
    then = None
    if measure is not None:
        from ranktable.preflight.links import LinkCheck

        then = LinkCheck(table=found, unread=unread, timeout_s=timeout_s, **measure)
    try:
        result = check_live(
            os.environ,
            found,
            unread=unread,
            path=file,
            timeout_s=timeout_s,
            wants_records=output is not None,
            then=then,
        )
    except ImportError:
        option = "--live" if measure is None else "--links"
        raise CommandError(f"{option} needs torch: pip install torch") from None
    checked = result.checked.only(*only)
    if result.is_speaker:
        write(RENDERERS[form.value](checked, style_of(color)))
        if output is not None and result.is_finished:
            _write_observed(result.records, output, checked, force=force)
    status = 0 if checked.is_agreed else DEFECTS_FOUND
    if not result.is_finished or not checked.has_looked:
        status = COULD_NOT_FINISH
    sys.stdout.flush()
    sys.stderr.flush()
    result.leave()
    # A thread that still waits in torch would abort the interpreter at its end.
    os._exit(status)


def _write_observed(
    records: Sequence[ProcessRecord], output: str, checked: Checked, *, force: bool
) -> None:
    """Write the table of the job, unless its ranks are not those of one job."""
    wrong = {each.code for each in checked.diagnostics} & {
        *("RT730", "RT731", "RT732", "RT734", "RT781")
    }
    if wrong:
        codes = ", ".join(sorted(wrong))
        sys.stderr.write(f"{printable(output)} is not written: {codes}\n")
        return
    table = table_of(records)
    put_table(output, table, dumps_judged(table)[0], force=force)


def _end(checked: Checked, form: CheckFormat, color: Color) -> None:
    """Print what was found, and end with the status that says it."""
    write(RENDERERS[form.value](checked, style_of(color)))
    if not checked.has_looked:
        raise typer.Exit(COULD_NOT_FINISH)
    if not checked.is_agreed:
        raise typer.Exit(DEFECTS_FOUND)
