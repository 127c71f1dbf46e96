"""Sizes that a number of ranks can have, for people and for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ranktable.layout.suggesting import balanced_dims
from ranktable.report.terminal import table_lines
from ranktable.schema.diagnostic import counted, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.layout.suggesting import Suggestion
    from ranktable.report.terminal import Style

MAX_SHOWN = 40


def render_suggestions(
    world_size: int, found: Sequence[Suggestion], left: int, look: Style
) -> Iterator[str]:
    """Yield a line for every layout.

    Args:
        world_size: The number of ranks.
        found: The layouts to show.
        left: How many there are besides.
        look: How to show them.
    """
    dims = (" x ".join(map(str, balanced_dims(world_size, count))) for count in (2, 3))
    yield f"{counted(world_size, 'rank')}; balanced as MPI_Dims_create has it: "
    yield f"{', '.join(dims)}\n\n"
    kinds = {axis for one in found for axis in one.layout.kinds}
    axes = [axis for axis in ("tp", "cp", "pp", "dp", "ep", "edp") if axis in kinds]
    names = list(found[0].spread) if found else []
    sizes = ["tp", "cp", "pp", "dp", *(["ep", "edp"] if "ep" in axes else [])]
    rows = [(*sizes, *(f"{axis} over {printable(n)}s" for n in names for axis in axes))]
    for one in found:
        held = [str(one.layout.along(axis).group_size) for axis in sizes]
        over = [str(one.spread[n].get(axis, 1)) for n in names for axis in axes]
        rows.append((*held, *over))
    yield from table_lines(rows, look, right=range(len(rows[0])))
    if left:
        more = counted(left, "layout")
        yield f"... and {more} more; --tp, --pp, --dp choose among them\n"


def render_suggestions_json(
    world_size: int, found: Sequence[Suggestion]
) -> Iterator[str]:
    """Yield the document."""
    data = {
        "world_size": world_size,
        "balanced": [list(balanced_dims(world_size, count)) for count in (2, 3)],
    }
    yield "{\n"
    for key, value in data.items():
        yield f"  {json.dumps(key)}: {json.dumps(value)},\n"
    yield '  "layouts": ['
    comma = ""
    for one in found:
        layout = one.layout
        entry = {
            "order": layout.order,
            "sizes": {**layout.sizes, "ep": layout.ep, "etp": layout.etp},
            "spread": one.spread,
        }
        yield f"{comma}\n    {json.dumps(entry)}"
        comma = ","
    yield "\n  ]\n}\n" if comma else "]\n}\n"
