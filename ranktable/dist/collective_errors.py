"""Errors that the functions of this package raise."""

from __future__ import annotations

from ranktable._error import Error


class DistError(Error, RuntimeError):
    """A collective cannot be done."""


class MismatchError(DistError):
    """The ranks of a group call different operations; raised on every rank."""


class UnsupportedError(DistError):
    """Neither one operation of the backend nor several give an exact result."""


class NotMemberError(DistError, ValueError):
    """This rank, or the root, is not in the group."""
