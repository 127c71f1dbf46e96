"""Parallel layouts: sizes of the axes and their order, from which groups follow.

A table can store them: ``tp=8 pp=4 dp=2 order=tp-cp-ep-dp-pp``. For experts, five
libraries mean different groups by one size: for 16 ranks with tp 2, ep 4 and pp 1, the
first expert group is 0,1,2,3 or 0,2,4,6 or 0,4,8,12 or all sixteen ranks.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

from ranktable.layout.grid import (
    INFERRED,
    Neighbours,
    all_neighbours,
    check_number,
    check_size,
    complete_order,
    did_you_mean,
    divisors,
    either,
    factors,
    find_preset,
    find_view,
    make_grid,
    make_view,
    nearest,
    neighbours_in,
    resolve_sizes,
    split_names,
)
from ranktable.layout.layout_errors import LayoutError
from ranktable.schema.remembered_layout import (
    TEXTS,
    LayoutTextError,
    parse_layout,
)
from ranktable.schema.remembered_layout import neighbouring_tp as written_tp
from ranktable.schema.text import quoted
from ranktable.schema.topology import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Mapping, Sequence

    from ranktable.layout.grid import Grid, Groups, View
    from ranktable.schema.model import RankTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The input for the layout of the experts.

    Attributes:
        order: All axes, the fastest first.
        written: The order as the user gave it.
        sizes: Sizes of tp, cp, dp and pp, and of ep if it is an axis of its own.
        dp_replicate: Number of copies in dp; each is sharded over the rest of dp.
        grid: The grid of all axes except those of the experts.
        ep: Size of the expert groups, None if it is not given.
        etp: Ranks that share one expert, None if it is not given.
    """

    order: tuple[str, ...]
    written: str
    sizes: Mapping[str, int]
    dp_replicate: int
    grid: Grid
    ep: int | None
    etp: int | None

    @property
    def data(self) -> tuple[str, ...]:
        """The axes of the grid that together are dp."""
        return ("dp",) if self.dp_replicate == 1 else ("dp_shard", "dp_replicate")

    @property
    def shard(self) -> dict[str, int]:
        """The axis over which one copy is sharded, by its name, and its size."""
        return {self.data[0]: self.sizes["dp"] // self.dp_replicate}

    @property
    def stage(self) -> dict[str, int]:
        """The factors of the number of ranks of a stage that hold one copy."""
        return {"tp": self.sizes["tp"], "cp": self.sizes["cp"], **self.shard}


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """The layout of the experts.

    Attributes:
        ep: Size of the expert groups.
        etp: Ranks that share one expert.
        axes: Names that the experts add to those of the other axes.
        view: The grid of the experts, None if they are in the other grid.
        aliases: Names of the experts' axes in the other grid.
        counted: The order of the groups in the other grid; see ``View``.
        refusal: Why Megatron refuses the order, None if it does not.
    """

    ep: int
    etp: int
    axes: tuple[str, ...] = ()
    view: View | None = None
    aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    counted: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    refusal: str | None = None


def no_experts(request: Request, etp: int) -> Experts:
    """Return a layout where ep is 1: every rank of a stage has all experts."""
    shared = ("tp",) if etp > 1 else ()
    aliases = {"ep": (), "etp": shared, "edp": ("cp", *request.data)}
    return Experts(ep=1, etp=etp, aliases=aliases)


def fixed_etp(request: Request, size: int, why: str) -> int:
    """Return the only etp that is possible in a style.

    Raises:
        LayoutError: Another one was given.
    """
    if request.etp not in (None, size):
        raise LayoutError(
            f"etp {request.etp} beside {factors(request.stage)} is not free: {why}; "
            f"nearest: etp={size}, or ep_style megatron"
        )
    return size


def must_divide(ep: int, whole: Mapping[str, int], whose: str) -> None:
    """Raise LayoutError unless ep divides the product of these factors."""
    size = prod(whole.values())
    if size % ep:
        choices = either(f"ep={choice}" for choice in nearest(ep, divisors(size)))
        raise LayoutError(
            f"ep {ep} does not divide {factors(whole)}, as {whose} needs; nearest: "
            f"{choices}"
        )


def second_grid(request: Request) -> Experts:
    """Return experts on a second grid, in the same order as the first.

    tp x cp x dp x pp = etp x ep x edp x pp. Source: initialize_model_parallel of
    Megatron-Core 0.16. It has two rank generators, one without ep and one without cp,
    and requires that both give the same stages.
    """
    sizes = request.sizes
    wanted = {"etp": request.etp or sizes["tp"], "ep": request.ep or 1}
    has_experts = wanted != {"etp": sizes["tp"], "ep": 1}
    grid = _second_grid(request, wanted)
    model, experts = _stride_of_stages(request.grid), _stride_of_stages(grid)
    if sizes["pp"] > 1 and model != experts:
        # Without experts no group is wrong, although Megatron refuses it; see _refusal.
        if has_experts:
            raise LayoutError(_other_stages(request, wanted, model, experts))
        found = no_experts(request, wanted["etp"])
    else:
        axes = ("etp", "ep", "edp") if has_experts else ()
        view = make_view(grid)
        found = Experts(ep=wanted["ep"], etp=wanted["etp"], axes=axes, view=view)
    edp = next(axis.size for axis in grid.axes if axis.name == "edp")
    return replace(found, refusal=_refusal(request, edp))


def _refusal(request: Request, edp: int) -> str | None:
    """Return why Megatron refuses the order, None if it does not.

    Megatron requires that pp is the last axis, or that edp and dp are equal, even if
    every group would be right.
    """
    order, dp, pp = request.written, request.sizes["dp"], request.sizes["pp"]
    if pp == 1 or order.endswith("pp") or edp == dp:
        return None
    tokens = [token for token in order.split("-") if token != "pp"]  # noqa: S105 - an axis
    return (
        f"Megatron refuses the order {order}: pp is {pp} and not the last axis, and "
        f"edp is {edp} where dp is {dp}; the order {'-'.join(tokens)}-pp is taken"
    )


def _second_grid(request: Request, wanted: Mapping[str, int]) -> Grid:
    stage = {name: request.sizes[name] for name in ("tp", "cp", "dp")}
    ranks, used = prod(stage.values()), prod(wanted.values())
    if ranks % used:
        raise LayoutError(_not_dividing(wanted, stage))
    spelt = {
        "tp": ("etp", wanted["etp"]),
        "ep": ("ep", wanted["ep"]),
        "dp": ("edp", ranks // used),
        "pp": ("pp", request.sizes["pp"]),
    }
    return make_grid(spelt[token] for token in request.order if token in spelt)


def _stride_of_stages(grid: Grid) -> int:
    return next(axis.stride for axis in grid.axes if axis.name == "pp")


def _not_dividing(wanted: Mapping[str, int], stage: Mapping[str, int]) -> str:
    ranks = prod(stage.values())
    choices = []
    for name, other in (("ep", "etp"), ("etp", "ep")):
        if ranks % wanted[other] == 0:
            fitting = nearest(wanted[name], divisors(ranks // wanted[other]))
            choices += [f"{name}={size}" for size in fitting]
    return (
        f"{factors(wanted)} does not divide {factors(stage)}, the ranks of a stage; "
        f"nearest: {either(choices or ['ep=1 with etp=1'])}"
    )


def _other_stages(
    request: Request, wanted: Mapping[str, int], model: int, experts: int
) -> str:
    before = [token for token in request.order if token != "pp"]  # noqa: S105 - axis
    return (
        f"{factors(wanted)} beside {factors(request.sizes)} and the order "
        f"{request.written} gives the experts other stages than the rest: a "
        f"step of pp is {experts} ranks for them, not {model}; put pp last, "
        f"{'-'.join(before)}-pp, or choose sizes that agree"
    )


def folded(request: Request) -> Experts:
    """Return experts that use the ranks of tp, cp and dp together.

    ep is the fastest axis. Source: ParallelDims of torchtitan, whose sparse mesh is pp,
    dp_replicate, efsdp, ep.
    """
    etp = fixed_etp(request, 1, "torchtitan leaves an expert whole")
    ep = request.ep or 1
    if ep == 1:
        # efsdp is then a whole copy, including tp, but never dp_replicate.
        aliases = {"ep": (), "etp": (), "edp": tuple(request.stage)}
        return Experts(ep=1, etp=etp, aliases=aliases)
    must_divide(ep, request.stage, "ep_style torchtitan")
    _refuse_gaps(request, ep)
    run = [("ep", ep), ("edp", prod(request.stage.values()) // ep)]
    sizes: list[tuple[str, int]] = []
    for axis in request.grid.axes:
        if axis.name not in request.stage:
            sizes.append((axis.name, axis.size))
        elif axis.size > 1 and run:
            sizes += run
            run = []
    return Experts(ep=ep, etp=etp, axes=("ep", "edp"), view=make_view(make_grid(sizes)))


def _refuse_gaps(request: Request, ep: int) -> None:
    """Raise LayoutError unless the ranks to be folded are consecutive."""
    axes = [axis for axis in request.grid.axes if axis.size > 1]
    places = [place for place, axis in enumerate(axes) if axis.name in request.stage]
    between = [axis.name for axis in axes[places[0] : places[-1]]]
    foreign = [name for name in between if name not in request.stage]
    if foreign:
        before = [token for token in request.order if token not in ("dp", "pp")]
        raise LayoutError(
            f"ep {ep} with ep_style torchtitan folds {factors(request.stage)} into one "
            f"run of ranks, and the order {request.written} has "
            f"{' and '.join(foreign)} in between; {'-'.join(before)}-dp-pp has not"
        )


def in_lane(request: Request) -> Experts:
    """Return experts that split dp: with ep before dp in the order E+D, after it D+E.

    Source: DeepSpeed, deepspeed/utils/groups.py. By default neighbours in dp hold
    different experts (E+D); with use_data_before_expert_parallel, copies of one (D+E).
    """
    etp = fixed_etp(request, request.sizes["tp"], "DeepSpeed splits an expert as tp")
    ep = request.ep or 1
    if ep == 1:
        return no_experts(request, etp)
    must_divide(ep, request.shard, "ep_style deepspeed")
    ((name, size),) = request.shard.items()
    pair = [("ep", ep), ("edp", size // ep)]
    if request.order.index("ep") > request.order.index("dp"):
        pair.reverse()
    sizes: list[tuple[str, int]] = []
    for axis in request.grid.axes:
        sizes += pair if axis.name == name else [(axis.name, axis.size)]
    names = [axis for axis, _ in sizes]
    # The groups of one rank of tp come first, then those of the next.
    counted = {
        one: (other, *(name for name in names if name not in ("ep", "edp")))
        for one, other in (("ep", "edp"), ("edp", "ep"))
    }
    view = make_view(make_grid(sizes), {"etp": ("tp",)}, counted)
    return Experts(ep=ep, etp=etp, axes=("ep", "edp"), view=view)


def own_axis(request: Request) -> Experts:
    """Return experts along an axis of their own in the one grid.

    Source: ProcessGroupManager of ScaleTorch, whose grid is DP, PP, CP, EP, TP. A mesh
    of JAX is similar: the expert axis is one of many.
    """
    etp = fixed_etp(request, request.sizes["tp"], "an expert is split as tp")
    aliases = {"etp": ("tp",), "edp": request.data}
    return Experts(ep=request.sizes["ep"], etp=etp, aliases=aliases)


def whole_stage(request: Request) -> Experts:
    """Return experts over tp, cp and dp together.

    All ranks of a stage are one expert group, so its size cannot be chosen. Source:
    vLLM's groups over (dp, pp, pcp, tp), and vllm-ascend's MC2 groups.
    """
    etp = fixed_etp(request, 1, "vLLM leaves an expert whole")
    size = prod(request.stage.values())
    if request.ep not in (None, INFERRED, size):
        raise LayoutError(
            f"ep {request.ep} is not free with ep_style vllm, where the "
            f"{factors(request.stage)} ranks of a stage are one expert group; nearest: "
            f"ep={size}"
        )
    aliases = {"ep": tuple(request.stage), "etp": (), "edp": request.data[1:]}
    axes = ("ep",) if size > 1 else ()
    return Experts(
        ep=size, etp=etp, axes=axes, aliases=aliases, counted=_counted(request)
    )


def _counted(request: Request) -> dict[str, tuple[str, ...]]:
    """Return vLLM's order of groups: along an axis, tp is counted in its place."""
    names = [axis.name for axis in request.grid.axes]
    return {
        inside: tuple(
            "tp" if name == inside else name for name in names if name != "tp"
        )
        for inside in ("cp", "pp", request.data[0])
    }


STYLES: tuple[tuple[str, Callable[[Request], Experts]], ...] = (
    ("megatron", second_grid),
    ("torchtitan", folded),
    ("deepspeed", in_lane),
    ("scaletorch", own_axis),
    ("vllm", whole_stage),
)
"""The meanings of ep, by the name of the library that has it."""

STYLE_NAMES = tuple(name for name, _ in STYLES)

OWN_AXIS = "scaletorch"
"""The style in which the world size is a multiple of ep as an axis of its own."""


def lay_out_experts(style: str, request: Request) -> Experts:
    """Return the layout of the experts in one style.

    Raises:
        LayoutError: The sizes do not fit the grid of this style.
    """
    if request.ep == INFERRED and style not in (OWN_AXIS, "vllm"):
        stage = factors(request.stage)
        raise LayoutError(
            f"ep is -1 and cannot be inferred with ep_style {style}, where every ep "
            f"that divides {stage} would do; nearest: ep=1 or "
            f"ep={prod(request.stage.values())}"
        )
    return dict(STYLES)[style](request)


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
    wanted = {*kept, *_EXPERTS}
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
