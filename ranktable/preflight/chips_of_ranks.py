"""Which chips the processes of a job use together: two on one, none, idle ones."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from ranktable.preflight import rules
from ranktable.schema.finding import Severity
from ranktable.schema.text import counted, first_few, folded, named_ranks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.runtime.process_chip import ProcessChip
    from ranktable.schema.finding import Finding


class ChipUser(NamedTuple):
    """A process of the job with its chip.

    Attributes:
        rank: Its rank.
        host: Name of its host, for messages.
        machine: What tells its machine from others: containers have names of their own.
        chip: Its chip.
    """

    rank: int
    host: str
    machine: str
    chip: ProcessChip


def judge_chips(users: Sequence[ChipUser], *, is_whole: bool) -> Iterator[Finding]:
    """Yield what is wrong with the chips of all processes.

    Args:
        users: The processes.
        is_whole: Whether all of the job came, so that a chip can be called idle.
    """
    yield from _without_chip(users)
    by_machine: dict[str, list[ChipUser]] = defaultdict(list)
    for each in users:
        by_machine[each.machine].append(each)
    shared = [found for some in by_machine.values() for found in _shared(some)]
    if shared:
        message = f"several ranks use one chip: {first_few(shared, '; ')}"
        yield rules.SAME_CHIP.finding(None, message)
    elif is_whole:
        yield from _crowds(list(by_machine.values()))
        yield from _idle(list(by_machine.values()))


def why_not_compared(users: Sequence[ChipUser]) -> str:
    """Return why it is not known of all processes which chip they use, else nothing."""
    reasons: dict[str, list[int]] = defaultdict(list)
    for each in users:
        if each.chip.unknown and not _number(each):
            reasons[each.chip.unknown].append(each.rank)
    if not reasons:
        return ""
    why, ranks = max(reasons.items(), key=lambda item: len(item[1]))
    is_every = len(ranks) == len(users)
    return why if is_every else f"{named_ranks(sorted(set(ranks)))}: {why}"


def _without_chip(users: Sequence[ChipUser]) -> Iterator[Finding]:
    """Yield the ranks that find no chip, those of a doubt as a note."""
    certain = [each for each in users if each.chip.wrong and not each.chip.is_doubtful]
    lacking = [each for each in certain if each.chip.is_none] or certain
    doubtful = [each for each in users if each.chip.wrong and each.chip.is_doubtful]
    for some, severity in ((lacking, Severity.ERROR), (doubtful, Severity.NOTE)):
        if some:
            first = some[0]
            ranks = named_ranks(sorted({each.rank for each in some}))
            hosts = len({each.host for each in some})
            where = first.host if hosts == 1 else f"{hosts} hosts"
            is_one = len(some) == 1
            has = f"may lack a chip of {'its' if is_one else 'their'} own"
            if severity is Severity.ERROR:
                lack = "no chip" if first.chip.is_none else "too few chips"
                has = f"{'has' if is_one else 'have'} {lack}"
            message = f"{ranks} ({where}) {has}; rank {first.rank}: {first.chip.wrong}"
            yield rules.NO_CHIP.finding(
                None, message, hint=first.chip.hint, severity=severity
            )


def _number(user: ChipUser) -> str:
    """Return what a number alone says of a chip, where all show the same chips."""
    chip = user.chip
    is_said = chip.device_id is not None and chip.shown and not chip.isolated_by
    return f"{user.host} {chip.shown} {chip.device_id}" if is_said else ""


def _shared(users: Sequence[ChipUser]) -> Iterator[str]:
    """Yield the chips of a machine that several ranks use."""
    by_chip: dict[str, list[ChipUser]] = defaultdict(list)
    for each in users:
        if key := each.chip.identity or _number(each):
            by_chip[key].append(each)
    for some in by_chip.values():
        if len({each.rank for each in some}) > 1:
            number, identity = some[0].chip.device_id, some[0].chip.identity
            names = ("" if number is None else str(number), f"({identity})")
            name = " ".join(names[: 1 + bool(identity)]).strip()
            hosts = first_few(sorted({each.host for each in some}))
            ranks = folded(sorted({each.rank for each in some}))
            yield f"ranks {ranks} on chip {name} of {hosts}"


def _is_alike(users: Sequence[ChipUser]) -> bool:
    """Whether the processes of a machine can use the same chips."""
    first = users[0].chip
    return all(
        each.chip.usable == first.usable and not each.chip.isolated_by for each in users
    )


def _crowds(machines: Sequence[Sequence[ChipUser]]) -> Iterator[Finding]:
    """Yield the first machine with more processes than chips, if no rank says so."""
    for users in machines:
        count = len(users[0].chip.usable)
        is_said = any(each.chip.wrong and not each.chip.is_doubtful for each in users)
        if _is_alike(users) and 1 < count < len(users) and not is_said:
            yield rules.NO_CHIP.finding(
                None,
                f"{counted(len(users), 'process', 'processes')} run on "
                f"{users[0].host}, and {counted(count, 'chip')} can be used there",
                hint=f"start {counted(count, 'process', 'processes')} on this host",
            )
            return


def _idle(machines: Sequence[Sequence[ChipUser]]) -> Iterator[Finding]:
    """Yield the chips that no process uses, where all of them are known."""
    found: list[tuple[str, int, int, list[str]]] = []
    for users in machines:
        taken = {each.chip.identity for each in users}
        usable = users[0].chip.usable
        is_known = not any(each.chip.unknown for each in users)
        if _is_alike(users) and is_known and taken <= set(usable):
            idle = [each for each in usable if each not in taken]
            if idle:
                found.append((users[0].host, len(users), len(usable), idle))
    if found:
        host, processes, chips, idle = found[0]
        more = f"; and so on {len(found) - 1} more hosts" if len(found) > 1 else ""
        what = "chip is" if len(idle) == 1 else "chips are"
        yield rules.IDLE_CHIP.finding(
            None,
            f"{counted(len(idle), 'chip')} of {host} {what.split()[1]} used by no "
            f"rank ({first_few(idle)}): "
            f"{counted(processes, 'process', 'processes')} and "
            f"{counted(chips, 'chip')}{more}",
            hint=f"start {counted(chips, 'process', 'processes')} on this host, unless "
            "a process uses several chips",
        )
