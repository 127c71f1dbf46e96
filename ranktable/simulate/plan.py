"""From what a user asks for to a run that can be started."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from ranktable.cluster.argument import ArgumentError
from ranktable.cluster.hostfiles.hostfile import hostfile_from_table, refuse_interleaved
from ranktable.simulate.boxes import refuse_crowd
from ranktable.simulate.fault_spec import parse_fault
from ranktable.simulate.run import Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ranktable.schema.model import RankTable

Vendor = Literal["sophgo", "ascend"]
Profile = Literal["doc", "source"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to start.

    Attributes:
        run: What the ranks are told.
        table: Their rank table.
        table_file: Its file, None if it has none yet.
        script: A script, or the name of a module.
        arguments: The script's own arguments.
        is_module: Whether it is a module.
        is_started_once: Whether the script starts its ranks itself.
        keeps_output: Whether what ranks print goes to files, for ``printed``.
        record_file: File for a trace of what they send, None for no trace.
    """

    run: Run
    table: RankTable
    table_file: str | None = None
    script: str
    arguments: Sequence[str] = ()
    is_module: bool = False
    is_started_once: bool = False
    keeps_output: bool = False
    record_file: str | None = None


def make_run(  # noqa: PLR0913 - what a run consists of
    table: RankTable,
    *,
    vendor: Vendor = "sophgo",
    profile: Profile = "source",
    is_strict: bool = False,
    timeout_s: float = 60.0,
    faults: Sequence[str] = (),
    is_recorded: bool = False,
) -> Run:
    """Return the run of a table.

    Raises:
        ArgumentError: There is no such vendor or profile; a fault is malformed or names
            no rank of the job; there are too many ranks; the time-out is no time.
    """
    _refuse_other("vendor", vendor, get_args(Vendor))
    _refuse_other("profile", profile, get_args(Profile))
    refuse_crowd(table.world_size)
    if not 0 < timeout_s < math.inf:
        raise ArgumentError(f"{timeout_s:g} is no time to wait for a rank")
    refuse_interleaved(hostfile_from_table(table), "torchrun, which starts the ranks,")
    # torchrun numbers its nodes by their ranks, whatever the order of the file.
    nodes = sorted(table.nodes, key=lambda node: node.devices[0].rank)
    return Run(
        vendor=vendor,
        profile=profile,
        is_strict=is_strict,
        timeout_s=timeout_s,
        chips=tuple(tuple(d.device_id for d in node.devices) for node in nodes),
        faults=tuple(parse_fault(fault, table.world_size) for fault in faults),
        is_recorded=is_recorded,
    )


def _refuse_other(what: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        raise ArgumentError(
            f"there is no {what} {name!r}; there are: {', '.join(known)}"
        )
