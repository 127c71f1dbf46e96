"""What happened to one rank or host by itself, and not because of another."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING

from ranktable.doctor import causes, rules
from ranktable.doctor.causes import ABORT, signal_of
from ranktable.doctor.ends import exits
from ranktable.doctor.explained import clarity, error_of, explained, is_of_process
from ranktable.doctor.failure import (
    GENERAL,
    HARD,
    OUTSIDE,
    SIGNAL,
    STATUS,
    TOLD,
    Failure,
    failure_of,
)
from ranktable.doctor.headlines import Cause, cause_of
from ranktable.doctor.identity import LOCAL_RANK_OF_FILE, MAX_RANKS
from ranktable.doctor.lines import launcher_of, voice_of
from ranktable.doctor.patterns import CONSEQUENCES, FATAL, Evidence
from ranktable.doctor.payload import root_of
from ranktable.doctor.repeats import names
from ranktable.doctor.times import CLEARLY_S, on_one_clock, seconds_between
from ranktable.doctor.waiting import behind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from ranktable.doctor.case import Case
    from ranktable.doctor.lines import LogEvent

SLACK_S = 300
"""How long after a failure others may still begin to wait."""

_SAYS_LITTLE = (
    "Read the last lines of the log of this process, and give it to doctor: a status "
    "says little. A program that raises ends with 1; SIGABRT is what C++ code that "
    "fails does, and a watchdog that waited in vain for another rank."
)


def failure_causes(case: Case, strongest: int = OUTSIDE) -> list[Cause]:
    """Return the failures that no other explains, the first one first.

    Args:
        case: The events.
        strongest: Leave out what says less than this.
    """
    has_waited = _waited_before(case)
    found = [one for one in _find(case) if not _is_apart(case, one, has_waited)]
    found = [one for one in explained(found) if one.strength <= strongest]
    if not found:
        return []
    best = min(one.strength for one in found)
    found = [one for one in found if one.strength == best]
    return _by_kind(case, _first_in_time(_waited_for(case, found)))


def _by_kind(case: Case, found: Iterable[Failure]) -> list[Cause]:
    """Return one cause for equal failures of several ranks."""
    by_kind: dict[object, list[Failure]] = defaultdict(list)
    told: dict[object, object] = {}
    for one in found:
        if one.kind == told.setdefault(_whose(one), one.kind):
            by_kind[one.kind].append(one)  # what else a rank says is the same again
    return [_cause(case, same) for same in by_kind.values()]


def _whose(one: Failure) -> object:
    """Return what failures have in common of which the first tells all.

    A process whose rank is not known says an error of its chip, or how it crashes, once
    more as it ends.
    """
    if one.rank is not None:
        return one.rule.code, one.rank
    said = one.event.fields
    if one.rule in (rules.ENDED, rules.SCHEDULER) and (said.keys() & {"pid", "pod"}):
        return one.rule.code, one.host, said.get("pid"), said.get("pod")
    is_error = one.event.kind is Evidence.FAULT and clarity(one) < 2
    is_crash = one.rule is rules.ENDED and one.event.kind is Evidence.EXCEPTION
    if is_crash and "pid" in one.event.fields:
        return one.rule.code, one.event.file, *voice_of(one.event)
    return (error_of(one), one.host, *voice_of(one.event)) if is_error else one.kind


def _cause(case: Case, same: Sequence[Failure]) -> Cause:
    first = same[0]
    ranks = {one.rank for one in same if one.rank is not None}
    if first.strength == STATUS and first.rule is rules.ENDED:
        what = first.what
        if ranks and not ranks & case.seen:
            their = "its" if len(ranks) == 1 else "their"
            what += f"; {their} own log was not given: it may have lost another rank"
        first = replace(first, what=what, advice=first.advice or _SAYS_LITTLE)
    may_be_guessed = first.rule is not rules.SCHEDULER
    may_be_guessed &= "since" not in first.event.fields
    if not ranks and first.host and may_be_guessed:
        ranks = _likely_on(case, first.host, first.event.fields.get("pid", ""))
    return cause_of(
        case, first.rule, ranks, first.what, [one.event for one in same],
        host=first.host if len({one.host for one in same}) == 1 else None,
        advice=first.advice,
    )  # fmt: skip


def _waited_for(case: Case, found: list[Failure]) -> list[Failure]:
    """Return those that others wait for, and that do not wait themselves, if any."""
    waited = case.once(_waited)
    found = [one for one in found if one.rank in waited] or found
    return [one for one in found if one.rank not in case.waiters] or found


def _first_in_time(found: list[Failure]) -> list[Failure]:
    """Leave out what clearly came later than another failure, by the clocks.

    An exception of several ranks is one failure; of statuses of hosts, the first is.
    """
    times = on_one_clock([one.event for one in found])
    timed = sorted(
        ((at, one) for at, one in zip(times, found, strict=True) if at is not None),
        key=itemgetter(0),
    )
    if not timed:
        return found
    first_s, first = timed[0]
    other_s = next((at for at, one in timed if one.kind != first.kind), math.inf)
    on_host_s = next((at for at, one in timed if one.host is not None), math.inf)

    def is_clearly_later(at: float | None, one: Failure) -> bool:
        before = first_s if one.kind != first.kind else other_s
        if one.strength == STATUS and one.host is not None:
            before = min(before, on_host_s)
        return at is not None and at - before > CLEARLY_S

    return [one for at, one in zip(times, found, strict=True)
            if not is_clearly_later(at, one)]  # fmt: skip


def _likely_on(case: Case, host: str, pid: str) -> set[int]:
    """Return the one rank of a host that can be meant, if only one can."""
    if case.ranks.has_process(pid):
        return set()  # of another rank, whose host has several names
    there = set(case.ranks.on_host(host)) | case.gaps(case.files_of_host[host])
    if case.without_log - there:
        there &= case.once(behind)  # it may be one whose log was not given
    for some in (there, there & case.once(behind), there - case.waiters):
        if len(some) == 1:
            return some
    return set()


def _find(case: Case) -> Iterator[Failure]:
    for kind, rule, what in (
        (Evidence.NODE, rules.NODE, "was lost by the scheduler"),
        (Evidence.SCHEDULER, rules.SCHEDULER, "was ended by the scheduler"),
        (Evidence.OOM, rules.HOST_MEMORY, "was killed by its host for memory"),
    ):
        for event in case.by_kind[kind]:
            if _is_kill_told_by_ray(case, event):
                continue
            said = " ".join(event.fields.get("what", "").split())
            text = f"{what}: {said}" if said and kind is not Evidence.OOM else what
            text = text if kind is Evidence.SCHEDULER else event.pattern.what or text
            strength = HARD if _is_joined(case, event) else SIGNAL
            strength = OUTSIDE if kind is Evidence.SCHEDULER else strength
            strength = SIGNAL if _is_below_exception(case, event) else strength
            one = failure_of(case, rule, text[:200], event, strength)
            child_of = case.children.get(event.fields.get("pid", ""))
            if one.rank is None and child_of is not None:
                what_of_child = "had a process killed by its host for memory"
                one = replace(one, rank=child_of, what=what_of_child)
            is_of_host = kind in (Evidence.NODE, Evidence.SCHEDULER)
            meaning = causes.meaning_of(said) if said else None
            if meaning and meaning.rule is rules.STORAGE:
                one = replace(one, advice=meaning.advice)
            yield replace(one, rank=None) if is_of_host else one
    for event in (*case.by_kind[Evidence.FAULT], *case.by_kind[Evidence.MEMORY]):
        yield from _errors(case, event)
    waited = {event.fields.get("pid", "") for kind in CONSEQUENCES
              for event in case.by_kind[kind]}  # fmt: skip
    aborted = {(event.file, event.fields.get("pid")): event.line
               for event in reversed(case.by_kind[Evidence.EXIT])
               if event.pattern.name == "openmpi-abort"}  # fmt: skip
    for event in case.by_kind[Evidence.EXCEPTION]:
        is_told = event.pattern.speaker == "ray" and (
            event.fields["pid"] in waited or case.ranks.speaker(event) in case.waiters
        )
        # What crashes below its abort does so as it ends.
        above = aborted.get((event.file, event.fields.get("pid")), event.line)
        is_told |= event.pattern.name == "signal-caught" and above < event.line
        is_told |= _is_torn_down(case, event)
        if not is_told:  # Ray tells what a process said that had lost another one
            yield from _exceptions(case, event)
    yield from exits(case)


def _is_kill_told_by_ray(case: Case, event: LogEvent) -> bool:
    """Whether a caller raises that Ray killed another process, which Ray tells too."""
    of_ray = "ray.exceptions.OutOfMemoryError"
    is_raised = event.fields.get("what", "").startswith(of_ray)
    return is_raised and any("what" not in e.fields for e in case.by_kind[Evidence.OOM])


def _is_torn_down(case: Case, event: LogEvent) -> bool:
    """Whether a process crashes below the line in which it lost another one.

    What it still uses is torn down then; and MPI ends all processes by what one says.
    """
    rank = case.ranks.speaker(event)
    if event.pattern.name == "signal-caught":
        kinds = Evidence.CLOSED, Evidence.EXCEPTION
        return any(case.has_above(event, kind, _is_error_of_mpi) for kind in kinds)
    lost = case.once(_first_lost).get((event.file, rank), event.line)
    is_of_cpp = rank is not None and event.pattern.name == "cpp-what"
    return is_of_cpp and lost < event.line


def _is_error_of_mpi(event: LogEvent) -> bool:
    return event.pattern.name.startswith("mpi-error")


def _first_lost(case: Case) -> dict[tuple[str, int | None], int]:
    """Return the first line of each log in which each rank lost another one."""
    return {
        (event.file, case.ranks.speaker(event)): event.line
        for event in sorted(
            case.by_kind[Evidence.CLOSED], key=lambda one: one.line, reverse=True
        )
    }


def _is_below_exception(case: Case, event: LogEvent) -> bool:
    """Whether a node without a name was lost below what a process raised.

    Ray marks a node as dead when its processes are ended, too.
    """
    is_nameless = event.kind is Evidence.NODE and case.ranks.host(event) is None
    return is_nameless and case.has_above(event, Evidence.EXCEPTION)


def _is_joined(case: Case, event: LogEvent) -> bool:
    """Whether a process that the kernel killed is of the job by more than its name.

    Somebody tells its id, or that a process was killed there, or waits for that host.
    """
    is_of_job = event.fields.get("pid") in case.pids
    if id(event) not in case.once(_kills) or is_of_job or case.once(_has_lost_child):
        return True
    host = case.ranks.host(event)
    there = set(case.ranks.on_host(host or ""))
    is_killed = bool(case.once(_hosts_of_killed) & {None, host})
    return is_killed or bool(there & case.once(_waited))


def _waited(case: Case) -> set[int]:
    """Return the ranks that others wait for."""
    return {peer for _, peer, _ in case.edges} | case.once(behind)


def _kills(case: Case) -> set[int]:
    return set(map(id, case.kills))


def _hosts_of_killed(case: Case) -> set[str | None]:
    """Return the hosts on which something ended a process that its launcher did not."""
    return {
        case.ranks.host(one) for one in case.by_kind[Evidence.EXIT]
        if signal_of(one) == "SIGKILL" and not case.was_closed(one)
    }  # fmt: skip


def _has_lost_child(case: Case) -> bool:
    """Whether a process raised that one that it had started was killed."""
    of_child = causes.data()["of_child"]["match"]
    raised = map(root_of, case.by_kind[Evidence.EXCEPTION])
    return any(re.search(of_child, root) for root in raised)


def _errors(case: Case, event: LogEvent) -> Iterator[Failure]:
    """Yield an error whose text has a meaning."""
    said = event.fields.get("what", "")
    text = re.sub(r"\s*\n\s*", " ", event.fields.get("raised") or said)
    if "xid" in event.fields:
        yield from _xid(case, event)
        return
    is_compared = case.once(_compared_by_nccl) and "raised" in event.fields
    if is_compared and re.search(_NCCL_REFUSED, text):
        return  # the exception of the call that NCCL found to differ
    meaning = causes.meaning_of(said) or causes.meaning_of(event.text)
    if meaning is None:
        strength = OUTSIDE if "since" in event.fields else TOLD
        one = failure_of(case, rules.FAULT, f"reported: {text[:200]}", event, strength)
        is_nameless = one.rank is None and event.pattern.speaker == "system"
        yield _claimed(case, one) if is_nameless else one
        return
    if meaning.of_class == "unclear" and _is_trap(case, event):
        return
    verb = "raised" if "raised" in event.fields else "reported:"
    told = f"{verb} {text[:200].rstrip(': ')}"
    told += f": {meaning.what}" if meaning.what else ""
    strength = HARD if meaning.of_class in ("chip", "chip memory") else TOLD
    strength = GENERAL if meaning.of_class == "unclear" else strength
    is_counted = "since" in event.fields  # up to now: what has a time comes first
    one = failure_of(
        case, meaning.rule, told, event, OUTSIDE if is_counted else strength
    )
    one = one if one.rank is not None or is_counted else _claimed(case, one)
    yield replace(one, advice=meaning.advice_for(f"{event.text} {said}"))


_NCCL_REFUSED = r"\binvalid usage\b|ncclInvalidUsage"


def _compared_by_nccl(case: Case) -> bool:
    """Whether NCCL says that two ranks call different operations."""
    events = case.by_kind[Evidence.MISMATCH]
    return any(event.pattern.name == "nccl-mismatch" for event in events)


def _is_trap(case: Case, event: LogEvent) -> bool:
    """Whether a kernel that had waited in vain ended itself, as DeepEP's do."""
    return case.has_above(event, Evidence.TIMEOUT, _is_of_kernel)


def _is_of_kernel(event: LogEvent) -> bool:
    return event.pattern.name == "deepep-trap"


def _xid(case: Case, event: LogEvent) -> Iterator[Failure]:
    number = event.number("xid")
    table = causes.data()["xid"]
    if number in table["follows"]:
        return
    what = f"has a chip or driver that failed: Xid {number}"
    what += f" of PCI {event.fields.get('bus', '?')}: {event.fields.get('what', '')}"
    strength = OUTSIDE if number in table["noted"] else HARD
    one = failure_of(case, rules.FAULT, what[:200], event, strength)
    if number in table["program"]:
        advice = causes.meaning_of("illegal memory access")
        what = what.replace(
            "has a chip or driver that failed", "made its driver report"
        )
        one = replace(one, what=what[:200], rule=rules.EXCEPTION, strength=TOLD,
                      advice=advice.advice if advice else None)  # fmt: skip
    yield one


def _exceptions(case: Case, event: LogEvent) -> Iterator[Failure]:
    """Yield an exception of a process's own."""
    root = root_of(event)
    is_end = root == _LEFT_THREADS and any(map(case.by_kind.get, _WAITS))
    if root and not is_end:
        is_vague = causes.is_general(root) or "handled" in event.fields
        strength = GENERAL if is_vague else TOLD
        is_raised = event.pattern.speaker != "system"
        says_why = is_raised or bool(event.pattern.advice)
        rule = rules.EXCEPTION if says_why else rules.ENDED
        verb = "raised" if is_raised else "ended:"
        one = failure_of(case, rule, f"{verb} {root[:160]}", event, strength)
        one = replace(one, advice=event.pattern.advice or None)
        yield one if one.rank is not None else _claimed(case, one)


_WAITS = Evidence.LINK, Evidence.ABSENT, Evidence.TIMEOUT, Evidence.EDGE
_LEFT_THREADS = "terminate called without an active exception"
"""What C++ says of a process that ends while its threads run, as after a wait."""


def _rank_that_ended(case: Case, event: LogEvent, one: Failure) -> int | None:
    """Return the rank of a process that ended.

    That is a task of srun, if it alone failed and srun ended others, and if what it
    said has no other name.
    """
    if len(ended := event.numbers("ended_ranks")) == 1:
        return ended[0]
    tasks = event.numbers("tasks")
    if event.pattern.speaker != "slurm" or len(tasks) != 1 or names(one):
        return case.ranks.speaker(event)
    others = [
        other
        for other in case.by_kind[Evidence.EXIT]
        if other is not event
        and other.pattern.speaker == "slurm"
        and other.file == event.file
    ]
    is_alone = bool(others) and all("exit" not in other.fields for other in others)
    limit = case.ranks.size if case.ranks.is_size_known else MAX_RANKS
    is_rank = tasks[0] < (limit or 0) and not case.ranks.are_tasks_agents
    return tasks[0] if is_alone and is_rank else None


def below_calls(case: Case) -> list[Cause]:
    """Return the exceptions out of calls to others, if nothing else is known."""
    events = [e for e in case.by_kind[Evidence.CLOSED] if "below_call" in e.fields]
    found = [one for event in events for one in _exceptions(case, event)]
    return _by_kind(case, _first_in_time(found))


def cut_causes(case: Case) -> list[Cause]:
    """Return the exceptions whose text is cut off, if nobody has lost another."""
    if any(case.by_kind[kind] for kind in CONSEQUENCES):
        return []
    found = [
        failure_of(case, rules.EXCEPTION, "raised an exception, and its log ends "
                   "before the text of it", event, GENERAL)
        for event in case.by_kind[Evidence.EXCEPTION]
        if not root_of(event) and "frame" in event.fields
        and not (case.ranks.speaker(event) is None
                 and causes.is_launcher(event.fields["frame"]))
    ]  # fmt: skip
    return _by_kind(case, found)


def apart_causes(case: Case, place: str) -> list[Cause]:
    """Return the connections that some ranks lost while the others lost the job's.

    Args:
        case: The events.
        place: ``by_program`` if the program lost it, ``by_call`` if a library did that
            may talk to a service or child as well as to the job.
    """
    events = [e for e in case.by_kind[Evidence.CLOSED] if e.fields.get("apart")]
    ranks = {case.ranks.speaker(event) for event in events}
    if None in ranks or not 0 < len(ranks) <= len(case.waiters - ranks):
        return []
    found = [one for event in events if event.fields["apart"] == place
             for one in _exceptions(case, event)]  # fmt: skip
    return _by_kind(case, _first_in_time(found))


def _claimed(case: Case, one: Failure) -> Failure:
    """Return an exception without a rank as that of the first process that failed.

    What aborts has a status of its own; others may abort as they have lost it.
    """
    is_abort = is_of_process(one.event)
    signal = "SIGSEGV" if "Segmentation fault" in one.what else ABORT
    failed = [
        event for event in case.by_kind[Evidence.EXIT]
        if (signal_of(event) == signal if is_abort
            else event.fields.get("exit") in ("1", "2")
            or event.pattern.name == "mpi-abort" or "ended_ranks" in event.fields)
    ]  # fmt: skip
    here = _root_first([event for event in failed if event.file == one.event.file])
    local_rank = LOCAL_RANK_OF_FILE.findall(one.event.file)[-1:]
    there = [
        event for event in failed if [event.fields.get("local_rank")] == local_rank
    ]
    by_mpi = [event for event in here if event.pattern.speaker == "mpi"]
    here = by_mpi if is_abort and len(by_mpi) == 1 else here  # its process says so too
    ranks = list(dict.fromkeys(_rank_that_ended(case, e, one) for e in here or there))
    is_of_many = all(event.pattern.name == "mpi-abort" for event in here)
    is_clear = len(ranks) == 1 or (here and not is_abort and not is_of_many)
    hosts = {case.ranks.host(event) for event in here}
    if ranks == [None] and one.host is None and len(hosts) == 1:
        one = replace(one, host=hosts.pop())
    if is_clear and ranks[0] is None and len(here) == 1:
        return _with_process(case, one, here[0])
    return replace(one, rank=ranks[0]) if is_clear else one


def _with_process(case: Case, one: Failure, ended: LogEvent) -> Failure:
    """Return the only error of a log with the process that alone ended with one.

    Its launcher tells that without a rank.
    """
    said = one.event.fields
    fatal = [event for kind in FATAL for event in case.by_kind[kind]
             if event.file == one.event.file
             and not causes.is_launcher(event.fields.get("frame", ""))]  # fmt: skip
    if fatal != [one.event] or any(said[n] != ended.fields.get(n) for n in names(one)):
        return one
    of_it = {n: text for n, text in ended.fields.items()
             if n in ("local_rank", "pid", "pod")}  # fmt: skip
    return replace(one, event=replace(one.event, fields={**of_it, **said}))


def _root_first(ended: list[LogEvent]) -> list[LogEvent]:
    """Return ends of processes, first what torchrun's first table calls the root."""
    if not ended or ended[0].pattern.name != "torchrun-failure":
        return ended
    table = launcher_of(ended[0].fields)
    return sorted(
        ended,
        key=lambda one: "first" not in one.fields or launcher_of(one.fields) != table,
    )


def _is_apart(case: Case, one: Failure, has_waited: Callable[[Failure], bool]) -> bool:
    """Whether its rank went on afterwards, or others had waited in vain before."""
    if one.rule is rules.SCHEDULER:
        # Ranks that lose each other below the end of a job do so because of it.
        is_waited = any(
            wait.event.kind not in (Evidence.CLOSED, Evidence.STATE)
            or wait.event.file != one.event.file
            or wait.event.line < one.event.line
            for wait in case.waits
        )
        is_waited |= bool(case.by_kind[Evidence.ABSENT])
        return is_waited or _follows_a_task(case, one.event)
    # A status alone may be that of a process that has lost one without a log.
    is_lost = one.strength == STATUS and bool(case.by_kind[Evidence.CLOSED])
    if is_lost or not case.waits or one.rule in (rules.NODE, rules.HOST_MEMORY):
        return is_lost and bool(case.without_log - case.claimed)
    if one.rank in case.waiters:
        return any(_is_other_time(one, event) for event in case.reports_of(one.rank))
    if one.strength <= TOLD:
        return False
    return has_waited(one)


def _waited_before(case: Case) -> Callable[[Failure], bool]:
    """Return what tells whether anybody had waited in vain before a failure.

    Who lost a peer did not: a process that ends is lost at once.
    """
    lost = set(case.speakers(Evidence.CLOSED))
    waits = [
        wait.event
        for wait in case.waits
        if wait.event.kind is Evidence.TIMEOUT and wait.rank not in lost
    ]
    times = on_one_clock(waits)
    first: dict[tuple[str, bool], LogEvent] = {}
    for event, at in sorted(zip(waits, times, strict=True), key=lambda e: e[0].line):
        first.setdefault((event.file, at is None), event)
    timed = [(at, event) for event, at in zip(waits, times, strict=True)
             if at is not None and "is_earliest" not in event.fields]  # fmt: skip
    earliest = min(timed, key=itemgetter(0), default=(0, None))[1]

    def has_waited(one: Failure) -> bool:
        if lost and one.strength == SIGNAL:
            return False  # a traceback has no time of its own, and may be much later
        there = (first.get((one.event.file, is_timed)) for is_timed in (True, False))
        return any(_came_before(wait, one.event) for wait in (earliest, *there) if wait)

    return has_waited


def _follows_a_task(case: Case, cancelled: LogEvent) -> bool:
    """Whether a step was cancelled without a reason below a task that failed by itself.

    That is what srun does with the others.
    """
    is_bare = "what" not in cancelled.fields
    return is_bare and case.has_above(cancelled, Evidence.EXIT, _is_exit_of_task)


def _is_exit_of_task(event: LogEvent) -> bool:
    return event.pattern.speaker == "slurm" and "exit" in event.fields


def _is_other_time(one: Failure, report: LogEvent) -> bool:
    """Whether a rank had reported before it failed, or waited much later."""
    if _came_before(report, one.event):
        return True
    gap = seconds_between(one.event, report)
    waited_s = (report.number("timeout_ms") or 0) / 1000
    return gap is not None and 0 < waited_s < gap - SLACK_S


def _came_before(first: LogEvent, second: LogEvent) -> bool:
    """Whether a line was written before another; lines of a file stand above clocks.

    What a launcher says of a process may stand far below: there its time counts.
    """
    gap = seconds_between(first, second)
    if second.kind is Evidence.EXIT and gap is not None:
        return gap > 1 and "is_earliest" not in first.fields
    return first.file == second.file and first.line < second.line
