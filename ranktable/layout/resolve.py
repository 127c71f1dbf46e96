"""From what is wished for to the grids of a layout, or to the reason why not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ranktable.layout.errors import LayoutError
from ranktable.layout.experts import OWN_AXIS, STYLE_NAMES, lay_out_experts
from ranktable.layout.experts.experts import Request
from ranktable.layout.grid import check_number, make_grid
from ranktable.layout.naming import find_view
from ranktable.layout.order import complete_order, did_you_mean
from ranktable.layout.sizes import (
    check_size,
    divisors,
    either,
    nearest,
    resolve_sizes,
)
from ranktable.layout.view import make_view

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ranktable.layout.experts.experts import Experts
    from ranktable.layout.grid import Grid
    from ranktable.layout.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What a layout is asked for; see ``ParallelLayout``."""

    tp: int
    cp: int
    ep: int | None
    dp: int
    pp: int
    etp: int | None
    dp_replicate: int
    dcp: int
    order: str
    ep_style: str
    world_size: int | None

    @property
    def factors(self) -> dict[str, int]:
        """The factors of the world as they are wished for."""
        own = {"ep": self.ep or 1} if self.ep_style == OWN_AXIS else {}
        return {"tp": self.tp, "cp": self.cp, **own, "dp": self.dp, "pp": self.pp}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """What became of the wishes.

    Attributes:
        fields: Every size, and the world size.
        axes: Names of the axes, the fastest first, then those of the experts.
        views: The grid of the layout, and that of the experts if they have one.
        has_experts: Whether experts are spread or shared in a way of their own.
    """

    fields: Mapping[str, int]
    axes: tuple[str, ...]
    views: tuple[View, ...]
    has_experts: bool

    def rank_at(self, coordinates: Mapping[str, int]) -> int:
        """Return the rank at some coordinates; see ``ParallelLayout.rank``."""
        for name, value in coordinates.items():
            check_number(name, value)
            size = find_view(self.views, [name]).groups([name]).group_size
            if not 0 <= value < size:
                raise LayoutError(f"{name} {value} is not among 0 to {size - 1}")
        found = [view.rank_at(coordinates) for view in self.views]
        complete = [rank for rank, open_axes in found if not open_axes]
        if not complete:
            raise LayoutError(
                f"the coordinates say nothing about {' and '.join(found[0][1])}, so "
                "they are those of several ranks"
            )
        for name, value in coordinates.items():
            place = find_view(self.views, [name]).groups([name]).place_of(complete[0])
            if place != value:
                raise LayoutError(
                    f"{name} {value} contradicts the other coordinates, those of rank "
                    f"{complete[0]}, whose {name} is {place}"
                )
        return complete[0]


def resolve(wishes: Wishes) -> Resolved:
    """Return the grids of a layout.

    Raises:
        LayoutError: There is no such layout.
    """
    _check(wishes)
    sizes = resolve_sizes(wishes.factors, wishes.world_size)
    ep = wishes.ep if wishes.ep and wishes.ep_style not in ("torchtitan", "vllm") else 1
    order = complete_order(wishes.order, {"ep": ep, **sizes})
    grid = _grid(wishes, order, sizes)
    request = Request(
        order=order,
        sizes=sizes,
        written=wishes.order,
        dp_replicate=wishes.dp_replicate,
        grid=grid,
        ep=wishes.ep,
        etp=wishes.etp,
    )
    experts = lay_out_experts(wishes.ep_style, request)
    whole = {"dp": request.data} if wishes.dp_replicate > 1 else {}
    view = make_view(grid, {**experts.aliases, **whole}, experts.counted)
    parts = _parts_of_tp(wishes, grid)
    return Resolved(
        fields={**sizes, "ep": experts.ep, "etp": experts.etp, "world_size": grid.size},
        axes=(*_axes(order, request, experts), *(["dcp"] if parts else [])),
        views=tuple(one for one in (view, experts.view, parts) if one is not None),
        has_experts=experts.ep > 1 or bool(experts.axes),
    )


def _check(wishes: Wishes) -> None:
    """Raise LayoutError for what is wrong by itself."""
    for name, size in wishes.factors.items():
        check_size(name, size)
    if wishes.ep is not None:
        check_size("ep", wishes.ep)
    if wishes.etp is not None:
        check_size("etp", wishes.etp, may_be_inferred=False)
    if wishes.world_size is not None:
        check_size("world_size", wishes.world_size, may_be_inferred=False)
    check_size("dp_replicate", wishes.dp_replicate, may_be_inferred=False)
    check_size("dcp", wishes.dcp, may_be_inferred=False)
    if wishes.ep_style not in STYLE_NAMES:
        raise LayoutError(
            f"{wishes.ep_style!r} is not an ep_style; they are {', '.join(STYLE_NAMES)}"
            f"{did_you_mean(wishes.ep_style, STYLE_NAMES)}"
        )


def _grid(wishes: Wishes, order: tuple[str, ...], sizes: Mapping[str, int]) -> Grid:
    copies, data = wishes.dp_replicate, sizes["dp"]
    if data % copies:
        choices = either(nearest(copies, divisors(data)))
        raise LayoutError(
            f"dp_replicate {copies} does not divide dp {data}; nearest: "
            f"dp_replicate={choices}"
        )
    parts: list[tuple[str, int]] = []
    for name in order:
        if name == "dp" and copies > 1:
            parts += [("dp_shard", data // copies), ("dp_replicate", copies)]
        elif name in sizes:
            parts.append((name, sizes[name]))
    return make_grid(parts)


def _parts_of_tp(wishes: Wishes, grid: Grid) -> View | None:
    """Return the grid in which dcp is a part of tp, None where it is 1.

    Source: vLLM, whose decode context parallel groups are runs within a tp group.
    """
    if wishes.dcp == 1:
        return None
    if wishes.ep_style != "vllm":
        raise LayoutError(
            f"dcp is {wishes.dcp}, and only vLLM has it; give ep_style vllm"
        )
    tp = next(axis.size for axis in grid.axes if axis.name == "tp")
    if tp % wishes.dcp:
        choices = either(f"dcp={size}" for size in nearest(wishes.dcp, divisors(tp)))
        raise LayoutError(
            f"dcp {wishes.dcp} does not divide tp {tp}, of which it is a part; "
            f"nearest: {choices}"
        )
    parts: list[tuple[str, int]] = []
    for axis in grid.axes:
        if axis.name == "tp":
            parts += [("dcp", wishes.dcp), ("dcp_groups", tp // wishes.dcp)]
        else:
            parts.append((axis.name, axis.size))
    return make_view(make_grid(parts), {"tp": ("dcp", "dcp_groups")})


def _axes(
    order: tuple[str, ...], request: Request, experts: Experts
) -> tuple[str, ...]:
    axes: list[str] = []
    for name in order:
        if name in request.sizes:
            axes.append(name)
        if name == "dp" and request.dp_replicate > 1:
            axes += request.data
    return (*axes, *experts.axes)
