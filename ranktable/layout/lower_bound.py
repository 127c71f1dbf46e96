"""What no placement can go below: a bound for the bytes that cross a boundary.

Let a domain hold G ranks of a grid whose axes have the sizes n_i, and let every domain
beyond the first cost a group of axis i at least w_i bytes. The domain touches |proj_i|
groups of axis i, and by the discrete inequality of Loomis and Whitney the product of
all |proj_i| is at least G^(d-1). With |proj_i| = G/a_i that means: a_i is at least 1
and at most min(n_i, G), and the product of all a_i is at most G. The sum of w_i G/a_i
over the domains, less w_i for every group, is what crosses; its least value over all
real a_i is the bound. It is reached where every domain is a box with sides a_i that
divide n_i.

The least value is taken from the dual problem, where every multiplier gives a bound
that holds, so that an inexact search makes it lower and never wrong.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import product
from math import exp, log
from typing import TYPE_CHECKING, NamedTuple

from ranktable.layout.flow import Pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ranktable.layout.flow import Flow
    from ranktable.layout.grid import Groups
    from ranktable.layout.parallel import ParallelLayout

_HALVINGS = 200
_ROUNDING = 1e-14
"""Of the size of the terms; sums of floats may be that much too high."""

_SAME = 1e-9
_LESS_THAN_A_BYTE = 1e-3


class _Term(NamedTuple):
    """One flow as the bound sees it.

    Attributes:
        axes: Its axes in their grid, with their sizes.
        size: Ranks of a group.
        weight: Bytes for every domain of a group beyond the first.
    """

    axes: tuple[tuple[str, int], ...]
    size: int
    weight: float


def is_reached(bound: float, total: float) -> bool:
    """Whether bytes are as few as a bound, but for rounding."""
    return total - bound <= _SAME * total + _LESS_THAN_A_BYTE


def lower_bound(
    layout: ParallelLayout,
    flows: Sequence[Flow],
    sizes: Iterable[int],
) -> float:
    """Return bytes that cross a boundary in a step whatever the placement is.

    Args:
        layout: The layout.
        flows: What is sent.
        sizes: Ranks that every domain can hold, together as many as there are or more.
    """
    held: dict[int, float] = {}
    left = layout.world_size
    # A rank costs less the more of them a domain holds, so the largest are filled.
    for size, count in sorted(Counter(sizes).items(), reverse=True):
        filled = min(left, size * count)
        left -= filled
        held[size] = filled / size
    alone = 0.0
    grids: defaultdict[frozenset[str], list[_Term]] = defaultdict(list)
    for flow in flows:
        groups = layout.along(flow.axes)
        if flow.pattern is Pattern.ALL_TO_ALL:
            alone += _all_to_all(flow, groups, max(held))
        else:
            axes = tuple((axis.name, axis.size) for axis in groups.inside)
            every = frozenset(axis.name for axis in (*groups.inside, *groups.outside))
            weight = _weight(flow, groups.group_size)
            grids[every].append(_Term(axes, groups.group_size, weight))
    return alone + sum(
        _of_grid(terms, held, layout.world_size) for terms in grids.values()
    )


def _weight(flow: Flow, size: int) -> float:
    """Return the bytes that cross for every domain beyond the first, at least.

    A ring of neighbours crosses k times where it touches k domains, k being 2 or more:
    k / (k - 1) times for every domain beyond the first, and k is at most its size.
    """
    if flow.pattern is Pattern.RING and size > 1:
        return flow.size_bytes * size / (size - 1)
    return flow.per_domain


def _all_to_all(flow: Flow, groups: Groups, largest: int) -> float:
    """Return T(n - min(n, G)) a group, as sums of m_j^2 are at most n min(n, G)."""
    size = groups.group_size
    return flow.size_bytes * (size - min(size, largest)) * len(groups)


def _of_grid(
    terms: Sequence[_Term], held: Mapping[int, float], world_size: int
) -> float:
    """Return the best bound for flows of one grid.

    The inequality is about different axes. Where flows share some, as dp-cp and cp do,
    either counts with all of its axes, with one of them alone, or by itself: a group of
    dp-cp touches as many domains as any group of dp within it.
    """
    best = 0.0
    for choice in product(*(_ways(term) for term in terms)):
        taken = [term for term in choice if term is not None]
        names = [name for term in taken for name, _ in term.axes]
        if len(names) == len(set(names)):
            pairs = zip(terms, choice, strict=True)
            apart = (term for term, way in pairs if way is None)
            largest = max(held)
            single = sum(_by_itself(term, largest, world_size) for term in apart)
            together = max(
                _together(taken, held, world_size),
                sum(_by_itself(term, largest, world_size) for term in taken),
            )
            best = max(best, single + together)
    return best


def _ways(term: _Term) -> Iterator[_Term | None]:
    """Yield a flow with all of its axes, with each one alone, and not at all."""
    yield term
    if len(term.axes) > 1:
        for name, size in term.axes:
            if size > 1:
                yield _Term(((name, size),), size, term.weight * size / term.size)
    yield None


def _by_itself(term: _Term, largest: int, world_size: int) -> float:
    """Return the bytes for a group that touches as few domains as can hold it."""
    domains = -(-term.size // largest)
    return term.weight * (domains - 1) * (world_size // term.size)


def _together(
    terms: Sequence[_Term], held: Mapping[int, float], world_size: int
) -> float:
    touched = sum(_least_touched(terms, size) * times for size, times in held.items())
    every = sum(term.weight * (world_size // term.size) for term in terms)
    return max(0.0, touched - every - _ROUNDING * every)


def _least_touched(terms: Iterable[_Term], size: int) -> float:
    """Return the least sum of w_i G/a_i of a domain of G ranks."""
    costs = [
        (term.weight * size, log(min(term.size, size))) for term in terms if term.weight
    ]
    room = log(size)
    free = sum(cost * exp(-most) for cost, most in costs)
    if sum(most for _, most in costs) <= room:
        return free  # a domain has room for whole groups of every axis

    def dual(multiplier: float) -> tuple[float, float]:
        """Return the value of the dual, and how much of the room is left."""
        value, left = -multiplier * room, room
        for cost, most in costs:
            side = min(max(log(cost / multiplier), 0.0), most)
            value += cost * exp(-side) + multiplier * side
            left -= side
        return value, left

    low, high = 0.0, max(cost for cost, _ in costs)
    best = free
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        value, left = dual(middle)
        best = max(best, value)
        if left < 0:
            low = middle
        else:
            high = middle
    return best
