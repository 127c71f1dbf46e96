"""The ranks and chips of a parallel layout, for people and for programs.

The JSON form is stable: keys are only added. ``docs/layout.md`` documents it.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from ranktable.layout.parallel import describe_sizes
from ranktable.layout.sizes import divisors
from ranktable.layout.suggesting import balanced_dims
from ranktable.report.folding import (
    chips_label,
    fold_items,
    host_label,
    spell,
    spell_indices,
    spell_numbers,
)
from ranktable.report.json_document import json_document
from ranktable.report.terminal import table_lines, tree_lines
from ranktable.schema.diagnostic import counted, plural_of, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ranktable.layout.communicator import Communicator, Communicators
    from ranktable.layout.parallel import ParallelLayout
    from ranktable.layout.suggesting import Suggestion
    from ranktable.report.folding import Progression
    from ranktable.report.terminal import Style

MAX_RANKS = 16
"""Most ranks that have a line each."""

MAX_GROUPS = 8
"""Most groups of a kind that have a line each, and most lines of folded groups."""

MAX_NODE_LINES = 16
MAX_CHIPS = 16
MAX_UNFOLDED = 4
MAX_CHIP_MAPS = 4


def render_mesh(name: str, found: Communicators, look: Style) -> Iterator[str]:
    """Yield the whole layout: the ranks, then the groups of every kind."""
    yield _title(name, found, look)
    yield "\n"
    yield from (
        _ranks(found, look) if found.table.world_size <= MAX_RANKS else _nodes(found)
    )
    for kind in found.kinds:
        yield "\n"
        yield from _kind(kind, list(found.of_kind(kind)), look)


def render_rank(found: Communicators, rank: int, look: Style) -> Iterator[str]:
    """Yield the groups of one rank."""
    table, layout = found.table, found.layout
    place = layout.coordinates(rank)
    here = "".join(f", {axis} {place[axis]}" for axis in layout.kinds)
    node = table.node_rank_of(rank)
    host = table.nodes[node].host
    named = f" ({printable(host)})" if host else ""
    head = look.mark(f"rank {rank}", "bold")
    chip = table.device_of(rank).device_id
    runs = "on the host" if chip < 0 else f"chip {chip}"
    yield f"{head}: node {node}{named}, {runs}{here}\n"
    for one in found.of_rank(rank):
        yield f"{look.mark(one.name, 'place')}: {_members(one)}{_sides(one, rank)}\n"


def _title(name: str, found: Communicators, look: Style) -> str:
    table, layout = found.table, found.layout
    nodes, ranks = len(table.nodes), table.world_size
    return (
        f"{look.mark(printable(name), 'bold')}: {counted(nodes, 'node')}, "
        f"{counted(ranks, 'rank')} = {describe_sizes(layout)}, order {layout.order}\n"
    )


def _ranks(found: Communicators, look: Style) -> Iterator[str]:
    """Yield a table with a line for every rank."""
    axes = found.layout.kinds
    rows = [("rank", "node", "chip", *axes)]
    for rank in range(found.table.world_size):
        place = found.layout.coordinates(rank)
        node = found.table.node_rank_of(rank)
        name = found.table.nodes[node].host or str(node)
        chip = chips_label([found.table.device_of(rank).device_id])
        row = (rank, printable(name), chip, *(place[axis] for axis in axes))
        rows.append(tuple(map(str, row)))
    columns = range(len(rows[0]))
    yield from table_lines(rows, look, right=columns, is_head_marked=False)


def _nodes(found: Communicators) -> Iterator[str]:
    """Yield one line for all nodes that are alike."""
    folds = fold_items(_node_items(found))
    for fold in folds[:MAX_NODE_LINES]:
        yield _node_line(found, fold)
    yield from _left_out(len(folds) - MAX_NODE_LINES)


def _node_items(found: Communicators) -> Iterator[tuple[object, tuple[int, ...]]]:
    columns = [found.layout.along(axis).places() for axis in found.layout.kinds]
    for node in found.table.nodes:
        ranks = [device.rank for device in node.devices]
        values = [_values(map(places.__getitem__, ranks)) for places in columns]
        lists = [ranks, *values]
        shape = tuple(tuple(number - one[0] for number in one) for one in lists)
        yield shape, tuple(one[0] for one in lists)


def _values(places: Iterable[int]) -> list[int]:
    """Return the coordinates of a node along an axis: sorted, or in rank order.

    If a node has the end of a stage and the beginning of the next, rank order shows
    that dp 4,0 belong to pp 0,1.
    """
    found = list(dict.fromkeys(places))
    run = range(min(found), max(found) + 1)
    return list(run) if 2 < len(found) == len(run) else found


def _node_line(found: Communicators, fold: Progression) -> str:
    nodes = found.table.nodes[fold.first : fold.last + 1]
    assert isinstance(fold.shape, tuple)
    names = ("ranks", *found.layout.kinds)
    said = ", ".join(
        f"{name} {spell(fold, which, offsets)}"
        for which, (name, offsets) in enumerate(zip(names, fold.shape, strict=True))
    )
    host = printable(host_label(nodes, fold.first))
    return f"{host}: {said}{spell_indices(fold)}\n"


def _kind(kind: str, members: Sequence[Communicator], look: Style) -> Iterator[str]:
    """Yield the groups of one kind, folded if there are many."""
    size = len(members[0].ranks)
    groups = counted(len(members), "group")
    head = f"{look.mark(kind, 'bold')}: {groups} of {size}, {_spread(members)}"
    yield from tree_lines(head, _group_lines(kind, members, look), look)


def _group_lines(
    kind: str, members: Sequence[Communicator], look: Style
) -> Iterator[str]:
    if len(members) <= MAX_GROUPS:
        for one in members:
            yield f"{look.mark(one.name, 'place')}: {_members(one)}"
        return
    folds = fold_items(map(_item, members))
    for fold in folds[:MAX_GROUPS]:
        yield f"{look.mark(_name(kind, fold), 'place')}: ranks {_spelt(fold)}"
    yield from map(str.rstrip, _left_out(len(folds) - MAX_GROUPS))
    yield _chip_maps(members)


def _item(one: Communicator) -> tuple[object, tuple[int, ...]]:
    return tuple(rank - one.ranks[0] for rank in one.ranks), (one.ranks[0],)


def _name(kind: str, fold: Progression) -> str:
    last = f"-{fold.last}" if fold.last > fold.first else ""
    return f"{kind}/{fold.first}{last}"


def _spelt(fold: Progression) -> str:
    assert isinstance(fold.shape, tuple)
    return spell(fold, 0, fold.shape) + spell_indices(fold)


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
        return f"{chips_label(chips[:period])} x{size // period}"
    shown = chips_label(chips[:MAX_CHIPS])
    return f"{shown},..." if size > MAX_CHIPS else shown


def _repeated(chips: Sequence[int], period: int) -> list[int]:
    return list(chips[:period]) * (len(chips) // period)


def _left_out(count: int) -> Iterator[str]:
    if count > 0:
        yield (
            f"... and {counted(count, 'line')} more; --rank R shows one rank, "
            "--format json everything\n"
        )


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


MAX_SUGGESTIONS = 40


def render_suggestions(
    world_size: int, found: Sequence[Suggestion], left: int, look: Style
) -> Iterator[str]:
    """Yield a line for every layout.

    Args:
        world_size: The number of ranks.
        found: The layouts to show.
        left: Number of other layouts.
        look: The style of the output.
    """
    dims = (" x ".join(map(str, balanced_dims(world_size, count))) for count in (2, 3))
    yield f"{counted(world_size, 'rank')}; balanced as MPI_Dims_create has it: "
    yield f"{', '.join(dims)}\n\n"
    kinds = {axis for one in found for axis in one.layout.kinds}
    axes = [axis for axis in ("tp", "cp", "pp", "dp", "ep", "edp") if axis in kinds]
    names = list(found[0].spread) if found else []
    sizes = ["tp", "cp", "pp", "dp", *(["ep", "edp"] if "ep" in axes else [])]
    several = [printable(plural_of(name)) for name in names]
    rows = [(*sizes, *(f"{axis} over {name}" for name in several for axis in axes))]
    for one in found:
        held = [str(one.layout.along(axis).group_size) for axis in sizes]
        over = [str(one.spread[n].get(axis, 1)) for n in names for axis in axes]
        rows.append((*held, *over))
    yield from table_lines(rows, look, right=range(len(rows[0])))
    if left:
        more = counted(left, "layout")
        yield f"... and {more} more; --tp, --pp, --dp choose among them\n"


def render_suggestions_json(
    world_size: int, found: Sequence[Suggestion]
) -> Iterator[str]:
    """Yield the JSON document."""
    yield from json_document(
        {
            "world_size": world_size,
            "balanced": [list(balanced_dims(world_size, count)) for count in (2, 3)],
            "layouts": map(_suggestion, found),
        }
    )


def _suggestion(one: Suggestion) -> dict[str, object]:
    layout = one.layout
    return {
        "order": layout.order,
        "sizes": {**layout.sizes, "ep": layout.ep, "etp": layout.etp},
        "spread": one.spread,
    }
