"""What differs between two tables though no rank has moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.layout.change.names import node_names, without_number
from ranktable.schema.diagnostic import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ranktable.layout.change.touched import ChipName
    from ranktable.schema.model import Device, Node, RankTable

    Chips = Mapping[int, tuple[ChipName, Device]]


def unmoved(
    before: RankTable,
    after: RankTable,
    chips: Sequence[Chips],
    ranks: Sequence[Mapping[ChipName, int]],
) -> Iterator[str]:
    """Yield in a few words each what else differs.

    Args:
        before: The first table.
        after: The second.
        chips: Name and device of every rank, of both.
        ranks: Rank of every chip, of both.
    """
    yield from _of_chips(chips, ranks[0])
    sides = [node_names(table.nodes) for table in (before, after)]
    common = set(sides[0]) & set(sides[1])
    # A node that has moved is listed where its ranks are now.
    moved = {name[0] for name, r in ranks[0].items() if ranks[1].get(name, r) != r}
    still = common - moved
    orders = [[name for name in side if name in still] for side in sides]
    if orders[0] != orders[1]:
        yield "the order of the nodes"
    by_name = dict(zip(sides[0], before.nodes, strict=True))
    pairs = zip(sides[1], after.nodes, strict=True)
    others = sum(_differ(by_name[name], node) for name, node in pairs if name in common)
    if others:
        yield f"keys without a meaning, of {counted(others, 'node')}"
    keys = {*before.extra, *after.extra}
    changed = sorted(
        key for key in keys if before.extra.get(key) != after.extra.get(key)
    )
    if before.version != after.version:
        changed.insert(0, "version")
    if changed:
        yield f"at the top: {', '.join(changed)}"


def _differ(one: Node, other: Node) -> bool:
    """Whether keys without a meaning differ, but for the number of a node."""
    if not one.extra and not other.extra:
        return False
    return without_number(one) != without_number(other)


def _of_chips(chips: Sequence[Chips], ranks: Mapping[ChipName, int]) -> Iterator[str]:
    addresses = extra = 0
    before = chips[0]
    for rank, (name, device) in chips[1].items():
        known = before.get(rank)
        if known is not None and known[1] is device:
            continue  # nothing has touched it
        old_rank = ranks.get(name)
        if old_rank is None:
            continue
        other = before[old_rank][1]
        addresses += _address(other) != _address(device)
        extra += other.extra != device.extra
    if addresses:
        yield f"the address of {counted(addresses, 'chip')}"
    if extra:
        yield f"keys without a meaning, of {counted(extra, 'chip')}"


def _address(device: Device) -> tuple[str | None, bool]:
    return device.address, device.is_emulated
