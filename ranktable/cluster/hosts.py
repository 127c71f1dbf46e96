"""Host lists in Slurm's notation: ``rack[1-2]n[08-10],login``.

The order of a list is the order of ranks, so it is kept: nothing is sorted and nothing
is dropped.

Source: SchedMD/slurm, src/common/hostlist.c.
"""

from __future__ import annotations

import re

from ranktable.cluster.host_list_faults import (
    DIGITS,
    MAX_HOSTS,
    MAX_NAME,
    MAX_RANGE,
    check_list,
)

_OUTSIDE = r"[!-Z\\^-~]*"  # names and the commas between them
_RANGE = f"{DIGITS}(?:-{DIGITS})?"
# Every repetition begins with a character of its own, so that nothing is tried twice.
_LIST = re.compile(rf"{_OUTSIDE}(?:\[{_RANGE}(?:,{_RANGE})*\]{_OUTSIDE})*")
_NUMBER = re.compile(rf"\[({DIGITS})\]")
_LIST_OF_NUMBERS = re.compile(rf"{_OUTSIDE}(?:\[{DIGITS}\]{_OUTSIDE})*")


def expand_hosts(text: str) -> list[str]:
    """Return the hosts of a list, in its order.

    Args:
        text: Names with ranges in brackets, joined by commas: ``n[001-128],login``.
            A range counts up and is as wide as its low end; of several brackets the
            leftmost counts slowest. Empty items are skipped, as Slurm does.

    Raises:
        ArgumentError: The text is malformed, names more than ``MAX_HOSTS`` hosts, or
            one of more than ``MAX_NAME`` characters; the error shows the place.
    """
    # Other programs write a bracket for every host; around one number it means nothing.
    if _LIST_OF_NUMBERS.fullmatch(text):
        hosts = _within_limits(text.replace("[", "").replace("]", "").split(","))
    elif _LIST.fullmatch(text):
        hosts = _expand("".join(_NUMBER.split(text)))
    else:
        hosts = None
    if hosts is None:
        check_list(text)
        raise AssertionError(text)  # the two read the same notation
    return hosts


def _expand(text: str) -> list[str] | None:
    """Return the hosts of a well-formed list, None if one of its limits is passed."""
    outside, *rest = text.replace("]", "[").split("[")
    hosts = outside.split(",")
    room = MAX_HOSTS + text.count(",")  # empty items take some, too
    names, tail = [hosts.pop()], ""  # names have the tail in common
    last, numbers = "", [""]
    for inside, after in zip(rest[::2], rest[1::2], strict=True):
        if inside != last:  # racks repeat one bracket
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
    """Return hosts without the empty ones, None if they are too many or too long."""
    found = list(filter(None, hosts))
    is_short = max(map(len, found), default=0) <= MAX_NAME
    return found if is_short and len(found) <= MAX_HOSTS else None


def _numbers(ranges: str) -> list[str]:
    """Return the numbers of a bracket as written, none if a limit is passed."""
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
    if end - first == 2 and len(low) == len(high):  # noqa: PLR2004 - both are written
        return [low, high]
    if low[0] == "0":
        return [f"{number:0{len(low)}}" for number in range(first, end)]
    return list(map(str, range(first, end)))
