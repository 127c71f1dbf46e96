"""Expert parallel: five meanings of one size, which give different groups.

For 16 ranks with tp 2, ep 4 and pp 1 the first expert group is 0,1,2,3 or 0,2,4,6 or
0,4,8,12 or all sixteen, depending on whose ep it is.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ranktable.layout.errors import LayoutError
from ranktable.layout.experts.deepspeed import in_lane
from ranktable.layout.experts.megatron import second_grid
from ranktable.layout.experts.scaletorch import own_axis
from ranktable.layout.experts.torchtitan import folded
from ranktable.layout.experts.vllm import whole_stage
from ranktable.layout.sizes import INFERRED, factors

if TYPE_CHECKING:
    from collections.abc import Callable

    from ranktable.layout.experts.experts import Experts, Request

STYLES: tuple[tuple[str, Callable[[Request], Experts]], ...] = (
    ("megatron", second_grid),
    ("torchtitan", folded),
    ("deepspeed", in_lane),
    ("scaletorch", own_axis),
    ("vllm", whole_stage),
)
"""What ep means, under the name of the project whose meaning it is."""

STYLE_NAMES = tuple(name for name, _ in STYLES)

OWN_AXIS = "scaletorch"
"""The style in which ep is a factor of the world."""


def lay_out_experts(style: str, request: Request) -> Experts:
    """Return the experts in one of the styles.

    Raises:
        LayoutError: Their sizes fit no grid of this style.
    """
    if request.ep == INFERRED and style not in (OWN_AXIS, "vllm"):
        stage = factors(request.stage)
        raise LayoutError(
            f"ep is -1 and cannot be inferred with ep_style {style}, where every ep "
            f"that divides {stage} would do; nearest: ep=1 or "
            f"ep={prod(request.stage.values())}"
        )
    return dict(STYLES)[style](request)
