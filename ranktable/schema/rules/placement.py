"""RT501 to RT512: rings, the order of ranks, and what a table remembers."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from ranktable.schema.declare import LAYOUT_KEY, TOPOLOGY_KEY
from ranktable.schema.document import SourceSpan
from ranktable.schema.finding import Rule, Severity
from ranktable.schema.remembered_layout import (
    LayoutTextError,
    neighbouring_tp,
    parse_layout,
    size_of,
    world_size_of,
)
from ranktable.schema.rules.nodes import sets_of_chips, topology_of
from ranktable.schema.rules.ranks import is_permutation
from ranktable.schema.text import named_ranks, quoted
from ranktable.schema.topology import BUILT_IN, SOPHGO_8, Budget, compare_orders

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ranktable.schema.columns import Columns
    from ranktable.schema.finding import Finding
    from ranktable.schema.options import Options
    from ranktable.schema.topology import ChipOrder, Topology


_EXAMPLE = "tp=8 pp=4 dp=2 order=tp-cp-ep-dp-pp"


def tp_of(columns: Columns, options: Options) -> int:
    """Return the size of tensor parallel groups of consecutive ranks, 1 if unknown."""
    layout = layout_of(columns)
    if options.tp is not None or layout is None:
        return options.tp or 1
    return neighbouring_tp(layout)


def layout_of(columns: Columns) -> Mapping[str, int | str] | None:
    """Return the layout that a table stores, None if there is none or a wrong one."""
    text = columns.top.get(LAYOUT_KEY)
    try:
        return parse_layout(text) if isinstance(text, str) else None
    except LayoutTextError:
        return None


class OpenOrder(NamedTuple):
    """A node whose chips, in rank order, are not a ring.

    Attributes:
        node: The node.
        order: Its devices by rank.
        broken: Pairs of neighbouring chips that are not linked.
        box: The links that are assumed.
        is_given: Whether these are the links of the host, as an option says.
    """

    node: int
    order: list[int]
    broken: list[tuple[int, int]]
    box: Topology
    is_given: bool


def _broken_rings(columns: Columns, options: Options) -> Iterable[OpenOrder]:
    box = topology_of(columns, options)
    return _open_orders(columns, box, is_given=bool(options.topology)) if box else ()


def _unknown_rings(columns: Columns, options: Options) -> Iterable[OpenOrder]:
    if options.may_use_sccl and topology_of(columns, options) is None:
        yield from _open_orders(columns, SOPHGO_8, is_given=False)


def _open_orders(
    columns: Columns, box: Topology, *, is_given: bool
) -> Iterable[OpenOrder]:
    """Yield the nodes whose chips, in rank order, are not a ring of the topology."""
    for node, order in _orders(columns):
        chips = [columns.device_ids[index] or 0 for index in order]
        are_there = all(0 <= chip < box.num_chips for chip in chips)
        broken = box.broken_links(chips) if are_there else []
        if broken:
            yield OpenOrder(node, order, broken, box, is_given)


def _orders(columns: Columns) -> Iterable[tuple[int, list[int]]]:
    """Yield each node without missing chips, and its devices by rank.

    Of nodes with the same chips and consecutive ranks only the first is yielded,
    because most nodes of a cluster are alike.
    """
    nodes: Iterable[int] = range(columns.num_nodes)
    if columns.are_ranks_in_file_order():
        nodes = columns.once(sets_of_chips).values()
    seen: set[tuple[int | None, ...]] = set()
    for node in nodes:
        start, end = columns.starts[node : node + 2]
        ranks = columns.ranks[start:end]
        first = ranks[0] if ranks else None
        if first is not None and ranks == list(range(first, first + end - start)):
            device_ids = tuple(columns.device_ids[start:end])
            if device_ids in seen:
                continue
            seen.add(device_ids)
        order = rank_order(columns, start, end)
        if len({columns.device_ids[index] for index in order}) == end - start:
            yield node, order


def rank_order(columns: Columns, start: int, end: int) -> list[int]:
    """Return the devices of a node by rank, without those that cannot be read."""
    readable = [
        (rank, index)
        for index in range(start, end)
        if (rank := columns.ranks[index]) is not None
        and columns.device_ids[index] is not None
    ]
    return [index for _, index in sorted(readable)]


def _broken_ring(columns: Columns, place: OpenOrder) -> Finding:
    return _no_ring(NOT_A_RING, columns, place)


def _weight_of_ring(_: Columns, place: OpenOrder) -> Severity:
    # A change of the table may break its rings; that is written with a warning.
    return Severity.ERROR if place.is_given else Severity.WARNING


def _unknown_ring(columns: Columns, place: OpenOrder) -> Finding:
    return _no_ring(RING_NOT_KNOWN, columns, place)


def _no_ring(rule: Rule, columns: Columns, place: OpenOrder) -> Finding:
    node, order, broken, box, _ = place
    is_known = rule is NOT_A_RING
    pairs = ", ".join(f"{a}-{b}" for a, b in broken[:4])
    more = ", ..." if len(broken) > 4 else ""
    chips = [columns.device_ids[index] or 0 for index in order]
    where = "" if is_known else " on the published box"
    hint = suggest(chips, box)
    if not is_known:
        hint = f"{hint}; {IF_LINKED}"
    # The chip after the first missing link, and the chip before it.
    first, second = (order[chips.index(chip)] for chip in broken[0])
    return rule.finding(
        columns.device_id_span(second),
        f"the chips {listed(chips)} of node {node} are not a ring{where}: {box.name} "
        f"has no link {pairs}{more}",
        hint=hint,
        related=(columns.device_id_span(first, label="not linked with"),),
    )


IF_LINKED = "if the host is linked like this, check with --topology"


def suggest(order: Sequence[int], box: Topology) -> str:
    """Return a hint with legal orders of these chips, or of as many other chips."""
    return _suggest(tuple(sorted(order)), box)


@lru_cache(maxsize=64)  # the nodes of a cluster have the same few sets of chips
def _suggest(chips: tuple[int, ...], box: Topology) -> str:
    budget = Budget()
    rings = box.rings(chips, budget=budget)
    if rings:
        legal = " or ".join(map(listed, rings))
        return f"a ring is {legal}, from any chip and in either direction"
    others = box.rings_of_size(len(chips), budget=budget)
    if others:
        return f"rings of {len(chips)} are: " + " or ".join(map(listed, others))
    sizes = [
        size
        for size in range(2, box.num_chips + 1)
        if box.rings_of_size(size, 1, budget)
    ]
    if budget.left <= 0:
        return f"no ring of {len(chips)} chips was found in a short search"
    known = ", ".join(map(str, sizes)) or "no"
    return f"no {len(chips)} chips of {box.name} form a ring; rings have {known} chips"


def listed(order: Sequence[int]) -> str:
    """Return an order as text for messages: ``0,2,6,7``."""
    return ",".join(map(str, order))


def _disordered(columns: Columns) -> Iterable[tuple[int, list[int]]]:
    """Yield the nodes and their ranks, if the nodes are not in rank order.

    Missing and repeated ranks have rules of their own.
    """
    ranks = columns.ranks
    if columns.are_ranks_in_file_order() or not columns.once(is_permutation):
        return
    for node, start, end in columns.nodes():
        found = [rank for rank in ranks[start:end] if rank is not None]
        if found:
            yield node, found


def _are_consecutive(ranks: list[int]) -> bool:
    return ranks == list(range(ranks[0], ranks[0] + len(ranks)))


def _ranks_out_of_order(
    columns: Columns, _: Options
) -> Iterable[tuple[int, list[int]]]:
    for node, ranks in _disordered(columns):
        if not _are_consecutive(ranks):
            yield node, ranks


def _out_of_order(columns: Columns, place: tuple[int, list[int]]) -> Finding:
    node, ranks = place
    at = next(at for at in range(1, len(ranks)) if ranks[at] != ranks[at - 1] + 1)
    index = columns.starts[node] + at
    return RANKS_OUT_OF_ORDER.finding(
        columns.rank_span(index),
        f"rank {ranks[at]} follows rank {ranks[at - 1]} in node {node}, so readers "
        "give a process different chips",
        hint="list the devices of each node by consecutive rank",
        related=(columns.rank_span(index - 1, label="the device before"),),
    )


def _nodes_out_of_order(columns: Columns, _: Options) -> Iterable[int]:
    highest = -1
    for node, ranks in _disordered(columns):
        if ranks[0] < highest and _are_consecutive(ranks):
            yield node
        highest = max(highest, *ranks)


def _node_out_of_order(columns: Columns, node: int) -> Finding:
    first = columns.starts[node]
    return NODES_OUT_OF_ORDER.finding(
        columns.rank_span(first),
        f"node {node} holds rank {columns.ranks[first]}, below the ranks of an earlier "
        "node",
        hint="list the nodes in the order of their ranks",
    )


def _several_nodes(columns: Columns, options: Options) -> Iterable[int]:
    return (1,) if columns.num_nodes > 1 and options.may_use_sccl else ()


def _second_node(columns: Columns, node: int) -> Finding:
    return TOO_MANY_NODES.finding(
        SourceSpan(columns.node_path(node)),
        f"the table has {columns.num_nodes} nodes; SCCL connects the chips of one",
        hint="use another backend between nodes",
    )


class OpenGroups(NamedTuple):
    """A node with tensor parallel groups that are not rings.

    Attributes:
        node: The node.
        order: Its devices by rank.
        tp: The size of the groups.
        box: The links that are assumed.
        best: A better order of its chips, None if the groups leave the node.
        hops: Hops around the groups in this order.
        is_known: Whether the links are known.
    """

    node: int
    order: list[int]
    tp: int
    box: Topology
    is_known: bool
    hops: int = 0
    best: ChipOrder | None = None


def _open_groups(columns: Columns, options: Options) -> Iterable[OpenGroups]:
    """Yield the nodes whose tensor parallel groups could be rings.

    A node whose chips are not a ring, or whose ranks are not consecutive, is ignored:
    other rules report it.
    """
    tp, links = tp_of(columns, options), topology_of(columns, options)
    box, is_known = links or SOPHGO_8, links is not None
    judged: set[tuple[int, ...]] = set()
    for node, start, end in columns.nodes() if tp > 1 else ():
        order = rank_order(columns, start, end)
        ranks = [columns.ranks[index] or 0 for index in order]
        chips = tuple(columns.device_ids[index] or 0 for index in order)
        key = (ranks[0] % tp, *chips) if ranks else ()
        if not key or key in judged:
            continue  # most nodes of a cluster are alike
        judged.add(key)
        is_whole = len(order) == end - start and len(set(chips)) == len(chips)
        if not is_whole or not _are_consecutive(ranks):
            continue
        if ranks[0] % tp or len(chips) % tp:
            yield OpenGroups(node, order, tp, box, is_known)
        elif all(0 <= c < box.num_chips for c in chips) and not box.broken_links(chips):
            here, best = compare_orders(box, chips, tp)
            if here is not None and best is not None and best.hops < here.hops:
                yield OpenGroups(node, order, tp, box, is_known, here.hops, best)


def _open_group(columns: Columns, place: OpenGroups) -> Finding:
    node, order, tp, box, is_known, hops, best = place
    if best is None:
        return _leaving(columns, node, columns.ranks[order[0]] or 0, len(order), tp)
    chips = [columns.device_ids[index] or 0 for index in order]
    # The first chip of the first group that is not a ring.
    first = next(
        at for at in range(0, len(chips), tp) if box.broken_links(chips[at : at + tp])
    )
    hint = f"the order {listed(best.chips)} takes {best.hops} hops around them"
    if not is_known:
        hint += f"; {IF_LINKED}"
    return OPEN_GROUP.finding(
        columns.device_id_span(order[first + tp - 1]),
        f"the chips {listed(chips)} of node {node} take {hops} hops around their "
        f"tensor parallel groups of {tp}{'' if is_known else ' on the published box'}, "
        f"where another order takes {best.hops}",
        hint=hint,
        related=(columns.device_id_span(order[first], label="first of the group"),),
    )


def _leaving(columns: Columns, node: int, first: int, size: int, tp: int) -> Finding:
    fitting = [str(d) for d in range(1, size + 1) if size % d == 0 and first % d == 0]
    ranks = named_ranks([*range(first, first + size)])
    return OPEN_GROUP.finding(
        columns.devices_span(node),
        f"the tensor parallel groups of {tp} leave node {node}, which has {ranks}",
        hint=f"groups that stay within it have {', '.join(fitting)} ranks",
    )


def _bad_layouts(columns: Columns, _: Options) -> Iterable[str]:
    """Yield what is wrong with the layout that the table stores."""
    text = columns.top.get(LAYOUT_KEY)
    try:
        size = world_size_of(parse_layout(text)) if isinstance(text, str) else None
    except LayoutTextError as error:
        yield f"is {quoted(text)}, which is not a layout: {error}"
        return
    # A part of a table, or one with gaps, is not judged.
    if size not in (None, columns.num_devices) and columns.once(is_permutation):
        yield f"is for {size} ranks, but the table has {columns.num_devices}"


def _bad_layout(_: Columns, reason: str) -> Finding:
    return BAD_LAYOUT.finding(
        SourceSpan((LAYOUT_KEY,)),
        f"{LAYOUT_KEY} {reason}",
        hint=f"write sizes and an order, {_EXAMPLE}, or leave the key out",
    )


def _contradictions(columns: Columns, options: Options) -> Iterable[tuple[str, str]]:
    """Yield a key of the table and an option that contradicts it."""
    layout, links = layout_of(columns), options.topology
    if layout is not None and options.tp not in (None, size_of(layout, "tp")):
        yield LAYOUT_KEY, f"--tp {options.tp}"
    if links is not None and columns.top.get(TOPOLOGY_KEY) not in (None, links.name):
        yield TOPOLOGY_KEY, f"--topology {links.name}"


def _contradiction(columns: Columns, place: tuple[str, str]) -> Finding:
    key, option = place
    return CONTRADICTION.finding(
        SourceSpan((key,)),
        f"{option} contradicts the table, which remembers {columns.top[key]}",
        hint=f"leave the option out, or change {key}",
    )


def _unknown_topologies(columns: Columns, _: Options) -> Iterable[str]:
    """Yield the links that a table names, if nobody knows them."""
    named = columns.top.get(TOPOLOGY_KEY)
    if isinstance(named, str) and named not in [one.name for one in BUILT_IN]:
        yield named


def _unknown_topology(_: Columns, named: str) -> Finding:
    known = ", ".join(one.name for one in BUILT_IN)
    return UNKNOWN_TOPOLOGY.finding(
        SourceSpan((TOPOLOGY_KEY,)),
        f"{TOPOLOGY_KEY} is {quoted(named)}, which is not known, so the rings are not "
        "checked",
        hint=f"write {known}, or leave the key out and check with --topology FILE",
    )


NOT_A_RING = Rule(
    code="RT501",
    name="not-a-ring",
    summary="the chips of a node, by rank, are not a closed ring of links",
    fix="Use the order in the help line, or let gen choose one: --ring sophgo-8.",
    find=_broken_rings,
    tell=_broken_ring,
    severity_of=_weight_of_ring,
)
RING_NOT_KNOWN = Rule(
    code="RT502",
    name="ring-not-on-published-box",
    severity=Severity.NOTE,
    summary="the order of the chips is not a ring on the published box",
    fix="Give the links of the host: --topology sophgo-8, or a file of links.",
    find=_unknown_rings,
    tell=_unknown_ring,
)
RANKS_OUT_OF_ORDER = Rule(
    code="RT503",
    name="ranks-out-of-order",
    summary="the ranks of a node are not consecutive in file order",
    fix="List the devices of every node in the order of their ranks.",
    find=_ranks_out_of_order,
    tell=_out_of_order,
)
NODES_OUT_OF_ORDER = Rule(
    code="RT504",
    name="nodes-out-of-order",
    severity=Severity.WARNING,
    summary="a later node holds lower ranks",
    fix="List the nodes in the order of their ranks.",
    find=_nodes_out_of_order,
    tell=_node_out_of_order,
)
TOO_MANY_NODES = Rule(
    code="RT505",
    name="too-many-nodes",
    severity=Severity.WARNING,
    summary="more nodes than SCCL connects",
    fix=(
        "Use one node with SCCL, or another backend between nodes. ranktable's own "
        "reader returns the chips of the whole table."
    ),
    find=_several_nodes,
    tell=_second_node,
)


OPEN_GROUP = Rule(
    code="RT507",
    name="open-tp-group",
    severity=Severity.WARNING,
    summary="a tensor parallel group is not a closed ring, and could be one",
    fix="List the chips in the order in the help line: gen --ring sophgo-8 --tp 4.",
    find=_open_groups,
    tell=_open_group,
)


BAD_LAYOUT = Rule(
    code="RT508",
    name="bad-layout",
    severity=Severity.WARNING,
    summary="the layout in the table is not valid, or of another size",
    fix=f"Write sizes and an order, {_EXAMPLE}, or leave the key out.",
    find=_bad_layouts,
    tell=_bad_layout,
)
CONTRADICTION = Rule(
    code="RT511",
    name="contradicts-the-table",
    summary="an option contradicts what the table remembers",
    fix="Leave the option out, or change the key.",
    find=_contradictions,
    tell=_contradiction,
)

UNKNOWN_TOPOLOGY = Rule(
    code="RT512",
    name="unknown-topology",
    severity=Severity.WARNING,
    summary="the table names links of the chips that nobody knows",
    fix="Correct the name, or leave the key out and check with --topology.",
    find=_unknown_topologies,
    tell=_unknown_topology,
)

REMEMBERED = (BAD_LAYOUT, CONTRADICTION, UNKNOWN_TOPOLOGY)
"""Rules about what commands write into a table, whatever its format."""

RULES = (
    NOT_A_RING,
    RING_NOT_KNOWN,
    RANKS_OUT_OF_ORDER,
    NODES_OUT_OF_ORDER,
    TOO_MANY_NODES,
    OPEN_GROUP,
    *REMEMBERED,
)
