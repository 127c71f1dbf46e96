"""The bytes over each boundary, as a table for people and as data for programs.

The JSON form is stable: keys are only added. ``docs/plan.md`` documents it. Bytes are
whole numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.layout.crossings import is_reached
from ranktable.layout.parallel import describe_sizes
from ranktable.layout.traffic import GIB
from ranktable.report.json_document import json_document
from ranktable.report.terminal import table_lines
from ranktable.schema.diagnostic import counted, plural_of, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.layout.boundaries import Boundary
    from ranktable.layout.crossings import AxisCrossing, AxisRow, Look, Owners
    from ranktable.layout.planning import Plan
    from ranktable.layout.rings import RingRow, RingRows
    from ranktable.layout.spreading import Spread
    from ranktable.layout.timing import PlanTimes, StepTime
    from ranktable.report.terminal import Style

    Cells = tuple[str, ...]

_NOTHING = "-"

MAX_NAMED = 64
"""Most nodes of a new order that are named."""


def render_plan(
    name: str,
    plan: Plan,
    look: Style,
    *,
    rings: RingRows | None = None,
    times: PlanTimes | None = None,
) -> Iterator[str]:
    """Yield the placement of the table, then the better one if there is one.

    Args:
        name: Name of the table.
        plan: The plan.
        look: The style of the output.
        rings: The groups inside nodes as rings of links.
        times: The times of a step.
    """
    costs, layout = plan.costs, plan.costs.layout
    nodes = counted(len(costs.boundaries[0].labels), "node")
    more = "".join(f", {_domains(one)}" for one in costs.boundaries[1:])
    yield (
        f"{look.mark(printable(name), 'bold')}: {nodes}{more}, "
        f"{counted(layout.world_size, 'rank')} = {describe_sizes(layout)}, order "
        f"{layout.order}\n\n"
    )
    yield from _table(plan, plan.before, look, rings.before if rings else {})
    yield from _times(times.before if times else [], look)
    if plan.is_better and plan.mode is not None:
        yield f"\nwith --mode {plan.mode.value}:\n\n"
        yield from _table(plan, plan.after, look, rings.after if rings else {})
        yield from _times(times.after if times else [], look)
        yield f"\n{_nodes_in_order(plan)}\n"
        if plan.is_free:
            yield (
                "\nRANK has to come from the table: start the job with --rankfile or "
                "--slurm-hostfile\n"
            )
    elif costs.flows:
        yield from _verdict(plan)
    if plan.is_exhaustive:
        count = counted(len(set(plan.before)), "node")
        yield f"every order of the {count} was tried\n"
    if times:
        yield f"\n{_ASSUMED}\n"
    if plan.spread is not None:
        yield f"\n{_spread(plan, plan.spread)}\n"


_ASSUMED = (
    "time: what the busiest rank, node or rack sends in a step / its bandwidth in one "
    "direction;\nhierarchical algorithms, every link at its full bandwidth, no "
    "latency, no work at the same time"
)


def _nodes_in_order(plan: Plan) -> str:
    """Return the nodes in their new order: ``nodes: n1,n3,n2,n4``."""
    labels = plan.costs.boundaries[0].labels
    order = plan.node_order
    more = len(order) - MAX_NAMED
    named = ",".join(printable(labels[node]) for node in order[:MAX_NAMED])
    how = "nodes by their first rank" if plan.is_free else "nodes in order"
    left = f",... and {more} more; --format json has all" if more > 0 else ""
    return f"{how}: {named}{left}"


def _times(times: Sequence[StepTime], look: Style) -> Iterator[str]:
    """Yield a line for every boundary with a known bandwidth."""
    if not times:
        return
    grid = [("boundary", "busiest", "GiB", "GB/s", "ms a step")]
    grid += [
        (
            printable(one.boundary),
            printable(one.busiest),
            gib(one.size_bytes),
            f"{one.bandwidth / 1e9:g}",
            f"{one.seconds * 1000:.2f}",
        )
        for one in times
    ]
    yield "\n"
    yield from table_lines(grid, look, right=range(2, len(grid[0])))


def _spread(plan: Plan, spread: Spread) -> str:
    """Return whether replicas are in different domains, or why not."""
    shared = spread.shared(plan.after)
    name, axes = printable(spread.boundary), spread.axes
    asked = f"--spread {axes}:{name}"
    if not shared.groups:
        size = len(spread.groups[0])
        held = f"no {name} holds ranks of two replicas"
        if shared.domains:
            some = counted(shared.domains, name)
            held = f"{some} hold ranks of several replicas"
        return (
            f"{asked}: the {size} ranks of each group are in {counted(size, name)}; "
            f"{held}"
        )
    why = spread.impossible()
    if why is None and plan.mode is not None:
        why = f"no placement of --mode {plan.mode.value} that was tried does it"
        if plan.mode.value == "node-order":
            if spread.is_shared_by_nodes(plan.after):
                why = "consecutive ranks on a node are of several replicas"
            why += "; --mode free may"
    return (
        f"{asked} cannot be kept: {why}; "
        f"{counted(shared.groups, 'group')} of {len(spread.groups)} have two ranks in "
        f"one {name}"
    )


def _verdict(plan: Plan) -> Iterator[str]:
    """Yield the result of the search, or a hint that a search is possible."""
    pairs = zip(plan.bounds, plan.costs.totals(plan.before), strict=True)
    is_least = all(is_reached(bound, total) for bound, total in pairs)
    if plan.mode is not None:
        why = "nothing can cross less" if is_least else "nothing better was found"
        yield f"\n--mode {plan.mode.value}: {why}, so the order stays as it is\n"
    elif not is_least:
        yield "\n--mode node-order or --mode free looks for a better placement\n"


def _domains(boundary: Boundary) -> str:
    number, name = len(boundary.labels), boundary.name
    if name[-1].isdigit() or name.endswith("s"):
        return f"{number} of {printable(name)}"
    return f"{number} {printable(plural_of(name))}"


def _table(
    plan: Plan, owners: Owners, look: Style, rings: dict[str, RingRow]
) -> Iterator[str]:
    costs = plan.costs
    found = costs.look(owners)
    has_bytes = bool(costs.flows)
    grid = [_head(costs.boundaries, has_bytes=has_bytes, has_rings=bool(rings))]
    grid += [_row(row, rings, has_bytes=has_bytes) for row in found.rows]
    if has_bytes:
        grid += _foot(plan, found, len(grid[0]))
    yield from table_lines(grid, look, right=range(1, len(grid[0])))


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


def _foot(plan: Plan, found: Look, width: int) -> list[Cells]:
    """Return the lines after the axes: sum, bound, distance, and the busiest domain."""
    total, bound, above, most = ["total"], ["lower bound"], ["above it"], ["busiest"]
    for at, least in enumerate(plan.bounds):
        known = [row.at[at].crossing for row in found.rows]
        crossings = [one for one in known if one is not None]
        sent = sum(one.least for one in crossings)
        total += [gib(sent), gib(sum(one.flat for one in crossings))]
        bound += [gib(least), ""]
        above += distance(least, sent)
        most += [gib(found.busiest[at][1]), ""]
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
    name: str,
    plan: Plan,
    *,
    rings: RingRows | None = None,
    times: PlanTimes | None = None,
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
        "mode": None if plan.mode is None else plan.mode.value,
        "is_better": plan.is_better,
        "rank_from_table": plan.is_free,
        "after": (
            _placement(plan, plan.after, rings.after if rings else None)
            if plan.is_better
            else None
        ),
        "nodes_of_ranks": plan.after if plan.is_better else None,
        "node_order": plan.node_order if plan.is_better else None,
        "is_every_order_tried": plan.is_exhaustive,
    }
    if plan.spread is not None:
        shared = plan.spread.shared(plan.after)
        data["spread"] = {
            "axes": plan.spread.axes,
            "boundary": plan.spread.boundary,
            "is_kept": not shared.groups,
            "groups_in_one_domain": shared.groups,
            "domains_with_several_replicas": shared.domains,
        }
    if times is not None:
        data["times"] = {
            "before": list(map(_time, times.before)),
            "after": list(map(_time, times.after)) if plan.is_better else None,
        }
    yield from json_document(data)


def _time(one: StepTime) -> dict[str, object]:
    return {
        "boundary": one.boundary,
        "busiest": one.busiest,
        "bytes": round(one.size_bytes),
        "bytes_per_second": one.bandwidth,
        "seconds": one.seconds,
    }


def _placement(
    plan: Plan, owners: Owners, rings: dict[str, RingRow] | None
) -> dict[str, object]:
    costs = plan.costs
    totals = costs.totals(owners)
    rows, busiest = costs.look(owners)
    found = []
    for at, (one, bound) in enumerate(zip(costs.boundaries, plan.bounds, strict=True)):
        if not costs.flows:
            break
        crossings = [row.at[at].crossing for row in rows]
        domain, most = busiest[at]
        found.append(
            {
                "boundary": one.name,
                "bytes": round(totals[at]),
                "flat_ring_bytes": round(sum(c.flat for c in crossings if c)),
                "above_lower_bound_bytes": max(round(totals[at]) - round(bound), 0),
                "is_optimal": is_reached(bound, totals[at]),
                "busiest": {"domain": one.labels[domain], "bytes": round(most)},
            }
        )
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
