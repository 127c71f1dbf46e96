"""``ranktable simulate``: a job on chips that this machine does not have."""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from ranktable.cli.app import with_options
from ranktable.cli.output import (
    DEFECTS_FOUND,
    Color,
    CommandError,
    OutputFormat,
    style_of,
    write,
    write_json,
)
from ranktable.cli.parameters import ColorOption, flag, valued
from ranktable.cli.sources import STANDARD_INPUT
from ranktable.cli.table_input import sound_table
from ranktable.report import all_reduce
from ranktable.runtime.table import VARIABLE
from ranktable.schema.text import counted, printable
from ranktable.simulate.add_up import add_up
from ranktable.simulate.launch import launch
from ranktable.simulate.processes import noted_signals, run_folder
from ranktable.simulate.requirements import (
    refuse_missing_script,
    refuse_missing_torch,
    refuse_real_package,
)
from ranktable.simulate.simulation import (
    CHIPS_OF_BOX,
    Simulation,
    make_boxes,
    make_run,
    ring_warning,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.report.terminal import Style
    from ranktable.schema.model import RankTable
    from ranktable.simulate.launch import RunOutcome
    from ranktable.simulate.simulated_run import Run

_SIGNALLED = 128  # plus the number of the signal, as in shells


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """The options of the simulated chips."""

    nproc: Annotated[
        int | None,
        valued(
            "N",
            "Chips, one process on each; with --nodes, of each node. By default "
            "8, the published box.",
        ),
    ] = None
    rank_table: Annotated[
        str | None,
        valued("FILE", f"Rank table; by default ${VARIABLE}, else one is made."),
    ] = None
    nodes: Annotated[
        int | None, valued("M", "Nodes, with the chips of --nproc each.")
    ] = None
    fault: Annotated[
        list[str] | None,
        valued(
            "SPEC",
            "A failure to simulate; may be repeated: late:RANK=SECONDS, hang:RANK or "
            "die:RANK, as in die:RANK@N; N counts collectives from 1.",
        ),
    ] = None
    timeout: Annotated[
        float,
        valued("S", "Seconds to wait for a rank before it is reported as missing."),
    ] = 60.0

    def table(self) -> tuple[str | None, RankTable]:
        """Return the name of the table's file if it has one, and the table.

        Raises:
            CommandError: The options exclude each other, or the table is not sound.
            ArgumentError: There are no chips, or too many.
        """
        file = self.rank_table
        is_sized = self.nproc is not None or self.nodes is not None
        if file is not None and is_sized:
            raise CommandError(
                "--rank-table has the sizes; leave out --nproc and --nodes"
            )
        if file == STANDARD_INPUT:
            raise CommandError("every rank reads the table by itself; name a file")
        if file is not None or (os.environ.get(VARIABLE) and not is_sized):
            name, table, *_ = sound_table(file)
            return name, table
        chips = CHIPS_OF_BOX if self.nproc is None else self.nproc
        num_nodes = 1 if self.nodes is None else self.nodes
        return None, make_boxes(chips, num_nodes)

    def run(self, table: RankTable) -> Run:
        """Return the run of a table.

        Raises:
            ArgumentError: A fault is malformed or names a rank that the job lacks,
                there are too many ranks, or the time-out is not a positive number.
        """
        return make_run(table, timeout_s=self.timeout, faults=self.fault or ())

    def announcement(self, table: RankTable, *, is_made: bool) -> Iterator[str]:
        """Yield the lines that describe the simulated cluster."""
        chips = counted(table.world_size, "tpu chip")
        nodes = counted(len(table.nodes), "node")
        yield f"ranktable: simulating {chips} of {nodes} on the CPUs of this machine"
        warning = ring_warning(len(table.nodes[0].devices)) if is_made else None
        if warning is not None:
            yield f"warning: {warning}"
        if len(table.nodes) > 1:
            yield "warning: SCCL connects the chips of one machine, as its manual says"


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
    """Run a script on simulated chips, on the CPUs of this machine.

    The chips are SOPHGO's TPUs. Each rank runs the script with the variables that
    torchrun sets, and imports torch_tpu as on the real machine. Without a
    script, all chips do one all_reduce of ones and a table shows the results.

    Exit status: 0 the script and all checks passed, 1 the script failed, an error was
    found or the table is not sound, 2 it could not be started.

    Example: ranktable simulate --nproc 4 train.py --epochs 1
    """
    if not script:
        if module or once:
            name = "--module" if module else "--once"
            raise CommandError(f"{name} is for a SCRIPT")
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
    outcome = _run_script(plan) if script else _add_up(plan, format, style_of(color))
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


def _add_up(plan: Simulation, form: OutputFormat, style: Style) -> RunOutcome:
    """Run the built-in all_reduce, and show the result of each rank."""
    with noted_signals() as signals:
        outcome, found = add_up(plan, signals)
    if form == "json":
        data = all_reduce.data(plan.table, found, outcome.findings)
        write_json(data)
    else:
        write(all_reduce.text(plan.table, found, style))
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
