"""Processes that ended by themselves, and did not say why."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from ranktable.doctor import causes, rules
from ranktable.doctor.causes import ABORT, signal_of
from ranktable.doctor.failure import HARD, SIGNAL, STATUS, Failure, failure_of
from ranktable.doctor.lines import launcher_of
from ranktable.doctor.patterns import CONSEQUENCES, Evidence
from ranktable.doctor.times import seconds_between
from ranktable.schema.text import folded

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from ranktable.doctor.case import Case
    from ranktable.doctor.lines import LogEvent

KILL_S = 10
"""How long after a failure torchrun surely has seen it; its SIGKILL comes after 30."""

_TELLING = (
    Evidence.EXCEPTION, Evidence.FAULT, Evidence.MEMORY, Evidence.MISMATCH,
    Evidence.LAUNCH, Evidence.START, Evidence.TABLE, Evidence.PORT, Evidence.SETTING,
    Evidence.LEFTOVER,
)  # fmt: skip
"""What a process says of its end; how it then ended tells nothing more."""

ENDS_ALL = ("vllm-engine", "lightning-child")
"""Messages of launchers that end all their processes, and themselves, by SIGKILL."""

RAISED = ("1", "17")
"""Statuses of processes that raised something: by Python, and by torch_xla."""

HYDRA = "mpi-running-at"
"""Message of the blocks in which hydra tells how its processes ended."""

LINES_BELOW = 3
"""How far below such a message a shell says that a process was killed."""

_LOST = (
    Evidence.TIMEOUT, Evidence.CLOSED, Evidence.LINK, Evidence.ABSENT,
    Evidence.HEARTBEAT,
)  # fmt: skip
"""What is said by those that abort as they have waited in vain, or lost another."""

_LOST_OR_AWAITED = (Evidence.CLOSED, Evidence.EDGE, Evidence.ABSENT)
"""What a process without a name may say before it ends with a status."""


def exits(case: Case) -> Iterator[Failure]:
    """Yield the processes that ended by themselves and did not say why."""
    stuck = {event.fields["pid"] for event in case.by_kind[Evidence.HEARTBEAT]
             if "pid" in event.fields}  # fmt: skip
    kinds = (*_TELLING, *CONSEQUENCES, Evidence.HEARTBEAT)
    said = (event for kind in kinds for event in case.by_kind[kind])
    told = {case.ranks.speaker(e) for e in said if e.pattern.speaker != "torchrun"}
    told |= case.waiters
    differs = {e.file for e in case.by_kind[Evidence.MISMATCH]
               if case.ranks.speaker(e) is None}  # fmt: skip
    refused = {e.file: e.line for e in reversed(case.by_kind[Evidence.MISMATCH])
               if "fingerprint_rank" in e.fields}  # fmt: skip
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
        is_lost |= (case.ranks.speaker(event) is None
                    and refused.get(event.file, event.line) < event.line)  # fmt: skip
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
                one = failure_of(case, rules.ENDED, what, event, STATUS)
                yield replace(one, rank=named)
        pid = event.fields.get("pid", "")
        is_told_to = case.was_closed(event)
        rank = case.ranks.speaker(event)
        is_told_to |= "ended_ranks" in event.fields or _follows_engine(case, event)
        is_told_to |= rank is None and event.pattern.speaker == "kernel"
        is_told_to |= _is_of_probed_pod(case, event)
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
    is_nameless = number is not None and case.ranks.speaker(event) is None
    return is_nameless and (event.file, number) in case.once(_that_lost_another)


def _that_lost_another(case: Case) -> set[tuple[str, int | None]]:
    """Return the ranks that lost or awaited another one, by the logs that say it."""
    return {(event.file, case.ranks.speaker(event)) for kind in _LOST_OR_AWAITED
            for event in case.by_kind[kind]}  # fmt: skip


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


def _is_of_probed_pod(case: Case, ended: LogEvent) -> bool:
    """Whether the kubelet ended a process, as nothing answered a probe of its pod."""
    if signal_of(ended) not in ("SIGKILL", "SIGTERM"):
        return False
    pods, own = case.once(_probed_pods)[ended.file], ended.fields.get("pod")
    return bool(pods & {own, None}) or (own is None and bool(pods))


def _probed_pods(case: Case) -> dict[str, set[str | None]]:
    """Return the pods of which a probe failed, None for any, by logs."""
    pods: dict[str, set[str | None]] = defaultdict(set)
    for event in case.by_kind[Evidence.HEARTBEAT]:
        if event.pattern.name == "pod-probe-failed":
            pods[event.file].add(event.fields.get("pod"))
    return pods


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
                              or _is_killed_by_hydra(case, event)
                              or _is_killed_after_a_wait(case, event)):  # fmt: skip
        return
    if name in ("SIGTERM", "SIGKILL") and _is_stopped_above(case, event):
        return
    if status in ended["stopped"]:
        is_first = event.pattern.name.startswith("horovod-first")
        if not is_first and (name is None or not is_told_who):
            return
    elif (
        name == ABORT
        and any(map(case.by_kind.get, _LOST))
        and not (is_said_by_it or _has_quiet_log(case, event))
    ):
        return  # what a watchdog does when it has waited in vain
    if status in ("0", "") and name is None and not event.pattern.what:
        return
    what = f"was ended by {name}" if name else f"ended with status {status}"
    what = event.pattern.what or what
    # Others may make it abort, and launchers send SIGTERM to those that are left.
    is_signal = name not in (None, "SIGTERM", ABORT)
    one = failure_of(case, rules.ENDED, what, event, SIGNAL if is_signal else STATUS)
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


def _has_quiet_log(case: Case, event: LogEvent) -> bool:
    """Whether the rank that ended tells no wait, and all that wait tell their ranks."""
    return case.ranks.speaker(event) in case.quiet and case.once(_are_waits_named)


def _are_waits_named(case: Case) -> bool:
    kinds = *_LOST, Evidence.MISMATCH, Evidence.EXCEPTION
    said = (event for kind in kinds for event in case.by_kind[kind])
    return all(case.ranks.speaker(event) is not None for event in said)


def _is_killed_by_hydra(case: Case, event: LogEvent) -> bool:
    """Whether hydra killed a process, as another one had crashed.

    It has a block for each, in the order of their ranks. Several abort as they have
    lost the one that was killed.
    """
    signals = case.once(_signals_of_hydra).get(event.file, [])
    crashes = {"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL"}.intersection(signals)
    is_of_hydra = event.pattern.name == HYDRA
    return is_of_hydra and (bool(crashes) or signals.count(ABORT) == 1)


def _signals_of_hydra(case: Case) -> dict[str, list[str | None]]:
    """Return by which signals processes ended, by the logs in which hydra says it."""
    signals: dict[str, list[str | None]] = defaultdict(list)
    for event in case.by_kind[Evidence.EXIT]:
        if event.pattern.name == HYDRA:
            signals[event.file].append(signal_of(event))
    return signals


def _is_killed_after_a_wait(case: Case, event: LogEvent) -> bool:
    """Whether a process without a name was killed below those that waited in vain.

    A supervisor kills what is left of a server that did not start.
    """
    names = {"rank", "task", "pid", "pod", "host", "local_rank", "voice"}
    if names & event.fields.keys():
        return False
    steps = [one.line for one in case.by_kind[Evidence.LIFE]
             if one.file == event.file and one.line < event.line]  # fmt: skip
    return any(
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
    one = failure_of(case, rule, what, event, strength)
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
