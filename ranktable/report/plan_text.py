"""What crosses which boundary, as a table for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.layout.byte_sizes import GIB
from ranktable.layout.lower_bound import is_reached
from ranktable.report.mesh_text import describe_sizes
from ranktable.report.terminal import table_lines
from ranktable.schema.messages import counted, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.layout.boundaries import Boundary
    from ranktable.layout.crossings import AxisRow, Owners
    from ranktable.layout.hops import RingRow, RingRows
    from ranktable.layout.planning import Plan
    from ranktable.report.style import Style

    Cells = tuple[str, ...]

_NOTHING = "-"


def render_plan(
    name: str,
    plan: Plan,
    look: Style,
    *,
    rings: RingRows | None = None,
) -> Iterator[str]:
    """Yield the placement of the table, then the better one if there is one.

    Args:
        name: Name of the table.
        plan: The plan.
        look: How to show it.
        rings: The groups inside nodes as rings of links.
    """
    scene, layout = plan.scene, plan.scene.layout
    nodes = counted(len(scene.boundaries[0].labels), "node")
    more = "".join(f", {_domains(one)}" for one in scene.boundaries[1:])
    yield (
        f"{look.mark(printable(name), 'bold')}: {nodes}{more}, "
        f"{counted(layout.world_size, 'rank')} = {describe_sizes(layout)}, order "
        f"{layout.order}\n\n"
    )
    yield from _table(plan, plan.before, look, rings.before if rings else {})
    if plan.is_better and plan.mode is not None:
        yield f"\nwith --mode {plan.mode.value}:\n\n"
        yield from _table(plan, plan.after, look, rings.after if rings else {})
        if plan.is_free:
            yield (
                "\nRANK has to come from the table: start the job with --rankfile or "
                "--slurm-hostfile\n"
            )
    elif scene.flows:
        yield from _verdict(plan)


def _verdict(plan: Plan) -> Iterator[str]:
    """Yield what became of the search, or that there may be something to find."""
    pairs = zip(plan.bounds, plan.scene.totals(plan.before), strict=True)
    is_least = all(is_reached(bound, total) for bound, total in pairs)
    if plan.mode is not None:
        why = "nothing can cross less" if is_least else "nothing better was found"
        yield f"\n--mode {plan.mode.value}: {why}, so the order stays as it is\n"
    elif not is_least:
        yield "\n--mode node-order or --mode free looks for a better placement\n"


def _domains(boundary: Boundary) -> str:
    number = len(boundary.labels)
    if boundary.name[-1].isdigit() or boundary.name.endswith("s"):
        return f"{number} of {printable(boundary.name)}"
    plural = "es" if boundary.name.endswith("ch") else "s"
    return f"{number} {printable(boundary.name)}{plural}"


def _table(
    plan: Plan, owners: Owners, look: Style, rings: dict[str, RingRow]
) -> Iterator[str]:
    scene = plan.scene
    rows = scene.rows(owners)
    has_bytes = bool(scene.flows)
    grid = [_head(scene.boundaries, has_bytes=has_bytes, has_rings=bool(rings))]
    grid += [_row(row, rings, has_bytes=has_bytes) for row in rows]
    if has_bytes:
        grid += _foot(plan, owners, rows, len(grid[0]))
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


def _foot(
    plan: Plan, owners: Owners, rows: Sequence[AxisRow], width: int
) -> list[Cells]:
    """Return the lines below the axes: the sum, the bound, how far it is, the most."""
    total, bound, above, most = ["total"], ["lower bound"], ["above it"], ["busiest"]
    busiest = plan.scene.busiest(owners)
    for at, least in enumerate(plan.bounds):
        known = [row.at[at].crossing for row in rows]
        crossings = [one for one in known if one is not None]
        sent = sum(one.least for one in crossings)
        total += [gib(sent), gib(sum(one.flat for one in crossings))]
        bound += [gib(least), ""]
        above += distance(least, sent)
        most += [gib(busiest[at][1]), ""]
    lines = (total, bound, above, most)
    return [(one[0], *[""] * (width - len(one)), *one[1:]) for one in lines]


def distance(bound: float, total: float) -> tuple[str, str]:
    """Return how far from the bound it is: ``optimal``, or ``+64.00`` and ``2.33x``."""
    if is_reached(bound, total):
        return "optimal", ""
    return f"+{gib(total - bound)}", f"{total / bound:.2f}x" if bound >= 1 else ""


def gib(size: float) -> str:
    """Return bytes as GiB with two digits, never -0.00."""
    return f"{abs(size) / GIB:.2f}"
