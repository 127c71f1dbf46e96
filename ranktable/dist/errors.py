"""Errors that the functions of this package raise."""

from __future__ import annotations

from ranktable._error import Error

__all__ = ["DistError", "MismatchError", "NotMemberError", "UnsupportedError"]


class DistError(Error, RuntimeError):
    """A collective cannot be done."""


class MismatchError(DistError):
    """The ranks of a group call different operations; raised on every rank."""


class UnsupportedError(DistError):
    """The backend cannot do this, and it cannot be made of what it can do."""


class NotMemberError(DistError, ValueError):
    """This rank, or the root, is not in the group."""


def failure(name: str, error: RuntimeError) -> DistError:
    """Return our error for one of torch, without its stack of C++ calls."""
    lines = str(error).splitlines()
    reason = lines[0] if lines else type(error).__name__
    return DistError(
        f"{name} failed: {reason}; another rank may have ended, or have called "
        "something else: RANKTABLE_DIST_CHECK=1 compares the calls of all ranks"
    )
