"""Sizes of the parallel axes and their order, from which the groups follow.

A table can store them: ``tp=8 pp=4 dp=2 order=tp-cp-ep-dp-pp``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

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
from ranktable.layout.layout_errors import LayoutError
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
from ranktable.schema.remembered_layout import (
    TEXTS,
    LayoutTextError,
    parse_layout,
)
from ranktable.schema.remembered_layout import neighbouring_tp as written_tp
from ranktable.schema.text import quoted
from ranktable.schema.topology import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Mapping, Sequence

    from ranktable.layout.experts import Experts
    from ranktable.layout.grid import Grid, Groups, View
    from ranktable.schema.model import RankTable


NOT_GIVEN: int = None  # type: ignore[assignment]  # a layout has every size
"""A size that follows from the others."""


@dataclass(frozen=True, kw_only=True)
class ParallelLayout:
    """Sizes of the parallel axes, and the order in which ranks are numbered.

    Attributes:
        tp: Tensor parallel size: ranks that share every tensor.
        cp: Context parallel size: ranks that share every sequence.
        ep: Expert parallel size; its meaning depends on ``ep_style``. By default 1, or
            the whole stage with ep_style vllm.
        dp: Data parallel size: ranks with the same part of the model and other data.
        pp: Number of stages of the pipeline.
        etp: Ranks that share one expert; by default the one of the ep_style, for
            megatron that of tp.
        dp_replicate: Number of copies in dp; each is sharded over the rest of dp.
        order: The axes, the fastest first: neighbouring ranks differ along it. One of
            size 1 may be left out.
        ep_style: The library that defines ep: megatron, torchtitan, deepspeed,
                scaletorch or vllm.
        world_size: Number of ranks; by default the product of the sizes.

    Raises:
        LayoutError: The layout is not valid; the text names every factor and the
            nearest valid choices.
    """

    tp: int = 1
    cp: int = 1
    ep: int = NOT_GIVEN
    dp: int = 1
    pp: int = 1
    etp: int = NOT_GIVEN
    dp_replicate: int = 1
    order: str = "tp-cp-ep-dp-pp"
    ep_style: str = "megatron"
    world_size: int = NOT_GIVEN
    _resolved: Resolved = field(init=False, repr=False, compare=False)
    _found: dict[str, Groups] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the sizes and compute the one that is -1."""
        resolved = resolve(self)
        values = {**resolved.fields, "_resolved": resolved, "_found": {}}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def preset(cls, name: str, **sizes: int) -> ParallelLayout:
        """Return a layout with the order and the ep_style of a library.

        Args:
            name: megatron, deepspeed, torchtitan, scaletorch, vllm or jax.
            **sizes: The other arguments of a layout.

        Raises:
            LayoutError: There is no such preset, or the layout is not valid.
        """
        preset = find_preset(name)
        return cls(order=preset.order, ep_style=preset.ep_style, **sizes)

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the axes, the fastest first, then those of the experts."""
        return self._resolved.axes

    @property
    def sizes(self) -> dict[str, int]:
        """Size of every axis."""
        return {name: self.along(name).group_size for name in self.axes}

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The axes of more than one rank."""
        return tuple(name for name, size in self.sizes.items() if size > 1)

    @property
    def mesh_shape(self) -> dict[str, int]:
        """Axes and sizes with the slowest first, as torch and JAX write a mesh."""
        grid = self._resolved.views[0].grid
        return {axis.name: axis.size for axis in reversed(grid.axes)}

    @property
    def refusal(self) -> str | None:
        """Why Megatron refuses the order, None if it does not; groups may be right."""
        return self._resolved.refusal

    def along(self, axes: str) -> Groups:
        """Return the groups along some axes as a sequence; each is made when used.

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
        """Return the groups along some axes, in the order of the library.

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
        """Return the rank at some coordinates; axes of size 1 may be left out.

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
            is_ring: Whether the first follows the last; by default so for all axes
                except pp, whose stages are a chain unless they are interleaved.

        Raises:
            IndexError: There is no such rank.
            LayoutError: There are no such axes.
        """
        if is_ring is None:
            is_ring = _is_ring(axes)
        return neighbours_in(self.along(axes), rank, is_ring=is_ring)

    def all_neighbours(self, axes: str) -> list[Neighbours]:
        """Return the neighbours of every rank; see ``neighbours``.

        Raises:
            LayoutError: There are no such axes.
        """
        return all_neighbours(self.along(axes), is_ring=_is_ring(axes))

    def order_like(self, peer: str | ParallelLayout) -> ParallelLayout:
        """Return the layout with these sizes and the order and ep_style of a peer.

        If ep is an axis of its own, dp is the number of ranks of each expert; otherwise
        ep is part of dp. The product is the same.

        Args:
            peer: The name of a preset, or a layout.

        Raises:
            LayoutError: No such layout has these sizes.
        """
        like = find_preset(peer) if isinstance(peer, str) else peer
        counted = count_as(like.ep_style, self._resolved, was=self.ep_style)
        return ParallelLayout(
            tp=self.tp,
            cp=self.cp,
            ep=counted.ep or NOT_GIVEN,
            dp=counted.dp,
            pp=self.pp,
            etp=counted.etp or NOT_GIVEN,
            dp_replicate=self.dp_replicate,
            order=like.order,
            ep_style=like.ep_style,
            world_size=self.world_size,
        )


def _is_ring(axes: str) -> bool:
    """Whether the first follows the last; the stages of a pipeline are a chain."""
    return axes != "pp"


def _factors(given: ParallelLayout) -> dict[str, int]:
    """Return the factors of the world size as they are given."""
    own = {"ep": given.ep or 1} if given.ep_style == OWN_AXIS else {}
    return {"tp": given.tp, "cp": given.cp, **own, "dp": given.dp, "pp": given.pp}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The layout that results from the given sizes.

    Attributes:
        fields: Every size, and the world size.
        axes: Names of the axes, the fastest first, then those of the experts.
        views: The grid of the layout, and that of the experts if they have one.
        has_experts: Whether the experts have groups of their own.
        refusal: Why Megatron refuses the order.
    """

    fields: Mapping[str, int]
    axes: tuple[str, ...]
    views: tuple[View, ...]
    has_experts: bool
    refusal: str | None

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


def resolve(given: ParallelLayout) -> Resolved:
    """Return the grids of a layout.

    Raises:
        LayoutError: There is no such layout.
    """
    _check(given)
    sizes = resolve_sizes(_factors(given), given.world_size)
    ep = given.ep if given.ep and given.ep_style not in ("torchtitan", "vllm") else 1
    order = complete_order(given.order, {"ep": ep, **sizes})
    grid = _make_grid(given, order, sizes)
    request = Request(
        order=order,
        sizes=sizes,
        written=given.order,
        dp_replicate=given.dp_replicate,
        grid=grid,
        ep=given.ep,
        etp=given.etp,
    )
    experts = lay_out_experts(given.ep_style, request)
    whole = {"dp": request.data} if given.dp_replicate > 1 else {}
    view = make_view(grid, {**experts.aliases, **whole}, experts.counted)
    return Resolved(
        fields={**sizes, "ep": experts.ep, "etp": experts.etp, "world_size": grid.size},
        axes=_axes(order, request, experts),
        views=(view,) if experts.view is None else (view, experts.view),
        has_experts=experts.ep > 1 or bool(experts.axes),
        refusal=experts.refusal,
    )


def _check(given: ParallelLayout) -> None:
    """Raise LayoutError for each size that is wrong by itself."""
    for name, size in _factors(given).items():
        check_size(name, size)
    if given.ep is not None:
        check_size("ep", given.ep)
    if given.etp is not None:
        check_size("etp", given.etp, may_be_inferred=False)
    if given.world_size is not None:
        check_size("world_size", given.world_size, may_be_inferred=False)
    check_size("dp_replicate", given.dp_replicate, may_be_inferred=False)
    if given.ep_style not in STYLE_NAMES:
        raise LayoutError(
            f"{given.ep_style!r} is not an ep_style; they are {', '.join(STYLE_NAMES)}"
            f"{did_you_mean(given.ep_style, STYLE_NAMES)}"
        )


def _make_grid(
    given: ParallelLayout, order: tuple[str, ...], sizes: Mapping[str, int]
) -> Grid:
    copies, data = given.dp_replicate, sizes["dp"]
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


KEPT = ("tp", "cp", "pp")
"""The axes along which ranks hold different parts of the model, or of a sequence."""

_EXPERTS = ("ep", "etp")
"""The same axes for experts, which have their own grid in most libraries."""


def role_axes(layout: ParallelLayout, kept: Collection[str] = KEPT) -> tuple[str, ...]:
    """Return the axes whose coordinates form the role of a rank.

    Ranks of one role hold the same weights.
    """
    wanted = {*kept, *(_EXPERTS if layout.ep > 1 else ())}
    return tuple(axis for axis in layout.axes if axis in wanted)


def roles(layout: ParallelLayout, kept: Collection[str] = KEPT) -> Sequence[Hashable]:
    """Return the role of every rank: its coordinates along ``role_axes``."""
    axes = [a for a in role_axes(layout, kept) if layout.along(a).group_size > 1]
    if not axes:
        return [()] * layout.world_size
    return list(zip(*[layout.along(axis).places() for axis in axes], strict=True))


def describe_sizes(layout: ParallelLayout) -> str:
    """Return the sizes above 1, and those of the experts: ``tp 4 x dp 2``."""
    grid, sizes = layout.mesh_shape, layout.sizes
    model = [axis for axis in layout.axes if axis in grid and grid[axis] > 1]
    text = " x ".join(f"{axis} {grid[axis]}" for axis in model) or "1"
    experts = [axis for axis in ("etp", "ep", "edp") if sizes.get(axis, 1) > 1]
    apart = [axis for axis in experts if axis not in grid]
    if not apart:
        return text
    spread = " x ".join(f"{axis} {sizes[axis]}" for axis in apart)
    return f"{text}, experts {spread} as {layout.ep_style}"


def spelt(layout: ParallelLayout) -> str:
    """Return a layout in the form that a table stores; a missing size is 1.

    But etp is written beside ep, because a missing etp is as large as tp.
    """
    names = ["tp", "cp", "pp", "dp"]
    if layout.ep > 1:
        names += ["ep", "etp"]
    if layout.dp_replicate > 1:
        names.append("dp_replicate")
    names += TEXTS
    if layout.ep_style == "vllm":
        names = [name for name in names if name not in ("ep", "etp")]
    said = ("etp", *TEXTS)
    kept = (name for name in names if name in said or getattr(layout, name) > 1)
    return " ".join(f"{name}={getattr(layout, name)}" for name in kept)


def remembered(table: RankTable) -> ParallelLayout | None:
    """Return the layout that a table stores, None if it stores none.

    Raises:
        LayoutError: The text has another form, or the layout is not valid.
    """
    from ranktable.schema.declare import LAYOUT_KEY

    text = table.extra.get(LAYOUT_KEY)
    if text is None:
        return None
    if not isinstance(text, str):
        raise LayoutError(f'"{LAYOUT_KEY}" of the table is not text')
    try:
        given = parse_layout(text)
    except LayoutTextError as error:
        raise LayoutError(
            f'"{LAYOUT_KEY}" of the table is {quoted(text)}, which is not a layout: '
            f"{error}; write sizes and an order, tp=8 pp=4 dp=2 order=tp-cp-ep-dp-pp"
        ) from None
    try:
        return ParallelLayout(**given)  # type: ignore[arg-type]  # by name
    except LayoutError as error:
        raise LayoutError(f'"{LAYOUT_KEY}" of the table: {error}') from None


def remembering(
    table: RankTable, layout: ParallelLayout | None, *, topology: str | None = None
) -> RankTable:
    """Return a table that stores a layout and the name of a topology, if given.

    Args:
        table: The table.
        layout: Its layout.
        topology: Name of a built-in topology. Names of files are not stored, because a
            table from elsewhere could then name any file to read.
    """
    from ranktable.schema.declare import LAYOUT_KEY, TOPOLOGY_KEY

    extra = dict(table.extra)
    if layout is not None:
        extra[LAYOUT_KEY] = spelt(layout)
    if any(topology == one.name for one in BUILT_IN):
        extra[TOPOLOGY_KEY] = topology
    return table if extra == table.extra else table.with_changes(extra=extra)


def neighbouring_tp(layout: ParallelLayout) -> int:
    """Return the size of tensor parallel groups of consecutive ranks, otherwise 1."""
    return written_tp(parse_layout(spelt(layout)))
