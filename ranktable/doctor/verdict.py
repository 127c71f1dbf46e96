"""Decide which rank, host or chip a job failed by; ties and gaps are said.

One walk; the first step that has an answer decides:

1. What contradicts itself from the start: ranks, tables, ports and settings.
2. What happened to one rank or host by itself (``failures``). What others say because
   they waited or lost it does not count.
3. Who was never there, then numbers of operations, and who waits for whom, to the end
   (``waiting``).
4. Exceptions and statuses that say little, if nothing else is known.
5. Only consequences: the cause is not in these logs.
6. Only errors that are not known here, if nothing says that the job ended well.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from ranktable.doctor import causes, rules
from ranktable.doctor.absences import is_loopback
from ranktable.doctor.attempts import UNSURE
from ranktable.doctor.failure import OUTSIDE, TOLD
from ranktable.doctor.failures import (
    apart_causes,
    below_calls,
    cut_causes,
    failure_causes,
)
from ranktable.doctor.headlines import Cause, cause_of, name_of_process, shortened
from ranktable.doctor.patterns import CONSEQUENCES, NO_ERRORS, Evidence
from ranktable.doctor.progress import is_left_loader
from ranktable.doctor.waiting import waiting_causes
from ranktable.schema.text import counted, folded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ranktable.doctor.case import Case
    from ranktable.doctor.lines import LogEvent
    from ranktable.schema.finding import Rule

MAX_CAUSES = 5
MAX_UNKNOWN = 5

_OF_LIBRARIES = re.compile(
    r"\((?:torch|threading|selectors|multiprocessing|\S*-packages)\b"
)
"""Frames of py-spy that are not of the program."""

LINES_ABOVE = 6
"""How far below the line of torch_npu a code of CANN stands at most."""


def decide(case: Case) -> list[Cause]:
    """Return the causes, the first one first; empty if nothing failed."""
    launch = list(_launch(case))
    own = failure_causes(case, TOLD if launch else OUTSIDE)
    if launch:  # what its ranks raise is told by it already
        named = {rank for cause in launch for rank in cause.ranks}
        own = [cause for cause in own if not named.issuperset(cause.ranks)]
    counted = [one for one in own if one.evidence and "since" in one.evidence[0].fields]
    own = [one for one in own if one not in counted]
    found = _folded([*launch, *own]) or _folded(apart_causes(case, "by_program"))
    found = found or _folded([*waiting_causes(case), *counted])
    found = found or _folded([*below_calls(case), *apart_causes(case, "by_call")])
    found = found or _folded(cut_causes(case))
    if not found and any(map(_is_error, case.events)):
        found = list(_of_hosts(case)) or list(_rest(case))
    return found


def agreed(causes: list[Cause], sure: list[Cause]) -> tuple[list[Cause], list[str]]:
    """Return the causes that hold whatever attempt some lines are of, and a note.

    Args:
        causes: Those by all lines.
        sure: Those without the lines that may be of an earlier attempt.
    """
    if not causes or causes[0].rule in (rules.UNKNOWN, rules.UNKNOWN_ERROR):
        return causes, []
    doubtful = [event for event in causes[0].evidence if UNSURE in event.fields]
    if sure and (sure[0].ranks, sure[0].host) == (causes[0].ranks, causes[0].host):
        said = f"may be of an earlier attempt: {causes[0].headline}"
        return sure, [said] * bool(doubtful)
    event = next(iter(doubtful or causes[0].evidence))
    restart = event.fields.get(UNSURE, "")
    doubt = Cause(
        rule=rules.UNKNOWN,
        headline="the job was started again"
        + (f" ({restart})" if restart else "")
        + ", and no clock or step tells which attempt some lines are of; by all of "
        f"them, {causes[0].headline}",
        evidence=causes[0].evidence,
        advice="Give the logs of the last attempt alone, or logs whose lines have a "
        "time; `torchrun --log-dir` writes a folder for each attempt.",
    )
    return [doubt, *sure], []


def _is_error(event: LogEvent) -> bool:
    """Whether a line says that something is wrong; a watchdog's state does too."""
    return event.kind not in NO_ERRORS or "enqueued" in event.fields


def has_ended_well(case: Case, *, is_open: bool = False) -> bool:
    """Whether the job said that it ended, or steps go on below all errors.

    Args:
        case: The events.
        is_open: Whether steps are not enough, as ranks wait in a barrier.
    """
    is_open = is_open or bool(case.by_kind[Evidence.UNKNOWN])
    is_open |= any(map(is_left_loader, case.overcome))
    goes_on = bool(case.by_kind[Evidence.LIFE]) and not is_open
    return bool(case.by_kind[Evidence.END]) or goes_on


def unknown_errors(case: Case) -> list[LogEvent]:
    """Return the errors that are not known here, the first of each speaker."""
    first: dict[object, LogEvent] = {}
    overcome = [e for e in case.overcome if e.kind is Evidence.UNKNOWN]
    for event in (*case.by_kind[Evidence.UNKNOWN], *overcome):
        speaker = case.ranks.speaker(event)
        first.setdefault((event.file, speaker), event)
    return list(first.values())


def _folded(found: Iterable[Cause]) -> list[Cause]:
    """Return causes with different headlines, and no more than a few."""
    by_text: dict[tuple[str, str], list[Cause]] = {}
    for cause in found:
        by_text.setdefault((cause.rule.code, cause.headline), []).append(cause)
    kept = [same[0] for same in by_text.values()]
    left = len(kept) - MAX_CAUSES
    if left > 0:
        more = f"{kept[0].headline} (and {counted(left, 'finding')} more like these)"
        kept = [replace(kept[0], headline=more), *kept[1:MAX_CAUSES]]
    return kept


# Step 1: what contradicts itself from the start


def _launch(case: Case) -> Iterator[Cause]:
    for event, text in case.ranks.disagreements(case.events):
        rank = event.number("rank")
        assert rank is not None
        yield cause_of(case, rules.RUNS_ELSEWHERE, [rank], text, [event])
    yield from _tls(case)
    codes: dict[str, list[LogEvent]] = defaultdict(list)
    for event in case.by_kind[Evidence.CASCADE]:
        codes[event.fields.get("code", "")].append(event)
    for kind, by_code, rule in (
        (Evidence.LAUNCH, (), rules.LAUNCH),
        (Evidence.START, (), rules.NOT_STARTED),
        (Evidence.TABLE, ("EI0004", "EI0014", "EI0017"), rules.TABLE),
        (Evidence.PORT, ("EI0019", "EI0020", "EJ0003"), rules.PORT),
        (Evidence.SETTING, ("EI0001", "EI0008", "EI0016"), rules.SETTING),
        (Evidence.LEFTOVER, ("EJ0001",), rules.LEFTOVER),
    ):
        of_codes = (event for code in by_code for event in codes[code])
        found = [event for event in case.by_kind[kind] if not _is_passed(case, event)]
        found = found or list(of_codes)
        if found:
            yield _of_lines(case, rule, found)
    if different := codes["EI0005"]:
        is_table = "ranktable" in different[-1].fields.get("what", "")
        rule = rules.TABLE if is_table else rules.DIFFERENT
        yield _of_lines(case, rule, different[-1:])


def _is_passed(case: Case, event: LogEvent) -> bool:
    """Whether a script went on without a program that was not started: others ran.

    Why mpirun could not start a daemon is said by the host that was not reached.
    """
    is_daemon = event.pattern.name == "mpi-daemon-start"
    if is_daemon and any(
        one.pattern.name == "mpi-unreached" for one in case.by_kind[Evidence.EDGE]
    ):
        return True
    return event.kind is Evidence.START and any(
        one.file == event.file and one.line > event.line
        for kind in (Evidence.EXCEPTION, Evidence.MEMORY, Evidence.LIFE)
        for one in case.by_kind[kind]
    )


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
    cascades = {(one.file, one.line): one for one in case.by_kind[Evidence.CASCADE]}
    by_line = {id(event): _process_above(case, event, cascades) for event in events}
    speakers = {rank for rank, _ in by_line.values()} - {None}
    named = {peer for event in events for peer in case.ranks.peers(event)}
    accused = {rank for rank in speakers | named if rank is not None}
    if "accused" in first.fields:
        accused = set(first.numbers("accused"))
    limit = case.ranks.size if case.ranks.is_size_known else None
    accused = {rank for rank in accused if limit is None or rank < limit}
    what = " ".join(first.fields.get("what", "").split())
    what = what or first.pattern.what or rule.summary
    if "raised" in first.fields and first.pattern.what:
        what = first.pattern.what
    host = first.fields.get("peer_server") or case.ranks.host(first)
    host = host or _host_of_tasks(case, first)
    if accused and len({case.ranks.host(event) for event in events} - {None}) > 1:
        host = None
    said = f": {what}" if accused or host else f"says: {what}"
    device = by_line[id(first)][1]
    said += f" (device {device} of its process)" if device and not accused else ""
    meaning = causes.meaning_of(first.text) if not first.pattern.advice else None
    advice = first.pattern.advice or (
        meaning.advice_for(first.text) if meaning and meaning.rule is rule else None
    )
    return cause_of(case, rule, accused, said, events, host=host, advice=advice or None)


def _host_of_tasks(case: Case, event: LogEvent) -> str | None:
    """Return the one host whose tasks ended because they were not started."""
    if event.kind is not Evidence.START:
        return None
    below = [one for one in case.by_kind[Evidence.EXIT]
             if one.file == event.file and one.line > event.line]  # fmt: skip
    own = [one for one in below if "exit" in one.fields]  # srun ends all others
    hosts = {case.ranks.host(one) for one in own or below}
    host = hosts.pop() if len(hosts) == 1 else None
    return host if host is None or re.fullmatch(r"[\w.-]+", host) else None


def _process_above(
    case: Case, event: LogEvent, cascades: Mapping[tuple[str, int], LogEvent]
) -> tuple[int | None, str]:
    """Return who says a line, and the device that its process sees.

    A code of CANN stands below a line of torch_npu, which names both; older ones have
    no process id of their own.
    """
    rank = case.ranks.speaker(event)
    if rank is not None or event.pattern.name != "hccl-code":
        return rank, ""
    near = ((event.file, line) for line in range(event.line - LINES_ABOVE, event.line))
    above = [cascades[place] for place in near if place in cascades]
    last = max((one.line for one in above if one.pattern is event.pattern), default=0)
    heads = [one for one in above if one.pattern.name == "npu-code" and one.line > last
             and event.fields.get("pid") in (None, one.fields["pid"])]  # fmt: skip
    if len({one.fields["pid"] for one in heads}) != 1:
        return None, ""
    device = heads[-1].fields["visible_device"]
    return case.ranks.speaker(heads[-1]), device if device.isdecimal() else ""


# Steps 5 and 6: nothing names a culprit


def _of_hosts(case: Case) -> Iterator[Cause]:
    """Yield a link or file server that is away, if nothing else says why others wait.

    Without anybody who waits or lost somebody, nothing says that the job needed it.
    """
    has_failed = any(
        event.kind is not Evidence.UNKNOWN and _is_error(event) for event in case.events
    )
    away = parts_away(case)
    if not has_failed or case.by_kind[Evidence.END]:
        return
    for event, text in away:
        is_link = event.pattern.name == "kernel-link"
        yield Cause(
            rule=rules.LINK if is_link else rules.STORAGE,
            host=case.ranks.host(event),
            headline=text,
            evidence=shortened([event], case),
            advice=event.pattern.advice,
        )


def parts_away(case: Case) -> list[tuple[LogEvent, str]]:
    """Return the links and file servers of hosts that went away and did not return.

    A link that was never up is one that nobody uses.
    """
    last: dict[tuple[str | None, str], LogEvent] = {}
    was_up: set[tuple[str | None, str]] = set()
    for event in case.by_kind[Evidence.HOST]:
        said = event.fields
        part = said.get("part") or said.get("part_of_bond")
        place = case.ranks.host(event) or event.file, part or ""
        last[place] = event
        if not _is_away(event):
            was_up.add(place)
    return [
        (event, event.pattern.what.format(part) + f" ({host})")
        for (host, part), event in last.items()
        if _is_away(event)
        and (event.pattern.name != "kernel-link" or (host, part) in was_up)
    ]


def other_kills(case: Case, found: Sequence[Cause]) -> Iterator[str]:
    """Yield what the kernel killed for memory, if no cause and nobody tells of it."""
    if any(cause.rule is rules.HOST_MEMORY for cause in found):
        return
    events = {event.fields["pid"]: event for event in reversed(case.kills)}
    for pid in [pid for pid in events if pid not in case.pids][:MAX_UNKNOWN]:
        event = events[pid]
        yield (
            f"the kernel of {case.ranks.host(event) or 'a host'} killed process {pid} "
            f"({event.fields['what']}) for memory ({event.file}:{event.line}); nothing "
            "else shows that it was of the job"
        )


def of_kernel(case: Case) -> list[LogEvent]:
    """Return the errors that a kernel tells beside the steps of a job.

    Kernels tell of all processes of a host, and for days: nothing joins these lines to
    the job if no process of it says that anything is wrong.
    """
    if not case.by_kind[Evidence.LIFE]:
        return []
    return [event for event in case.events
            if event.pattern.speaker == "kernel" and _is_error(event)
            and event.kind is not Evidence.EXIT
            and event.fields.get("pid") not in case.pids
            and case.ranks.speaker(event) is None
            and not case.ranks.has_process(event.fields.get("pid", ""))]  # fmt: skip


def kernel_notes(case: Case, found: Sequence[Cause]) -> Iterator[str]:
    """Yield what a kernel says that is not joined to anything, if nothing failed."""
    said = [one for one in of_kernel(case) if one.kind is not Evidence.OOM]
    for event in said[: 0 if found else MAX_UNKNOWN]:
        yield (
            f"the kernel of {case.ranks.host(event) or 'a host'} says: "
            f"{event.text.strip()[:160]} ({event.file}:{event.line}); nothing else "
            "shows that it was of the job"
        )


def _is_away(event: LogEvent) -> bool:
    return event.fields.get("state", "").lower() not in ("", "up", "ok")


def _is_stopped_below_end(case: Case, event: LogEvent) -> bool:
    """Whether a process was told to stop below a good end, and no step is between."""
    if not (_signal_of_stop(event) or event.pattern.name == "told-to-stop"):
        return False
    ends, steps = (
        [one.line for one in case.by_kind[kind]
         if one.file == event.file and one.line < event.line]
        for kind in (Evidence.END, Evidence.LIFE)
    )  # fmt: skip
    return max(ends, default=0) > max(steps, default=0)


def _rest(case: Case) -> Iterator[Cause]:
    """Yield that there are only consequences, or only errors that are not known."""
    events = [
        event
        for event in case.events
        if _is_error(event) and event.kind is not Evidence.UNKNOWN
    ]
    events = [event for event in events if not _is_stopped_below_end(case, event)]
    if {id(event) for event in events} <= set(map(id, of_kernel(case))):
        events = []
    if stopped := _stopped_by_hand(case, events):
        yield stopped
        return
    events.sort(key=lambda event: event.kind not in CONSEQUENCES)
    if events:
        in_groups = _in_groups(case)
        yield Cause(
            rule=rules.UNKNOWN,
            headline="the cause is not in these logs; these lines only follow from it"
            + (in_groups or _missing(case))
            + _lost_place(case)
            + _handled(case)
            + _alone(case),
            evidence=shortened(events, case),
            advice=_TELL_THE_RANK if in_groups else None,
        )
        return
    unknown = case.by_kind[Evidence.UNKNOWN] and unknown_errors(case)
    last = case.by_kind[Evidence.UNKNOWN]
    is_open = bool(unknown) and all(map(case.has_steps_below, last))
    if unknown and not case.by_kind[Evidence.END] and not is_open:
        yield Cause(
            rule=rules.UNKNOWN_ERROR,
            headline=told_unknown(case, unknown),
            evidence=tuple(unknown[:MAX_UNKNOWN]),
        )


def _stopped_by_hand(case: Case, events: Sequence[LogEvent]) -> Cause | None:
    """Return that a job was told to end, if nothing was wrong above the first line.

    SIGTERM counts only if a shell tells it and nothing else is known: launchers send it
    to the rest of a job that has failed.
    """
    told = [(event, name) for event in events if (name := _signal_of_stop(event))]
    first: dict[str, int] = {}
    for event, _ in told:
        first.setdefault(event.file, event.line)
    if not told or any(
        event.line < first.get(event.file, 0) or event.file not in first
        for event in events
        if event.kind is not Evidence.CASCADE
    ):
        return None
    signals = dict.fromkeys(name for _, name in told)
    what = f"was told to end by {' and '.join(signals)}; nothing failed above that"
    advice = (
        "SIGINT is Ctrl-C or a launcher that got it, SIGHUP a terminal that was closed "
        "(start the job with sbatch, tmux or nohup and setsid), SIGTERM what `kill`, a "
        "scheduler or a launcher sends. If it hung before, "
        "`py-spy dump --pid` of every rank shows where it stands."
    )
    lines = [event for event, _ in told]
    return Cause(rule=rules.SCHEDULER, headline=f"the job {what}", advice=advice,
                 evidence=shortened(lines, case))  # fmt: skip


def _signal_of_stop(event: LogEvent) -> str | None:
    """Return the signal by which a line says that a process was told to end."""
    if event.pattern.speaker == "shell":
        return "SIGTERM" if "Terminated" in event.fields.values() else None
    number = event.fields.get("stop") or event.fields.get("stop_signal")
    if number is not None:
        return {"1": "SIGHUP", "2": "SIGINT"}.get(number)
    is_interrupt = event.pattern.name == "stopped"
    is_interrupt &= "KeyboardInterrupt" in event.fields.get("what", "")
    return "SIGINT" if is_interrupt else None


def told_unknown(case: Case, unknown: Sequence[LogEvent]) -> str:
    """Return ``errors of unknown kind: 3 ranks, first n1/worker.log:88: text``."""
    speakers = {case.ranks.speaker(event) for event in unknown}
    ranks = sorted(rank for rank in speakers if rank is not None)
    who = name_of_process(unknown) or counted(len(unknown), "line")
    if ranks:
        who = f"{counted(len(ranks), 'rank')} ({folded(ranks)})"
    first = unknown[0]
    what = first.fields.get("what") or first.text
    return (
        f"errors of unknown kind: {who}, first {first.file}:{first.line}: "
        f"{what.strip()[:200]}"
    )


def _lost_place(case: Case) -> str:
    """Return the host with which a connection broke, if there is one of no log."""
    lost = case.by_kind[Evidence.CLOSED]
    said = {event.fields.get("peer_server") or event.fields.get("peer_address", "")
            for event in lost} - {""}  # fmt: skip
    places = {case.ranks.host_name(one) for one in said}
    here = {case.ranks.host(event) for event in case.events}
    if len(places) != 1 or places & here or any(map(is_loopback, said)):
        return ""
    return f"; the connection that broke was one to {places.pop()}"


def _handled(case: Case) -> str:
    """Return what one rank alone handled when it lost the others, if one did."""
    said = {
        case.ranks.speaker(event): event.fields["before"]
        for event in case.by_kind[Evidence.CLOSED]
        if "before" in event.fields
    }
    (rank, what), *others = [*said.items(), (None, "")]
    if rank is None or len(others) > 1 or not case.waiters - {rank}:
        return ""
    return f"; rank {rank} was handling {what[:100]} then, and may be the first"


def _alone(case: Case) -> str:
    """Return which rank alone lost the others, which all timed out at one operation."""
    calls = {(wait.group, wait.op, wait.seq) for wait in case.waits}
    left = list(case.waiters - {wait.rank for wait in case.waits})
    is_alone = len(left) == 1 < len(case.waits) and case.seen <= case.waiters
    if not is_alone or len(calls) != 1 or case.without_log:
        return ""
    _, op, seq = calls.pop()
    call = f"{op.partition(' of ')[0]} {seq}"
    return f"; rank {left[0]} alone did not time out in {call}, and may be the first"


def stacks(case: Case) -> Iterator[str]:
    """Yield where processes stand, by dumps of py-spy; equal ones are told together."""
    same: dict[str, list[LogEvent]] = defaultdict(list)
    for event in case.by_kind[Evidence.IDENTITY]:
        if event.pattern.name == "py-spy":
            frames = event.fields["stack"].splitlines()
            own = [one for one in frames if not _OF_LIBRARIES.search(one)][:1]
            where = " below ".join(dict.fromkeys([frames[0], *own]))
            same[where].append(event)
    for where, events in [*same.items()][:MAX_UNKNOWN]:
        ranks = sorted({r for e in events if (r := case.ranks.speaker(e)) is not None})
        who = f"rank{'s' * (len(ranks) > 1)} {folded(ranks)}" if ranks else "a process"
        verb = "stand" if len(ranks) > 1 else "stands"
        yield f"{who} {verb} in {where} (py-spy, {events[0].file}:{events[0].line})"


_TELL_THE_RANK = (
    "Give one log of each rank, named after it (rank_3.log, torchrun --log-dir), or "
    "let the launcher write the rank before each line (srun -l, mpirun --tag-output); "
    "torch 2.2 and later write [rank3] themselves."
)


def _in_groups(case: Case) -> str:
    """Return why nobody knows who waits, if torch tells ranks in groups alone."""
    waits = [
        event
        for event in case.by_kind[Evidence.TIMEOUT]
        if "group_rank" in event.fields and case.ranks.speaker(event) is None
    ]
    if not case.ranks.has_groups or not waits:
        return ""
    said = f"[Rank {waits[0].fields['group_rank']}]"
    return (
        f"; which ranks say them cannot be known: {said} of a torch before 2.2 counts "
        "within a group, and there are several groups"
    )


def _missing(case: Case) -> str:
    """Return which ranks no log was given of, as far as it can be known."""
    missing = sorted(case.without_log)
    if not missing:
        return ""
    return f"; no log was given of rank{'s' * (len(missing) > 1)} {folded(missing)}"
