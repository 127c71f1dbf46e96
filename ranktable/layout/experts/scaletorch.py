"""Experts are a factor of the world like any other.

Source: ProcessGroupManager of ScaleTorch, whose grid is DP, PP, CP, EP, TP; likewise a
mesh of JAX, where the expert axis is one of many.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ranktable.layout.experts.experts import Experts, fixed_etp

if TYPE_CHECKING:
    from ranktable.layout.experts.experts import Request


def own_axis(request: Request) -> Experts:
    """Return experts along an axis that the one grid has."""
    etp = fixed_etp(request, request.sizes["tp"], "an expert is split as tp")
    aliases = {"etp": ("tp",), "edp": request.data}
    return Experts(ep=request.sizes["ep"], etp=etp, aliases=aliases)
