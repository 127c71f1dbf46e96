"""The base class of every public error."""

from __future__ import annotations


class Error(Exception):
    """Anything that ranktable refuses; every one is a ValueError or RuntimeError too.

    Catch it where all refusals are handled alike. Mistakes in the arguments of a call
    stay ``TypeError`` and ``ValueError``.
    """


Error.__module__ = "ranktable"  # where users find it
