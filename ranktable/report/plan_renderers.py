"""The bytes over each boundary, as a table for people and as data for programs.

The JSON form is stable: keys are only added. ``docs/plan.md`` documents it. Bytes are
whole numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.layout.parallel import describe_sizes
from ranktable.layout.traffic import GIB, is_reached
from ranktable.report.json_document import json_document
from ranktable.report.terminal import table_lines
from ranktable.schema.text import counted, plural_of, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.layout.boundaries import Boundary
    from ranktable.layout.planning import Plan
    from ranktable.layout.rings import RingRow, RingRows
    from ranktable.layout.traffic import AxisCrossing, AxisRow, CostSummary, Owners
    from ranktable.report.terminal import Style

    Cells = tuple[str, ...]

_NOTHING = "-"

MAX_NAMED = 64
"""Most nodes of a new order that are named."""


def render_plan(
    name: str, plan: Plan, style: Style, rings: RingRows | None = None
) -> Iterator[str]:
    """Yield the placement of the table, then the better one if there is one.

    Args:
        name: Name of the table.
        plan: The plan.
        style: The style of the output.
        rings: The groups inside nodes as rings of links.
    """
    costs, layout = plan.costs, plan.costs.layout
    nodes = counted(len(costs.boundaries[0].labels), "node")
    more = "".join(f", {_domains(one)}" for one in costs.boundaries[1:])
    yield (
        f"{style.mark(printable(name), 'bold')}: {nodes}{more}, "
        f"{counted(layout.world_size, 'rank')} = {describe_sizes(layout)}, order "
        f"{layout.order}\n\n"
    )
    yield from _table(plan, plan.before, style, rings.before if rings else {})
    if plan.is_better:
        yield "\nwith the nodes in a better order:\n\n"
        yield from _table(plan, plan.after, style, rings.after if rings else {})
        yield f"\n{_nodes_in_order(plan)}\n"
    elif costs.flows:
        yield from _verdict(plan)
    if plan.is_exhaustive:
        count = counted(len(set(plan.before)), "node")
        yield f"every order of the {count} was tried\n"


def _nodes_in_order(plan: Plan) -> str:
    """Return the nodes in their new order: ``nodes: n1,n3,n2,n4``."""
    labels = plan.costs.boundaries[0].labels
    order = plan.node_order
    more = len(order) - MAX_NAMED
    named = ",".join(printable(labels[node]) for node in order[:MAX_NAMED])
    left = f",... and {more} more; --format json has all" if more > 0 else ""
    return f"nodes in order: {named}{left}"


def _verdict(plan: Plan) -> Iterator[str]:
    """Yield why the order of the nodes stays."""
    pairs = zip(plan.bounds, plan.costs.totals(plan.before), strict=True)
    is_least = all(is_reached(bound, total) for bound, total in pairs)
    why = "nothing can cross less" if is_least else "no better order was found"
    yield f"\n{why}, so the nodes stay in their order\n"


def _domains(boundary: Boundary) -> str:
    number, name = len(boundary.labels), boundary.name
    if name[-1].isdigit() or name.endswith("s"):
        return f"{number} of {printable(name)}"
    return f"{number} {printable(plural_of(name))}"


def _table(
    plan: Plan, owners: Owners, style: Style, rings: dict[str, RingRow]
) -> Iterator[str]:
    costs = plan.costs
    found = costs.summary(owners)
    has_bytes = bool(costs.flows)
    grid = [_head(costs.boundaries, has_bytes=has_bytes, has_rings=bool(rings))]
    grid += [_row(row, rings, has_bytes=has_bytes) for row in found.rows]
    if has_bytes:
        grid += _foot(plan, found, len(grid[0]))
    yield from table_lines(grid, style, right=range(1, len(grid[0])))


def _head(boundaries: Sequence[Boundary], *, has_bytes: bool, has_rings: bool) -> Cells:
    names = [printable(one.name) for one in boundaries]
    cells = ["axis", "groups", "size", *(f"inside {name}" for name in names)]
    cells += ["spread", "rail"]
    cells += ["rings"] if has_rings else []
    for name in names if has_bytes else ():
        cells += [f"{name} GiB", "as ring"]
    return tuple(cells)


def _row(row: AxisRow, rings: dict[str, RingRow], *, has_bytes: bool) -> Cells:
    rail = {None: _NOTHING, True: "yes", False: "no"}[row.is_rail_aligned]
    cells = [row.axes, str(row.num_groups), str(row.group_size)]
    cells += [f"{one.inside}/{row.num_groups}" for one in row.at]
    cells += ["/".join(str(one.spread) for one in row.at), rail]
    if rings:
        ring = rings[row.axes]
        cells.append(f"{ring.closed}/{ring.inside}" if ring.inside else _NOTHING)
    for one in row.at if has_bytes else ():
        if one.crossing is None:
            cells += [_NOTHING, _NOTHING]
        else:
            cells += [gib(one.crossing.least), gib(one.crossing.flat)]
    return tuple(cells)


def _foot(plan: Plan, found: CostSummary, width: int) -> list[Cells]:
    """Return the lines after the axes: sum, bound, distance, and the busiest domain."""
    total, bound, above, most = ["total"], ["lower bound"], ["above it"], ["busiest"]
    for least, of in zip(plan.bounds, found.totals, strict=True):
        total += [gib(of.sent), gib(of.flat)]
        bound += [gib(least), ""]
        above += distance(least, of.sent)
        most += [gib(of.most), ""]
    lines = (total, bound, above, most)
    return [(one[0], *[""] * (width - len(one)), *one[1:]) for one in lines]


def distance(bound: float, total: float) -> tuple[str, str]:
    """Return the distance to the bound: ``optimal``, or ``+64.00`` and ``2.33x``."""
    if is_reached(bound, total):
        return "optimal", ""
    return f"+{gib(total - bound)}", f"{total / bound:.2f}x" if bound >= 1 else ""


def gib(size: float) -> str:
    """Return bytes as GiB with two digits, never -0.00."""
    return f"{abs(size) / GIB:.2f}"


def render_plan_json(
    name: str, plan: Plan, rings: RingRows | None = None
) -> Iterator[str]:
    """Yield the JSON document."""
    costs = plan.costs
    layout = costs.layout
    data: dict[str, object] = {
        "file": name,
        "world_size": layout.world_size,
        "num_nodes": len(costs.boundaries[0].labels),
        "layout": {
            "order": layout.order,
            "ep_style": layout.ep_style,
            "sizes": {**layout.sizes, "ep": layout.ep, "etp": layout.etp},
        },
        "boundaries": (
            {
                "name": one.name,
                "domains": len(one.labels),
                "lower_bound_bytes": round(bound) if costs.flows else None,
            }
            for one, bound in zip(costs.boundaries, plan.bounds, strict=True)
        ),
        "flows": (
            {
                "axes": flow.axes,
                "pattern": flow.pattern.value,
                "bytes": round(flow.size_bytes),
                "wrap_bytes": round(flow.wrap_bytes),
            }
            for flow in costs.flows
        ),
        "before": _placement(plan, plan.before, rings.before if rings else None),
        "is_better": plan.is_better,
        "after": (
            _placement(plan, plan.after, rings.after if rings else None)
            if plan.is_better
            else None
        ),
        "nodes_of_ranks": plan.after if plan.is_better else None,
        "node_order": plan.node_order if plan.is_better else None,
        "is_every_order_tried": plan.is_exhaustive,
    }
    yield from json_document(data)


def _placement(
    plan: Plan, owners: Owners, rings: dict[str, RingRow] | None
) -> dict[str, object]:
    costs = plan.costs
    rows, totals = costs.summary(owners)
    found = [
        {
            "boundary": one.name,
            "bytes": round(of.sent),
            "flat_ring_bytes": round(of.flat),
            "above_lower_bound_bytes": max(round(of.sent) - round(bound), 0),
            "is_optimal": is_reached(bound, of.sent),
            "busiest": {"domain": one.labels[of.domain], "bytes": round(of.most)},
        }
        for one, bound, of in zip(costs.boundaries, plan.bounds, totals, strict=True)
        if costs.flows
    ]
    return {
        "axes": (_row_data(row, costs.boundaries, rings) for row in rows),
        "totals": iter(found),
    }


def _row_data(
    row: AxisRow, boundaries: tuple[Boundary, ...], rings: dict[str, RingRow] | None
) -> dict[str, object]:
    found: dict[str, object] = {
        "axes": row.axes,
        "groups": row.num_groups,
        "group_size": row.group_size,
        "is_rail_aligned": row.is_rail_aligned,
        "at": {
            boundary.name: _crossing(one)
            for boundary, one in zip(boundaries, row.at, strict=True)
        },
    }
    if rings is not None:
        ring = rings[row.axes]
        found["rings"] = {
            "groups": ring.inside,
            "closed": ring.closed,
            "hops": ring.hops,
        }
    return found


def _crossing(one: AxisCrossing) -> dict[str, object]:
    sent = one.crossing
    return {
        "inside": one.inside,
        "spread": one.spread,
        "bytes": None if sent is None else round(sent.least),
        "flat_ring_bytes": None if sent is None else round(sent.flat),
    }
