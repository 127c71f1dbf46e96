"""Which ranks belong together: sizes and an order, turned into groups."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from ranktable.layout.errors import LayoutError
from ranktable.layout.experts import (
    OWN_AXIS,
    STYLE_NAMES,
    Request,
    count_as,
    lay_out_experts,
)
from ranktable.layout.grid import (
    Neighbours,
    all_neighbours,
    check_number,
    find_view,
    make_grid,
    make_view,
    neighbours_in,
    split_names,
)
from ranktable.layout.sizes import (
    check_size,
    complete_order,
    did_you_mean,
    divisors,
    either,
    find_preset,
    nearest,
    resolve_sizes,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ranktable.layout.experts import Experts
    from ranktable.layout.grid import Grid, Groups, View


@dataclass(frozen=True, init=False, kw_only=True)
class ParallelLayout:
    """Sizes of the parallel axes, and the order in which ranks count over them.

    Attributes:
        tp: Ranks that share every tensor.
        cp: Ranks that share every sequence.
        ep: Ranks over which the experts are spread; see ``ep_style``.
        dp: Ranks that hold the same share of the model and other data.
        pp: Stages of the pipeline.
        etp: Ranks that share one expert.
        dp_replicate: Copies within dp, each sharded over the rest of it.
        dcp: Ranks of a tp group that share the sequence of vLLM's decoding.
        order: The axes, the fastest first: the one in which neighbours differ.
        ep_style: Whose meaning ep has: megatron, torchtitan, deepspeed, scaletorch or
            vllm.
        world_size: Number of ranks.
    """

    tp: int
    cp: int
    ep: int
    dp: int
    pp: int
    etp: int
    dp_replicate: int
    dcp: int
    order: str
    ep_style: str
    world_size: int
    _resolved: Resolved = field(init=False, repr=False, compare=False)
    _found: dict[str, Groups] = field(init=False, repr=False, compare=False)

    def __init__(  # noqa: PLR0913 - every one is a size of its own
        self,
        *,
        tp: int = 1,
        cp: int = 1,
        ep: int | None = None,
        dp: int = 1,
        pp: int = 1,
        etp: int | None = None,
        dp_replicate: int = 1,
        dcp: int = 1,
        order: str = "tp-cp-ep-dp-pp",
        ep_style: str = "megatron",
        world_size: int | None = None,
    ) -> None:
        """Check the sizes and infer the one that is -1.

        Args:
            tp: Size of tp.
            cp: Size of cp.
            ep: Size of ep; by default 1, or the whole stage with ep_style vllm.
            dp: Size of dp.
            pp: Size of pp.
            etp: Size of etp; by default what the ep_style has, tp with megatron.
            dp_replicate: How many copies dp holds.
            dcp: vLLM's decode context parallel size, which divides tp.
            order: The axes, the fastest first; one of size 1 may be left out.
            ep_style: Whose meaning ep has.
            world_size: Number of ranks; by default the product of the sizes.

        Raises:
            LayoutError: There is no such layout; its text names every factor and the
                nearest valid choices.
        """
        wishes = Wishes(
            tp=tp,
            cp=cp,
            ep=ep,
            dp=dp,
            pp=pp,
            etp=etp,
            dp_replicate=dp_replicate,
            dcp=dcp,
            order=order,
            ep_style=ep_style,
            world_size=world_size,
        )
        resolved = resolve(wishes)
        values: dict[str, object] = {
            **resolved.fields,
            "dp_replicate": dp_replicate,
            "dcp": dcp,
            "order": order,
            "ep_style": ep_style,
            "_resolved": resolved,
            "_found": {},
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def preset(cls, name: str, **sizes: int) -> ParallelLayout:
        """Return a layout with the order and the ep_style of a library.

        Args:
            name: megatron, deepspeed, torchtitan, scaletorch, vllm or jax.
            **sizes: What else the layout is made with.

        Raises:
            LayoutError: There is no such preset or layout.
        """
        preset = find_preset(name)
        return cls(order=preset.order, ep_style=preset.ep_style, **sizes)

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes, the fastest first, then what the experts add to them."""
        return self._resolved.axes

    @property
    def sizes(self) -> dict[str, int]:
        """Size of every axis."""
        return {name: self.along(name).group_size for name in self.axes}

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The axes along which there is anybody to talk to."""
        return tuple(name for name, size in self.sizes.items() if size > 1)

    @property
    def mesh_shape(self) -> dict[str, int]:
        """Axes and sizes with the slowest first, as torch and JAX write a mesh."""
        grid = self._resolved.views[0].grid
        return {axis.name: axis.size for axis in reversed(grid.axes)}

    def along(self, axes: str) -> Groups:
        """Return the groups along some axes as a sequence that makes them when asked.

        Args:
            axes: Names of axes, such as ``tp`` or ``dp-cp``, in any order.

        Raises:
            LayoutError: There are no such axes, or they lie in different grids.
        """
        if axes not in self._found:
            names = split_names(axes)
            self._found[axes] = find_view(self._resolved.views, names).groups(names)
        return self._found[axes]

    def groups(self, axes: str) -> list[list[int]]:
        """Return the groups along some axes, as the library of the order lists them.

        Raises:
            LayoutError: There are no such axes, or they lie in different grids.
        """
        return list(self.along(axes))

    def coordinates(self, rank: int) -> dict[str, int]:
        """Return the coordinate of a rank along every axis.

        Raises:
            IndexError: There is no such rank.
        """
        return {name: self.along(name).place_of(rank) for name in self.axes}

    def rank(self, **coordinates: int) -> int:
        """Return the rank at some coordinates; those of axes of size 1 may be left out.

        Raises:
            LayoutError: A coordinate is missing or out of range, or two contradict
                each other.
        """
        return self._resolved.rank_at(coordinates)

    def neighbours(
        self, rank: int, axes: str, *, is_ring: bool | None = None
    ) -> Neighbours:
        """Return the ranks before and after a rank along some axes.

        Args:
            rank: The rank.
            axes: Names of axes, such as ``pp``.
            is_ring: Whether the last is followed by the first; by default everywhere
                but along pp, whose stages are a chain unless they are interleaved.

        Raises:
            IndexError: There is no such rank.
            LayoutError: There are no such axes.
        """
        if is_ring is None:
            is_ring = _is_ring(axes)
        return neighbours_in(self.along(axes), rank, is_ring=is_ring)

    def all_neighbours(self, axes: str) -> list[Neighbours]:
        """Return what ``neighbours`` does, for every rank.

        Raises:
            LayoutError: There are no such axes.
        """
        return all_neighbours(self.along(axes), is_ring=_is_ring(axes))

    def order_like(self, peer: str | ParallelLayout) -> ParallelLayout:
        """Return the layout with these sizes and the order and ep_style of a peer.

        Where ep is an axis of its own, dp is the number of ranks for each expert;
        elsewhere they are part of dp. The product stays what it is.

        Args:
            peer: The name of a preset, or a layout.

        Raises:
            LayoutError: The sizes fit no such layout.
        """
        like = find_preset(peer) if isinstance(peer, str) else peer
        counted = count_as(like.ep_style, self._resolved, was=self.ep_style)
        return ParallelLayout(
            tp=self.tp,
            cp=self.cp,
            ep=counted.ep,
            dp=counted.dp,
            pp=self.pp,
            etp=counted.etp,
            dp_replicate=self.dp_replicate,
            dcp=self.dcp if like.ep_style == "vllm" else 1,
            order=like.order,
            ep_style=like.ep_style,
            world_size=self.world_size,
        )


def _is_ring(axes: str) -> bool:
    """Whether the last is followed by the first; the stages of a pipeline end."""
    return axes != "pp"


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
    grid = _make_grid(wishes, order, sizes)
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


def _make_grid(
    wishes: Wishes, order: tuple[str, ...], sizes: Mapping[str, int]
) -> Grid:
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


def describe_sizes(layout: ParallelLayout) -> str:
    """Return the sizes above 1: ``tp 4 x dp 2``, and those of the experts."""
    grid, sizes = layout.mesh_shape, layout.sizes
    model = [axis for axis in layout.axes if axis in grid and grid[axis] > 1]
    text = " x ".join(f"{axis} {grid[axis]}" for axis in model) or "1"
    experts = [axis for axis in ("etp", "ep", "edp") if sizes.get(axis, 1) > 1]
    apart = [axis for axis in experts if axis not in grid]
    if not apart:
        return text
    spread = " x ".join(f"{axis} {sizes[axis]}" for axis in apart)
    return f"{text}, experts {spread} as {layout.ep_style}"
