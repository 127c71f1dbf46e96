"""The sizes of one expert style as another one counts them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ranktable.layout.errors import LayoutError
from ranktable.layout.experts import OWN_AXIS
from ranktable.layout.sizes import divisors, either, nearest

if TYPE_CHECKING:
    from ranktable.layout.resolve import Resolved


class Counted(NamedTuple):
    """The sizes that styles count in different ways; None for what follows."""

    dp: int
    ep: int | None
    etp: int | None


def count_as(style: str, resolved: Resolved, *, was: str) -> Counted:
    """Return the sizes of a layout as another style counts them.

    Where ep is an axis of its own, dp is the number of ranks for each expert; elsewhere
    they are part of it. The product stays what it is.

    Args:
        style: The new style.
        resolved: The layout.
        was: Its style.

    Raises:
        LayoutError: ep cannot become an axis of its own.
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
