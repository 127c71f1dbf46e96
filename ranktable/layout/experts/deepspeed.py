"""Experts are spread over dp alone, so that the ranks of a tp group stay together.

Source: DeepSpeed, deepspeed/utils/groups.py. Its default takes neighbours in dp for the
experts (E+D); use_data_before_expert_parallel takes them for the copies (D+E).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.layout.experts.experts import (
    Experts,
    fixed_etp,
    must_divide,
    no_experts,
)
from ranktable.layout.grid import make_grid
from ranktable.layout.view import make_view

if TYPE_CHECKING:
    from ranktable.layout.experts.experts import Request


def in_lane(request: Request) -> Experts:
    """Return experts that split dp: ep before dp in the order is E+D, after it D+E."""
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
    # The groups of one lane of tp come first, then those of the next.
    counted = {
        one: (other, *(name for name in names if name not in ("ep", "edp")))
        for one, other in (("ep", "edp"), ("edp", "ep"))
    }
    view = make_view(make_grid(sizes), {"etp": ("tp",)}, counted)
    return Experts(ep=ep, etp=etp, axes=("ep", "edp"), view=view)
