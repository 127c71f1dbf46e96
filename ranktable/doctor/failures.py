"""What happened to one rank or host by itself, and not because of another."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING

from ranktable.doctor import causes, rules
from ranktable.doctor.causes import ABORT, signal_of
from ranktable.doctor.headlines import Cause, cause_of
from ranktable.doctor.identity import LOCAL_RANK_OF_FILE, MAX_RANKS
from ranktable.doctor.lines import launcher_of, voice_of
from ranktable.doctor.patterns import CONSEQUENCES, FATAL, Evidence
from ranktable.doctor.payload import root_of
from ranktable.doctor.repeats import names, repeated
from ranktable.doctor.times import CLEARLY_S, on_one_clock, seconds_between
from ranktable.doctor.waiting import behind
from ranktable.schema.text import folded

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    from ranktable.doctor.case import Case
    from ranktable.doctor.lines import LogEvent
    from ranktable.schema.finding import Rule

KILL_S = 10
"""How long after a failure torchrun surely has seen it; its SIGKILL comes after 30."""

SLACK_S = 300
"""How long after a failure others may still begin to wait."""

_TELLING = (
    Evidence.EXCEPTION, Evidence.FAULT, Evidence.MEMORY, Evidence.MISMATCH,
    Evidence.LAUNCH, Evidence.START, Evidence.TABLE, Evidence.PORT, Evidence.SETTING,
    Evidence.LEFTOVER,
)  # fmt: skip
"""What a process says of its end; how it then ended tells nothing more."""

GENERAL_ERROR = "torch-unhandled-device-error"
"""Name of the message that an error of a chip has, whatever it is."""

ENDS_ALL = ("vllm-engine", "lightning-child")
"""Messages of launchers that end all their processes, and themselves, by SIGKILL."""

RAISED = ("1", "17")
"""Statuses of processes that raised something: by Python, and by torch_xla."""

LINES_BELOW = 3
"""How far below such a message a shell says that a process was killed."""

HARD, TOLD, SIGNAL, GENERAL, STATUS, OUTSIDE = range(6)
"""How much a failure says, the most first: memory and chips; exceptions that say what
happened; signals; exceptions of general types; exit statuses; and the scheduler."""


_SAYS_LITTLE = (
    "Read the last lines of the log of this process, and give it to doctor: a status "
    "says little. A program that raises ends with 1; SIGABRT is what C++ code that "
    "fails does, and a watchdog that waited in vain for another rank."
)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Something that happened to a process or host by itself."""

    rule: Rule
    rank: int | None
    host: str | None
    what: str
    event: LogEvent
    strength: int
    advice: str | None = None

    @cached_property
    def kind(self) -> tuple[str, str, str | None]:
        """What equal failures of several ranks have in common."""
        text = re.sub(r"0x[0-9a-f]+|\d+", "#", self.what)
        return self.rule.code, text, self.host if self.rank is None else None


def failure_causes(case: Case, strongest: int = OUTSIDE) -> list[Cause]:
    """Return the failures that no other explains, the first one first.

    Args:
        case: The events.
        strongest: Leave out what says less than this.
    """
    has_waited = _waited_before(case)
    found = [one for one in _find(case) if not _is_apart(case, one, has_waited)]
    found = [one for one in _explained(found) if one.strength <= strongest]
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
    is_error = one.event.kind is Evidence.FAULT and _clarity(one) < 2
    is_crash = one.rule is rules.ENDED and one.event.kind is Evidence.EXCEPTION
    if is_crash and "pid" in one.event.fields:
        return one.rule.code, one.event.file, *voice_of(one.event)
    return (_error_of(one), one.host, *voice_of(one.event)) if is_error else one.kind


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
            said = " ".join(event.fields.get("what", "").split())
            text = f"{what}: {said}" if said and kind is not Evidence.OOM else what
            text = text if kind is Evidence.SCHEDULER else event.pattern.what or text
            strength = HARD if _is_joined(case, event) else SIGNAL
            strength = OUTSIDE if kind is Evidence.SCHEDULER else strength
            strength = SIGNAL if _is_below_exception(case, event) else strength
            one = _failure(case, rule, text[:200], event, strength)
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
    yield from _exits(case)


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
    differs = {one.pattern.name for one in case.by_kind[Evidence.MISMATCH]}
    is_raised = "raised" in event.fields and re.search(_NCCL_REFUSED, text)
    if is_raised and "nccl-mismatch" in differs:
        return  # the exception of the call that NCCL found to differ
    meaning = causes.meaning_of(said) or causes.meaning_of(event.text)
    if meaning is None:
        strength = OUTSIDE if "since" in event.fields else TOLD
        one = _failure(case, rules.FAULT, f"reported: {text[:200]}", event, strength)
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
    one = _failure(case, meaning.rule, told, event, OUTSIDE if is_counted else strength)
    one = one if one.rank is not None or is_counted else _claimed(case, one)
    yield replace(one, advice=meaning.advice_for(f"{event.text} {said}"))


_NCCL_REFUSED = r"\binvalid usage\b|ncclInvalidUsage"


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
    one = _failure(case, rules.FAULT, what[:200], event, strength)
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
    is_end = root == _LEFT_THREADS and bool(case.by_kind[Evidence.LINK])
    if root and not is_end:
        is_vague = causes.is_general(root) or "handled" in event.fields
        strength = GENERAL if is_vague else TOLD
        is_raised = event.pattern.speaker != "system"
        says_why = is_raised or bool(event.pattern.advice)
        rule = rules.EXCEPTION if says_why else rules.ENDED
        verb = "raised" if is_raised else "ended:"
        one = _failure(case, rule, f"{verb} {root[:160]}", event, strength)
        one = replace(one, advice=event.pattern.advice or None)
        yield one if one.rank is not None else _claimed(case, one)


_LEFT_THREADS = "terminate called without an active exception"
"""What C++ says of a process that ends while its threads run, as when a link broke."""


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
        _failure(case, rules.EXCEPTION, "raised an exception, and its log ends before "
                 "the text of it", event, GENERAL)
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
    is_abort = _is_of_process(one.event)
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
    is_clear = len(ranks) == 1 or (here and not is_abort)
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
             if event.file == one.event.file]  # fmt: skip
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


def _failure(
    case: Case, rule: Rule, what: str, event: LogEvent, strength: int
) -> Failure:
    return Failure(rule=rule, rank=case.ranks.speaker(event), what=what, event=event,
                   host=case.ranks.host(event), strength=strength)  # fmt: skip


# How processes ended


_LOST = (
    Evidence.TIMEOUT, Evidence.CLOSED, Evidence.LINK, Evidence.ABSENT,
    Evidence.HEARTBEAT,
)  # fmt: skip
"""What is said by those that abort as they have waited in vain, or lost another."""


_LOST_OR_AWAITED = (Evidence.CLOSED, Evidence.EDGE, Evidence.ABSENT)
"""What a process without a name may say before it ends with a status."""


def _exits(case: Case) -> Iterator[Failure]:
    """Yield the processes that ended by themselves and did not say why."""
    stuck = {event.fields["pid"] for event in case.by_kind[Evidence.HEARTBEAT]
             if "pid" in event.fields}  # fmt: skip
    probed = [event for event in case.by_kind[Evidence.HEARTBEAT]
              if event.pattern.name == "pod-probe-failed"]  # fmt: skip
    kinds = (*_TELLING, *CONSEQUENCES, Evidence.HEARTBEAT)
    said = (event for kind in kinds for event in case.by_kind[kind])
    told = {case.ranks.speaker(e) for e in said if e.pattern.speaker != "torchrun"}
    told |= case.waiters
    differs = {e.file for e in case.by_kind[Evidence.MISMATCH]
               if case.ranks.speaker(e) is None}  # fmt: skip
    lost = {(e.file, case.ranks.host(e)) for kind in _LOST_OR_AWAITED
            for e in case.by_kind[kind] if case.ranks.speaker(e) is None}  # fmt: skip
    # mpirun ends all ranks when one fails: none had, as long as some still waited.
    absent = [e for e in case.by_kind[Evidence.ABSENT] if e.pattern.speaker == "store"]
    awaited = {e.file for e in absent if case.ranks.speaker(e) is None}
    first = _first_of_launchers(case)
    is_first_step = True
    for event in case.by_kind[Evidence.EXIT]:
        is_nameless = "pid" not in event.fields and case.ranks.speaker(event) is None
        there = {case.ranks.host(event)}
        there |= {None} if event.pattern.speaker == "slurm" else set()
        is_lost = is_nameless and any((event.file, host) in lost for host in there)
        is_lost |= event.pattern.speaker == "mpi" and event.file in awaited
        is_lost |= _is_told_by_rank(case, event)
        if event.fields.get("exit") in RAISED and (is_lost or event.file in differs):
            continue  # it raised what a line of this log says
        if event.pattern.speaker == "slurm":
            if is_first_step:
                yield from _slurm_exits(case, event, told)
            is_first_step = False
            continue
        for named in event.numbers("ended_ranks"):
            if named not in told:
                what = event.pattern.what
                one = _failure(case, rules.ENDED, what, event, STATUS)
                yield replace(one, rank=named)
        pid = event.fields.get("pid", "")
        is_told_to = case.was_closed(event)
        rank = case.ranks.speaker(event)
        is_told_to |= "ended_ranks" in event.fields or _follows_engine(case, event)
        is_told_to |= rank is None and event.pattern.speaker == "kernel"
        is_told_to |= any(_is_of_pod(one, event) for one in probed)
        is_told_to |= _is_ended_later(event, first)
        if is_told_to or pid in stuck or (rank is not None and rank in told):
            continue
        if rank is not None and _may_follow(case, event, rank):
            continue
        if event.fields.get("exit") == "1" and case.is_lost_elsewhere:
            continue  # it raised that as the others did, and its log does not have it
        yield from _exit(case, event, case.closes_in(event.file))


def _is_told_by_rank(case: Case, event: LogEvent) -> bool:
    """Whether the rank that a number on its host may be lost another, in this log.

    On the first host, both numbers are the same.
    """
    number = event.number("local_rank")
    if number is None or case.ranks.speaker(event) is not None:
        return False
    return any(
        one.file == event.file and case.ranks.speaker(one) == number
        for kind in _LOST_OR_AWAITED for one in case.by_kind[kind]
    )  # fmt: skip


def _first_of_launchers(case: Case) -> dict[tuple[str, str], LogEvent]:
    """Return the first process to fail in what each torchrun tells, by its times."""
    first: dict[tuple[str, str], LogEvent] = {}
    for event in case.by_kind[Evidence.EXIT]:
        if event.pattern.speaker == "torchrun" and "time" in event.fields:
            one = first.setdefault((event.file, launcher_of(event.fields)), event)
            if "root" in event.fields or (seconds_between(event, one) or 0) > 0:
                first[event.file, launcher_of(event.fields)] = event
    return first


def _is_ended_later(event: LogEvent, first: Mapping[tuple[str, str], LogEvent]) -> bool:
    """Whether torchrun itself ended a process after another one had failed.

    It kills those that do not end by SIGTERM. Of processes that failed at once, one
    that it calls the root cause may stand in a block that is cut: it stands for them.
    """
    one = first.get((event.file, launcher_of(event.fields)), event)
    is_later = (seconds_between(one, event) or 0) > KILL_S
    is_cut = "root" in one.fields and one is not event
    return is_cut or (is_later and signal_of(event) == "SIGKILL")


def _is_of_pod(probed: LogEvent, ended: LogEvent) -> bool:
    """Whether the kubelet ended a process, as nothing answered a probe of its pod."""
    pods = {event.fields["pod"] for event in (probed, ended) if "pod" in event.fields}
    is_signal = signal_of(ended) in ("SIGKILL", "SIGTERM")
    return is_signal and probed.file == ended.file and len(pods) < 2


def _may_follow(case: Case, event: LogEvent, rank: int) -> bool:
    """Whether a rank without a log may have ended because of one with a silent log.

    It may have lost or awaited that one, as others did: nobody knows what it said.
    """
    if rank in case.seen:
        return False
    if signal_of(event) == ABORT:  # a watchdog does so, whoever did not answer
        return bool(case.apart | case.quiet)
    if event.fields.get("exit") != "1":
        return False
    silent = case.silent
    is_elsewhere = not silent & case.speakers_of_file.get(event.file, set())
    return bool(case.apart) or (bool(silent) and (bool(case.waiters) or is_elsewhere))


def _follows_engine(case: Case, event: LogEvent) -> bool:
    """Whether a launcher ended all its processes just before a shell says so."""
    said = event.fields.keys() & {"signal_alone", "signal"}
    return bool(said) and event.pattern.speaker == "shell" and any(
        one.pattern.name in ENDS_ALL and one.file == event.file
        and 0 < event.line - one.line <= LINES_BELOW
        for one in (*case.by_kind[Evidence.CASCADE], *case.by_kind[Evidence.EXIT])
    )  # fmt: skip


def _exit(case: Case, event: LogEvent, is_told_who: bool) -> Iterator[Failure]:
    """Yield how one process ended, if that is a failure.

    Args:
        case: The events.
        event: The line.
        is_told_who: Whether its launcher says which processes it ended itself.
    """
    ended = causes.data()["ended"]
    status = event.fields.get("exit", "")
    name = signal_of(event)
    is_of_shell = event.pattern.speaker in ("shell", "system")
    is_said_by_it = is_of_shell and bool(event.fields.keys() & {"rank", "task"})
    if name == "SIGTERM" and (is_of_shell or event.pattern.speaker == "pals"):
        return  # what ended the others of a job that failed says so too
    if name == "SIGKILL" and (_is_aborted_above(case, event)
                              or _is_killed_after_a_wait(case, event)):  # fmt: skip
        return
    if name in ("SIGTERM", "SIGKILL") and _is_stopped_above(case, event):
        return
    if status in ended["stopped"]:
        is_first = event.pattern.name.startswith("horovod-first")
        if not is_first and (name is None or not is_told_who):
            return
    elif name == ABORT and any(map(case.by_kind.get, _LOST)) and not is_said_by_it:
        return  # what a watchdog does when it has waited in vain
    if status in ("0", "") and name is None and not event.pattern.what:
        return
    what = f"was ended by {name}" if name else f"ended with status {status}"
    what = event.pattern.what or what
    # Others may make it abort, and launchers send SIGTERM to those that are left.
    is_signal = name not in (None, "SIGTERM", ABORT)
    one = _failure(case, rules.ENDED, what, event, SIGNAL if is_signal else STATUS)
    advice = event.pattern.advice or (_RAISED_UNSEEN if status == "1" else "")
    yield replace(one, advice=advice or None)


_RAISED_UNSEEN = (
    "Status 1 is that of an exception whose traceback is not in these logs: give the "
    "log of that process too. torchrun keeps one of each rank with --redirects 3 and "
    "--log-dir, and has the traceback in its own report if main is below @record."
)


def _is_aborted_above(case: Case, event: LogEvent) -> bool:
    """Whether a process called MPI_Abort, by which mpirun kills all others."""
    is_of_mpi = event.pattern.speaker == "mpi"
    return is_of_mpi and case.has_above(event, Evidence.EXIT, _is_abort_of_mpi)


def _is_abort_of_mpi(event: LogEvent) -> bool:
    return event.pattern.name == "mpi-abort"


def _is_killed_after_a_wait(case: Case, event: LogEvent) -> bool:
    """Whether a process without a name was killed below those that waited in vain.

    A supervisor kills what is left of a server that did not start.
    """
    names = {"rank", "task", "pid", "pod", "host", "local_rank", "voice"}
    steps = [one.line for one in case.by_kind[Evidence.LIFE]
             if one.file == event.file and one.line < event.line]  # fmt: skip
    return not names & event.fields.keys() and any(
        one.file == event.file and max(steps, default=0) < one.line < event.line
        for kind in (Evidence.TIMEOUT, Evidence.ABSENT, Evidence.EDGE)
        for one in case.by_kind[kind]
    )


def _is_stopped_above(case: Case, event: LogEvent) -> bool:
    """Whether the scheduler had told why it ends the job, before a process ended."""
    return case.has_above(event, Evidence.SCHEDULER, _is_reason)


def _is_reason(event: LogEvent) -> bool:
    return "what" in event.fields and event.pattern.speaker != "kubernetes"


def _slurm_exits(
    case: Case, event: LogEvent, told: Collection[int | None]
) -> Iterator[Failure]:
    """Yield the tasks of srun's first line; all others are ended by srun."""
    signal = event.fields["signal"]
    tasks = event.numbers("tasks")
    is_of_one = len(tasks) == 1 and tasks[0] not in told and signal == "Killed"
    is_lost = case.waits or (signal == "Aborted" and any(map(case.by_kind.get, _LOST)))
    if is_lost and signal in ("Killed", "Terminated", "Aborted") and not is_of_one:
        return
    if signal in ("Killed", "Terminated") and _is_cancelled_above(case, event):
        return
    if "exit" in event.fields and _is_stopped_just_above(case, event):
        return
    rule = rules.HOST_MEMORY if signal == "Out Of Memory" else rules.ENDED
    said = signal[0].lower() + signal[1:]
    what = f"ended: {said}" if rule is rules.ENDED else "was killed for memory"
    strength = HARD if rule is rules.HOST_MEMORY else SIGNAL
    says_little = "exit" in event.fields or signal_of(event) == ABORT
    strength = STATUS if says_little else strength
    rank = tasks[0] if len(tasks) == 1 else None
    if len(tasks) > 1:
        what = f"{what} (tasks {folded(tasks)})"
    if case.ranks.are_tasks_agents and rank is not None:
        if "exit" in event.fields and _is_told_by_agent(case, event):
            return
        rank, what = None, f"{what} (task {rank}, which starts ranks)"
    if rank is not None and case.ranks.is_size_known and rank >= (case.ranks.size or 0):
        rank = None
    if (
        rank is not None
        and rule is rules.ENDED
        and (rank in told or _may_follow(case, event, rank))
    ):
        return  # it said itself why it ended, or may have lost one that is silent
    one = _failure(case, rule, what, event, strength)
    yield replace(one, rank=rank, host=case.ranks.host(event) or event.fields["host"])


def _is_told_by_agent(case: Case, event: LogEvent) -> bool:
    """Whether torchrun tells in the same log which of its processes ended, and how."""
    host = case.ranks.host(event)
    return any(
        one.pattern.speaker == "torchrun" and one.file == event.file
        and host in (None, case.ranks.host(one)) for one in case.by_kind[Evidence.EXIT]
    )  # fmt: skip


def _is_cancelled_above(case: Case, event: LogEvent) -> bool:
    """Whether the scheduler ended the step before a task of it ended."""
    return case.has_above(event, Evidence.SCHEDULER, _is_of_step)


def _is_of_step(event: LogEvent) -> bool:
    return "step" in event.fields


def _is_stopped_just_above(case: Case, event: LogEvent) -> bool:
    """Whether the scheduler told why it ends the job, and no step stands below that."""
    above = [
        one for one in (*case.by_kind[Evidence.SCHEDULER], *case.by_kind[Evidence.LIFE])
        if one.file == event.file and one.line < event.line
        and ("what" in one.fields or one.kind is Evidence.LIFE)
    ]  # fmt: skip
    last = max(above, key=lambda one: one.line, default=event)
    return last.kind is Evidence.SCHEDULER and last.pattern.speaker == "slurm"


# What explains what


def _explained(found: Sequence[Failure]) -> list[Failure]:
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
    for one in found:
        is_vague = one.rule is rules.HOST_MEMORY and one.rank is None
        if is_vague and (one.host in named or (one.host is None and is_named)):
            continue
        if is_told_again(one):
            continue
        if is_vague:
            kept.append(_joined_by_pid(one, killed))
        elif "xid" in one.event.fields and one.rank is None:
            kept.append(_joined_by_error(one, found))
        elif "rank" not in one.event.fields and _is_of_process(one.event):
            kept.append(_joined_by_signal(one, killed))
        elif is_explained(one):
            continue
        else:
            kept.append(one)
    return kept


def _is_of_process(event: LogEvent) -> bool:
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
    """Return what a driver says of a chip with the one rank there whose chip failed."""
    ranks = {one.rank for one in found if one.host == vague.host
             and one.event.kind is Evidence.FAULT and one.rank is not None}  # fmt: skip
    return replace(vague, rank=ranks.pop()) if len(ranks) == 1 else vague


def _error_of(one: Failure) -> tuple[str, str, str | None]:
    return one.event.file, one.rule.code, one.advice


def _clarity(one: Failure) -> int:
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
            hosts[_error_of(one), _clarity(one)].add(one.host)
            if one.event.pattern.name != GENERAL_ERROR:
                clear[one.event.file].add(one.rank)

    def is_told_again(one: Failure) -> bool:
        if one.event.kind is not Evidence.FAULT or one.rank is not None:
            return one.event.pattern.name == GENERAL_ERROR and bool(
                clear[one.event.file] & {one.rank, None}
            )
        if one.event.pattern.name == GENERAL_ERROR:
            return bool(clear[one.event.file])
        better = range(_clarity(one) + 1, 3)
        there = set().union(*(hosts[_error_of(one), clarity] for clarity in better))
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


def _is_apart(case: Case, one: Failure, has_waited: Callable[[Failure], bool]) -> bool:
    """Whether its rank went on afterwards, or others had waited in vain before."""
    if one.rule is rules.SCHEDULER:
        is_waited = bool(case.waits or case.by_kind[Evidence.ABSENT])
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
