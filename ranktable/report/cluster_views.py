"""A table as text: racks, nodes, chips as a tree; the links of a host as a matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.report.folding import fold_node
from ranktable.report.terminal import Branch, table_lines, tree_lines
from ranktable.schema.text import counted, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.layout.boundaries import Boundary
    from ranktable.report.folding import NodeFold
    from ranktable.report.terminal import Style
    from ranktable.schema.model import Node, RankTable
    from ranktable.schema.topology import Topology

MAX_DRAWN_CHIPS = 64
"""Most chips that have a line each: a screen or two."""


def fold_line(fold: NodeFold, style: Style) -> str:
    """Return one line for equal nodes, with their chips and ranks."""
    host = style.mark(printable(fold.host), "place")
    if not fold.chips:
        return f"{host}: no chips"
    chips = "chip" if fold.chips.isdigit() else "chips"
    what = "rank" if fold.ranks.isdigit() else "ranks"
    return f"{host}: {chips} {fold.chips} -> {what} {fold.ranks}"


def node_branch(name: str, node: Node, style: Style) -> Branch:
    """Return a node with its chips below it."""
    leaves = (
        f"chip {device.device_id} -> rank {device.rank}"
        if device.device_id >= 0
        else f"host -> rank {device.rank}"
        for device in node.devices
    )
    host = style.mark(printable(name), "place")
    return Branch(host if node.devices else f"{host}: no chips", tuple(leaves))


def render_tree(
    head: str, table: RankTable, racks: Sequence[Boundary], style: Style
) -> Iterator[str]:
    """Yield racks, nodes, chips and ranks as a tree.

    Args:
        head: The first line.
        table: The table.
        racks: Groups of nodes, the smallest first.
        style: The style of the output.
    """
    has_lines = table.world_size <= MAX_DRAWN_CHIPS

    def of_node(at: int) -> str | Branch:
        fold = fold_node(table.nodes, at)
        if has_lines:
            return node_branch(fold.host, table.nodes[at], style)
        return fold_line(fold, style)

    def below(level: int, nodes: Sequence[int]) -> Iterator[str | Branch]:
        if level < 0:
            yield from map(of_node, nodes)
            return
        found: dict[int, list[int]] = {}
        for node in nodes:
            found.setdefault(racks[level].domains[node], []).append(node)
        for domain, members in found.items():
            size = counted(sum(len(table.nodes[at].devices) for at in members), "rank")
            name = style.mark(printable(racks[level].labels[domain]), "bold")
            text = f"{name}: {counted(len(members), 'node')}, {size}"
            yield Branch(text, tuple(below(level - 1, members)))

    lines = below(len(racks) - 1, range(len(table.nodes)))
    yield from tree_lines(head, lines, style)


_LEGEND = (
    ("X", "the chip itself"),
    ("RING", "a direct link between neighbours in the order of ranks"),
    ("GAP", "neighbours in the order of ranks without a direct link"),
    ("LINK", "another direct link"),
    ("2", "no direct link; the shortest way has this many"),
    ("-", "no way over links"),
)


def render_links(
    name: str, node: Node, topology: Topology, style: Style
) -> Iterator[str]:
    """Yield the links between the chips of a node as a matrix, and what it means."""
    chips = [device.device_id for device in node.devices]
    broken = topology.broken_links(chips)
    ring = f"closed ring {' '.join(map(str, chips))}"
    if broken:
        ring = f"not a ring: no link {', '.join(f'{a}-{b}' for a, b in broken)}"
        ring = style.mark(ring, "error")
    host = style.mark(printable(name), "bold")
    yield f"{host}: links of {printable(topology.name)}, {ring}\n\n"
    rows = [("rank", "", *(f"chip {chip}" for chip in chips))]
    for place, device in enumerate(node.devices):
        cells = (_cell(topology, chips, place, other) for other in range(len(chips)))
        rows.append((str(device.rank), f"chip {device.device_id}", *cells))
    yield from table_lines(rows, style, right=(0,))
    yield "\n"
    used = {cell for row in rows[1:] for cell in row[2:]}
    for mark, meaning in _LEGEND:
        if mark in used or (mark == "2" and any(map(str.isdecimal, used))):
            yield f"{mark:<4}  {meaning}\n"


def _cell(topology: Topology, chips: Sequence[int], one: int, other: int) -> str:
    """Return how a chip is linked with another one."""
    if one == other:
        return "X"
    is_next = (one - other) % len(chips) in (1, len(chips) - 1)
    if topology.is_linked(chips[one], chips[other]):
        return "RING" if is_next else "LINK"
    if is_next:
        return "GAP"
    links = topology.distances_from(chips[one]).get(chips[other])
    return "-" if links is None else str(links)
