"""Decide which rank, host or chip a job failed by; ties and gaps are said.

The rules, the first that fires wins, except that the first two are joined:

1. Launch: ranks, tables, ports and settings that contradict each other.
2. Events of one rank or host: killed for memory, a chip that failed, an exception.
   What others did after they waited in vain does not count.
3. Who was never there, then what HCCL and NCCL saw of their links and peers, and
4. waiting: numbers of operations before clocks (``waiting``).
5. Otherwise the cause is not in these logs.

Sequence numbers are compared within one communicator only, clocks within one host.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ranktable.doctor import rules
from ranktable.doctor.case import (
    Case,
    Cause,
    cause_of,
    seconds_between,
    shortened,
)
from ranktable.doctor.patterns import Evidence
from ranktable.doctor.waiting import behind, waiting_causes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.doctor.lines import LogEvent
    from ranktable.schema.finding import Rule

SLACK_S = 300
"""How long after a failure others may still begin to wait."""

CONSEQUENCES = {
    Evidence.CLOSED,
    Evidence.CASCADE,
    Evidence.TIMEOUT,
    Evidence.ABSENT,
    Evidence.EDGE,
}
"""What a process says that waits for another; its exception is no cause."""

SAID_THERE = (
    *CONSEQUENCES,
    Evidence.FAULT,
    Evidence.MEMORY,
    Evidence.MISMATCH,
    Evidence.LAUNCH,
    Evidence.PORT,
    Evidence.SETTING,
    Evidence.TABLE,
)
"""What the line of an exception may say besides; it is then no cause of its own."""

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


def decide(case: Case) -> list[Cause]:
    """Return the causes, the first one first; empty if nothing failed."""
    found = [*_launch(case), *_hard_events(case)] or waiting_causes(case)
    is_failed = any(case.by_kind[kind] for kind in (*CONSEQUENCES, Evidence.EXIT))
    return found or ([_unknown(case)] if is_failed else [])


# Rule 1: what contradicts itself from the start


def _launch(case: Case) -> Iterator[Cause]:
    for event, text in case.ranks.disagreements(case.events):
        rank = event.number("rank")
        assert rank is not None
        yield cause_of(case, rules.RUNS_ELSEWHERE, [rank], text, [event])
    yield from _tls(case)
    codes = {
        event.fields.get("code"): event for event in case.by_kind[Evidence.CASCADE]
    }
    for kind, by_code, rule in (
        (Evidence.LAUNCH, (), rules.LAUNCH),
        (Evidence.TABLE, ("EI0004", "EI0014", "EI0017"), rules.TABLE),
        (Evidence.PORT, ("EI0019", "EI0020", "EJ0003"), rules.PORT),
        (Evidence.SETTING, ("EI0001", "EI0008", "EI0016"), rules.SETTING),
        (Evidence.LEFTOVER, ("EJ0001",), rules.LEFTOVER),
    ):
        found = case.by_kind[kind] or [codes[code] for code in by_code if code in codes]
        if found:
            yield _of_lines(case, rule, found)
    different = codes.get("EI0005")
    if different is not None:
        is_table = "ranktable" in different.fields.get("what", "")
        rule = rules.TABLE if is_table else rules.DIFFERENT
        yield _of_lines(case, rule, [different])


def _tls(case: Case) -> Iterator[Cause]:
    """Yield the ranks that use TLS and the most do not, or the other way round."""
    states: dict[int, str] = {}
    events = (*case.by_kind[Evidence.EDGE], *case.by_kind[Evidence.SETTING])
    for event in events:
        rank, tls = case.ranks.speaker(event), event.fields.get("tls", "")
        if rank is not None and tls in ("ENABLE", "DISABLE"):
            states[rank] = tls
        for name in ("ENABLE", "DISABLE"):
            ranks = case.ranks.at_places(event.fields.get(f"tls_{name}", ""))
            states.update(dict.fromkeys(ranks, name))
    common = Counter(states.values()).most_common()
    if len(common) == 2:
        fewest = {name for name, number in common if number == common[1][1]}
        odd = [rank for rank, name in states.items() if name in fewest]
        what = f"has TLS {states[odd[0]]}D, others have not"
        yield cause_of(case, rules.SETTING, odd, what, events[:4])


def _of_lines(case: Case, rule: Rule, events: Sequence[LogEvent]) -> Cause:
    """Return the cause that lines name themselves."""
    first = events[0]
    speakers = {case.ranks.speaker(event) for event in events} - {None}
    named = {peer for event in events for peer in case.ranks.peers(event)}
    accused = sorted({rank for rank in speakers | named if rank is not None})
    what = first.fields.get("what") or first.pattern.what or rule.summary
    said = f": {what}" if accused or case.ranks.host(first) else f"says: {what}"
    if "port" in first.fields:
        said += f" (port {first.fields['port']})"
    return cause_of(case, rule, accused, said, events, host=case.ranks.host(first))


# Rule 2: what happened to one rank or host by itself


@dataclass(frozen=True)
class _Hard:
    """Something that happened to a process or host by itself."""

    rule: Rule
    rank: int | None
    host: str | None
    what: str
    event: LogEvent


def _hard_events(case: Case) -> Iterator[Cause]:
    found = [hard for hard in _find_hard(case) if not _is_apart(case, hard)]
    found = _explained(found)
    if not found:
        return
    best = min(_weight(hard.rule) for hard in found)
    found = [hard for hard in found if _weight(hard.rule) == best]
    waited = {peer for _, peer, _ in case.edges} | behind(case)
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
        if not ranks and same[0].host and same[0].rule is not rules.SCHEDULER:
            ranks = _likely_on(case, same[0].host)
        events = [hard.event for hard in same]
        host = same[0].host
        yield cause_of(case, same[0].rule, ranks, same[0].what, events, host=host)


def _likely_on(case: Case, host: str) -> set[int]:
    """Return the one rank of a host that can be meant, if only one can."""
    there = set(case.ranks.on_host(host))
    for some in (there, there & behind(case), there - case.waiters):
        if len(some) == 1:
            return some
    return set()


def _find_hard(case: Case) -> Iterator[_Hard]:
    for kind, rule, what in (
        (Evidence.NODE, rules.NODE, "was lost by the scheduler"),
        (Evidence.SCHEDULER, rules.SCHEDULER, "was ended by the scheduler"),
        (Evidence.OOM, rules.HOST_MEMORY, "was killed by its host for memory"),
        (Evidence.FAULT, rules.FAULT, "has a chip or driver that failed"),
        (Evidence.MEMORY, rules.CHIP_MEMORY, "has no memory left on its chip"),
    ):
        for event in case.by_kind[kind]:
            said = event.fields.get("what", "")
            text = f"{what}: {said}" if said and kind is not Evidence.OOM else what
            hard = _hard(case, rule, text[:200], event)
            is_of_host = kind in (Evidence.NODE, Evidence.SCHEDULER)
            yield replace(hard, rank=None) if is_of_host else hard
    said_there = {
        (event.file, event.line) for kind in SAID_THERE for event in case.by_kind[kind]
    }
    for event in case.by_kind[Evidence.EXCEPTION]:
        what = event.fields.get("what", "")
        is_own = (event.file, event.line) not in said_there and not _STOPS.search(what)
        if what and is_own and "C10D" not in what:
            hard = _hard(case, rules.EXCEPTION, f"raised {what[:160]}", event)
            yield hard if hard.rank is not None else _claimed(case, hard)
    yield from _exits(case)


def _claimed(case: Case, hard: _Hard) -> _Hard:
    """Return an exception without a rank as that of the first process that failed."""
    for event in case.by_kind[Evidence.EXIT]:
        if event.file == hard.event.file and event.fields.get("exit") == "1":
            return replace(hard, rank=case.ranks.speaker(event))
    return hard


def _hard(case: Case, rule: Rule, what: str, event: LogEvent) -> _Hard:
    return _Hard(rule, case.ranks.speaker(event), case.ranks.host(event), what, event)


def _exits(case: Case) -> Iterator[_Hard]:
    """Yield the processes that ended by themselves and did not say why."""
    stuck = {event.fields["pid"] for event in case.by_kind[Evidence.HEARTBEAT]
             if "pid" in event.fields}  # fmt: skip
    told = {*case.speakers(Evidence.EXCEPTION, *CONSEQUENCES), *case.waiters}
    is_first_step = True
    for event in case.by_kind[Evidence.EXIT]:
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


def _slurm_exits(case: Case, event: LogEvent) -> Iterator[_Hard]:
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
    is_rank = not case.ranks.is_size_known or tasks[0] < (case.ranks.size or 0)
    yield _Hard(rule, tasks[0] if is_rank else None, host, what, event)


def _explained(found: Sequence[_Hard]) -> list[_Hard]:
    """Leave out ends of processes that another line explains; join host and rank."""
    kept: list[_Hard] = []
    killed = [hard for hard in found if hard.rule is rules.ENDED]
    named = {hard.host for hard in found
             if hard.rule is rules.HOST_MEMORY and hard.rank is not None}  # fmt: skip
    for hard in found:
        is_vague = hard.rule is rules.HOST_MEMORY and hard.rank is None
        if is_vague and named and hard.host in {None, *named}:
            continue
        if is_vague:
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
        elif hard.rule is rules.ENDED and any(_explains(o, hard) for o in found):
            continue
        else:
            kept.append(hard)
    return kept


def _explains(other: _Hard, ended: _Hard) -> bool:
    """Whether a line says why a process ended; srun ends a step without a reason."""
    if other.rule is rules.ENDED:
        return False
    if other.rule is rules.SCHEDULER and "what" not in other.event.fields:
        return other.event.line < ended.event.line
    return other.rank in (None, ended.rank)


def _weight(rule: Rule) -> int:
    order = (
        (rules.NODE, rules.HOST_MEMORY, rules.FAULT, rules.CHIP_MEMORY),
        (rules.EXCEPTION,),
        (rules.ENDED,),
        (rules.SCHEDULER,),
    )
    return next(place for place, same in enumerate(order) if rule in same)


def _is_apart(case: Case, hard: _Hard) -> bool:
    """Whether others had already waited in vain, or began to wait much later."""
    if not case.waits or hard.rule in (rules.NODE, rules.HOST_MEMORY):
        return False
    if hard.rule is rules.SCHEDULER:
        return True
    for wait in case.waits:
        same = hard.event.file == wait.event.file
        gap = seconds_between(hard.event, wait.event)
        if gap is not None and (same or hard.host is None):
            waited_s = (wait.event.number("timeout_ms") or 0) / 1000
            return gap < -1 or 0 < waited_s < gap - SLACK_S
        if same and hard.rule is not rules.EXCEPTION:
            return hard.event.line > wait.event.line
    return False


# Rule 5


def _unknown(case: Case) -> Cause:
    kinds = (Evidence.CLOSED, Evidence.CASCADE, Evidence.TIMEOUT, Evidence.EXIT)
    events = [event for kind in kinds for event in case.by_kind[kind]]
    return Cause(
        rule=rules.UNKNOWN,
        headline="the cause is not in these logs; these lines only follow from it",
        evidence=shortened(events, case),
    )
