"""One HTML file without any request: the page's files, the picture and the data."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ranktable.report.colouring import first_colouring
from ranktable.report.overview import render_legend, render_overview
from ranktable.report.page_data import make_cluster, page_data
from ranktable.report.picture import MAX_SVG_CHIPS, lay_out, render_svg
from ranktable.report.pinned_findings import MAX_FINDINGS
from ranktable.schema.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ranktable.report.page_data import ReportFacts
    from ranktable.report.picture import Picture

MARK = "<!-- A page of ranktable report -->"
"""In the second line of every page, by which a later one may replace it."""

FOLDER = Path(__file__).with_name("page")
MODULES = ("data", "colours", "map", "panel", "search", "main")
"""The modules of the page, each after those that it needs."""

_FRAMED = '<li><span class="swatch framed"></span>error</li>'

_THUMB = 40
"""Pixels of a chip that a thumb can hit."""

_MAX_SCALE = 4

_IMPORT = re.compile(r"^import [^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export ", re.MULTILINE)
_FIELD = re.compile(r"\{\{(\w+)\}\}")


def render_html(facts: ReportFacts) -> Iterator[str]:
    """Yield the page; the same facts give the same bytes."""
    cluster, gone = make_cluster(facts)
    picture = lay_out(cluster)
    colouring = first_colouring(facts, cluster, gone)
    data = page_data(facts, cluster, gone, picture, colouring.name)
    script = _script()
    is_drawn = len(cluster.chips) <= MAX_SVG_CHIPS
    svg = render_svg(cluster, picture, colouring, _title(facts), is_alone=False)
    fields = {
        "mark": MARK,
        "name": escape(printable(facts.name)),
        "verdict": escape(facts.verdict),
        "worst": "error" if facts.table is None else "".join(facts.severities[:1]),
        "policy": f"default-src 'none'; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{_digest(script)}'",
        "style": (FOLDER / "page.css").read_text("utf-8"),
        "overview": render_overview(facts, cluster, gone, picture),
        "legend": render_legend(colouring.legend) + _FRAMED * bool(colouring.framed),
        "thumb": f"--thumb:{_width_for_thumbs(picture, is_drawn=is_drawn)}px",
        "picture": "".join(svg) if is_drawn else "<canvas></canvas>",
        "findings_hidden": "" if facts.findings else " hidden",
        "findings": "".join(_findings(facts)),
        "data": _block(data),
        "script": script,
    }
    page = (FOLDER / "page.html").read_text("utf-8")
    yield _FIELD.sub(lambda field: fields[field[1]], page)


def _width_for_thumbs(picture: Picture, *, is_drawn: bool) -> int:
    """Return the width of a picture on a phone, which scrolls."""
    scale = max(1, _THUMB / picture.chip)
    # A canvas gets blurred, and one of 100,000 chips would be many metres wide.
    return round((picture.width + 2) * (scale if is_drawn else min(scale, _MAX_SCALE)))


def _findings(facts: ReportFacts) -> Iterator[str]:
    """Yield the findings; a script adds buttons that show their chips."""
    for one in facts.findings[:MAX_FINDINGS]:
        code = f"{one.severity} {_text(one.code)} "
        yield f'<div class="finding"><p><span class="code {one.severity}">{code}</span>'
        yield f"{_text(one.message)}</p>"
        if one.hint:
            yield f'<p class="hint">Do: {_text(one.hint)}</p>'
        if one.place:
            yield f'<p class="quiet">{_text(one.place)}</p>'
        yield from (f"<code>{_text(line)}</code>" for line in one.evidence)
        yield "</div>\n"
    left = len(facts.findings) - MAX_FINDINGS
    if left > 0:
        yield f'<p class="quiet">and {left:,} more</p>\n'


def _text(text: str) -> str:
    return escape(printable(text))


def _title(facts: ReportFacts) -> str:
    since = f", since {facts.old_name}" if facts.change is not None else ""
    return f"{facts.name}: {facts.sizes}{since}"


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
    """Yield the picture alone, as SVG with title and legend, for a document."""
    cluster, gone = make_cluster(facts)
    colouring = first_colouring(facts, cluster, gone)
    picture = lay_out(cluster)
    yield from render_svg(cluster, picture, colouring, _title(facts), is_alone=True)
