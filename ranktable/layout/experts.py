"""Expert parallel: five libraries mean different groups by one size.

For 16 ranks with tp 2, ep 4 and pp 1, the first expert group is 0,1,2,3 or 0,2,4,6 or
0,4,8,12 or all sixteen ranks, depending on the library.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from ranktable.layout.grid import make_grid, make_view
from ranktable.layout.layout_errors import LayoutError
from ranktable.layout.sizes import INFERRED, divisors, either, factors, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ranktable.layout.grid import Grid, View
    from ranktable.layout.parallel import Resolved


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


class Counted(NamedTuple):
    """The sizes that styles count differently; None for those that follow from them."""

    dp: int
    ep: int | None
    etp: int | None


def count_as(style: str, resolved: Resolved, *, was: str) -> Counted:
    """Return the sizes of a layout as another style counts them.

    If ep is an axis of its own, dp is the number of ranks of each expert; otherwise ep
    is part of dp. The product is the same.

    Args:
        style: The new style.
        resolved: The layout.
        was: The old style.

    Raises:
        LayoutError: ep cannot become an axis of its own, because it does not divide dp.
    """
    ep, etp = resolved.fields["ep"], resolved.fields["etp"]
    data = resolved.fields["dp"] * (ep if was == OWN_AXIS else 1)
    if style == OWN_AXIS:
        if data % ep:
            choices = either(f"ep={size}" for size in nearest(ep, divisors(data)))
            raise LayoutError(
                f"ep {ep} does not divide dp {data}, as it must to become an axis of "
                f"its own; nearest: {choices}"
            )
        data //= ep
    if not resolved.has_experts:
        return Counted(data, None, None)
    return Counted(data, ep, etp)
