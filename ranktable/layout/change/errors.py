"""A change of a table that cannot be made, in one sentence."""

from __future__ import annotations

from ranktable._error import Error


class ChangeError(Error, ValueError):
    """A node that is not there, or one that does not fit; nothing is changed."""
