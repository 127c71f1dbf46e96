"""``ranktable simulate``: a job on chips that this machine does not have."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ranktable.cli.app import with_options
from ranktable.cli.output import (
    DEFECTS_FOUND,
    Color,
    CommandError,
    OutputFormat,
    style,
    write,
    write_json,
)
from ranktable.cli.parameters import ColorOption, flag
from ranktable.cli.simulated_cluster import ClusterOptions, refuse_given
from ranktable.report import all_reduce
from ranktable.schema.text import printable
from ranktable.simulate.add_up import add_up
from ranktable.simulate.launch import launch
from ranktable.simulate.processes import noted_signals, run_folder
from ranktable.simulate.requirements import (
    refuse_missing_script,
    refuse_missing_torch,
    refuse_real_package,
)
from ranktable.simulate.simulation import Simulation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.report.terminal import Style
    from ranktable.simulate.launch import RunOutcome

_SIGNALLED = 128  # plus the number of the signal, as in shells


@with_options(cluster=ClusterOptions)
def simulate(
    *,
    script: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="SCRIPT",
            help="Script to start, and its arguments; by default an all_reduce.",
        ),
    ] = None,
    cluster: ClusterOptions,
    module: Annotated[
        bool, flag("SCRIPT is the name of a module.", "--module", "-m")
    ] = False,
    once: Annotated[
        bool,
        flag("Start SCRIPT once: it starts its ranks, as mp.spawn does.", "--once"),
    ] = False,
    force: Annotated[
        bool, flag("Run even if the vendor's real package is installed.", "--force")
    ] = False,
    format: Annotated[
        OutputFormat, typer.Option(help="Form of the output of the all_reduce.")
    ] = "text",
    color: ColorOption = Color.AUTO,
) -> None:
    """Run a script on simulated chips: SOPHGO's TPUs, on the CPUs of this machine.

    Each rank runs the script with the variables that torchrun sets, and imports
    torch_tpu as on the real machine. Without a script, all chips do one all_reduce of
    ones and a table shows the results.

    Exit status: 0 the script and all checks passed, 1 the script failed, an error was
    found or the table is not sound, 2 it could not be started.

    Example: ranktable simulate --nproc 4 train.py --epochs 1
    """
    if not script:
        refuse_given("is for a SCRIPT", {"--module": module, "--once": once})
    elif format != "text":
        raise CommandError("--format is for the all_reduce that runs without a SCRIPT")
    file, table = cluster.table()
    if once and len(table.nodes) > 1:
        raise CommandError("--once is for one node; leave it out for several")
    run = cluster.run(table)
    _refuse_to_start(script, is_module=module, is_forced=force)
    for line in cluster.announcement(table, is_made=file is None):
        _say(line)
    plan = Simulation(
        run=run,
        table=table,
        table_file=file,
        script=script[0] if script else "",
        arguments=script[1:] if script else (),
        is_module=module,
        is_started_once=once,
    )
    outcome = _run_script(plan) if script else _add_up(plan, format, style(color))
    raise typer.Exit(_status(outcome))


def _refuse_to_start(
    script: Sequence[str] | None, *, is_module: bool, is_forced: bool
) -> None:
    """Raise if ranks could not start, or would not import the simulated packages."""
    refuse_real_package(is_forced=is_forced)
    if script:
        refuse_missing_script(script[0], is_module=is_module)
    refuse_missing_torch()


def _run_script(plan: Simulation) -> RunOutcome:
    with noted_signals() as signals, run_folder() as folder:
        return launch(plan, folder, signals)


def _add_up(plan: Simulation, form: OutputFormat, look: Style) -> RunOutcome:
    """Run the built-in all_reduce, and show the result of each rank."""
    with noted_signals() as signals:
        outcome, found = add_up(plan, signals)
    if form == "json":
        data = all_reduce.data(plan.table, found, outcome.findings)
        write_json(data)
    else:
        write(all_reduce.text(plan.table, found, look))
    return outcome


def _status(outcome: RunOutcome) -> int:
    """Print the findings, and return the exit status."""
    for found in outcome.findings:
        _say(f"{found.severity}: {printable(found.message)}")
    if outcome.signum is not None:
        return _SIGNALLED + outcome.signum
    return DEFECTS_FOUND if outcome.errors else 0


def _say(line: str) -> None:
    with contextlib.suppress(OSError):
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
