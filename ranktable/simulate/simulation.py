"""Make a run from the options of a user."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.generate import make_table
from ranktable.cluster.hostfiles.hostfile import hostfile_from_table, refuse_interleaved
from ranktable.schema.text import counted
from ranktable.schema.topology import SOPHGO_8
from ranktable.simulate.faults import parse_fault
from ranktable.simulate.simulated_run import Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.schema.model import RankTable


CHIPS_OF_BOX = 8
"""Chips of the published box; the default for a node."""


MAX_RANKS = 1024
"""Each rank needs 55 MiB or more, so a larger number is a typing mistake."""


def refuse_crowd(world_size: int) -> None:
    """Raise if there are too many ranks for one machine.

    Raises:
        ArgumentError: There are too many.
    """
    if world_size > MAX_RANKS:
        raise ArgumentError(
            f"{world_size} ranks are too many for one machine; the limit is {MAX_RANKS}"
        )


def make_boxes(nproc: int, num_nodes: int) -> RankTable:
    """Return a table of nodes with the same chips.

    They are in the order of a ring of the published box, if this many of its chips form
    one.

    Args:
        nproc: Number of chips of each node, with one process on each.
        num_nodes: Number of nodes.

    Raises:
        ArgumentError: There are no chips or no nodes, or too many.
    """
    for count, what in ((nproc, "chips"), (num_nodes, "nodes")):
        if count < 1:
            raise ArgumentError(
                f"{count} is not a number of {what}; at least 1 is needed"
            )
    refuse_crowd(nproc * num_nodes)
    rings = SOPHGO_8.rings_of_size(nproc, limit=1)
    return make_table([rings[0] if rings else range(nproc)] * num_nodes)


def ring_warning(nproc: int) -> str | None:
    """Return the warning about a box that is larger than SOPHGO's, else None.

    If a smaller box has no ring, the ranks warn when they join.
    """
    if nproc <= CHIPS_OF_BOX:
        return None
    return (
        f"the published box has {counted(CHIPS_OF_BOX, 'chip')}, so no ring of {nproc} "
        f"is known, which SCCL needs; the chips are used in the order 0 to {nproc - 1}"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """What to start.

    Attributes:
        run: The run for the ranks.
        table: Their rank table.
        table_file: Its file, None if it has none yet.
        script: A script, or the name of a module.
        arguments: The arguments of the script.
        is_module: Whether the script is a module.
        is_started_once: Whether the script starts its ranks itself.
        keeps_output: Whether the output of ranks goes to files, for ``printed``.
    """

    run: Run
    table: RankTable
    table_file: str | None = None
    script: str
    arguments: Sequence[str] = ()
    is_module: bool = False
    is_started_once: bool = False
    keeps_output: bool = False


def make_run(
    table: RankTable,
    *,
    timeout_s: float = 60.0,
    faults: Sequence[str] = (),
) -> Run:
    """Return the run of a table.

    Raises:
        ArgumentError: A fault is malformed or names a rank that the job lacks, there
            are too many ranks, or the time-out is not a positive number.
    """
    refuse_crowd(table.world_size)
    if not 0 < timeout_s < math.inf:
        raise ArgumentError(f"{timeout_s:g} seconds is not a time to wait for a rank")
    refuse_interleaved(hostfile_from_table(table), "ranktable simulate")
    # Nodes are numbered by their ranks, as by torchrun, not in the order of the file.
    nodes = sorted(table.nodes, key=lambda node: node.devices[0].rank)
    return Run(
        timeout_s=timeout_s,
        chips=tuple(tuple(d.device_id for d in node.devices) for node in nodes),
        faults=tuple(parse_fault(fault, table.world_size) for fault in faults),
    )
