"""Why something of a node could not be seen."""

from __future__ import annotations


class UnseenError(Exception):
    """Something that could not be seen; the text says why."""
