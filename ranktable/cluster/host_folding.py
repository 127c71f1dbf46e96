"""Hosts as a list in Slurm's notation, in their order."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ranktable.cluster.host_list_faults import MAX_NAME, MAX_RANGE, NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_HOST = re.compile(f"{NAME}{{1,{MAX_NAME}}}")
_NUMBER = re.compile(r"([0-9]{1,9})(?![0-9])")

_Folded = tuple[list[str], list[str], int]
"""Texts, the number or bracket after each but the last, and the leftmost bracket."""


@dataclass(slots=True)
class _Run:
    """Consecutive hosts that differ in one number, or consecutive brackets that do.

    Attributes:
        first: The first of them.
        texts: What stands around the numbers; one more than there are numbers.
        numbers: The numbers as they are written; at ``axis`` the last one.
        axis: Index of the number that differs, None while there is one of them.
        ranges: (first, count) of the numbers at the axis, first as it is written.
    """

    first: str | _Folded
    texts: list[str]
    numbers: list[str]
    axis: int | None = None
    ranges: list[tuple[str, int]] = field(default_factory=list)


def fold_hosts(hosts: Iterable[str]) -> str:
    """Return a list that expands to exactly these hosts, in this order.

    Consecutive hosts that differ in one number share a bracket, and consecutive
    brackets that differ in one number further left are put together too; time and
    length grow with the number of hosts.

    >>> fold_hosts(["n1", "n2", "n3", "x", "r1n1", "r1n2", "r2n1", "r2n2"])
    'n[1-3],x,r[1-2]n[1-2]'

    Raises:
        ValueError: A host cannot be written: it is empty or too long, or has a bracket,
            a comma, a blank or a control character.
    """
    folded = _fold(hosts)
    # Each pass puts together what differs in one more place; names have few numbers.
    while True:
        merged = _merge(folded)
        if len(merged) == len(folded):
            return ",".join(
                item if isinstance(item, str) else _joined(item) for item in merged
            )
        folded = merged


def _fold(hosts: Iterable[str]) -> list[str | _Folded]:
    """Put hosts together that differ in one number."""
    folded: list[str | _Folded] = []
    run: _Run | None = None
    is_host, split = _HOST.fullmatch, _NUMBER.split
    for host in hosts:
        if not is_host(host):
            raise ValueError(f"{host!r} cannot be written in a host list")
        pieces = split(host)
        texts, numbers = pieces[::2], pieces[1::2]
        if run is None or texts != run.texts or not _extend(run, numbers):
            if run is not None:
                folded.append(_written(run))
            run = _Run(host, texts, numbers)
    if run is not None:
        folded.append(_written(run))
    return folded


def _merge(folded: Sequence[str | _Folded]) -> list[str | _Folded]:
    """Put together neighbours that differ in one number left of their brackets."""
    merged: list[str | _Folded] = []
    run: _Run | None = None
    for item in folded:
        if run is not None and not _extends(run, item):
            merged.append(_written(run))
            run = None
        if isinstance(item, str):  # it has been compared with its neighbours already
            merged.append(item)
        elif run is None:
            run = _Run(item, item[0], item[1])
    if run is not None:
        merged.append(_written(run))
    return merged


def _extends(run: _Run, item: str | _Folded) -> bool:
    """As ``_extend``, where the number must stand left of the first bracket."""
    if isinstance(item, str):
        return False
    texts, fields, bracket = item
    return texts == run.texts and _extend(run, fields, bracket)


def _extend(run: _Run, numbers: list[str], end: int | None = None) -> bool:
    """Put numbers into a run if they differ from its last ones at the run's axis.

    Args:
        run: The run.
        numbers: As many numbers as it has.
        end: The place that the axis must stand left of, None if it need not.
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
    """Return the place where two lists of one length differ, None unless it is one."""
    found = None
    for place, text in enumerate(these):
        if text != those[place]:
            if found is not None:
                return None
            found = place
    return found


def _written(run: _Run) -> str | _Folded:
    """Return what is alone in its run as it was, else the run with its bracket."""
    if run.axis is None:
        return run.first
    fields = list(run.numbers)
    fields[run.axis] = f"[{','.join(_range(*item) for item in run.ranges)}]"
    return run.texts, fields, run.axis


def _range(first: str, count: int) -> str:
    last = f"{int(first) + count - 1:0{len(first)}}"
    return first if count == 1 else f"{first}-{last}"


def _joined(folded: _Folded) -> str:
    texts, fields, _ = folded
    pieces = [texts[0]]
    for number, text in zip(fields, texts[1:], strict=True):
        pieces += [number, text]
    return "".join(pieces)
