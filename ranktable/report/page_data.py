"""What a page shows, as the plain data that its JSON block has."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ranktable.layout.change.nodes import node_names
from ranktable.layout.parallel import describe_sizes
from ranktable.layout.traffic import CostModel
from ranktable.report.diff_renderers import render_changes
from ranktable.report.picture import (
    MAX_SVG_CHIPS,
    PALETTE,
    RAMP,
    STATES,
    Cluster,
)
from ranktable.report.pinned_findings import MAX_FINDINGS
from ranktable.report.terminal import Style
from ranktable.schema.finding import Severity
from ranktable.schema.text import counted, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ranktable.layout.boundaries import Boundary
    from ranktable.layout.change.comparison import Difference
    from ranktable.layout.change.facts import CostFacts
    from ranktable.layout.grid import Axis
    from ranktable.layout.parallel import ParallelLayout
    from ranktable.report.picture import Picture
    from ranktable.report.pinned_findings import PinnedFinding
    from ranktable.schema.columns import Columns
    from ranktable.schema.model import RankTable
    from ranktable.schema.topology import Topology

VERSION = 1
"""Version of the JSON block; keys are only added."""

MAX_ADDRESSES = 20_000
"""Most chips whose addresses are on a page, which would be too large with more."""

_MIN_RUN = 4
_GONE = "not in this table any more"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFacts:
    """What is known about a table.

    Attributes:
        name: Name of its file.
        columns: The table as it was read; it may have defects.
        table: The table, None if it has defects.
        layout: Its layout, None if that is not known.
        costs: Bytes, racks and links.
        boundaries: The groups of nodes, the smallest first; the nodes themselves first.
        old_name: Name of the table before a change.
        change: The change, None if there is none.
        findings: The findings.
    """

    name: str
    columns: Columns
    table: RankTable | None
    layout: ParallelLayout | None = None
    costs: CostFacts | None = None
    boundaries: Sequence[Boundary] = ()
    old_name: str = ""
    change: Difference | None = None
    findings: Sequence[PinnedFinding] = ()

    @property
    def links(self) -> Topology | None:
        """The links between the chips of a host, None if they are not known."""
        if self.costs is None or self.table is None:
            return None
        return self.costs.links_of(self.table)

    @property
    def sizes(self) -> str:
        """The nodes and ranks in words."""
        columns = self.columns
        nodes = counted(columns.num_nodes, "node")
        return f"{nodes}, {counted(columns.num_devices, 'rank')}"

    @property
    def severities(self) -> list[str]:
        """The severities of the findings, the worst first."""
        said = {each.severity for each in self.findings}
        return [each.value for each in Severity if each.value in said]

    @property
    def verdict(self) -> str:
        """What the findings say in a few words."""
        said = [each.severity for each in self.findings]
        parts = [counted(said.count(kind), kind) for kind in self.severities]
        if self.table is None:
            return f"not sound: {', '.join(parts)}"
        return ", ".join(parts) or "sound"


def make_cluster(facts: ReportFacts) -> tuple[Cluster, list[int]]:
    """Return the chips to draw, and which of them are gone since the last table."""
    table, columns = facts.table, facts.columns
    if table is None:
        hosts = [host or f"node {at}" for at, host in enumerate(columns.hosts)]
        ranks = [-1 if rank is None else rank for rank in columns.ranks]
        chips = [-1 if chip is None else chip for chip in columns.device_ids]
        return Cluster(hosts=hosts, sizes=columns.sizes, ranks=ranks, chips=chips), []
    hosts = [host or f"node {at}" for at, host in enumerate(table.hosts)]
    held = [
        [(device.rank, device.device_id, False) for device in node.devices]
        for node in table.nodes
    ]
    racks = facts.boundaries[1:]
    if facts.change is not None:
        racks = _add_gone(facts.change, table, hosts, held, racks)
    cells = [cell for node in held for cell in node]
    cluster = Cluster(
        hosts=hosts,
        sizes=[len(node) for node in held],
        ranks=[rank for rank, _, _ in cells],
        chips=[chip for _, chip, _ in cells],
        racks=racks,
    )
    return cluster, [at for at, (_, _, is_gone) in enumerate(cells) if is_gone]


def _add_gone(
    change: Difference,
    table: RankTable,
    hosts: list[str],
    held: list[list[tuple[int, int, bool]]],
    racks: Sequence[Boundary],
) -> Sequence[Boundary]:
    """Add the chips that a change took away; return the racks with these nodes."""
    places: dict[str, int] = {}
    for at, name in enumerate(node_names(table.nodes)):
        places.setdefault(name, at)
    for rank, (name, chip) in change.chips_out.items():
        if name not in places:
            places[name] = len(hosts)
            hosts.append(f"node {name}" if name.isdecimal() else name)
            held.append([])
        held[places[name]].append((rank, chip, True))
    more = len(hosts) - len(table.nodes)
    if not more:
        return racks
    return [
        replace(
            one,
            domains=(*one.domains, *[len(one.labels)] * more),
            labels=(*one.labels, _GONE),
        )
        for one in racks
    ]


def page_data(
    facts: ReportFacts,
    cluster: Cluster,
    gone: Sequence[int],
    picture: Picture,
    colour: str,
) -> dict[str, Any]:
    """Return the data of a page; names of files, hosts and so on are made printable."""
    layout, table = facts.layout, facts.table
    return {
        "version": VERSION,
        "name": printable(facts.name),
        "format": facts.columns.format.name,
        "digest": table.digest() if table else None,
        "world_size": facts.columns.num_devices,
        "num_nodes": facts.columns.num_nodes,
        "is_sound": table is not None,
        "verdict": facts.verdict,
        "layout": describe_sizes(layout) if layout else None,
        "order": layout.order if layout else None,
        "hosts": [printable(host) for host in cluster.hosts],
        "sizes": pack(cluster.sizes),
        "ranks": pack(cluster.ranks),
        "chips": pack(cluster.chips),
        "addresses": _addresses(facts, gone),
        "racks": [
            {
                "name": printable(one.name),
                "labels": [printable(label) for label in one.labels],
                "domains": pack(one.domains),
            }
            for one in cluster.racks
        ],
        **_traffic(facts),
        "links": _links(facts.links),
        "change": _change(facts, gone),
        "states": _states(facts),
        "findings": [_finding(one) for one in facts.findings[:MAX_FINDINGS]],
        "num_findings": len(facts.findings),
        "colour": colour,
        "picture": _picture(picture, len(cluster.chips)),
    }


def pack(values: Iterable[int]) -> list[Any]:
    """Return integers with each long run at equal distances as [first, step, count].

    >>> pack([0, 1, 2, 3, 7, 5, 5, 5, 5])
    [[0, 1, 4], 7, [5, 0, 4]]
    """
    numbers = list(values)
    found: list[Any] = []
    at = 0
    steps = [b - a for a, b in pairwise(numbers)]
    while at < len(numbers):
        end = at + 1
        if at < len(steps):
            while end - 1 < len(steps) and steps[end - 1] == steps[at]:
                end += 1
        if end - at < _MIN_RUN:
            found.append(numbers[at])
            at += 1
        else:
            found.append([numbers[at], steps[at], end - at])
            at = end
    return found


def _addresses(facts: ReportFacts, gone: Sequence[int]) -> list[str | None] | None:
    table = facts.table
    if table is None or gone or table.world_size > MAX_ADDRESSES:
        return None
    found = [
        printable(device.address) if device.address else None
        for node in table.nodes
        for device in node.devices
    ]
    return found if any(found) else None


def axis_of(layout: ParallelLayout, name: str) -> dict[str, Any]:
    """Return how ranks are numbered along an axis and across its groups."""

    def steps(axes: Iterable[Axis]) -> list[list[int]]:
        return [[axis.size, axis.stride] for axis in axes if axis.size > 1]

    groups = layout.along(name)
    return {
        "name": name,
        "size": groups.group_size,
        "inside": steps(groups.inside),
        "outside": steps(groups.outside),
    }


def cost_model(facts: ReportFacts) -> CostModel | None:
    """Return what groups send over which boundary, None without a layout."""
    if facts.layout is None or facts.costs is None or facts.table is None:
        return None
    return CostModel(facts.layout, facts.costs.flows(facts.layout), facts.boundaries)


def _traffic(facts: ReportFacts) -> dict[str, Any]:
    """Return the flows, what every kind of group sends, and the lower bounds."""
    costs = cost_model(facts)
    if costs is None or facts.table is None or facts.costs is None:
        empty: dict[str, Any] = {"axes": [], "flows": [], "traffic": [], "totals": []}
        return {**empty, "is_typical": False}
    owners = list(facts.table.node_ranks)
    held = [len(node.devices) for node in facts.table.nodes]
    rows, totals = costs.summary(owners)
    return {
        "axes": [axis_of(costs.layout, name) for name in costs.row_names],
        "flows": [
            {
                "axes": flow.axes,
                "pattern": flow.pattern.value,
                "bytes": flow.size_bytes,
                "wrap_bytes": flow.wrap_bytes,
            }
            for flow in costs.flows
        ],
        "traffic": [
            {
                "axes": row.axes,
                "groups": row.num_groups,
                "size": row.group_size,
                "at": [
                    {
                        "inside": one.inside,
                        "spread": one.spread,
                        "bytes": one.crossing.least if one.crossing else None,
                    }
                    for one in row.at
                ],
            }
            for row in rows
        ],
        "totals": [
            {
                "boundary": printable(one.name),
                "bytes": total.sent,
                "bound": bound,
            }
            for one, total, bound in zip(
                costs.boundaries, totals, costs.bounds(held), strict=True
            )
        ],
        "is_typical": facts.costs.sizes is None,
    }


def _links(links: Topology | None) -> dict[str, Any] | None:
    if links is None:
        return None
    return {
        "name": printable(links.name),
        "num_chips": links.num_chips,
        "pairs": sorted(links.links),
    }


def change_lines(change: Difference) -> list[str]:
    """Return what ``diff`` says about a change."""
    if change.is_same:
        return ["both tables say the same"]
    return "".join(render_changes(change, Style())).splitlines()


def _change(facts: ReportFacts, gone: Sequence[int]) -> dict[str, Any] | None:
    change = facts.change
    if change is None:
        return None
    return {
        "name": printable(facts.old_name),
        "digest": change.before.digest(),
        "world_size": change.before.world_size,
        "lines": change_lines(change),
        "moved": pack(move.after for move in change.rank_moves),
        "before": pack(move.before for move in change.rank_moves),
        "new": pack(change.chips_in),
        "gone": pack(gone),
    }


def worst_states(facts: ReportFacts) -> dict[int, str]:
    """Return the worst severity that was found about each chip."""
    states: dict[int, str] = {}
    for severity in reversed(Severity):
        for one in facts.findings:
            if one.severity == severity.value:
                states.update(dict.fromkeys(one.cells, severity.value))
    return states


def _states(facts: ReportFacts) -> dict[str, list[Any]]:
    """Return the chips of every severity; not all findings are on a page."""
    states = sorted(worst_states(facts).items())
    return {
        each.value: pack(cell for cell, state in states if state == each.value)
        for each in Severity
    }


def _finding(one: PinnedFinding) -> dict[str, Any]:
    return {
        "code": printable(one.code),
        "severity": one.severity,
        "message": printable(one.message),
        "hint": printable(one.hint),
        "place": printable(one.place),
        "evidence": [printable(line) for line in one.evidence],
        "cells": pack(one.cells),
    }


def _picture(picture: Picture, num_chips: int) -> dict[str, Any]:
    return {
        "is_canvas": num_chips > MAX_SVG_CHIPS,
        "width": picture.width,
        "height": picture.height,
        "chip": picture.chip,
        "gap": picture.gap,
        "head": picture.head,
        "per_row": picture.per_row,
        "x": pack(x for x, _ in picture.nodes),
        "y": pack(y for _, y in picture.nodes),
        "racks": [list(box) for box in picture.racks],
        "palette": PALETTE,
        "ramp": RAMP,
        "states": STATES,
    }
