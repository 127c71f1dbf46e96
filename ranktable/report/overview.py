"""A large cluster in one screen: a cell for each rack, coloured by its worst chip."""

from __future__ import annotations

from collections import Counter
from html import escape
from itertools import chain, pairwise
from math import ceil
from typing import TYPE_CHECKING

from ranktable.report.colouring import changes, statuses
from ranktable.report.picture import STATES, members_of_racks
from ranktable.schema.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ranktable.report.page_data import ReportFacts
    from ranktable.report.picture import Cluster, Picture

WORST = ("error", "warning", "note", "new", "gone", "moved", "same", "sound")
"""What is said about the chips of a rack in one word, the worst first."""

_SCREEN = 600
"""Height in pixels of a picture that is seen without scrolling."""

_MAX_CELLS = 4096
"""Most cells of nodes that fit a screen; with more nodes a cell stands for several."""

_FEW_CELLS = 400
"""Most cells that are large enough for a thumb."""


def render_overview(
    facts: ReportFacts, cluster: Cluster, gone: Sequence[int], picture: Picture
) -> str:
    """Return the overview as HTML, nothing if the picture itself fits a screen."""
    nodes_per_cell = 0 if cluster.racks else ceil(len(cluster.sizes) / _MAX_CELLS)
    units = _units(cluster, nodes_per_cell)
    if picture.height <= _SCREEN or len(units) < 2:
        return ""
    worst = _worst_of_nodes(facts, cluster, gone)
    states = [
        min((worst[node] for node in nodes), key=WORST.index) for _, nodes in units
    ]
    cells = "".join(
        f'<i title="{escape(name)}: {state}"{_look(state)}></i>'
        for (name, _), state in zip(units, states, strict=True)
    )
    numbers = Counter(states)
    legend = [
        (f"{kind} {numbers[kind]:,}", STATES[kind]) for kind in WORST if numbers[kind]
    ]
    head = _head(cluster, nodes_per_cell)
    said = ", ".join(text for text, _ in legend)
    size = ' class="few"' if len(units) <= _FEW_CELLS else ""
    return (
        f'<section id="overview"{size}><h2>{head}</h2>\n'
        f'<ul class="legend">{render_legend(legend)}</ul>\n'
        f'<div role="img" aria-label="{head}: {said}" data-nodes="{nodes_per_cell}">'
        f"{cells}</div></section>\n"
    )


def render_legend(entries: Iterable[tuple[str, str]]) -> str:
    """Return texts with their colours as items of an HTML list."""
    swatch = '<span class="swatch" style="background:{}"></span>'
    return "".join(
        f"<li>{swatch.format(colour)}{escape(text)}</li>" for text, colour in entries
    )


def _head(cluster: Cluster, nodes_per_cell: int) -> str:
    if nodes_per_cell > 1:
        return f"Every cell is {nodes_per_cell} hosts, by their worst chip"
    return f"Every cell is one {'rack' if cluster.racks else 'host'}, by its worst chip"


def _look(state: str) -> str:
    """Return the colour of a cell, unless it is the plain one of the style sheet."""
    if STATES[state] == STATES["sound"]:
        return ""
    return f' style="background:{STATES[state]}"'


def _units(
    cluster: Cluster, nodes_per_cell: int
) -> Sequence[tuple[str, Sequence[int]]]:
    """Return the racks, or the nodes one by one or several together, by name."""
    if not nodes_per_cell:
        return members_of_racks(cluster)
    starts = range(0, len(cluster.hosts), nodes_per_cell)
    units = [range(len(cluster.hosts))[at : at + nodes_per_cell] for at in starts]
    hosts = [printable(host) for host in cluster.hosts]
    return [
        (
            hosts[one[0]] if len(one) == 1 else f"{hosts[one[0]]} to {hosts[one[-1]]}",
            one,
        )
        for one in units
    ]


def _worst_of_nodes(
    facts: ReportFacts, cluster: Cluster, gone: Sequence[int]
) -> list[str]:
    """Return the worst that is said about a chip of every node."""
    said = [statuses(facts, cluster, gone)]
    if facts.change is not None:
        said.append(changes(facts, cluster, gone))
    starts = cluster.starts
    return [
        min(
            chain.from_iterable(states[start:end] for states in said),
            key=WORST.index,
            default="sound",
        )
        for start, end in pairwise(starts)
    ]
