"""Errors that the functions of this package raise."""

from __future__ import annotations

from ranktable._error import Error


class DistError(Error, RuntimeError):
    """A collective that cannot be done."""


class MismatchError(DistError):
    """The ranks of a group call different operations; raised on every rank."""


class UnsupportedError(DistError):
    """Neither the backend nor its operations together give an exact result."""


class NotMemberError(DistError, ValueError):
    """This rank, or the root, is not in the group."""
