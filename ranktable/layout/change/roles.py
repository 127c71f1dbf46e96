"""What a rank holds of the model, and in which copy of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable

    from ranktable.layout.parallel import ParallelLayout

KEPT = ("tp", "cp", "pp")
"""The axes along which ranks hold different parts of the model, or of a sequence."""

EXPERTS = ("ep", "etp")
"""The same for experts, which lie in a grid of their own with most libraries."""


def role_axes(layout: ParallelLayout, kept: Collection[str] = KEPT) -> tuple[str, ...]:
    """Return the axes whose coordinates say what a rank holds."""
    wanted = {*kept, *(EXPERTS if layout.ep > 1 else ())}
    return tuple(axis for axis in layout.axes if axis in wanted)


def roles(
    layout: ParallelLayout, kept: Collection[str] = KEPT
) -> list[tuple[Hashable, int]]:
    """Return the role and the copy of every rank.

    Args:
        layout: The layout.
        kept: The axes of the layout's grid that make a role; those of experts are
            added where there are any.
    """
    grid = layout.mesh_shape
    inside = "-".join(axis for axis in grid if axis in kept)
    outside = "-".join(axis for axis in grid if axis not in kept)
    ranks = range(layout.world_size)
    held = layout.along(inside).place_of if inside else None
    copies = layout.along(outside).place_of if outside else None
    apart = [
        layout.along(axis).place_of
        for axis in EXPERTS
        if layout.ep > 1 and axis in layout.axes and axis not in grid
    ]
    return [
        (
            (held(rank) if held else 0, *(place(rank) for place in apart)),
            copies(rank) if copies else 0,
        )
        for rank in ranks
    ]
