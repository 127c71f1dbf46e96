"""Experts are folded over tp, cp and the shards of dp, ep the fastest.

Source: ParallelDims of torchtitan, whose sparse mesh is pp, dp_replicate, efsdp, ep.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ranktable.layout.errors import LayoutError
from ranktable.layout.experts.experts import Experts, fixed_etp, must_divide
from ranktable.layout.grid import make_grid
from ranktable.layout.sizes import factors
from ranktable.layout.view import make_view

if TYPE_CHECKING:
    from ranktable.layout.experts.experts import Request


def folded(request: Request) -> Experts:
    """Return experts that take the place of tp, cp and dp together."""
    etp = fixed_etp(request, 1, "torchtitan leaves an expert whole")
    ep = request.ep or 1
    if ep == 1:
        # efsdp is the whole of a copy then, tp included, and never dp_replicate.
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
    """Raise LayoutError where the ranks to be folded are not a single run."""
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
