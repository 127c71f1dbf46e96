"""Changes of a table: fewer or more nodes, another node, ranks without gaps.

Which chip gets which rank is decided by the costs of ``ranktable.layout.solver``.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import islice, product
from math import prod
from typing import TYPE_CHECKING

from msgspec import structs

from ranktable.layout.change.facts import CostFacts
from ranktable.layout.change.nodes import (
    find_node,
    is_spare,
    joined,
    left_of,
    node_names,
    refuse_present,
    refuse_same_addresses,
    spares_of,
    take_spare,
    with_chips_of,
    with_nodes,
    with_pod_names,
    with_ranks,
    with_spares,
    without_lost,
)
from ranktable.layout.grid import did_you_mean, divisors, either, factors
from ranktable.layout.layout_errors import ChangeError, LayoutError
from ranktable.layout.parallel import KEPT, OWN_AXIS, ParallelLayout, remembered, roles
from ranktable.layout.solver import Chip, Held, PlacementRequest, best_order, solve
from ranktable.layout.traffic import CostModel
from ranktable.schema.text import counted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from ranktable.layout.grid import Groups
    from ranktable.schema.model import Device, Node, RankTable
    from ranktable.schema.topology import Topology


def factor_names(layout: ParallelLayout) -> tuple[str, ...]:
    """Return the names of the sizes whose product is the number of ranks."""
    own = ("ep",) if layout.ep_style == OWN_AXIS else ()
    return ("tp", "cp", *own, "dp", "pp")


def check_kept(layout: ParallelLayout, kept: Collection[str]) -> None:
    """Raise LayoutError unless these are sizes of a layout, and one other is free."""
    names = factor_names(layout)
    for name in kept:
        if name not in names:
            raise LayoutError(
                f"there is no size {name!r} to keep; they are {', '.join(names)}"
                f"{did_you_mean(name, names)}"
            )
    if set(names) <= set(kept):
        sizes = {name: getattr(layout, name) for name in names}
        raise LayoutError(
            f"{factors(sizes)} is to be kept whole, so that no other number of ranks "
            "fits; leave one of the sizes out, such as dp"
        )


def resized(layout: ParallelLayout, sizes: dict[str, int]) -> ParallelLayout | None:
    """Return a layout with other sizes, None if they are not valid together."""
    own = {} if layout.ep_style in ("scaletorch", "vllm") else {"ep": layout.ep}
    experts = {**own, "etp": layout.etp} if layout.ep > 1 else {}
    try:
        return ParallelLayout(
            **{**experts, **sizes},
            dp_replicate=layout.dp_replicate,
            order=layout.order,
            ep_style=layout.ep_style,
        )
    except LayoutError:
        return None


def with_dp_for(layout: ParallelLayout, world_size: int) -> ParallelLayout | None:
    """Return a layout with the dp that fits a number of ranks, None if none does."""
    copy = layout.world_size // layout.dp
    dp, rest = divmod(world_size, copy)
    sizes = {name: getattr(layout, name) for name in factor_names(layout)}
    return None if rest or not dp else resized(layout, {**sizes, "dp": dp})


def fit_layout(
    layout: ParallelLayout,
    available: int,
    kept: Collection[str],
    *,
    world_size: int | None = None,
    above: int = 0,
) -> ParallelLayout:
    """Return the largest layout for some chips that keeps some sizes.

    dp becomes as large as the chips allow, unless it is kept. Other sizes that are not
    kept become divisors of their old values, the largest that give as many ranks.

    Args:
        layout: The layout as it is.
        available: Number of chips.
        kept: The sizes that stay as they are.
        world_size: The number of ranks that is wanted, by default as many as fit.
        above: Only numbers of ranks above this one are suggested in the message.

    Raises:
        LayoutError: There is no such layout.
    """
    check_kept(layout, kept)
    now = {name: getattr(layout, name) for name in factor_names(layout)}

    def fitted(sizes: Mapping[str, int], ranks: int | None) -> ParallelLayout | None:
        return _largest(layout, sizes, available, kept, ranks)

    found = fitted(now, world_size)
    if found is not None:
        return found
    near: list[str] = []
    for name in (name for name in now if name in kept):
        smaller = divisors(now[name])[-2::-1]
        fits = (one for one in smaller if fitted({**now, name: one}, world_size))
        near += (f"{name}={one}" for one in islice(fits, 1))
    if world_size is not None:
        fewer = range(min(world_size - 1, available), above, -1)
        for worlds in (fewer, range(world_size + 1, available + 1)):
            fits = (one for one in worlds if fitted(now, one))
            near += (counted(one, "rank") for one in islice(fits, 1))
    fixed = {name: size for name, size in now.items() if name in kept}
    named = factors(fixed) if fixed else "nothing"
    if layout.ep > 1 and "ep" not in now:
        named += f" beside ep {layout.ep} x etp {layout.etp}"
    raise LayoutError(
        f"{named} is kept, and there {'is' if available == 1 else 'are'} "
        f"{counted(available, 'chip')}"
        + (f" for {counted(world_size, 'rank')}" if world_size is not None else "")
        + (f"; nearest: {either(near)}" if near else "; nothing fits")
    )


def _largest(
    layout: ParallelLayout,
    now: Mapping[str, int],
    available: int,
    kept: Collection[str],
    world_size: int | None,
) -> ParallelLayout | None:
    """Return the largest layout; of several, that with the largest other sizes."""
    choices = [
        [size] if name in kept or name == "dp" else divisors(size)[::-1]
        for name, size in now.items()
    ]
    best: ParallelLayout | None = None
    for chosen in product(*choices):
        sizes = dict(zip(now, chosen, strict=True))
        copy = prod(size for name, size in sizes.items() if name != "dp")
        options: Iterable[int] = range(available // copy, 0, -1)
        if world_size is not None:
            options = [dp for dp in (world_size // copy,) if dp in options]
        for dp in options:
            is_wanted = world_size in (None, dp * copy)
            if not is_wanted or ("dp" in kept and dp != sizes["dp"]):
                continue
            found = resized(layout, {**sizes, "dp": dp})
            if found is not None:
                if best is None or found.world_size > best.world_size:
                    best = found
                break
    return best


@dataclass(frozen=True, slots=True, kw_only=True)
class Resized:
    """A table with another number of ranks.

    Attributes:
        table: The table. Chips that no longer carry a rank are among its spares.
        layout: Its new layout.
    """

    table: RankTable
    layout: ParallelLayout


def shrink(
    table: RankTable,
    layout: ParallelLayout,
    drop: Collection[int],
    *,
    ranks: Collection[int] = (),
    kept: Collection[str] = KEPT,
    world_size: int | None = None,
    facts: CostFacts | None = None,
) -> Resized:
    """Return a table without some nodes, with the largest layout for the other nodes.

    The spares of the table are used, but the number of ranks does not grow. Chips that
    are not needed become spares.

    Args:
        table: The table.
        layout: Its layout now.
        drop: The places of the lost nodes.
        ranks: The ranks of single lost chips.
        kept: The sizes that stay as they are.
        world_size: The number of ranks, by default as many as fit.
        facts: Traffic, racks and links of the chips.

    Raises:
        ChangeError: No node would be left.
        LayoutError: The layout has another number of ranks, or none fits the rest.
    """
    _refuse_other(table, layout)
    is_whole = layout.world_size == table.world_size
    if not drop and not ranks and is_whole and world_size in (None, table.world_size):
        return Resized(table=table, layout=layout)
    table = without_lost(table, drop)
    spares = spares_of(table)
    left = left_of(table, drop, ranks, more=spares)
    room = sum(map(len, left)) + sum(len(node.devices) for node in spares)
    most = min(room, layout.world_size)
    after = fit_layout(layout, most, kept, world_size=world_size)
    return _resized(table, (layout, after), left, spares, kept, facts or CostFacts())


def grow(
    table: RankTable,
    layout: ParallelLayout,
    nodes: Sequence[Node],
    *,
    kept: Collection[str] = KEPT,
    world_size: int | None = None,
    facts: CostFacts | None = None,
) -> Resized:
    """Return a table with more nodes, and the largest layout for all of them.

    If dp is the slowest axis, no chip changes its role or its rank. Chips that are not
    needed become spares.

    Args:
        table: The table.
        layout: Its layout now.
        nodes: The new nodes; if a host is in the table already, its new chips join it.
        kept: The sizes that stay as they are.
        world_size: The number of ranks, by default as many as fit.
        facts: Traffic, racks and links of the chips.

    Raises:
        ChangeError: A node is there already.
        LayoutError: The layout has another number of ranks, or there are too few chips
            for a larger one.
    """
    _refuse_other(table, layout)
    if not nodes:
        return Resized(table=table, layout=layout)
    if world_size is not None and world_size <= table.world_size:
        raise LayoutError(
            f"{counted(world_size, 'rank')} {'is' if world_size == 1 else 'are'} not "
            f"more than the {table.world_size} that there are"
        )
    hosts = {node.host for node in spares_of(table)}
    for node in nodes:
        if node.host not in hosts:
            refuse_present(table, node.host)
    more = sum(len(node.devices) for node in nodes)
    now = table.world_size
    after = fit_layout(layout, now + more, kept, world_size=world_size, above=now)
    if after.world_size <= now:
        sizes = {name: getattr(layout, name) for name in kept}
        experts = {"etp": layout.etp, "ep": layout.ep}
        where = f", where {factors(experts)} divides tp x cp x dp"
        raise LayoutError(
            f"{counted(more, 'chip')} more {'is' if more == 1 else 'are'} too few for "
            f"another copy of the model, {factors(sizes) if sizes else 'of any size'}"
            f"{where if layout.ep > 1 else ''}"
        )
    layouts = (layout, after)
    return _resized(table, layouts, left_of(table), nodes, kept, facts or CostFacts())


def _refuse_other(table: RankTable, layout: ParallelLayout) -> None:
    may_lack = table.rank_end > table.world_size or remembered(table) == layout
    lacks = layout.world_size - table.world_size
    is_less_than_a_copy = lacks < layout.world_size // layout.dp
    if layout.world_size < table.rank_end or not (may_lack or is_less_than_a_copy):
        raise LayoutError(
            f"the layout is for {counted(layout.world_size, 'rank')}, but the table "
            f"has {table.world_size}"
        )


def _resized(
    table: RankTable,
    layouts: tuple[ParallelLayout, ParallelLayout],
    left: Sequence[Sequence[Device]],
    more: Sequence[Node],
    kept: Collection[str],
    facts: CostFacts,
) -> Resized:
    """Return a table with the best chip for each rank of the second layout.

    Args:
        table: The table.
        layouts: The layouts before and after.
        left: The devices of each of its nodes, without the lost ones.
        more: Nodes that may carry ranks too: spares, or new ones.
        kept: The axes that form a role.
        facts: Traffic, racks and links of the chips.
    """
    pairs = zip(table.nodes, left, strict=True)
    refuse_same_addresses((node for node, own in pairs if own), *more)
    held, wanted = (roles(layout, kept) for layout in layouts)
    every = [*table.nodes, *more]
    home = {node.host: at for at, node in reversed([*enumerate(table.nodes)])}
    # More chips of a host of the table belong to its node.
    homes = [*range(len(table.nodes))]
    for at, node in enumerate(more, len(table.nodes)):
        homes.append(at if node.host is None else home.setdefault(node.host, at))
    devices = [*left, *(node.devices for node in more)]
    chips = [(place, device) for place, own in enumerate(devices) for device in own]
    known = [
        Chip(homes[place], one.device_id, one.rank, held[one.rank])
        if place < len(left)
        else Chip(homes[place], one.device_id)
        for place, one in chips
    ]
    known.sort(key=lambda chip: chip.node)
    chips.sort(key=lambda pair: homes[pair[0]])
    layout = layouts[1]
    request = PlacementRequest(
        chips=known,
        roles=wanted,
        costs=CostModel(layout, facts.flows(layout), facts.boundaries(table, every)),
        tight=tight_groups(layout) if _holds_groups(table, layouts[0]) else None,
        links=facts.links_of(table),
    )
    nodes, idle = with_ranks(every, chips, solve(request)[0])
    spares = spares_of(table)
    given = {node.host for node in more}
    waiting = [node for node in spares if node.host not in given]
    was_spare = {node.host for node in spares}
    idle.sort(key=lambda node: node.host not in was_spare)
    times = Counter(node.host for node in table.nodes)
    several = {host for host, count in times.items() if count > 1}
    after = with_nodes(table, joined(nodes, several))
    rest = joined([*waiting, *with_pod_names(table, idle)])
    return Resized(
        table=with_spares(after, rest) if rest != spares else after, layout=layout
    )


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


def renumber(
    table: RankTable,
    *,
    nodes: Collection[int] = (),
    ranks: Collection[int] = (),
    facts: CostFacts | None = None,
) -> RankTable:
    """Return a table whose ranks have no gaps; their order stays.

    Only in a node that has lost chips, and whose other chips are no closed ring of
    links, the order of the chips changes.

    Args:
        table: The table; its ranks may have gaps already.
        nodes: The places of nodes that are lost.
        ranks: More ranks that are lost.
        facts: The links of the chips.

    Raises:
        ChangeError: Nothing would be left, or there is no such rank.
    """
    table = without_lost(table, nodes)
    links = (facts or CostFacts()).links_of(table)
    left = left_of(table, nodes, ranks)
    chips: list[tuple[int, Device]] = []
    for place, node in sorted(
        enumerate(table.nodes), key=lambda pair: pair[1].devices[0].rank
    ):
        own = sorted(left[place], key=lambda device: device.rank)
        first, last = node.devices[0].rank, node.devices[-1].rank
        if own and (len(own) < len(node.devices) or last - first >= len(own)):
            held = [Held(one.device_id, place=at) for at, one in enumerate(own)]
            order, _ = best_order(held, [None] * len(own), links)
            own = [own[at] for at in order]
        chips += [(place, device) for device in own]
    return with_nodes(table, with_ranks(table.nodes, chips, range(len(chips)))[0])


def replace_node(
    table: RankTable,
    old: str,
    new: str | Node | None = None,
    *,
    to_spares: bool = False,
    facts: CostFacts | None = None,
    tp: int = 1,
) -> RankTable:
    """Return a table in which another node carries the ranks of one.

    A second call changes nothing, because the old node is no longer there and the new
    one is. Chips of the new node that are not needed become spares.

    Args:
        table: The table.
        old: Name of the node: its host, or its index where it has none.
        new: A node, or the name of a host: a spare of the table, or a host with the
            same chips as the old one. None for the most suitable spare.
        to_spares: Whether the old node still works and becomes a spare.
        facts: The racks, and the links of the chips.
        tp: Ranks of the groups that should be closed rings too.

    Raises:
        ChangeError: There is no such node, the new one is in the table already, or it
            has fewer chips.
    """
    facts = facts or CostFacts()
    names = node_names(table.nodes)
    host = new if isinstance(new, str) or new is None else new.host
    if old not in names and host is not None and host in names:
        return table
    place = find_node(table, old)
    gone = table.nodes[place]
    if new == gone.host:
        return table
    links = facts.links_of(table)
    if not to_spares:
        table = without_lost(table, [place])
    if new is None:
        host = new = _nearest_spare(table, place, old, facts)
    if host is not None and is_spare(table, host):
        spare, table = take_spare(table, host)
        node = spare if isinstance(new, str) else new
    else:
        node = with_chips_of(gone, new, name=old) if isinstance(new, str) else new
    if node.host is None or node.host != gone.host:
        refuse_present(table, node.host)
    others = [*table.nodes[:place], *table.nodes[place + 1 :], *spares_of(table)]
    refuse_same_addresses(others, node)
    carrying, idle = _in_place_of(gone, node, old, links=links, tp=tp)
    nodes = [*table.nodes[:place], carrying, *table.nodes[place + 1 :]]
    rest = [idle] if node.host is not None else []
    rest += with_pod_names(table, [gone]) if to_spares else []
    renamed = {gone.host: node.host} if gone.host and node.host else None
    after = with_nodes(table, nodes, renamed)
    rest = [node for node in rest if node.devices]
    return with_spares(after, joined([*spares_of(after), *rest])) if rest else after


def _nearest_spare(table: RankTable, place: int, old: str, facts: CostFacts) -> str:
    """Return the spare in the same racks as a node, of these the smallest one."""
    spares = [spare for spare in spares_of(table) if spare.host is not None]
    wanted = len(table.nodes[place].devices)
    fitting = [spare for spare in spares if len(spare.devices) >= wanted]
    if not fitting:
        has = f"has {counted(len(spares), 'spare')}, none" if spares else "has no spare"
        raise ChangeError(
            f"the table {has}"
            f"{' with' if spares else ' of'} {counted(wanted, 'chip')}, as many as "
            f"{old} has; name a new node"
        )
    boundaries = facts.boundaries(table, [*table.nodes, *fitting])[1:]

    def distance(spare: int) -> tuple[int, int]:
        at = len(table.nodes) + spare
        apart = sum(one.domains[at] != one.domains[place] for one in boundaries)
        return apart, len(fitting[spare].devices)

    return str(fitting[min(range(len(fitting)), key=distance)].host)


def _in_place_of(
    gone: Node, node: Node, old: str, *, links: Topology | None, tp: int
) -> tuple[Node, Node]:
    """Return a node that carries the ranks of another, and its other chips."""
    wanted = len(gone.devices)
    if len(node.devices) < wanted:
        name = "the new node" if node.host is None else node.host
        raise ChangeError(
            f"{name} has {counted(len(node.devices), 'chip')}, and {old} carries "
            f"{counted(wanted, 'rank')}"
        )
    by_id = {device.device_id: device for device in node.devices}
    ids = [device.device_id for device in gone.devices]
    # If the chips are the same in the same order, a ring stays a ring.
    if by_id.keys() >= set(ids):
        chosen = [by_id[one] for one in ids]
    else:
        held = [Held(device.device_id) for device in node.devices]
        phase = gone.devices[0].rank % tp
        order, _ = best_order(held, [None] * wanted, links, width=tp, phase=phase)
        chosen = [node.devices[at] for at in order]
    used = {device.device_id for device in chosen}
    devices = tuple(
        structs.replace(device, rank=before.rank, layout=before.layout)
        for device, before in zip(chosen, gone.devices, strict=True)
    )
    idle = tuple(one for one in node.devices if one.device_id not in used)
    carrying = structs.replace(node, devices=devices, layout=gone.layout)
    return carrying, structs.replace(node, devices=idle)
