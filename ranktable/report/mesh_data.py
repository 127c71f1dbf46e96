"""Who is where in a parallel layout, for programs; streamed, an entry a line.

The form is stable: keys are only added. ``docs/layout.md`` documents it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ranktable.layout.communicator import Communicator, Communicators


def render_mesh_json(
    name: str, found: Communicators, rank: int | None
) -> Iterator[str]:
    """Yield the document: everything, or what concerns one rank.

    The totals count all groups, also with one rank.
    """
    table, layout = found.table, found.layout
    ranks = range(table.world_size) if rank is None else [rank]
    groups = found if rank is None else found.of_rank(rank)
    yield "{\n"
    head = {
        "file": name,
        "world_size": table.world_size,
        "num_nodes": len(table.nodes),
        "layout": {
            "order": layout.order,
            "ep_style": layout.ep_style,
            "sizes": {**layout.sizes, "ep": layout.ep, "etp": layout.etp},
        },
    }
    for key, value in head.items():
        yield f"  {json.dumps(key)}: {json.dumps(value)},\n"
    yield from _listed("ranks", (_rank(found, one) for one in ranks))
    yield from _listed("groups", map(_group, groups))
    yield f'  "totals": {json.dumps(_totals(found))}\n' + "}\n"


def _listed(key: str, entries: Iterable[dict[str, object]]) -> Iterator[str]:
    yield f'  "{key}": ['
    comma = ""
    for entry in entries:
        yield f"{comma}\n    {json.dumps(entry)}"
        comma = ","
    yield "\n  ],\n" if comma else "],\n"


def _rank(found: Communicators, rank: int) -> dict[str, object]:
    node = found.table.node_rank_of(rank)
    layout = found.layout
    neighbours = {axis: layout.neighbours(rank, axis) for axis in layout.kinds}
    return {
        "rank": rank,
        "node_rank": node,
        "host": found.table.nodes[node].host,
        "device_id": found.table.device_of(rank).device_id,
        "coordinates": layout.coordinates(rank),
        "neighbours": {axis: pair._asdict() for axis, pair in neighbours.items()},
    }


def _group(one: Communicator) -> dict[str, object]:
    return {
        "name": one.name,
        "kind": one.kind,
        "index": one.index,
        "ranks": one.ranks,
        "coordinates": one.coordinates,
        "nodes": one.nodes,
        "chip_map": one.chip_map,
    }


def _totals(found: Communicators) -> dict[str, object]:
    kinds = {}
    for kind in found.kinds:
        spans = [len(one.nodes) for one in found.of_kind(kind)]
        kinds[kind] = {
            "groups": len(spans),
            "within_a_node": spans.count(1),
            "most_nodes": max(spans, default=0),
        }
    return {
        "ranks": found.table.world_size,
        "groups": len(found),
        "by_kind": kinds,
    }
