"""What crosses which boundary, for programs.

The form is stable: keys are only added. ``docs/plan.md`` documents it. Bytes are whole
numbers.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ranktable.layout.lower_bound import is_reached

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.layout.boundaries import Boundary
    from ranktable.layout.crossings import AxisCrossing, AxisRow, Owners
    from ranktable.layout.hops import RingRow, RingRows
    from ranktable.layout.planning import Plan


def render_plan_json(
    name: str, plan: Plan, *, rings: RingRows | None = None
) -> Iterator[str]:
    """Yield the document."""
    scene = plan.scene
    layout = scene.layout
    data = {
        "file": name,
        "world_size": layout.world_size,
        "num_nodes": len(scene.boundaries[0].labels),
        "layout": {
            "order": layout.order,
            "ep_style": layout.ep_style,
            "sizes": {**layout.sizes, "ep": layout.ep, "etp": layout.etp},
        },
        "boundaries": [
            {
                "name": one.name,
                "domains": len(one.labels),
                "lower_bound_bytes": round(bound) if scene.flows else None,
            }
            for one, bound in zip(scene.boundaries, plan.bounds, strict=True)
        ],
        "flows": [
            {
                "axes": flow.axes,
                "pattern": flow.pattern.value,
                "bytes": round(flow.size_bytes),
                "wrap_bytes": round(flow.wrap_bytes),
            }
            for flow in scene.flows
        ],
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
    }
    lines = (f"  {json.dumps(key)}: {_value(value)}" for key, value in data.items())
    yield "{\n" + ",\n".join(lines) + "\n}\n"


def _value(value: object) -> str:
    """Return a value; every item of a list of objects on a line of its own."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        items = ",\n    ".join(map(json.dumps, value))
        return f"[\n    {items}\n  ]"
    if isinstance(value, dict) and isinstance(value.get("axes"), list):
        inner = (f"    {json.dumps(k)}: {_inner(v)}" for k, v in value.items())
        return "{\n" + ",\n".join(inner) + "\n  }"
    return json.dumps(value)


def _inner(value: object) -> str:
    if isinstance(value, list) and value:
        items = ",\n      ".join(map(json.dumps, value))
        return f"[\n      {items}\n    ]"
    return json.dumps(value)


def _placement(
    plan: Plan, owners: Owners, rings: dict[str, RingRow] | None
) -> dict[str, object]:
    scene = plan.scene
    totals = scene.totals(owners)
    busiest = scene.busiest(owners)
    rows = scene.rows(owners)
    found = []
    for at, (one, bound) in enumerate(zip(scene.boundaries, plan.bounds, strict=True)):
        if not scene.flows:
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
        "axes": [_row(row, scene.boundaries, rings) for row in rows],
        "totals": found,
    }


def _row(
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
