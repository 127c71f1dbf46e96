"""Experts have a grid of their own: tp x cp x dp x pp = etp x ep x edp x pp.

Source: initialize_model_parallel of Megatron-Core 0.16, which has two generators of
ranks, one without ep and one without cp, and asks that both give the same stages.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ranktable.layout.errors import LayoutError
from ranktable.layout.experts.experts import Experts, no_experts
from ranktable.layout.grid import make_grid
from ranktable.layout.sizes import divisors, either, factors, nearest
from ranktable.layout.view import make_view

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ranktable.layout.experts.experts import Request
    from ranktable.layout.grid import Grid


def second_grid(request: Request) -> Experts:
    """Return experts on a second grid, with the order of the first."""
    sizes = request.sizes
    wanted = {"etp": request.etp or sizes["tp"], "ep": request.ep or 1}
    has_experts = wanted != {"etp": sizes["tp"], "ep": 1}
    grid = _grid(request, wanted)
    model, experts = _stride_of_stages(request.grid), _stride_of_stages(grid)
    if sizes["pp"] > 1 and model != experts:
        # Megatron refuses this without experts too, where cp is more than 1, though no
        # group is wrong then.
        if has_experts:
            raise LayoutError(_other_stages(request, wanted, model, experts))
        return no_experts(request, wanted["etp"])
    axes = ("etp", "ep", "edp") if has_experts else ()
    view = make_view(grid)
    return Experts(ep=wanted["ep"], etp=wanted["etp"], axes=axes, view=view)


def _grid(request: Request, wanted: Mapping[str, int]) -> Grid:
    stage = {name: request.sizes[name] for name in ("tp", "cp", "dp")}
    ranks, used = prod(stage.values()), prod(wanted.values())
    if ranks % used:
        raise LayoutError(_no_divisor(wanted, stage))
    spelt = {
        "tp": ("etp", wanted["etp"]),
        "ep": ("ep", wanted["ep"]),
        "dp": ("edp", ranks // used),
        "pp": ("pp", request.sizes["pp"]),
    }
    return make_grid(spelt[token] for token in request.order if token in spelt)


def _stride_of_stages(grid: Grid) -> int:
    return next(axis.stride for axis in grid.axes if axis.name == "pp")


def _no_divisor(wanted: Mapping[str, int], stage: Mapping[str, int]) -> str:
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
