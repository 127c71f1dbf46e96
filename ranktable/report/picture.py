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

_QUIET = "#6e7781"
_FRAME = f' stroke="{_STRONG["error"]}" stroke-width="3"'

_PER_ROW = 8
"""Chips beside each other in a node; most hosts have eight."""

_LABEL_HEIGHT = 17
_RACK_HEIGHT = 24
_TITLE_HEIGHT = 26
_LEGEND_HEIGHT = 18
_LEAST_WIDTH = 300
"""Pixels of a picture of few chips, whose title has to have room."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Colouring:
    """The colour of every chip.

    Attributes:
        name: What is shown, such as ``change`` or ``tp``.
        colours: The colour of every chip.
        legend: Texts with their colours.
        framed: Chips with an error that their colour does not show.
    """

    name: str
    colours: Sequence[str]
    legend: Sequence[tuple[str, str]]
    framed: frozenset[int] = frozenset()


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
    racks = members_of_racks(cluster)
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


def members_of_racks(cluster: Cluster) -> list[tuple[str, list[int]]]:
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


def render_svg(
    cluster: Cluster,
    picture: Picture,
    colouring: Colouring,
    title: str,
    *,
    is_alone: bool,
) -> Iterator[str]:
    """Yield the picture as SVG.

    Args:
        cluster: The chips.
        picture: Their places.
        colouring: Their colours.
        title: What is shown.
        is_alone: Whether title and legend are drawn, which a page has beside it.
    """
    width, above, legend, below = picture.width, 0, [""], 0
    if is_alone:
        width, above = max(width, _LEAST_WIDTH), _TITLE_HEIGHT
        legend, below = _legend(colouring, width, picture.height + 10)
    size = f"{width + 2} {picture.height + above + below + 2}"
    wide, high = size.split()
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" '
        f'height="{high}" viewBox="-1 {-1 - above} {size}" '
        f'font-family="system-ui, sans-serif" font-size="12" '
        f'role="img" aria-label="{_text(title)}">\n'
    )
    if is_alone:
        yield f"<title>{_text(title)}, coloured by {_text(colouring.name)}</title>\n"
        yield _label(title, 0, 14 - above, width, "title")
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
        yield from _paths(cluster, picture, colouring)
    else:
        yield from _cells(cluster, picture, colouring)
    yield from legend
    yield "</svg>\n"


def _legend(colouring: Colouring, width: int, top: int) -> tuple[list[str], int]:
    """Return the legend in as many lines as it needs, and its height."""
    entries = [
        (text, f'fill="{colour}"{_edge(colour)}') for text, colour in colouring.legend
    ]
    if colouring.framed:
        entries.append(("error", f'fill="none"{_FRAME}'))
    x, y, parts = 0, top, []
    for text, look in entries:
        room = 20 + ceil(len(text) * _CHARACTER)
        if x and x + room > width:
            x, y = 0, y + _LEGEND_HEIGHT
        parts.append(
            f'<rect x="{x + 2}" y="{y + 2}" width="10" height="10" {look}/>'
            f'<text class="legend" x="{x + 18}" y="{y + 11}" fill="{_QUIET}">'
            f"{_text(text)}</text>\n"
        )
        x += room + 14
    return parts, y + _LEGEND_HEIGHT - top + 10


def _edge(colour: str) -> str:
    """Return the edge of a chip that is white, as far as a picture knows its paper."""
    is_gone = colour == STATES["gone"]
    return f' stroke="{_QUIET}" stroke-dasharray="3 2"' if is_gone else ""


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
    place = f'class="{kind}" x="{x}" y="{y}" fill="{_QUIET}"'
    return f"<text {place}>{_text(shown)}</text>\n"


def _text(text: str) -> str:
    return escape(printable(text))


def _cells(cluster: Cluster, picture: Picture, colouring: Colouring) -> Iterator[str]:
    side = picture.chip
    index = 0
    for node, size in enumerate(cluster.sizes):
        for local in range(size):
            x, y = picture.place(node, local)
            colour = colouring.colours[index]
            edge = _FRAME if index in colouring.framed else _edge(colour)
            yield (
                f'<rect class="chip" x="{x}" y="{y}" width="{side}" height="{side}" '
                f'rx="{min(side // 7, 5)}" fill="{colour}"{edge}/>'
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


def _paths(cluster: Cluster, picture: Picture, colouring: Colouring) -> Iterator[str]:
    """Yield one path for all chips of a colour, those with an error last, larger."""
    side = picture.chip - (picture.chip <= _SMALLEST.chip) * 0.5
    found: dict[str, list[str]] = {}
    frames = []
    index = 0
    for node, size in enumerate(cluster.sizes):
        for local in range(size):
            x, y = picture.place(node, local)
            found.setdefault(colouring.colours[index], []).append(
                f"M{x} {y}h{side}v{side}h-{side}z"
            )
            if index in colouring.framed:
                frames.append(f"M{x - 2} {y - 2}h{side + 4}v{side + 4}h-{side + 4}z")
            index += 1
    for colour, parts in found.items():
        look = f'fill="{colour}"{_edge(colour)}'
        yield f'<path {look} d="{"".join(parts)}"/>\n'
    if frames:
        yield f'<path fill="none" d="{"".join(frames)}"{_FRAME}/>\n'
