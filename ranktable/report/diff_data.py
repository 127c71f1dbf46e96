"""What differs between two tables, for programs; streamed, an entry a line.

The form is stable: keys are only added. ``docs/change.md`` documents it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ranktable.layout.change.differing import Difference, Move
    from ranktable.layout.change.touched import ChipName, GroupChange
    from ranktable.schema.model import RankTable


def render_diff_json(
    names: tuple[str | None, str | None], found: Difference
) -> Iterator[str]:
    """Yield the document."""
    head = {
        "same": found.is_same,
        "before": _table(names[0], found.before),
        "after": _table(names[1], found.after),
        "nodes_out": found.nodes_out,
        "nodes_in": found.nodes_in,
    }
    yield "{\n"
    for key, value in head.items():
        yield f"  {json.dumps(key)}: {json.dumps(value)},\n"
    yield from _listed("moves", map(_move, found.moves))
    yield from _listed("chips_out", _chips(found.chips_out))
    yield from _listed("chips_in", _chips(found.chips_in))
    foot = {
        "groups": {kind: _group(one) for kind, one in found.groups.items()},
        "distinct_groups": _group(found.distinct),
        "bytes_between_nodes": None
        if found.bytes_before is None
        else {"before": found.bytes_before, "after": found.bytes_after},
        "others": found.others,
    }
    for key, value in foot.items():
        yield f"  {json.dumps(key)}: {json.dumps(value)},\n"
    yield f'  "totals": {json.dumps(_totals(found))}\n' + "}\n"


def _table(name: str | None, table: RankTable) -> dict[str, object]:
    return {
        "file": name,
        "num_nodes": len(table.nodes),
        "world_size": table.world_size,
        "digest": table.digest(),
    }


def _listed(key: str, entries: Iterable[dict[str, object]]) -> Iterator[str]:
    yield f'  "{key}": ['
    comma = ""
    for entry in entries:
        yield f"{comma}\n    {json.dumps(entry)}"
        comma = ","
    yield "\n  ],\n" if comma else "],\n"


def _move(move: Move) -> dict[str, object]:
    return {
        "node": move.node,
        "device_id": move.device_id,
        "rank": {"before": move.before, "after": move.after},
        "role": {"before": dict(move.role_before), "after": dict(move.role_after)},
    }


def _chips(chips: Mapping[int, ChipName]) -> Iterator[dict[str, object]]:
    for rank, (node, device_id) in chips.items():
        yield {"rank": rank, "node": node, "device_id": device_id}


def _group(one: GroupChange | None) -> dict[str, int] | None:
    if one is None:
        return None
    return {
        "before": one.before,
        "after": one.after,
        "kept": one.kept,
        "touched": one.touched,
    }


def _totals(found: Difference) -> dict[str, int]:
    return {
        "kept": found.num_kept,
        "rank_moves": len(found.rank_moves),
        "role_moves": len(found.role_moves),
        "chips_out": len(found.chips_out),
        "chips_in": len(found.chips_in),
        "nodes_out": len(found.nodes_out),
        "nodes_in": len(found.nodes_in),
    }
