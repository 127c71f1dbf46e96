"""Ranks as points of a grid: axes with strides, and the groups along some of them.

The rank of a point is the sum of coordinate times stride. The stride of an axis is the
product of the sizes of all faster axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, NamedTuple, overload

from ranktable.layout.layout_errors import LayoutError
from ranktable.layout.sizes import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a grid.

    Attributes:
        name: Name of the axis.
        size: Number of coordinates.
        stride: Difference of two ranks that are neighbours along the axis.
    """

    name: str
    size: int
    stride: int


@dataclass(frozen=True, slots=True)
class Grid:
    """Axes, the fastest first, which together number the ranks 0 to size - 1."""

    axes: tuple[Axis, ...]

    @property
    def size(self) -> int:
        """Number of ranks."""
        return prod(axis.size for axis in self.axes)

    def __contains__(self, name: str) -> bool:
        """Whether there is such an axis."""
        return any(axis.name == name for axis in self.axes)

    def groups(self, names: Collection[str]) -> Groups:
        """Return the groups that run along these axes."""
        inside = tuple(axis for axis in self.axes if axis.name in names)
        outside = tuple(axis for axis in self.axes if axis.name not in names)
        return Groups(inside, outside)


def make_grid(sizes: Iterable[tuple[str, int]]) -> Grid:
    """Return the grid of these axes, the fastest first."""
    axes = []
    stride = 1
    for name, size in sizes:
        axes.append(Axis(name, size, stride))
        stride *= size
    return Grid(tuple(axes))


@dataclass(frozen=True, slots=True)
class Groups(Sequence[list[int]]):
    """Groups of ranks along some axes of a grid, made on request.

    The groups are numbered by their coordinates along the other axes, and the ranks of
    a group by those along its own, in both cases with the faster axis first. All
    libraries that were examined do the same, if their order is written with the fastest
    axis first.

    Attributes:
        inside: The axes along which a group runs.
        outside: The axes whose coordinates differ between groups.
        group_size: Number of ranks of each group.
        world_size: Number of ranks of all groups.
    """

    inside: tuple[Axis, ...]
    outside: tuple[Axis, ...]
    group_size: int = field(init=False)
    world_size: int = field(init=False)

    def __post_init__(self) -> None:
        """Compute the number of ranks."""
        size = prod(axis.size for axis in self.inside)
        object.__setattr__(self, "group_size", size)
        count = prod(axis.size for axis in self.outside)
        object.__setattr__(self, "world_size", size * count)

    def counted_over(self, names: Sequence[str]) -> Groups:
        """Return the same groups in another order: by the first of these axes first."""
        outside = sorted(self.outside, key=lambda axis: names.index(axis.name))
        return Groups(self.inside, tuple(outside))

    def __len__(self) -> int:
        """Return the number of groups."""
        return self.world_size // self.group_size

    @overload
    def __getitem__(self, index: int) -> list[int]: ...
    @overload
    def __getitem__(self, index: slice) -> list[list[int]]: ...
    def __getitem__(self, index: int | slice) -> list[int] | list[list[int]]:
        """Return a group by its index."""
        if isinstance(index, slice):
            return [self[place] for place in range(len(self))[index]]
        return self._from(_offset(range(len(self))[index], self.outside))

    def __iter__(self) -> Iterator[list[int]]:
        """Yield every group."""
        bases = _offsets(self.outside)
        if len(self.inside) == 1:
            axis = self.inside[0]
            span = axis.size * axis.stride
            return (list(range(base, base + span, axis.stride)) for base in bases)
        offsets = _offsets(self.inside)
        return ([base + offset for offset in offsets] for base in bases)

    def parts_of(self, values: Sequence[int]) -> Iterator[Sequence[int]]:
        """Yield the values of every group's members, given the value of every rank."""
        if len(self.inside) == 1:
            axis = self.inside[0]
            span = axis.size * axis.stride
            bases = _offsets(self.outside)
            return (values[base : base + span : axis.stride] for base in bases)
        return (list(map(values.__getitem__, ranks)) for ranks in self)

    def _from(self, base: int) -> list[int]:
        return [base + offset for offset in _offsets(self.inside)]

    def of(self, rank: int) -> list[int]:
        """Return the group that holds a rank.

        Raises:
            IndexError: There is no such rank.
        """
        return self._from(rank - _offset(self.place_of(rank), self.inside))

    def index_of(self, rank: int) -> int:
        """Return the index of the group that holds a rank.

        Raises:
            IndexError: There is no such rank.
        """
        self._check(rank)
        return _number(rank, self.outside)

    def place_of(self, rank: int) -> int:
        """Return the index of a rank within its group: its group rank.

        Raises:
            IndexError: There is no such rank.
        """
        self._check(rank)
        return _number(rank, self.inside)

    def places(self) -> list[int]:
        """Return the index of every rank within its group, all at once."""
        return self._counted(self.inside)

    def indices(self) -> list[int]:
        """Return the index of the group of every rank, all at once."""
        return self._counted(self.outside)

    def _counted(self, axes: tuple[Axis, ...]) -> list[int]:
        """Return the number of every rank along some axes together."""
        weights = {}
        weight = 1
        for axis in axes:
            weights[axis.name] = weight
            weight *= axis.size
        found = [0]
        for axis in sorted((*self.inside, *self.outside), key=lambda one: one.stride):
            step = weights.get(axis.name, 0)
            if not step:
                found *= axis.size
            elif len(found) == 1 or not any(found):
                width = len(found)
                found = [at for n in range(axis.size) for at in [n * step] * width]
            else:
                steps = range(0, axis.size * step, step)
                found = [more + number for more in steps for number in found]
        return found

    def moved(self, rank: int, place: int) -> int:
        """Return the member at another index of the group that holds a rank.

        Raises:
            IndexError: There is no such rank.
        """
        self._check(rank)
        if len(self.inside) == 1:
            axis = self.inside[0]
            return rank + (place - rank // axis.stride % axis.size) * axis.stride
        here = _offset(_number(rank, self.inside), self.inside)
        return rank - here + _offset(place, self.inside)

    def _check(self, rank: int) -> None:
        check_number("rank", rank)
        if not 0 <= rank < self.world_size:
            raise IndexError(f"rank {rank} is not among the {self.world_size} ranks")


def check_number(name: str, value: object) -> None:
    """Raise TypeError for a value that is not an integer, such as 1.0 or True."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} is {value!r}, which is not an integer")


def _number(rank: int, axes: tuple[Axis, ...]) -> int:
    """Return the number of a rank along some axes together."""
    number = 0
    weight = 1
    for axis in axes:
        number += rank // axis.stride % axis.size * weight
        weight *= axis.size
    return number


def _offset(number: int, axes: tuple[Axis, ...]) -> int:
    """Return the part of a rank that comes from its coordinates along some axes."""
    offset = 0
    for axis in axes:
        number, coordinate = divmod(number, axis.size)
        offset += coordinate * axis.stride
    return offset


def _offsets(axes: tuple[Axis, ...]) -> list[int]:
    """Return the offset of every number, in order."""
    offsets = [0]
    for axis in axes:
        steps = range(0, axis.size * axis.stride, axis.stride)
        offsets = [step + offset for step in steps for offset in offsets]
    return offsets


@dataclass(frozen=True, slots=True)
class View:
    """Names for the axes of a grid.

    Attributes:
        grid: The grid.
        names: The axes for each name: usually the axis of that name; several for a
            name such as ``dp`` if it is split; none for an axis that does not exist,
            whose groups are single ranks.
        counted: For groups along one of these axes, the other axes with the fastest
            first, if the library numbers its groups in another order than its ranks.
    """

    grid: Grid
    names: Mapping[str, tuple[str, ...]]
    counted: Mapping[str, tuple[str, ...]]

    def groups(self, names: Iterable[str]) -> Groups:
        """Return the groups along the axes of these names."""
        inside = {axis for name in names for axis in self.names[name]}
        groups = self.grid.groups(inside)
        counted = self.counted.get(*inside) if len(inside) == 1 else None
        return groups if counted is None else groups.counted_over(counted)

    def rank_at(self, coordinates: Mapping[str, int]) -> tuple[int, tuple[str, ...]]:
        """Return the rank at a point, and the axes whose coordinates are missing.

        Coordinates under unknown names are ignored; so are those that repeat what other
        coordinates say.
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
    """Return a view of a grid with the names of its axes and some aliases."""
    own = {axis.name: (axis.name,) for axis in grid.axes}
    return View(grid, {**own, **(aliases or {})}, counted or {})


def split_names(axes: str) -> tuple[str, ...]:
    """Return the names in ``dp-cp``.

    Raises:
        LayoutError: A name is given twice.
    """
    names = tuple(axes.split("-"))
    for name in names:
        if names.count(name) > 1:
            raise LayoutError(f"the axes {axes!r} name {name} twice")
    return names


def find_view(views: Sequence[View], names: Iterable[str]) -> View:
    """Return the first view that has all of these names.

    Raises:
        LayoutError: A name is unknown, or no view has all of them.
    """
    wanted = tuple(names)
    for view in views:
        if all(name in view.names for name in wanted):
            return view
    known = all_names(views)
    for name in wanted:
        if name not in known:
            raise LayoutError(
                f"there is no axis {name!r}; the axes are {', '.join(known)}"
                f"{did_you_mean(name, known)}"
            )
    together = ", and so do ".join(", ".join(view.names) for view in views)
    raise LayoutError(
        f"the axes {'-'.join(wanted)} lie in different grids; {together} go together"
    )


def all_names(views: Sequence[View]) -> tuple[str, ...]:
    """Return every name once, in the order of the views."""
    return tuple(dict.fromkeys(name for view in views for name in view.names))


class Neighbours(NamedTuple):
    """The ranks on either side of a rank.

    Attributes:
        previous: The rank before it, None if there is none.
        next: The rank after it, None if there is none.
    """

    previous: int | None
    next: int | None


def neighbours_in(groups: Groups, rank: int, *, is_ring: bool) -> Neighbours:
    """Return the neighbours of a rank within its group."""
    size, place = groups.group_size, groups.place_of(rank)
    before, after = place - 1, place + 1
    if is_ring and size > 1:
        before, after = before % size, after % size
    return Neighbours(
        groups.moved(rank, before) if before >= 0 else None,
        groups.moved(rank, after) if after < size else None,
    )


def all_neighbours(groups: Groups, *, is_ring: bool) -> list[Neighbours]:
    """Return the neighbours of every rank, all at once."""
    previous: list[int | None] = [None] * groups.world_size
    following: list[int | None] = [None] * groups.world_size
    for ranks in groups:
        last = ranks[-1]
        if is_ring and len(ranks) > 1:
            previous[ranks[0]], following[last] = last, ranks[0]
        for before, after in pairwise(ranks):
            previous[after], following[before] = before, after
    return list(map(Neighbours, previous, following))
