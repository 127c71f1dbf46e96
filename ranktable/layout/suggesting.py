"""Valid sizes for a number of ranks, and how far their groups spread."""

from __future__ import annotations

from math import prod
from operator import ne
from typing import TYPE_CHECKING, NamedTuple

from ranktable.layout.layout_errors import LayoutError
from ranktable.layout.parallel import ParallelLayout
from ranktable.layout.sizes import divisors

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ranktable.layout.boundaries import Boundary
    from ranktable.layout.grid import Groups

AXES = ("tp", "cp", "pp", "dp")


class Suggestion(NamedTuple):
    """One layout.

    Attributes:
        layout: The layout.
        spread: For each boundary and axis, the most domains that one group is in.
    """

    layout: ParallelLayout
    spread: dict[str, dict[str, int]]


def balanced_dims(number: int, count: int) -> tuple[int, ...]:
    """Return factors as close to each other as possible, as MPI_Dims_create does.

    >>> balanced_dims(12, 2), balanced_dims(60, 3), balanced_dims(48, 3)
    ((4, 3), (5, 4, 3), (4, 4, 3))
    """
    return min(_factors(number, count, number), key=lambda dims: dims[0] - dims[-1])


def _factors(number: int, count: int, most: int) -> Iterator[tuple[int, ...]]:
    """Yield the ways to write a number as factors that do not grow."""
    if count == 1:
        if number <= most:
            yield (number,)
        return
    for first in divisors(number):
        if first <= most and first**count >= number:
            for rest in _factors(number // first, count - 1, first):
                yield (first, *rest)


def legal_layouts(
    world_size: int, fixed: Mapping[str, int], more: Mapping[str, int | str]
) -> Iterator[ParallelLayout]:
    """Yield every valid layout of some ranks, those with small tp first.

    Args:
        world_size: The number of ranks.
        fixed: Known sizes of tp, cp, pp and dp; cp is 1 if it is missing.
        more: Other arguments of a layout, such as ep and the order.
    """
    known = {"cp": 1, **fixed}
    sizes = {
        name: [known[name]] if name in known else divisors(world_size) for name in AXES
    }
    for tp in sizes["tp"]:
        for cp in sizes["cp"]:
            for pp in sizes["pp"]:
                dp = world_size // (tp * cp * pp)
                if prod((tp, cp, pp, dp)) != world_size or dp not in sizes["dp"]:
                    continue
                try:
                    layout = ParallelLayout(tp=tp, cp=cp, pp=pp, dp=dp, **more)  # type: ignore[arg-type]  # by name
                except LayoutError:
                    continue  # the experts do not fit; Megatron refuses this too
                if layout.refusal is None:
                    yield layout


def domains_of_ranks(
    boundaries: Sequence[Boundary], owners: Sequence[int]
) -> dict[str, list[int]]:
    """Return the domain of every rank for each boundary."""
    return {one.name: [one.domains[node] for node in owners] for one in boundaries}


def spread_of(
    layout: ParallelLayout, domains: Mapping[str, list[int]]
) -> dict[str, dict[str, int]]:
    """Return for each boundary and axis the most domains that one group is in."""
    return {
        name: {axis: _widest(layout.along(axis), held) for axis in layout.kinds}
        for name, held in domains.items()
    }


def _widest(groups: Groups, domains: list[int]) -> int:
    """Return the most domains of one group; the first is enough if all are alike."""
    looked_at = groups[:1] if _are_alike(groups, domains) else groups
    return max(len({domains[rank] for rank in ranks}) for ranks in looked_at)


def _are_alike(groups: Groups, domains: list[int]) -> bool:
    """Whether every group lies in the domains in the same way as the first.

    This is so if all domains are runs of one size, and both the stride and the length
    of the axis are multiples or divisors of that size.
    """
    if len(groups.inside) != 1:
        return False
    axis = groups.inside[0]
    size = domains.count(domains[0])
    runs = sum(map(ne, domains, domains[1:])) + 1
    if runs * size != len(domains) or len(set(domains[::size])) != runs:
        return False
    steps = (axis.stride, axis.stride * axis.size)
    return all(size % step == 0 or step % size == 0 for step in steps)
