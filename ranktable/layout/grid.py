"""Sizes of axes and their order; ranks as points of the grid that they span.

The rank of a point is the sum of coordinate times stride. The stride of an axis is the
product of the sizes of all faster axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import pairwise
from math import isqrt, prod
from typing import TYPE_CHECKING, NamedTuple, overload

from ranktable.layout.layout_errors import LayoutError
from ranktable.schema.remembered_layout import TOKENS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

INFERRED = -1
"""As the value of one size: it becomes world_size divided by the other sizes."""


def check_size(name: str, value: object, *, may_be_inferred: bool = True) -> None:
    """Raise LayoutError for a size that is not an integer of at least 1."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if is_integer and value == INFERRED and may_be_inferred:
        return
    if not isinstance(value, int) or not is_integer or value < 1:
        or_inferred = ", or -1 for one of them" if may_be_inferred else ""
        raise LayoutError(
            f"{name} is {value!r}; a size is an integer of at least 1{or_inferred}"
        )


def resolve_sizes(given: Mapping[str, int], world_size: int | None) -> dict[str, int]:
    """Return the sizes; the one that is -1 is computed.

    Args:
        given: Every factor of the world size; at most one is -1.
        world_size: Number of ranks, None for the product of the factors.

    Raises:
        LayoutError: The product is not world_size, or no size fits for -1.
    """
    inferred = [name for name, size in given.items() if size == INFERRED]
    known = {name: size for name, size in given.items() if size != INFERRED}
    if len(inferred) > 1:
        names = " and ".join(inferred)
        raise LayoutError(
            f"{names} are -1 beside {factors(known)}; only one size can be inferred"
        )
    product = prod(known.values())
    if not inferred:
        if world_size is not None and world_size != product:
            raise LayoutError(_mismatch(known, world_size))
        return known
    name = inferred[0]
    if world_size is None:
        raise LayoutError(
            f"{name} is -1 beside {factors(known)}; it can be inferred when world_size "
            "is given, a multiple of that"
        )
    if world_size % product:
        raise LayoutError(_not_inferred(known, world_size, name))
    return {key: world_size // product if key == name else given[key] for key in given}


def factors(sizes: Mapping[str, int]) -> str:
    """Return every factor and the product: ``tp 4 x dp 2 = 8``."""
    product = prod(sizes.values())
    named = " x ".join(f"{name} {size}" for name, size in sizes.items())
    return f"{named} = {product}" if len(sizes) > 1 else named


def _mismatch(known: Mapping[str, int], world_size: int) -> str:
    product = prod(known.values())
    choices = [
        f"{name}={world_size // (product // size)}"
        for name, size in known.items()
        if world_size % (product // size) == 0
    ]
    listed = either([*choices, f"world_size={product}"])
    return f"{factors(known)}, but world_size is {world_size}; nearest: {listed}"


def _not_inferred(known: Mapping[str, int], world_size: int, name: str) -> str:
    product = prod(known.values())
    choices = []
    for key, size in known.items():
        rest = product // size
        if world_size % rest == 0:
            fitting = nearest(size, divisors(world_size // rest))
            choices += [f"{key}={choice}" for choice in fitting]
    below = world_size // product * product
    worlds = [world for world in (below, below + product) if world]
    choices += [f"world_size={world}" for world in worlds]
    return (
        f"{factors(known)} does not divide world_size {world_size}, so {name} cannot "
        f"be inferred; nearest: {either(choices)}"
    )


def divisors(number: int) -> list[int]:
    """Return the divisors of a positive number in increasing order."""
    small = [d for d in range(1, isqrt(number) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})


def nearest(value: int, choices: Iterable[int]) -> list[int]:
    """Return the largest choice that is at most a value, and the smallest above it."""
    ordered = sorted(choices)
    below = [choice for choice in ordered if choice <= value]
    above = [choice for choice in ordered if choice > value]
    return below[-1:] + above[:1]


def either(choices: Iterable[object]) -> str:
    """Return choices as text: ``a``, ``a or b``, ``a, b or c``."""
    *others, last = map(str, choices)
    return f"{', '.join(others)} or {last}" if others else last


_ALL = ", ".join(TOKENS)


def parse_order(order: str) -> tuple[str, ...]:
    """Return the axes of an order.

    Raises:
        LayoutError: A name is unknown, written in another way or given twice.
    """
    tokens = tuple(order.split("-"))
    for token in tokens:
        if token not in TOKENS:
            raise LayoutError(
                f"the order {order!r} has {token!r}, which is not one of {_ALL}"
                f"{did_you_mean(token, TOKENS)}"
            )
    for token in tokens:
        if tokens.count(token) > 1:
            raise LayoutError(
                f"the order {order!r} names {token} twice; each of {_ALL} may stand in "
                "it once"
            )
    return tokens


def complete_order(order: str, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """Return the axes of an order, with the missing axes of size 1.

    Raises:
        LayoutError: It is not an order, or an axis with a size above 1 is missing.
    """
    tokens = parse_order(order)
    missing = [name for name in TOKENS if name not in tokens]
    for name in missing:
        if sizes[name] != 1:
            raise LayoutError(
                f"{name} is {sizes[name]} and the order {order!r} has no {name}; "
                f"{order}-{name} would have it as the slowest"
            )
    return (*tokens, *missing)


def did_you_mean(word: str, known: tuple[str, ...]) -> str:
    """Return the end of a sentence that names the nearest of the known words."""
    plain = word.strip().lower()
    near = get_close_matches(plain, known, n=1 if plain in known else 2, cutoff=0.5)
    return f"; did you mean {' or '.join(near)}?" if near else ""


@dataclass(frozen=True, slots=True)
class Preset:
    """How a library numbers its ranks.

    Attributes:
        order: Its axes, the fastest first.
        ep_style: What it means by ep.
    ep_style: The meaning of ep.
    """

    order: str
    ep_style: str


# Sources: RankGenerator's default order in Megatron-Core; the axes pipe, data, model of
# DeepSpeed's PipeModelDataParallelTopology; ParallelDims of torchtitan; the grid DP,
# PP, CP, EP, TP of ScaleTorch; the shape (dp, pp, pcp, tp) of vLLM. JAX names no axes;
# these are MaxText's, data, stage, context, tensor, expert. The others are written with
# the slowest first, and are read backwards here.
PRESETS: Mapping[str, Preset] = {
    "megatron": Preset("tp-cp-ep-dp-pp", "megatron"),
    "deepspeed": Preset("tp-cp-ep-dp-pp", "deepspeed"),
    "torchtitan": Preset("tp-cp-dp-pp", "torchtitan"),
    "scaletorch": Preset("tp-ep-cp-pp-dp", "scaletorch"),
    "vllm": Preset("tp-cp-pp-dp", "vllm"),
    "jax": Preset("ep-tp-cp-pp-dp", "scaletorch"),
}


def find_preset(name: str) -> Preset:
    """Return a preset by its name.

    Raises:
        LayoutError: There is no such preset.
    """
    if name not in PRESETS:
        raise LayoutError(
            f"{name!r} is not a preset; the presets are {', '.join(PRESETS)}"
            f"{did_you_mean(name, tuple(PRESETS))}"
        )
    return PRESETS[name]


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
            elif not any(found):
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
