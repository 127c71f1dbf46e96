"""Decide which rank, host or chip a job failed by; ties and gaps are said.

The rules, the first that fires wins, except that the first two are joined:

1. Launch: ranks, tables, ports and settings that contradict each other.
2. Events of one rank or host: killed for memory, a chip that failed, an exception.
   What others did after they waited in vain does not count.
3. Who was never there, then what HCCL and NCCL saw of their links and peers.
4. Waiting: numbers of operations before clocks, members that report nothing first.
5. Otherwise the cause is not in these logs.

Sequence numbers are compared within one communicator only, clocks within one host.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ranktable.doctor import rules
from ranktable.doctor.lines import numbers_in
from ranktable.doctor.patterns import Kind
from ranktable.schema.text import counted, folded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ranktable.doctor.identity import Ranks
    from ranktable.doctor.lines import Event
    from ranktable.schema.finding import Rule

MAX_EVIDENCE = 6
CONSEQUENCES = {Kind.CLOSED, Kind.CASCADE, Kind.TIMEOUT, Kind.ABSENT, Kind.EDGE}
"""What a process says that waits for another; its exception is no cause."""

_STOPPED = {"-15", "143", "130", "-2", "0"}
_SIGNALS = {
    "-4": "SIGILL", "-6": "SIGABRT", "-7": "SIGBUS", "-8": "SIGFPE", "-9": "SIGKILL",
    "-11": "SIGSEGV", "132": "SIGILL", "134": "SIGABRT", "135": "SIGBUS",
    "136": "SIGFPE", "137": "SIGKILL", "139": "SIGSEGV", "247": "SIGKILL",
}  # fmt: skip
_STOPS = re.compile(
    r"KeyboardInterrupt|SignalException|SystemExit|ChildFailedError|RendezvousClosed|"
    r"ActorDied|DistBackendError|DistNetworkError|DistStoreError|RayTaskError|"
    r"CalledProcessError|Engine core initialization failed|BrokenPipe"
)
"""Exceptions of those who start processes and of those who lose a peer."""


@dataclass(frozen=True, kw_only=True)
class Cause:
    """What the logs say why a job failed.

    Attributes:
        rule: The finding.
        ranks: The ranks that it accuses; empty if it is a host, or unknown.
        host: The host, None if it is not known, or they are several.
        headline: What happened, in one line.
        waiting: Who waits for them, and where; None if nobody was seen to.
        evidence: The lines it follows from, the most telling first.
    """

    rule: Rule
    ranks: tuple[int, ...] = ()
    host: str | None = None
    headline: str
    waiting: str | None = None
    evidence: tuple[Event, ...] = ()


@dataclass(frozen=True)
class Wait:
    """A rank that waited in vain.

    Attributes:
        rank: The rank.
        group: Name of the communicator, empty if the line does not say it.
        seq: Number of the operation in it, None if it is not known.
        op: Name and size of the operation, or what the program called.
        site: Where the program called it.
        event: The line.
    """

    rank: int
    group: str
    seq: int | None
    op: str
    site: str
    event: Event


class Case:
    """The events of a job, each with its speaker."""

    def __init__(self, events: Sequence[Event], ranks: Ranks) -> None:
        """Resolve the speakers."""
        self.ranks = ranks
        self.events = events
        self.by_kind: dict[Kind, list[Event]] = defaultdict(list)
        for event in events:
            self.by_kind[event.kind].append(event)
        self.waits = list(self._find_waits())
        self.waiters = {wait.rank for wait in self.waits}
        self.waiters.update(self.speakers(Kind.CLOSED, Kind.ABSENT))
        self.waiters.update(self._raised())
        self.edges = list(self._find_edges())

    def speakers(self, *kinds: Kind) -> Iterator[int]:
        """Yield the ranks that say lines of some kinds."""
        for kind in kinds:
            for event in self.by_kind[kind]:
                rank = self.ranks.speaker(event)
                if rank is not None:
                    yield rank

    def _raised(self) -> Iterator[int]:
        """Yield the ranks that ended as a program that raises, if nothing says why.

        Before torch 2.2 no line of a traceback has the rank. What waited in vain then
        has none either, and the status of the process has to tell who it was.
        """
        nameless = {
            event.file
            for kind in (Kind.TIMEOUT, Kind.CLOSED)
            for event in self.by_kind[kind]
            if self.ranks.speaker(event) is None
        }
        for event in self.by_kind[Kind.EXIT]:
            rank = self.ranks.speaker(event)
            has_raised = event.fields.get("exit") == "1" and event.file in nameless
            if rank is not None and has_raised:
                yield rank

    def _find_waits(self) -> Iterator[Wait]:
        calls = {
            (event.file, event.line): event for event in self.by_kind[Kind.EXCEPTION]
        }
        tasks: dict[tuple[str, str], Event] = {}
        for event in self.by_kind[Kind.TIMEOUT]:
            rank = self.ranks.speaker(event)
            if rank is None:
                continue
            call = calls.get((event.file, event.line))
            said = {**event.fields, **(call.fields if call else {})}
            process = event.file, event.fields.get("pid", str(rank))
            if "op" not in said and process in tasks:
                continue  # the line before says more of the same wait
            tasks[process] = event
            seq = event.number("seq")
            if seq is None:
                seq = event.number("index")
            op = _operation(said)
            yield Wait(rank, _group(event), seq, op, said.get("site", ""), event)

    def _find_edges(self) -> Iterator[tuple[int, int, Event]]:
        for event in (*self.by_kind[Kind.EDGE], *self.by_kind[Kind.LINK]):
            speaker = self.ranks.speaker(event)
            if speaker is not None:
                for peer in self.ranks.peers(event):
                    if peer != speaker:
                        yield speaker, peer, event

    def first(self, *kinds: Kind) -> Event | None:
        """Return the first event of some kinds."""
        return next((e for kind in kinds for e in self.by_kind[kind]), None)

    def waiting_for(self, culprits: Iterable[int]) -> str | None:
        """Return who waits for some ranks, and where."""
        accused = set(culprits)
        waits = [wait for wait in self.waits if wait.rank not in accused]
        waiters = sorted((self.waiters | {a for a, _, _ in self.edges}) - accused)
        if not waiters:
            return None
        who = f"{counted(len(waiters), 'rank')} ({folded(waiters)})"
        group = self.ranks.group_name(accused | set(waiters))
        verb = "waits" if len(waiters) == 1 else "wait"
        text = f"{who} {verb} for {'them' if len(accused) > 1 else 'it'}"
        common = Counter((wait.op, wait.seq) for wait in waits if wait.op)
        if common:
            (op, seq), _ = common.most_common(1)[0]
            number = f" {seq}" if seq is not None else ""
            text += f" in {op.partition(' of ')[0]}{number}"
        text = f"{text} of the {group}" if group else text
        return f"{text}{self._last_sign_of(accused)}" if len(accused) == 1 else text

    def _last_sign_of(self, accused: Iterable[int]) -> str:
        (rank,) = accused
        done = [event.number("done") for one, event in _states(self) if one == rank]
        when = self.ranks.last_time_of(rank)
        signs = [f"completed {done[-1]}"] if done else []
        signs += [f"logged nothing after {when}"] if when else []
        return f"; it {' and '.join(signs)}" if signs else ""


def decide(case: Case) -> list[Cause]:
    """Return the causes, the first one first; empty if nothing failed."""
    found = [*_launch(case), *_hard_events(case)]
    for rule in (_absent, _seen_by_others, _loopback, _waits):
        if found:
            break
        found = list(rule(case))
    is_failed = any(case.by_kind[kind] for kind in (*CONSEQUENCES, Kind.EXIT))
    if not found and is_failed:
        found = [_unknown(case)]
    return found


def _cause(
    case: Case,
    rule: Rule,
    ranks: Iterable[int],
    what: str,
    evidence: Sequence[Event],
    *,
    host: str | None = None,
) -> Cause:
    """Return a cause; ``what`` follows the names of the ranks or of the host."""
    accused = tuple(sorted(set(ranks)))
    hosts = {case.ranks.host_of(rank) for rank in accused}
    host = host or (hosts.pop() if len(hosts) == 1 else None)
    if len(accused) == 1:
        subject = case.ranks.describe(accused[0])
    elif accused:
        subject = f"ranks {folded(accused)}" + (f" ({host})" if host else "")
    else:
        subject = host or "a rank"
    return Cause(
        rule=rule,
        ranks=accused,
        host=host,
        headline=f"{subject}{what}" if what[0] == ":" else f"{subject} {what}",
        waiting=case.waiting_for(accused),
        evidence=_shortened(evidence, case),
    )


def _shortened(evidence: Sequence[Event], case: Case) -> tuple[Event, ...]:
    """Return the evidence, and a line of somebody who waits if there is room."""
    lines = {(event.file, event.line): event for event in evidence}
    for wait in case.waits[:1]:
        lines.setdefault((wait.event.file, wait.event.line), wait.event)
    return tuple(lines.values())[:MAX_EVIDENCE]


# Rule 1: what contradicts itself from the start


def _launch(case: Case) -> Iterator[Cause]:
    for event, text in case.ranks.disagreements(case.events):
        rank = event.number("rank")
        assert rank is not None
        yield _cause(case, rules.RUNS_ELSEWHERE, [rank], text, [event])
    codes = {event.fields.get("code"): event for event in case.by_kind[Kind.CASCADE]}
    for kind, by_code, rule in (
        (Kind.LAUNCH, (), rules.LAUNCH),
        (Kind.TABLE, ("EI0004", "EI0014", "EI0017"), rules.TABLE),
        (Kind.PORT, ("EI0019", "EI0020", "EJ0003"), rules.PORT),
        (Kind.SETTING, ("EI0001", "EI0008", "EI0016"), rules.SETTING),
        (Kind.LEFTOVER, ("EJ0001",), rules.LEFTOVER),
    ):
        found = case.by_kind[kind] or [codes[code] for code in by_code if code in codes]
        if found:
            yield _of_lines(case, rule, found)
    different = codes.get("EI0005")
    if different is not None:
        is_table = "ranktable" in different.fields.get("what", "")
        rule = rules.TABLE if is_table else rules.DIFFERENT
        yield _of_lines(case, rule, [different])


def _of_lines(case: Case, rule: Rule, events: Sequence[Event]) -> Cause:
    """Return the cause that lines name themselves."""
    first = events[0]
    speakers = {case.ranks.speaker(event) for event in events} - {None}
    named = {peer for event in events for peer in case.ranks.peers(event)}
    accused = sorted({rank for rank in speakers | named if rank is not None})
    what = first.fields.get("what") or first.pattern.what or rule.summary
    said = f": {what}" if accused or case.ranks.host(first) else f"says: {what}"
    if "port" in first.fields:
        said += f" (port {first.fields['port']})"
    return _cause(case, rule, accused, said, events, host=case.ranks.host(first))


# Rule 2: what happened to one rank or host by itself


@dataclass(frozen=True)
class _Hard:
    """Something that happened to a process or host by itself."""

    rule: Rule
    rank: int | None
    host: str | None
    what: str
    event: Event


def _hard_events(case: Case) -> Iterator[Cause]:
    found = [hard for hard in _find_hard(case) if not _is_after_the_waits(case, hard)]
    found = _explained(found)
    if not found:
        return
    best = min(_weight(hard.rule) for hard in found)
    found = [hard for hard in found if _weight(hard.rule) == best]
    waited = {peer for _, peer, _ in case.edges} | _behind(case)
    preferred = [hard for hard in found if hard.rank in waited] or found
    preferred = [hard for hard in preferred if hard.rank not in case.waiters] or (
        preferred
    )
    by_text: dict[tuple[str, str, str | None], list[_Hard]] = defaultdict(list)
    for hard in preferred:
        host = hard.host if hard.rank is None else None
        by_text[hard.rule.code, hard.what, host].append(hard)
    for same in by_text.values():
        ranks = {hard.rank for hard in same if hard.rank is not None}
        if not ranks and same[0].host:
            ranks = _likely_on(case, same[0].host)
        events = [hard.event for hard in same]
        host = same[0].host
        yield _cause(case, same[0].rule, ranks, same[0].what, events, host=host)


def _likely_on(case: Case, host: str) -> set[int]:
    """Return the one rank of a host that can be meant, if only one can."""
    there = set(case.ranks.on_host(host))
    for some in (there, there & _behind(case), there - case.waiters):
        if len(some) == 1:
            return some
    return set()


def _find_hard(case: Case) -> Iterator[_Hard]:
    for kind, rule, what in (
        (Kind.NODE, rules.NODE, "was lost by the scheduler"),
        (Kind.SCHEDULER, rules.SCHEDULER, "was ended by the scheduler"),
        (Kind.OOM, rules.HOST_MEMORY, "was killed by its host for memory"),
        (Kind.FAULT, rules.FAULT, "has a chip or driver that failed"),
        (Kind.MEMORY, rules.CHIP_MEMORY, "has no memory left on its chip"),
    ):
        for event in case.by_kind[kind]:
            said = event.fields.get("what", "")
            text = f"{what}: {said}" if said and kind is not Kind.OOM else what
            yield _hard(case, rule, text[:200], event)
    said_there = {
        (event.file, event.line)
        for kind in (*CONSEQUENCES, Kind.FAULT, Kind.MEMORY, Kind.MISMATCH, Kind.LAUNCH,
                     Kind.PORT, Kind.SETTING, Kind.TABLE)
        for event in case.by_kind[kind]
    }  # fmt: skip
    for event in case.by_kind[Kind.EXCEPTION]:
        what = event.fields.get("what", "")
        is_own = (event.file, event.line) not in said_there and not _STOPS.search(what)
        if what and is_own and "C10D" not in what:
            hard = _hard(case, rules.EXCEPTION, f"raised {what[:160]}", event)
            yield hard if hard.rank is not None else _claimed(case, hard)
    yield from _exits(case)


def _claimed(case: Case, hard: _Hard) -> _Hard:
    """Return an exception without a rank as that of the first process that failed."""
    for event in case.by_kind[Kind.EXIT]:
        if event.file == hard.event.file and event.fields.get("exit") == "1":
            return replace(hard, rank=case.ranks.speaker(event))
    return hard


def _hard(case: Case, rule: Rule, what: str, event: Event) -> _Hard:
    return _Hard(rule, case.ranks.speaker(event), case.ranks.host(event), what, event)


def _exits(case: Case) -> Iterator[_Hard]:
    """Yield the processes that ended by themselves and did not say why."""
    stuck = {event.fields["pid"] for event in case.by_kind[Kind.HEARTBEAT]
             if "pid" in event.fields}  # fmt: skip
    told = {*case.speakers(Kind.EXCEPTION, *CONSEQUENCES), *case.waiters}
    is_first_step = True
    for event in case.by_kind[Kind.EXIT]:
        if event.pattern.speaker == "slurm":
            if is_first_step:
                yield from _slurm_exits(case, event)
            is_first_step = False
            continue
        status, rank = event.fields.get("exit", ""), case.ranks.speaker(event)
        if status in _STOPPED or event.fields.get("pid") in stuck or rank in told:
            continue
        if status in ("-6", "134") and case.waits:
            continue  # what a watchdog does when it has waited in vain
        name = _SIGNALS.get(status)
        what = f"was ended by {name}" if name else f"ended with status {status}"
        yield _hard(case, rules.ENDED, what, event)


def _slurm_exits(case: Case, event: Event) -> Iterator[_Hard]:
    """Yield the tasks of srun's first line; all others are ended by srun."""
    signal = event.fields["signal"]
    if case.waits and signal in ("Killed", "Terminated", "Aborted"):
        return
    tasks = event.numbers("tasks")
    rule = rules.HOST_MEMORY if signal == "Out Of Memory" else rules.ENDED
    said = signal[0].lower() + signal[1:]
    what = f"ended: {said}" if rule is rules.ENDED else "was killed for memory"
    host = event.fields["host"]
    if len(tasks) != 1:
        yield _Hard(rule, None, host, what, event)
        return
    is_rank = case.ranks.size is None or tasks[0] < case.ranks.size
    yield _Hard(rule, tasks[0] if is_rank else None, host, what, event)


def _explained(found: Sequence[_Hard]) -> list[_Hard]:
    """Leave out ends of processes that another line explains; join host and rank."""
    kept: list[_Hard] = []
    killed = [hard for hard in found if hard.rule is rules.ENDED]
    for hard in found:
        if hard.rule is rules.HOST_MEMORY and hard.rank is None:
            pid = hard.event.fields.get("pid")
            same = [
                other
                for other in killed
                if "SIGKILL" in other.what
                and (other.event.fields.get("pid") == pid or other.host == hard.host
                     or hard.host is None)
            ]  # fmt: skip
            ranks = {other.rank for other in same}
            rank = ranks.pop() if len(ranks) == 1 else None
            host = hard.host or (same[0].host if rank is not None else None)
            kept.append(_Hard(hard.rule, rank, host, hard.what, hard.event))
        elif hard.rule is rules.ENDED and any(
            other.rule is not rules.ENDED
            and (other.rank == hard.rank or other.rank is None)
            for other in found
        ):
            continue
        else:
            kept.append(hard)
    return kept


def _weight(rule: Rule) -> int:
    order = (
        (rules.NODE, rules.HOST_MEMORY, rules.FAULT, rules.CHIP_MEMORY),
        (rules.EXCEPTION,),
        (rules.ENDED,),
        (rules.SCHEDULER,),
    )
    return next(place for place, same in enumerate(order) if rule in same)


def _is_after_the_waits(case: Case, hard: _Hard) -> bool:
    """Whether the same clock says that others had already waited in vain."""
    if not case.waits or hard.rule in (rules.NODE, rules.HOST_MEMORY):
        return False
    if hard.rule is rules.SCHEDULER:
        return True
    when = _seconds(hard.event)
    for wait in case.waits:
        at = _seconds(wait.event)
        same = hard.event.file == wait.event.file
        if when is not None and at is not None and (same or hard.host is None):
            return when > at + 1
        if same and hard.rule is not rules.EXCEPTION:
            return hard.event.line > wait.event.line
    return False


def _seconds(event: Event) -> float | None:
    """Return the time of day of a line in seconds, None if it has none."""
    found = re.search(r"(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?", event.fields.get(
        "time", ""))  # fmt: skip
    if found is None:
        return None
    hours, minutes, seconds = (int(found[part]) for part in (1, 2, 3))
    return hours * 3600 + minutes * 60 + seconds + float(f"0.{found[4] or 0}")


# Rule 3: who was never there, and what the libraries saw of their peers


def _absent(case: Case) -> Iterator[Cause]:
    events = case.by_kind[Kind.ABSENT]
    named = [(event, case.ranks.peers(event)) for event in events]
    speakers = {case.ranks.speaker(event) for event in events}
    missing = {rank for _, peers in named for rank in peers} - speakers
    counts = [event for event in events if "joined" in event.fields]
    if counts and case.ranks.is_size_known:
        number = (counts[0].number("size") or 0) - (counts[0].number("joined") or 0)
        seen = {case.ranks.speaker(event) for event in case.events} - {None}
        silent = case.ranks.everyone() - seen - {0}
        if len(silent) == number:
            missing |= silent
        elif not missing:
            text = f"{counted(number, 'rank')} never joined"
            candidates = sorted(silent)
            text += f", among the ranks {folded(candidates)}" if candidates else ""
            yield Cause(
                rule=rules.NEVER_JOINED,
                headline=text,
                evidence=_shortened(counts, case),
            )
            return
    if missing:
        operation = next(
            (e for e, peers in named if peers and _is_of_operation(e)), None
        )
        if operation is None:
            yield _cause(case, rules.NEVER_JOINED, missing, "did not join", events)
        else:
            said = " ".join(operation.fields.get(n, "") for n in ("op", "seq")).strip()
            what = f"did not take part in {said}"
            yield _cause(case, rules.SILENT, missing, what, events)


def _is_of_operation(event: Event) -> bool:
    return "op" in event.fields or "seq" in event.fields


def _seen_by_others(case: Case) -> Iterator[Cause]:
    links = [edge for edge in case.edges if edge[2].kind is Kind.LINK]
    if links:
        yield _of_links(case, links)
        return
    accused = case.by_kind[Kind.HEARTBEAT]
    if accused:
        votes = Counter(
            peer
            for event in accused
            for peer in (case.ranks.peers(event) or (case.ranks.speaker(event),))
        )
        (rank, _), *_rest = votes.most_common(1)
        events = [
            event
            for event in accused
            if rank in (case.ranks.peers(event) or (case.ranks.speaker(event),))
        ]
        what = events[0].fields.get("what") or events[0].pattern.what
        ranks = [] if rank is None else [rank]
        yield _cause(case, rules.LOST, ranks, f": {what}", events)
        return
    if case.edges:
        yield from _of_graph(case, case.edges)


def _of_links(case: Case, links: Sequence[tuple[int, int, Event]]) -> Cause:
    """Return the chip that many lose, or the link that two lose."""
    targets = Counter(peer for _, peer in {(one, peer) for one, peer, _ in links})
    most = max(targets.values())
    lost = [peer for peer, number in targets.items() if number == most]
    events = [event for _, peer, event in links if peer in lost]
    if most == 1:
        ranks = {*lost, *(one for one, peer, _ in links if peer in lost)}
        return _cause(case, rules.LINK, ranks, "lost the link between them", events)
    what = f"was lost by {counted(most, 'other rank')}"
    return _cause(case, rules.LINK, lost, what, events)


def _of_graph(case: Case, edges: Sequence[tuple[int, int, Event]]) -> Iterator[Cause]:
    """Yield the ranks that are waited for and wait for nobody, or the circle."""
    waiters = {one for one, _, _ in edges}
    targets = Counter(peer for one, peer in {(one, peer) for one, peer, _ in edges})
    ends = {peer: number for peer, number in targets.items() if peer not in waiters}
    if ends:
        most = max(ends.values())
        suspects = [rank for rank, number in ends.items() if number == most]
        events = [event for _, peer, event in edges if peer in suspects]
        yield _cause(case, rules.NEVER_JOINED, suspects, "was not reached", events)
        return
    circle = _circle({one: peer for one, peer, _ in reversed(edges)})
    if circle:
        text = " -> ".join(map(str, (*circle, circle[0])))
        events = [event for one, _, event in edges if one in circle]
        yield _cause(case, rules.CIRCLE, circle, f"wait for each other: {text}", events)


def _circle(follows: dict[int, int]) -> list[int]:
    """Return a circle of a graph in which every rank follows one other."""
    at = min(follows)
    path: list[int] = []
    while at in follows and at not in path:
        path.append(at)
        at = follows[at]
    return path[path.index(at) :] if at in path else []


def _loopback(case: Case) -> Iterator[Cause]:
    events = [
        event
        for event in case.by_kind[Kind.EDGE]
        if event.fields.get("peer_address", "").startswith("127.")
    ]
    if events:
        what = "got a loopback address from a peer"
        ranks = {case.ranks.speaker(event) for event in events} - {None}
        accused = [rank for rank in ranks if rank is not None]
        yield _cause(case, rules.LOOPBACK, accused, what, events)
    unreached = [e for e in case.by_kind[Kind.EDGE] if e.fields.get("peer_server")]
    if unreached and not events:
        server = unreached[0].fields["peer_server"]
        port = unreached[0].fields.get("port", "?")
        yield _cause(
            case,
            rules.UNREACHABLE,
            (),
            f"was not reached at port {port}",
            unreached,
            host=server,
        )


# Rule 4: waits


def _waits(case: Case) -> Iterator[Cause]:
    different = _different(case)
    if different is not None:
        yield different
        return
    behind = _behind(case)
    closed = set(case.waiters)
    if behind:
        events = [event for rank, event in _states(case) if rank in behind]
        done = max((e.number("done") or 0 for e in events), default=0)
        what = "stopped answering" + (f" after operation {done}" if done else "")
        yield _cause(case, rules.SILENT, behind, what, events)
        return
    if not closed:
        return
    members = case.ranks.members(closed)
    silent = members - closed
    if silent:
        what = "stopped answering"
        events = [wait.event for wait in case.waits]
        events += [e for e in case.by_kind[Kind.CLOSED] if e not in events]
        yield _cause(case, rules.SILENT, silent, what, events[:4])
        return
    yield from _all_waited(case)


def _all_waited(case: Case) -> Iterator[Cause]:
    """Yield what is left if every member of the group reports a time-out."""
    numbers = {wait.rank: wait.seq for wait in case.waits if wait.seq is not None}
    lowest = min(numbers.values(), default=None)
    slow = [rank for rank, seq in numbers.items() if seq == lowest]
    if lowest is not None and len(slow) < len(numbers):
        events = [wait.event for wait in case.waits if wait.rank in slow]
        yield _cause(case, rules.SILENT, slow, f"is behind, at {lowest}", events)
    elif lowest in (0, 1) and len(numbers) > 1:
        events = [wait.event for wait in case.waits]
        op = case.waits[0].op or "operation"
        yield _cause(
            case, rules.FIRST, numbers, f"all timed out in their first {op}", events
        )
    else:
        late = _last_reporter(case)
        if late is not None:
            what = "reported later than the others had waited"
            yield _cause(case, rules.LATE, [late.rank], what, [late.event])


def _last_reporter(case: Case) -> Wait | None:
    """Return the wait that ended after the others had given up."""
    timed = [(when, wait) for wait in case.waits
             if (when := _seconds(wait.event)) is not None]  # fmt: skip
    if len(timed) < 2:
        return None
    timed.sort(key=lambda pair: pair[0])
    event = timed[0][1].event
    limit_s = (event.number("timeout_ms") or 0) / 1000 or event.number("timeout_s")
    spread = timed[-1][0] - timed[0][0]
    return timed[-1][1] if limit_s and spread > limit_s else None


def _different(case: Case) -> Cause | None:
    """Return the ranks that were in another operation than the most."""
    for event in case.by_kind[Kind.MISMATCH]:
        speaker = case.ranks.speaker(event)
        peers = case.ranks.peers(event)
        ranks = [rank for rank in (speaker, *peers) if rank is not None]
        what = event.pattern.what or "call different operations"
        if "calls" in event.fields:
            ranks, what = _fewest(event.fields["calls"])
        return _cause(case, rules.DIFFERENT, ranks, what, [event])
    for calls in _comparable_calls(case):
        common = Counter(calls.values()).most_common()
        if len(common) > 1:
            usual = common[0][0]
            odd = [rank for rank, call in calls.items() if call != usual]
            if common[0][1] == common[1][1]:
                odd = list(calls)
            first = calls[min(odd)]
            what = f"was in {first}, the others in {usual}"
            events = [wait.event for wait in case.waits if wait.rank in odd]
            states = [e for r, e in _ops(case) if r in odd]
            return _cause(case, rules.DIFFERENT, odd, what, events or states)
    return None


def _fewest(calls: str) -> tuple[list[int], str]:
    """Return the ranks that differ from the most, and what they call."""
    form = r"ranks? (\d[\d, and-]*?)(?: calls? |  +)([^\n]*?)(?=, ranks? \d|\n|$)"
    groups = re.findall(form, calls)
    found = [(numbers_in(ranks), call) for ranks, call in groups]
    fewest = min(len(ranks) for ranks, _ in found)
    odd = [(ranks, call) for ranks, call in found if len(ranks) == fewest]
    ranks = sorted(rank for some, _ in odd for rank in some)
    usual = [call for some, call in found if len(some) != fewest]
    what = " and ".join(call for _, call in odd)
    others = f", the others {usual[0]}" if usual else ""
    return ranks, f"{'calls' if len(ranks) == 1 else 'call'} {what}{others}"


def _comparable_calls(case: Case) -> Iterator[dict[int, str]]:
    """Yield what each rank called, by operations that have one number."""
    by_number: dict[tuple[str, int | None], dict[int, str]] = defaultdict(dict)
    for wait in case.waits:
        if wait.op:
            by_number[wait.group, wait.seq].setdefault(wait.rank, wait.op)
    by_count: dict[tuple[str, str], dict[int, str]] = defaultdict(dict)
    for rank, event in _ops(case):
        group = event.fields.get("group_size", "")
        by_count[group, event.fields["opcount"]][rank] = event.fields["op"]
    yield from by_number.values()
    for place in sorted(by_count, key=lambda place: int(place[1], 16)):
        yield by_count[place]
    sites = {wait.rank: wait.site for wait in case.waits if wait.site}
    if len(sites) == len(case.waiters):
        yield sites


def _ops(case: Case) -> Iterator[tuple[int, Event]]:
    for event in case.by_kind[Kind.STATE]:
        rank = case.ranks.speaker(event)
        if "opcount" in event.fields and rank is not None:
            yield rank, event


def _states(case: Case) -> Iterator[tuple[int, Event]]:
    for event in case.by_kind[Kind.STATE]:
        rank = case.ranks.speaker(event)
        if "enqueued" in event.fields and rank is not None:
            yield rank, event


def _behind(case: Case) -> set[int]:
    """Return the ranks that had not begun an operation in which others waited."""
    wanted = {
        _group(wait.event): wait.seq for wait in case.waits if wait.seq is not None
    }
    begun: dict[int, int] = {}
    for rank, event in _states(case):
        wait = wanted.get(_group(event), next(iter(wanted.values()), None))
        enqueued = event.number("enqueued") or 0
        if wait is not None and enqueued < wait:
            begun[rank] = enqueued
        elif wait is not None:
            begun.pop(rank, None)
    return {rank for rank in begun if rank not in {w.rank for w in case.waits}}


def _group(event: Event) -> str:
    return event.fields.get("group") or event.fields.get("group_id", "")


def _operation(fields: dict[str, str]) -> str:
    op = re.split(r"[_\[(]", fields.get("op", ""))[0] if "index" in fields else (
        fields.get("op", ""))  # fmt: skip
    return f"{op} of {fields['numel']}" if op and "numel" in fields else op


# Rule 5


def _unknown(case: Case) -> Cause:
    events = [event for kind in (Kind.CLOSED, Kind.CASCADE, Kind.TIMEOUT, Kind.EXIT)
              for event in case.by_kind[kind]]  # fmt: skip
    return Cause(
        rule=rules.UNKNOWN,
        headline="the cause is not in these logs; these lines only follow from it",
        evidence=_shortened(events, case),
    )
