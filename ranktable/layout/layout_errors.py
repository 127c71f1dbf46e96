"""The errors for a layout that is not possible and for a change that is not."""

from __future__ import annotations

from ranktable._error import Error


class LayoutError(Error, ValueError):
    """Sizes, an order or axes that are not a valid layout.

    Its text is one sentence with every factor that matters and the nearest valid
    choices.
    """


class ChangeError(Error, ValueError):
    """A node that does not exist or does not fit; its text is one sentence."""
