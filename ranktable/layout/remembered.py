"""The layout that a table remembers: ``tp=8 pp=4 dp=2 order=tp-cp-ep-dp-pp``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.layout.errors import LayoutError
from ranktable.layout.parallel import ParallelLayout
from ranktable.schema.format import LAYOUT_KEY as KEY
from ranktable.schema.messages import printable

if TYPE_CHECKING:
    from ranktable.schema.model import RankTable

_SIZES = ("tp", "cp", "pp", "dp", "ep", "etp", "dp_replicate", "dcp")
_TEXTS = ("order", "ep_style")


def spelt(layout: ParallelLayout) -> str:
    """Return a layout as a table remembers it; what is not said is 1."""
    names = ["tp", "cp", "pp", "dp"]
    if layout.ep > 1:
        names += ["ep", "etp"]
    if layout.dp_replicate > 1:
        names.append("dp_replicate")
    if layout.dcp > 1:
        names.append("dcp")
    names += _TEXTS
    if layout.ep_style == "vllm":
        names = [name for name in names if name not in ("ep", "etp")]
    kept = (name for name in names if name in _TEXTS or getattr(layout, name) > 1)
    return " ".join(f"{name}={getattr(layout, name)}" for name in kept)


def remembered(table: RankTable) -> ParallelLayout | None:
    """Return the layout that a table remembers, None where it remembers none.

    Raises:
        LayoutError: It is spelt in another way, or there is no such layout.
    """
    text = table.extra.get(KEY)
    if text is None:
        return None
    given: dict[str, int | str] = {}
    for item in text.split() if isinstance(text, str) else [""]:
        name, _, value = item.partition("=")
        is_size = name in _SIZES and value.isascii() and value.isdecimal()
        if name in given or not (is_size or (name in _TEXTS and value)):
            raise LayoutError(
                f'"{KEY}" of the table is {printable(repr(text))}, which is not a '
                "layout; write sizes and an order, tp=8 pp=4 dp=2 order=tp-cp-ep-dp-pp"
            )
        given[name] = int(value) if is_size else value
    try:
        return ParallelLayout(**given)  # type: ignore[arg-type]  # by name
    except LayoutError as error:
        raise LayoutError(f'"{KEY}" of the table: {error}') from None


def remembering(table: RankTable, layout: ParallelLayout | None) -> RankTable:
    """Return a table that remembers a layout, or the same where it does already."""
    if layout is None or table.extra.get(KEY) == spelt(layout):
        return table
    return table.with_changes(extra={**table.extra, KEY: spelt(layout)})
