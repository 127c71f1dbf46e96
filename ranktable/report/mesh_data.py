"""Who is where in a parallel layout, for programs; streamed, an entry a line.

The form is stable: keys are only added. ``docs/layout.md`` documents it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ranktable.layout.communicator import Communicator, Communicators
    from ranktable.layout.neighbours import Neighbours


def render_mesh_json(
    name: str, found: Communicators, rank: int | None
) -> Iterator[str]:
    """Yield the document: everything, or what concerns one rank.

    The totals count all groups, also with one rank.
    """
    table, layout = found.table, found.layout
    ranks = _ranks(found) if rank is None else [_rank(found, rank)]
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
    yield from _listed("ranks", ranks)
    yield from _listed("groups", map(_group, groups))
    yield f'  "totals": {json.dumps(_totals(found))}\n' + "}\n"


def _listed(key: str, entries: Iterable[dict[str, object]]) -> Iterator[str]:
    yield f'  "{key}": ['
    comma = ""
    encode = json.JSONEncoder(check_circular=False).encode
    for entry in entries:
        yield f"{comma}\n    {encode(entry)}"
        comma = ","
    yield "\n  ],\n" if comma else "],\n"


def _ranks(found: Communicators) -> Iterator[dict[str, object]]:
    """Yield what there is to say of every rank; all is looked up at once."""
    layout = found.layout
    points = zip(*(layout.along(axis).places() for axis in layout.axes), strict=True)
    neighbours = [layout.all_neighbours(axis) for axis in layout.kinds]
    for rank, point in enumerate(points):
        yield _entry(found, rank, point, [pairs[rank] for pairs in neighbours])


def _rank(found: Communicators, rank: int) -> dict[str, object]:
    layout = found.layout
    pairs = [layout.neighbours(rank, axis) for axis in layout.kinds]
    return _entry(found, rank, layout.coordinates(rank).values(), pairs)


def _entry(
    found: Communicators,
    rank: int,
    point: Iterable[int],
    pairs: Iterable[Neighbours],
) -> dict[str, object]:
    table, layout = found.table, found.layout
    node = table.node_rank_of(rank)
    return {
        "rank": rank,
        "node_rank": node,
        "host": table.nodes[node].host,
        "device_id": table.device_of(rank).device_id,
        "coordinates": dict(zip(layout.axes, point, strict=True)),
        "neighbours": {
            axis: {"previous": pair.previous, "next": pair.next}
            for axis, pair in zip(layout.kinds, pairs, strict=True)
        },
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
