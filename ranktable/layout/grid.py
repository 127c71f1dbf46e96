"""Ranks as points of a grid: axes with strides, and the groups along some of them.

The rank of a point is the sum of coordinate times stride, and the stride of an axis is
the product of the sizes of all faster axes. Everything here follows from that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a grid.

    Attributes:
        name: Name of the axis.
        size: Number of coordinates.
        stride: How much a rank grows with one step along the axis.
    """

    name: str
    size: int
    stride: int


@dataclass(frozen=True, slots=True)
class Grid:
    """Axes, the fastest first, that together number the ranks 0 to size - 1."""

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
    """Groups of ranks along some axes of a grid, made when they are asked for.

    The groups count over the other axes, and the ranks of a group over its own, in both
    cases with the faster axis fastest. So does every library that was looked at, once
    its order is written with the fastest axis first.

    Attributes:
        inside: The axes along which a group runs.
        outside: The axes that tell the groups apart.
        group_size: Number of ranks of each group.
        world_size: Number of ranks of all groups.
    """

    inside: tuple[Axis, ...]
    outside: tuple[Axis, ...]
    group_size: int = field(init=False)
    world_size: int = field(init=False)

    def __post_init__(self) -> None:
        """Count the ranks."""
        size = prod(axis.size for axis in self.inside)
        object.__setattr__(self, "group_size", size)
        count = prod(axis.size for axis in self.outside)
        object.__setattr__(self, "world_size", size * count)

    def counted_over(self, names: Sequence[str]) -> Groups:
        """Return the same groups in another order: the first of these axes fastest."""
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
        """Return the place of a rank within its group: its group rank.

        Raises:
            IndexError: There is no such rank.
        """
        self._check(rank)
        return _number(rank, self.inside)

    def places(self) -> list[int]:
        """Return the place of every rank within its group, all at once."""
        found = [0] * self.world_size
        offsets = _offsets(self.inside)
        for base in _offsets(self.outside):
            for place, offset in enumerate(offsets):
                found[base + offset] = place
        return found

    def moved(self, rank: int, place: int) -> int:
        """Return the member at another place of the group that holds a rank.

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
    """Raise TypeError for what is not an integer: 1.0 would go on as 1.0, True as 1."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} is {value!r}, which is not an integer")


def _number(rank: int, axes: tuple[Axis, ...]) -> int:
    """Return how far a rank has come in counting over some axes."""
    number = 0
    weight = 1
    for axis in axes:
        number += rank // axis.stride % axis.size * weight
        weight *= axis.size
    return number


def _offset(number: int, axes: tuple[Axis, ...]) -> int:
    """Return the part of a rank that counting so far over some axes comes to."""
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
