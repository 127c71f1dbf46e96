"""Host lists in Slurm's notation: ``rack[1-2]n[08-10],login``; expand and fold them.

The order of a list is the order of ranks, so lists are neither sorted nor are names
dropped.

Source: SchedMD/slurm, src/common/hostlist.c.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_OUTSIDE = r"[!-Z\\^-~]*"  # names and the commas between them
DIGITS = "[0-9]{1,18}"
"""A number in brackets. Slurm folds names such as gpu2023010001, and considers two
different numbers of 20 digits equal (Slurm 22.05)."""
_RANGES = f"{DIGITS}(?:-{DIGITS})?"
# Every repetition begins with a different character, so nothing is tried twice.
_LIST = re.compile(rf"{_OUTSIDE}(?:\[{_RANGES}(?:,{_RANGES})*\]{_OUTSIDE})*")
_NUMBER = re.compile(rf"\[({DIGITS})\]")
_LIST_OF_NUMBERS = re.compile(rf"{_OUTSIDE}(?:\[{DIGITS}\]{_OUTSIDE})*")


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
    # Some programs write brackets for every host; around one number they mean nothing.
    if _LIST_OF_NUMBERS.fullmatch(text):
        hosts = _within_limits(text.replace("[", "").replace("]", "").split(","))
    elif _LIST.fullmatch(text):
        hosts = _expand("".join(_NUMBER.split(text)))
    else:
        hosts = None
    if hosts is None:
        check_list(text)
        raise AssertionError(text)  # _expand and check_list accept the same notation
    return hosts


def _expand(text: str) -> list[str] | None:
    """Return the hosts of a well-formed list, None if it exceeds a limit."""
    outside, *rest = text.replace("]", "[").split("[")
    hosts = outside.split(",")
    room = MAX_HOSTS + text.count(",")  # empty items are counted too
    names, tail = [hosts.pop()], ""  # the names share the tail
    last, numbers = "", [""]
    for inside, after in zip(rest[::2], rest[1::2], strict=True):
        if inside != last:  # often the same bracket is repeated for each rack
            last, numbers = inside, _numbers(inside)
        suffix, comma, more = after.partition(",")
        if not numbers or len(names) * len(numbers) + len(hosts) > room:
            return None
        if len(names[0]) + len(tail) + len(suffix) > MAX_NAME:
            return None
        if len(numbers) == 1:
            tail += numbers[0] + suffix
        else:
            names = [f"{name}{tail}{number}" for name in names for number in numbers]
            tail = suffix
        if comma:
            hosts += _with_tail(names, tail)
            whole, _, begun = more.rpartition(",")
            if whole:
                hosts += whole.split(",")
            names, tail = [begun], ""
    return _within_limits(hosts + _with_tail(names, tail))


def _with_tail(names: list[str], tail: str) -> list[str]:
    return [name + tail for name in names] if tail else names


def _within_limits(hosts: list[str]) -> list[str] | None:
    """Return the hosts without empty ones, None if they exceed a limit."""
    found = list(filter(None, hosts))
    is_short = max(map(len, found), default=0) <= MAX_NAME
    return found if is_short and len(found) <= MAX_HOSTS else None


def _numbers(ranges: str) -> list[str]:
    """Return the numbers of a bracket as written, none if they exceed a limit."""
    if "," not in ranges:
        return _range(ranges)
    if "-" not in ranges:
        return ranges.split(",")
    numbers: list[str] = []
    for item in ranges.split(","):
        found = _range(item)
        if not found or len(numbers) > MAX_HOSTS:
            return []
        numbers += found
    return numbers


def _range(item: str) -> list[str]:
    low, _, high = item.partition("-")
    if not high or high == low:
        return [low]
    first, end = int(low), int(high) + 1
    if not 0 < end - first <= MAX_RANGE:
        return []
    if end - first == 2 and len(low) == len(high):
        return [low, high]
    if low[0] == "0":
        return [f"{number:0{len(low)}}" for number in range(first, end)]
    return list(map(str, range(first, end)))


MAX_RANGE = 1 << 16
"""Most hosts of one range; Slurm has the same limit."""

MAX_HOSTS = 1 << 20
"""Most hosts of a list; several brackets multiply, so a short text can mean many."""

MAX_NAME = 255
"""Most characters of a host; DNS allows 253."""

NAME = r"[!-+\--Z\\^-~]"
"""A character of a name: no blank, bracket, comma or control character."""

_MAX_SHOWN = 40
_PIECE = re.compile(rf"{NAME}+|\[[^\[\]]*\]|,")
_RANGE = re.compile(rf"({DIGITS})(?:-({DIGITS}))?")


def _pieces(text: str) -> Iterator[tuple[int, str]]:
    """Yield the names, brackets and commas of a list, each with its offset.

    Raises:
        ArgumentError: There is something else in the list.
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
        ArgumentError: For the first part that cannot be expanded, with its place.
    """
    hosts = count = length = 0
    for at, piece in _pieces(text):
        if piece == ",":
            hosts, count, length = hosts + count, 0, 0
        else:
            numbers, width = 1, len(piece)
            if piece.startswith("["):
                numbers, width = _check_ranges(text, at + 1, piece[1:-1])
            # If there are already too many, the product could have any number of
            # digits.
            count = min((count or 1) * numbers, MAX_HOSTS + 1)
            length += width
        if length > MAX_NAME:
            reason = f"a host has more than {MAX_NAME} characters"
            raise ArgumentError(reason, text=text, position=at)
        if hosts + count > MAX_HOSTS:
            raise _too_many(text, at)


def _check_ranges(text: str, start: int, ranges: str) -> tuple[int, int]:
    """Return how many numbers a bracket has, and the length of the longest.

    Args:
        text: The list.
        start: Offset of the ranges in it.
        ranges: The text between the brackets.

    Raises:
        ArgumentError: An item is not a range, counts down, or is too long.
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
        reason = f"{character!r} is not part of a host name"
    return ArgumentError(reason, text=text, position=at)


_HOST = re.compile(f"{NAME}{{1,{MAX_NAME}}}")
_DIGITS = re.compile(r"([0-9]{1,9})(?![0-9])")

_Folded = tuple[list[str], list[str], int]
"""Texts, the number or bracket after each but the last, index of the first bracket."""


@dataclass(slots=True)
class _HostRun:
    """Consecutive hosts that differ in one number, or consecutive such brackets.

    Attributes:
        first: The first of these hosts.
        texts: The texts around the numbers; one more than there are numbers.
        numbers: The numbers as written; at ``axis``, that of the last host.
        axis: Index of the number that differs, None if there is only one host.
        ranges: (first, count) of the numbers at the axis; first as written.
    """

    first: str | _Folded
    texts: list[str]
    numbers: list[str]
    axis: int | None = None
    ranges: list[tuple[str, int]] = field(default_factory=list)


def fold_hosts(hosts: Iterable[str]) -> str:
    """Return a list that expands to exactly these hosts in this order.

    Consecutive hosts that differ in one number share a bracket. Consecutive brackets
    that differ in one number further left are merged too. Time and length grow linearly
    with the number of hosts.

    >>> fold_hosts(["n1", "n2", "n3", "x", "r1n1", "r1n2", "r2n1", "r2n2"])
    'n[1-3],x,r[1-2]n[1-2]'

    Raises:
        ValueError: A host cannot be written: it is empty or too long, or has a bracket,
            a comma, a blank or a control character.
    """
    folded = _fold(hosts)
    # Each pass merges along one more number; names have few numbers.
    while True:
        merged = _merge(folded)
        if len(merged) == len(folded):
            return ",".join(
                item if isinstance(item, str) else _joined(item) for item in merged
            )
        folded = merged


def _fold(hosts: Iterable[str]) -> list[str | _Folded]:
    """Merge hosts that differ in one number."""
    folded: list[str | _Folded] = []
    run: _HostRun | None = None
    is_host, split = _HOST.fullmatch, _DIGITS.split
    for host in hosts:
        if not is_host(host):
            raise ValueError(f"{host!r} cannot be written in a host list")
        pieces = split(host)
        texts, numbers = pieces[::2], pieces[1::2]
        if run is None or texts != run.texts or not _extend(run, numbers):
            if run is not None:
                folded.append(_written(run))
            run = _HostRun(host, texts, numbers)
    if run is not None:
        folded.append(_written(run))
    return folded


def _merge(folded: Sequence[str | _Folded]) -> list[str | _Folded]:
    """Merge neighbours that differ in one number left of their brackets."""
    merged: list[str | _Folded] = []
    run: _HostRun | None = None
    for item in folded:
        if run is not None and not _extends(run, item):
            merged.append(_written(run))
            run = None
        if isinstance(item, str):  # already compared with its neighbours
            merged.append(item)
        elif run is None:
            run = _HostRun(item, item[0], item[1])
    if run is not None:
        merged.append(_written(run))
    return merged


def _extends(run: _HostRun, item: str | _Folded) -> bool:
    """Call ``_extend`` for numbers left of the first bracket only."""
    if isinstance(item, str):
        return False
    texts, fields, bracket = item
    return texts == run.texts and _extend(run, fields, bracket)


def _extend(run: _HostRun, numbers: list[str], end: int | None = None) -> bool:
    """Add numbers to a run if they differ from the last ones only at its axis.

    Args:
        run: The run.
        numbers: As many numbers as the run has.
        end: The axis must be less than this index; None for no limit.
    """
    axis = _one_difference(numbers, run.numbers)
    if (
        axis is None
        or run.axis not in (None, axis)
        or (end is not None and axis >= end)
    ):
        return False
    if run.axis is None:
        run.axis = axis
        run.ranges.append((run.numbers[axis], 1))
    number = numbers[axis]
    first, count = run.ranges[-1]
    follows = f"{int(first) + count:0{len(first)}}"
    if number == follows and count < MAX_RANGE:
        run.ranges[-1] = (first, count + 1)
    else:
        run.ranges.append((number, 1))
    run.numbers = numbers
    return True


def _one_difference(these: list[str], those: list[str]) -> int | None:
    """Return the index where two lists differ, None unless it is exactly one."""
    found = None
    for place, text in enumerate(these):
        if text != those[place]:
            if found is not None:
                return None
            found = place
    return found


def _written(run: _HostRun) -> str | _Folded:
    """Return a host that is alone in its run as it was, otherwise with a bracket."""
    if run.axis is None:
        return run.first
    fields = list(run.numbers)
    fields[run.axis] = f"[{','.join(_folded_range(*item) for item in run.ranges)}]"
    return run.texts, fields, run.axis


def _folded_range(first: str, count: int) -> str:
    last = f"{int(first) + count - 1:0{len(first)}}"
    return first if count == 1 else f"{first}-{last}"


def _joined(folded: _Folded) -> str:
    texts, fields, _ = folded
    pieces = [texts[0]]
    for number, text in zip(fields, texts[1:], strict=True):
        pieces += [number, text]
    return "".join(pieces)
