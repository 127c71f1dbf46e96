"""What explains what: ends that another line explains, and one failure told twice."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from ranktable.doctor import rules
from ranktable.doctor.failure import OUTSIDE, SIGNAL, TOLD, Failure
from ranktable.doctor.patterns import Evidence
from ranktable.doctor.repeats import repeated

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ranktable.doctor.lines import LogEvent

GENERAL_ERROR = "torch-unhandled-device-error"
"""Name of the message that an error of a chip has, whatever it is."""


def explained(found: Sequence[Failure]) -> list[Failure]:
    """Leave out ends of processes that another line explains; join host and rank."""
    for told_before in (_told_above, repeated):
        is_told = told_before(found)
        found = [one for one in found if not is_told(one)]
    kept: list[Failure] = []
    killed = [one for one in found if one.rule is rules.ENDED]
    of_memory = [one for one in found if one.rule is rules.HOST_MEMORY]
    named = {one.host for one in of_memory if one.rank is not None}
    is_named = any(one.host is not None or one.rank is not None for one in of_memory)
    is_told_again = _told_again(found)
    is_explained = _explained_by_reason(found)
    dead = {one.host for one in found if one.event.pattern.name == "ray-node"}
    for one in found:
        is_told_by_ray = one.event.pattern.name in (
            "ray-node-of-actor",
            "ray-node-of-task",
        )
        if is_told_by_ray and dead and one.host in {*dead, None}:
            continue
        is_vague = one.rule is rules.HOST_MEMORY and one.rank is None
        if is_vague and (one.host in named or (one.host is None and is_named)):
            continue
        if is_told_again(one):
            continue
        if is_vague:
            kept.append(_joined_by_pid(one, killed))
        elif "xid" in one.event.fields and one.rank is None:
            kept.append(_joined_by_error(one, found))
        elif "rank" not in one.event.fields and is_of_process(one.event):
            kept.append(_joined_by_signal(one, killed))
        elif is_explained(one):
            continue
        else:
            kept.append(one)
    return kept


def is_of_process(event: LogEvent) -> bool:
    """Whether a process says a line as it aborts, without a name of its own."""
    return event.pattern.speaker == "system" or "what():" in event.text


def _told_above(found: Iterable[Failure]) -> Callable[[Failure], bool]:
    """Return what tells whether a process ends in a form by what it said above it.

    What a kernel asserts stands above the error of its chip.
    """
    first: dict[tuple[str, int | None], int] = {}
    asserted: set[tuple[str, int | None]] = set()
    for one in found:
        if one.event.pattern.is_form or one.event.kind is Evidence.EXIT:
            continue
        for place in {(one.event.file, one.rank), (one.event.file, None)}:
            line = one.event.line
            first[place] = min(line, first.get(place, line))
            if "device-side assert" in one.what:
                asserted.add(place)

    def is_told_above(form: Failure) -> bool:
        place = form.event.file, form.rank
        is_of_kernel = "thread: [" in form.event.text and place in asserted
        is_above = first.get(place, form.event.line) < form.event.line
        return form.event.pattern.is_form and (is_above or is_of_kernel)

    return is_told_above


def _joined_by_pid(vague: Failure, killed: Iterable[Failure]) -> Failure:
    """Return what a host says of a process with the rank of that process."""
    pid = vague.event.fields.get("pid")
    same = [
        one
        for one in killed
        if ("SIGKILL" in one.what or "killed" in one.what)
        and (one.event.fields.get("pid") == pid or one.host == vague.host
             or None in (one.host, vague.host))
    ]  # fmt: skip
    ranks = {one.rank for one in same if one.rank is not None}
    if len(ranks) != 1:
        return vague
    return replace(vague, rank=ranks.pop(), host=vague.host or same[0].host)


def _joined_by_signal(vague: Failure, killed: Iterable[Failure]) -> Failure:
    """Return what a crash says with the rank of the one process that a signal ended."""
    ranks = {
        one.rank
        for one in killed
        if one.rank is not None and one.strength == SIGNAL
        and (one.host == vague.host or None in (one.host, vague.host))
    }  # fmt: skip
    return replace(vague, rank=ranks.pop()) if len(ranks) == 1 else vague


def _joined_by_error(vague: Failure, found: Iterable[Failure]) -> Failure:
    """Return what a driver says of a chip with the one rank there whose chip failed.

    A rank whose process is another one than the driver names saw the chip fail, too.
    """
    pid = vague.event.fields.get("pid")
    others = {one.rank for one in found
              if one.event.fields.get("pid", pid) != pid}  # fmt: skip
    ranks = {one.rank for one in found if one.host == vague.host
             and one.event.kind is Evidence.FAULT and one.rank is not None
             and (pid is None or one.rank not in others)}  # fmt: skip
    return replace(vague, rank=ranks.pop()) if len(ranks) == 1 else vague


def error_of(one: Failure) -> tuple[str, str, str | None]:
    """Return what the lines have in common that tell one error of a log."""
    return one.event.file, one.rule.code, one.advice


def clarity(one: Failure) -> int:
    """Return 2 if the rank of an error is known, 1 if its process, otherwise 0."""
    if one.rank is not None or one.event.pattern.speaker == "kernel":
        return 2  # each line of a kernel counts
    return int("pid" in one.event.fields)


def _told_again(found: Iterable[Failure]) -> Callable[[Failure], bool]:
    """Return what tells whether another line of a log has the rank or the meaning.

    NCCL warns of an error, and tells it once more below the exception of its rank.
    """
    hosts: dict[tuple[object, ...], set[str | None]] = defaultdict(set)
    clear: dict[str, set[int | None]] = defaultdict(set)
    for one in found:
        if one.event.kind is Evidence.FAULT:
            hosts[error_of(one), clarity(one)].add(one.host)
            if one.event.pattern.name != GENERAL_ERROR:
                clear[one.event.file].add(one.rank)

    def is_told_again(one: Failure) -> bool:
        if one.event.kind is not Evidence.FAULT or one.rank is not None:
            return one.event.pattern.name == GENERAL_ERROR and bool(
                clear[one.event.file] & {one.rank, None}
            )
        if one.event.pattern.name == GENERAL_ERROR:
            return bool(clear[one.event.file])
        better = range(clarity(one) + 1, 3)
        there = set().union(*(hosts[error_of(one), clarity] for clarity in better))
        return bool(there if one.host is None else there & {one.host, None})

    return is_told_again


def _explained_by_reason(found: Iterable[Failure]) -> Callable[[Failure], bool]:
    """Return what tells whether a line that says more tells why a process ended."""
    strongest: dict[int | None, int] = defaultdict(lambda: OUTSIDE)
    for one in found:
        strongest[one.rank] = min(one.strength, strongest[one.rank])

    def is_explained(ended: Failure) -> bool:
        strength = min(strongest[None], strongest[ended.rank])
        return ended.strength > max(TOLD, strength)

    return is_explained
