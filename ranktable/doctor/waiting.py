"""Decide by who waits for whom: who waits in vain is the victim, not the cause."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from ranktable.doctor import causes, rules
from ranktable.doctor.absences import (
    absent,
    is_loopback,
    is_of_master,
    looks_at_home,
    master_at_home,
    not_reached,
    not_resolved,
    not_started,
    stalled,
    too_many,
)
from ranktable.doctor.calls import (
    minority,
    other_call,
    other_call_of_number,
    said_to_differ,
)
from ranktable.doctor.case import states_of, two_hosts
from ranktable.doctor.causes import ABORT, signal_of
from ranktable.doctor.headlines import Cause, cause_of, shortened
from ranktable.doctor.identity import MAX_AHEAD_ANYWHERE, OF_PAIRS
from ranktable.doctor.patterns import Evidence
from ranktable.doctor.payload import root_of
from ranktable.doctor.times import on_one_clock, seconds_between, seconds_of
from ranktable.schema.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ranktable.doctor.case import Case, Wait
    from ranktable.doctor.lines import LogEvent

    Edge = tuple[int, int, LogEvent]

MAX_AHEAD = 1024
"""Operations that a process can begin before those of its peers: a stream of CUDA has
room for so many. Numbers further apart belong to different communicators."""

MAX_NOTES = 3
"""Ranks that NCCL counted behind others and that are told as notes."""

LINK_TIMEOUT_S = 120
TASK_TIMEOUT_S = 1800
"""How long HCCL waits for a link and for a task, if no line says it."""


def waiting_causes(case: Case) -> list[Cause]:
    """Return what the first rule says that has an answer."""
    for rule in (
        stalled, too_many, master_at_home, not_reached, not_resolved, absent,
        not_started, _links, _heartbeats, _loopback, said_to_differ,
        other_call_of_number, _behind, _ends, _silent, _late, _lowest, other_call,
        _waits_for_itself, _circle, _first_operation, _hung, _unreached,
    ):  # fmt: skip
        found = list(rule(case))
        if found:
            return found
    return []


# What libraries saw of their links and peers


def _links(case: Case) -> Iterator[Cause]:
    """Yield the chip that many lose, or the link that two lose."""
    links = [
        edge
        for edge in case.edges
        if edge[2].kind is Evidence.LINK and len(case.ranks.peers(edge[2])) == 1
    ]
    targets = _num_waiters(links)
    if not targets:
        yield from _links_of_hosts(case)
        return
    most = max(targets.values())
    lost = {peer for peer, number in targets.items() if number == most}
    events = [event for _, peer, event in links if peer in lost]
    what = f"was lost by {counted(most, 'other rank')}"
    if most == 1:
        hosts = two_hosts(case, events[0])
        lost |= {one for one, peer, _ in links if peer in lost}
        what = "lost the link between them" + (f" ({hosts})" if hosts else "")
    yield cause_of(case, rules.LINK, lost, what, events)


def _links_of_hosts(case: Case) -> Iterator[Cause]:
    """Yield a link that broke if it is not known which ranks are at its ends."""
    events = case.by_kind[Evidence.LINK]
    for event in sorted(events, key=lambda one: one.pattern.name != "nccl-port-event"):
        hosts = two_hosts(case, event)
        rank = case.ranks.speaker(event)
        ends = f"between {hosts}" if " and " in hosts else f"to {hosts}"
        here = case.ranks.host(event)
        here = f" of {here}" if here and here != event.file else ""
        what = f"the link {ends} broke" if hosts else f"a link{here} broke"
        said = event.fields.get("what") or event.pattern.what
        said = f": {said}" if said else ""
        said += f" (reported by rank {rank})" if rank is not None else ""
        yield Cause(
            rule=rules.LINK,
            host=None if hosts else case.ranks.host(event),
            headline=what + said,
            evidence=shortened([event], case),
            advice=event.pattern.advice or None,
        )
        return


def _num_waiters(edges: Iterable[Edge]) -> Counter[int]:
    return Counter(peer for _, peer in {(waiter, peer) for waiter, peer, _ in edges})


def _heartbeats(case: Case) -> Iterator[Cause]:
    events = [event for event in case.by_kind[Evidence.HEARTBEAT]
              if (event.pattern.name != "torch-stuck"
                   or not case.by_kind[Evidence.TIMEOUT])
              and not _is_nameless_task(case, event)
              and not _waited_when_told_to_end(case, event)]  # fmt: skip
    yield from _accused(case, [*events, *_counted(case)[0]])


def _is_nameless_task(case: Case, event: LogEvent) -> bool:
    """Whether a kernel says that a process is stuck of which the rank is not known."""
    return event.pattern.name == "kernel-hung" and case.ranks.speaker(event) is None


def _hung(case: Case) -> Iterator[Cause]:
    """Yield the hosts with such processes, if nothing else tells a rank.

    Those that wait for a file server that is away are told by it.
    """
    away = {case.ranks.host(event) for event in case.by_kind[Evidence.HOST]
            if event.fields.get("state") in ("not responding", "lost")}  # fmt: skip
    events = [
        event
        for event in case.by_kind[Evidence.HEARTBEAT]
        if case.ranks.host(event) not in away
    ]
    yield from _accused(case, [one for one in events if _is_nameless_task(case, one)])


def _accused(case: Case, events: Sequence[LogEvent]) -> Iterator[Cause]:
    if not events:
        return
    best = min(map(_heartbeat_order, events))
    accused: dict[tuple[str, str, tuple[int, ...]], list[LogEvent]] = defaultdict(list)
    for event in events:
        if _heartbeat_order(event) == best:
            accused[_accused_by(case, event)].append(event)
    most = max(map(len, accused.values()))
    for (host, chip, ranks), same in accused.items():
        if len(same) == most:
            said, own = same[0].fields, same[0].pattern.what
            what = own if "raised" in said and own else said.get("what") or own
            text = f": {what}" if ranks or host else f"says: {what}"
            text = what if same[0].pattern.speaker == "kubernetes" else text
            text += f" on chip {chip}" if chip else ""
            yield cause_of(case, rules.LOST, ranks, text, same, host=host or None,
                           advice=same[0].pattern.advice or None)  # fmt: skip


def _counted(case: Case) -> tuple[list[LogEvent], list[LogEvent]]:
    """Return the lines of NCCL about ranks behind the others: that hang, that may work.

    Ranks of a healthy job are an operation apart at any time. One hangs if it stands at
    the same one in every status, or if others gave up waiting.
    """
    counted: dict[tuple[object, ...], list[LogEvent]] = defaultdict(list)
    number = 0
    for event in case.by_kind[Evidence.STATE]:
        said = event.fields
        number += "snapshot" in said
        if "launched" in said:
            place = case.ranks.speaker(event), said.get("group"), said.get("counted")
            counted[place].append(event)
    hang: list[LogEvent] = []
    work: list[LogEvent] = []
    for same in counted.values():
        last = same[-1]
        ahead = (last.number("of") or 0) - (last.number("launched") or 0)
        goes_on = len(same) < number or len({e.fields["launched"] for e in same}) > 1
        if number < 2 and not case.waiters:
            goes_on |= ahead <= 1 or bool(case.by_kind[Evidence.LIFE])
        goes_on |= ahead < 0  # it waits for those behind, which no line names
        (work if goes_on else hang).append(last)
    return hang, work


def counted_behind(case: Case) -> Iterator[str]:
    """Yield who may be behind the others, and may as well work."""
    for event in _counted(case)[1][:MAX_NOTES]:
        rank = case.ranks.speaker(event)
        who = "a rank" if rank is None else case.ranks.describe(rank)
        yield (
            f"{who} {event.fields['what']} ({event.file}:{event.line}); ranks that "
            "work are apart too: a second status of NCCL tells whether it goes on"
        )


def _waited_when_told_to_end(case: Case, event: LogEvent) -> bool:
    """Whether a process did not end at once after another one had failed.

    One that waits for the other in an operation does not react to a signal.
    """
    ended = {one.fields.get("pid") for one in case.by_kind[Evidence.EXIT]}
    return event.pattern.name == "torchrun-stuck" and bool(
        ended - {event.fields["pid"]}
    )


def _heartbeat_order(event: LogEvent) -> int:
    what = event.fields.get("what", "").lower()
    order = causes.data()["heartbeats"]["order"]
    found = (place for place, word in enumerate(order) if word in what)
    return next(found, len(order))


def _accused_by(case: Case, event: LogEvent) -> tuple[str, str, tuple[int, ...]]:
    """Return host and chip, if no rank is known to be there, and the ranks."""
    ranks = case.ranks.peers(event)
    if ranks or "peer_server" not in event.fields:
        speaker = case.ranks.speaker(event)
        return "", "", ranks or (() if speaker is None else (speaker,))
    return event.fields["peer_server"], event.fields.get("peer_device", ""), ()


def _loopback(case: Case) -> Iterator[Cause]:
    """Yield who was told a loopback address, or who told it if a line says that."""
    tellers = [
        event
        for event in case.by_kind[Evidence.IDENTITY]
        if is_loopback(event.fields.get("bootstrap", "")) or _fell_back(event)
    ]
    events = [
        event
        for event in case.by_kind[Evidence.EDGE]
        for name in ("peer_address", "peer_server")
        if is_loopback(event.fields.get(name, "")) and not is_of_master(event)
    ]
    events += _unconnected(case, is_told=any(map(_fell_back, tellers)))
    if not events:
        yield from _same_address(case)
        return
    here = {case.ranks.speaker(event) for event in tellers or events} - {None}
    ranks = {rank for rank in here if rank is not None}
    what = "got a loopback address from a peer"
    if tellers:
        what = "told the others a loopback address"
    host = case.ranks.host((tellers or events)[0])
    evidence = [*tellers[:2], *events]
    yield cause_of(case, rules.LOOPBACK, ranks, what, evidence, host=host)


def _fell_back(event: LogEvent) -> bool:
    return event.pattern.name == "gloo-fallback"


def _unconnected(case: Case, *, is_told: bool) -> list[LogEvent]:
    """Return what gloo did not connect for an unknown reason over a loopback address.

    On one host that address is right, and a peer may have ended.

    Args:
        case: The events.
        is_told: Whether gloo says that it took this address.
    """
    hosts = {case.ranks.host_of(rank) for rank in case.seen} - {None}
    if len(hosts) == 1:
        return []
    closed = (event for event in case.by_kind[Evidence.CLOSED]
              if event.pattern.name == "gloo-mesh-other")  # fmt: skip
    return [
        event
        for event in closed
        if is_told or (hosts and is_loopback(event.fields.get("peer_address", "")))
    ]


def _same_address(case: Case) -> Iterator[Cause]:
    """Yield the hosts that told one address, which others did not reach."""
    told: dict[tuple[str, str], dict[str, LogEvent]] = defaultdict(dict)
    for event in case.by_kind[Evidence.IDENTITY]:
        if {"host", "bootstrap"} <= event.fields.keys():
            place = event.fields["bootstrap"], event.fields["interface"]
            told[place].setdefault(event.fields["host"], event)
    wanted = {event.fields.get("peer_server") for event in case.by_kind[Evidence.EDGE]}
    for (address, interface), events in told.items():
        if len(events) > 1 and address in wanted:
            hosts = " and ".join(list(events)[:2])
            what = f"{hosts} told the others one address, {address} of {interface}"
            yield Cause(rule=rules.LOOPBACK, headline=what,
                        evidence=shortened(list(events.values()), case))  # fmt: skip


def _unreached(case: Case) -> Iterator[Cause]:
    """Yield a host that was not reached, if nothing says which rank is meant."""
    events = [
        event
        for event in case.by_kind[Evidence.EDGE]
        if event.fields.get("peer_server") or event.fields.get("peer_address")
    ]
    if events and not case.waits:
        if is_of_master(events[0]):
            yield looks_at_home(case, events)
            return
        said = events[0].fields
        host = said.get("peer_server") or said.get("peer_address") or ""
        at = f" at port {said['port']}" if "port" in said else ""
        why = f": {said['what']}" if said.get("what") else ""
        chips = {event.fields.get("peer_device", "") for event in events}
        chip = chips.pop() if len(chips) == 1 else ""
        where = f"(chip {chip}) " if chip.isdecimal() else ""
        what = f"{where}was not reached{at}{why}"
        advice = events[0].pattern.advice or None
        yield cause_of(
            case, rules.UNREACHABLE, (), what, events, host=host, advice=advice
        )


# Who is behind, silent or late


def behind(case: Case) -> set[int]:
    """Return the ranks that had not begun an operation in which others waited.

    The first report of a rank counts: who slept calls again later, and may then time
    out itself, at a higher number. Nobody is behind who waits in another group.
    """
    begun: dict[str, dict[int, int]] = defaultdict(dict)
    groups: dict[int, set[str]] = defaultdict(set)
    for wait in case.waits:
        groups[wait.rank].add(wait.group)
    for rank, event in states_of(case):
        enqueued, group = event.number("enqueued"), case.ranks.group(event)[0]
        if enqueued is not None and not groups[rank] - {"", group}:
            begun[group].setdefault(rank, enqueued)
    wanted: dict[str, dict[int, int]] = defaultdict(dict)
    late = _late_ranks(case)
    for (group, rank), wait in case.first_waits().items():
        if wait.seq is not None and rank not in late:
            wanted[group].setdefault(rank, wait.seq)
    accused: set[int] = set()
    for group, numbers in begun.items():
        waits = wanted.get(group) or wanted.get("", {})
        if not waits and len(wanted) == 1 and not group:
            (waits,) = wanted.values()
        for rank, enqueued in numbers.items():
            if any(
                seq > enqueued and numbers.get(other, seq) >= seq
                for other, seq in waits.items()
                if other != rank
            ):
                accused.add(rank)
    return accused


def _behind(case: Case) -> Iterator[Cause]:
    accused = behind(case)
    if accused:
        first: dict[int, LogEvent] = {}
        for rank, event in states_of(case):
            if rank in accused:
                first.setdefault(rank, event)
        done = max((event.number("done") or 0 for event in first.values()), default=0)
        what = "stopped answering" + (f" after operation {done}" if done else "")
        yield cause_of(case, rules.SILENT, accused, what, list(first.values()))


def _ends(case: Case) -> Iterator[Cause]:
    """Yield where the walk from every waiter ends: ranks that wait for nobody.

    While a job trains, one without a log may have waited for another one of these, or
    for one that is silent. Before that, who was not reached waits for nobody.
    """
    ends = {peer for _, peer, _ in case.edges} - case.waiters
    accused = case.suspects(ends) or (set() if case.waits else ends)
    unheard = case.without_log - accused
    if not accused or (case.waits and not accused & case.heard and unheard):
        return
    events = [event for _, peer, event in case.edges if peer in accused]
    is_covered = any(map(case.is_covered, accused))
    yield _silent_ranks(case, accused, events, is_covered=is_covered)


def _silent(case: Case) -> Iterator[Cause]:
    """Yield who has to take part and reports nothing, although its log was given.

    Nobody is, as long as it may as well be another one whose log was not given. If a
    peer has ended, its launcher may have ended the silent ones before they reported.
    """
    waits = map(case.ranks.speaker, case.by_kind[Evidence.TIMEOUT])
    if case.ranks.has_groups and None in waits:
        return  # anybody may have waited
    members = _missing_members(case)
    own = members & set(case.speakers(Evidence.UNKNOWN))  # errors that are not known
    accused = {rank for rank in own or case.suspects(members)
               if case.is_covered(rank) or rank in case.claimed}  # fmt: skip
    events = [wait.event for wait in case.waits] or case.by_kind[Evidence.CLOSED]
    accused -= case.closed if case.by_kind[Evidence.CLOSED] else set()
    unseen = accused - case.heard - case.gaps()
    if len(unseen) > 1:
        return
    others = case.without_log - accused - case.gaps()
    if others & members if case.ranks.is_size_known else others:
        return
    if members & case.apart or (not accused & case.seen and _differ(case)):
        return  # what was lost may be no part of the job, or all took part in one
    # Who aborted may have lost one that no log names.
    is_told = bool(case.claimed - accused) and not accused & case.aborted
    is_whole = case.ranks.is_size_known or is_told
    if case.by_kind[Evidence.CLOSED] and (len(accused) > 1 or not is_whole):
        return
    if accused and len(accused) <= len(case.waiters):
        yield _silent_ranks(case, accused, events, is_covered=True)


def _differ(case: Case) -> bool:
    """Whether ranks wait in different operations of a group: all took part in one."""
    numbers: dict[str, set[int | None]] = defaultdict(set)
    for (group, _), wait in case.first_waits().items():
        numbers[group].add(wait.seq)
    return any(len(found - {None}) > 1 for found in numbers.values())


def _silent_ranks(
    case: Case, accused: set[int], events: Sequence[LogEvent], *, is_covered: bool
) -> Cause:
    is_running = case.waits or case.by_kind[Evidence.CLOSED]
    rule = rules.SILENT if is_running else rules.NEVER_JOINED
    what = "stopped answering" if is_running else "was not reached"
    ended = [] if case.by_kind[Evidence.TIMEOUT] else _ends_of(case, accused)
    if ended:
        name = signal_of(ended[0]) or "SIGINT"
        return cause_of(
            case, rules.ENDED, accused, f"was ended by {name}", [*ended, *events[:2]],
            advice=_ADVICE_OF_SIGNALS.get(name),
        )  # fmt: skip
    if is_running and is_covered and not accused & case.seen:
        what = "reported nothing, although its neighbours did"
    if not is_covered:
        verb = "is" if len(accused) == 1 else "are"
        what = f"{verb} waited for; no log of {'it' if verb == 'is' else 'them'}"
        what += " was given"
    said = (*case.by_kind[Evidence.UNKNOWN], *case.by_kind[Evidence.EXCEPTION])
    own = [event for event in said if case.ranks.speaker(event) in accused]
    if own:
        text = root_of(own[-1]) or own[-1].text
        is_known = own[-1].kind is Evidence.EXCEPTION
        what += ", and raised " if is_known else " after an error that is not known: "
        what += text.strip()[:160]
    return cause_of(case, rule, accused, what, [*own[-1:], *events[:4]])


def _ends_of(case: Case, accused: set[int]) -> list[LogEvent]:
    """Return what launchers tell of signals that ended ranks, if not they sent them."""
    return [
        event for event in case.by_kind[Evidence.EXIT]
        if case.ranks.speaker(event) in accused and not case.was_closed(event)
        and (signal_of(event) not in (None, "SIGTERM")
             or event.fields.get("exit") == "-2")
    ]  # fmt: skip


_ADVICE_OF_SIGNALS = {
    ABORT: "Read the last lines of its log: C++ code that fails aborts, and says above "
    "why.",
    "SIGINT": "Look for who interrupted this process alone: Ctrl-C and launchers "
    "interrupt all of a job. A program may raise KeyboardInterrupt, too.",
}


def _missing_members(case: Case) -> set[int]:
    """Return the members of communicators that report nothing.

    Of a communicator whose members are not known, those that are missing among the
    ranks of one file.
    """
    reporters: dict[tuple[str, int | None], set[int]] = defaultdict(set)
    samples: dict[tuple[str, int | None], LogEvent] = {}
    said = [(wait.rank, wait.event) for wait in case.waits]
    said += [(rank, event) for event in case.by_kind[Evidence.CLOSED]
             if (rank := case.ranks.speaker(event)) is not None]  # fmt: skip
    for rank, event in said:
        group = case.ranks.group(event)
        reporters[group].add(rank)
        samples.setdefault(group, event)
    missing: set[int] = set()
    if not samples and not case.edges and case.waiters:
        missing = set(case.everyone() or case.seen | case.gaps())
    for group, event in samples.items():
        members = case.ranks.members(reporters[group], event)
        if members == case.ranks.everyone() and not case.ranks.is_size_known:
            members = frozenset(case.seen | case.gaps())
        missing |= members
    missing -= case.waiters
    rest = (case.everyone() or case.seen) - case.waiters
    if not missing and samples and len(rest) == 1 and len(case.waiters) > 1:
        return set(rest)  # whatever groups are waited in, all others do
    return missing


def _late(case: Case) -> Iterator[Cause]:
    """Yield the rank that reported after the others had given up."""
    if case.without_log - case.gaps() or case.by_kind[Evidence.CLOSED]:
        return  # all may have waited for one of these, or for one that has ended
    said = [(wait.rank, wait.event) for wait in case.waits]
    said = said or [(waiter, event) for waiter, _, event in case.edges]
    first = dict(reversed(said))
    limit_s = _timeout_s(case, said)
    times = [at for at in on_one_clock([*first.values()]) if at is not None]
    if not limit_s or len(times) < max(2, len(first)):
        return
    *_, last_but_one, last = sorted(times)
    if last - last_but_one > limit_s:
        rank = [*first][times.index(last)]
        what = "reported later than the others had waited"
        yield cause_of(case, rules.LATE, [rank], what, [first[rank]])


def _late_ranks(case: Case) -> set[int]:
    """Return who waited in vain after others had given up: in what follows then."""
    limit_s = _timeout_s(case, [(wait.rank, wait.event) for wait in case.waits[:1]])
    first = {wait.rank: wait.event for wait in reversed(case.waits)}
    begin = min(first.values(), key=lambda event: seconds_of(event) or 0, default=None)
    return {
        rank for rank, event in first.items()
        if limit_s and begin and (seconds_between(begin, event) or 0) > limit_s
    }  # fmt: skip


def _timeout_s(case: Case, said: Sequence[tuple[int, LogEvent]]) -> float:
    """Return how long ranks wait: by their lines, HCCL's settings or its defaults."""
    if not said:
        return 0
    _, event = said[0]
    told = (event.number("timeout_ms") or 0) / 1000 or event.number("timeout_s")
    if told or event.pattern.speaker != "hccl":
        return told or 0
    is_link = event.kind is Evidence.EDGE
    name = "CONNECT" if is_link else "EXEC"
    for other in case.by_kind[Evidence.IDENTITY]:
        if other.fields.get("variable") == name:
            return other.number("timeout_s") or 0
    return LINK_TIMEOUT_S if is_link else TASK_TIMEOUT_S


def _lowest(case: Case) -> Iterator[Cause]:
    """Yield the ranks that waited in an earlier operation than the others."""
    lost = set(case.speakers(Evidence.CLOSED))  # what they lost tells no order
    by_group: dict[str, dict[int, Wait]] = defaultdict(dict)
    lost |= _late_ranks(case)
    for (group, rank), wait in case.first_waits().items():
        is_of_all = wait.seq is not None and not wait.op.startswith(OF_PAIRS)
        if is_of_all and rank not in lost:
            by_group[group][rank] = wait
    for group, waits in by_group.items():
        lowest = min(wait.seq or 0 for wait in waits.values())
        slow = [rank for rank, wait in waits.items() if wait.seq == lowest]
        ahead = max(wait.seq or 0 for wait in waits.values()) - lowest
        is_of_torch = waits[slow[0]].event.pattern.speaker == "torch"
        if is_of_torch and ahead > (MAX_AHEAD if group else MAX_AHEAD_ANYWHERE):
            continue
        # Without clocks, those ahead may have called when the others had given up;
        # before torch 2.2, they may wait in another group of the same ranks.
        is_sure = not is_of_torch or all(
            seconds_of(wait.event) is not None
            and (group or "rank" in wait.event.fields)
            for wait in waits.values()
        )
        if not (is_sure and ahead):
            continue
        calls = {rank: f"{wait.op} {wait.seq}" for rank, wait in waits.items()}
        if {waits[r].op for r in slow}.isdisjoint(
            waits[r].op for r in waits if r not in slow
        ):
            yield from minority(case, calls)
        else:
            events = [waits[rank].event for rank in slow]
            yield cause_of(case, rules.SILENT, slow, f"is behind, at {lowest}", events)
        return


def _waits_for_itself(case: Case) -> Iterator[Cause]:
    """Yield who waits for its own stream while others wait for it."""
    targets = _num_waiters(case.edges)
    for event in case.by_kind[Evidence.EDGE]:
        rank = case.ranks.speaker(event)
        is_own = event.fields.get("group_peer") == "local"
        if is_own and rank is not None and rank in targets:
            what = "waits for itself, and others wait for it"
            yield cause_of(case, rules.SILENT, [rank], what, [event])
            return


def _circle(case: Case) -> Iterator[Cause]:
    """Yield the circle in which every walk over the waits ends."""
    follows = {waiter: peer for waiter, peer, _ in reversed(case.edges)}
    for start in sorted(follows):
        path: dict[int, None] = {}
        at = start
        while at in follows and at not in path:
            path[at] = None
            at = follows[at]
        if at in path:
            walked = list(path)
            circle = walked[walked.index(at) :]
            text = " -> ".join(map(str, (*circle, at)))
            what = f"wait for each other: {text}"
            events = [event for waiter, _, event in case.edges if waiter in circle]
            yield cause_of(case, rules.CIRCLE, circle, what, events)
            return


def _first_operation(case: Case) -> Iterator[Cause]:
    """Yield all ranks if none came through its first operation."""
    waits = {wait.rank: wait for wait in case.waits}
    if len(waits) > 1 and {wait.seq for wait in waits.values()} <= {0, 1}:
        what = f"all timed out in their first {case.waits[0].op or 'operation'}"
        events = [wait.event for wait in waits.values()]
        yield cause_of(case, rules.FIRST, waits, what, events)
