"""RT501 to RT507, RT510: rings, ranks in file order, nodes SCCL can span."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from ranktable.schema.chip_order import compare_orders
from ranktable.schema.document import SourceSpan
from ranktable.schema.finding import Rule, Severity
from ranktable.schema.format import FREE, LAYOUT_KEY, PLACEMENT_KEY, TOPOLOGY_KEY
from ranktable.schema.remembered_layout import (
    LayoutTextError,
    neighbouring_tp,
    parse_layout,
)
from ranktable.schema.rules.examples import (
    PAIR,
    chips,
    device,
    nodes,
    one_node,
)
from ranktable.schema.rules.ranks import is_permutation
from ranktable.schema.topology import BUILT_IN, SOPHGO_8, Budget

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ranktable.schema.columns import Columns
    from ranktable.schema.finding import Finding
    from ranktable.schema.report import Options
    from ranktable.schema.topology import Topology


MAX_SCCL_CHIPS = 16
"""Length of the array of chips in SCCL's source of 2024, which is not checked."""


def tp_of(columns: Columns, options: Options) -> int:
    """Return the size of tensor parallel groups of consecutive ranks, 1 if unknown."""
    layout = layout_of(columns)
    if options.tp is not None or layout is None:
        return options.tp or 1
    return neighbouring_tp(layout)


def topology_of(columns: Columns, options: Options) -> Topology | None:
    """Return the links of the chips, from the options or from the table's key."""
    if options.topology is not None:
        return options.topology
    # A table must not decide which files are read.
    named = columns.top.get(TOPOLOGY_KEY)
    return next((one for one in BUILT_IN if one.name == named), None)


def layout_of(columns: Columns) -> Mapping[str, int | str] | None:
    """Return the layout that a table stores, None if there is none or a wrong one."""
    text = columns.top.get(LAYOUT_KEY)
    try:
        return parse_layout(text) if isinstance(text, str) else None
    except LayoutTextError:
        return None


def _broken_rings(columns: Columns, options: Options) -> Iterator[Finding]:
    box = topology_of(columns, options)
    # If only the table names the links, a ring that is not closed is a warning.
    weight = Severity.WARNING if options.topology is None else Severity.ERROR
    for finding in _open_orders(columns, box, is_known=True) if box else ():
        yield replace(finding, severity=weight)


def _unknown_rings(columns: Columns, options: Options) -> Iterator[Finding]:
    if topology_of(columns, options) is None:
        yield from _open_orders(columns, SOPHGO_8, is_known=False)


def _odd_rings(columns: Columns, options: Options) -> Iterator[Finding]:
    for node, order in (
        _orders(columns) if topology_of(columns, options) is None else ()
    ):
        if _is_odd(order):
            yield ODD_RING.finding(
                columns.devices_span(node),
                f"node {node} has {len(order)} chips; a ring of that "
                "many is not published",
                hint="use an even number of chips, or check with --topology",
            )


def _is_odd(order: Sequence[int]) -> bool:
    return len(order) > 1 and len(order) % 2 == 1


def _open_orders(
    columns: Columns, box: Topology, *, is_known: bool
) -> Iterator[Finding]:
    """Yield the nodes whose chips, in rank order, are not a ring of the topology."""
    for node, order in _orders(columns):
        chips = [columns.device_ids[index] or 0 for index in order]
        if not all(0 <= chip < box.num_chips for chip in chips):
            continue
        if not is_known and _is_odd(order):
            continue
        broken = box.broken_links(chips)
        if broken:
            yield _no_ring(columns, node, order, broken, box, known=is_known)


def _orders(columns: Columns) -> Iterator[tuple[int, list[int]]]:
    """Yield each node without missing chips, and its devices by rank.

    Of nodes with the same chips and consecutive ranks only the first is yielded,
    because most nodes of a cluster are alike.
    """
    seen: set[tuple[int | None, ...]] = set()
    for node, start, end in columns.nodes():
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


def _no_ring(
    columns: Columns,
    node: int,
    order: list[int],
    broken: list[tuple[int, int]],
    box: Topology,
    *,
    known: bool,
) -> Finding:
    pairs = ", ".join(f"{a}-{b}" for a, b in broken[:4])
    more = ", ..." if len(broken) > 4 else ""
    chips = [chip for index in order if (chip := columns.device_ids[index]) is not None]
    message = (
        f"the chips {listed(chips)} of node {node} are not a ring"
        f"{'' if known else ' on the published box'}: {box.name} has no link "
        f"{pairs}{more}"
    )
    rule = NOT_A_RING if known else RING_NOT_KNOWN
    hint = suggest(chips, box)
    if not known:
        hint = f"{hint}; if the host is linked like this, check with --topology"
    # The chip after the first missing link, and the chip before it.
    first, second = (order[chips.index(chip)] for chip in broken[0])
    return rule.finding(
        columns.device_id_span(second),
        message,
        hint=hint,
        related=(columns.device_id_span(first, label="not linked with"),),
    )


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


def _is_free(columns: Columns) -> bool:
    return columns.top.get(PLACEMENT_KEY) == FREE


def _disordered(columns: Columns) -> Iterator[tuple[int, int, list[int]]]:
    """Yield (node, first device, ranks) for nodes not in rank order.

    Missing and repeated ranks have rules of their own.
    """
    ranks = columns.ranks
    if columns.are_ranks_in_file_order() or not is_permutation(ranks):
        return
    for node, start, end in columns.nodes():
        found = [rank for rank in ranks[start:end] if rank is not None]
        if found:
            yield node, start, found


def _are_consecutive(ranks: list[int]) -> bool:
    return ranks == list(range(ranks[0], ranks[0] + len(ranks)))


def _keep_order(columns: Columns, ranks: list[int]) -> bool:
    """Whether the index of each device is its local rank."""
    return _are_consecutive(ranks) or (_is_free(columns) and ranks == sorted(ranks))


def _ranks_out_of_order(columns: Columns, _: Options) -> Iterator[Finding]:
    for node, start, ranks in _disordered(columns):
        if not _keep_order(columns, ranks):
            yield _out_of_order(columns, node, start, ranks, is_free=_is_free(columns))


def _nodes_out_of_order(columns: Columns, _: Options) -> Iterator[Finding]:
    highest = -1
    for node, start, ranks in _disordered(columns):
        if ranks[0] < highest and _keep_order(columns, ranks):
            yield NODES_OUT_OF_ORDER.finding(
                columns.rank_span(start),
                f"node {node} holds rank {ranks[0]}, below the ranks of an earlier "
                "node",
                hint="list the nodes in the order of their ranks",
            )
        highest = max(highest, ranks[0] if _is_free(columns) else max(ranks))


def _free_placement(columns: Columns, _: Options) -> Iterator[Finding]:
    """Yield the note that RANK must come from a table with free placement."""
    if not _is_free(columns):
        return
    apart = (node for node, _, r in _disordered(columns) if not _are_consecutive(r))
    node = next(apart, None)
    if node is not None:
        yield FREE_PLACEMENT.finding(
            SourceSpan((PLACEMENT_KEY,)),
            f"the ranks of node {node} are not consecutive: RANK must come from the "
            "table, because launchers such as torchrun number processes consecutively",
            hint="start the job with a rank file, or with srun and a host file",
        )


def _out_of_order(
    columns: Columns, node: int, start: int, ranks: list[int], *, is_free: bool
) -> Finding:
    place = next(
        place
        for place in range(1, len(ranks))
        if ranks[place] < ranks[place - 1]
        or (not is_free and ranks[place] != ranks[place - 1] + 1)
    )
    wanted = "increasing" if is_free else "consecutive"
    hint = f"list the devices of each node by {wanted} rank"
    if not is_free and ranks == sorted(ranks):
        hint += '; or write "placement": "free", if RANK comes from the table'
    return RANKS_OUT_OF_ORDER.finding(
        columns.rank_span(start + place),
        f"rank {ranks[place]} follows rank {ranks[place - 1]} in node {node}, so "
        "readers give a process different chips",
        hint=hint,
        related=(columns.rank_span(start + place - 1, label="the device before"),),
    )


def _too_many_chips(columns: Columns, _: Options) -> Iterator[Finding]:
    for node, start, end in columns.nodes():
        too_many = end - start > MAX_SCCL_CHIPS
        if too_many:
            yield TOO_MANY_CHIPS.finding(
                columns.device_id_span(start + MAX_SCCL_CHIPS),
                f"node {node} has {end - start} chips; SCCL's array holds "
                f"{MAX_SCCL_CHIPS}",
            )


def _too_many_nodes(columns: Columns, _: Options) -> Iterator[Finding]:
    """Yield RT505 if the table has more nodes than SCCL can connect."""
    if columns.num_nodes > 1:
        yield TOO_MANY_NODES.finding(
            SourceSpan(columns.node_path(1)),
            f"the table has {columns.num_nodes} nodes; SCCL connects the chips of one",
            hint="use another backend between nodes",
        )


def _open_groups(columns: Columns, options: Options) -> Iterator[Finding]:
    """Yield RT507 for nodes whose tensor parallel groups could be rings.

    A node whose chips are not a ring, or whose ranks are not consecutive, is ignored:
    other rules report it.
    """
    tp, topology = tp_of(columns, options), topology_of(columns, options)
    if tp == 1:
        return
    judged: set[tuple[int, ...]] = set()
    for node, start, end in columns.nodes():
        order = rank_order(columns, start, end)
        ranks = [columns.ranks[index] or 0 for index in order]
        chips = [columns.device_ids[index] or 0 for index in order]
        key = (ranks[0] % tp, *chips) if ranks else ()
        if not key or key in judged:
            continue  # most nodes of a cluster are alike
        judged.add(key)
        is_whole = len(order) == end - start and len(set(chips)) == len(chips)
        if is_whole and ranks == list(range(ranks[0], ranks[0] + len(ranks))):
            yield from _judge_groups(columns, node, order, topology, tp)


def _judge_groups(
    columns: Columns, node: int, order: list[int], topology: Topology | None, tp: int
) -> Iterator[Finding]:
    """Judge one node, given its devices in rank order."""
    box = topology or SOPHGO_8
    chips = tuple(columns.device_ids[index] or 0 for index in order)
    first = columns.ranks[order[0]] or 0
    if first % tp or len(chips) % tp:
        yield _leaving(columns, node, first, len(chips), tp)
        return
    if not all(0 <= chip < box.num_chips for chip in chips) or box.broken_links(chips):
        return
    here, best = compare_orders(box, chips, tp)
    if here is None or best is None or best.hops >= here.hops:
        return
    place = _first_open(box, chips, tp)
    where = "" if topology else " on the published box"
    hint = f"the order {listed(best.chips)} takes {best.hops} hops around them"
    if topology is None:
        hint += "; if the host is linked like this, check with --topology"
    yield OPEN_GROUP.finding(
        columns.device_id_span(order[place + tp - 1]),
        f"the chips {listed(chips)} of node {node} take {here.hops} hops around their "
        f"tensor parallel groups of {tp}{where}, where another order takes {best.hops}",
        hint=hint,
        related=(columns.device_id_span(order[place], label="first of the group"),),
    )


def _first_open(box: Topology, chips: tuple[int, ...], tp: int) -> int:
    """Return the index of the first chip of the first group that is not a ring."""
    return next(
        place
        for place in range(0, len(chips), tp)
        if box.broken_links(chips[place : place + tp])
    )


def _leaving(columns: Columns, node: int, first: int, size: int, tp: int) -> Finding:
    fitting = [str(d) for d in range(1, size + 1) if size % d == 0 and first % d == 0]
    return OPEN_GROUP.finding(
        columns.devices_span(node),
        f"the tensor parallel groups of {tp} leave node {node}, whose {size} chips "
        f"have the ranks {first} to {first + size - 1}",
        hint=f"groups that stay within it have {', '.join(fitting)} ranks",
    )


NOT_A_RING = Rule(
    code="RT501",
    name="not-a-ring",
    summary="the chips of a node, in rank order, do not form a closed ring of links",
    why=(
        "SCCL sends data around a ring of direct links between chips. On the published "
        "box of eight chips the order 0..7 is not a ring. The only ring of all eight "
        "is 0,2,6,7,3,1,5,4; it may begin at any chip and go in either direction."
    ),
    fix="Use the order in the help line, or let gen choose one: --ring sophgo-8.",
    readers={
        "torch_tpu": "4 or 8 chips: silently replaced by the recommended order since "
        "March 2025, so chips differ from the table; before, RuntimeError on local "
        "rank 0 only while the others wait",
        "SCCL": "sccl comm init rank failed, at the first collective",
    },
    seen_as=(
        "The input chip_map is wrong, use the recommended chip_map",
        "sccl comm init rank failed",
    ),
    bad=chips(0, 1, 2, 3),
    good=chips(0, 1, 3, 2),
    options={"topology": "sophgo-8"},
    find=_broken_rings,
)
RING_NOT_KNOWN = Rule(
    code="RT502",
    name="ring-not-on-published-box",
    severity=Severity.NOTE,
    summary="the order of the chips is not a ring on the published box of eight chips",
    why=(
        "This is only a note, because the links of your host are not known. With "
        "--topology it becomes the error RT501, or goes away. Without a ring SCCL "
        "fails at the first collective, or torch_tpu replaces the order without a "
        "message."
    ),
    fix="Give the links of the host: --topology sophgo-8, or a file of links.",
    readers={
        "torch_tpu": "4 or 8 chips: silently replaced by the recommended order",
        "SCCL": "depends on the links of the host",
    },
    bad=chips(0, 1, 2, 3),
    good=chips(0, 1, 3, 2),
    find=_unknown_rings,
)
RANKS_OUT_OF_ORDER = Rule(
    code="RT503",
    name="ranks-out-of-order",
    summary="the ranks of a node are not consecutive in file order",
    why=(
        "torch_tpu returns the chips of a node in file order and uses the rank as the "
        "index of this list; SCCL uses the rank in the file. In any other order the "
        "two readers give a process different chips, without a message."
    ),
    fix=(
        "List the devices of every node in the order of their ranks. If RANK comes "
        'from the table, "placement": "free" allows gaps between them.'
    ),
    readers={
        "torch_tpu": "chip by place in the file",
        "SCCL": "chip by rank; another one",
    },
    bad=one_node(device(0, 1), device(1, 0)),
    good=one_node(device(1, 0), device(0, 1)),
    find=_ranks_out_of_order,
)
NODES_OUT_OF_ORDER = Rule(
    code="RT504",
    name="nodes-out-of-order",
    severity=Severity.WARNING,
    summary="a later node holds lower ranks",
    why=(
        "Every reader gives each rank the right chip. But launchers number the nodes "
        "in the order of their host list, which is usually the order of the file."
    ),
    fix="List the nodes in the order of their ranks.",
    readers={"torch_tpu": "no difference", "SCCL": "no difference"},
    bad=nodes((device(0, 1),), (device(0, 0),)),
    good=nodes((device(0, 0),), (device(0, 1),)),
    find=_nodes_out_of_order,
)
TOO_MANY_CHIPS = Rule(
    code="RT209",
    name="too-many-chips",
    severity=Severity.WARNING,
    summary="a node has more chips than SCCL's fixed array of 16",
    why=(
        "SCCL's source of 2024 keeps the chips of a node in an array of 16 entries and "
        "does not check its bound. The source of later releases is not public."
    ),
    fix="Ask the vendor before you use more than 16 chips of a host in one job.",
    readers={"torch_tpu": "accepts it", "SCCL": "writes beyond its array (2024)"},
    bad=chips(*range(18)),
    good=chips(*range(16)),
    find=_too_many_chips,
)
TOO_MANY_NODES = Rule(
    code="RT505",
    name="too-many-nodes",
    severity=Severity.WARNING,
    summary="more nodes than SCCL connects",
    why=(
        "The manual describes SCCL as communication between the cards of one machine, "
        "and torch_tpu's reader returns the chips of one node only."
    ),
    fix=(
        "Use one node with SCCL, or another backend between nodes. ranktable's own "
        "reader returns the chips of the whole table."
    ),
    readers={
        "torch_tpu": "IndexError at chip_map[rank] on every node but the first",
        "SCCL": "one machine only, as the manual says",
    },
    seen_as=("IndexError: list index out of range",),
    bad=nodes((device(0, 0),), (device(0, 1),)),
    good=PAIR,
    find=_too_many_nodes,
)

ODD_RING = Rule(
    code="RT506",
    name="odd-ring",
    severity=Severity.WARNING,
    summary="a node has an odd number of chips, more than one",
    why=(
        "On the published box only rings of 2, 4, 6 or 8 chips are possible, never of "
        "3, 5 or 7. With --topology the order is checked exactly, as RT501."
    ),
    fix="Use an even number of chips, or give the links of the host with --topology.",
    readers={
        "torch_tpu": "3 chips: RuntimeError TPUGetC2CRing failed! Error Code",
        "SCCL": "sccl comm init rank failed, unless the host has such a ring",
    },
    seen_as=("TPUGetC2CRing failed! Error Code",),
    bad=chips(0, 1, 2),
    good=PAIR,
    find=_odd_rings,
)

FREE_PLACEMENT = Rule(
    code="RT510",
    name="free-placement",
    severity=Severity.NOTE,
    summary="the ranks of a node are not consecutive: RANK must come from the table",
    why=(
        'With "placement": "free" the ranks of a node increase but may have gaps, as '
        "in tables of ranktable plan --mode free. torchrun and other launchers give "
        "consecutive ranks to the processes of a node, so they would not be the ranks "
        "of the table."
    ),
    fix=(
        "Use a launcher that reads the ranks: convert --to openmpi-rankfile, or "
        "srun-hostfile with srun --distribution=arbitrary."
    ),
    readers={
        "torch_tpu": "chip by place in its node's list: IndexError, or another chip",
        "SCCL": "chip by rank, as meant",
    },
    bad=nodes(
        (device(0, 0), device(1, 2)),
        (device(0, 1), device(1, 3)),
        head='"version":"1.0","placement":"free",',
    ),
    good=nodes(
        (device(0, 0), device(1, 1)),
        (device(0, 2), device(1, 3)),
        head='"version":"1.0","placement":"free",',
    ),
    find=_free_placement,
)

OPEN_GROUP = Rule(
    code="RT507",
    name="open-tp-group",
    severity=Severity.WARNING,
    summary="a tensor parallel group is not a closed ring of links, and could be one",
    why=(
        "SCCL sends data around a ring in every communicator. Which chips share a "
        "group of consecutive ranks depends on the chip at which the ring of the node "
        "begins. On the published box, 0,2,6,7,3,1,5,4 closes none of its two groups "
        "of four: 12 hops around them. 2,6,7,3,1,5,4,0 is the same ring begun one chip "
        "later and closes both: 8 hops. A group with chips of two nodes cannot be a "
        "ring of the links of a node."
    ),
    fix="List the chips in the order in the help line: gen --ring sophgo-8 --tp 4.",
    readers={
        "torch_tpu": "recommends 0,2,6,7,3,1,5,4 for 8 chips, whatever the groups are",
        "SCCL": "takes the chips of each communicator for a ring in their order",
    },
    bad=chips(0, 2, 6, 7, 3, 1, 5, 4),
    good=chips(2, 6, 7, 3, 1, 5, 4, 0),
    options={"topology": "sophgo-8", "tp": "4"},
    find=_open_groups,
)

RULES = (
    NOT_A_RING,
    RING_NOT_KNOWN,
    RANKS_OUT_OF_ORDER,
    NODES_OUT_OF_ORDER,
    TOO_MANY_CHIPS,
    TOO_MANY_NODES,
    ODD_RING,
    FREE_PLACEMENT,
    OPEN_GROUP,
)
