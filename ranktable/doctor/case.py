"""The events of a failed job: who waited for whom, and what is said of it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from ranktable.doctor.patterns import Evidence
from ranktable.schema.text import counted, folded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ranktable.doctor.identity import Ranks
    from ranktable.doctor.lines import LogEvent
    from ranktable.schema.finding import Rule

MAX_EVIDENCE = 6
DAY_S = 24 * 3600


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
    evidence: tuple[LogEvent, ...] = ()


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
    event: LogEvent


class Case:
    """The events of a job, each with its speaker."""

    def __init__(self, events: Sequence[LogEvent], ranks: Ranks) -> None:
        """Resolve the speakers."""
        self.ranks = ranks
        self.events = events
        self.by_kind: dict[Evidence, list[LogEvent]] = defaultdict(list)
        for event in events:
            self.by_kind[event.kind].append(event)
        self._raised_at = {
            (event.file, event.line): event
            for event in self.by_kind[Evidence.EXCEPTION]
        }
        self.waits = list(self._find_waits())
        self.waiters = {wait.rank for wait in self.waits}
        self.waiters.update(self.speakers(Evidence.CLOSED, Evidence.ABSENT))
        self.waiters.update(self._raised())
        self.edges = list(self._find_edges())
        self.waiters.update(waiter for waiter, _, _ in self.edges)

    def said_at(self, event: LogEvent) -> dict[str, str]:
        """Return what a line says, and the traceback that ends with it."""
        call = self._raised_at.get((event.file, event.line))
        return {**event.fields, **(call.fields if call else {})}

    def speakers(self, *kinds: Evidence) -> Iterator[int]:
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
            for kind in (Evidence.TIMEOUT, Evidence.CLOSED)
            for event in self.by_kind[kind]
            if self.ranks.speaker(event) is None
        }
        for event in self.by_kind[Evidence.EXIT]:
            rank = self.ranks.speaker(event)
            has_raised = event.fields.get("exit") == "1" and event.file in nameless
            if rank is not None and has_raised:
                yield rank

    def _find_waits(self) -> Iterator[Wait]:
        waiting: set[int] = set()
        for event in (*self.by_kind[Evidence.TIMEOUT], *self.by_kind[Evidence.STATE]):
            rank = self.ranks.speaker(event)
            said = self.said_at(event)
            number = said.get("seq", said.get("index"))
            has_waited = event.kind is Evidence.TIMEOUT or number is not None
            if rank is None or not has_waited or ("op" not in said and rank in waiting):
                continue  # the line before says more of the same wait
            waiting.add(rank)
            yield Wait(
                rank,
                self.ranks.group(event)[0],
                None if number is None else int(number),
                _operation(said, event.pattern.speaker),
                said.get("site", ""),
                event,
            )

    def _find_edges(self) -> Iterator[tuple[int, int, LogEvent]]:
        for event in (*self.by_kind[Evidence.EDGE], *self.by_kind[Evidence.LINK],
                      *self.by_kind[Evidence.TIMEOUT]):  # fmt: skip
            speaker = self.ranks.speaker(event)
            if speaker is not None:
                for peer in self.ranks.peers(event):
                    if peer != speaker:
                        yield speaker, peer, event

    def waiting_for(self, culprits: Iterable[int]) -> str | None:
        """Return who waits for some ranks, and where."""
        accused = set(culprits)
        waits = [wait for wait in self.waits if wait.rank not in accused]
        waiters = sorted(self.waiters - accused)
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
        done = [event.fields["done"] for one, event in states_of(self)
                if one == rank and "done" in event.fields]  # fmt: skip
        when = self.ranks.last_time_of(rank)
        signs = [f"completed {done[-1]}"] if done else []
        signs += [f"logged nothing after {when}"] if when else []
        return f"; it {' and '.join(signs)}" if signs else ""


def cause_of(
    case: Case,
    rule: Rule,
    ranks: Iterable[int],
    what: str,
    evidence: Sequence[LogEvent],
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
        evidence=shortened(evidence, case),
    )


def shortened(evidence: Sequence[LogEvent], case: Case) -> tuple[LogEvent, ...]:
    """Return the evidence, and a line of somebody who waits if there is room."""
    lines = {(event.file, event.line): event for event in evidence}
    for wait in case.waits[:1]:
        lines.setdefault((wait.event.file, wait.event.line), wait.event)
    return tuple(lines.values())[:MAX_EVIDENCE]


def seconds_of(event: LogEvent) -> float | None:
    """Return when a line was written, None if it does not say it.

    Most lines say the time of day, some the date too; the date counts if it is there.
    """
    said = event.fields.get("time", "")
    found = re.search(r"(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,6}))?", said)
    if found is None:
        return None
    hours, minutes, seconds = (int(found[part]) for part in (1, 2, 3))
    of_day = hours * 3600 + minutes * 60 + seconds + float(f"0.{found[4] or 0}")
    day = re.match(r"(\d{4})-(\d\d)-(\d\d)", said)
    try:
        return (
            of_day + (date(*map(int, day.groups())).toordinal() if day else 0) * DAY_S
        )
    except ValueError:
        days = 0
    return of_day + days * DAY_S


def seconds_between(first: LogEvent, second: LogEvent) -> float | None:
    """Return how long after a line another was written, None if it is not known."""
    start, end = seconds_of(first), seconds_of(second)
    if start is None or end is None:
        return None
    if min(start, end) < DAY_S:  # one has no date: less than half a day apart
        return (end - start + DAY_S / 2) % DAY_S - DAY_S / 2
    return end - start


def states_of(case: Case) -> Iterator[tuple[int, LogEvent]]:
    """Yield how far ranks came, with the lines that say it."""
    for event in case.by_kind[Evidence.STATE]:
        rank = case.ranks.speaker(event)
        if rank is not None:
            yield rank, event


def _operation(fields: dict[str, str], speaker: str) -> str:
    op = fields.get("op", "")
    if speaker == "hccl":  # AllReduce_10.0.0.3%eth0_60000_0_17
        op = op.partition("_")[0]
    return f"{op} of {fields['numel']}" if op and "numel" in fields else op
