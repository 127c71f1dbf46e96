"""The ranks and chips of a parallel layout, for people and for programs.

The JSON form is stable: keys are only added. ``docs/layout.md`` documents it.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from ranktable.layout.grid import divisors
from ranktable.layout.parallel import describe_sizes
from ranktable.report.folding import host_label, spell_numbers
from ranktable.report.json_document import json_document
from ranktable.report.terminal import table_lines, table_size, tree_lines
from ranktable.schema.text import counted, fold_numbers, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ranktable.layout.communicator import Communicator, Communicators
    from ranktable.layout.parallel import ParallelLayout
    from ranktable.report.terminal import Style

Item = TypeVar("Item")

MAX_RANKS = 16
"""Most ranks that have a line each."""

MAX_LINES = 8
"""Most groups of a kind, or nodes, that have a line each."""

FIRST_LINES = 4
"""Lines that are shown of more; the last one follows them."""

MAX_CHIPS = 16
MAX_UNFOLDED = 4
MAX_CHIP_MAPS = 4


def render_mesh(name: str, found: Communicators, style: Style) -> Iterator[str]:
    """Yield the whole layout: the ranks, then the groups of every kind."""
    yield _title(name, found, style)
    yield "\n"
    yield from (
        _ranks(found, style) if found.table.world_size <= MAX_RANKS else _nodes(found)
    )
    for kind in found.kinds:
        yield "\n"
        yield from _kind(kind, list(found.of_kind(kind)), style)
    if found.table.world_size > MAX_RANKS:
        yield "\n--rank R shows the groups of one rank, --format json everything\n"


def render_rank(found: Communicators, rank: int, style: Style) -> Iterator[str]:
    """Yield the groups of one rank."""
    table, layout = found.table, found.layout
    place = layout.coordinates(rank)
    here = "".join(f", {axis} {place[axis]}" for axis in layout.kinds)
    node = table.node_rank_of(rank)
    host = table.nodes[node].host
    named = f" ({printable(host)})" if host else ""
    head = style.mark(f"rank {rank}", "bold")
    chip = table.device_of(rank).device_id
    runs = "on the host" if chip < 0 else f"chip {chip}"
    yield f"{head}: node {node}{named}, {runs}{here}\n"
    for one in found.of_rank(rank):
        yield f"{style.mark(one.name, 'place')}: {_members(one)}{_sides(one, rank)}\n"


def _title(name: str, found: Communicators, style: Style) -> str:
    table, layout = found.table, found.layout
    return (
        f"{style.mark(printable(name), 'bold')}: {table_size(table)} = "
        f"{describe_sizes(layout)}, order {layout.order}\n"
    )


def _ranks(found: Communicators, style: Style) -> Iterator[str]:
    """Yield a table with a line for every rank."""
    axes = found.layout.kinds
    rows = [("rank", "node", "chip", *axes)]
    for rank in range(found.table.world_size):
        place = found.layout.coordinates(rank)
        node = found.table.node_rank_of(rank)
        name = found.table.nodes[node].host or str(node)
        chip = found.table.device_of(rank).device_id
        row = (rank, printable(name), chip, *(place[axis] for axis in axes))
        rows.append(tuple(map(str, row)))
    columns = range(len(rows[0]))
    yield from table_lines(rows, style, right=columns, is_head_marked=False)


def _nodes(found: Communicators) -> Iterator[str]:
    """Yield a line for each of the first nodes and for the last one."""
    names = ("ranks", *found.layout.kinds)
    columns = [found.layout.along(axis).places() for axis in found.layout.kinds]
    nodes = found.table.nodes

    def line(place: int) -> str:
        ranks = [device.rank for device in nodes[place].devices]
        values = [_values(map(places.__getitem__, ranks)) for places in columns]
        said = ", ".join(
            f"{name} {spell_numbers(one)}"
            for name, one in zip(names, [ranks, *values], strict=True)
        )
        return f"{printable(host_label(nodes[place : place + 1], place))}: {said}"

    with_ranks = [place for place, node in enumerate(nodes) if node.devices]
    yield from (f"{each}\n" for each in _ends(with_ranks, line, "node"))


def _ends(
    items: Sequence[Item], line: Callable[[Item], str], noun: str
) -> Iterator[str]:
    """Yield the lines of all items, or of the first and the last of many."""
    if len(items) <= MAX_LINES:
        yield from map(line, items)
        return
    yield from map(line, items[:FIRST_LINES])
    yield f"... {counted(len(items) - FIRST_LINES - 1, noun)} more"
    yield line(items[-1])


def _values(places: Iterable[int]) -> list[int]:
    """Return the coordinates of a node along an axis: sorted, or in rank order.

    If a node has the end of a stage and the beginning of the next, rank order shows
    that dp 4,0 belong to pp 0,1.
    """
    found = list(dict.fromkeys(places))
    run = range(min(found), max(found) + 1)
    return list(run) if 2 < len(found) == len(run) else found


def _kind(kind: str, members: Sequence[Communicator], style: Style) -> Iterator[str]:
    """Yield the groups of one kind, folded if there are many."""
    size = len(members[0].ranks)
    groups = counted(len(members), "group")
    head = f"{style.mark(kind, 'bold')}: {groups} of {size}, {_spread(members)}"
    yield from tree_lines(head, _group_lines(members, style), style)


def _group_lines(members: Sequence[Communicator], style: Style) -> Iterator[str]:
    if len(members) <= MAX_LINES:
        for one in members:
            yield f"{style.mark(one.name, 'place')}: {_members(one)}"
        return

    def line(one: Communicator) -> str:
        return f"{style.mark(one.name, 'place')}: ranks {spell_numbers(one.ranks)}"

    yield from _ends(members, line, "group")
    yield _chip_maps(members)


def _spread(members: Sequence[Communicator]) -> str:
    counts = [len(one.nodes) for one in members]
    fewest, most = min(counts), max(counts)
    each = "each " if len(members) > 1 else ""
    if most == 1:
        return f"{each}within a node"
    return f"{each}over {fewest if fewest == most else f'{fewest} to {most}'} nodes"


def _members(one: Communicator) -> str:
    return f"ranks {spell_numbers(one.ranks)}, chips {_chips(one.chip_map)}"


def _sides(one: Communicator, rank: int) -> str:
    """Return the group rank of a rank, and its neighbours along an axis."""
    place = f"; group rank {one.ranks.index(rank)}"
    layout = one.on.layout
    if one.kind not in layout.sizes:
        return place
    before, after = layout.neighbours(rank, one.kind)
    return f"{place}, previous {_shown(before)}, next {_shown(after)}"


def _shown(rank: int | None) -> str:
    return "none" if rank is None else str(rank)


def _chip_maps(members: Iterable[Communicator]) -> str:
    """Return the different chip maps, and how many groups have each."""
    found = Counter(tuple(one.chip_map) for one in members)
    parts = [
        f"{_chips(chips)} in {counted(count, 'group')}"
        for chips, count in found.most_common(MAX_CHIP_MAPS)
    ]
    more = len(found) - len(parts)
    return f"chips {'; '.join(parts)}" + (f"; {more} more" if more > 0 else "")


def _chips(chips: Sequence[int]) -> str:
    """Return chips in their order; a repeated pattern is shown once."""
    size = len(chips)
    period = next(p for p in divisors(size) if list(chips) == _repeated(chips, p))
    if size > MAX_UNFOLDED and period < size:
        return f"{fold_numbers(chips[:period])} x{size // period}"
    shown = fold_numbers(chips[:MAX_CHIPS])
    return f"{shown},..." if size > MAX_CHIPS else shown


def _repeated(chips: Sequence[int], period: int) -> list[int]:
    return list(chips[:period]) * (len(chips) // period)


def render_mesh_json(
    name: str, found: Communicators, rank: int | None
) -> Iterator[str]:
    """Yield the JSON document: everything, or the entries of one rank.

    The totals count all groups, also with one rank.
    """
    table, layout = found.table, found.layout
    entries = _rank_entries(found)
    ranks = entries if rank is None else islice(entries, rank, rank + 1)
    groups = found if rank is None else found.of_rank(rank)
    yield from json_document(
        {
            "file": name,
            "world_size": table.world_size,
            "num_nodes": table.num_nodes,
            "layout": {
                "order": layout.order,
                "ep_style": layout.ep_style,
                "sizes": {**layout.sizes, "ep": layout.ep, "etp": layout.etp},
            },
            "ranks": ranks,
            "groups": map(_group_entry, groups),
            "totals": _totals(found),
        }
    )


def _rank_entries(found: Communicators) -> Iterator[str]:
    """Yield the JSON entry of every rank; all values are computed at once."""
    table, layout = found.table, found.layout
    sides = [_sides_of_all(layout, axis) for axis in layout.kinds]
    places = ", ".join(f'"{axis}": %d' for axis in layout.axes)
    neighbours = ", ".join(
        f'"{axis}": {{"previous": %s, "next": %s}}' for axis in layout.kinds
    )
    line = (
        '{"rank": %d, "node_rank": %d, "host": %s, "device_id": %d, '
        f'"coordinates": {{{places}}}, "neighbours": {{{neighbours}}}}}'
    )
    rows = zip(
        range(table.world_size),
        table.node_ranks,
        map([json.dumps(host) for host in table.hosts].__getitem__, table.node_ranks),
        table.chip_map,
        *(layout.along(axis).places() for axis in layout.axes),
        *(column for both in sides for column in both),
        strict=True,
    )
    return map(line.__mod__, rows)


def _sides_of_all(layout: ParallelLayout, axis: str) -> tuple[list[str], list[str]]:
    """Return the ranks before and after every rank along an axis, as JSON."""
    pairs = layout.all_neighbours(axis)
    before, after = zip(*pairs, strict=True)
    return _spelt_ranks(before), _spelt_ranks(after)


def _spelt_ranks(ranks: Iterable[int | None]) -> list[str]:
    return ["null" if rank is None else str(rank) for rank in ranks]


def _group_entry(one: Communicator) -> str:
    """Return the entry of a group; JSON and Python write integers alike."""
    coordinates = ", ".join(
        f'"{axis}": {place}' for axis, place in one.coordinates.items()
    )
    return (
        f'{{"name": {json.dumps(one.name)}, "kind": {json.dumps(one.kind)}, '
        f'"index": {one.index}, "ranks": {list(one.ranks)}, '
        f'"coordinates": {{{coordinates}}}, "nodes": {list(one.nodes)}, '
        f'"chip_map": {one.chip_map}}}'
    )


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
