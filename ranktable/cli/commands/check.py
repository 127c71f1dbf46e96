"""``ranktable check``: what is declared against what is there, before a job."""

from __future__ import annotations

import os
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ranktable.cli.output import DEFECTS_FOUND, Color, CommandError, style, write
from ranktable.cli.parameters import ColorOption, RootOption, RunProgramsOption, valued
from ranktable.cli.sources import check_file, named_file, read_input
from ranktable.cli.table_input import refuse_without_ranks, table_in
from ranktable.cli.this_node import ROOT, TIMEOUT_S, machine_at
from ranktable.preflight.here import Checked, check_here
from ranktable.preflight.pods import MAX_SIZE_BYTES, check_pods
from ranktable.report.check_renderers import RENDERERS
from ranktable.runtime.table import VARIABLE
from ranktable.schema.finding import Options, RankTableError

if TYPE_CHECKING:
    from ranktable.schema.finding import Report

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
    select: Annotated[
        list[str] | None, valued("CODE", "Only these findings: RT706, RT7.")
    ] = None,
    ignore: Annotated[
        list[str] | None, valued("CODE", "All but these findings.")
    ] = None,
    pods: Annotated[
        str | None,
        valued(
            "FILE", "Compare with these pods: what kubectl get pods -o json prints."
        ),
    ] = None,
    root: RootOption = ROOT,
    run_programs: RunProgramsOption = False,
    timeout: Annotated[
        float, valued("S", "Seconds to wait for each of the vendors' tools.")
    ] = TIMEOUT_S,
    color: ColorOption = Color.AUTO,
) -> None:
    """Compare what a table declares with this host, before the job starts.

    Exit status: 0 all that was checked agrees, 1 something differs, 2 wrong usage, 3 it
    could not finish.

    Example: ranktable check --root recorded --format concise; echo "exit status $?"
    """
    if pods is not None:
        if host is not None or root != ROOT:
            raise CommandError("--host and --root are about one host, not about --pods")
        checked = _against_pods(table, pods)
        _end(checked.only(tuple(select or ()), tuple(ignore or ())), format, color)
        return
    machine = machine_at(root, run_programs=run_programs, timeout_s=timeout)
    file = table or os.environ.get(VARIABLE) or None
    report = None if file is None else _report(file)
    checked = check_here(machine, os.environ, report, host=host, path=file)
    _end(checked.only(tuple(select or ()), tuple(ignore or ())), format, color)


def _report(file: str) -> Report:
    """Return the report of a sound table with the ranks of one job."""
    report = check_file(file, Options(limit=5))
    refuse_without_ranks(table_in(report), report.file)
    return report


def _against_pods(table: str | None, pods: str) -> Checked:
    """Return what differs between a table and a list of pods.

    Raises:
        CommandError: One of them cannot be read.
    """
    read = read_input(pods, MAX_SIZE_BYTES)
    report = _report(named_file(table))
    try:
        return check_pods(report, read.data, file=read.name)
    except RankTableError as error:
        message = f"the pods cannot be read\n{error}"
        raise CommandError(message, COULD_NOT_FINISH) from None


def _end(checked: Checked, form: CheckFormat, color: Color) -> None:
    """Print what was found, and end with the status that says it."""
    write(dict(RENDERERS)[form.value](checked, style(color)))
    if not checked.has_looked:
        raise typer.Exit(COULD_NOT_FINISH)
    if not checked.is_agreed:
        raise typer.Exit(DEFECTS_FOUND)
