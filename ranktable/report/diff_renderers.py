"""The differences between two tables, for people and for programs.

The JSON form is stable: keys are only added. ``docs/change.md`` documents it.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, TypeVar

from ranktable.cluster.host_lists import fold_hosts
from ranktable.layout.traffic import GIB, is_reached
from ranktable.report.json_document import json_document
from ranktable.report.terminal import table_size
from ranktable.schema.text import counted, fold_numbers, plural_of, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ranktable.layout.change.comparison import ChipName, Difference, Move
    from ranktable.report.terminal import Style
    from ranktable.schema.model import RankTable

MAX_LINES = 16
"""Most lines of one kind that are shown."""

MAX_HOSTS_LENGTH = 200
"""Longest folded list of hosts that is shown."""

Item = TypeVar("Item")


def render_diff(
    names: tuple[str, str], found: Difference, style: Style
) -> Iterator[str]:
    """Yield the differences, or one line if there are none."""
    first, second = (style.mark(printable(name), "bold") for name in names)
    if found.is_same:
        yield f"{first} and {second} say the same: {table_size(found.after)}\n"
        return
    yield f"{first}: {table_size(found.before)}\n"
    yield f"{second}: {table_size(found.after)}\n\n"
    yield from render_changes(found, style)


def render_changes(found: Difference, style: Style) -> Iterator[str]:
    """Yield the differences, without the names of the files."""
    gone = [name for name in found.nodes_out if name not in found.now_spares]
    yield from _nodes("nodes out", gone, style.mark("-", "removed"))
    yield from _nodes("now spares", found.now_spares, "")
    yield from _nodes("spares out", found.spares_out, style.mark("-", "removed"))
    yield from _nodes("nodes in", found.nodes_in, style.mark("+", "added"))
    if (found.nodes_out or found.nodes_in) and None in found.before.hosts:
        yield "  nodes without hosts are told apart by their indices\n"
    moves = found.rank_moves
    parts = [f"{found.num_kept} as before"]
    if found.chips_in:
        parts.append(f"{len(found.chips_in)} on new chips")
    if moves:
        parts.append(f"{len(moves)} moved")
    yield f"ranks: {', '.join(parts)}\n"
    yield from _taken(found)
    yield from _limited(_blocks(moves), _moved)
    if found.has_roles:
        roles = found.role_moves
        yield f"roles: {len(roles) or 'none'} moved\n"
        yield from _limited(roles, _role)
    yield from _crossings(found)
    if found.others:
        yield f"also differs: {'; '.join(map(printable, found.others))}\n"


def _crossings(found: Difference) -> Iterator[str]:
    """Yield the bytes that cross before and after, compared with the lower bound."""
    kind = "typical bytes" if found.is_typical else "bytes"
    of_left = " of the ranks that are left" if found.had_gaps else ""
    for one in found.crossed:
        before, after, bound = (n / GIB for n in (one.before, one.after, one.bound))
        if not before and not after:
            continue
        how = ""
        if is_reached(one.bound, one.after):
            how = ", optimal"
        elif one.bound:
            how = f", {100 * (after / bound - 1):.0f}% above the bound of {bound:.2f}"
        yield (
            f"{kind} between {plural_of(one.name)}, GiB a step: "
            f"{before:.2f}{of_left} -> {after:.2f}{how}\n"
        )


def _nodes(what: str, names: Sequence[str], sign: str) -> Iterator[str]:
    if names:
        yield f"{what}: {sign}{printable(_folded(names))}\n"


def _folded(names: Sequence[str]) -> str:
    return fold_numbers(list(map(int, names))) if _are_numbers(names) else _hosts(names)


def _are_numbers(names: Sequence[str]) -> bool:
    return all(name.isdecimal() for name in names)


def _hosts(names: Sequence[str]) -> str:
    text = fold_hosts(names)
    return (
        text
        if len(text) <= MAX_HOSTS_LENGTH
        else f"{names[0]} to {names[-1]}, {len(names)} nodes"
    )


def _taken(found: Difference) -> Iterator[str]:
    """Yield which chips carry the ranks of chips that are no longer there."""
    lines = []
    for node, ranks, chips in _runs(
        [(name[0], rank, name[1]) for rank, name in found.chips_in.items()]
    ):
        before = [found.chips_out[r][0] for r in ranks if r in found.chips_out]
        since = f", before on {printable(', '.join(dict.fromkeys(before)))}"
        lines.append(
            f"  {_named('rank', ranks)}: {printable(node)} {_named('chip', chips)}"
            f"{since if before else ''}\n"
        )
    yield from _limited(lines, str)


def _blocks(moves: Sequence[Move]) -> list[list[Move]]:
    """Return the moves for each line: of one node, and by the same difference."""
    runs = groupby(moves, key=lambda move: (move.node, move.after - move.before))
    return [list(run) for _, run in runs]


def _moved(moves: Sequence[Move]) -> str:
    ranks = _named("rank", [move.before for move in moves])
    there = fold_numbers([move.after for move in moves])
    return f"  {printable(moves[0].node)}: {ranks} -> {there}\n"


def _named(noun: str, numbers: Sequence[int]) -> str:
    return f"{noun if len(numbers) == 1 else f'{noun}s'} {fold_numbers(numbers)}"


def _runs(
    items: Sequence[tuple[str, int, int]],
) -> Iterator[tuple[str, list[int], list[int]]]:
    for node, run in groupby(items, key=lambda item: item[0]):
        both = list(run)
        yield node, [item[1] for item in both], [item[2] for item in both]


def _role(move: Move) -> str:
    was, is_now = move.role_before, move.role_after
    # An axis of size 1 is not part of a role.
    changed = [
        f"{axis} {was.get(axis, 'none')} -> {is_now.get(axis, 'none')}"
        for axis in dict.fromkeys((*was, *is_now))
        if was.get(axis) != is_now.get(axis)
    ]
    return (
        f"  {printable(move.node)} chip {move.device_id}: rank {move.before} -> "
        f"{move.after}, {', '.join(changed)}\n"
    )


def _limited(items: Sequence[Item], line: Callable[[Item], str]) -> Iterator[str]:
    """Yield a line for each item; if there are many, the first ones and a count."""
    yield from map(line, items[:MAX_LINES])
    if len(items) > MAX_LINES:
        more = counted(len(items) - MAX_LINES, "line")
        yield f"  ... and {more} more; --format json shows everything\n"


def render_diff_json(
    names: tuple[str | None, str | None], found: Difference
) -> Iterator[str]:
    """Yield the JSON document."""
    yield from json_document(
        {
            "same": found.is_same,
            "before": _table(names[0], found.before),
            "after": _table(names[1], found.after),
            "nodes_out": found.nodes_out,
            "nodes_in": found.nodes_in,
            "now_spares": found.now_spares,
            "spares_out": found.spares_out,
            "moves": map(_move, found.moves),
            "chips_out": _chips(found.chips_out),
            "chips_in": _chips(found.chips_in),
            "bytes_between_nodes": next(
                (
                    {"before": one.before, "after": one.after}
                    for one in found.crossed
                    if one.name == "node"
                ),
                None,
            ),
            "crossings": [
                {
                    "name": one.name,
                    "before": one.before,
                    "after": one.after,
                    "bound": one.bound,
                    "optimal": is_reached(one.bound, one.after),
                }
                for one in found.crossed
            ],
            "bytes_are_typical": found.is_typical,
            "others": found.others,
            "totals": _totals(found),
        }
    )


def _table(name: str | None, table: RankTable) -> dict[str, object]:
    return {
        "file": name,
        "num_nodes": len(table.nodes),
        "world_size": table.world_size,
        "digest": table.digest(),
    }


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
