"""The simulated cluster for the options of ``ranktable simulate``."""

from __future__ import annotations

import os
from enum import Enum
from typing import TYPE_CHECKING

from ranktable.cli.output import CommandError
from ranktable.cli.table_input import STANDARD_INPUT, sound_table
from ranktable.runtime.table import VARIABLE
from ranktable.schema.diagnostic import counted
from ranktable.simulate.simulation import CHIPS_OF_BOX, make_boxes, ring_warning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.schema.model import RankTable


class Vendor(str, Enum):
    """The vendor of the simulated chips."""

    SOPHGO = "sophgo"
    ASCEND = "ascend"


_DEVICES = {Vendor.SOPHGO: "tpu", Vendor.ASCEND: "npu"}


def cluster_of(
    file: str | None, nproc: int | None, num_nodes: int | None, vendor: Vendor
) -> tuple[str | None, RankTable]:
    """Return the table, and the name of its file if it has one.

    Raises:
        CommandError: The options exclude each other, or the table is not sound.
        ArgumentError: There are no chips, or too many.
    """
    is_sized = nproc is not None or num_nodes is not None
    if file is not None and is_sized:
        raise CommandError("--rank-table has the sizes; leave out --nproc and --nodes")
    if file == STANDARD_INPUT:
        raise CommandError("every rank reads the table by itself; name a file")
    if file is not None or (os.environ.get(VARIABLE) and not is_sized):
        name, table, *_ = sound_table(file)
        return name, table

    chips = CHIPS_OF_BOX if nproc is None else nproc
    nodes = 1 if num_nodes is None else num_nodes
    return None, make_boxes(chips, nodes, vendor=vendor.value)


def announcement(table: RankTable, vendor: Vendor, *, is_made: bool) -> Iterator[str]:
    """Yield the lines that describe the simulated cluster."""
    chips = counted(table.world_size, f"{_DEVICES[vendor]} chip")
    nodes = counted(len(table.nodes), "node")
    yield f"ranktable: simulating {chips} of {nodes} on the CPUs of this machine"
    if vendor is not Vendor.SOPHGO:
        return
    warning = ring_warning(len(table.nodes[0].devices)) if is_made else None
    if warning is not None:
        yield f"warning: {warning}"
    if len(table.nodes) > 1:
        yield "warning: SCCL connects the chips of one machine, as its manual says"
