"""A table that is only asked who is where; it may be one of Ascend's."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec import structs

from ranktable.cli.files import TableFile, check_file, named_file, table_in
from ranktable.schema.build import build_table
from ranktable.schema.check import Options, check_bytes
from ranktable.schema.diagnostic import Severity
from ranktable.schema.formats.hccl import HCCL
from ranktable.schema.rules.placement import RANKS_OUT_OF_ORDER
from ranktable.schema.rules.shape import OTHER_VENDOR

if TYPE_CHECKING:
    from ranktable.schema.check import Report
    from ranktable.schema.model import RankTable


def placed_table(file: str | None) -> TableFile:
    """Return a file and its table, of SCCL or of HCCL.

    Raises:
        CommandError: The table has errors; the message is their concise form.
    """
    report = check_file(named_file(file), Options(limit=5))
    if OTHER_VENDOR.code in report.totals and report.data is not None:
        options = Options(limit=5, format=HCCL)
        ascend = check_bytes(report.data, options, file=report.file)
        if ascend.columns is not None and ascend.columns.num_nodes:
            return TableFile(ascend.file, _in_rank_order(ascend), report.data)
    return TableFile(report.file, table_in(report), report.data or b"")


def _in_rank_order(report: Report) -> RankTable:
    """Return the table of a report, whose servers may list their ranks in any order."""
    errors = report.count(Severity.ERROR)
    if report.columns is None or errors != report.totals.get(
        RANKS_OUT_OF_ORDER.code, 0
    ):
        return table_in(report)
    table, by_rank = build_table(report.columns), attrgetter("rank")
    nodes = [
        structs.replace(node, devices=tuple(sorted(node.devices, key=by_rank)))
        for node in table.nodes
    ]
    nodes.sort(key=lambda node: node.devices[0].rank)
    return structs.replace(table, nodes=tuple(nodes))
