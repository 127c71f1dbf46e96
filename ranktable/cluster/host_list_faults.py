"""What is wrong with a host list, and where."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_RANGE = 1 << 16
"""Hosts of one range; Slurm's own limit."""

MAX_HOSTS = 1 << 20
"""Hosts of one list; brackets multiply, so that a short text can mean billions."""

MAX_NAME = 255
"""Characters of one host, where DNS has 253; a bracket repeats what is beside it."""

NAME = r"[!-+\--Z\\^-~]"
"""A character of a name: blanks, brackets, commas and control characters are none."""

DIGITS = "[0-9]{1,18}"
"""A number in a bracket; Slurm folds names such as gpu2023010001, and takes two numbers
of 20 digits for the same one (Slurm 22.05)."""

_MAX_SHOWN = 40
_PIECE = re.compile(rf"{NAME}+|\[[^\[\]]*\]|,")
_RANGE = re.compile(rf"({DIGITS})(?:-({DIGITS}))?")


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """Yield the names, brackets and commas of a list, each with its place.

    Raises:
        ArgumentError: Something else stands there.
    """
    at = 0
    while at < len(text):
        match = _PIECE.match(text, at)
        if match is None:
            raise _malformed(text, at)
        yield at, match[0]
        at = match.end()


def check_list(text: str) -> None:
    """Raise unless every part of a list can be expanded.

    Raises:
        ArgumentError: The first part that cannot, and its place.
    """
    hosts = count = length = 0
    for at, piece in _pieces(text):
        if piece == ",":
            hosts, count, length = hosts + count, 0, 0
        else:
            numbers, width = 1, len(piece)
            if piece.startswith("["):
                numbers, width = _check_ranges(text, at + 1, piece[1:-1])
            # Of what is too many already, the product may have any number of digits.
            count = min((count or 1) * numbers, MAX_HOSTS + 1)
            length += width
        if length > MAX_NAME:
            reason = f"a host has more than {MAX_NAME} characters"
            raise ArgumentError(reason, text=text, position=at)
        if hosts + count > MAX_HOSTS:
            raise _too_many(text, at)


def _check_ranges(text: str, start: int, ranges: str) -> tuple[int, int]:
    """Return how many numbers a bracket has, and the digits of the longest.

    Args:
        text: The list.
        start: Where the ranges stand in it.
        ranges: What is between the brackets.

    Raises:
        ArgumentError: One is no range, counts down, or is too long.
    """
    at, count, width = start, 0, 0
    for item in ranges.split(","):
        match = _RANGE.fullmatch(item)
        if match is None:
            shown = item if len(item) <= _MAX_SHOWN else item[:_MAX_SHOWN] + "..."
            reason = f"{shown!r} is not a range" if item else "a range is missing here"
            raise ArgumentError(
                reason, text=text, position=at, hint="write, for example, [1-3,07]"
            )
        low, high = match[1], match[2] or match[1]
        size = int(high) - int(low) + 1
        if size < 1:
            raise ArgumentError(f"the range {item} counts down", text=text, position=at)
        if size > MAX_RANGE:
            reason = f"the range {item} has more than {MAX_RANGE} hosts"
            raise ArgumentError(reason, text=text, position=at)
        count, width = count + size, max(width, len(low), len(high))
        if count > MAX_HOSTS:
            raise _too_many(text, at)
        at += len(item) + 1
    return count, width


def _too_many(text: str, at: int) -> ArgumentError:
    return ArgumentError(f"this is more than {MAX_HOSTS} hosts", text=text, position=at)


def _malformed(text: str, at: int) -> ArgumentError:
    character = text[at]
    if character == "]":
        reason = "this bracket was not opened"
    elif character == "[" and "[" in text[at + 1 :].partition("]")[0]:
        reason = "brackets cannot stand within brackets"
    elif character == "[":
        reason = "this bracket is not closed"
    elif character.isspace():
        reason = "a host list has no blanks"
    else:
        reason = f"{character!r} is no part of a host name"
    return ArgumentError(reason, text=text, position=at)
