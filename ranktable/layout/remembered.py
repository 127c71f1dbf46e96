"""The layout that a table remembers: ``tp=8 pp=4 dp=2 order=tp-cp-ep-dp-pp``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.layout.errors import LayoutError
from ranktable.layout.parallel import ParallelLayout
from ranktable.schema.diagnostic import quoted
from ranktable.schema.format import LAYOUT_KEY as KEY
from ranktable.schema.format import TOPOLOGY_KEY
from ranktable.schema.remembered_layout import (
    TEXTS,
    LayoutTextError,
    parse_layout,
)
from ranktable.schema.remembered_layout import neighbouring_tp as written_tp
from ranktable.schema.topology import BUILT_IN

if TYPE_CHECKING:
    from ranktable.schema.model import RankTable


def spelt(layout: ParallelLayout) -> str:
    """Return a layout as a table remembers it; what is not said is 1.

    But etp is said beside ep, for it is as large as tp otherwise.
    """
    names = ["tp", "cp", "pp", "dp"]
    if layout.ep > 1:
        names += ["ep", "etp"]
    if layout.dp_replicate > 1:
        names.append("dp_replicate")
    if layout.dcp > 1:
        names.append("dcp")
    names += TEXTS
    if layout.ep_style == "vllm":
        names = [name for name in names if name not in ("ep", "etp")]
    said = ("etp", *TEXTS)
    kept = (name for name in names if name in said or getattr(layout, name) > 1)
    return " ".join(f"{name}={getattr(layout, name)}" for name in kept)


def remembered(table: RankTable) -> ParallelLayout | None:
    """Return the layout that a table remembers, None where it remembers none.

    Raises:
        LayoutError: It is spelt in another way, or there is no such layout.
    """
    text = table.extra.get(KEY)
    if text is None:
        return None
    if not isinstance(text, str):
        raise LayoutError(f'"{KEY}" of the table is not text')
    try:
        given = parse_layout(text)
    except LayoutTextError as error:
        raise LayoutError(
            f'"{KEY}" of the table is {quoted(text)}, which is not a layout: {error}; '
            "write sizes and an order, tp=8 pp=4 dp=2 order=tp-cp-ep-dp-pp"
        ) from None
    try:
        return ParallelLayout(**given)  # type: ignore[arg-type]  # by name
    except LayoutError as error:
        raise LayoutError(f'"{KEY}" of the table: {error}') from None


def remembering(
    table: RankTable, layout: ParallelLayout | None, *, topology: str | None = None
) -> RankTable:
    """Return a table that remembers a layout and a built-in topology, if given.

    Args:
        table: The table.
        layout: Its layout.
        topology: The links of its chips. Files are not remembered: what they hold
            would have to be read on the word of the table.
    """
    extra = dict(table.extra)
    if layout is not None:
        extra[KEY] = spelt(layout)
    if any(topology == one.name for one in BUILT_IN):
        extra[TOPOLOGY_KEY] = topology
    return table if extra == table.extra else table.with_changes(extra=extra)


def neighbouring_tp(layout: ParallelLayout) -> int:
    """Return the size of tensor parallel groups of consecutive ranks, 1 for others."""
    return written_tp(parse_layout(spelt(layout)))
