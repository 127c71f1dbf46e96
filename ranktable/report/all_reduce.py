"""The result of an all_reduce on each simulated chip, as a table or as data."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ranktable.report.terminal import table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ranktable.report.terminal import Style
    from ranktable.schema.model import RankTable
    from ranktable.simulate.add_up import Contribution
    from ranktable.simulate.simulated_run import RunFinding

_HEADS = ("rank", "node", "chip", "result", "time")


def text(
    table: RankTable, found: Mapping[int, Contribution], style: Style
) -> Iterator[str]:
    """Yield a table with one line for each rank of the job."""
    rows: list[tuple[str, ...]] = [_HEADS]
    nodes = sorted(table.nodes, key=lambda node: node.devices[0].rank)
    for node_rank, node in enumerate(nodes):
        for device in node.devices:
            place = (str(device.rank), str(node_rank), str(device.device_id))
            rows.append((*place, *_result(found.get(device.rank))))
    yield from table_lines(rows, style)


def _result(found: Contribution | None) -> tuple[str, str]:
    if found is None:
        return "none", "-"
    values = ", ".join(f"{value:g}." for value in found.result)
    return f"[{values}]", f"{found.time_s * 1e3:.2f} ms"


def data(
    table: RankTable, found: Mapping[int, Contribution], findings: Sequence[RunFinding]
) -> dict[str, object]:
    """Return the results and the findings as plain data."""
    return {
        "ok": not any(finding.severity == "error" for finding in findings),
        "world_size": table.world_size,
        "num_nodes": len(table.nodes),
        "ranks": [msgspec.to_builtins(found[rank]) for rank in sorted(found)],
        "findings": [msgspec.to_builtins(finding) for finding in findings],
    }
