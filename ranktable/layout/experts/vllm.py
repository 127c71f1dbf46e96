"""All ranks of a stage are one expert group; its size is not free.

Source: vLLM's groups over (dp, pp, pcp, tp), and vllm-ascend's MC2 groups.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ranktable.layout.errors import LayoutError
from ranktable.layout.experts.experts import Experts, fixed_etp
from ranktable.layout.sizes import INFERRED, factors

if TYPE_CHECKING:
    from ranktable.layout.experts.experts import Request


def whole_stage(request: Request) -> Experts:
    """Return experts over tp, cp and dp together."""
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
    """Return how vLLM counts groups: along an axis, tp takes the place of that axis."""
    names = [axis.name for axis in request.grid.axes]
    return {
        inside: tuple(
            "tp" if name == inside else name for name in names if name != "tp"
        )
        for inside in ("cp", "pp", request.data[0])
    }
