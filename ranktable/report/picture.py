"""The cluster as a picture: racks, nodes and chips, with a place for each."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import accumulate
from math import ceil, sqrt
from typing import TYPE_CHECKING, NamedTuple

from ranktable.schema.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.layout.boundaries import Boundary

WIDTH = 1120
"""Largest width in pixels; a page makes it smaller where there is less room."""

MAX_SVG_CHIPS = 2_000
"""Most chips that are elements of their own; browsers get slow with more."""

PALETTE = (
    *("#77aadd", "#ee8866", "#eedd88", "#ffaabb"),
    *("#99ddff", "#44bb99", "#bbcc33", "#aaaa00"),
)
"""Colours for up to eight values, told apart by colour-blind people, under black text.

Source: Paul Tol, "Colour schemes", scheme light.
"""

RAMP = ("#253494", "#2c7fb8", "#41b6c4", "#a1dab4", "#ffffcc")
"""Colours from the first to the last of many values.

Source: Cynthia Brewer, ColorBrewer, scheme YlGnBu, safe for colour-blind people.
"""

PLAIN = "#c8ced6"
_STRONG = {"error": "#cc3311", "warning": "#eedd88", "note": "#77aadd"}
_CHANGED = {"moved": "#77aadd", "new": "#44bb99", "gone": "#ffffff"}
STATES = {"sound": PLAIN, "same": PLAIN, **_STRONG, **_CHANGED}
"""Colours of what is said about a chip."""

_PER_ROW = 8
"""Chips beside each other in a node; most hosts have eight."""

_LABEL_HEIGHT = 17
_RACK_HEIGHT = 24
_CHARACTER = 7.1
"""Width of a letter of a label, on average."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The chips in the order in which they are drawn, node by node.

    Attributes:
        hosts: Name of every node.
        sizes: Number of chips of every node.
        ranks: Rank of every chip, -1 if it is not known.
        chips: ``device_id`` of every chip.
        racks: Groups of nodes, the smallest first.
    """

    hosts: Sequence[str]
    sizes: Sequence[int]
    ranks: Sequence[int]
    chips: Sequence[int]
    racks: Sequence[Boundary] = ()

    @property
    def starts(self) -> list[int]:
        """Index of the first chip of every node, and the number of chips."""
        return [*accumulate(self.sizes, initial=0)]


class Box(NamedTuple):
    """A rack: its place and its name."""

    x: int
    y: int
    width: int
    height: int
    label: str


class _Measures(NamedTuple):
    """Sizes in pixels of a chip, the gap after it, a label, and the gap of nodes."""

    chip: int
    gap: int
    head: int
    between: int


_MEASURES = (
    (64, _Measures(44, 3, _LABEL_HEIGHT, 18)),
    (256, _Measures(30, 2, _LABEL_HEIGHT, 14)),
    (600, _Measures(22, 2, _LABEL_HEIGHT, 12)),
    (MAX_SVG_CHIPS, _Measures(14, 1, _LABEL_HEIGHT, 10)),
    (20_000, _Measures(8, 1, 0, 5)),
)
"""Measures by the most chips that have them."""

_SMALLEST = _Measures(4, 0, 0, 2)
_SHOWS_NUMBER = 22
_SHOWS_CHIP = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Where everything is drawn.

    Attributes:
        width: Width in pixels.
        height: Height in pixels.
        chip: Side of a chip.
        gap: Distance between two chips.
        head: Height of the label of a node, 0 if there are no labels.
        per_row: Chips beside each other.
        nodes: Left upper corner of every node.
        racks: The racks.
    """

    width: int
    height: int
    chip: int
    gap: int
    head: int
    per_row: int
    nodes: Sequence[tuple[int, int]]
    racks: Sequence[Box]

    def place(self, node: int, local: int) -> tuple[int, int]:
        """Return the left upper corner of a chip."""
        x, y = self.nodes[node]
        step = self.chip + self.gap
        row, column = divmod(local, self.per_row)
        return x + column * step, y + self.head + row * step


def lay_out(cluster: Cluster) -> Picture:
    """Return a picture: nodes from left to right in their racks, racks likewise."""
    total, most = sum(cluster.sizes), max(cluster.sizes, default=1)
    sizes = next((m for limit, m in _MEASURES if total <= limit), _SMALLEST)
    per_row = min(max(most, 1), _PER_ROW)
    step = sizes.chip + sizes.gap
    wide = per_row * step - sizes.gap + sizes.between
    tall = sizes.head + ceil(most / per_row) * step + sizes.between
    racks = _members(cluster)
    nodes = [(0, 0)] * len(cluster.sizes)
    boxes: list[Box] = []
    pad = sizes.between if cluster.racks else 0
    top = _RACK_HEIGHT if cluster.racks else 0
    x = y = shelf = 0
    fit = max((WIDTH - 2 * pad + sizes.between) // wide, 1)
    for label, members in racks:
        columns = max(1, min(fit, len(members)))
        if cluster.racks:
            columns = _columns(len(members), columns, tall / wide)
        width = columns * wide - sizes.between + 2 * pad
        if cluster.racks:  # room for its name
            width = max(width, min(WIDTH, ceil(len(label) * _CHARACTER) + 2 * pad))
        height = top + ceil(len(members) / columns) * tall - sizes.between + 2 * pad
        if x and x + width > WIDTH:
            x, y, shelf = 0, y + shelf + pad, 0
        for at, node in enumerate(members):
            row, column = divmod(at, columns)
            nodes[node] = x + pad + column * wide, y + top + pad + row * tall
        boxes.append(Box(x, y, width, height, label))
        x, shelf = x + width + pad, max(shelf, height)
    return Picture(
        width=max((box.x + box.width for box in boxes), default=0),
        height=y + shelf,
        chip=sizes.chip,
        gap=sizes.gap,
        head=sizes.head,
        per_row=per_row,
        nodes=nodes,
        racks=boxes if cluster.racks else (),
    )


def _columns(count: int, most: int, shape: float) -> int:
    """Return the columns of a rack, about as wide as high and without a short row."""
    least = min(most, max(1, ceil(sqrt(count * shape))))
    return min(range(least, min(least + 2, most) + 1), key=lambda one: -count % one)


def _members(cluster: Cluster) -> list[tuple[str, list[int]]]:
    """Return the nodes of every rack, with its name and those of what it is in."""
    if not cluster.racks:
        return [("", [*range(len(cluster.sizes))])]
    inner, *outer = cluster.racks
    found: dict[int, list[int]] = {}
    for node, domain in enumerate(inner.domains):
        found.setdefault(domain, []).append(node)
    named = []
    for domain, nodes in found.items():
        around = [one.labels[one.domains[nodes[0]]] for one in reversed(outer)]
        named.append((printable(" / ".join([*around, inner.labels[domain]])), nodes))
    return named


def mixed(value: int, count: int) -> str:
    """Return the colour of one of several values."""
    if count <= len(PALETTE):
        return PALETTE[value]
    at = value / (count - 1) * (len(RAMP) - 1)
    first = min(int(at), len(RAMP) - 2)
    ends = [
        [int(one[place : place + 2], 16) for place in (1, 3, 5)]
        for one in RAMP[first : first + 2]
    ]
    parts = [round(a + (b - a) * (at - first)) for a, b in zip(*ends, strict=True)]
    return "#{:02x}{:02x}{:02x}".format(*parts)


def ink_on(colour: str) -> str:
    """Return the colour of text on a colour: black or white."""
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#111" if 299 * red + 587 * green + 114 * blue > 120_000 else "#fff"


def local_colours(cluster: Cluster) -> list[str]:
    """Return the colour of every chip by its place in its node."""
    most = max(cluster.sizes, default=1)
    return [mixed(at, most) for size in cluster.sizes for at in range(size)]


def render_svg(
    cluster: Cluster, picture: Picture, colours: Sequence[str], title: str
) -> Iterator[str]:
    """Yield the picture as SVG.

    Args:
        cluster: The chips.
        picture: Their places.
        colours: The colour of every chip.
        title: What is shown, for people who hear it.
    """
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{picture.width + 2}" '
        f'height="{picture.height + 2}" viewBox="-1 -1 {picture.width + 2} '
        f'{picture.height + 2}" font-family="system-ui, sans-serif" font-size="12" '
        f'role="img" aria-label="{_text(title)}">\n'
    )
    for box in picture.racks:
        yield (
            f'<rect class="rack" x="{box.x}" y="{box.y}" width="{box.width}" '
            f'height="{box.height}" rx="6" fill="none" stroke="#8b949e" '
            'stroke-opacity=".5"/>'
            + _label(box.label, box.x + 14, box.y + 20, box.width - 24, "rack-label")
        )
    if picture.head:
        yield from _labels_of_nodes(cluster, picture)
    if len(cluster.chips) > MAX_SVG_CHIPS:
        yield from _paths(cluster, picture, colours)
    else:
        yield from _cells(cluster, picture, colours)
    yield "</svg>\n"


def _labels_of_nodes(cluster: Cluster, picture: Picture) -> Iterator[str]:
    room = picture.per_row * (picture.chip + picture.gap)
    for host, (x, y) in zip(cluster.hosts, picture.nodes, strict=True):
        yield _label(host, x, y + picture.head - 5, room, "node-label")


def _label(text: str, x: int, y: int, room: int, kind: str) -> str:
    """Return a name, cut to its room; nothing if not even its beginning has room."""
    most = int(room / _CHARACTER)
    shown = printable(text)
    if len(shown) > most:
        if most < 3:
            return ""
        shown = shown[: most - 1] + "…"
    place = f'class="{kind}" x="{x}" y="{y}" fill="#6e7781"'
    return f"<text {place}>{_text(shown)}</text>\n"


def _text(text: str) -> str:
    return escape(printable(text))


def _cells(cluster: Cluster, picture: Picture, colours: Sequence[str]) -> Iterator[str]:
    side = picture.chip
    index = 0
    for node, size in enumerate(cluster.sizes):
        for local in range(size):
            x, y = picture.place(node, local)
            colour = colours[index]
            yield (
                f'<rect class="chip" x="{x}" y="{y}" width="{side}" height="{side}" '
                f'rx="{min(side // 7, 5)}" fill="{colour}"/>'
            )
            rank, chip = cluster.ranks[index], cluster.chips[index]
            if side >= _SHOWS_NUMBER:
                shown = str(rank) if rank >= 0 else "?"
                is_large = side >= _SHOWS_CHIP
                size_px = min(15 if is_large else 11, int(side / (0.62 * len(shown))))
                middle = y + side // 2 + (1 if is_large else 4)
                ink = ink_on(colour)
                yield (
                    f'<text class="n" x="{x + side // 2}" y="{middle}" fill="{ink}" '
                    f'font-size="{size_px}" text-anchor="middle">{shown}</text>'
                )
                if is_large:
                    yield (
                        f'<text class="n" x="{x + side // 2}" y="{y + side - 8}" '
                        f'fill="{ink}" font-size="9" text-anchor="middle">'
                        f"{f'chip {chip}' if chip >= 0 else 'host'}</text>"
                    )
            index += 1
        yield "\n"


def _paths(cluster: Cluster, picture: Picture, colours: Sequence[str]) -> Iterator[str]:
    """Yield one path for all chips of a colour."""
    side = picture.chip - (picture.chip <= _SMALLEST.chip) * 0.5
    found: dict[str, list[str]] = {}
    index = 0
    for node, size in enumerate(cluster.sizes):
        for local in range(size):
            x, y = picture.place(node, local)
            found.setdefault(colours[index], []).append(
                f"M{x} {y}h{side}v{side}h-{side}z"
            )
            index += 1
    for colour, parts in found.items():
        yield f'<path fill="{colour}" d="{"".join(parts)}"/>\n'
