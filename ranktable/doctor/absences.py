"""Who was never there: ranks, tasks and hosts that did not join the job."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from ranktable.doctor import rules
from ranktable.doctor.headlines import Cause, cause_of, shortened
from ranktable.doctor.identity import MAX_RANKS
from ranktable.doctor.lines import numbers_in
from ranktable.doctor.patterns import Evidence
from ranktable.doctor.progress import NOT_YET
from ranktable.schema.text import counted, folded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ranktable.doctor.case import Case
    from ranktable.doctor.lines import LogEvent

_BEFORE_STEPS = ("pod-unscheduled", "mindspore-node", "msrun-nodes")
"""Messages of those that did not join, as long as nobody tells a step."""

_LINES_OF_REPORT = 2
"""How many lines apart the parts of one report of Horovod are at most."""


def stalled(case: Case) -> Iterator[Cause]:
    """Yield who did not submit the operations of the last report of Horovod.

    Ranks that miss different operations wait for each other.
    """
    events = [event for event in case.by_kind[Evidence.ABSENT]
              if event.pattern.name.startswith("horovod-stalled")]  # fmt: skip
    missing: dict[str, set[int]] = {}
    below: LogEvent | None = None
    for event in reversed(events):
        if below is not None and (
            event.file != below.file or below.line - event.line > _LINES_OF_REPORT
        ):
            break
        below = event
        missing = {**_not_submitted(case, event), **missing}
    if not missing:
        return
    for_all = set.intersection(*missing.values())
    if for_all:
        what = f"did not submit {min(missing)} to Horovod"
        yield cause_of(case, rules.SILENT, for_all, what, events[-4:])
    elif any(missing.values()):
        ranks = set().union(*missing.values())
        what = f": each misses operations of the others, such as {min(missing)}"
        yield cause_of(case, rules.DIFFERENT, ranks, what, events[-4:])


def _not_submitted(case: Case, event: LogEvent) -> dict[str, set[int]]:
    """Return operations, each with the ranks that it waits for."""
    said = event.fields
    if "stalled" not in said:
        ready = set(event.numbers("ready"))
        form = r", (\S+) \[ready ranks: ([\d, ]+)\]"
        others = re.findall(form, said.get("more", ""))
        of_ops = {op: set(numbers_in(ranks)) for op, ranks in others}
        of_ops[said["op"]] = ready
        all_ready = set().union(*of_ops.values())
        among = case.everyone() or range(max(all_ready, default=-1) + 1)
        if peers := set(event.numbers("peers")):
            return {said["op"]: peers}
        return {op: left for op, ranks in of_ops.items()
                if (left := set(among) - ranks)}  # fmt: skip
    found: dict[str, set[int]] = defaultdict(set)
    for rank, names in re.findall(r"(\d{1,7})!?: \[([^\]\n]*)\]", said["stalled"]):
        for name in names.removesuffix(" ...").split(", "):
            found[name].add(int(rank))
    return dict(found)


def not_started(case: Case) -> Iterator[Cause]:
    """Yield who did not begin the set-up of NCCL that no rank completed."""
    started: dict[tuple[str, int | None], dict[int, LogEvent]] = defaultdict(dict)
    completed: set[tuple[str, int | None]] = set()
    for event in case.by_kind[Evidence.IDENTITY]:
        rank, group = event.number("group_rank"), case.ranks.group(event)
        if event.fields.get("what") == "COMPLETE":
            completed.add(group)
        elif event.fields.get("what") == "START" and rank is not None:
            started[group][rank] = event
    for group, events in started.items():
        if group in completed or group[1] is None or group[1] != case.ranks.size:
            continue
        missing = {rank for rank in case.everyone() - set(events)
                   if case.is_covered(rank)}  # fmt: skip
        if missing:
            what = "did not begin the set-up of NCCL"
            sample = list(events.values())
            yield cause_of(case, rules.NEVER_JOINED, missing, what, sample)
            return


def _absences(case: Case) -> list[LogEvent]:
    """Return who did not join.

    Where steps are told, a pod without a node has started since then, and MindSpore's
    scheduler misses those that have ended, whatever the reason.
    """
    return [event for event in case.by_kind[Evidence.ABSENT]
            if not event.pattern.name.startswith(_BEFORE_STEPS)
            or not case.by_kind[Evidence.LIFE]]  # fmt: skip


def master_at_home(case: Case) -> Iterator[Cause]:
    """Yield who looks for the master on its own host while it waits on another."""
    edges = [event for event in case.by_kind[Evidence.EDGE] if is_of_master(event)]
    if edges and any(_num_missing(event) > 0 for event in case.by_kind[Evidence.ABSENT]
                     if event.pattern.name == "store-clients"):  # fmt: skip
        yield looks_at_home(case, edges)


def not_reached(case: Case) -> Iterator[Cause]:
    """Yield the ranks that did not reach the store in which some were missing.

    The store counts those that came; these say themselves why they did not.
    """
    counts = [
        event
        for event in case.by_kind[Evidence.ABSENT]
        if event.pattern.name == "store-clients" and _num_missing(event) > 0
    ]
    edges = [
        event
        for event in case.by_kind[Evidence.EDGE]
        if event.pattern.speaker == "store" and "port" in event.fields
    ]
    ranks = {rank for e in edges if (rank := case.ranks.speaker(e)) is not None}
    if counts and not ranks:  # then by the log that ends so, and counts nobody
        came = {event.file for event in counts}
        last = {event.file: event.line for event in case.events}
        ended = {event.file for event in edges if "[W" not in event.text
                 and event.line >= last[event.file]} - came  # fmt: skip
        edges = [event for event in edges if event.file in ended]
    number = len(ranks) or len({event.file for event in edges})
    if not counts or not 0 < number <= _num_missing(counts[-1]):
        return
    said = next((one for one in edges if "what" in one.fields), edges[0])
    where = f"{said.fields['peer_server']}, port {said.fields['port']}"
    why = f": {said.fields['what']}" if "what" in said.fields else ""
    yield cause_of(
        case,
        rules.UNREACHABLE,
        ranks,
        f"did not reach the store of the job at {where}{why}",
        [said, *counts[-1:]],
        host=None if ranks else case.ranks.host(said),
        advice=said.pattern.advice or None,
    )


def not_resolved(case: Case) -> Iterator[Cause]:
    """Yield the name that did not resolve where a process ended by it.

    Nobody else names who did not come: this one says why it did not. Neither a warning
    counts, since names of pods resolve only when these have started, nor an error below
    which its log tells more.
    """
    waits = _absences(case)
    if not waits or any(map(case.ranks.peers, waits)) or _tasks_below(case):
        return
    edges = [
        event
        for event in case.by_kind[Evidence.EDGE]
        if event.pattern.speaker == "store" and "gai error" in event.text
    ]
    last = {event.file: event.line for event in case.events}
    ends = [event for event in edges
            if "[W" not in event.text and event.line >= last[event.file]]  # fmt: skip
    if ends:
        files = {event.file for event in ends}
        told = (one for one in edges if one.file in files and "what" in one.fields)
        said = next(told, ends[0])
        why = f": {said.fields['what']}" if "what" in said.fields else ""
        yield cause_of(
            case,
            rules.UNREACHABLE,
            {rank for e in ends if (rank := case.ranks.speaker(e)) is not None},
            f"did not reach the master at {said.fields['peer_server']}{why}",
            [ends[0], *waits[-1:]],
            host=case.ranks.host(ends[0]),
            advice=said.pattern.advice or None,
        )


def is_of_master(event: LogEvent) -> bool:
    """Whether a process did not reach the master of its job, which its host is to be.

    In a job of one host that is right, and the master did not start, or has ended.
    """
    server = event.fields.get("peer_server", "")
    is_home = is_loopback(server) or server == "localhost"
    return is_home and event.pattern.speaker in ("store", "ranktable")


def looks_at_home(case: Case, events: Sequence[LogEvent]) -> Cause:
    """Return that some looked for the master on their own host."""
    said = events[0].fields
    what = f"looked for the master at {said['peer_server']}, port {said['port']}"
    ranks = {rank for e in events if (rank := case.ranks.speaker(e)) is not None}
    host = case.ranks.host(events[0])
    advice = (
        "In a job of several hosts, MASTER_ADDR has to be the name or address of the "
        "host of rank 0 on all of them. On one host, see whether rank 0 runs and "
        "listens on that port: `ss -ltnp`."
    )
    return cause_of(case, rules.UNREACHABLE, ranks, f"{what}, its own host", events,
                    host=host, advice=advice)  # fmt: skip


def absent(case: Case) -> Iterator[Cause]:
    """Yield who did not join, or how many, by those that waited for them."""
    events = _absences(case)
    named = [(event, case.ranks.peers(event)) for event in events]
    speakers = {case.ranks.speaker(event) for event in events}
    # Rank 0 counts them, and what it writes for the others waits until then.
    speakers |= {0} if any(e.pattern.name == "store-clients" for e in events) else set()
    missing = {rank for _, peers in named for rank in peers} - speakers
    missing |= _tasks_below(case)
    joined = {rank for event in events for rank in event.numbers("joined_ranks")}
    missing |= (case.everyone() if joined else set()) - joined
    counts = [event for event in events if _num_missing(event) > 0]
    hosts = [event for event in events if event.fields.get("peer_server")]
    if counts and not missing:
        number = _num_missing(counts[-1])
        size = counts[-1].number("size") or 0
        silent = set(range(min(size, MAX_RANKS))) - case.seen
        if size < (case.ranks.size or 0):
            silent = set()  # a group of some ranks: which ones, no line says
        pods = _pods_of_job(case, events)
        if len(silent) == number:
            missing = silent
        elif pods:  # says more than how many did not come
            events, counts, hosts = pods, [], []
        else:
            yield _some_never_joined(case, number, sorted(silent), counts)
            return
    operations = [e for e, peers in named if peers and {"op", "seq"} & e.fields.keys()]
    if missing and operations:
        said = operations[0].fields
        what = " ".join(said[name] for name in ("op", "seq") if name in said)
        what = f"did not take part in {what}"
        yield cause_of(case, rules.SILENT, missing, what, operations or events)
    elif missing:
        yield cause_of(case, rules.NEVER_JOINED, missing, "did not join", events)
    elif hosts:
        yield _hosts_did_not_join(case, hosts)
    elif events and not counts:
        text = _told_without_names(events)
        if text:
            yield Cause(rule=rules.NEVER_JOINED, headline=text,
                        evidence=shortened(events, case),
                        advice=events[0].pattern.advice or None)  # fmt: skip


def _pods_of_job(case: Case, events: Sequence[LogEvent]) -> list[LogEvent]:
    """Return the pods that wait for a node or volume, beside others of their job.

    Events of a namespace tell of other jobs, too: those of one job have one name but
    for the last two parts, such as ``fit-worker-1``.
    """
    started = {
        event.fields["pod"].rsplit("-", 2)[0]
        for event in case.by_kind[Evidence.IDENTITY]
        if event.pattern.name == "event-started" and "pod" in event.fields
    }
    waiting = (event for event in events if event.pattern.name in NOT_YET)
    return [event for event in waiting
            if event.fields.get("pod", "").rsplit("-", 2)[0] in started]  # fmt: skip


def _told_without_names(events: Sequence[LogEvent]) -> str:
    """Return what the first line says, with the nodes or the one pod that it names."""
    first = events[0]
    text = ": ".join(filter(None, (first.pattern.what, first.fields.get("what"))))
    pods = {event.fields.get("pod") for event in events}
    if len(pods) == 1 and (pod := pods.pop()):
        text = text.replace("a pod", f"pod {pod}", 1)
    if nodes := first.numbers("nodes"):
        text = f"node{'s' * (len(nodes) > 1)} {folded(nodes)} {text}"
    return text


def _hosts_did_not_join(case: Case, events: Sequence[LogEvent]) -> Cause:
    what, said = events[0].pattern.what or "did not join", events[0].fields
    names = re.findall(r"\(([^)]+)\)", said.get("absent_nodes", ""))
    if len(names) < 2:
        host = said["peer_server"]
        return cause_of(case, rules.NEVER_JOINED, (), what, events, host=host)
    return Cause(rule=rules.NEVER_JOINED, headline=f"{', '.join(names)} {what}",
                 evidence=shortened(events, case))  # fmt: skip


def _num_missing(event: LogEvent) -> int:
    """Return how many did not join, by a line that counts who did."""
    joined, size = event.number("joined"), event.number("size")
    return 0 if joined is None or size is None else size - joined


def _tasks_below(case: Case) -> set[int]:
    """Return the tasks of JAX that stand in lines of their own below a barrier."""
    tasks = {(event.file, event.line): case.ranks.peers(event)
             for event in case.by_kind[Evidence.HEARTBEAT]
             if event.pattern.name == "jax-silent"}  # fmt: skip
    found: set[int] = set()
    for event in case.by_kind[Evidence.ABSENT]:
        line = event.line + 1
        while (
            event.pattern.name.startswith("jax-barrier") and (event.file, line) in tasks
        ):
            found.update(tasks[event.file, line])
            line += 1
    return found


def too_many(case: Case) -> Iterator[Cause]:
    """Yield that more processes joined than the job has ranks."""
    events = [one for one in case.by_kind[Evidence.ABSENT] if _num_missing(one) < 0]
    if not events:
        return
    said = events[-1].fields
    yield Cause(
        rule=rules.LAUNCH,
        headline=f"{said['joined']} processes joined a job of {said['size']} ranks",
        evidence=shortened(events, case),
        advice="Processes of an earlier start, or of another job, use the same store: "
        "end them, or give this job another MASTER_PORT, and start it once.",
    )


def _some_never_joined(
    case: Case, number: int, silent: Sequence[int], events: Sequence[LogEvent]
) -> Cause:
    is_telling = 0 < len(silent) < 4 * number + 16
    among = f", among the ranks {folded(silent)}" if is_telling else ""
    return Cause(
        rule=rules.NEVER_JOINED,
        headline=f"{counted(number, 'rank')} never joined{among}",
        evidence=shortened(events, case),
    )


def is_loopback(address: str) -> bool:
    """Whether an address is reached on its own host alone."""
    return address.startswith("127.") or address.strip("[]") == "::1"
