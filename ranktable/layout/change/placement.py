"""Place the ranks of a layout on the chips that are there.

Which chip gets which rank is decided by the costs of ``ranktable.layout.solver``.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING

from msgspec import structs

from ranktable.layout.change.nodes import joined
from ranktable.layout.parallel import roles
from ranktable.layout.solver import Chip, PlacementRequest, solve
from ranktable.layout.traffic import CostModel

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ranktable.layout.change.facts import CostFacts
    from ranktable.layout.grid import Groups
    from ranktable.layout.parallel import ParallelLayout
    from ranktable.schema.model import Device, Node, RankTable


def placed(
    table: RankTable,
    left: Sequence[Sequence[Device]],
    more: Sequence[Node],
    layouts: tuple[ParallelLayout, ParallelLayout],
    kept: Collection[str],
    facts: CostFacts,
) -> tuple[list[Node], list[Node]]:
    """Return nodes with the best chip for each rank, and nodes with the other chips.

    Args:
        table: The table.
        left: The devices of each of its nodes that may carry ranks.
        more: Other nodes that may carry ranks. If a host is in the table already, its
            chips join the node.
        layouts: The layouts before and after.
        kept: The axes that form a role.
        facts: Traffic, racks and links of the chips.
    """
    held, wanted = (roles(layout, kept) for layout in layouts)
    lost = [at for at, own in enumerate(left) if not own]
    more = _nearest_first(table, lost, more, facts)
    every = [*table.nodes, *more]
    homes = _homes(table, more)
    devices = [*left, *(_in_known_order(node, table) for node in more)]
    chips = [(place, device) for place, own in enumerate(devices) for device in own]
    chips.sort(key=lambda pair: homes[pair[0]])
    known = [
        Chip(homes[place], one.device_id, one.rank, held[one.rank])
        if place < len(left)
        else Chip(homes[place], one.device_id)
        for place, one in chips
    ]
    layout = layouts[1]
    request = PlacementRequest(
        chips=known,
        roles=wanted,
        costs=CostModel(layout, facts.flows(layout), facts.boundaries(table, every)),
        tight=tight_groups(layout) if _holds_groups(table, layouts[0]) else None,
        links=facts.links_of(table),
    )
    carrying, idle = _with_ranks(every, chips, solve(request)[0])
    times = Counter(node.host for node in table.nodes)
    apart = {host for host, count in times.items() if count > 1}
    return joined(carrying, apart), joined(idle)


def _nearest_first(
    table: RankTable, lost: Sequence[int], more: Sequence[Node], facts: CostFacts
) -> list[Node]:
    """Return nodes in the order in which they replace lost ones: of its rack first.

    Of placements that cost the same, the solver finds that of the first nodes first.
    """
    beyond = facts.boundaries(table, [*table.nodes, *more])[1:]
    if not beyond or not lost:
        return [*more]
    places = [
        tuple(one.domains[at] for one in beyond)
        for at in range(len(table.nodes) + len(more))
    ]
    left: dict[tuple[int, ...], deque[int]] = defaultdict(deque)
    for at in range(len(more)):
        place = places[len(table.nodes) + at]
        for cut in range(len(place)):
            left[place[cut:]].append(at)
    chosen: dict[int, None] = {}
    for at in lost:
        for cut in range(len(beyond)):
            near = left[places[at][cut:]]
            while near and near[0] in chosen:
                near.popleft()
            if near:
                chosen[near[0]] = None
                break
    return [
        more[at] for at in (*chosen, *(n for n in range(len(more)) if n not in chosen))
    ]


def _homes(table: RankTable, more: Sequence[Node]) -> list[int]:
    """Return the first node of the host of each node of a table, and of more nodes."""
    homes = [*range(len(table.nodes))]
    first = {node.host: at for at, node in reversed([*enumerate(table.nodes)])}
    for at, node in enumerate(more, len(homes)):
        homes.append(at if node.host is None else first.setdefault(node.host, at))
    return homes


def _in_known_order(node: Node, table: RankTable) -> Sequence[Device]:
    """Return the devices of a node, in the order of the last node if it has those.

    A ring of the other nodes is then one of it too.
    """
    order = {one.device_id: at for at, one in enumerate(table.nodes[-1].devices)}
    if not order.keys() <= {device.device_id for device in node.devices}:
        return node.devices
    return sorted(node.devices, key=lambda one: order.get(one.device_id, len(order)))


def _with_ranks(
    nodes: Sequence[Node],
    chips: Sequence[tuple[int, Device]],
    carriers: Sequence[int],
) -> tuple[list[Node], list[Node]]:
    """Return nodes with their new ranks, and the nodes and chips that have none.

    Args:
        nodes: The nodes.
        chips: The chips that may carry ranks, each with the place of its node.
        carriers: For every rank, which of the chips carries it.

    Returns:
        The nodes with a rank, in rank order, each with its chips in rank order too,
        because some readers number chips as they come; and those with chips without a
        rank, with these chips in the order of their node.
    """
    used: list[list[Device]] = [[] for _ in nodes]
    for rank, index in enumerate(carriers):
        place, device = chips[index]
        same = device.rank == rank
        used[place].append(device if same else structs.replace(device, rank=rank))
    carrying = set(carriers)
    idle: list[set[int]] = [set() for _ in nodes]
    for index, (place, device) in enumerate(chips):
        if index not in carrying:
            idle[place].add(device.device_id)
    rest = [
        [one for one in node.devices if one.device_id in own] if own else []
        for node, own in zip(nodes, idle, strict=True)
    ]
    carried = _changed(nodes, used)
    carried.sort(key=lambda node: node.devices[0].rank)
    return carried, _changed(nodes, rest)


def _changed(nodes: Sequence[Node], devices: Sequence[list[Device]]) -> list[Node]:
    """Return the nodes that still have devices, with these devices."""
    pairs = zip(nodes, devices, strict=True)
    return [_with(node, own) for node, own in pairs if own]


def _with(node: Node, devices: list[Device]) -> Node:
    same = len(devices) == len(node.devices) and all(
        one is other for one, other in zip(devices, node.devices, strict=True)
    )
    return node if same else structs.replace(node, devices=tuple(devices))


def tight_groups(layout: ParallelLayout) -> Groups | None:
    """Return the groups that should stay inside a node: tp, or the fastest axis."""
    if layout.tp > 1:
        return layout.along("tp")
    axes = [axis for axis, size in reversed(layout.mesh_shape.items()) if size > 1]
    return layout.along(axes[0]) if axes else None


def _holds_groups(table: RankTable, layout: ParallelLayout) -> bool:
    """Whether a node of a table holds all ranks of such a group.

    If no node does, the groups are not worth moving a healthy node.
    """
    tight = tight_groups(layout)
    if tight is None or tight.group_size > max(len(n.devices) for n in table.nodes):
        return False
    return any(
        ranks.issuperset(tight.of(rank))
        for node in table.nodes
        for ranks in [{device.rank for device in node.devices}]
        for rank in ranks
    )
