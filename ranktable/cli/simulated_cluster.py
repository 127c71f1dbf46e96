"""The simulated cluster for the options of ``ranktable simulate``."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from ranktable.cli.output import CommandError
from ranktable.cli.parameters import valued
from ranktable.cli.sources import STANDARD_INPUT
from ranktable.cli.table_input import sound_table
from ranktable.runtime.table import VARIABLE
from ranktable.schema.text import counted
from ranktable.simulate.simulation import (
    CHIPS_OF_BOX,
    make_boxes,
    make_run,
    ring_warning,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ranktable.schema.model import RankTable
    from ranktable.simulate.simulated_run import Run


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


def refuse_given(why: str, options: Mapping[str, object]) -> None:
    """Raise CommandError, with the reason, for the first option that is given."""
    for name, value in options.items():
        if value:
            raise CommandError(f"{name} {why}")
