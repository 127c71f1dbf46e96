"""A layout that cannot be, in one sentence."""

from __future__ import annotations

from ranktable._error import Error


class LayoutError(Error, ValueError):
    """Sizes, an order or axes that make no layout.

    Its text is one sentence: what is wrong with every factor that plays a part, and the
    nearest choices that would be right.
    """
