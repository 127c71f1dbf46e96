"""What ranks called: those that differ from the most are named, and all of a tie."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from ranktable.doctor import rules
from ranktable.doctor.case import states_of, two_hosts
from ranktable.doctor.headlines import Cause, cause_of, shortened
from ranktable.doctor.identity import OF_PAIRS
from ranktable.doctor.lines import numbers_in
from ranktable.doctor.patterns import Evidence
from ranktable.schema.text import folded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ranktable.doctor.case import Case
    from ranktable.doctor.lines import LogEvent


def said_to_differ(case: Case) -> Iterator[Cause]:
    """Yield the ranks of which a library says that they call something else."""
    events = case.by_kind[Evidence.MISMATCH]
    for event in events[:1]:
        if "calls" in event.fields:
            ranks, what = _fewest(event.fields["calls"])
            yield cause_of(case, rules.DIFFERENT, ranks, what, [event])
            return
    calls = dict(_fingerprints(case, events))
    if len(set(calls.values())) > 1:
        yield from minority(case, calls, events)
    elif calls and any("peer_op" not in event.fields for event in events):
        # torch before 2.0 has each rank tell its own call alone.
        text = f"{', '.join(_in_calls(calls))}; what others called is not in these logs"
        yield Cause(rule=rules.DIFFERENT, headline=text,
                    evidence=shortened(events, case))  # fmt: skip
    elif events:
        named = {rank for event in events for rank in case.ranks.peers(event)}
        named.update(case.speakers(Evidence.MISMATCH))
        is_crash = all("what():" in event.text for event in events)
        if is_crash and not named and len(case.aborted) == 1:
            named.update(rank for rank in case.aborted if rank is not None)
        said = events[0].fields
        if "size_there" in said and not named:
            sizes = f"{said['size_here']} and {said['size_there']} bytes"
            what = f"{two_hosts(case, events[0])} call operations of {sizes}"
            yield Cause(rule=rules.DIFFERENT, headline=what,
                        evidence=shortened(events, case))  # fmt: skip
            return
        what = events[0].pattern.what or "calls different operations"
        is_set_up = events[0].pattern.name == "nccl-truncated"
        rule = rules.SETTING if is_set_up else rules.DIFFERENT
        advice = events[0].pattern.advice or None
        yield cause_of(case, rule, named, what, events, advice=advice)


def _fingerprints(case: Case, events: Iterable[LogEvent]) -> Iterator[tuple[int, str]]:
    """Yield what ranks called, by lines that compare two of them."""
    for event in events:
        named = event.number("fingerprint_rank")
        rank = case.ranks.speaker(event) if named is None else named
        if rank is not None and "op" in event.fields:
            yield rank, _call_of(event.fields["op"])
        for peer in case.ranks.peers(event)[:1]:
            if "peer_op" in event.fields:
                yield peer, _call_of(event.fields["peer_op"])


def _call_of(fingerprint: str) -> str:
    """Return operation and shape of ``CollectiveFingerPrint(SequenceNumber=..``."""
    op = re.search(r"OpType=(\w+)", fingerprint)
    shape = re.search(r"TensorShape=(\[[\d, ]*\])", fingerprint)
    kind = re.search(r"TensorDtypes=(\w+)", fingerprint)
    if op is None:
        return fingerprint[:80]
    text = op[1] + (f" of {shape[1]}" if shape else "")
    return text + (f" {kind[1]}" if kind else "")


def _fewest(calls: str) -> tuple[list[int], str]:
    """Return the ranks that differ from the most, and what they call."""
    form = r"(?:ranks?|Process) (\d[\d, and-]*?)(?: calls? |  +|: )([^\n]*?)"
    form += r"(?=, ranks? \d|\n|$)"
    groups = re.findall(form, calls)
    by_call: dict[str, list[int]] = defaultdict(list)
    for ranks, call in groups:
        by_call[call] += numbers_in(ranks)
    found = [(ranks, call) for call, ranks in by_call.items()]
    fewest = min((len(ranks) for ranks, _ in found), default=0)
    odd = [(ranks, call) for ranks, call in found if len(ranks) == fewest]
    named = sorted(rank for some, _ in odd for rank in some)
    usual = [call for some, call in found if len(some) != fewest]
    if not usual and len(odd) > 1:
        several = (
            f"ranks {folded(some)} call" if len(some) > 1 else f"rank {some[0]} calls"
            for some, _ in odd
        )
        said = zip(several, (call for _, call in odd), strict=True)
        return named, ": " + ", ".join(map(" ".join, said))
    what = " and ".join(call for _, call in odd)
    others = f", the others {usual[0]}" if usual else ""
    return named, f"{'calls' if len(named) == 1 else 'call'} {what}{others}"


def other_call_of_number(case: Case) -> Iterator[Cause]:
    """Yield the ranks that called another operation under one number."""
    calls: dict[tuple[str, int], dict[int, str]] = defaultdict(dict)
    named = {wait.group for wait in case.waits} - {""}
    # A log may end before the line that tells the group: there is one for all.
    group = named.pop() if len(named) == 1 and not case.ranks.has_groups else ""
    for wait in case.waits:
        if wait.op and wait.seq is not None:
            calls[wait.group or group, wait.seq].setdefault(wait.rank, wait.op)
    for rank, event in states_of(case):
        if "opcount" in event.fields:
            group, _ = case.ranks.group(event)
            number = int(event.fields["opcount"], 16)
            calls[f"NCCL {group}", number][rank] = event.fields["op"]
    yield from _first_minority(case, [calls[place] for place in sorted(calls)])


def other_call(case: Case) -> Iterator[Cause]:
    """Yield the ranks that waited in another operation, or at another line.

    Ranks lose one that ended in whatever they call next: then calls say nothing.
    """
    if case.apart:
        return
    closed = [
        (rank, event)
        for event in case.by_kind[Evidence.CLOSED]
        if (rank := case.ranks.speaker(event)) is not None
    ]
    told = {wait.rank for wait in case.waits if wait.op}
    told.update(rank for rank, event in closed if "op" in event.fields)
    is_heard_of_all = case.seen <= told and not case.without_log
    by_group: dict[str, dict[int, str]] = defaultdict(dict)
    for wait in case.waits:
        if wait.op and wait.seq is None:
            by_group[wait.group].setdefault(wait.rank, wait.op)
    sites = {wait.rank: wait.site for wait in case.waits if wait.site}
    for rank, event in closed:
        if "op" in event.fields and is_heard_of_all:
            by_group[case.ranks.group(event)[0]].setdefault(rank, event.fields["op"])
        if "site" in event.fields:
            sites.setdefault(rank, event.fields["site"])
    is_whole = len(sites) == len(case.waiters) and not case.without_log
    yield from _first_minority(case, [*by_group.values(), *([sites] * is_whole)])


def _first_minority(case: Case, all_calls: Sequence[dict[int, str]]) -> Iterator[Cause]:
    all_calls = list(map(_without_pairs, all_calls))
    calls = next((one for one in all_calls if len(set(one.values())) > 1), None)
    if calls is not None:
        yield from minority(case, calls)


def _without_pairs(calls: dict[int, str]) -> dict[int, str]:
    """Leave out who sends to whom, if both ends are there: these do not differ."""
    pairs = {rank: call for rank, call in calls.items() if call.startswith(OF_PAIRS)}
    if len({call[:4] for call in pairs.values()}) < len(OF_PAIRS):
        return calls
    return {rank: call for rank, call in calls.items() if rank not in pairs}


def minority(
    case: Case, calls: dict[int, str], evidence: Sequence[LogEvent] = ()
) -> Iterator[Cause]:
    """Yield the ranks that called what the fewest called; a tie names all."""
    common = Counter(calls.values()).most_common()
    usual, number = common[0]
    odd = [rank for rank, call in calls.items() if call != usual]
    what = f"was in {calls[min(odd)]}, the others in {usual}"
    if number == common[1][1]:
        odd = list(calls)
        what = f": {', '.join(_in_calls(calls))}"
    events = [wait.event for wait in case.waits if wait.rank in odd] or [
        event for rank, event in states_of(case) if rank in odd
    ]
    yield cause_of(case, rules.DIFFERENT, odd, what, evidence or events)


def _in_calls(calls: dict[int, str]) -> Iterator[str]:
    """Yield ``rank 3 was in BROADCAST of 8``."""
    for call in dict.fromkeys(calls.values()):
        ranks = [rank for rank, one in calls.items() if one == call]
        verb = "rank {} was" if len(ranks) == 1 else "ranks {} were"
        yield f"{verb.format(folded(ranks))} in {call}"
