"""A grid under the names by which its axes, alone or together, are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ranktable.layout.grid import Grid, Groups


@dataclass(frozen=True, slots=True)
class View:
    """Names for the axes of a grid.

    Attributes:
        grid: The grid.
        names: The axes that each name stands for: usually itself; several for a name
            such as ``dp`` where it is split; none for an axis that does not exist,
            whose groups are then single ranks.
        counted: For groups along one of these axes the other axes, the fastest first,
            where the library counts its groups in another order than its ranks.
    """

    grid: Grid
    names: Mapping[str, tuple[str, ...]]
    counted: Mapping[str, tuple[str, ...]]

    def groups(self, names: Iterable[str]) -> Groups:
        """Return the groups along the axes that these names stand for."""
        inside = {axis for name in names for axis in self.names[name]}
        groups = self.grid.groups(inside)
        counted = self.counted.get(*inside) if len(inside) == 1 else None
        return groups if counted is None else groups.counted_over(counted)

    def rank_at(self, coordinates: Mapping[str, int]) -> tuple[int, tuple[str, ...]]:
        """Return the rank at a point, and the axes that it leaves open.

        Coordinates under other names are passed over; so are those that say again what
        others have said.
        """
        rank = 0
        covered: set[str] = set()
        known = [name for name in coordinates if name in self.names]
        # A name for several axes comes before the names of its parts.
        for name in sorted(known, key=lambda name: -len(self.names[name])):
            axes = self.names[name]
            if covered.isdisjoint(axes):
                rank = self.groups([name]).moved(rank, coordinates[name])
                covered.update(axes)
        open_axes = (axis for axis in self.grid.axes if axis.name not in covered)
        return rank, tuple(axis.name for axis in open_axes if axis.size > 1)


def make_view(
    grid: Grid,
    aliases: Mapping[str, tuple[str, ...]] | None = None,
    counted: Mapping[str, tuple[str, ...]] | None = None,
) -> View:
    """Return a view of a grid under the names of its axes and some more."""
    own = {axis.name: (axis.name,) for axis in grid.axes}
    return View(grid, {**own, **(aliases or {})}, counted or {})
