"""Host lists in Slurm's notation: ``rack[1-2]n[08-10],login``; expand and fold them.

The order of a list is the order of ranks, so lists are neither sorted nor are names
dropped.

Source: SchedMD/slurm, src/common/hostlist.c.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_RANGE = 1 << 16
"""Most hosts of one range; Slurm has the same limit."""

MAX_HOSTS = 1 << 20
"""Most hosts of a list; several brackets multiply, so a short text can mean many."""

MAX_NAME = 255
"""Most characters of a host; DNS allows 253."""

NAME = r"[!-+\--Z\\^-~]"
"""A character of a name: no blank, bracket, comma or control character."""

_PIECE = re.compile(rf"(?P<name>{NAME}+)|\[(?P<ranges>[^\[\]]*)\]|(?P<comma>,)")
# Slurm considers two different numbers of 20 digits equal (Slurm 22.05).
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_MAX_SHOWN = 40


def expand_hosts(text: str) -> list[str]:
    """Return the hosts of a list, in its order.

    Args:
        text: Names with ranges in brackets, separated by commas: ``n[001-128],login``.
            A range counts up and has the width of its first number. If there are
            several brackets, the leftmost changes slowest. Empty items are skipped, as
            in Slurm.

    Raises:
        ArgumentError: The text is malformed, names more than ``MAX_HOSTS`` hosts, or
            one of more than ``MAX_NAME`` characters; the error shows the place.
    """
    found: list[str] = []
    parts: list[list[str]] = []
    count = length = at = 0
    while at < len(text):
        match = _PIECE.match(text, at)
        if match is None:
            raise ArgumentError(_why(text, at), text=text, position=at)
        if match["comma"]:
            found += map("".join, product(*parts)) if parts else ()
            parts, count, length = [], 0, 0
        else:
            name = match["name"]
            part = [name] if name else _numbers(text, at + 1, match["ranges"])
            parts.append(part)
            count = (count or 1) * len(part)
            length += max(map(len, part))
            if len(found) + count > MAX_HOSTS:
                raise _too_many(text, at)
            if length > MAX_NAME:
                reason = f"a host has more than {MAX_NAME} characters"
                raise ArgumentError(reason, text=text, position=at)
        at = match.end()
    return found + (list(map("".join, product(*parts))) if parts else [])


def _numbers(text: str, at: int, ranges: str) -> list[str]:
    """Return the numbers in a bracket, whose ranges begin at an offset of the text."""
    found: list[str] = []
    for item in ranges.split(","):
        low, high = _ends(text, at, item)
        found += [f"{number:0{len(low)}}" for number in range(int(low), int(high) + 1)]
        if len(found) > MAX_HOSTS:
            raise _too_many(text, at)
        at += len(item) + 1
    return found


def _ends(text: str, at: int, item: str) -> tuple[str, str]:
    """Return the first and the last number of a range."""
    match = _RANGE.fullmatch(item)
    if match is None:
        shown = item if len(item) <= _MAX_SHOWN else item[:_MAX_SHOWN] + "..."
        reason = f"{shown!r} is not a range" if item else "a range is missing here"
        hint = "write, for example, [1-3,07]"
        raise ArgumentError(reason, text=text, position=at, hint=hint)
    low, high = match[1], match[2] or match[1]
    if int(high) < int(low):
        raise ArgumentError(f"the range {item} counts down", text=text, position=at)
    if int(high) - int(low) >= MAX_RANGE:
        reason = f"the range {item} has more than {MAX_RANGE} hosts"
        raise ArgumentError(reason, text=text, position=at)
    return low, high


def _too_many(text: str, at: int) -> ArgumentError:
    return ArgumentError(f"this is more than {MAX_HOSTS} hosts", text=text, position=at)


def _why(text: str, at: int) -> str:
    """Return why no piece of a list begins at an offset."""
    if text[at] == "]":
        return "this bracket was not opened"
    if text[at] == "[" and "[" in text[at + 1 :].partition("]")[0]:
        return "brackets cannot stand within brackets"
    if text[at] == "[":
        return "this bracket is not closed"
    if text[at].isspace():
        return "a host list has no blanks"
    return f"{text[at]!r} is not part of a host name"


_HOST = re.compile(f"{NAME}{{1,{MAX_NAME}}}")
_DIGITS = re.compile(r"([0-9]{1,9})(?![0-9])")


@dataclass(slots=True)
class _Run:
    """Consecutive hosts that differ in one number.

    Attributes:
        pieces: The last of them: texts, and a number after each text but the last.
        axis: Index of the number that differs, None if there is only one host.
        ranges: The first and the last number of each range at the axis.
    """

    pieces: list[str]
    axis: int | None = None
    ranges: list[list[str]] = field(default_factory=list)

    def extend(self, pieces: list[str]) -> bool:
        """Add a host, if it differs from the last one only at the axis."""
        if len(pieces) != len(self.pieces):
            return False
        other = [at for at, text in enumerate(pieces) if text != self.pieces[at]]
        if len(other) != 1 or not other[0] % 2 or self.axis not in (None, other[0]):
            return False
        (self.axis,) = other
        self.ranges = self.ranges or [[self.pieces[self.axis]] * 2]
        number, (first, last) = pieces[self.axis], self.ranges[-1]
        is_next = number == f"{int(last) + 1:0{len(first)}}"
        if is_next and int(number) - int(first) < MAX_RANGE:
            self.ranges[-1][1] = number
        else:
            self.ranges.append([number, number])
        self.pieces = pieces
        return True

    def __str__(self) -> str:
        """Return the hosts with a bracket at the axis."""
        pieces = list(self.pieces)
        if self.axis is not None:
            ends = (a if a == b else f"{a}-{b}" for a, b in self.ranges)
            pieces[self.axis] = f"[{','.join(ends)}]"
        return "".join(pieces)


def fold_hosts(hosts: Iterable[str]) -> str:
    """Return a list that expands to exactly these hosts in this order.

    Consecutive hosts that differ in one number share a bracket.

    >>> fold_hosts(["n1", "n2", "n3", "x", "n9.site2", "n10.site2"])
    'n[1-3],x,n[9-10].site2'

    Raises:
        ValueError: A host cannot be written: it is empty or too long, or has a bracket,
            a comma, a blank or a control character.
    """
    runs: list[_Run] = []
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise ValueError(f"{host!r} cannot be written in a host list")
        pieces = _DIGITS.split(host)
        if not runs or not runs[-1].extend(pieces):
            runs.append(_Run(pieces))
    return ",".join(map(str, runs))
