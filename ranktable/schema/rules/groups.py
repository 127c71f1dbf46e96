"""RT507: groups of ranks that another order of the chips would make rings of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.schema.chip_order import compare_orders
from ranktable.schema.diagnostic import Rule, Severity
from ranktable.schema.rules.examples import chips
from ranktable.schema.rules.placement import listed, rank_order
from ranktable.schema.rules.remembered import topology_of, tp_of
from ranktable.schema.topology import SOPHGO_8

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.schema.columns import Columns
    from ranktable.schema.diagnostic import Finding, Options
    from ranktable.schema.topology import Topology


def _open_groups(columns: Columns, options: Options) -> Iterator[Finding]:
    """Yield RT507 for nodes whose tensor parallel groups could be rings.

    A node whose chips are not a ring, or whose ranks are not consecutive, is passed
    over: other rules report that.
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
            yield from _judge(columns, node, order, topology, tp)


def _judge(
    columns: Columns, node: int, order: list[int], topology: Topology | None, tp: int
) -> Iterator[Finding]:
    """Judge one node, whose devices are given in rank order."""
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
    hint = f"the order {listed(best.chips)} takes {best.hops} hops round them"
    if topology is None:
        hint += "; if the host is linked like this, check with --topology"
    yield OPEN_GROUP.finding(
        columns.device_id_span(order[place + tp - 1]),
        f"the chips {listed(chips)} of node {node} take {here.hops} hops round their "
        f"tensor parallel groups of {tp}{where}, where another order takes {best.hops}",
        hint=hint,
        related=(columns.device_id_span(order[place], label="first of the group"),),
    )


def _first_open(box: Topology, chips: tuple[int, ...], tp: int) -> int:
    """Return the place of the first chip of the first group that is not a ring."""
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


OPEN_GROUP = Rule(
    code="RT507",
    name="open-tp-group",
    severity=Severity.WARNING,
    summary="a tensor parallel group is not a closed ring of links, and could be one",
    why=(
        "SCCL sends around a ring in every communicator. Where the ring of a node "
        "begins decides which chips share a group of consecutive ranks: on the "
        "published box 0,2,6,7,3,1,5,4 leaves both groups of four open, 12 hops round "
        "them; 2,6,7,3,1,5,4,0, the same ring begun one chip later, closes both, 8 "
        "hops. A group that leaves its node cannot be a ring of the node's links."
    ),
    fix="List the chips in the order that is suggested: gen --ring sophgo-8 --tp 4.",
    readers={
        "torch_tpu": "recommends 0,2,6,7,3,1,5,4 for 8 chips, whatever the groups are",
        "SCCL": "takes the chips of each communicator for a ring in their order",
    },
    bad=chips(0, 2, 6, 7, 3, 1, 5, 4),
    good=chips(2, 6, 7, 3, 1, 5, 4, 0),
    options={"topology": "sophgo-8", "tp": "4"},
    check=_open_groups,
)

RULES = (OPEN_GROUP,)
