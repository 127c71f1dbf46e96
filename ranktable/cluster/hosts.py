"""Host lists in Slurm's notation: ``rack[1-2]n[08-10],login``.

The order of a list is the order of ranks, so it is kept in both directions: nothing is
sorted and nothing is dropped.

Source: SchedMD/slurm, src/common/hostlist.c.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from ranktable.cluster.argument import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MAX_RANGE = 1 << 16
"""Hosts of one range; Slurm's own limit."""

MAX_HOSTS = 1 << 20
"""Hosts of one list; brackets multiply, so that a short text can mean billions."""

# Blanks, brackets and commas end a name; a control character is no part of one.
_PIECE = re.compile(r"(?P<text>[!-+\--Z\\^-~]+)|\[(?P<ranges>[^\[\]]*)\]|(?P<comma>,)")
_NAME = r"[!-+\--Z\\^-~]*"
_ONE_HOST = re.compile(rf"({_NAME})(?:\[([0-9]{{1,9}})\]({_NAME}))?(?:,|\Z)")
"""An item of one host; long lists of these are what other programs write."""

_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_NUMBER = re.compile(r"([0-9]{1,9})(?![0-9])")


def expand_hosts(text: str) -> list[str]:
    """Return the hosts of a list, in its order.

    Args:
        text: Names with ranges in brackets, joined by commas: ``n[001-128],login``.
            A range counts up and is as wide as its low end; of several brackets the
            leftmost counts slowest. Empty items are skipped, as Slurm does.

    Raises:
        ArgumentError: The text is malformed, or names more than ``MAX_HOSTS`` hosts;
            the error shows the place.
    """
    hosts: list[str] = []
    parts: list[list[str]] = []
    at = 0
    while at < len(text):
        if not parts and (match := _ONE_HOST.match(text, at)) is not None:
            host = "".join(filter(None, match.groups()))
            if host and len(hosts) < MAX_HOSTS:
                hosts.append(host)
            elif host:
                raise _too_many(text, at)
            at = match.end()
            continue
        match = _PIECE.match(text, at)
        if match is None:
            raise _malformed(text, at)
        if match["comma"] is not None:
            _add(hosts, parts, text, at)
            parts = []
        elif match["text"] is not None:
            parts.append([match["text"]])
        else:
            parts.append(list(_numbers(text, match.start("ranges"), match["ranges"])))
        at = match.end()
    _add(hosts, parts, text, max(len(text) - 1, 0))
    return hosts


def first_host(text: str) -> str:
    """Return the first host of a list without building the others.

    Raises:
        ArgumentError: The first item is malformed, or there is none.
    """
    parts: list[str] = []
    at = 0
    while at < len(text):
        match = _PIECE.match(text, at)
        if match is None:
            raise _malformed(text, at)
        if match["comma"] is None:
            ranges = match["ranges"]
            if ranges is None:
                parts.append(match["text"])
            else:
                # A bracket begins with the low end of its first range.
                low = ranges.partition(",")[0]
                parts.append(next(_numbers(text, match.start("ranges"), low)))
        elif parts:
            break
        at = match.end()
    if not parts:
        raise ArgumentError("there is no host in the list", text=text)
    return "".join(parts)


def _add(hosts: list[str], parts: list[list[str]], text: str, at: int) -> None:
    if not parts:
        return
    count = 1
    for part in parts:
        count *= len(part)
    if len(hosts) + count > MAX_HOSTS:
        raise _too_many(text, at)
    if len(parts) == 1:
        hosts += parts[0]
    else:
        hosts += map("".join, product(*parts))


def _too_many(text: str, at: int) -> ArgumentError:
    return ArgumentError(f"this is more than {MAX_HOSTS} hosts", text=text, position=at)


def _numbers(text: str, start: int, ranges: str) -> Iterator[str]:
    """Yield the numbers of one bracket, as they are written."""
    at = start
    count = 0
    for item in ranges.split(","):
        match = _RANGE.fullmatch(item)
        if match is None:
            reason = f"{item!r} is not a range" if item else "a range is missing here"
            raise ArgumentError(
                reason, text=text, position=at, hint="write, for example, [1-3,07]"
            )
        low, high = match[1], match[2] or match[1]
        first, last = int(low), int(high)
        if last < first:
            raise ArgumentError(f"the range {item} counts down", text=text, position=at)
        if last - first >= MAX_RANGE:
            raise ArgumentError(
                f"the range {item} has more than {MAX_RANGE} hosts",
                text=text,
                position=at,
            )
        count += last - first + 1
        if count > MAX_HOSTS:
            raise _too_many(text, at)
        width = len(low)
        if width == 1:
            yield from map(str, range(first, last + 1))
        else:
            for number in range(first, last + 1):
                yield f"{number:0{width}}"
        at += len(item) + 1


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


@dataclass(slots=True)
class _Run:
    """Consecutive hosts that differ in one number.

    Attributes:
        texts: What stands around the numbers; one more than there are numbers.
        numbers: The numbers as they are written; at ``axis`` the last one.
        axis: Index of the number that differs, None while there is one host.
        ranges: (first, count) of the numbers at the axis, first as it is written.
    """

    texts: list[str]
    numbers: list[str]
    axis: int | None
    ranges: list[tuple[str, int]]


def fold_hosts(hosts: Iterable[str]) -> str:
    """Return a list that expands to exactly these hosts, in this order.

    Consecutive hosts that differ in one number share a bracket, and consecutive
    brackets that differ in one number further left are put together too; time and
    length grow with the number of hosts.

    >>> fold_hosts(["n1", "n2", "n3", "x", "r1n1", "r1n2", "r2n1", "r2n2"])
    'n[1-3],x,r[1-2]n[1-2]'

    Raises:
        ValueError: A host cannot be written: it is empty, or has a bracket, a comma,
            a blank or a control character.
    """
    folded: list[tuple[list[str], list[str]]] = []
    run: _Run | None = None
    for host in hosts:
        texts, numbers = _split(host)
        if run is None or not _extend(run, texts, numbers):
            if run is not None:
                folded.append(_written(run))
            run = _Run(texts, numbers, None, [])
    if run is not None:
        folded.append(_written(run))
    # Each pass puts together what differs in one more place; names have few numbers.
    while True:
        merged = _merge(folded)
        if len(merged) == len(folded):
            return ",".join(map(_joined, merged))
        folded = merged


def _split(host: str) -> tuple[list[str], list[str]]:
    """Return the texts of a host and the numbers between them."""
    if not host or _PIECE.fullmatch(host) is None or "[" in host or host == ",":
        raise ValueError(f"{host!r} cannot be written in a host list")
    pieces = _NUMBER.split(host)
    return pieces[::2], pieces[1::2]


def _extend(run: _Run, texts: list[str], numbers: list[str]) -> bool:
    """Put a host into a run if it differs from the last one in the run's number."""
    if texts != run.texts:
        return False
    axis = _one_difference(numbers, run.numbers)
    if axis is None or run.axis not in (None, axis):
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
    """Return the place where two lists of one length differ, None unless it is one."""
    found = None
    for place, text in enumerate(these):
        if text != those[place]:
            if found is not None:
                return None
            found = place
    return found


def _written(run: _Run) -> tuple[list[str], list[str]]:
    """Return the texts and, in place of each number, the number or its bracket."""
    if run.axis is None:
        return run.texts, run.numbers
    fields = list(run.numbers)
    fields[run.axis] = f"[{','.join(_range(*item) for item in run.ranges)}]"
    return run.texts, fields


def _range(first: str, count: int) -> str:
    last = f"{int(first) + count - 1:0{len(first)}}"
    return first if count == 1 else f"{first}-{last}"


def _merge(
    folded: Sequence[tuple[list[str], list[str]]],
) -> list[tuple[list[str], list[str]]]:
    """Put together neighbours that differ in one number left of their brackets."""
    merged: list[tuple[list[str], list[str]]] = []
    run: _Run | None = None
    for texts, fields in folded:
        place = next((i for i, f in enumerate(fields) if f[0] == "["), None)
        if place is None:  # one host has been compared with its neighbours already
            if run is not None:
                merged.append(_written(run))
                run = None
            merged.append((texts, fields))
        elif run is None or not _extends(run, texts, fields, place):
            if run is not None:
                merged.append(_written(run))
            run = _Run(texts, fields, None, [])
    if run is not None:
        merged.append(_written(run))
    return merged


def _extends(run: _Run, texts: list[str], fields: list[str], bracket: int) -> bool:
    """As ``_extend``, where the number must stand left of the first bracket."""
    if len(fields) != len(run.numbers):
        return False
    axis = _one_difference(fields, run.numbers)
    if axis is None or axis >= bracket:
        return False
    return _extend(run, texts, fields)


def _joined(folded: tuple[list[str], list[str]]) -> str:
    texts, fields = folded
    pieces = [texts[0]]
    for field, text in zip(fields, texts[1:], strict=True):
        pieces += [field, text]
    return "".join(pieces)
