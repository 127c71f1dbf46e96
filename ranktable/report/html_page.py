"""One HTML file without any request: the page's files, the picture and the data."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ranktable.report.page_data import make_cluster, page_data, worst_states
from ranktable.report.picture import (
    MAX_SVG_CHIPS,
    STATES,
    lay_out,
    local_colours,
    render_svg,
)
from ranktable.schema.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.report.page_data import ReportFacts
    from ranktable.report.picture import Cluster

MARK = "<!-- A page of ranktable report -->"
"""In the second line of every page, by which a later one may replace it."""

FOLDER = Path(__file__).with_name("page")
MODULES = ("data", "colours", "map", "panel", "search", "main")
"""The modules of the page, each after those that it needs."""

_IMPORT = re.compile(r"^import [^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)
_FIELD = re.compile(r"\{\{(\w+)\}\}")


def render_html(facts: ReportFacts) -> Iterator[str]:
    """Yield the page; the same facts give the same bytes."""
    cluster, gone = make_cluster(facts)
    picture = lay_out(cluster)
    data = page_data(facts, cluster, gone, picture)
    script = _script()
    title = printable(facts.name)
    is_drawn = len(cluster.chips) <= MAX_SVG_CHIPS
    svg = render_svg(cluster, picture, local_colours(cluster), _title(facts))
    fields = {
        "mark": MARK,
        "name": escape(title),
        "policy": f"default-src 'none'; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{_digest(script)}'",
        "style": (FOLDER / "page.css").read_text("utf-8"),
        "picture": "".join(svg) if is_drawn else "<canvas></canvas>",
        "data": _block(data),
        "script": script,
    }
    page = (FOLDER / "page.html").read_text("utf-8")
    yield _FIELD.sub(lambda field: fields[field[1]], page)


def _title(facts: ReportFacts) -> str:
    return f"{facts.name}: {facts.sizes}"


def _block(data: dict[str, Any]) -> str:
    """Return data as JSON in which no text can end the block."""
    text = json.dumps(data, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _script() -> str:
    """Return the modules as one, without what they say to each other."""
    parts = []
    for name in MODULES:
        text = (FOLDER / f"{name}.js").read_text("utf-8")
        parts.append(_EXPORT.sub("", _IMPORT.sub("", text)))
    return "".join(parts)


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def render_picture(facts: ReportFacts) -> Iterator[str]:
    """Yield the picture alone, as SVG, for a document."""
    cluster, gone = make_cluster(facts)
    colours = _static_colours(facts, cluster, gone)
    yield from render_svg(cluster, lay_out(cluster), colours, _title(facts))


def _static_colours(
    facts: ReportFacts, cluster: Cluster, gone: Sequence[int]
) -> list[str]:
    """Return colours: findings, otherwise a change, otherwise places in the node."""
    size = len(cluster.chips)
    if facts.findings:
        states = worst_states(facts)
        return [STATES[states.get(cell, "sound")] for cell in range(size)]
    if facts.change is None:
        return local_colours(cluster)
    moved = {move.after for move in facts.change.rank_moves}
    state = dict.fromkeys(moved, "moved")
    state |= dict.fromkeys(facts.change.chips_in, "new")
    colours = [STATES[state.get(rank, "same")] for rank in cluster.ranks]
    for cell in gone:
        colours[cell] = STATES["gone"]
    return colours
