"""The role of a rank: its part of the model, and the copy to which it belongs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable

    from ranktable.layout.parallel import ParallelLayout

KEPT = ("tp", "cp", "pp")
"""The axes along which ranks hold different parts of the model, or of a sequence."""

EXPERTS = ("ep", "etp")
"""The same axes for experts, which have their own grid in most libraries."""


def role_axes(layout: ParallelLayout, kept: Collection[str] = KEPT) -> tuple[str, ...]:
    """Return the axes whose coordinates form the role of a rank."""
    wanted = {*kept, *(EXPERTS if layout.ep > 1 else ())}
    return tuple(axis for axis in layout.axes if axis in wanted)


def roles(
    layout: ParallelLayout, kept: Collection[str] = KEPT
) -> list[tuple[Hashable, int]]:
    """Return the role and the copy of every rank.

    Args:
        layout: The layout.
        kept: The axes of the layout's grid that form a role; the axes of the experts
            are added, if there are any.
    """
    grid = layout.mesh_shape
    inside = "-".join(axis for axis in grid if axis in kept)
    outside = "-".join(axis for axis in grid if axis not in kept)
    apart = [
        axis
        for axis in EXPERTS
        if layout.ep > 1 and axis in layout.axes and axis not in grid
    ]
    places = [_places(layout, axes) for axes in (inside, *apart)]
    held: Iterable[Hashable] = zip(*places, strict=True) if apart else places[0]
    return list(zip(held, _places(layout, outside), strict=True))


def _places(layout: ParallelLayout, axes: str) -> list[int]:
    return layout.along(axes).places() if axes else [0] * layout.world_size
